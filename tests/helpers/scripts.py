"""Import a file of ``scripts/``, which is no package and on no path."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from helpers.command import ROOT


def load(name: str) -> ModuleType:
    """The module ``name`` of ``scripts/``, such as ``coverage_cells`` or ``suites.runner``."""
    folder = str(ROOT / "scripts")
    if folder not in sys.path:
        # Last, so that no name there hides another.
        sys.path.append(folder)
    return importlib.import_module(name)
