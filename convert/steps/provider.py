"""Whether the provider that was asked for is there, before anything is built for it."""

from __future__ import annotations

from convert.context import ToolchainMissing
from convert.steps.job import Job

ADVICE = "install the extra [gpu] as docs/toolchains.md says, or leave --provider out"


def lacking_provider(job: Job) -> str:
    """Why artifacts of ``job`` cannot run on the provider asked for; empty where they can, or where none was."""
    provider = job.provider
    if provider == "cpu":
        return ""
    needed = f"onnx on {provider} needs onnxruntime-gpu and an NVIDIA GPU, and "
    try:
        python = job.context.runtime(job.target)
    except ToolchainMissing as error:
        return f"{needed}{error}"
    ended = job.context.run(f"{job.label}-provider", python, "provider", {"provider": provider}, job.say)
    if not ended.ok:
        return f"{needed}looking for them failed: {ended.answer.reason}"
    reason = str(ended.value["reason"])
    return f"{needed}{reason}" if reason else ""
