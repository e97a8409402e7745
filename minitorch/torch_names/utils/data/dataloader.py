"""Torch's module of the loader: `from minitorch.utils.data.dataloader import DataLoader`."""

from minitorch.data import DataLoader

__all__ = ["DataLoader"]
