"""torch.export's description of dynamic sizes, for the converters that start from the module."""

from __future__ import annotations

from typing import Any

from convert.records import Golden


def free_shapes(golden: Golden) -> tuple[dict[int, Any], ...]:
    """Per input, axis -> a dynamic size whose relations to others the exporter may find out by itself."""
    from torch.export import Dim

    ranges = {dim.name: dim for dim in golden.dims if dim.max > dim.min}
    return tuple(
        {axis: Dim.DYNAMIC for axis, size in enumerate(spec.shape) if isinstance(size, str) and size in ranges}
        for spec in golden.inputs
    )
