"""The commands and tables that the documentation shows are those of the program."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from helpers.command import ROOT

from convert import cli, run_options
from convert.records import Device
from convert.remote.devices import Transport
from convert.report.cells import COLUMNS
from convert.targets.tvm_tuning.database import write
from convert.targets.tvm_tuning.records import Identity, Records
from convert.tuning_options import tvm_version

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DIGITS = ROOT / "models" / "digits"


def commands(page: Path) -> list[str]:
    """Every command of an indented block or after ``convert`` in a code span with a model in it."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    convert ")]
    return [line.strip().partition("  #")[0].partition(" > ")[0].strip() for line in lines]


COMMANDS = sorted({command for page in PAGES for command in commands(page)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the commands name."""
    shutil.copy(DIGITS / "digits.pt2", tmp_path / "model.pt2")
    shutil.copy(DIGITS / "samples.npz", tmp_path / "images.npz")
    shutil.copy(DIGITS / "weights.pt", tmp_path / "weights.pt")
    (tmp_path / "net.py").write_text("def make_model(): ...\nclass Net: ...\n", encoding="utf-8")
    write(tmp_path / "pi.json", Records(Identity(tvm_version() or "1", "aarch64", "cortex-a72")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) >= 8
    assert {command.split()[1] for command in COMMANDS} >= {"inspect", "init", "toolchain", "targets", "model.pt2"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_is_shown_is_understood(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, small_onnx: Path
) -> None:
    shutil.copy(small_onnx, folder / "model.onnx")
    seen: list[str] = []

    def invoke(self: click.Command, context: click.Context) -> None:
        seen.append(str(self.name))
        if self is cli.run:
            cli._options(context.params.pop("model"), context.params)

    def look_at(transport: Transport) -> Device:
        return Device(transport.name, "linux/arm64")

    monkeypatch.setattr(click.Command, "invoke", invoke)
    monkeypatch.setattr(run_options, "look_at", look_at)  # there is no such device
    cli.cli.main(shlex.split(command)[1:], standalone_mode=False)
    assert len(seen) >= 2, "a command below `convert` was reached"


def test_the_table_that_is_shown_has_the_columns_of_the_program() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = next(line for line in text.splitlines() if line.startswith("    target "))
    assert re.split(r"\s{2,}", shown.strip()) == list(COLUMNS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target
