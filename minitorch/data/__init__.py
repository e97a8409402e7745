"""Datasets, samplers and loaders, and handwritten digits."""

from minitorch.data.dataset import ConcatDataset as ConcatDataset
from minitorch.data.dataset import Dataset as Dataset
from minitorch.data.dataset import IterableDataset as IterableDataset
from minitorch.data.dataset import Subset as Subset
from minitorch.data.dataset import TensorDataset as TensorDataset
from minitorch.data.dataset import random_split as random_split
from minitorch.data.handwritten import digits as digits
from minitorch.data.loader import DataLoader as DataLoader
from minitorch.data.loader import default_collate as default_collate
from minitorch.data.loader import get_worker_info as get_worker_info
from minitorch.data.sampler import BatchSampler as BatchSampler
from minitorch.data.sampler import RandomSampler as RandomSampler
from minitorch.data.sampler import Sampler as Sampler
from minitorch.data.sampler import SequentialSampler as SequentialSampler
from minitorch.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from minitorch.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from minitorch.exports import public_names

__all__ = public_names(globals())
