"""Tuning databases: files from others are data and nothing else, and two processes lose nothing to one another."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import command

from convert import tuning_files
from convert.errors import InputError
from convert.targets.tvm_tuning import database
from convert.targets.tvm_tuning.build import SHIPPED, Schedules, add_settings, known_schedules
from convert.targets.tvm_tuning.records import (
    MOST_RECORDS,
    Identity,
    Record,
    Records,
    Spent,
    Unreadable,
    Workload,
    from_json,
    to_json,
)
from convert.targets.tvm_tuning.trace import problem_of_trace

PI = Identity("0.27.0.post1", "aarch64", "cortex-a72", ("+neon",))
TRACE: Any = [
    [
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
        ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 64], ["v4", "v5"]],
        ["Split", ["l1", "v4", "v5"], [True, False], ["l6", "l7"]],
        ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v8"]],
        ["Annotate", ["l6", "v8"], ["pragma_auto_unroll_max_step"], []],
        ["Split", ["l2", None, 4], [1, 0], ["l9", "l10"]],
    ],
    [[3, [4, 2]], [5, 1]],
]
KEYS = [f"{number:016x}" for number in range(40)]


def records(*keys: str, identity: Identity = PI, seconds: float = 1e-3, trials: int = 8) -> Records:
    made = Records(identity, spent={"a" * 32: Spent(trials, 2.5)})
    for key in keys:
        record = Record(copy.deepcopy(TRACE), (seconds * 1.1, seconds))
        made.workloads[key] = Workload("matmul", "float32[8, 8]", 2e-3, trials, [record])
    return made


def test_a_database_survives_the_way_to_a_file_and_back(tmp_path: Path) -> None:
    wanted = records(*KEYS[:3])
    database.write(tmp_path / "x.json", wanted)
    assert database.read(tmp_path / "x.json") == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_the_file_of_a_cpu_is_its_own(tmp_path: Path) -> None:
    others = [
        Identity("0.28.0", PI.arch, PI.mcpu, PI.mattr),
        Identity(PI.tvm, "armv7", PI.mcpu, PI.mattr),
        Identity(PI.tvm, PI.arch, "cortex-a76", PI.mattr),
        Identity(PI.tvm, PI.arch, PI.mcpu),
    ]
    files = {database.file_of(tmp_path, one) for one in (PI, *others)}
    assert len(files) == 5
    database.write(database.file_of(tmp_path, PI), records(KEYS[0]))
    for other in others:
        assert database.read_for(database.file_of(tmp_path, PI), other).count == 0


def damaged(change: Callable[[Any], None]) -> Records:
    data = json.loads(json.dumps(to_json(records(*KEYS[:2]))))
    change(data)
    return from_json(data)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data.update(schema="x"), "it is no tuning database of this program"),
        (lambda data: data.update(version=2), "it has format 2, and this program reads format 1"),
        (lambda data: data.pop("target"), "it does not say which CPU it is for"),
        (lambda data: data["target"].update(mcpu="a b"), "it does not say which CPU and which version of TVM it is"),
        (lambda data: data["target"].update(mattr="+neon"), "it does not say which CPU and which version"),
        (lambda data: data.update(tvm=27), "it does not say which CPU and which version of TVM it is for"),
        (lambda data: data.update(workloads=[]), "its part 'workloads' is not a table of at most 50000 entries"),
    ],
)
def test_what_is_no_database_is_refused(change: Callable[[Any], None], told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        damaged(change)


def first(data: Any) -> Any:
    return data["workloads"][KEYS[0]]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: first(data).pop("records"),
        lambda data: first(data)["records"].__setitem__(0, "x"),
        lambda data: first(data)["records"][0].update(seconds=[]),
        lambda data: first(data)["records"][0].update(seconds=[-1.0]),
        lambda data: first(data)["records"][0].update(seconds=[True]),
        lambda data: first(data)["records"][0].update(trace="x"),
        lambda data: first(data)["records"][0]["trace"][0].append(["Tensorize", ["b0"], ["evil", True], []]),
        lambda data: data["workloads"].update({"../../x": first(data)}),
    ],
)
def test_an_entry_that_is_wrong_is_left_out_and_counted(change: Callable[[Any], None]) -> None:
    found = damaged(change)
    assert found.skipped == 1
    assert found.workloads[KEYS[1]] == records(KEYS[1]).workloads[KEYS[1]]


def step(*parts: Any) -> Callable[[Any], None]:
    return lambda trace: trace[0].append(list(parts))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (step("Annotate", ["l1", '"int f() {}"'], ["pragma_import_c"], []), "something else than names and numbers"),
        (step("Annotate", ["l1", '"x.ll"'], ["pragma_import_llvm"], []), "writes something else than what the search"),
        (step("Annotate", ["l1", 1], [["meta_schedule.parallel"]], []), "writes something else than what the search"),
        (step("Tensorize", ["b0"], ["intrinsic", True], []), "the step 'Tensorize' is not allowed"),
        (step("TransformLayout", ["b0"], [0, 1, "{}", None, True], []), "the step 'TransformLayout' is not allowed"),
        (step("UnsafeSetDType", ["b0"], [0, "int8"], []), "the step 'UnsafeSetDType' is not allowed"),
        (step("GetLoops", ["b0"], [{"x": 1}], []), "something else than names and numbers"),
        (step("GetLoops", ["b0"], [[["x"]]], []), "something else than names and numbers"),
        (step("GetLoops", ["b0"] * 300, [], []), "too long"),
        (step("GetLoops", ["b0"], []), "is not a name with three lists"),
        (step("Fuse", [2**40], [], []), "something else than names and numbers"),
        (lambda trace: trace[0].extend([trace[0][0]] * 2000), "has 2008 steps"),
        (lambda trace: trace[0].clear(), "has 0 steps"),
        (lambda trace: trace[1].append([99, 1]), "a decision is not a step with numbers"),
        (lambda trace: trace[1].append([1, "x"]), "a decision is not a step with numbers"),
        (lambda trace: trace.append([]), "is not a list of steps and a list of decisions"),
    ],
)
def test_a_trace_with_more_than_loops_in_it_is_refused(change: Callable[[Any], None], told: str) -> None:
    trace = copy.deepcopy(TRACE)
    assert problem_of_trace(trace) == ""
    change(trace)
    assert told in problem_of_trace(trace)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is not JSON, or was cut off"),
        (b'{"schema": "convert-tvm-tuning", "vers', "it is not JSON, or was cut off"),
        (b"\xff\xfe\x00", "it is not JSON, or was cut off"),
        (b'{"schema": NaN}', "it has NaN where a number is due"),
        (b"[" * 200_000, "its lists lie too deep in one another"),
        (b'{"version": ' + b"9" * 5000 + b"}", "it is not JSON, or was cut off"),
        (b"[]", "it is no tuning database"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(Unreadable, match=told):
        database.read(tmp_path / "x.json")


def test_a_file_beyond_the_limit_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MOST_BYTES", 1 << 20)
    (tmp_path / "x.json").write_bytes(b" " * (2 << 20))
    with pytest.raises(Unreadable, match="it has 2 MiB, and at most 1 MiB are read"):
        database.read(tmp_path / "x.json")


def test_the_best_schedules_of_both_are_kept() -> None:
    one, other = records(KEYS[0], seconds=2e-3), records(KEYS[0], KEYS[1], seconds=1e-3, trials=20)
    other.workloads[KEYS[0]].records[0].trace[1][0][1] = [2, 4]
    one.add(other)
    assert [record.cost for record in one.workloads[KEYS[0]].records] == [1e-3, 2e-3]
    assert one.workloads[KEYS[0]].trials == 20
    assert one.spent["a" * 32] == Spent(20, 2.5)
    one.add(other)
    assert len(one.workloads[KEYS[0]].records) == 2
    for number in range(20):
        more = records(KEYS[0], seconds=1e-4 * (number + 1))
        more.workloads[KEYS[0]].records[0].trace[1][1][1] = number
        one.add(more)
    assert len(one.workloads[KEYS[0]].records) == MOST_RECORDS
    assert one.workloads[KEYS[0]].records[0].cost == 1e-4


WRITER = """
import sys
from pathlib import Path
from convert.targets.tvm_tuning import database
from convert.targets.tvm_tuning.records import Identity, Workload
for key in sys.argv[2:]:
    def change(records, key=key):
        records.workloads[key] = Workload(name=key)
    database.update(Path(sys.argv[1]), Identity("1", "x", "y"), change)
