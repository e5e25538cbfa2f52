"""Arrays as users give them: numpy's own and torch's tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from convert.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def is_array(value: Any) -> bool:
    """Whether it is a numpy array or a tensor."""
    import numpy as np

    return isinstance(value, np.ndarray | np.generic) or hasattr(value, "detach")


def to_array(name: str, value: Any) -> Array:
    """A plain array of numbers or booleans; raises ``InputError`` for anything else."""
    import numpy as np

    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        try:
            value = (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()
        except (TypeError, RuntimeError) as error:  # sparse, quantised, or of a type that numpy has no word for
            raise InputError(f"{name} is a tensor that numpy cannot hold ({error}); give a dense one") from error
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {array.dtype}; only numbers and booleans can be used")
    return array


def array_of(name: str, value: Any, spec: str) -> Array:
    """As :func:`to_array`, for tensors and numpy arrays only; ``spec`` is where ``value`` was found."""
    if not is_array(value):
        raise InputError(f"{name} in {spec} is a {type(value).__name__} and no array; give a tensor or numpy array")
    return to_array(f"{name} in {spec}", value)
