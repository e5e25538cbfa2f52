"""``convert merge`` and ``convert build-recipe``: one report from a host without a GPU and a host with one."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert.errors import ConvertError, InputError
from convert.jobs import Ended, Limits, Runner, WorkerPython
from convert.outdir import REPORT, OutputFolder, full_disk_named
from convert.pipeline import exit_code
from convert.platforms import MANIFEST
from convert.records import Artifact, Golden, Outcome, Report
from convert.report.write import ORIGIN, finish_report
from convert.results import find_results, read_result
from convert.serial import from_plain, read_json, to_plain
from convert.steps.fold import deferred_for, fold, place_of, require_unchanged
from convert.targets.trt_host.folder import RECIPE, BadRecipe, Recipe, open_recipe
from convert.toolchain_env import cache_root
from convert.toolchains import find, install_command

Say = Callable[[str], None]
_BUILT = "built"


def merge(root: Path, places: Sequence[Path], say: Say, timeout: float, allow_deferred: bool = False) -> Report:
    """Fold results of GPU hosts into the report in ``root``, whole or not at all.

    Args:
        root: the output folder of the run that made the recipes.
        places: folders with results, or with folders of results below them.
        say: takes a line of progress.
        timeout: seconds that the comparison of one result may take.
        allow_deferred: as for a conversion; what the first run was told holds as well.

    Raises:
        InputError: something there cannot be used; nothing is changed then.
    """
    folders = [folder for place in places for folder in find_results(place.resolve())]
    report = _read_report(root)
    require_unchanged(root, report)
    with _workers(timeout) as runner, OutputFolder(root) as out, full_disk_named(out):
        shutil.copytree(root, out.path, dirs_exist_ok=True)
        report = _fold_all(root, out.path, report, folders, runner, say, allow_deferred)
        out.publish()
    return report


def build_recipe(folder: Path, out: Path | None, say: Say, timeout: float, memory: int | None) -> tuple[Report, Path]:
    """Build, check and time recipes on this host, and put what came of it into a report.

    Args:
        folder: a recipe, or an output folder with recipes.
        out: an output folder that holds the recipe's row, or a new one; None for the one that the recipe lies in,
            else the folder ``built`` in the recipe.
        say: takes a line of progress.
        timeout: seconds that one recipe may take.
        memory: bytes that a worker may use; None for no limit.

    Raises:
        InputError: there is no recipe, or no environment for TensorRT.
        ConvertError: this host cannot build engines.
    """
    folder = folder.resolve()
    recipes = [_open(place) for place in _recipes_in(folder)]
    root = out or _home_of(folder) or folder / _BUILT
    with _workers(timeout, memory) as runner, tempfile.TemporaryDirectory(prefix="convert-recipe-") as place:
        made = []
        for index, recipe in enumerate(recipes):
            result = Path(place) / str(index)
            _make(recipe, result, runner, say)
            made.append(result)
        if (root / REPORT).is_file():
            return merge(root, made, say, timeout), root
        return _start_report(root, recipes, made, runner, say), root


def _recipes_in(folder: Path) -> list[Path]:
    if (folder / RECIPE).is_file():
        return [folder]
    if (folder / REPORT).is_file():
        report = _read_report(folder)
        found = [place_of(folder, outcome) for outcome in report.artifacts if outcome.status == "deferred"]
        found = [place for place in found if (place / RECIPE).is_file()]
        if found:
            return found
        raise InputError(f"{folder} holds no recipe that waits for a GPU; nothing is left to build")
    raise InputError(f"{folder} holds no recipe (there is no {RECIPE}); give the folder that convert made")


def _open(folder: Path) -> Recipe:
    try:
        return open_recipe(folder)
    except BadRecipe as error:
        raise InputError(str(error)) from error


def _home_of(folder: Path) -> Path | None:
    """The output folder that a recipe still lies in."""
    if (folder / REPORT).is_file():
        return folder
    for above in folder.parents:
        if (above / REPORT).is_file():
            report = _read_report(above)
            return above if folder in [place_of(above, one) for one in report.artifacts] else None
    return None


def _read_report(root: Path) -> Report:
    file = root / REPORT
    try:
        return read_json(Report, file)
    except OSError:
        raise InputError(f"{root} holds no report (there is no {REPORT}); give the output folder of a run") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"{file} is not a report of this version of convert; make it anew") from error


def _make(recipe: Recipe, out: Path, runner: Runner, say: Say) -> None:
    args = {"recipe": str(recipe.folder), "out": str(out), "timing_cache": str(cache_root() / "timing")}
    ended = runner.run("recipe", _tensorrt(), "recipe", args, say)
    if not ended.ok:
        raise ConvertError(f"{recipe.folder} could not be built: {ended.answer.reason}")
    if ended.value["status"] == "failed" and ended.value["stage"] == "toolchain":
        raise ConvertError(f"{recipe.folder} cannot be built here: {ended.value['reason']}")


def _tensorrt() -> WorkerPython:
    environment = find("trt")
    if environment is None:
        raise InputError(f"the toolchain trt is not installed; get it with `{install_command('trt')}`")
    core = find("core")  # for torch's hold on the GPU's memory; cuda-python does as well
    borrow = () if core is None else (str(core.site_packages),)
    return WorkerPython(environment.python, borrow, own_environment=environment.origin != "current")


def _start_report(root: Path, recipes: Sequence[Recipe], results: Sequence[Path], runner: Runner, say: Say) -> Report:
    """A report of its own for one recipe, on a host that has nothing else of the run."""
    (recipe,) = recipes
    origin = _origin(recipe)
    with OutputFolder(root) as out, full_disk_named(out):
        (out.path / "golden").mkdir()
        for case in origin.golden.cases:
            shutil.copyfile(recipe.folder / "golden" / case.file, out.path / "golden" / case.file)
        _copy(recipe, place_of(out.path, origin.artifacts[0]))
        report = _fold_all(out.path, out.path, origin, results, runner, say, False)
        out.publish()
    return report


def _copy(recipe: Recipe, to: Path) -> None:
    """Only what the recipe names and its manifest: the output folder in the making may lie in the same folder."""
    manifest = [MANIFEST] if (recipe.folder / MANIFEST).is_file() else []
    for name in (RECIPE, *manifest, *recipe.said["sha256"]):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recipe.folder / name, to / name)


def _origin(recipe: Recipe) -> Report:
    """What the run that made the recipe said; the source's cases are those that the recipe's hash vouches for."""
    file = recipe.folder / ORIGIN
    try:
        report = read_json(Report, file)
        golden = from_plain(Golden, recipe.said["golden"])
        (outcome,) = report.artifacts
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file} is missing or not what convert wrote; copy the folder of the recipe again") from error
    if (outcome.target, outcome.precision) != (recipe.said["target"], recipe.said["precision"]):
        raise InputError(f"{file} is of another artifact than {recipe.folder / RECIPE}; copy the folder again")
    return replace(report, golden=golden)


def _fold_all(
    source: Path,
    root: Path,
    report: Report,
    folders: Sequence[Path],
    runner: Runner,
    say: Say,
    allow_deferred: bool,
) -> Report:
    """Fold into ``root``, the copy of ``source`` in the making."""

    def compare(name: str, args: dict[str, Any]) -> Ended:
        # Only numpy is needed, which this interpreter has.
        return runner.run(name, WorkerPython(Path(sys.executable)), "outputs", to_plain(args), say)

    built: list[tuple[Outcome, Artifact | None]] = []
    for folder in folders:
        result = read_result(folder)
        row = deferred_for(source, report, result)
        say(f"comparing {row.target} {row.precision}")
        folded = fold(root, report, row, result, compare)
        built.append((folded.outcome, folded.artifact))
        artifacts = tuple(folded.outcome if one is row else one for one in report.artifacts)
        report = replace(report, artifacts=artifacts)
    allowed = allow_deferred or bool(report.options.get("allow_deferred"))
    report = replace(report, exit_code=exit_code(report.artifacts, allowed))
    return finish_report(root, report, built)


@contextmanager
def _workers(timeout: float, memory: int | None = None) -> Iterator[Runner]:
    with tempfile.TemporaryDirectory(prefix="convert-workers-") as folder:
        (Path(folder) / "logs").mkdir()
        runner = Runner(Path(folder) / "jobs", Path(folder) / "logs", Limits(timeout, memory))
        try:
            yield runner
        except BaseException:
            runner.interrupt()
            raise
