"""Torch's name for where `data` is: `from minitorch.utils.data import DataLoader`."""

from . import data

__all__ = ["data"]
