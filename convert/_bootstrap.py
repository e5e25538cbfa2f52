"""First file that a worker runs: makes ``convert`` importable, and nothing else of its environment.

``_bootstrap.py ARGUMENT [MODULE]`` calls ``main(ARGUMENT)`` of that module of the package; a worker's own by default.

A worker may run on another environment's Python. Putting this package's parent folder on the path would bring along
whatever else is installed there (another numpy, say), so the one package is loaded from its own folder by name.
"""

import importlib
import importlib.util
import sys
from pathlib import Path


def _load_package() -> None:
    here = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        "convert", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    if spec is None or spec.loader is None:
        raise SystemExit(f"the package at {here} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules["convert"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_package()
    importlib.import_module(sys.argv[2] if len(sys.argv) > 2 else "convert.worker").main(sys.argv[1])
