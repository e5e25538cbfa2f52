"""From the words of ``convert run`` to how integer artifacts are made; every contradiction is one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.errors import InputError
from convert.paths import is_folder
from convert.precisions import INTEGER
from convert.records import Quantization

RANDOM = "random"
#: Parameters of ``convert run`` with the option that each stands for.
OPTIONS = {
    "calibration": "--calibration",
    "evaluation": "--evaluation",
    "preprocess": "--preprocess",
    "calibration_samples": "--calibration-samples",
    "range": "--range",
    "percentile": "--percentile",
    "io_type": "--io-type",
    "require_full_integer": "--require-full-integer",
    "auto_mixed": "--auto-mixed",
    "min_sqnr": "--min-sqnr",
    "metric": "--metric",
    "max_drop": "--max-drop",
}


def settle_quantization(given: Mapping[str, Any], precisions: Sequence[str]) -> Quantization:
    """Read what ``given`` says by parameter of ``convert run``.

    Raises:
        InputError: two options contradict each other, or one has no use here.
    """
    found = Quantization(
        calibration=_place("--calibration", given["calibration"]),
        evaluation=_place("--evaluation", given["evaluation"]),
        preprocess=_place("--preprocess", given["preprocess"]),
        limit=given["calibration_samples"],
        rule=given["range"] or Quantization.rule,
        percentile=given["percentile"] or Quantization.percentile,
        io_type=given["io_type"] or Quantization.io_type,
        require_full_integer=given["require_full_integer"],
        auto_mixed=given["auto_mixed"],
        least_sqnr=given["min_sqnr"],
        metric=_place("--metric", given["metric"]),
        max_drop=given["max_drop"],
    )
    _require_use(given, precisions)
    _require_data(found, given["samples"])
    return found


def _place(option: str, text: str | None) -> str | None:
    """An absolute path, since workers run in folders of their own."""
    if text == "":
        raise InputError(f"{option} '' is empty; give a file, a folder or file.py:function")
    return text if text is None or text == RANDOM else str(Path(text).absolute())


def _require_use(given: Mapping[str, Any], precisions: Sequence[str]) -> None:
    """Options about integers without an integer precision are a mistake, and not to be passed over."""
    if INTEGER & set(precisions):
        return
    for parameter, option in OPTIONS.items():
        if given[parameter] not in (None, False):
            raise InputError(
                f"{option} is about integers, and --precision is {', '.join(precisions)}; add one of "
                f"{', '.join(sorted(INTEGER))}, or leave {option} out"
            )


def _require_data(found: Quantization, samples: str | None) -> None:
    if found.evaluation == RANDOM:
        raise InputError("--evaluation random measures nothing; give real inputs that were held out")
    folders = [data for data in (found.calibration, found.evaluation) if data is not None and is_folder(data)]
    if found.preprocess is not None and not folders:
        raise InputError(
            f"--preprocess {found.preprocess} reads the files of a folder, and --calibration is "
            f"{found.calibration or 'not given'}; give --calibration FOLDER, or leave --preprocess out"
        )
    if found.limit is not None and found.calibration is None:
        raise InputError("--calibration-samples limits what --calibration gives, which is missing; give --calibration")
    if found.rule != "percentile" and found.percentile != Quantization.percentile:
        raise InputError(f"--percentile belongs to --range percentile, and --range is {found.rule}; change one of them")
    if found.max_drop is not None and found.metric is None:
        raise InputError("--max-drop is about --metric, which is missing; give --metric file.py:function")
    if found.auto_mixed and found.require_full_integer:
        raise InputError("--auto-mixed keeps layers in float, which --require-full-integer forbids; leave one out")
    real = [data for data in (found.evaluation, found.calibration, samples) if data not in (None, RANDOM)]
    if found.metric is not None and not real:
        raise InputError("--metric needs real data to be measured on; give --evaluation or --calibration")
