"""Any document as ``convert.toml``: it is read, or refused in one sentence that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.fuzz import fuzz, require_sentence, words
from hypothesis import given
from hypothesis import strategies as st

from convert.cli import run
from convert.config import fill, read
from convert.config_keys import KEYS
from convert.errors import InputError
from convert.options import Options
from convert.run_options import settle

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.integers(-(16**40), 16**40),
        st.floats(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.sampled_from(["onnx", "float32", "x=float32[N]", "N=1..4", "8G", "a.py:b", "src", 13, 0, 1, ""]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3),
    ),
    max_leaves=6,
)
NAMES = st.one_of(
    st.sampled_from(list(KEYS)),
    st.sampled_from(list(KEYS)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)


def written(value: Any) -> str:
    """``value`` as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(str(key))} = {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value) if value >= 0 else str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in it."""
    folder = tmp_path_factory.mktemp("config")
    (folder / "m.onnx").write_bytes(b"\x08\x08\x3a\x04\x62\x02\x0a\x00")
    return folder


def settled(place: Path, document: bytes) -> Options | None:
    """The options that the document gives; None where it is refused as it should be."""
    file = place / "convert.toml"
    file.write_bytes(document)
    model = str(place / "m.onnx")
    given_words = run.make_context("run", [model]).params
    given_words.pop("model")
    given_words.pop("config")
    try:
        used = fill(model, given_words, file, lambda _: False)
        return settle(model, given_words | {"target": given_words["target"] or "onnx"}, used)
    except InputError as error:
        require_sentence(error, 1500)
        return None


@fuzz(500)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_values_are_read_or_refused(place: Path, values: dict[str, Any]) -> None:
    document = "".join(f"{written(key)} = {written(value)}\n" for key, value in values.items())
    settled(place, document.encode())


@fuzz(300)
@given(st.one_of(words().map(lambda text: text.encode("utf-8", "surrogateescape")), st.binary(max_size=60)))
def test_any_bytes_are_read_or_refused(place: Path, document: bytes) -> None:
    settled(place, document)


def test_a_good_document_is_read(place: Path) -> None:
    options = settled(place, b'target = ["onnx"]\ninput = "x=float32[N]"\nconstant = {steps = 4}\nthreads = 2\n')
    assert options is not None
    assert (options.targets, options.threads, options.ref.constants) == (("onnx",), 2, ("steps=4",))


# What fuzzing has found, once each.


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (
            "x = " + "1" * 5000,
            ' is no TOML file (a number has thousands of digits); write lines such as target = "onnx"',
        ),
        ("x = " + "[" * 3000, ' is nested too deeply; write lines such as target = "onnx"'),
        (
            "threads = 0x" + "f" * 9000,
            " has threads = a number with thousands of digits, but it must be a whole number of 1 or more",
        ),
        ("jobs = 0x10000000000000000", " has jobs = 18446744073709551616, but it must be a whole number of 1 or more"),
        (
            "timeout = 0x1" + "0" * 300,
            " has timeout = " + str(16**300)[:197] + "..., but it must be a number of seconds above 0",
        ),
        ("bench-seconds = nan", " has bench-seconds = nan, but it must be a number of seconds of 0 or more"),
        (
            'out = "a\\u0000b"',
            " has out = 'a\\x00b', but it must be a folder, as \"build\" (and without the character NUL)",
        ),
        (
            "constant = {'a=b' = 1}",
            " has constant = {'a=b': 1}, but it must be a table of values by name, a string such as \"steps=4\" or a "
            "list of such ('a=b' is no name of an argument)",
        ),
        (
            "constant = {a = 0x" + "f" * 9000 + "}",
            " has constant = a number with thousands of digits, but it must be a table of values by name, a string "
            'such as "steps=4" or a list of such (a number has thousands of digits)',
        ),
    ],
)
def test_a_value_that_nothing_can_hold(tmp_path: Path, text: str, rest: str) -> None:
    file = tmp_path / "convert.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value) == f"{file}{rest}"
