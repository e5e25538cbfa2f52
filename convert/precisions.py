"""What the names of precisions mean to the pipeline. Targets say which of them they offer."""

from __future__ import annotations

INTEGER = frozenset({"int8-dynamic", "int8", "int16x8"})
"""Precisions that compute in integers, at least in part."""
CALIBRATED = frozenset({"int8", "int16x8"})
"""Those that need the ranges of activations: calibration data, or ranges learned in training."""
LEAST_SQNR_DB = 15.0
"""Lowest signal-to-noise ratio of an integer artifact on real data.

Deep networks with weights of 8 bits have 18 or 19 dB (measured: EfficientNet-Lite0), small ones 30 and more; a file
with one wrong range or zero point falls below 10.
"""
LEAST_AGREEMENT = 0.9
"""Share of elements of an integer output (classes, places) that must be those of the source."""
FIXED = "fixed"
"""Key of ``Artifact.settings``: every size of an integer artifact is fixed at its optimum."""
