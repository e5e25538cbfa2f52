"""Take a PyTorch model to every runtime, and prove each artifact against the source."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from convert.api import artifact_path, convert, load_report, outcome_of, show
    from convert.errors import ConversionFailed, ConvertError, InputError
    from convert.records import Report

__version__ = "0.1.0"

__all__ = [
    "ConversionFailed",
    "ConvertError",
    "InputError",
    "Report",
    "artifact_path",
    "convert",
    "load_report",
    "outcome_of",
    "show",
]

if not TYPE_CHECKING:  # a checker would take every name for one of the package
    _HOMES = {
        **dict.fromkeys(("artifact_path", "convert", "load_report", "outcome_of", "show"), "convert.api"),
        **dict.fromkeys(("ConversionFailed", "ConvertError", "InputError"), "convert.errors"),
        "Report": "convert.records",
    }

    def __getattr__(name: str) -> "Any":
        """Import what is asked for when it is asked for: the package itself stays light."""
        if name == "qat":
            from importlib import import_module

            return import_module("convert.qat")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
