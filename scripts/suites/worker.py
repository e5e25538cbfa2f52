"""First file of a child process that runs items: one JSON request a line on stdin, one JSON answer a line on a pipe.

It runs under the Python of any toolchain, so it loads the package ``convert`` by its folder, as workers of the
pipeline do, and leaves the rest of its parent's environment alone.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent.parent


def main(answers: int, module: str, function: str) -> None:
    """Answer every request with what ``function`` of ``module`` (a name or a file) gives for it, until stdin ends."""
    sys.path.insert(0, str(SCRIPTS.parent / "convert"))
    import _bootstrap  # type: ignore[import-not-found]  # the file beside the package, not a module of it

    del sys.path[0]
    _bootstrap._load_package()
    sys.path.append(str(SCRIPTS))
    from convert.models.factory import find

    handler = find(module, function) if module.endswith(".py") else getattr(import_module(module), function)
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        for line in sys.stdin:
            out.write(json.dumps(_answer(handler, json.loads(line))) + "\n")
            out.flush()
    # Toolkits crash in their exit handlers, after all that matters is done.
    os._exit(0)


def _answer(handler: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What ``handler`` gives, or ``refused`` with the message of whatever it raised."""
    from convert.errors import InputError, StageError
    from convert.models.factory import one_line

    try:
        return {"value": handler(**request)}
    except StageError as error:
        return {"refused": error.reason}
    except InputError as error:
        return {"refused": str(error)}
    except BaseException as error:  # toolkits call sys.exit, and one item must not end the others
        traceback.print_exc()
        return {"refused": one_line(error)}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
