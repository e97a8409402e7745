"""Communication hooks: what to send in place of the plain all-reduce of a bucket.

A hook is `hook(state, bucket)`; it returns a future whose value is the bucket's flat average, and
`bucket` has torch's interface: `buffer()`, `gradients()`, `parameters()`, `index()`, `is_last()`.

    model.register_comm_hook(model.group, fp16_compress_hook)
    model.register_comm_hook(PowerSGDState(model.group, rank=2), power_sgd_hook)

The first argument of every state is a `Group`, so the hooks here work over a Communicator as over
torch.distributed, and for modules of torch and minitorch alike: the buffers are tensors of the
one, NumPy arrays for the other. torch's own hooks work for torch over torch.distributed alone.

May import: NumPy, kit, reduction_group; torch_kit inside functions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np

from ddp_lab.data_parallel.hooks.kit import Kit
from ddp_lab.data_parallel.reduction_group import Group, Work


class Later:
    """A future: `finish` of a collective's result, once it is there.

    Like torch's, it has `wait` and `then`; unlike torch's, `then` runs in the thread that waits.
    """

    def __init__(self, work: Work, finish: Callable[[], Any]) -> None:
        self._work = work
        self._finish = finish

    def wait(self) -> Any:
        """Return the value."""
        self._work.wait()
        return self._finish()

    def then(self, callback: Callable[["Done"], Any]) -> "Later":
        """Return a future of `callback(done)`, where `done.value()` is this one's value."""
        return Later(self._work, lambda: callback(Done(self._finish())))


@dataclass(frozen=True)
class Done:
    """A future that has its value; also what a hook returns that sends nothing."""

    result: Any

    def wait(self) -> Any:
        """Return the value."""
        return self.result

    def value(self) -> Any:
        """Return the value."""
        return self.result


class HookState:
    """What a hook remembers from bucket to bucket; a `Checkpoint` keeps it as `per_rank`."""

    remembered: ClassVar[tuple[str, ...]] = ()  # names of attributes

    def state_dict(self) -> dict[str, Any]:
        """Return what the hook remembers."""
        return {name: getattr(self, name) for name in self.remembered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember what `state_dict` returned."""
        for name in self.remembered:
            setattr(self, name, state[name])


def kit_for(flat: Any) -> Kit:
    """Return the kit for arrays of this kind."""
    if isinstance(flat, np.ndarray):
        return Kit()
    from ddp_lab.data_parallel.hooks.torch_kit import TorchKit

    return TorchKit()


def average(group: Group, flat: Any) -> Later:
    """Start averaging `flat` in place."""
    kit_for(flat).divide(flat, group.size)
    return Later(group.all_reduce(flat), lambda: flat)


def allreduce_hook(state: Group, bucket: Any) -> Later:
    """What happens without a hook: a plain average."""
    return average(state, bucket.buffer())


def fp16_compress_hook(state: Group, bucket: Any) -> Later:
    """Send half-precision numbers: half the bytes, 11 bits of mantissa, overflow above 65,504."""
    flat = bucket.buffer()

    def lengthen(done: Done) -> Any:
        flat[...] = done.value()
        return flat

    return average(state, kit_for(flat).halve(flat)).then(lengthen)


@dataclass
class TopKState(HookState):
    """Top-k sparsification with error feedback: the `ratio` largest entries travel.

    What was left out is kept and added to the next gradient, so nothing is lost, only late.
    Source: Stich, Cordonnier & Jaggi, Sparsified SGD with Memory, NeurIPS 2018.
    """

    remembered = ("left_out",)
    group: Group
    ratio: float = 0.01
    left_out: dict[int, Any] = field(default_factory=dict)

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
    group, flat = state.group, bucket.buffer()
    kit = kit_for(flat)
    error = state.left_out.get(bucket.index())
    if error is None or error.shape != flat.shape:
        error = state.left_out[bucket.index()] = kit.zeros_like(flat)
    error += flat
    count = max(1, int(state.ratio * flat.shape[0]))
    positions = kit.largest(error, count)
    table = kit.zeros((group.size, 2, count), flat)
    table[group.rank, 0], table[group.rank, 1] = positions, error[positions]
    error[positions] = 0.0

    def unpack() -> Any:
        flat[...] = 0.0
        kit.add_at(flat, table[:, 0].reshape(-1), table[:, 1].reshape(-1))
        kit.divide(flat, group.size)
        return flat

    return Later(group.all_reduce(table.reshape(-1)), unpack)


@dataclass
class PowerSGDState(HookState):
    """PowerSGD: each matrix travels as two thin factors, found by one step of power iteration.

    Args:
        group: the ranks.
        rank: columns of the factors; an (n, m) gradient takes (n + m) * rank numbers, not n * m.
        start_iter: plain averages before this many iterations.

    Source: Vogels, Karimireddy & Jaggi, PowerSGD, NeurIPS 2019, algorithms 1 and 2.
    """

    remembered = ("iteration", "left_out", "factors")
    group: Group
    rank: int = 1
    start_iter: int = 2
    seed: int = 0
    iteration: int = 0
    left_out: dict[int, list[Any]] = field(default_factory=dict)
    factors: dict[int, list[Any]] = field(default_factory=dict)

    def worth_it(self, grad: Any) -> bool:
        """Whether two factors are smaller than the matrix itself."""
        if len(grad.shape) < 2:
            return False
        rows, columns = grad.shape[0], prod(grad.shape[1:])
        return bool((rows + columns) * self.rank < rows * columns)


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
    p = [kit_for(factor).orthonormal(factor) for factor in p]
    q = [matrix.T @ factor for matrix, factor in zip(matrices, p, strict=True)]
    local = [factor + 0.0 for factor in q]
    _average_together(state.group, q).wait()
    for index, (grad, matrix) in enumerate(zip(large, matrices, strict=True)):
        left_out[index] = matrix - p[index] @ local[index].T
        grad[...] = (p[index] @ q[index].T).reshape(grad.shape)
    state.factors[bucket.index()] = q
    rest.wait()
    return Done(bucket.buffer())


def _memory(state: PowerSGDState, index: int, matrices: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a bucket's leftovers and its right factors, from last time or made anew."""
    errors = state.left_out.get(index, [])
    if [m.shape for m in errors] != [m.shape for m in matrices]:
        state.left_out[index] = [kit_for(m).zeros_like(m) for m in matrices]
        state.factors[index] = [  # alike on every rank
            kit_for(m).normal((m.shape[1], state.rank), state.seed + index, m) for m in matrices
        ]
    return state.left_out[index], state.factors[index]


def _average_together(group: Group, arrays: list[Any]) -> "Done | Later":
    """Start averaging several arrays as one message, each in place."""
    if not arrays:
        return Done(None)
    flat = kit_for(arrays[0]).join(arrays)

    def unpack() -> Any:
        start = 0
        for array in arrays:
            end = start + prod(array.shape)
            array[...] = flat[start:end].reshape(array.shape)
            start = end
        return flat

    return Later(average(group, flat), unpack)
