"""A function of a Relax virtual machine as one of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convert.targets.tvm_bucket_engine import Array, Engine


def engine_of(main: Callable[..., Any]) -> Engine:
    """``main`` of a virtual machine, for arrays in and a list of arrays out, however many there are."""
    import tvm

    def call(feeds: list[Array]) -> list[Array]:
        result = main(*(tvm.runtime.tensor(np.asarray(feed, order="C")) for feed in feeds))
        values = [result] if hasattr(result, "numpy") else list(result)
        return [value.numpy() for value in values]

    return call
