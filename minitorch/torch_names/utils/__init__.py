"""Torch's name for where `data` is: `from minitorch.utils.data import DataLoader`."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
