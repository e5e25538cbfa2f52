"""Options about integers: what is understood, and every contradiction in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from convert import cli, config
from convert.config_keys import KEYS
from convert.errors import InputError
from convert.quantize_options import OPTIONS
from convert.records import Quantization

DIGITS = Path(__file__).parent.parent / "models" / "digits"


def options(*words: str) -> Any:
    with cli.run.make_context("convert", [*words, "--target", "tflite", str(DIGITS / "digits.pt2")]) as context:
        return cli._options(context.params.pop("model"), context.params)


def asked(*words: str) -> Quantization:
    found: Quantization = options("--precision", "float32,int8", *words).quantization
    return found


def test_nothing_said_is_the_default() -> None:
    assert asked() == Quantization()
    assert options().quantization == Quantization()


def test_everything_said_is_understood() -> None:
    data = str(DIGITS / "samples.npz")
    found = asked(
        "--calibration", data, "--calibration-samples", "50", "--range", "percentile", "--percentile", "99.9",
        "--io-type", "int8", "--auto-mixed", "--min-sqnr", "22", "--metric", "score.py:top1",
        "--max-drop", "0.01",
    )  # fmt: skip
    assert found == Quantization(
        calibration=data,
        limit=50,
        rule="percentile",
        percentile=99.9,
        io_type="int8",
        auto_mixed=True,
        least_sqnr=22.0,
        metric=str(Path.cwd() / "score.py:top1"),
        max_drop=0.01,
    )
    assert asked("--calibration", "random").calibration == "random"


def test_a_folder_has_a_function_for_its_images(tmp_path: Path) -> None:
    found = asked("--calibration", str(tmp_path), "--preprocess", "prep.py:image")
    assert (found.calibration, found.preprocess) == (str(tmp_path), str(Path.cwd() / "prep.py:image"))


SAMPLES = str(DIGITS / "samples.npz")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-drop", "0.1"], "--max-drop is about --metric, which is missing; give --metric file.py:function"),
        (["--metric", "a.py:f"], "--metric needs real data to be measured on; give --evaluation or --calibration"),
        (
            ["--metric", "a.py:f", "--calibration", "random"],
            "--metric needs real data to be measured on; give --evaluation or --calibration",
        ),
        (
            ["--calibration-samples", "3"],
            "--calibration-samples limits what --calibration gives, which is missing; give --calibration",
        ),
        (
            ["--percentile", "99", "--calibration", SAMPLES],
            "--percentile belongs to --range percentile, and --range is minmax; change one of them",
        ),
        (
            ["--preprocess", "a.py:f"],
            f"--preprocess {Path.cwd()}/a.py:f reads the files of a folder, and --calibration is not given; give "
            "--calibration FOLDER, or leave --preprocess out",
        ),
        (
            ["--auto-mixed", "--require-full-integer"],
            "--auto-mixed keeps layers in float, which --require-full-integer forbids; leave one out",
        ),
        (["--evaluation", "random"], "--evaluation random measures nothing; give real inputs that were held out"),
        (["--calibration", ""], "--calibration '' is empty; give a file, a folder or file.py:function"),
    ],
)
def test_contradictions(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(*words)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--calibration", SAMPLES), ("--io-type", "int8"), ("--min-sqnr", "20"), ("--auto-mixed", None),
        ("--require-full-integer", None), ("--range", "mse"), ("--max-drop", "1"),
    ],
)  # fmt: skip
def test_without_integers_it_has_no_use(option: str, value: str | None) -> None:
    with pytest.raises(InputError) as caught:
        options(*([option] if value is None else [option, value]))
    assert str(caught.value) == (
        f"{option} is about integers, and --precision is float32; add one of int16x8, int8, int8-dynamic, or leave "
        f"{option} out"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--min-sqnr", "nan"], "Invalid value for '--min-sqnr': 'nan' is not a finite number."),
        (["--percentile", "50"], "Invalid value for '--percentile': 50.0 is not in the range 50<x<=100."),
        (["--io-type", "uint8"], "Invalid value for '--io-type': 'uint8' is not one of 'float', 'int8'."),
        (["--calibration-samples", "0"], "Invalid value for '--calibration-samples': 0 is not in the range x>=1."),
    ],
)
def test_values_that_no_option_takes(words: list[str], message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        asked(*words)
    assert caught.value.format_message() == message


FILE = """
precision = ["float32", "int8"]
calibration = "data.npz"
calibration-samples = 10
range = "mse"
io-type = "int8"
require-full-integer = true
min-sqnr = 20
metric = "score.py:top1"
max-drop = 0.5
"""


def test_a_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "convert.toml"
    path.write_text(FILE, encoding="utf-8")
    found = options("--config", str(path))
    assert found.quantization == Quantization(
        calibration=str(tmp_path / "data.npz"),
        limit=10,
        rule="mse",
        io_type="int8",
        require_full_integer=True,
        least_sqnr=20.0,
        metric=f"{tmp_path}/score.py:top1",
        max_drop=0.5,
    )
    assert found.config.code == (f"{tmp_path}/score.py:top1",)


def test_every_option_has_a_key() -> None:
    assert set(OPTIONS) <= {key.parameter for key in KEYS.values()}


@pytest.mark.parametrize(
    "line", ["percentile = 50", "range = 'all'", "io-type = 'uint8'", "min-sqnr = nan", "max-drop = -1"]
)
def test_a_wrong_value_in_a_file_says_what_is_allowed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "convert.toml"
    path.write_text(line, encoding="utf-8")
    key = line.split(" = ")[0]
    with pytest.raises(InputError, match=f"has {key} = .*, but it must be {KEYS[key].allowed[:20]}"):
        config.read(path)
