"""Which operators of torch can be prepared, and what each means for scales. Imports no toolkit."""

from __future__ import annotations

from collections.abc import Mapping

from convert.qat.plan import Kind

#: Bare names of aten operators; those that work in place are brought to these first.
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("conv2d", "linear"), Kind.LAYER),
    **dict.fromkeys(("add", "sub", "mul", "mean", "adaptive_avg_pool2d", "hardswish", "gelu"), Kind.COMPUTE),
    **dict.fromkeys(("relu", "relu6", "hardtanh"), Kind.ACTIVATION),
    **dict.fromkeys(("sigmoid", "tanh", "softmax", "_softmax"), Kind.FIXED),
    **dict.fromkeys(
        (
            "alias",
            "chunk",
            "clone",
            "constant_pad_nd",
            "contiguous",
            "detach",
            "dropout",
            "feature_dropout",
            "expand",
            "flatten",
            "getitem",
            "max_pool2d",
            "pad",
            "permute",
            "pixel_shuffle",
            "reshape",
            "select",
            "slice",
            "split",
            "split_with_sizes",
            "squeeze",
            "transpose",
            "unflatten",
            "unsqueeze",
            "upsample_nearest2d",
            "view",
        ),
        Kind.MOVE,
    ),
    **dict.fromkeys(("avg_pool2d", "upsample_bilinear2d"), Kind.POOL),
    "cat": Kind.CONCAT,
}

#: Scale and zero point that TFLite prescribes for the result (its int8 quantization specification).
FIXED: Mapping[str, tuple[float, int]] = {
    "sigmoid": (1 / 256, -128),
    "softmax": (1 / 256, -128),
    "_softmax": (1 / 256, -128),
    "tanh": (1 / 128, 0),
}

#: They leave a tensor as it is in eval mode.
DROPOUTS = ("dropout", "feature_dropout")


def list_of_operators() -> str:
    """For messages: what can be prepared, in the words of torch."""
    shown = sorted({name for name in KINDS if not name.startswith("_")} | {"batch_norm", "silu", "hardsigmoid", "div"})
    return ", ".join(shown)
