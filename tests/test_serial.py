"""Records travel as JSON: what comes back is what was sent, and strict JSON can write it."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from convert import records
from convert.records import Artifact, Check, Dim, ExportRecord, Floor, Golden, Kind, Latency, Layer, Mixed, Status
from convert.serial import from_plain, read_json, to_plain, write_json

RECORDS = [kind for kind in vars(records).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
FLOATS = (0.1, math.nan, math.inf, -math.inf, 1e-320, 3.0)


def make(kind: Any, variant: int) -> Any:
    """A value of type ``kind``; each variant fills floats, unions and collections in another way."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = typing.get_type_hints(kind)
        return kind(**{name: make(hint, variant + place) for place, (name, hint) in enumerate(hints.items())})
    if origin in (types.UnionType, typing.Union):
        return make(args[variant % len(args)], variant // len(args))
    if origin is tuple and args[-1] is not Ellipsis:
        return tuple(make(arg, variant + place) for place, arg in enumerate(args))
    if origin is tuple:
        return tuple(make(args[0], variant + place) for place in range(variant % 3))
    if origin in (dict, Mapping):
        return {f"key {place}": make(args[1], variant + place) for place in range(variant % 3)}
    if isinstance(kind, type) and issubclass(kind, (Kind, Status)):
        return list(kind)[variant % len(kind)]
    plain: dict[Any, tuple[Any, ...]] = {
        float: FLOATS,
        int: (0, -3, 2**62),
        bool: (True, False),
        str: ("", 'é\n"x"', "NaN"),
        type(None): (None,),
        Any: (None, 1, "two", [3, {"four": 5.0}]),
    }
    return plain[kind][variant % len(plain[kind])]


def through_json(kind: Any, value: Any) -> Any:
    """``value`` written as strict JSON and read again."""
    return from_plain(kind, json.loads(json.dumps(to_plain(value), allow_nan=False)))


def test_every_record_is_covered() -> None:
    names = {kind.__name__ for kind in RECORDS}
    assert len(RECORDS) >= 16
    assert names >= {"Report", "Outcome", "Golden", "Case", "Floor", "Check", "Artifact", "Latency", "ExportRecord"}


@pytest.mark.parametrize("variant", range(12))
@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_record_comes_back_the_same(kind: type[Any], variant: int) -> None:
    record = make(kind, variant)
    back = through_json(kind, record)
    # repr tells 1 from 1.0, a list from a tuple, an enum from its text, and takes NaN for itself.
    assert repr(back) == repr(record)
    assert type(back) is kind


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_optional_fields_may_be_left_out(kind: type[Any]) -> None:
    hints = typing.get_type_hints(kind)
    needed = {
        field.name: make(hints[field.name], 1)
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    assert repr(from_plain(kind, to_plain(needed))) == repr(kind(**needed))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (1.5, 1.5),
        (None, None),
        (True, True),
        ((1, (2.0, "x")), [1, [2.0, "x"]]),
        ({1: (math.nan,)}, {"1": ["NaN"]}),
        (Dim("N", 1, 4, 16), {"name": "N", "min": 1, "opt": 4, "max": 16}),
        (Status.FAILED, "failed"),
    ],
)
def test_to_plain(value: Any, plain: Any) -> None:
    assert to_plain(value) == plain


def test_numbers_become_floats_where_a_float_is_meant() -> None:
    floor = from_plain(Floor, {"scale": 2, "max_error": 0, "rms_error": None})
    assert repr(floor) == "Floor(scale=2.0, max_error=0.0, rms_error=None, half_max=None, half_rms=None)"


def test_from_plain_of_a_tuple_of_records() -> None:
    checks = (Check("a", "y", "r", 1.0, 2.0, True), Check("b", "y", "r", math.inf, 0.0, False, {"N": 3}, 1.0, 2.0, "d"))
    assert through_json(tuple[Check, ...], checks) == checks


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (Dim, {"name": "N", "min": 1, "opt": 4, "max": "16"}, "expected <class 'int'>, got '16'"),
        (Dim, {"name": "N", "min": 1, "opt": 4}, "missing 1 required positional argument: 'max'"),
        (Dim, {"name": "N", "min": 1, "opt": 4, "max": 16, "step": 2}, r"Dim has no field \['step'\]"),
        (Dim, None, "expected the fields of Dim, got None"),
        (
            Check,
            {"case": "a", "output": "y", "rule": "", "figure": 0, "limit": 1, "passed": 1},
            "expected <class 'bool'>",
        ),
        (Check, {"case": "a", "output": "y", "rule": "", "figure": 0, "limit": 1, "passed": "yes"}, "got 'yes'"),
        (Check, {"case": "a", "output": "y", "rule": "", "figure": 0, "limit": 1, "passed": None}, "got None"),
        (Floor, {"scale": None, "max_error": None, "rms_error": None}, "NoneType"),
        (Floor, {"scale": 1.0, "max_error": "much", "rms_error": None}, "'much' is none of"),
        (Floor, {"scale": "much", "max_error": None, "rms_error": None}, "much"),
        (ExportRecord, {"status": "perfect", "route": "", "opset": 1, "reason": "", "routes": []}, "perfect"),
        (tuple[str, ...], "abc", "abc"),
    ],
)
def test_a_misfit_is_a_type_error(kind: Any, data: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_plain(kind, data)


def test_write_and_read(tmp_path: Path) -> None:
    latency = Latency(2, {"N": 4}, 30, 5, 1.0, 2.0, 3.0, 1000.0, 12.5, None, math.inf, warnings=("é",))
    path = tmp_path / "latency.json"
    write_json(path, latency)
    assert read_json(Latency, path) == latency
    assert path.read_text(encoding="utf-8").startswith('{\n  "threads": 2,\n')
    assert path.read_bytes().endswith(b"}\n")
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": object()})
    assert path.read_text(encoding="utf-8") == '{\n  "a": 1\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_write_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for value in ({"a": "long " * 100}, {"b": 2}):
        write_json(path, value)
    assert json.loads(path.read_text(encoding="utf-8")) == {"b": 2}


def test_records_are_frozen() -> None:
    for kind in RECORDS:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(make(kind, 1), dataclasses.fields(kind)[0].name, None)


def test_golden_from_text_of_its_kind() -> None:
    golden = Golden(Kind.ONNX, "m", 1, 4, (), (), (), (), "float64")
    assert to_plain(golden)["kind"] == "onnx"
    assert through_json(Golden, golden).kind is Kind.ONNX


def test_settings_of_an_artifact_may_hold_anything_plain() -> None:
    artifact = Artifact("t", "float32", "r", ("f",), (), settings={"a": [1, {"b": None}], "c": "d"})
    assert through_json(Artifact, artifact) == artifact


def test_a_curve_of_pairs_comes_back() -> None:
    mixed = Mixed((Layer("a", "CONV_2D", 0.5),), ("a",), ((0, 1.5), (1, float("inf"))))
    assert from_plain(Mixed, json.loads(json.dumps(to_plain(mixed)))) == mixed
    with pytest.raises(TypeError, match="expected 2 values"):
        from_plain(Mixed, to_plain(mixed) | {"curve": [[1]]})
