"""Datasets, samplers and loaders, and data that is generated or ships with a package."""

from minitorch.data.characters import CharText, text
from minitorch.data.collate import default_collate
from minitorch.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from minitorch.data.generated import images, moons, spirals
from minitorch.data.handwritten import digits
from minitorch.data.loader import DataLoader
from minitorch.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "CharText",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "digits",
    "images",
    "moons",
    "random_split",
    "spirals",
    "text",
]
