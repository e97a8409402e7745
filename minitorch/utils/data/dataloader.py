"""Torch's module of the loader: `from minitorch.utils.data.dataloader import DataLoader`."""

from ...data import DataLoader

__all__ = ["DataLoader"]
