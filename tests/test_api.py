"""``convert.convert`` in scripts: what it gives, what it raises, what it leaves behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from helpers.command import ROOT, importing, listing
from helpers.places import assert_clean
from helpers.processes import running_below, wait_until

import convert
from convert import api, pipeline
from convert.errors import ConversionFailed, ConvertError, InputError
from convert.options import Options
from convert.progress import Progress
from convert.records import (
    Dim,
    ExportRecord,
    Golden,
    InputSpec,
    Kind,
    Outcome,
    OutputSpec,
    Report,
    Status,
)
from convert.serial import to_plain, write_json

GOLDEN = Golden(
    Kind.FACTORY,
    "Net",
    1,
    4,
    (InputSpec("x", "float32", ("N", 8)),),
    (Dim("N", 1, 4, 16),),
    (OutputSpec("output", "float32", ("N", 3)),),
    (),
    "float64",
)
PASSED = Outcome("onnx", "float32", "linux/amd64", Status.PASSED, "check", "", route="export")
FAILED = Outcome("tvm", "float32", "linux/amd64", Status.FAILED, "build", "no such operator")
DEFERRED = Outcome("trt", "float32", "linux/amd64", Status.DEFERRED, "build", "there is no GPU")
LIMIT = 300


def report_with(*outcomes: Outcome, code: int = 0) -> Report:
    export = ExportRecord(Status.PASSED, "dynamo", 20, "", ())
    return Report(1, "0.1", "2024-05-06", (), {}, {}, {}, {}, GOLDEN, export, outcomes, (), {}, code)


def script(folder: Path, text: str) -> Path:
    file = folder / "script.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


def python(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = importing() | variables
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )


# What it costs to import, and what is there.


@pytest.mark.parametrize("name", ["convert", "convert.api"])
def test_importing_it_loads_nothing_heavy(name: str, tmp_path: Path) -> None:
    heavy = {"torch", "numpy", "rich", "click", "psutil", "cloudpickle", "filelock"}
    done = python("-c", f"import {name}, sys; print(sorted({heavy!r} & set(sys.modules)))", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_names_of_the_package() -> None:
    assert set(convert.__all__) <= set(dir(convert))
    assert all(getattr(convert, name).__name__ == name for name in convert.__all__)
    with pytest.raises(AttributeError, match=r"^module 'convert' has no attribute 'nothing'$"):
        convert.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_types_are_complete(tmp_path: Path) -> None:
    text = """
        import convert
        from typing import assert_type
        from convert.records import Outcome

        report = convert.convert("net.py:make", targets=["onnx"], inputs="x=float32[N]", dims={"N": (1, 2, 3)})
        assert_type(report, convert.Report)
        assert_type(report.artifacts[0], Outcome)
        assert_type(convert.artifact_path(report, "onnx").name, str)
        try:
            convert.load_report("dist/net")
        except convert.ConversionFailed as error:
            assert_type(error.report, convert.Report)
        convert.convert("net.py:make")
        convert.nothing
        """
    file = script(tmp_path, text)
    settings = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = python("-m", "mypy", *settings, file, cwd=ROOT)
    errors = [re.sub(r"^.*script.py:", "", line) for line in done.stdout.splitlines() if "error:" in line]
    assert errors == [
        '14: error: Missing named argument "targets" for "convert"  [call-arg]',
        '15: error: Module has no attribute "nothing"  [attr-defined]',
    ], done.stdout + done.stderr


# What the pipeline is asked.


class Asked:
    """Stands for the pipeline: notes what it was asked for, and leaves a report."""

    def __init__(self, *outcomes: Outcome, code: int = 0) -> None:
        self.report = report_with(*outcomes, code=code)
        self.options: Any = None
        self.samples: dict[str, Any] = {}

    def __call__(self, options: Options, command: Sequence[str], progress: Progress) -> Report:
        self.options, self.progress = options, progress
        if options.samples is not None and options.samples.endswith(".npz"):
            with np.load(options.samples) as archive:
                self.samples = {name: archive[name] for name in archive.files}
        options.out.mkdir(parents=True)
        report = replace(self.report, command=tuple(command))
        write_json(options.out / "report.json", report)
        return report


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("def make(): ...\n", encoding="utf-8")
    return "net.py:make"


def test_everything_arrives(factory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(PASSED)
    monkeypatch.setattr(pipeline, "run", asked)
    report = convert.convert(
        factory,
        targets=["onnx", "tflite"],
        inputs={"x": "float32[N,8]"},
        precisions=("float32", "float16"),
        dims={"N": (1, 2, 8)},
        samples={"x": np.ones((2, 8), np.float32)},
        out=tmp_path / "out put",
        progress=False,
        bench_seconds=0,
        memory="2G",
        opset=None,
        allow_deferred=True,
        trust_pickle=False,
    )
    found: Options = asked.options
    assert (found.targets, found.precisions) == (("onnx", "tflite"), ("float32", "float16"))
    assert (found.inputs, found.dims) == ((InputSpec("x", "float32", ("N", 8)),), (Dim("N", 1, 2, 8),))
    assert (found.out, found.bench_seconds, found.memory) == (tmp_path / "out put", 0.0, 2 << 30)
    assert (found.allow_deferred, found.opset, found.timeout, found.threads) == (True, None, 600.0, 1)
    assert (found.ref.kind, found.ref.factory, found.ref.trust_pickle) == (Kind.FACTORY, "make", False)
    assert np.array_equal(asked.samples["x"], np.ones((2, 8)))
    assert not Path(str(found.samples)).exists()
    assert report.command[:2] == ("--target=onnx,tflite", "--precision=float32,float16")
    assert report.command[-2:] == ("--", factory)
    assert report.options["out"] == str(tmp_path / "out put")


def test_the_output_folder_is_named_after_the_model(factory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(PASSED)
    monkeypatch.setattr(pipeline, "run", asked)
    convert.convert(Path("net.py:make"), targets="onnx", inputs="x=float32[8]", progress=False)
    assert asked.options.out == Path("dist/make")


def test_examples_become_samples_unless_there_are_some(factory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    first, second = Asked(PASSED), Asked(PASSED)
    monkeypatch.setattr(pipeline, "run", first)
    convert.convert(factory, targets="onnx", inputs={"x": rows}, out="a", progress=False)
    assert first.options.inputs == (InputSpec("x", "float32", (4, 2)),)
    assert np.array_equal(first.samples["x"], rows)
    monkeypatch.setattr(pipeline, "run", second)
    convert.convert(factory, targets="onnx", inputs={"x": rows}, samples={"x": rows + 1}, out="b", progress=False)
    assert np.array_equal(second.samples["x"], rows + 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"targets": "onyx"},
            "--target 'onyx' names onyx; choose from onnx, tflite, tvm, trt, trt-rtx (",
        ),
        ({"targets": []}, "--target '' names nothing; choose from "),
        (
            {"targets": "onnx", "target": "onnx"},
            "there is no option 'target'; there are allow_deferred, auto_mixed, bench_seconds,",
        ),
        ({"targets": "onnx", "quiet": True}, "there is no option 'quiet'; there are "),
        ({"targets": "onnx", "trust_pickle": "yes"}, "trust_pickle is 'yes'; give True or False"),
        ({"targets": "onnx", "threads": 0}, "Invalid value for '--threads': 0 is not in the range x>=1."),
        ({"targets": "onnx", "threads": "two"}, "Invalid value for '--threads': 'two' is not a valid whole number."),
        ({"targets": "onnx", "inputs": "x"}, "--input 'x' is not of the form 'name=dtype[sizes]'"),
        ({"targets": "onnx", "dims": {"N": (4, 1)}}, "--dim 'N=4..1' must rise from MIN over OPT to MAX"),
        ({"targets": "onnx", "opset": 9}, "--opset 9 is too old; allowed are 13 to 20 for onnx"),
    ],
)
def test_what_is_refused_and_leaves_nothing(options: dict[str, Any], said: str, factory: str, tmp_path: Path) -> None:
    before = listing(tmp_path)
    with pytest.raises(InputError) as caught:
        convert.convert(factory, **options)
    assert str(caught.value).startswith(said)
    assert listing(tmp_path) == before


def test_options_that_can_be_repeated_take_lists_and_dicts() -> None:
    option = click.Option(["--constant", "constants"], multiple=True)
    wanted = ["--constant=causal=True", "--constant=mode='a,b'"]
    assert api._option_words(option, {"causal": True, "mode": "a,b"}) == wanted
    assert api._option_words(option, ["causal=True", "mode='a,b'"]) == wanted
    assert api._option_words(option, "causal=True") == wanted[:1]
    assert api._option_words(option, ()) == []


@pytest.mark.parametrize(("model", "kind"), [(7, "a int"), (dict, "the class dict"), (None, "a NoneType")])
def test_what_is_no_model(model: Any, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        convert.convert(model, targets="onnx")
    assert str(caught.value) == (
        f"the model is {kind}; give a torch.nn.Module (an instance), an exported program, a file or 'file.py:factory'"
    )


# What comes back.


@pytest.mark.parametrize(
    ("outcomes", "code", "said"),
    [
        ((PASSED, DEFERRED, FAILED), 1, "tvm float32 is failed at build: no such operator"),
        ((PASSED, DEFERRED), 3, "trt float32 is deferred at build: there is no GPU"),
    ],
)
def test_a_failure_is_a_row_unless_it_is_checked(
    outcomes: tuple[Outcome, ...], code: int, said: str, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "run", Asked(*outcomes, code=code))
    report = convert.convert(factory, targets="onnx", out="a", progress=False)
    assert (report.exit_code, report.artifacts) == (code, outcomes)
    with pytest.raises(ConversionFailed) as caught:
        convert.convert(factory, targets="onnx", out="b", progress=False, check=True)
    assert str(caught.value) == said
    assert isinstance(caught.value, ConvertError)
    assert (caught.value.exit_code, caught.value.report.artifacts) == (code, outcomes)
    assert Path("b/report.json").is_file()


def test_deferred_is_fine_where_it_is_allowed(factory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "run", Asked(PASSED, DEFERRED, code=0))
    report = convert.convert(factory, targets="onnx,trt", allow_deferred=True, check=True, progress=False)
    assert report.exit_code == 0


def test_the_file_of_an_artifact(tmp_path: Path) -> None:
    write_json(tmp_path / "report.json", report_with(PASSED, FAILED, code=1))
    report = convert.load_report(tmp_path)
    assert convert.outcome_of(report, "tvm") == FAILED
    refused = {
        "tvm": "tvm float32 has no proven artifact: it is failed at build: no such operator",
        "trt": "the report has no trt float32; it has onnx float32, tvm float32",
        "onnx": f"there is no file {tmp_path}/onnx/float32/manifest.json; was the output folder moved? read it with "
        "load_report(FOLDER)",
    }
    for target, said in refused.items():
        with pytest.raises(InputError) as caught:
            convert.artifact_path(report, target)
        assert str(caught.value) == said
    folder = tmp_path / "onnx" / "float32"
    folder.mkdir(parents=True)
    write_json(folder / "manifest.json", {"files": ["model.onnx", "model.onnx.data"]})
    assert convert.artifact_path(report, "onnx") == folder / "model.onnx"


def on(platform: str, host: str = "x86_64") -> Report:
    report = report_with(PASSED, replace(PASSED, platform=platform))
    return replace(report, host={"system": "Linux", "machine": host}, options={"out": "/out"})


def test_artifacts_for_several_platforms(tmp_path: Path) -> None:
    report = replace(on("linux/arm64"), options={"out": str(tmp_path)})
    assert convert.outcome_of(report, "onnx").platform == "linux/amd64"
    assert convert.outcome_of(report, "onnx", platform="linux/arm64").platform == "linux/arm64"
    folder = tmp_path / "linux-arm64" / "onnx" / "float32"
    folder.mkdir(parents=True)
    write_json(folder / "manifest.json", {"files": ["model.onnx"]})
    assert convert.artifact_path(report, "onnx", platform="linux/arm64") == folder / "model.onnx"
    with pytest.raises(InputError, match=r"^the report has no onnx linux/riscv64 float32; it has onnx float32, onnx "):
        convert.outcome_of(report, "onnx", platform="linux/riscv64")


def test_a_report_is_read_on_another_host(tmp_path: Path) -> None:
    one = replace(PASSED, platform="linux/arm64")
    report = replace(on(""), artifacts=(one,), options={"out": str(tmp_path)})
    assert convert.outcome_of(report, "onnx") == one
    with pytest.raises(InputError, match=f"there is no file {tmp_path}/linux-arm64/onnx/float32/manifest.json"):
        convert.artifact_path(report, "onnx")
    with pytest.raises(InputError, match=f"there is no file {tmp_path}/onnx/float32/manifest.json"):
        convert.artifact_path(replace(report, host={"system": "Linux", "machine": "aarch64"}), "onnx")


def test_several_platforms_and_none_of_them_the_host() -> None:
    with pytest.raises(InputError) as caught:
        convert.outcome_of(on("linux/arm64", host="riscv64"), "onnx")
    assert str(caught.value) == (
        "the report has onnx float32 for linux/amd64, linux/arm64; say which one with platform="
    )


def test_modules_for_ranges_of_sizes_are_no_one_file(tmp_path: Path) -> None:
    report = replace(report_with(replace(PASSED, target="tvm")), options={"out": str(tmp_path)})
    folder = tmp_path / "tvm" / "float32"
    folder.mkdir(parents=True)
    buckets = [{"file": "model-N1.so", "dims": {"N": 1}}, {"file": "model-N8.so", "dims": {"N": 8}}]
    files = [bucket["file"] for bucket in buckets]
    write_json(folder / "manifest.json", {"files": files, "settings": {"buckets": buckets}})
    with pytest.raises(InputError, match=r"^tvm float32 has 2 modules, one for each range of sizes, and no one file"):
        convert.artifact_path(report, "tvm")
    write_json(folder / "manifest.json", {"files": files[:1], "settings": {"buckets": buckets[:1]}})
    assert convert.artifact_path(report, "tvm") == folder / "model-N1.so"


def test_a_report_without_a_folder() -> None:
    with pytest.raises(InputError) as caught:
        convert.artifact_path(report_with(PASSED), "onnx")
    assert str(caught.value) == "this report does not say where its files are; read it with load_report(FOLDER)"


def test_reports_that_cannot_be_read(tmp_path: Path) -> None:
    file, good = tmp_path / "report.json", to_plain(report_with(PASSED))
    texts = {
        "{": f"{file} is no report (JSONDecodeError); give the output folder of a run",
        "[]": f"{file} is no report (TypeError); give the output folder of a run",
        json.dumps(
            good | {"schema_version": 99, "new": 1}
        ): f"{file} has the schema version 99, and this convert reads 1; update it",
        json.dumps(good | {"new": 1}): f"{file} does not fit its schema version (Report has no field ['new']); make it "
        "again",
    }
    with pytest.raises(InputError) as caught:
        convert.load_report(tmp_path)
    assert str(caught.value) == f"{tmp_path} has no report.json; give the output folder of a run"
    for text, said in texts.items():
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as caught:
            convert.load_report(tmp_path)
        assert str(caught.value) == said


# Real runs, in scripts of their own.


@pytest.mark.toolkit
def test_a_class_of_the_script_itself_without_a_main_guard(place: Path) -> None:
    text = """
        print("script starts")
        import os, torch, convert

        scale = torch.full((3,), 0.5)

        class Block(torch.nn.Module):
            def __init__(self, act):
                super().__init__()
                self.layer, self.act = torch.nn.Linear(8, 3), act
            def forward(self, x):
                return helper(self.act(self.layer(x)))

        def helper(value):
            return value * scale

        class Net(Block):
            def __init__(self):
                bend = 1.5
                super().__init__(lambda value: torch.tanh(value) * bend)
                self.drop = torch.nn.Dropout(0.5)
            def forward(self, x, *, y=None):
                return self.drop(super().forward(x)) - (0 if y is None else y)

        net = Net().train()
        weights = [value.clone() for value in net.parameters()]
        report = convert.convert(
            net, inputs=(torch.randn(4, 8),), dims={"N": (1, 2, 5)}, targets="onnx", out="../out", bench_seconds=0,
            check=True,
        )
        assert net.training and net.drop.training
        assert all(map(torch.equal, weights, net.parameters()))
        assert report.golden.inputs[0].shape == ("N", 8), report.golden
        assert [case.origin for case in report.golden.cases].count("sample") == 1
        assert report == convert.load_report("../out")
        assert os.listdir(os.environ["TMPDIR"]) == os.listdir() == []

        import onnxruntime
        session = onnxruntime.InferenceSession(convert.artifact_path(report, "onnx"))
        x = torch.randn(5, 8)
        found = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
        assert torch.allclose(found, net.eval()(x), atol=1e-5)
        print(report.golden.module, report.artifacts[0].status, report.options["out"])
        """
    file = script(place, text)
    done = python(file, cwd=place / "cwd", TMPDIR=str(place / "temporary"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"script starts\nNet passed {(place / 'out')}\n"
    assert done.stderr.splitlines()[0] == "source             loading the source"
    assert any(line.startswith("onnx float32       passed by export in ") for line in done.stderr.splitlines())
    assert running_below(place) == []


@pytest.mark.toolkit
def test_ctrl_c_in_a_script_leaves_nothing(place: Path) -> None:
    text = """
        import os, torch, convert

        here = os.getcwd()

        class Slow(torch.nn.Module):
            def forward(self, x):
                import pathlib, time
                pathlib.Path(here, "asleep").touch()
                time.sleep(1000)

        try:
            convert.convert(Slow(), inputs="x=float32[8]", targets="onnx", out="../made/out")
        except KeyboardInterrupt:
            print("interrupted")
        """
    with subprocess.Popen(
        [sys.executable, str(script(place, text))],
        cwd=place / "cwd",
        env=importing() | {"TMPDIR": str(place / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: (place / "cwd" / "asleep").exists(), 60, "the source runs")
            assert len(running_below(place / "made")) == 1
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    (place / "cwd" / "asleep").unlink()
    assert (process.returncode, stdout) == (0, "interrupted\n"), stderr
    assert_clean(place, out=place / "made" / "out")


@pytest.mark.toolkit
def test_code_that_the_worker_lacks_is_named_without_temporary_files(place: Path) -> None:
    (place / "own_nets.py").write_text(
        "import os, torch\nassert 'TQDM_DISABLE' not in os.environ, 'this is a worker'\n"
        "class Net(torch.nn.Module): ...\n",
        encoding="utf-8",
    )
    text = """
        import own_nets, convert
        try:
            convert.convert(own_nets.Net(), inputs="x=float32[8]", targets="onnx", progress=False)
        except convert.InputError as error:
            print(error)
        """
    done = python(script(place, text), cwd=place / "cwd", TMPDIR=str(place / "temporary"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the module Net cannot be read (AssertionError: this is a worker)"), done.stdout
    assert_clean(place)


@pytest.mark.toolkit
def test_the_examples_in_the_documentation_run(tmp_path: Path) -> None:
    document = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    file = tmp_path / "examples.py"
    file.write_text("\n".join(blocks), encoding="utf-8")
    done = python(file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[:4] == ["target", "precision", "status", "route"]
    assert lines[-2] == "onnx float32 passed "
    assert lines[-1] == "--opset 9 is too old; allowed are 13 to 20 for onnx"
