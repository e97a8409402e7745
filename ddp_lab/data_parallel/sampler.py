"""Which examples a rank sees: every rank a different part, all parts together the data.

May import: NumPy; torch inside functions. Draws what torch's sampler draws, bit for bit.
"""

from collections.abc import Iterator, Sized
from math import ceil
from typing import Any

import numpy as np


class DistributedSampler:
    """Yields this rank's indices into `dataset`; drop-in for torch's class of that name.

        sampler = DistributedSampler(data, comm.size, comm.rank)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)      # else every epoch is shuffled alike
            for index in sampler: ...

    Every rank gets equally many: the data are padded from the start, or, with `drop_last`, cut.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            default = _torch_world()
            num_replicas = default[0] if num_replicas is None else num_replicas
            rank = default[1] if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: no such rank: got {rank}, expected 0 to {num_replicas - 1}. "
                "Pass comm.size and comm.rank."
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        length = len(dataset)
        exact = length / num_replicas
        cut = drop_last and length % num_replicas
        self.num_samples = (
            max(0, ceil((length - num_replicas) / num_replicas)) if cut else ceil(exact)
        )
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        length = len(self.dataset)
        order = permutation(length, self.seed + self.epoch) if self.shuffle else np.arange(length)
        if length:
            order = np.resize(order, self.total_size)  # repeats from the start, or cuts the end
        return iter(order[self.rank : self.total_size : self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle by `seed + epoch` from now on, alike on every rank."""
        self.epoch = epoch


def permutation(n: int, seed: int) -> Any:
    """Return a random order of 0 to n-1: that of `torch.randperm` with a generator so seeded.

    A Fisher-Yates shuffle from the front over the raw numbers of a Mersenne Twister.
    """
    twister = np.random.RandomState(seed & 0xFFFFFFFF)
    draws = twister.randint(0, 1 << 32, size=max(n - 1, 0), dtype=np.uint32)
    steps = (draws % np.arange(n, 1, -1, dtype=np.uint32)).tolist()
    order = list(range(n))
    for i, step in enumerate(steps):
        order[i], order[i + step] = order[i + step], order[i]
    return np.array(order, dtype=np.int64)


def _torch_world() -> tuple[int, int]:
    """Return size and rank of torch's default process group."""
    import torch.distributed as dist

    if not dist.is_initialized():
        raise RuntimeError(
            "DistributedSampler: size and rank are not known: got no torch process group. "
            "Pass comm.size and comm.rank."
        )
    return dist.get_world_size(), dist.get_rank()
