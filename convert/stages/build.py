"""Stage 3: one artifact by one route, in that route's toolchain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convert.limits import all_limits
from convert.platforms import host_platform
from convert.qat.ranges import read_ranges
from convert.records import Artifact, Golden, ModelRef, Quantization
from convert.serial import from_plain
from convert.stages.calibration import calibration_data
from convert.targets import load_target
from convert.targets.base import BuildRequest
from convert.worker import Channel

#: Routes that compare results themselves, elsewhere or while they build.
WITH_LIMITS = ("recipe", "engine", "onnx-buckets")
#: Targets that compare what they made with the source, whatever the route.
COMPARING = ("tvm",)


def run(args: dict[str, Any], channel: Channel) -> Artifact:
    """Build what ``args`` describes (see :class:`convert.targets.base.BuildRequest`) and give its record."""
    channel.say(f"building by {args['route']}")
    return load_target(args["target"]).build(request_of(args))


def request_of(args: dict[str, Any]) -> BuildRequest:
    """The request that the arguments of this stage, and of the sensitivity run, stand for."""
    golden = from_plain(Golden, args["golden"])

    def source() -> Any:
        # Only here, so that the worker of a toolchain without torch can import this stage.
        from convert.stages.source import live_source

        return live_source(from_plain(ModelRef, args["ref"]), golden, fixed=bool(args.get("fixed")))

    target = load_target(args["target"])
    quantization = from_plain(Quantization, args["quantization"]) if args.get("quantization") else Quantization()
    settings = dict(args.get("settings", {}))
    if args["route"] in WITH_LIMITS or args["target"] in COMPARING:
        settings["limits"] = all_limits(golden, Path(args["golden_folder"]), args["precision"], target.tolerance.floors)
    return BuildRequest(
        target=args["target"],
        precision=args["precision"],
        route=args["route"],
        golden=golden,
        golden_folder=Path(args["golden_folder"]),
        folder=Path(args["folder"]),
        scratch=Path.cwd(),
        onnx=Path(args["onnx"]) if args.get("onnx") else None,
        base=from_plain(Artifact, args["base"]) if args.get("base") else None,
        base_folder=Path(args["base_folder"]) if args.get("base_folder") else None,
        source=source,
        settings=settings,
        calibration=None if args["precision"] == "float32" else calibration_data(quantization, golden),
        quantization=quantization,
        keep=tuple(args.get("keep", ())),
        ranges=read_ranges(args["ref"]["path"]) if args.get("ref") else None,
        platform=args.get("platform") or host_platform(),
        cpu=args.get("cpu") or "",
    )
