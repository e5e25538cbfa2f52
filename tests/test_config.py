"""``convert.toml``: what it may hold, what wins, and ``convert init``, which writes one."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from helpers.command import run
from helpers.full_run import DIGITS

from convert import cli, config
from convert.config_keys import FORBIDDEN, KEYS
from convert.config_text import Known, render
from convert.errors import InputError
from convert.options import Options
from convert.records import Dim, InputSpec, Kind

FULL = """
target = ["onnx", "tflite"]
precision = "float32,float16"
input = ["x=float32[N,3]"]
dim = "N=1..2..3"
samples = "data.npz"
model = "nets.py:Net"
code = ["src"]
opset = 18
out = "build"
timeout = 30
memory = "2G"
threads = 2
jobs = 1
bench-seconds = 0
allow-deferred = true
[constant]
steps = 4
mode = "4"
scale = -inf
size = [2, 3]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with weights, the code of their module and other files."""
    shutil.copy(DIGITS / "weights.pt", tmp_path / "weights.pt")
    (tmp_path / "nets.py").write_text("class Net: ...\n", encoding="utf-8")
    (tmp_path / "data.npz").touch()
    (tmp_path / "src").mkdir()
    return tmp_path


def write(place: Path, text: str, name: str = "convert.toml") -> Path:
    """A file with options."""
    path = place / name
    path.write_text(text, encoding="utf-8")
    return path


def options(model: Path | str, *words: str) -> Options:
    """What the command line understands."""
    with cli.run.make_context("convert", [*words, str(model)]) as context:
        settled = cli._options(context.params.pop("model"), context.params)
    assert isinstance(settled, Options)
    return settled


def refused(model: Path | str, *words: str) -> str:
    """What the command line complains about."""
    with pytest.raises(InputError) as caught:
        options(model, *words)
    return str(caught.value)


def test_every_key_is_an_option_and_every_option_a_key() -> None:
    parameters = {item.name for item in cli.run.params if isinstance(item, click.Option)}
    assert {key.parameter for key in KEYS.values()} == parameters - {"trust_pickle", "config", "quiet", "debug"}
    names = {max(item.opts, key=len): item.name for item in cli.run.params if isinstance(item, click.Option)}
    assert {f"--{name}": key.parameter for name, key in KEYS.items()}.items() <= names.items()


def test_a_file_says_all_that_options_say(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(place, FULL)
    found = options(place / "weights.pt", "--config", str(path))
    assert found.targets == ("onnx", "tflite")
    assert found.precisions == ("float32", "float16")
    assert found.inputs == (InputSpec("x", "float32", ("N", 3)),)
    assert found.dims == (Dim("N", 1, 2, 3),)
    assert found.samples == str(place / "data.npz")
    assert (found.ref.kind, found.ref.factory_file, found.ref.factory) == (
        Kind.STATE_DICT,
        str(place / "nets.py"),
        "Net",
    )
    assert found.ref.code == (str(place / "src"),)
    assert found.ref.constants == ("steps=4", "mode='4'", "scale=-1e999", "size=[2, 3]")
    assert not found.ref.trust_pickle
    assert (found.opset, found.out, found.timeout, found.memory) == (18, place / "build", 30.0, 2 * 2**30)
    assert (found.threads, found.jobs, found.bench_seconds, found.allow_deferred) == (2, 1, 0.0, True)
    assert found.config is not None
    assert found.config.path == str(path)
    assert found.config.keys == tuple(tomllib.loads(FULL))
    assert found.config.note == (
        f"{', '.join(tomllib.loads(FULL))} taken from {path}; it names code that is run: {place}/nets.py:Net, "
        f"{place}/src"
    )


def test_options_win(place: Path) -> None:
    path = write(place, FULL)
    words = (
        "--target=tvm",
        "--precision=float32",
        "--input=y=float32[2]",
        "--model",
        str(place / "nets.py") + ":Other",
    )
    more = ("--constant=k=1", "--timeout=600", "--jobs=2", "--opset=17", "--threads=1", "--dim=N=1", "--samples=d.npz")
    found = options(place / "weights.pt", *words, *more, "--config", str(path))
    assert (found.targets, found.precisions, found.opset) == (("tvm",), ("float32",), 17)
    assert found.inputs == (InputSpec("y", "float32", (2,)),)
    assert found.dims == (Dim("N", 1, 1, 1),)
    assert (found.ref.factory, found.ref.constants) == ("Other", ("k=1",))
    assert (found.timeout, found.jobs, found.threads) == (600.0, 2, 1)  # also where they say the default
    assert found.samples == str(Path.cwd() / "d.npz")
    assert found.config == config.Used(
        str(path), ("code", "out", "memory", "bench-seconds", "allow-deferred"), (str(place / "src"),)
    )


def test_nothing_is_taken_where_options_say_all(place: Path) -> None:
    path = write(place, 'target = "onnx"')
    found = options(DIGITS / "digits.pt2", "-t", "tvm", "--config", str(path))
    assert found.targets == ("tvm",)
    assert found.config is not None
    assert found.config.note == f"nothing, since options say all that it says taken from {path}"


def test_only_a_file_beside_the_model_is_used(
    place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    model = Path(shutil.copy(DIGITS / "digits.pt2", elsewhere / "digits.pt2"))
    path = write(place, 'target = "tvm"\nout = "here"')
    monkeypatch.chdir(place)
    with pytest.raises(click.UsageError) as caught:
        options(model)
    assert caught.value.format_message() == "Missing option '--target' / '-t'."
    assert options(model, "-t", "onnx").config is None
    named = options(model, "--config", "convert.toml")
    assert (named.targets, named.out) == (("tvm",), place / "here")
    assert named.config == config.Used("convert.toml", ("target", "out"))
    beside = options(place / "nets.py:Net")  # a factory's file counts as the model
    assert beside.config == config.Used(str(path), ("target", "out"))
    assert options("nets:Net", "-t", "onnx").config is None
    write(elsewhere, 'target = "tflite"')
    assert options(model, "--config", str(path)).targets == ("tvm",)


def test_a_factory_in_a_module_is_looked_for_beside_the_file(place: Path) -> None:
    (place / "pkg").mkdir()
    for text, where in (
        ("pkg.mod:Net", str(place / "pkg.mod")),
        ("nets:Net", str(place / "nets")),
        ("../x/nets.py:Net", None),
        ("torchvision.models:resnet18", str(Path.cwd() / "torchvision.models")),
    ):
        path = str(write(place, f'target = "onnx"\nmodel = "{text}"'))
        if where is None:
            told = f"there is no file {place}/../x/nets.py to take Net from"
            assert refused(place / "weights.pt", "--config", path).startswith(told)
        else:
            assert options(place / "weights.pt", "--config", path).ref.factory_file == where


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('model = "nets.py:Net"', "{place}/nets.py:Net"),
        ('model = "torchvision.models:resnet18"', "torchvision.models:resnet18"),
        ('samples = "data.py:batches"', "{place}/data.py:batches"),
        ('code = "src"', "{place}/src"),
    ],
)
def test_a_file_that_came_with_the_model_runs_no_code(place: Path, line: str, code: str) -> None:
    path = write(place, f'target = "onnx"\n{line}')
    assert refused(place / "weights.pt") == (
        f"{path} names code that would be run ({code.format(place=place)}), and it may have come with the model; "
        f"say --config {path} if you trust it, or give these options yourself"
    )
    if not line.startswith("model"):
        assert options(place / "nets.py:Net").config is not None  # that runs code of this folder anyway


def test_a_file_that_came_with_the_model_sends_nothing_away(place: Path) -> None:
    path = write(place, 'target = "onnx"\ndevice = ["ssh://evil.example"]')
    assert refused(place / "weights.pt") == (
        f"{path} names devices that artifacts would be sent to (ssh://evil.example), and it may have come with the "
        f"model; say --config {path} if you trust it, or give these options yourself"
    )


def test_an_option_takes_the_place_of_code_in_the_file(place: Path) -> None:
    write(place, 'target = "onnx"\nmodel = "evil.py:Net"')
    assert options(place / "weights.pt", "--model", f"{place}/nets.py:Net").ref.factory == "Net"


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("targets = 'onnx'", f"has targets = 'onnx', but there is no such key; allowed are {', '.join(KEYS)}"),
        ("quiet = true", f"has quiet = True, but there is no such key; allowed are {', '.join(KEYS)}"),
        ("target = 3", 'has target = 3, but it must be names of runtimes, as "onnx,tflite" or ["onnx", "tflite"]'),
        ("target = ['onnx', 1]", "has target = ['onnx', 1], but it must be names of runtimes, as "),
        ("input = {x = 1}", "has input = {'x': 1}, but it must be a string such as \"x=float32[N,3,224,224]\" or a "),
        ("dim = ['']", "has dim = [''], but it must be a string such as \"N=1..4..16\" or a list of such"),
        ("opset = '18'", "has opset = '18', but it must be a whole number of 13 or more"),
        ("opset = 12", "has opset = 12, but it must be a whole number of 13 or more"),
        ("jobs = 0", "has jobs = 0, but it must be a whole number of 1 or more"),
        ("threads = true", "has threads = True, but it must be a whole number of 1 or more"),
        ("timeout = 0", "has timeout = 0, but it must be a number of seconds above 0"),
        ("timeout = nan", "has timeout = nan, but it must be a number of seconds above 0"),
        ("bench-seconds = -1", "has bench-seconds = -1, but it must be a number of seconds of 0 or more"),
        ("bench-seconds = inf", "has bench-seconds = inf, but it must be a number of seconds of 0 or more"),
        ("allow-deferred = 1", "has allow-deferred = 1, but it must be true or false"),
        ("memory = 0", 'has memory = 0, but it must be a size, as "8G", or a number of bytes'),
        ("samples = ['a.npz']", "has samples = ['a.npz'], but it must be a file or function, as "),
        ("code = 1", 'has code = 1, but it must be a folder, as "src", or a list of such'),
        (
            "constant = {a = nan}",
            "has constant = {'a': nan}, but it must be a table of values by name, a string such as \"steps=4\" or a "
            "list of such (nan cannot be written as a constant)",
        ),
        ("trust-pickle = true", "has trust-pickle = True, which cannot be said in a file: that may come with the "),
        ("trust_pickle = false", "has trust_pickle = False, which cannot be said in a file: that may come with the "),
    ],
)
def test_a_wrong_key_or_value_is_one_sentence(place: Path, line: str, rest: str) -> None:
    path = write(place, f"{line}\n")
    assert refused(place / "weights.pt", "-t", "onnx").startswith(f"{path} {rest}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("target = 'nope'", "--target 'nope' names nope; choose from "),
        ("input = 'x'", "--input 'x' is not of the form "),
        ("memory = 'lots'", "--memory 'lots' is not a size; "),
        ("code = 'none'", "--code PLACE/none is no folder; give the folder that the model's own modules lie in"),
        ("constant = '4'", "--constant '4' is not of the form "),
    ],
)
def test_a_value_that_its_option_would_not_take_names_the_file(place: Path, line: str, message: str) -> None:
    path = write(place, f"model = 'nets.py:Net'\n{line}\n")
    words = ["--config", str(path), *([] if line.startswith("target") else ["-t", "onnx"])]
    text = refused(place / "weights.pt", *words)
    assert text.startswith(message.replace("PLACE", str(place)))
    assert text.endswith(f" (from {path})")
    assert not refused(place / "weights.pt", "--config", str(path), "-t", "onnx,x").endswith(f" (from {path})")


def test_files_that_cannot_be_read(place: Path) -> None:
    path = write(place, "target = onnx")
    assert refused(place / "weights.pt").startswith(f"{path} is no TOML file (Invalid value ")
    path.write_bytes(b"target = '\xff'")
    assert refused(place / "weights.pt").startswith(f"{path} is no TOML file (")
    assert refused(place / "weights.pt", "--config", "/nowhere.toml") == (
        "--config /nowhere.toml cannot be read (No such file or directory); give a file such as convert.toml"
    )
    assert refused(place / "weights.pt", "--config", str(place)) == (
        f"--config {place} cannot be read (Is a directory); give a file such as convert.toml"
    )


def assignments(text: str) -> dict[str, Any]:
    """The values of a file, also those that are comments."""
    return tomllib.loads(re.sub(r"(?m)^# (?=[a-z-]+ = )", "", text))


def test_a_new_file_has_every_key_and_is_valid(tmp_path: Path) -> None:
    values = {"target": ["onnx"], "input": ['x"\\\x7f=float32[N]'], "dim": ["N=1..4..16"]}
    known = Known("a\nb.pt", "torchscript", "Net", 1234, values, {"input": ["found\nso"]})
    text = render(known, "convert.toml")
    assert tomllib.loads(text) == values
    assert list(assignments(text)) == list(KEYS)
    assert "# found so\ninput = " in text
    assert text.startswith("# Options of `convert` for a b.pt (torchscript: Net, 1,234 parameters).\n")
    assert "trust-pickle" not in text
    whole = re.sub(r"(?m)^# (?=[a-z-]+ = )", "", text)
    assert list(config.read(write(tmp_path, whole))) == list(KEYS)
    assert FORBIDDEN[0] in render(Known("a", "pickled-module", "Net", 1, {}, pickle=True), "convert.toml")


@pytest.mark.toolkit
def test_init_writes_what_a_file_says_and_never_writes_over_one(tmp_path: Path) -> None:
    shutil.copy(DIGITS / "digits.pt2", tmp_path / "digits.pt2")
    made = run("init", "digits.pt2", "-q", cwd=tmp_path)
    path = tmp_path / "convert.toml"
    assert (made.code, made.stdout, made.stderr) == (0, f"wrote {path}\n", "")
    text = path.read_text(encoding="utf-8")
    expected = {"target": ["onnx"], "input": ["image=float32[N,1,8,8]"], "dim": ["N=1..8..64"]}
    assert tomllib.loads(text) == expected
    again = run("init", "digits.pt2", cwd=tmp_path)
    assert (again.code, again.stdout) == (2, "")
    there = "is there already; write to another file with --out, or over it with --force"
    assert again.stderr == f"convert: {path} {there}\n"
    assert path.read_text(encoding="utf-8") == text
    assert sorted(item.name for item in tmp_path.iterdir()) == ["convert.toml", "digits.pt2"]
    found = options(tmp_path / "digits.pt2")
    assert found.inputs == (InputSpec("image", "float32", ("N", 1, 8, 8)),)
    assert found.config == config.Used(str(path), ("target", "input", "dim"))


@pytest.mark.toolkit
def test_init_writes_what_trying_finds(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("net.py", "weights.pt"):
        shutil.copy(DIGITS / name, tmp_path / "old" / name)
    path = tmp_path / "old" / "mine.toml"
    path.write_text("anything", encoding="utf-8")
    words = ("init", "old/weights.pt", "--model", "old/net.py:DigitsNet", "--out", path, "--force", "-q")
    made = run(*words, cwd=tmp_path)
    assert (made.code, made.stdout) == (0, f"wrote {path}\n"), made.stderr
    assert made.stderr.startswith("no inputs were given: assumed image=float32[N,1,28,28] from ")
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    assert values == {
        "target": ["onnx"],
        "input": ["image=float32[N,1,28,28]"],
        "dim": ["N=1..4..16"],
        "model": "net.py:DigitsNet",
    }
    assert options(tmp_path / "old" / "weights.pt", "--config", str(path)).ref.factory == "DigitsNet"
