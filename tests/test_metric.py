"""The user's own metric: what it is given, and every way in which it can go wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convert.errors import InputError
from convert.quantize.metric import score

PREDICTIONS = {"y": np.asarray([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], np.float32)}


def batches() -> list[tuple[dict[str, Any], Any]]:
    return [
        ({"x": np.zeros((2, 3), np.float32)}, np.asarray([0, 1])),
        ({"x": np.ones((1, 3), np.float32)}, np.asarray([0])),
    ]


def write(folder: Path, code: str) -> str:
    file = folder / f"own_{folder.name}.py"  # modules are kept by name
    file.write_text(textwrap.dedent(code))
    return f"{file}:measure"


def measure(folder: Path, body: str, data: Any = None) -> float:
    text = write(folder, "import numpy as np\ndef measure(predictions, data):\n" + textwrap.indent(body, "    "))
    return score(text, PREDICTIONS, batches() if data is None else data)


def refused(folder: Path, body: str, data: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        measure(folder, body, data)
    return str(caught.value).replace(f"{folder}/own_{folder.name}.py", "own.py")


ACCURACY = """\
labels = np.concatenate([labels for _, labels in data])
return np.mean(predictions["y"].argmax(-1) == labels)
"""


def test_accuracy(tmp_path: Path) -> None:
    found = measure(tmp_path, ACCURACY)
    assert found == pytest.approx(2 / 3)
    assert type(found) is float


def test_the_feeds_come_in_order(tmp_path: Path) -> None:
    assert measure(tmp_path, "return float(sum(i * feeds['x'].sum() for i, (feeds, _) in enumerate(data, 1)))") == 6.0


def test_data_that_are_made_anew_can_be_read_twice(tmp_path: Path) -> None:
    assert measure(tmp_path, "return len(list(data)) + len(list(data))") == 4.0


def test_data_that_can_be_read_only_once_say_so(tmp_path: Path) -> None:
    assert "RuntimeError: the data can be read only once; keep what is needed in a list" in refused(
        tmp_path, "return len(list(data)) + len(list(data))", iter(batches())
    )
    assert measure(tmp_path, "return len(list(data)) + len(list(data))") == 4.0


def test_predictions_of_the_caller_stay(tmp_path: Path) -> None:
    assert measure(tmp_path, "predictions.clear()\nreturn 1") == 1.0
    assert list(PREDICTIONS) == ["y"]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1", 1.0),
        ("-0.25", -0.25),
        ("np.float32(0.5)", 0.5),
        ("np.int64(3)", 3.0),
        ("np.asarray([[2.5]])", 2.5),
    ],
)
def test_numbers(tmp_path: Path, value: str, number: float) -> None:
    assert measure(tmp_path, f"return {value}") == number


def test_a_tensor_is_a_number(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert measure(tmp_path, "import torch\nreturn torch.tensor(0.5, requires_grad=True)") == 0.5


@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("None", "a NoneType"),
        ("'0.5'", "a str"),
        ("True", "a bool"),
        ("np.bool_(True)", "a bool"),
        ("0.5j", "a complex"),
        ("np.asarray([1.0, 2.0])", "a ndarray"),
        ("np.asarray([])", "a ndarray"),
        ("[0.5]", "a list"),
        ("{'accuracy': 0.5}", "a dict"),
        ("float('nan')", "nan"),
        ("np.float32('inf')", "inf"),
        ("-np.inf", "-inf"),
        ("10 ** 400", "an int that no float can hold"),
    ],
)
def test_what_is_no_finite_number(tmp_path: Path, value: str, given: str) -> None:
    assert refused(tmp_path, f"return {value}") == (
        f"--metric own.py:measure gives {given}; it must give one finite number, larger where the model is better"
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError('no\\nlabels')", "ValueError: no"),
        ("return predictions['z']", "KeyError: 'z'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_metric_that_fails(tmp_path: Path, body: str, reason: str) -> None:
    assert refused(tmp_path, body) == (
        f"--metric own.py:measure failed: {reason}; it is called with the predictions (a dict of arrays by output "
        "name) and the data (pairs of feeds and labels)"
    )


def test_a_function_of_other_arguments(tmp_path: Path) -> None:
    text = write(tmp_path, "def measure(predictions): return 1.0")
    with pytest.raises(InputError, match=r"failed: TypeError: measure\(\) takes 1 positional argument but 2 were"):
        score(text, PREDICTIONS, batches())


def test_the_datas_own_complaint_is_kept(tmp_path: Path) -> None:
    def data() -> Iterator[Any]:
        yield batches()[0]
        raise InputError("x in data.npz holds NaN")

    assert refused(tmp_path, ACCURACY, data()) == "x in data.npz holds NaN"


def test_what_is_not_there(tmp_path: Path) -> None:
    def sentence(text: str) -> str:
        with pytest.raises(InputError) as caught:
            score(text, PREDICTIONS, batches())
        return str(caught.value).replace(str(tmp_path), "HERE").replace(f"own_{tmp_path.name}", "own")

    file = write(tmp_path, "def accuracy(predictions, data): return 1.0\nnumber = 3").removesuffix(":measure")
    assert sentence(file) == "--metric HERE/own.py names no function; write file.py:function"
    assert sentence(f"{file}:measure") == "--metric HERE/own.py:measure: HERE/own.py has no measure; it has accuracy"
    assert sentence(f"{tmp_path}/no.py:measure") == (
        "--metric HERE/no.py:measure: there is no file HERE/no.py to take measure from; check the path before the colon"
    )
    assert sentence(f"{file}:number").startswith("--metric HERE/own.py:number: number of HERE/own.py is a int")
    (tmp_path / "broken.py").write_text("1 / 0")
    assert sentence(f"{tmp_path}/broken.py:measure") == (
        "--metric HERE/broken.py:measure: HERE/broken.py could not be imported: ZeroDivisionError: division by zero"
    )
