"""Quantization-aware training: a module that computes as the integer kernels will, and trains as any module.

    qat = convert.qat.prepare(model, example_inputs)     # then train it
    convert.qat.save(qat, "model.pt2")                   # then: convert model.pt2 --target tflite --precision int8

Importing this imports no torch; the functions do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from convert.qat.module import QatModule
    from convert.qat.preparing import prepare
    from convert.qat.ranges import read_ranges
    from convert.qat.saving import save

__all__ = ["QatModule", "prepare", "read_ranges", "save"]

if not TYPE_CHECKING:  # a checker would take every name for one of the package
    _HOMES = {
        "QatModule": "convert.qat.module",
        "prepare": "convert.qat.preparing",
        "read_ranges": "convert.qat.ranges",
        "save": "convert.qat.saving",
    }

    def __getattr__(name: str) -> "Any":
        """Import what is asked for when it is asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
