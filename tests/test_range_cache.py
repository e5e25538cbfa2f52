"""Measured ranges are used again for the very same model, data and settings, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convert.targets import range_cache
from convert.targets.range_cache import Measured, cached

FOUND: Measured = ({"x": (-1.0, 0.1 + 0.2), "y": (0.0, 1e-7)}, 3)
SETTINGS = {"data": "abc", "rule": "minmax", "percentile": 99.99, "bits": 8}


class Count:
    """Measures, and says how often it had to."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Measured:
        self.times += 1
        return FOUND


def test_measured_once_for_the_same(tmp_path: Path) -> None:
    count = Count()
    for _ in range(3):
        assert cached(str(tmp_path / "new"), b"model", SETTINGS, count) == FOUND
    assert count.times == 1
    assert [file.suffix for file in (tmp_path / "new").iterdir()] == [".json"]


@pytest.mark.parametrize(
    ("model", "other"),
    [(b"another", {}), (b"model", {"data": "abd"}), (b"model", {"rule": "mse"}), (b"model", {"bits": 16})],
)
def test_another_model_data_or_setting_is_measured_anew(tmp_path: Path, model: bytes, other: dict[str, Any]) -> None:
    count = Count()
    cached(str(tmp_path), b"model", SETTINGS, count)
    cached(str(tmp_path), model, SETTINGS | other, count)
    assert count.times == 2


@pytest.mark.parametrize("content", ["", "[]", '{"key": "other", "ranges": {}, "batches": 1}', '{"ranges": 3}', "\x00"])
def test_a_file_that_is_broken_or_anothers_counts_as_none(tmp_path: Path, content: str) -> None:
    count = Count()
    cached(str(tmp_path), b"model", SETTINGS, count)
    (file,) = tmp_path.iterdir()
    file.write_text(content)
    assert cached(str(tmp_path), b"model", SETTINGS, count) == FOUND
    assert count.times == 2
    assert cached(str(tmp_path), b"model", SETTINGS, count) == FOUND
    assert count.times == 2


def test_without_a_folder_nothing_is_kept_and_an_unwritable_one_does_no_harm(tmp_path: Path) -> None:
    count = Count()
    (tmp_path / "file").write_text("")
    for folder in (None, None, str(tmp_path / "file" / "below")):
        assert cached(folder, b"model", SETTINGS, count) == FOUND
    assert count.times == 3


def test_old_results_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_cache, "_MOST_FILES", 2)
    for number in range(5):
        cached(str(tmp_path), b"model", {"data": str(number)}, Count())
    assert len(list(tmp_path.iterdir())) == 2
