"""From the words of ``convert run`` to its options, checked as far as that is possible without running the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convert import specs
from convert.config import Used, explained
from convert.constants import parse_constants
from convert.engine_options import settle_engine
from convert.errors import InputError
from convert.models.detect import detect
from convert.options import (
    MOST_THREADS,
    Options,
    parse_code,
    parse_memory,
    parse_precisions,
    parse_targets,
    settle_opset,
)
from convert.paths import is_file
from convert.platforms import PLATFORMS, host_platform, parse_cpus, parse_platforms
from convert.providers import settle_provider
from convert.quantize_options import settle_quantization
from convert.records import ModelRef
from convert.remote.devices import look_at, parse_devices
from convert.texts import shown
from convert.tuning_options import settle_tuning


def settle(model: str, given: dict[str, Any], used: Used | None) -> Options:
    """Read what ``given`` says by parameter of ``convert run``, with the values of the file ``used`` already in it.

    Raises:
        InputError: the first thing that cannot be used; it names the file where its value is from there.
    """
    try:
        return _settle(model, given, used)
    except InputError as error:
        raise explained(error, used) from error


def _settle(model: str, given: dict[str, Any], used: Used | None) -> Options:
    targets = parse_targets(given["target"])
    precisions = parse_precisions(given["precision"], targets)
    inputs = tuple(specs.parse_input(text) for text in given["inputs"])
    _require_distinct([spec.name for spec in inputs], "--input")
    dims = tuple(specs.parse_dim(text) for text in given["dims"])
    _require_distinct([dim.name for dim in dims], "--dim")
    if given["threads"] > MOST_THREADS:
        raise InputError(f"--threads {shown(given['threads'])} is too many; allowed are 1 to {MOST_THREADS}")
    if given["opset"] is not None:
        settle_opset(given["opset"], targets)
    elsewhere = _settle_platforms(given)
    return Options(
        ref=find_model(model, given),
        targets=targets,
        precisions=precisions,
        inputs=inputs,
        dims=dims,
        samples=_absolute(given["samples"]),
        opset=given["opset"],
        out=given["out"] or Path("dist") / _name_of(model),
        timeout=given["timeout"],
        memory=None if given["memory"] is None else parse_memory(given["memory"]),
        threads=given["threads"],
        jobs=given["jobs"],
        bench_seconds=given["bench_seconds"],
        allow_deferred=given["allow_deferred"],
        config=used,
        quantization=settle_quantization(given, precisions),
        engine=settle_engine(given, targets),
        tuning=settle_tuning(given, targets),
        **elsewhere,
        **settle_provider(given, targets, elsewhere["platforms"], elsewhere["devices"]),
    )


def _settle_platforms(given: dict[str, Any]) -> dict[str, Any]:
    """Where artifacts are for and where they are proven. Devices are asked last: that can take a while."""
    asked = parse_platforms(given["platform"]) if given["platform"] else ()
    transports = parse_devices(given["device"])
    if given["cpu"] and (asked or not transports):
        parse_cpus(given["cpu"], asked or (host_platform(),))
    devices = tuple(look_at(transport) for transport in transports)
    platforms = asked or tuple(dict.fromkeys(device.platform for device in devices)) or (host_platform(),)
    for device in devices:
        if device.platform not in platforms:
            raise InputError(
                f"--device {device.name} is {device.platform}, and --platform asks for {', '.join(platforms)}; "
                "name that platform too, or leave --platform out"
            )
        same = [one.name for one in devices if one.platform == device.platform]
        if len(same) > 1:
            raise InputError(f"--device {' and '.join(same)} are both {device.platform}; give one for each platform")
        if device.platform not in PLATFORMS:
            raise InputError(f"--device {device.name} is {device.platform}; allowed are {', '.join(PLATFORMS)}")
    return {"platforms": platforms, "cpus": parse_cpus(given["cpu"], platforms), "devices": devices}


def find_model(model: str, given: dict[str, Any]) -> ModelRef:
    """What ``model`` is, with all that is needed to load it and call it.

    Args:
        model: a file or a factory.
        given: has ``factory``, ``trust_pickle``, ``constants`` and ``code``.

    Raises:
        InputError: it is no model, or one of these cannot be used.
    """
    if not model:
        raise InputError("MODEL is empty; give a model file, or file.py:factory")
    if given["factory"] == "":
        raise InputError("--model '' is empty; give file.py:factory or pkg.mod:factory")
    constants = tuple(given["constants"])
    parse_constants(constants)
    code = parse_code(given["code"])
    return replace(detect(model, given["factory"], given["trust_pickle"]), code=code, constants=constants)


def _require_distinct(names: Sequence[str], option: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{option} is given twice for {name!r}; give each name once")


def _absolute(text: str | None) -> str | None:
    # Workers run in folders of their own.
    if text == "":
        raise InputError("--samples '' is empty; give a .npz, a .pt or file.py:function")
    return text if text is None else str(Path(text).resolve())


def _name_of(model: str) -> str:
    head, _, factory = model.rpartition(":")
    return factory if head and not is_file(model) else Path(model).stem
