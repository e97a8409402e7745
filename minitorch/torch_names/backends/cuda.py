"""Switches of products on CUDA, which change nothing; whether there is CUDA."""

from types import SimpleNamespace

from ..cuda import is_available as is_built

matmul = SimpleNamespace(allow_tf32=False, fp32_precision="ieee")

__all__ = ["is_built", "matmul"]
