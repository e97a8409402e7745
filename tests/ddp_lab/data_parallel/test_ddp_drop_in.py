"""In place of torch's class, over gloo: torch's class is the oracle, bit for bit."""

import copy
import gc
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.data_parallel.torch.ddp import TorchDistributedDataParallel

TorchDdp = nn.parallel.DistributedDataParallel


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(10, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x.view(len(x), 1, 10).expand(-1, 4, -1))[0][:, -1])


class Shared(nn.Module):
    """One weight used twice, one parameter frozen, one scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(10, 10), nn.Linear(10, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.frozen = nn.Parameter(torch.ones(10), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.inner(x).tanh()) * self.frozen) * self.scale


def conv() -> nn.Module:
    layers = [nn.Unflatten(1, (1, 2, 5)), nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, 3))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(10, 300), nn.ReLU(), nn.Linear(300, 300), nn.Linear(300, 3))


def attention() -> nn.Module:
    block = nn.TransformerEncoderLayer(10, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (1, 10)), block, nn.Flatten(), nn.Linear(10, 3))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "conv": conv,
    "recurrent": Recurrent,
    "shared": Shared,
    "attention": attention,
}


def steps(model: nn.Module, rank: int, count: int, reset_to_none: bool) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(count):
        x, y = torch.randn(6, 10, generator=generator), torch.randn(6, 3, generator=generator)
        optimizer.zero_grad(set_to_none=reset_to_none)
        (model(x) - y).square().mean().backward()
        optimizer.step()
    return [t.detach().clone() for t in model.state_dict().values()]


def against_torch(comm: Any, names: list[str], options: dict[str, Any]) -> list[str]:
    """Return the models that end up different from what torch's class makes of them."""
    different = []
    for name in names:
        torch.manual_seed(comm.rank)
        module = MODELS[name]()
        ours = TorchDistributedDataParallel(copy.deepcopy(module), **options)
        theirs = TorchDdp(copy.deepcopy(module), **options)
        for reset in (True, False):
            a, b = (steps(m, comm.rank, 10, reset) for m in (ours, theirs))
            if not all(torch.equal(x, y) for x, y in zip(a, b, strict=True)):
                different.append(name)
    return different


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket_cap_mb": 0.05, "gradient_as_bucket_view": True},
        {"find_unused_parameters": True, "bucket_cap_mb": 0.01},
        {"static_graph": True},
    ],
    ids=lambda options: "+".join(options) or "default",
)
@pytest.mark.filterwarnings("ignore:find_unused_parameters=True was specified")
def test_five_models_have_torchs_bits_after_20_steps(
    gloo: Callable[..., Any], options: dict[str, Any]
) -> None:
    assert list(gloo(against_torch, 2, list(MODELS), options)) == [[], []]


def test_a_gradient_summed_and_not_averaged_would_be_seen(gloo: Callable[..., Any]) -> None:
    """The specimen for the comparison above."""

    def run(comm: Any) -> list[str]:
        class Sums(TorchDistributedDataParallel):
            def _start_iteration(self, syncs: bool) -> None:
                super()._start_iteration(syncs)
                self.reducer.divisor = 1.0

        ours, theirs = Sums(mlp()), TorchDdp(mlp())
        theirs.load_state_dict(ours.state_dict())
        a, b = (steps(m, comm.rank, 2, True) for m in (ours, theirs))
        return [k for k, (x, y) in enumerate(zip(a, b, strict=True)) if not torch.equal(x, y)]

    assert all(gloo(run, 2))


def test_three_ranks_scale_as_torch_does(gloo: Callable[..., Any]) -> None:
    """A third is no binary fraction: scaling must happen where torch does it."""
    assert list(gloo(against_torch, 3, ["shared"], {})) == [[], [], []]


def test_buckets_after_the_first_iteration_are_torchs(gloo: Callable[..., Any]) -> None:
    keys = ("rebuilt_bucket_sizes", "rebuilt_per_bucket_param_indices")

    def run(comm: Any) -> list[Any]:
        from tests.ddp_lab.data_parallel.torch_names import ObservedDdp

        seen = []
        for wrap in (ObservedDdp, TorchDdp):
            model = wrap(mlp(), bucket_cap_mb=0.1)
            steps(model, comm.rank, 3, True)
            data = model._get_ddp_logging_data()
            seen.append([data[key] for key in keys])
        return seen

    for ours, theirs in gloo(run, 2):
        assert ours == theirs


