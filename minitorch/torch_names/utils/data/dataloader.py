"""Torch's module of the loader: `from minitorch.utils.data.dataloader import DataLoader`."""

from minitorch.data import DataLoader, default_collate

__all__ = ["DataLoader", "default_collate"]
