"""Everything that builds, loads, checks and times a TensorRT engine.

It imports nothing of this project, so that a recipe can carry a copy to a bare GPU host, and it takes the TensorRT
module as an argument, since TensorRT and TensorRT for RTX share one API: what the CPU can do of it runs in the tests.
Written against TensorRT 11: networks are strongly typed, the precision is what the ONNX graph says.
"""
