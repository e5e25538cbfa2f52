"""What an engine consists of, from the JSON of TensorRT's engine inspector."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

_MOST_TACTICS = 20


def summarise(text: str) -> dict[str, Any]:
    """Count layers, precisions and tactics.

    Args:
        text: as ``EngineInspector.get_engine_information(LayerInformationFormat.JSON)`` gives it. Its layers are
            objects where the engine was built with detailed profiling verbosity, else mere names.

    Returns:
        ``layers`` (a number), ``precisions`` (format and type of each layer's first output -> number of layers) and
        ``tactics`` (kernel -> number of layers, the most frequent ones).
    """
    layers = json.loads(text).get("Layers", [])
    detailed = [layer for layer in layers if isinstance(layer, dict)]
    precisions = Counter(_precision(layer) for layer in detailed)
    tactics = Counter(str(layer["TacticName"]) for layer in detailed if layer.get("TacticName"))
    return {
        "layers": len(layers),
        "precisions": dict(precisions.most_common()),
        "tactics": dict(tactics.most_common(_MOST_TACTICS)),
    }


def _precision(layer: dict[str, Any]) -> str:
    outputs = layer.get("Outputs") or [{}]
    first = outputs[0] if isinstance(outputs[0], dict) else {}
    return str(first.get("Format/Datatype") or first.get("Datatype") or "not said")
