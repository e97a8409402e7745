"""Communication hooks: what to send in place of the plain all-reduce of a bucket.

A hook is `hook(state, bucket)`; it returns a future whose value is the bucket's flat average, and
`bucket` has torch's interface: `buffer()`, `gradients()`, `parameters()`, `index()`, `is_last()`.

    model.register_comm_hook(model.group, fp16_compress_hook)
    model.register_comm_hook(PowerSGDState(model.group, rank=2), power_sgd_hook)

The first argument of every state is a `Group`, so the hooks here work over a Communicator as over
torch.distributed; torch's own hooks work over torch.distributed alone.

May import: torch, group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ddp_lab.data_parallel.group import Group, Work


class Later:
    """A future: `finish` of a collective's result, once it is there.

    Like torch's, it has `wait` and `then`; unlike torch's, `then` runs in the thread that waits.
    """

    def __init__(self, work: Work, finish: Callable[[], Tensor]) -> None:
        self._work = work
        self._finish = finish

    def wait(self) -> Tensor:
        """Return the value."""
        self._work.wait()
        return self._finish()

    def then(self, callback: Callable[["Done"], Tensor]) -> "Later":
        """Return a future of `callback(done)`, where `done.value()` is this one's value."""
        return Later(self._work, lambda: callback(Done(self._finish())))


@dataclass(frozen=True)
class Done:
    """A future that has its value; also what a hook returns that sends nothing."""

    result: Tensor

    def wait(self) -> Tensor:
        """Return the value."""
        return self.result

    def value(self) -> Tensor:
        """Return the value."""
        return self.result


def average(group: Group, flat: Tensor) -> Later:
    """Start averaging `flat` in place."""
    flat.div_(group.size)
    return Later(group.all_reduce(flat), lambda: flat)


def allreduce_hook(state: Group, bucket: Any) -> Later:
    """What happens without a hook: a plain average."""
    return average(state, bucket.buffer())


def _in(dtype: torch.dtype, state: Group, bucket: Any) -> Later:
    flat: Tensor = bucket.buffer()
    small = flat.to(dtype)
    return average(state, small).then(lambda done: flat.copy_(done.value()))


def fp16_compress_hook(state: Group, bucket: Any) -> Later:
    """Send half-precision numbers: half the bytes, 11 bits of mantissa, overflow above 65,504."""
    return _in(torch.float16, state, bucket)


def bf16_compress_hook(state: Group, bucket: Any) -> Later:
    """Send bfloat16: half the bytes, float32's range, 8 bits of mantissa."""
    return _in(torch.bfloat16, state, bucket)


