"""DistributedSampler: torch's class is the oracle."""

import pytest
import torch
from torch.utils.data.distributed import DistributedSampler as TorchSampler

from ddp_lab.data_parallel import DistributedSampler
from ddp_lab.data_parallel.sampler import permutation


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 10, 100])
def test_indices_are_torchs(length: int, size: int, shuffle: bool, drop_last: bool) -> None:
    data = list(range(length))
    if length == 0 or (drop_last and length < size):
        ours = DistributedSampler(data, size, 0, shuffle, 0, drop_last)
        assert list(ours) == [] and len(ours) == 0
        return
    for rank in range(size):
        theirs = TorchSampler(data, size, rank, shuffle, 3, drop_last)
        ours = DistributedSampler(data, size, rank, shuffle, 3, drop_last)
        for epoch in (0, 2):
            theirs.set_epoch(epoch)
            ours.set_epoch(epoch)
            assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 5000])
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 + 5])
def test_the_shuffle_is_torch_randperm(n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    assert permutation(n, seed).tolist() == torch.randperm(n, generator=generator).tolist()


def test_another_seed_gives_another_order() -> None:
    assert permutation(100, 0).tolist() != permutation(100, 1).tolist()


def test_a_rank_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="got 2, expected 0 to 1"):
        DistributedSampler([1, 2, 3], 2, 2)


def test_without_a_group_size_and_rank_must_be_given() -> None:
    with pytest.raises(RuntimeError, match=r"Pass comm\.size and comm\.rank"):
        DistributedSampler([1, 2, 3])
