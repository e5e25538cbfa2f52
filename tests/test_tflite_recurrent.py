"""Recurrent layers of every kind become loops in a TFLite file that runs at any batch and length."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from helpers.command import ROOT, python_of

HELPER = ROOT / "tests" / "helpers" / "recurrent.py"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    words = [python_of("core"), HELPER, tmp_path_factory.mktemp("recurrent")]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.parametrize(("case", "loops"), [("all", 8), ("memory", 1), ("batch", 1)])
def test_right_at_every_batch_and_length(report: dict[str, Any], case: str, loops: int) -> None:
    # Two LSTM layers and one GRU layer in two directions, and two plain layers.
    assert report[case]["loops"] == loops
    assert report[case]["error"] < 2e-6
