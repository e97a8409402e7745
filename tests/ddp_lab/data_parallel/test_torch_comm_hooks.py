"""torch's communication hooks, in torch's own DistributedDataParallel, over the backend."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

PROGRAM = Path(__file__).with_name("torch_comm_hooks.py")
EXACT = ("none", "allreduce", "optimizer in backward")  # what they compute is the plain mean
HOOKS = (
    *EXACT,
    "fp16",
    "bf16",
    "PowerSGD",
    "batched PowerSGD",
    "fp16 PowerSGD",
    "quantization per tensor",
    "quantization per channel",
    "post-local SGD",
)


@pytest.fixture(scope="module")
def trained(python: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """`trained(backend)[rank][hook]` are the parameters after training."""
    folder = tmp_path_factory.mktemp("hooks")

    @cache
    def run(backend: str) -> Any:
        results = [folder / f"{backend}-{rank}" for rank in range(2)]
        ranks = [(backend, folder / backend, rank, result) for rank, result in enumerate(results)]
        ended = python(PROGRAM, *ranks)
        assert [rank.status for rank in ended] == [0, 0], ended
        return [torch.load(result) for result in results]

    return run


@pytest.mark.parametrize("hook", HOOKS)
def test_training_with_a_hook_of_torch_goes_as_over_gloo(
    hook: str, trained: Callable[[str], Any]
) -> None:
    for ours, theirs in zip(trained("ddp_lab"), trained("gloo"), strict=True):
        assert set(ours) == set(HOOKS)
        torch.testing.assert_close(ours[hook], theirs[hook])
        same = all(map(torch.equal, ours[hook], ours["none"]))
        assert same == (hook in EXACT)  # else the hook was not at work
