"""Switches of products on CUDA, which change nothing; whether there is CUDA."""

from types import SimpleNamespace

from ..cuda import is_available

matmul = SimpleNamespace(allow_tf32=False, fp32_precision="ieee")


def is_built() -> bool:
    """Tell whether CUDA can be used."""
    return is_available()
