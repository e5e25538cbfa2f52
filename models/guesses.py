"""What a layer says of the tensor that goes into it: shapes worth trying as a model's input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

BATCH = "N"
_IMAGES = (224, 64, 32, 28, 8, 256, 128, 112, 96, 48, 40, 24, 20, 16, 12, 299, 384)
_SIGNALS = (1024, 256, 64, 16, 16_000, 4000, 512, 128, 100, 32, 8)
_VOLUMES = ((8, 32, 32), (16, 112, 112), (8, 64, 64), (16, 16, 16), (32, 32, 32), (8, 8, 8), (4, 8, 8))
_LATENTS = (1, 4, 7, 8, 16, 32, 64)
_STEPS = (16, 8, 32, 64, 128, 4, 10, 20, 50, 100, 256, 512)

type Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Guess:
    """An input worth trying.

    Attributes:
        origin: the layer it comes from, in words.
        shape: with ``N`` for the batch.
        high: largest value of an integer input, whose smallest is 0; None for others.
    """

    origin: str
    dtype: str
    shape: Shape
    high: int | None = None


@dataclass(frozen=True)
class Layer:
    """A layer as far as it matters here.

    Attributes:
        name: within the model; empty for the model itself.
        kind: the class of ``torch.nn`` that it is, or is like.
        size: channels, features or rows of a table.
        dtype: of its weights.
        batch_first: of recurrent and attention layers; None if it is not known.
        shape: of what it normalises or multiplies with, where that has several axes.
    """

    name: str
    kind: str
    size: int
    dtype: str
    batch_first: bool | None = None
    shape: tuple[int, ...] = ()


def guesses(layer: Layer) -> list[Guess]:
    """Inputs to try if ``layer`` is the first one, likeliest first."""
    origin = f"{layer.name or 'the model itself'} ({layer.kind}, {_size_in_words(layer)})"
    if layer.kind in ("Embedding", "EmbeddingBag"):
        return [Guess(origin, "int64", shape, layer.size - 1) for shape in _ids()]
    return [Guess(origin, layer.dtype, shape) for shape in dict.fromkeys(_shapes(layer))]


def _size_in_words(layer: Layer) -> str:
    if layer.shape:
        return f"shape {list(layer.shape)}"
    grid = layer.kind.startswith(("Conv", "BatchNorm", "InstanceNorm", "GroupNorm"))
    word = "row" if layer.kind.startswith("Embedding") else "channel" if grid else "feature"
    return f"{layer.size} {word}{'' if layer.size == 1 else 's'}"


def _ids() -> Iterator[Shape]:
    yield from ((BATCH, steps) for steps in _STEPS)
    yield (BATCH,)


def _shapes(layer: Layer) -> Iterator[Shape]:
    kind, size = layer.kind, layer.size
    if kind.startswith("ConvTranspose"):
        yield from _latents(kind, size)
    elif kind.startswith(("Conv", "BatchNorm", "InstanceNorm", "GroupNorm")):
        yield from _grids(kind, size)
    elif kind in ("LSTM", "GRU", "RNN", "MultiheadAttention"):
        yield from _sequences(size, layer.batch_first)
    elif kind.endswith("Cell"):
        yield (BATCH, size)
    elif layer.shape:
        yield (BATCH, *layer.shape[1 if layer.shape[0] == 1 else 0 :])
        yield (BATCH, _STEPS[0], *layer.shape)
    elif kind == "LayerNorm":
        yield from _sequences(size, True)
        yield (BATCH, size)
    else:
        yield from _features(size)


def _grids(kind: str, size: int) -> Iterator[Shape]:
    """Channels first; a single channel is often added by the model itself."""
    dimensions = next((int(digit) for digit in "123" if f"{digit}d" in kind), 2)
    if kind == "BatchNorm1d":
        yield (BATCH, size)
    if dimensions == 1:
        yield from ((BATCH, size, length) for length in _SIGNALS)
        yield from ((BATCH, length) for length in _SIGNALS if size == 1)
        yield from ((BATCH, length, size) for length in _SIGNALS[:4])
    elif dimensions == 3:
        yield from ((BATCH, size, *volume) for volume in _VOLUMES)
        yield from ((BATCH, *volume) for volume in _VOLUMES if size == 1)
    else:
        # Photographs have three channels; other numbers are those of digits, spectra, maps of a network before.
        sides = _IMAGES if size == 3 else (28, 32, 64, *_IMAGES)
        yield from ((BATCH, size, side, side) for side in sides)
        yield from ((BATCH, side, side) for side in _IMAGES if size == 1)
        yield from ((BATCH, length) for length in _SIGNALS if size == 1)
        yield from ((BATCH, side, side, size) for side in _IMAGES[:3])


def _latents(kind: str, size: int) -> Iterator[Shape]:
    dimensions = next((int(digit) for digit in "123" if f"{digit}d" in kind), 2)
    for side in _LATENTS:
        sides: Shape = (side,) * dimensions
        yield (BATCH, size, *sides)
    yield (BATCH, size)


def _sequences(size: int, batch_first: bool | None) -> Iterator[Shape]:
    for steps in _STEPS:
        if batch_first is not False:
            yield (BATCH, steps, size)
        if batch_first is not True:
            yield (steps, BATCH, size)


def _features(size: int) -> Iterator[Shape]:
    """Features last; a flattened image or the patches of one, where the number of features allows it."""
    yield (BATCH, size)
    yield from ((BATCH, steps, size) for steps in _STEPS)
    for channels in (1, 3):
        side = isqrt(size // channels)
        if side > 1 and channels * side * side == size:
            yield (BATCH, channels, side, side)
            yield from ((BATCH, channels, whole, whole) for whole in _IMAGES[:3] if whole > side and whole % side == 0)
    yield (BATCH, 8, 8, size)
