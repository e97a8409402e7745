"""Train torch's own DistributedDataParallel with each of torch's own communication hooks.

    python torch_comm_hooks.py gloo|ddp_lab STORE RANK RESULT

Writes to the file RESULT what every hook's training ended with: {hook: [parameter, ...]}.
"""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
BUCKET_MB = 0.005  # three buckets
Setup = Callable[[DistributedDataParallel, Callable[[Any], Any]], torch.optim.Optimizer | None]
Sequence = Callable[[Any], Any]


def plain(net: DistributedDataParallel) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)


def with_hook(hook: Any, state: Callable[[], Any] = lambda: None) -> Setup:
    def set_up(net: DistributedDataParallel, alone: Sequence) -> torch.optim.Optimizer:
        net.register_comm_hook(state(), alone(hook))
        return plain(net)

    return set_up


def power_sgd_state() -> powerSGD_hook.PowerSGDState:
    return powerSGD_hook.PowerSGDState(
        dist.group.WORLD, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1
    )


def post_local_sgd(net: DistributedDataParallel, alone: Sequence) -> torch.optim.Optimizer:
    own, _ = dist.new_subgroups(group_size=1)
    state = post_localSGD_hook.PostLocalSGDState(dist.group.WORLD, own, start_localSGD_iter=2)
    net.register_comm_hook(state, alone(post_localSGD_hook.post_localSGD_hook))
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    return PostLocalSGDOptimizer(plain(net), averager)


def in_backward(net: DistributedDataParallel, alone: Sequence) -> None:
    net._register_fused_optim(torch.optim.SGD, lr=0.2, momentum=0.9)


HOOKS: dict[str, Setup] = {
    "none": lambda net, alone: plain(net),
    "allreduce": with_hook(default_hooks.allreduce_hook),
    "fp16": with_hook(default_hooks.fp16_compress_hook),
    "bf16": with_hook(default_hooks.bf16_compress_hook),
    "PowerSGD": with_hook(powerSGD_hook.powerSGD_hook, power_sgd_state),
    "batched PowerSGD": with_hook(powerSGD_hook.batched_powerSGD_hook, power_sgd_state),
    "fp16 PowerSGD": with_hook(
        default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook), power_sgd_state
    ),
    "quantization per tensor": with_hook(quantization_hooks.quantization_pertensor_hook),
    "quantization per channel": with_hook(quantization_hooks.quantization_perchannel_hook),
    "post-local SGD": post_local_sgd,
    "optimizer in backward": in_backward,
}


def train(set_up: Setup, rank: int, alone: Sequence) -> list[Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 4)
    )
    model = DistributedDataParallel(net, bucket_cap_mb=BUCKET_MB)
    optimizer = set_up(model, alone)
    torch.manual_seed(1 + rank)
    for _ in range(STEPS):
        model.zero_grad()
        (model(torch.randn(8, 16)) - torch.randn(8, 4)).square().mean().backward()
        if optimizer is not None:
            optimizer.step()
    return [parameter.detach().clone() for parameter in net.parameters()]


def overlapping(hook: Any) -> Any:
    """Return the hook under a name by which torch does not know that bfloat16 is for GPUs."""

    def runs(state: Any, bucket: dist.GradBucket) -> Future[Tensor]:
        future: Future[Tensor] = hook(state, bucket)
        return future

    return runs


def one_bucket_at_a_time(hook: Any) -> Any:
    """Gloo has two threads: callbacks of three buckets that wait would wait for ever."""

    def waits(state: Any, bucket: dist.GradBucket) -> Future[Tensor]:
        future: Future[Tensor] = hook(state, bucket)
        future.wait()
        return future

    return waits


def orthogonalize(matrix: Tensor, epsilon: float = 1e-8) -> None:
    """Do what torch's function does for the batches of matrices that it takes."""
    batch = matrix if matrix.dim() == 3 else matrix[None]
    powerSGD_hook._orthogonalize_gram_schmidt(batch, epsilon=epsilon)


def gathered(outputs: list[Tensor], tensor: Tensor, group: Any, async_op: bool) -> Any:
    """Gather with a future of one tensor, as these hooks know it of NCCL."""
    dist.all_gather(outputs, tensor, group=group)
    future: Future[list[Tensor]] = Future()
    future.set_result([torch.stack(outputs)])
    return SimpleNamespace(get_future=lambda: future)


def main() -> None:
    import ddp_lab.torch_backend  # noqa: F401

    backend, store, rank, result = sys.argv[1:]
    # torch's batched hook passes one matrix, where torch's function now takes batches alone
    powerSGD_hook._orthogonalize = orthogonalize
    if backend == "gloo":
        quantization_hooks.dist = SimpleNamespace(
            all_gather=gathered, get_rank=dist.get_rank, group=dist.group
        )
    torch.set_num_threads(1)
    dist.init_process_group(backend, f"file://{store}", rank=int(rank), world_size=2)
    alone = one_bucket_at_a_time if backend == "gloo" else overlapping
    torch.save({name: train(set_up, int(rank), alone) for name, set_up in HOOKS.items()}, result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
