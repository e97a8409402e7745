"""Averages become gradients without a copy, and nobody can tell: torch's class is the oracle."""

import copy
import gc
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import ddp_lab
import ddp_lab.torch_backend
from ddp_lab import handle
from ddp_lab.data_parallel.reduction_group import CommunicatorGroup
from ddp_lab.data_parallel.torch.ddp import TorchDistributedDataParallel

TorchDdp = nn.parallel.DistributedDataParallel
LARGE = 256  # a weight of 256 x 256 is lent, its bias is copied


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(LARGE, LARGE), nn.Tanh(), nn.Linear(LARGE, LARGE))


def backward(model: nn.Module, rank: int, step: int = 0) -> None:
    x = torch.randn(4, LARGE, generator=torch.Generator().manual_seed(10 * step + rank))
    model(x).square().sum().backward()


def weight(model: Any) -> Any:
    return model.module[0].weight


def test_a_large_average_is_not_copied_back(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> list[bool]:
        model = TorchDistributedDataParallel(
            module(), process_group=dist.new_group(backend="ddp_lab")
        )
        same = []
        for step in range(4):
            model.zero_grad()
            backward(model, comm.rank, step)
            (bucket,) = model.reducer.buckets
            inside = {view.data_ptr() for view in bucket.views}
            same += [model.module[k].weight.grad.data_ptr() in inside for k in (0, 2)]
        return same

    assert list(gloo(run, 2)) == [[True] * 8] * 2


def kept(model: nn.Module, rank: int) -> list[torch.Tensor]:
    found = []
    for step in range(3):
        model.zero_grad()
        backward(model, rank, step)
        found.append(weight(model).grad)
    return found


def rows_kept(model: nn.Module, rank: int) -> list[torch.Tensor]:
    found = []
    for step in range(3):
        model.zero_grad()
        backward(model, rank, step)
        found.append(weight(model).grad[1:3])
    return found


def kept_as_numpy(model: nn.Module, rank: int) -> list[torch.Tensor]:
    found = []
    for step in range(3):
        model.zero_grad()
        backward(model, rank, step)
        found.append(weight(model).grad.numpy())
    return [torch.from_numpy(array.copy()) for array in found]


def kept_and_still_the_gradient(model: nn.Module, rank: int) -> list[torch.Tensor]:
    backward(model, rank)
    found = weight(model).grad
    backward(model, rank, 1)
    return [found]


def into_a_flat_tensor(model: nn.Module, rank: int) -> list[torch.Tensor]:
    flat = torch.zeros(LARGE * LARGE)
    weight(model).grad = flat.view(LARGE, LARGE)
    backward(model, rank)
    return [flat]


def into_an_array(model: nn.Module, rank: int) -> list[torch.Tensor]:
    array = np.zeros((LARGE, LARGE), np.float32)
    weight(model).grad = torch.from_numpy(array)
    backward(model, rank)
    return [torch.from_numpy(array.copy())]


def seen_by_a_hook(model: nn.Module, rank: int) -> list[torch.Tensor]:
    found = []
    weight(model).register_post_accumulate_grad_hook(lambda param: found.append(param.grad))
    backward(model, rank)
    return found


def swapped(model: Any, rank: int) -> list[torch.Tensor]:
    backward(model, rank)
    backward(model, rank)  # the first one's buckets are laid out anew
    first, second = model.module[0].weight, model.module[2].weight
    first.grad, second.grad = second.grad, first.grad
    backward(model, rank, 1)
    return [first.grad, second.grad]


def one_of_them_reset(model: Any, rank: int) -> list[torch.Tensor]:
    backward(model, rank)
    for step in range(1, 4):
        weight(model).grad = None
        backward(model, rank, step)
    return [param.grad for param in model.parameters()]


def accumulated(model: Any, rank: int) -> list[torch.Tensor]:
    for step in range(3):
        model.zero_grad(set_to_none=False)
        with model.no_sync():
            backward(model, rank, step)
        backward(model, rank, step + 3)
    return [param.grad for param in model.parameters()]


def clipped_in_place(model: nn.Module, rank: int) -> list[torch.Tensor]:
    for step in range(3):
        model.zero_grad()
        backward(model, rank, step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return [param.grad for param in model.parameters()]


def saved_and_copied_alone(model: nn.Module, rank: int) -> list[torch.Tensor]:
    backward(model, rank)
    grad, file = weight(model).grad, io.BytesIO()
    torch.save(grad, file)
    shared = copy.deepcopy(grad).share_memory_()
    return [torch.tensor([len(file.getvalue()), grad._is_view(), shared.is_shared()]), shared]


def given_other_memory(model: nn.Module, rank: int) -> list[torch.Tensor]:
    for step in range(4):
        model.zero_grad()
        backward(model, rank, step)
        if step == 1:
            weight(model).grad.data = weight(model).grad.data * 0.5
    return [param.grad for param in model.parameters()]


def kept_by_one_that_accumulates(model: nn.Module, rank: int) -> list[torch.Tensor]:
    found = []
    weight(model).register_post_accumulate_grad_hook(lambda param: found.append(param.grad.clone()))
    for step in range(3):
        backward(model, rank, step)
    return found


USES = [
    given_other_memory,
    kept_by_one_that_accumulates,
    kept,
    rows_kept,
    kept_as_numpy,
    kept_and_still_the_gradient,
    into_a_flat_tensor,
    into_an_array,
    seen_by_a_hook,
    swapped,
    one_of_them_reset,
    accumulated,
    clipped_in_place,
    saved_and_copied_alone,
]


def different(comm: Any, always: bool) -> list[str]:
    """Return the uses that find something else than after torch's class."""
    group = dist.new_group(backend="ddp_lab")
    found = []
    for use in USES:
        ours = TorchDistributedDataParallel(module(), process_group=group)
        theirs = TorchDdp(module(), process_group=group)
        if always:
            ours.reducer.slots = Careless(ours.reducer.slots)
        pairs = list(zip(use(theirs, comm.rank), use(ours, comm.rank), strict=True))
        if not pairs or not all(torch.equal(a, b) for a, b in pairs):
            found.append(use.__name__)
    return found


class Careless:
    """Lends every gradient, and takes it back whoever holds it."""

    def __init__(self, slots: Any) -> None:
        self._slots = slots

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slots, name)

    @torch.no_grad()
    def deliver(self, bucket: Any) -> None:
        for index, view in zip(bucket.params, bucket.views, strict=True):
            self.params[index].grad = view


def test_whoever_holds_a_gradient_finds_what_torch_leaves_there(gloo: Callable[..., Any]) -> None:
    assert list(gloo(different, 2, False)) == [[], []]


def test_a_gradient_lent_without_a_look_would_be_seen(gloo: Callable[..., Any]) -> None:
    """The specimen for the comparison above."""
    for found in gloo(different, 2, True):
        assert {"kept", "rows_kept", "kept_as_numpy", "into_a_flat_tensor"} <= set(found)
        assert {"into_an_array", "seen_by_a_hook", "swapped"} <= set(found)


def test_a_gradient_outlives_the_group_that_averaged_it(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> bool:
        group = dist.new_group(backend="ddp_lab")
        model = TorchDistributedDataParallel(module(), process_group=group)
        for step in range(2):
            model.zero_grad()
            backward(model, comm.rank, step)
        grad = weight(model).grad
        before = grad.clone()
        dist.destroy_process_group(group)
        del model, group
        gc.collect()
        return torch.equal(grad, before)

    assert list(gloo(run, 2)) == [True, True]


def test_gradients_that_are_kept_keep_one_bucket_alive_each(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> int:
        group = dist.new_group(backend="ddp_lab")
        model = TorchDistributedDataParallel(module(), process_group=group)
        history, flats = [], set()
        for step in range(8):
            model.zero_grad()
            backward(model, comm.rank, step)
            history.append(weight(model).grad)
            flats.add(model.reducer.buckets[0].flat.data_ptr())
        return len(flats)

    assert list(gloo(run, 2)) == [3, 3]  # the first iteration's, laid out anew, and one for it


def test_a_rank_that_has_joined_keeps_its_gradients(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> bool:
        group = dist.new_group(backend="ddp_lab")
        model = TorchDistributedDataParallel(module(), process_group=group)
        for step in range(3):
            model.zero_grad()
            backward(model, comm.rank, step)
        before = weight(model).grad.clone()
        if comm.rank == 0:
            model.reducer.shadow()
            return torch.equal(weight(model).grad, before)
        model.zero_grad()
        backward(model, comm.rank, 3)
        return True

    assert list(gloo(run, 2)) == [True, True]


def wait_for_workers() -> None:
    """Wait until no collective is under way: a busy thread would be given the next one, too."""
    workers = [jobs for jobs in handle._at_work if isinstance(jobs, handle.Worker)]
    while any(worker.busy for worker in workers):
        time.sleep(1e-3)


def test_the_last_bucket_wakes_no_other_thread(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> list[list[bool]]:
        on_main: list[bool] = []

        def noted(inner: Any, x: Any, *, op: str) -> Any:
            on_main.append(threading.current_thread() is threading.main_thread())
            return inner.all_reduce(x, op)

        ddp_lab.register_algorithm("all_reduce", "noted", noted)
        ddp_lab.torch_backend.use_algorithm("all_reduce", "noted")
        found = []
        for group in (CommunicatorGroup(comm, "noted"), dist.new_group(backend="ddp_lab")):
            net = module()
            net[1].register_full_backward_pre_hook(lambda *_: wait_for_workers())
            model = TorchDistributedDataParallel(net, process_group=group, bucket_cap_mb=0.1)
            for step in range(2):  # the second one's buckets are laid out anew
                on_main.clear()
                backward(model, comm.rank, step)
            found.append(list(on_main))
        return found

    assert list(gloo(run, 2)) == [[[False, True]] * 2] * 2
