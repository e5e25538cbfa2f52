"""Whether a provider of onnxruntime works on this host; for a child process, since a driver may crash over it."""

from __future__ import annotations

import ctypes
import ctypes.util
import tempfile
from pathlib import Path

from convert.errors import StageError
from convert.providers import PROVIDERS
from convert.targets.onnx_session import OrtSession


def lacking(provider: str) -> str:
    """Why artifacts cannot run on ``provider`` here; empty where they can.

    What onnxruntime calls available is what it was built with, so a small graph is opened and run as well.
    """
    import onnxruntime as ort

    wanted, offered = PROVIDERS[provider][0], ort.get_available_providers()
    if wanted not in offered:
        return f"this onnxruntime {ort.__version__} offers {', '.join(offered)}"
    return _driver_problem() or _trial_problem(provider)


def _driver_problem() -> str:
    try:
        driver = ctypes.CDLL(ctypes.util.find_library("cuda") or "libcuda.so.1")
    except OSError:
        return "this host has no NVIDIA driver (libcuda.so.1 is not there)"
    code = driver.cuInit(0)
    return f"the NVIDIA driver finds no usable GPU (cuInit gave {code})" if code else ""


def _trial_problem(provider: str) -> str:
    import numpy as np
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "trial", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory(prefix="convert-trial-") as folder:
        file = Path(folder) / "trial.onnx"
        save(model, file)
        try:
            session = OrtSession(file, 1, provider)
            session.run({"x": np.ones(2, np.float32)})
        except StageError as error:
            return error.reason
        except Exception as error:  # of onnxruntime, of many types
            return f"a trial run failed: {type(error).__name__}: {str(error).splitlines()[0]}"[:300]
    return ""