class TwoArms(nn.Module):
    """Computes its two halves in the order that it is told, and so does backward."""

    def __init__(self) -> None:
        super().__init__()
        self.arms = nn.ModuleList([nn.Linear(4, 4, bias=False) for _ in range(2)])
        self.order = [0, 1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(((k + 1) * self.arms[k](x) for k in self.order), torch.zeros(()))


@pytest.mark.parametrize("over", ["gloo", "communicator"])
def test_ranks_with_different_autograd_orders_get_right_gradients(
    gloo: Callable[..., Any], over: str
) -> None:
    def run(comm: Any) -> list[float]:
        module = TwoArms()
        module.order = [0, 1] if comm.rank else [1, 0]
        group = {"process_group": comm} if over == "communicator" else {}
        model = DistributedDataParallel(module, bucket_cap_mb=0.00001, **group)
        for _ in range(3):
            model.zero_grad()
            model(torch.full((2, 4), 1.0 + comm.rank)).sum().backward()
        return [arm.weight.grad.unique().item() for arm in module.arms]

    assert list(gloo(run, 2)) == [[3.0, 6.0]] * 2


@pytest.mark.parametrize("over", ["gloo", "communicator"])
def test_a_rank_lost_in_the_middle_of_backward_is_an_error_on_the_others(
    gloo: Callable[..., Any], over: str
) -> None:
    class Dies(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, rank: int) -> torch.Tensor:
            ctx.rank = rank
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            if ctx.rank == 1:
                raise KeyError("lost")
            return grad, None

    def run(comm: Any) -> str:
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        group = {"process_group": comm} if over == "communicator" else {}
        model = DistributedDataParallel(
            nn.ModuleList([first, second]), bucket_cap_mb=0.00001, **group
        )
        model.module.forward = lambda x: second(Dies.apply(first(x), comm.rank))
        model(torch.ones(1, 4)).sum().backward()
        return "finished"

    with pytest.raises(ddp_lab.RankFailed, match="lost") as caught:
        gloo(run, 2)
    assert caught.value.rank == 1
    assert set(caught.value.failures) == {0, 1}


def test_nothing_is_left_of_a_model_that_is_dropped(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> list[bool]:
        gone = []
        for group in (None, comm):
            module = nn.Linear(3, 3)
            model = DistributedDataParallel(module, process_group=group)
            steps_left = model(torch.ones(1, 3)).sum()
            steps_left.backward()
            watched = weakref.ref(model.reducer), weakref.ref(module)
            del model, module, steps_left
            # The communicator's thread lets go of its last job a moment after it is done.
            until = time.monotonic() + 30
            while any(ref() for ref in watched) and time.monotonic() < until:
                gc.collect()
            gone += [ref() is None for ref in watched]
        return gone

    assert list(gloo(run, 2)) == [[True] * 4] * 2


def test_a_checkpoint_resumes_bit_for_bit(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> bool:
        torch.manual_seed(0)
        model = DistributedDataParallel(mlp(), bucket_cap_mb=0.05)
        steps(model, comm.rank, 5, True)
        saved = copy.deepcopy(model.state_dict())
        on = steps(model, comm.rank, 5, True)
        again = DistributedDataParallel(mlp(), bucket_cap_mb=0.05)
        again.load_state_dict(saved)
        resumed = steps(again, comm.rank, 5, True)
        return all(torch.equal(a, b) for a, b in zip(on, resumed, strict=True))

    assert list(gloo(run, 2)) == [True, True]


def test_mixed_precision_computes_short_and_keeps_long(gloo: Callable[..., Any]) -> None:
    from torch.nn.parallel.distributed import _MixedPrecision

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen = (x.dtype, self.layer.weight.dtype)
            return self.layer(x)

    def run(comm: Any) -> list[str]:
        precision = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model = DistributedDataParallel(Looks(), mixed_precision=precision)
        out = model(torch.ones(2, 4))
        out.float().sum().backward()
        weight = model.module.layer.weight
        dtypes = (*model.module.seen, out.dtype, weight.dtype, weight.grad.dtype)
        return [str(dtype).removeprefix("torch.") for dtype in dtypes]

    assert gloo(run, 2)[0] == ["bfloat16"] * 3 + ["float32"] * 2


def test_sparse_gradients_stay_sparse_and_are_torchs(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> bool:
        torch.manual_seed(0)
        module = nn.Sequential(nn.Embedding(20, 4, sparse=True), nn.Linear(4, 1))
        ours, theirs = TorchDdp(copy.deepcopy(module)), DistributedDataParallel(module)
        for _ in range(3):
            for model in (ours, theirs):
                model.zero_grad()
                model(torch.tensor([1, 3, 3 + comm.rank])).sum().backward()
        a, b = (next(model.parameters()).grad for model in (ours, theirs))
        return a.is_sparse and b.is_sparse and torch.equal(a.to_dense(), b.to_dense())

    assert list(gloo(run, 2)) == [True, True]


def test_optimizers_applied_in_backward_step_with_averages(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> float:
        from torch.distributed.optim import _apply_optimizer_in_backward

        module = nn.Linear(1, 1, bias=False)
        module.weight.data.fill_(0.0)
        _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 1.0})
        model = DistributedDataParallel(module)
        for _ in range(2):
            model(torch.full((1, 1), 2.0 * comm.rank)).sum().backward()
        assert module.weight.grad is None
        return module.weight.item()

    assert list(gloo(run, 2)) == [-2.0, -2.0]


def test_the_default_group_is_torchs(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> bool:
        return DistributedDataParallel(nn.Linear(1, 1)).process_group is dist.group.WORLD

    assert list(gloo(run, 1)) == [True]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: (nn.ReLU(), {}), RuntimeError, "doesn't have any parameter that requires"),
        (lambda: (nn.Linear(1, 1), {"device_ids": [0, 1]}), ValueError, "single element"),
        (lambda: (nn.Linear(1, 1), {"device_ids": [0]}), ValueError, "on one GPU"),
        (lambda: (nn.LazyLinear(1), {}), RuntimeError, "Run the module once"),
        (lambda: (nn.Linear(1, 1), {"bucket_cap_mb": -1}), ValueError, "negative size"),
        (lambda: (nn.Linear(1, 1), {"process_group": "c"}), ValueError, "no group .*: got 'c'"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    gloo: Callable[..., Any], make: Any, error: type[Exception], message: str
) -> None:
    def run(comm: Any) -> None:
        module, options = make()
        with pytest.raises(error, match=message):
            DistributedDataParallel(module, **options)

    gloo(run, 1)