"""


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), *KEYS[start::4]], env=command.importing())
        for start in range(4)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert sorted(database.read(file).workloads) == KEYS


def test_a_broken_database_here_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{", encoding="utf-8")
    database.update(file, PI, lambda found: found.add(records(KEYS[0])))
    assert database.read(file).count == 1
    assert (tmp_path / "x.broken").read_text(encoding="utf-8") == "{"


def test_what_a_build_takes(tmp_path: Path) -> None:
    own = database.file_of(tmp_path, PI)
    database.write(own, records(KEYS[0]))
    database.write(tmp_path / "more.json", records(KEYS[1], KEYS[2]))
    database.write(tmp_path / "foreign.json", records(*KEYS[:5], identity=Identity(PI.tvm, "x86_64", "znver4")))
    asked = {"folder": str(tmp_path), "file": None}
    assert sorted(known_schedules(PI, asked)[0].workloads) == KEYS[:1]
    found, foreign = known_schedules(PI, asked | {"file": str(tmp_path / "more.json")})
    assert (sorted(found.workloads), foreign) == (KEYS[:3], 0)
    found, foreign = known_schedules(PI, asked | {"file": str(tmp_path / "foreign.json")})
    assert (sorted(found.workloads), foreign) == (KEYS[:1], 5)


def test_the_kernels_of_several_modules_are_told_together() -> None:
    settings: dict[str, Any] = {}
    for count in (1, 2):
        tuning = {"kernels": count, "applied": [{"kernel": f"k{count}"}], "cpu": "x86_64 znver4"}
        add_settings(settings, {"target": {"kind": "llvm"}, "tuning": tuning})
    applied = [{"kernel": "k1"}, {"kernel": "k2"}]
    assert settings["tuning"] == {"kernels": 3, "applied": applied, "cpu": "x86_64 znver4"}
    add_settings(settings, {"target": {}})
    assert settings["tuning"]["kernels"] == 3


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the databases here, with one in it."""
    monkeypatch.setenv("CONVERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning_files, "tvm_version", lambda: PI.tvm)
    monkeypatch.setattr("convert.tuning_options.tvm_version", lambda: PI.tvm)
    folder = tmp_path / "cache" / "tuning"
    folder.mkdir(parents=True)
    database.write(database.file_of(folder, PI), records(*KEYS[:2]))
    return folder


def test_a_database_goes_elsewhere_and_back(kept: Path, tmp_path: Path) -> None:
    (file,) = database.files_in(kept)
    said = tuning_files.export(file.stem, tmp_path / "pi.json")
    assert said == f"{tmp_path / 'pi.json'}: 2 kernels for aarch64 cortex-a72 +neon, TVM 0.27.0.post1"
    exported = database.read(tmp_path / "pi.json")
    assert exported.workloads == records(*KEYS[:2]).workloads
    assert exported.spent == {}
    other = records(*KEYS[1:5], seconds=1e-4)
    other.workloads[KEYS[1]].records[0].trace[1][1][1] = 0
    database.write(tmp_path / "other.json", other)
    assert tuning_files.merge([str(tmp_path / "pi.json"), str(tmp_path / "other.json")]) == [
        f"{tmp_path / 'pi.json'}: 2 kernels for aarch64 cortex-a72 +neon, 0 of them new, into {file.stem}",
        f"{tmp_path / 'other.json'}: 4 kernels for aarch64 cortex-a72 +neon, 3 of them new, into {file.stem}",
    ]
    assert sorted(database.read(file).workloads) == KEYS[:5]
    assert database.read(file).workloads[KEYS[1]].records[0].cost == 1e-4
    assert tuning_files.remove([file.stem]) == [f"{file.stem}: removed"]
    assert database.files_in(kept) == []


def test_a_merge_of_a_wrong_file_takes_nothing(kept: Path, tmp_path: Path) -> None:
    database.write(tmp_path / "good.json", records(*KEYS[5:7]))
    database.write(tmp_path / "old.json", records(KEYS[9], identity=Identity("0.26.0", "aarch64", "cortex-a72")))
    with pytest.raises(InputError, match=r"old.json is for TVM 0.26.0, and the toolchain tvm has 0.27.0.post1; tune"):
        tuning_files.merge([str(tmp_path / "good.json"), str(tmp_path / "old.json")])
    (file,) = database.files_in(kept)
    assert sorted(database.read(file).workloads) == KEYS[:2]
    with pytest.raises(InputError, match=f"there is no tuning database 'x'; there are {file.stem}"):
        tuning_files.export("x", tmp_path / "x.json")
    with pytest.raises(InputError, match=r"cannot be written .* give another file"):
        tuning_files.export(file.stem, tmp_path / "good.json" / "x.json")


def test_the_list_by_the_command_line(kept: Path, tmp_path: Path) -> None:
    (kept / "broken.json").write_text("{", encoding="utf-8")
    done = command.run("tuning", "list", cwd=tmp_path, variables={"CONVERT_CACHE": kept.parent})
    lines = done.stdout.splitlines()
    assert (done.code, len(lines)) == (0, 3)
    assert lines[1].startswith("aarch64-cortex-a72-")
    assert lines[1].split()[1:] == ["aarch64", "cortex-a72", "+neon", "0.27.0.post1", "2", "16", *lines[1].split()[7:]]
    assert lines[2].endswith("no: it is not JSON, or was cut off")
    done = command.run("tuning", "list", cwd=tmp_path, variables={"CONVERT_CACHE": tmp_path / "empty"})
    assert "nothing has been tuned yet" in done.stdout


def test_what_comes_with_the_package_is_for_the_tvm_of_the_toolchain_and_clearly_faster() -> None:
    files = database.files_in(SHIPPED)
    assert files
    pins = (command.ROOT / "convert/constraints/tvm.txt").read_text(encoding="utf-8").splitlines()
    for file in files:
        found = database.read(file)
        assert f"apache-tvm=={found.identity.tvm}" in pins, f"{file.name} serves no more: make tvm-database"
        assert file == database.file_of(SHIPPED, found.identity)
        assert found.skipped == 0
        assert found.count >= len(found.workloads) > 0
        for workload in found.workloads.values():
            assert workload.untuned is not None
            assert all(record.cost < 0.95 * workload.untuned for record in workload.records)
        assert file.stat().st_size < 2**22


def test_builds_use_what_comes_with_the_package_unless_told_not_to(tmp_path: Path) -> None:
    for file in database.files_in(SHIPPED):
        found = database.read(file)
        known, foreign = known_schedules(found.identity, {"folder": str(tmp_path)})
        assert (known.workloads.keys(), foreign) == (found.workloads.keys(), 0)
        assert known_schedules(PI, {"folder": str(tmp_path)})[0].count == 0
    assert Schedules.of(SimpleNamespace(), {}) is None  # --tuning-db none