@dataclass
class TopKState:
    """Top-k sparsification with error feedback: the `ratio` largest entries travel.

    What was left out is kept and added to the next gradient, so nothing is lost, only late.
    Source: Stich, Cordonnier & Jaggi, Sparsified SGD with Memory, NeurIPS 2018.
    """

    group: Group
    ratio: float = 0.01
    left_out: dict[int, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise ValueError(
                f"TopKState: ratio is a share of the entries: got {self.ratio}, expected more "
                "than 0 and at most 1. Pass 0.01 to send one in a hundred."
            )


def top_k_hook(state: TopKState, bucket: Any) -> Later:
    """Send the largest entries of gradient plus leftover; see `TopKState`.

    Each rank fills a row of its own in a table of (position, value); the sum over ranks is an
    all-gather.
    """
    group = state.group
    flat: Tensor = bucket.buffer()
    error = state.left_out.get(bucket.index())
    if error is None or error.shape != flat.shape:
        error = state.left_out[bucket.index()] = torch.zeros_like(flat)
    error += flat
    count = max(1, int(state.ratio * flat.numel()))
    positions = error.abs().topk(count).indices
    table = torch.zeros(group.size, 2, count, dtype=torch.float64)
    table[group.rank, 0], table[group.rank, 1] = positions.double(), error[positions].double()
    error[positions] = 0.0

    def unpack() -> Tensor:
        flat.zero_()
        where, what = table[:, 0].reshape(-1).long(), table[:, 1].reshape(-1)
        flat.index_add_(0, where, what.to(flat.dtype)).div_(group.size)
        return flat

    return Later(group.all_reduce(table.view(-1)), unpack)


@dataclass
class PowerSGDState:
    """PowerSGD: each matrix travels as two thin factors, found by one step of power iteration.

    Args:
        group: the ranks.
        rank: columns of the factors; an (n, m) gradient takes (n + m) * rank numbers, not n * m.
        start_iter: plain averages before this many iterations.

    Source: Vogels, Karimireddy & Jaggi, PowerSGD, NeurIPS 2019, algorithms 1 and 2.
    """

    group: Group
    rank: int = 1
    start_iter: int = 2
    seed: int = 0
    iteration: int = 0
    left_out: dict[int, list[Tensor]] = field(default_factory=dict)
    factors: dict[int, list[Tensor]] = field(default_factory=dict)

    def worth_it(self, grad: Tensor) -> bool:
        """Whether two factors are smaller than the matrix itself."""
        if grad.dim() < 2:
            return False
        rows = grad.shape[0]
        columns = grad.numel() // max(rows, 1)
        return (rows + columns) * self.rank < rows * columns


def power_sgd_hook(state: PowerSGDState, bucket: Any) -> "Done | Later":
    """Average a bucket as low-rank matrices with error feedback; vectors travel as they are."""
    state.iteration += bucket.index() == 0
    if state.iteration <= state.start_iter:
        return average(state.group, bucket.buffer())
    grads = bucket.gradients()
    large = [g for g in grads if state.worth_it(g)]
    rest = _average_together(state.group, [g for g in grads if not state.worth_it(g)])
    matrices = [g.reshape(g.shape[0], -1) for g in large]
    left_out, q = _memory(state, bucket.index(), matrices)
    matrices = [matrix + error for matrix, error in zip(matrices, left_out, strict=True)]
    p = [matrix @ factor for matrix, factor in zip(matrices, q, strict=True)]
    _average_together(state.group, p).wait()
    p = [torch.linalg.qr(factor).Q for factor in p]
    q = [matrix.T @ factor for matrix, factor in zip(matrices, p, strict=True)]
    local = [factor.clone() for factor in q]
    _average_together(state.group, q).wait()
    for index, (grad, matrix) in enumerate(zip(large, matrices, strict=True)):
        left_out[index] = matrix - p[index] @ local[index].T
        grad.copy_((p[index] @ q[index].T).view(grad.shape))
    state.factors[bucket.index()] = q
    rest.wait()
    return Done(bucket.buffer())


def _memory(
    state: PowerSGDState, index: int, matrices: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return a bucket's leftovers and its right factors, from last time or made anew."""
    known = state.left_out.get(index, [])
    if [m.shape for m in known] != [m.shape for m in matrices]:
        generator = torch.Generator().manual_seed(state.seed + index)  # alike on every rank
        state.left_out[index] = [torch.zeros_like(m) for m in matrices]
        state.factors[index] = [
            torch.randn(m.shape[1], state.rank, generator=generator).to(m) for m in matrices
        ]
    return state.left_out[index], state.factors[index]


def _average_together(group: Group, tensors: list[Tensor]) -> "Done | Later":
    """Start averaging several tensors as one message, each in place."""
    if not tensors:
        return Done(torch.empty(0))
    flat = torch.cat([t.reshape(-1) for t in tensors])

    def unpack() -> Tensor:
        parts = torch.split(flat, [t.numel() for t in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))
        return flat

    return Later(average(group, flat), unpack)


@dataclass
class LocalSGDState:
    """Local SGD: after `start_iter` iterations gradients stay at home.

    Call `average_parameters` every few steps instead.
    Source: Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019.
    """

    group: Group
    start_iter: int = 100
    iteration: int = 0

    @torch.no_grad()
    def average_parameters(self, params: Any) -> None:
        """Replace parameters by their averages over the ranks."""
        _average_together(self.group, [p.detach() for p in params]).wait()


def local_sgd_hook(state: LocalSGDState, bucket: Any) -> "Done | Later":
    """Average at first; later leave the gradient as this rank computed it."""
    state.iteration += bucket.index() == 0
    if state.iteration <= state.start_iter:
        return average(state.group, bucket.buffer())
    return Done(bucket.buffer())
