"""The frames between a session and the program that holds its artifact elsewhere."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from convert.remote import frames

ARRAYS: list[np.ndarray] = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array(2.5, np.float64),
    np.array([True, False]),
    np.zeros((0, 4), np.int64),
    np.arange(4, dtype=np.uint8),
    np.arange(12, dtype=np.float16).reshape(3, 4).T,
    np.arange(3, dtype=">i4"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_arrays_arrive_as_they_were(array: np.ndarray) -> None:
    line = io.BytesIO()
    frames.write_tensors(line, [array, array])
    line.seek(0)
    found = frames.read_tensors(line)
    assert len(found) == 2
    for one in found:
        assert one.dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(one, array)
        one[...] = 0  # what came is the receiver's own


def test_a_line_that_ends_in_the_middle() -> None:
    line = io.BytesIO()
    frames.write_tensors(line, ARRAYS[:1])
    whole = line.getvalue()
    for size in range(len(whole)):
        with pytest.raises(frames.Broken, match="ended in the middle"):
            frames.read_tensors(io.BytesIO(whole[:size]))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (struct.pack("<IIBB", 1, 65, 2, 32), "65 axes"),
        (struct.pack("<IIBB", 1, 0, 9, 32), "dtype code 9"),
        (struct.pack("<IIBB", 1, 0, 2, 12), "of 12 bits"),
        (struct.pack("<IIBBq", 1, 1, 2, 32, -1), r"the shape \[-1\]"),
    ],
)
def test_what_is_no_tensor(frame: bytes, why: str) -> None:
    with pytest.raises(frames.Broken, match=why):
        frames.read_tensors(io.BytesIO(frame))


def test_what_cannot_be_sent() -> None:
    with pytest.raises(frames.Broken, match="complex64"):
        frames.write_tensors(io.BytesIO(), [np.zeros(1, np.complex64)])


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (b"H" + struct.pack("<I", 1), ("H", 1)),
        (b"T" + struct.pack("<I2d", 2, 0.5, 0.25), ("T", [0.5, 0.25])),
        (b"M" + struct.pack("<Q", 1 << 33), ("M", 1 << 33)),
        (b"E" + struct.pack("<I", 3) + b"why", ("E", "why")),
    ],
)
def test_answers(frame: bytes, answer: object) -> None:
    assert frames.read_answer(io.BytesIO(frame)) == answer


def test_what_is_no_answer() -> None:
    with pytest.raises(frames.Broken, match="begins no answer"):
        frames.read_answer(io.BytesIO(b"warning: something was printed"))
