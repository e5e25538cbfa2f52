"""The user's data as feeds of the source: every pass starts anew and holds a few samples at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from convert.cases import Plan, draw
from convert.errors import InputError
from convert.quantize.batching import Batch, Shapes, batches
from convert.quantize.pieces import Piece
from convert.quantize.reading import read
from convert.quantize.spool import read_index, read_spool, write_spool
from convert.records import Golden

RANDOM = "random"
#: Samples that are drawn where the user asked for random data and for no number.
RANDOM_SAMPLES = 128
#: Seeds of these draws begin here, away from those of the cases.
_SEED = 1000

Array = np.ndarray[Any, Any]
#: Gives all batches from the first, with or without labels.
Produce = Callable[[bool], Iterator[Batch]]


class Data:
    """Samples in batches; serves as :class:`convert.targets.base.CalibrationData`.

    Attributes:
        name: what the user called the data.
        random: they were drawn, so that nothing follows from them.
    """

    def __init__(
        self, name: str, produce: Produce, *, random: bool = False, seen: tuple[str, int] | None = None
    ) -> None:
        """Nothing is read yet; ``seen`` is the key and the number of samples, where they are known."""
        self.name, self.random = name, random
        self._produce, self._seen = produce, seen

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """The feeds of every batch, the last one filled up with samples of its own."""
        return (batch.feeds for batch in self._hashed(labels=False))

    def batches(self) -> Iterator[Batch]:
        """Every batch: feeds, labels and the number of real samples, which come first in it.

        Raises:
            InputError: as :meth:`check`, or there are not as many labels as samples.
        """
        return self._hashed(labels=True)

    def check(self) -> None:
        """Read all of it once.

        Raises:
            InputError: the first thing that does not fit the model, is damaged, not finite or not there at all.
        """
        for _ in self:
            pass

    @property
    def key(self) -> str:
        """Hash of all that a pass gives; equal keys mean equal batches. Reads everything where nobody has."""
        return self._once()[0]

    @property
    def samples(self) -> int:
        """How many samples there are. Reads everything where nobody has."""
        return self._once()[1]

    def _once(self) -> tuple[str, int]:
        if self._seen is None:
            self.check()
        assert self._seen is not None  # noqa: S101  (a pass to the end sets it)
        return self._seen

    def _hashed(self, *, labels: bool) -> Iterator[Batch]:
        digest, samples = hashlib.sha256(), 0
        for batch in self._produce(labels):
            samples += batch.samples
            digest.update(json.dumps([batch.samples, *map(_form, batch.feeds.items())]).encode())
            for value in batch.feeds.values():
                digest.update(np.ascontiguousarray(value).data)
            yield batch
        found = (digest.hexdigest(), samples)
        if self._seen not in (None, found):
            raise InputError(
                f"{self.name} gives other samples each time it is read, although random, numpy and torch are seeded; "
                "let it give the same ones in the same order"
            )
        self._seen = found


def _form(item: tuple[str, Array]) -> list[Any]:
    name, value = item
    return [name, value.dtype.str, list(value.shape)]


def open_data(
    text: str, golden: Golden, preprocess: str | None = None, limit: int | None = None, *, trust_pickle: bool = False
) -> Data:
    """The data that ``text`` names, as feeds of ``golden``'s inputs with every dynamic dimension at its optimum.

    Args:
        text: a ``.npz``, a ``.npy``, a file of ``torch.save``, a folder of images, ``file.py:function``,
            or ``random``.
        golden: the interface of the source; nothing else of it is looked at.
        preprocess: ``file.py:function``, from an image of a folder to an input.
        limit: samples after which they end; None for all.
        trust_pickle: code in a file of ``torch.save`` may run.

    Raises:
        InputError: when it is read and not before: there is no such thing, or it does not fit.
    """
    shapes = Shapes.of(golden.inputs, golden.dims)
    names = [spec.name for spec in golden.inputs]

    def produce(labels: bool) -> Iterator[Batch]:
        if text == RANDOM:
            yield from batches(_drawn(golden), shapes, text, limit or RANDOM_SAMPLES, labels=labels)
            return
        # Closed at once, and not when an error that holds on to it is forgotten.
        with closing(read(text, preprocess, names, trust_pickle)) as pieces:
            yield from batches(pieces, shapes, text, limit, labels=labels)

    return Data(text, produce, random=text == RANDOM)


def store(data: Data, folder: Path, *, labels: bool = False) -> Data:
    """Read ``data`` once and leave them in the new ``folder``, from which :func:`stored` reads them.

    So user code runs once, images are decoded once, and workers need neither torch nor Pillow for it.

    Raises:
        InputError: as :meth:`Data.check`, or the disk is too small.
    """
    source = data.batches() if labels else data._hashed(labels=False)
    write_spool(folder, source, {"name": data.name, "random": data.random}, lambda: data.key)
    return stored(folder)


def stored(folder: Path) -> Data:
    """What :func:`store` left in ``folder``. Only for folders of this run: labels are unpickled."""
    index = read_index(folder)
    return Data(
        index["name"],
        lambda labels: read_spool(folder, labels=labels),
        random=index["random"],
        seen=(index["key"], sum(index["samples"])),
    )


def _drawn(golden: Golden) -> Iterator[Piece]:
    """Draws like those of the cases, without end."""
    opt, seed = {dim.name: dim.opt for dim in golden.dims}, _SEED
    while True:
        yield Piece(draw(Plan("random", "draw", opt, seed), golden.inputs, {}))
        seed += 1
