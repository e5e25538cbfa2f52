"""torch.export's description of dynamic sizes, for the exporters and converters that start from the module."""

from __future__ import annotations

from typing import Any

from convert.records import Golden


def dynamic_shapes(golden: Golden, style: str = "free") -> tuple[dict[int, Any], ...]:
    """Per input, axis -> torch's description of the dynamic size.

    ``range`` states name, minimum and maximum; ``free`` leaves the relations between sizes (a multiple of 2, say) to
    the exporter; ``auto`` lets it fix a size, which the check then finds.
    """
    from torch.export import Dim

    dims = [dim for dim in golden.dims if dim.max > dim.min]
    made = {
        "range": lambda: {dim.name: Dim(dim.name, min=dim.min, max=dim.max) for dim in dims},
        "free": lambda: {dim.name: Dim.DYNAMIC for dim in dims},
        "auto": lambda: {dim.name: Dim.AUTO for dim in dims},
    }[style]()
    return tuple(
        {axis: made[size] for axis, size in enumerate(spec.shape) if isinstance(size, str) and size in made}
        for spec in golden.inputs
    )
