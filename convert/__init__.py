"""Take a PyTorch model to every runtime, and prove each artifact against the source."""

__version__ = "0.1.0"
