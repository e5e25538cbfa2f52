"""Toolkits that fail, users who lose patience, runs that meet: nothing is disturbed and nothing is left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.command import ODD, Done, Variables, finish, listing, run, start
from helpers.fakes import python_python, shell_python
from helpers.full_run import FullRun
from helpers.places import assert_clean, by_target, core_with, make_place, report_of
from helpers.processes import running_below, wait_until

from convert.records import Status

pytestmark = pytest.mark.toolkit

LIMIT = 12


# Toolkits that fail.


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory, small_onnx: Path) -> tuple[Path, Done]:
    """One run in which every job of two toolchains goes wrong, each in its own way."""
    place = make_place(tmp_path_factory.mktemp("faults"))
    eat = "held = b'x' * (3 << 30)\ntime.sleep(1000)\n"
    code = (
        "print('converting', job['args']['route'], flush=True)\n"
        "if job['args']['route'] == 'onnx2tf':\n"
        "    import subprocess\n    subprocess.run(['sleep', '1000'])\n"
        f"if job['args']['route'] == 'onnx2tf-frozen':\n    {eat.replace(chr(10), chr(10) + '    ')}\n"
        "for _ in range(30): sys.stdout.write('0123456789' * 100_000 + '\\n')\n"
        "print('still fine')"
    )
    variables: Variables = {
        "CONVERT_PYTHON_TVM": shell_python(place / "tvm", "echo lowering; echo 'tuning kernels' >&2; kill -SEGV $$"),
        "CONVERT_PYTHON_ONNX2TF": python_python(place / "onnx2tf", code),
        "TMPDIR": place / "temporary",
    }
    words = [small_onnx, "--target", "tflite,onnx,tvm", "--timeout", LIMIT, "--memory", "2G", "--bench-seconds", "0"]
    return place, run(*map(str, words), "--out", place / "out", cwd=place / "cwd", variables=variables)


def test_the_other_targets_finish(faults: tuple[Path, Done]) -> None:
    place, done = faults
    assert done.code == 1, done.stderr
    report = report_of(place / "out")
    assert report.exit_code == 1
    assert {name: outcome.status for name, outcome in by_target(report).items()} == {
        "tflite": Status.FAILED,
        "onnx": Status.PASSED,
        "tvm": Status.FAILED,
    }
    assert (place / "out/onnx/float32/model.onnx").is_file()
    assert not (place / "out/tvm").exists()
    assert not (place / "out/tflite").exists()


def test_a_segmentation_fault_is_one_row_with_stage_signal_and_log(faults: tuple[Path, Done]) -> None:
    place, done = faults
    tvm = by_target(report_of(place / "out"))["tvm"]
    said = "ended by SIGSEGV (a segmentation fault); last lines of its log: lowering | tuning kernels"
    assert (tvm.stage, tvm.route, tvm.files, tvm.checks, tvm.latency) == ("build", "onnx", (), (), None)
    assert tvm.reason == f"onnx: {said}"
    assert (tvm.routes[0].route, tvm.routes[0].status, tvm.routes[0].reason) == ("onnx", Status.FAILED, said)
    assert (place / "out" / tvm.routes[0].log).read_text(encoding="utf-8") == "lowering\ntuning kernels\n"
    assert f"tvm float32: failed at build: onnx: {said}" in done.stdout
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("tvm ") and "float32 " in line)
    assert row.split()[:4] == ["tvm", "float32", "failed", "onnx"]


def test_time_memory_and_silence_are_named(faults: tuple[Path, Done]) -> None:
    place, _ = faults
    tflite = by_target(report_of(place / "out"))["tflite"]
    ways = {route.route: route for route in tflite.routes}
    assert {route.status for route in tflite.routes} == {Status.FAILED, Status.SKIPPED}
    assert ways["onnx2tf"].reason == (
        f"stopped: it took longer than the limit of {LIMIT} s (--timeout); last lines of its log: converting onnx2tf"
    )
    assert LIMIT <= ways["onnx2tf"].seconds < LIMIT + 10
    assert ways["onnx2tf-frozen"].reason == (
        "stopped: it used more than the limit of 2 GiB (--memory); last lines of its log: converting onnx2tf-frozen"
    )
    silent = ways["tf_converter"]
    assert silent.reason.startswith("ended with exit code 0 and no answer; last lines of its log: ")
    assert silent.reason.endswith(" | still fine")
    assert len(silent.reason) < 1100
    size = (place / "out" / silent.log).stat().st_size
    assert 2**20 + 2**16 <= size < 2**20 + 2**18


def test_the_reason_of_a_failure_is_that_of_a_route_that_was_tried(faults: tuple[Path, Done]) -> None:
    place, _ = faults
    tflite = by_target(report_of(place / "out"))["tflite"]
    assert (tflite.stage, tflite.route) == ("build", "onnx2tf")
    assert tflite.reason == f"onnx2tf: {tflite.routes[1].reason}"


def test_faults_leave_nothing_behind(faults: tuple[Path, Done]) -> None:
    place, _ = faults
    assert_clean(place)
    assert not (place / "out" / "work").exists()


def test_a_toolchain_that_cannot_be_started_fails_alone(place: Path, small_onnx: Path) -> None:
    python = shell_python(place / "tvm", "")
    python.write_bytes(b"\x00no program")
    words = ["--target", "onnx,tvm", "--bench-seconds", "0", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables={"CONVERT_PYTHON_TVM": python})
    assert done.code == 1, done.stderr
    outcomes = by_target(report_of(place / "out"))
    assert (outcomes["onnx"].status, outcomes["tvm"].status) == (Status.PASSED, Status.FAILED)
    assert str(python) in outcomes["tvm"].reason


def test_an_answer_of_another_shape_fails_alone(place: Path, small_onnx: Path) -> None:
    python = python_python(place / "tvm", "answer(value={'target': 'tvm', 'surprise': 1})")
    words = ["--target", "onnx,tvm", "--bench-seconds", "0", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables={"CONVERT_PYTHON_TVM": python})
    assert done.code == 1, done.stderr
    outcomes = by_target(report_of(place / "out"))
    assert (outcomes["onnx"].status, outcomes["tvm"].status) == (Status.PASSED, Status.FAILED)
    assert "Artifact has no field ['surprise']" in outcomes["tvm"].reason


def test_crashes_after_the_build_are_failures_too(place: Path, small_onnx: Path) -> None:
    variables = core_with(
        place,
        {
            "onnx-float16-float16-check/answer.json": "echo loading; kill -SEGV $$",
            "bench-onnx-float32/answer.json": "echo timing; kill -BUS $$",
        },
    )
    words = ["-t", "onnx", "-p", "float32,float16", "--bench-seconds", "0.1", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 1, done.stderr
    full, half = report_of(place / "out").artifacts
    assert (full.status, full.stage, full.latency) == (Status.FAILED, "latency", None)
    assert full.reason == (
        "it passed the checks but could not be run repeatedly: onnx-float32: ended by SIGBUS (a bus error); "
        "last lines of its log: timing"
    )
    assert (half.status, half.stage) == (Status.FAILED, "check")
    assert half.reason == "ended by SIGSEGV (a segmentation fault); last lines of its log: loading"
    # What failed is not there to be taken for what passed.
    assert (full.files, half.files) == ((), ())
    assert [*(place / "out").rglob("*.onnx")] == []


def test_a_reference_that_crashes_costs_its_ratio_only(place: Path, small_onnx: Path) -> None:
    code = (
        "events, commands = os.fdopen(job['events'], 'w'), os.fdopen(job['commands'])\n"
        "def tell(**event): print(json.dumps(event), file=events, flush=True)\n"
        "tell(ready=True)\ncommands.readline()\ntell(times=[0.001])\ncommands.readline()\n"
        "os.kill(os.getpid(), signal.SIGSEGV)"
    )
    script = f'exec {shlex.quote(str(python_python(place / "crashing", code)))} "$@"'
    variables = core_with(place, {"bench-onnxruntime/answer.json": script})
    words = ["-t", "onnx", "-p", "float32,float16", "--bench-seconds", "0.1", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 0, done.stdout
    for outcome in report_of(place / "out").artifacts:
        assert (outcome.status, outcome.reason) == (Status.PASSED, "")
        assert outcome.latency is not None
        assert outcome.latency.ratio_to_onnxruntime is None
        assert outcome.latency.p50_ms > 0


def test_an_exporter_that_crashes_fails_what_needs_it(place: Path, small_onnx: Path) -> None:
    variables = core_with(place, {'"stage": "export"': "kill -ABRT $$"})
    words = ["-t", "onnx,trt", "--bench-seconds", "0", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 1, done.stderr
    report = report_of(place / "out")
    said = "as-given: ended by SIGABRT (an abort)"
    assert (report.export.status, report.export.reason) == (Status.FAILED, said)
    for outcome in report.artifacts:
        assert (outcome.status, outcome.stage) == (Status.FAILED, "export")
        assert outcome.reason == f"there is no ONNX graph ({said})"


def test_a_simplifier_that_crashes_costs_nothing(place: Path, small_onnx: Path) -> None:
    variables = core_with(place, {'"stage": "simplify"': "kill -SEGV $$"})
    words = ["-t", "onnx", "--bench-seconds", "0", "--out", str(place / "out")]
    done = run(small_onnx, *words, cwd=place / "cwd", variables=variables)
    assert done.code == 0, done.stderr
    assert report_of(place / "out").export.simplified is False


def test_a_source_that_crashes_ends_the_run(place: Path, small_onnx: Path) -> None:
    variables = core_with(place, {'"stage": "golden"': "echo reading; kill -SEGV $$"})
    out = place / "new" / "out"
    done = run(small_onnx, "-t", "onnx", "-q", "--out", out, cwd=place / "cwd", variables=variables)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr == (
        "convert: the source could not be run: ended by SIGSEGV (a segmentation fault); last lines of its log: "
        "reading\n"
    )
    assert_clean(place, out=out)


# Runs that meet, and where they may write.


def test_two_runs_at_once_do_not_disturb_each_other(place: Path, small_onnx: Path) -> None:
    folder = place / ODD
    folder.mkdir()
    models = [small_onnx, Path(shutil.copy(small_onnx, folder / f"{ODD}.onnx"))]
    runs = [
        start(model, "-t", "onnx", "-q", "--bench-seconds", "0.2", "--out", place / str(number), cwd=place / "cwd")
        for number, model in enumerate(models)
    ]
    done = [finish(process) for process in runs]
    assert [one.code for one in done] == [0, 0], [one.stderr for one in done]
    first, second = (report_of(place / str(number)) for number in range(2))
    assert first.model["path"] == str(models[0])
    assert second.model["path"] == str(models[1])
    assert first.model["sha256"] == second.model["sha256"]
    assert [file.path for file in first.files] == [file.path for file in second.files]
    assert_clean(place)


def test_a_factory_in_an_odd_place(place: Path) -> None:
    folder = place / ODD
    folder.mkdir()
    net = folder / "my net's.py"
    shutil.copy(Path(__file__).parent / "helpers" / "odd_net.py", net)
    (folder / "beside_it.py").write_text("SIZE = 8\n", encoding="utf-8")
    before = listing(folder)
    folder.chmod(0o555)
    words = ["-t", "onnx", "-q", "--bench-seconds", "0", "--out", str(place / "out"), "--input", "x=float32[N,8]"]
    variables = {"TMPDIR": place / "temporary"}
    done = run(f"{net}:make", "--samples", f"{net}:samples", *words, cwd=place / "cwd", variables=variables)
    folder.chmod(0o755)
    assert done.code == 0, done.stderr
    assert report_of(place / "out").model["path"] == str(net)
    assert listing(folder) == before  # not even a __pycache__
    assert_clean(place)


def test_odd_names_work_for_every_target(digits_run: FullRun) -> None:
    assert {one.target for one in digits_run.report.artifacts if one.status is Status.FAILED} == set()
    assert digits_run.report.model["path"] == str(digits_run.folders["input"] / f"model {ODD}.pt2")
    assert ODD in digits_run.done.stdout.splitlines()[-1]
    assert "sample0" in [case.name for case in digits_run.report.golden.cases]


def test_nothing_is_written_elsewhere(digits_run: FullRun) -> None:
    for name in ("input", "cwd", "temporary"):
        assert listing(digits_run.folders[name]) == digits_run.before[name], name
    assert [path.name for path in digits_run.out.parent.iterdir()] == [digits_run.out.name]
    assert [path.name for path in digits_run.folders["results"].iterdir()] == ["not there yet"]
    assert running_below(digits_run.folders["input"].parent) == []


def test_the_listing_would_notice_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    before = listing(tmp_path)
    (tmp_path / "a" / ".hidden").touch()
    assert before == {"a": b"folder"}
    assert listing(tmp_path) == {"a": b"folder", "a/.hidden": b""}


def test_the_search_would_notice_a_process(tmp_path: Path) -> None:
    assert running_below(tmp_path) == []
    with subprocess.Popen(["sleep", "60"], env=os.environ | {"TMPDIR": str(tmp_path / "sub")}) as process:
        wait_until(lambda: running_below(tmp_path) == ["sleep 60"], 5, "it is found")
        process.kill()
    assert running_below(tmp_path) == []
