"""The timing cache: what the builder has measured, kept for the next engine of the same GPU, driver and TensorRT."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

#: What a measurement depends on.
_KEY = ("name", "compute_capability", "driver", "cuda", "tensorrt")


class TimingCache:
    """One file of a folder, named by what the measurements depend on."""

    def __init__(self, folder: Path, gpu: dict[str, Any]) -> None:
        """Choose the file of ``gpu``, as :func:`.device.gpu_here` describes it."""
        key = json.dumps({name: gpu[name] for name in _KEY}, sort_keys=True)
        self.file = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.timing"

    def use(self, config: Any) -> None:
        """Give ``config`` what was measured before; what TensorRT does not take is measured anew."""
        known = self.file.read_bytes() if self.file.is_file() else b""
        cache = config.create_timing_cache(known)
        if cache is None or not config.set_timing_cache(cache, ignore_mismatch=False):
            config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)

    def keep(self, config: Any) -> None:
        """Write what is known now: whole or not at all, since two builds may end at once."""
        cache = config.get_timing_cache()
        if cache is None:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.file.parent, prefix=".timing-")
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(cache.serialize()))
        os.replace(name, self.file)
