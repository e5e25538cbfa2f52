"""Build, check and time a recipe on a GPU host, by this project's own code: the script in the folder is not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.targets.trt_host.folder import BadRecipe, open_recipe
from convert.targets.trt_host.recipe import make
from convert.worker import Channel


def run(args: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Make what ``args['recipe']`` describes in ``args['out']``; gives the content of ``result.json``."""
    channel.say("building, checking and timing the engine")
    try:
        recipe = open_recipe(Path(args["recipe"]))
    except BadRecipe as error:
        raise InputError(str(error)) from error
    result = make(recipe, Path(args["out"]), timing_cache=args["timing_cache"])
    return {"status": result["status"], "stage": result["stage"], "reason": result["reason"]}
