"""Tensor parallelism: layers whose weights are shared out over ranks."""
