"""A stand-in for TensorRT-LLM."""

__version__ = "0.99.0"
