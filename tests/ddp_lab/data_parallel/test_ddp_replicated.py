"""DataParallel in one process, against the module itself."""

import copy

import pytest
import torch
from torch import nn

from ddp_lab.data_parallel.torch.replicated import DataParallel


@pytest.mark.parametrize("replicas", [1, 2, 3, 20])
def test_outputs_and_gradients_are_the_modules_own(replicas: int) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    alone = copy.deepcopy(module)
    x = torch.randn(10, 4)
    model = DataParallel(module, replicas)
    out = model(x)
    torch.testing.assert_close(out, alone(x))
    out.square().sum().backward()
    alone(x).square().sum().backward()
    for ours, theirs in zip(module.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_three_transfers_a_step_are_counted() -> None:
    module = nn.Linear(4, 2, bias=False)
    model = DataParallel(module, 2)
    model(torch.ones(10, 4))
    assert model.transfers.scatter == 5 * 4 * 4
    assert model.transfers.replicate == 8 * 4
    assert model.transfers.gather == 5 * 2 * 4
    assert model.transfers.total == 80 + 32 + 40


def test_no_gradients_are_recorded_when_the_caller_wants_none() -> None:
    with torch.no_grad():
        assert not DataParallel(nn.Linear(1, 1))(torch.ones(4, 1)).requires_grad


def test_less_than_one_replica_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0 replicas"):
        DataParallel(nn.Linear(1, 1), 0)
