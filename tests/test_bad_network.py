"""No network when a toolchain is missing: one sentence that says so, and nothing of the toolchain is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.command import run

from convert import context
from convert.context import Context
from convert.errors import InputError
from convert.toolchain_install import pip_complaint

UNREACHABLE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "1",
    "PIP_DEFAULT_TIMEOUT": "2",
    "no_proxy": "127.0.0.1",
}


def test_a_toolchain_without_a_network(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = run("toolchain", "install", "tvm", cwd=tmp_path, variables={**UNREACHABLE, "CONVERT_CACHE": cache})
    assert (done.code, done.stdout) == (1, "")
    assert done.last_line == (
        "convert: the toolchain tvm could not be installed: pip cannot reach the package index (Failed to establish a "
        "new connection: [Errno 111] Connection refused); check the network; the whole output is in "
        f"{cache}/logs/toolchain-tvm.log"
    )
    assert "Traceback" not in done.stderr
    assert [path.name for path in (cache / "toolchains" / "tvm").iterdir()] == ["lock"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'ReadTimeoutError(\"HTTPSConne"
            "ctionPool(host='example.org', port=443): Read timed out. (read timeout=15.0)\")': /tvm/",
            "pip cannot reach the package index (Read timed out); check the network",
        ),
        (
            "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'x': /a/\n"
            "    The user requested (constraint) tiny==1.0\nERROR: Cannot install",
            "pip found no release that fits tiny==1.0, so the package index cannot be reached or lacks it, or it is ",
        ),
    ],
)
def test_the_complaint_about_the_network(tmp_path: Path, lines: str, complaint: str) -> None:
    """A try that failed and was made up for by the next one is no reason."""
    (tmp_path / "log").write_text(lines, encoding="utf-8")
    assert pip_complaint(tmp_path / "log", 1).startswith(complaint)


def test_a_missing_core_says_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "find", lambda _: None)
    with pytest.raises(InputError) as caught:
        Context.__new__(Context).core()
    assert str(caught.value) == "the toolchain core is not installed; get it with `convert toolchain install core`"
