"""Stands for a board: what comes over ssh is run by this host's shell, but its programs are emulated ones of arm64."""

from __future__ import annotations

import shlex
from pathlib import Path

from convert.emulation import Emulation
from helpers.arm64 import write_program

_FORCED = """#!/bin/sh
# The runner is a program of arm64, which the kernel here does not know.
script=$(printf '%s\\n' "$SSH_ORIGINAL_COMMAND" | sed 's|\\./tvm_runner |{runner} ./tvm_runner |')
PATH={programs}:$PATH
export PATH
exec sh -c "$script"
"""


def write_board(folder: Path, emulation: Emulation, cpu: str) -> Path:
    """Write into ``folder`` what makes a server a board with ``cpu``; gives the program to force on it."""
    programs = folder / "bin"
    write_program(programs, "uname", "#!/bin/sh\necho Linux aarch64\n")
    python = shlex.join(emulation.python_command(cpu=cpu))
    # Libraries of arm64 are none for the shell that starts the emulator.
    write_program(programs, "python3", f'#!/bin/sh\nexec {python} "$@"\n')
    runner = shlex.join(emulation.command("", cpu=cpu)[:-1])
    return write_program(folder, "forced", _FORCED.format(runner=runner, programs=programs))
