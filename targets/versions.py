"""Versions of what made or ran an artifact, read from the environment of the worker."""

from __future__ import annotations

from importlib import metadata


def installed(*distributions: str) -> dict[str, str]:
    """Distribution name -> version, for those that are installed here."""
    found = {}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
