"""Programs of steps run over tensors of minitorch, on the CPU or on a GPU."""

from collections.abc import Callable

import minitorch as mt
from lessons.graphs.programs import ELEMENTWISE, Feeds, Parts, Program
from minitorch.tensor.tensor import Tensor


def _by_name(op: str) -> Callable[..., Tensor]:
    return lambda _, *tensors: getattr(mt, op)(*tensors)


def _fused(parts: Parts, *tensors: Tensor) -> Tensor:
    """Return the parts one after the other: one kernel for them would have to be generated."""
    results: list[Tensor] = []
    for op, operands in parts:
        sources = (tensors[j] if j >= 0 else results[-1 - j] for j in operands)
        results.append(OPERATORS[op](None, *sources))
    return results[-1]


OPERATORS: dict[str, Callable[..., Tensor]] = {  # the attribute comes first
    **{op: _by_name(op) for op in ELEMENTWISE},
    "positive": lambda _, a: (a > 0) * 1.0,
    "matmul": lambda _, a, b: a @ b,
    "sum": lambda axis, a: a.sum(dim=(0, 1) if axis is None else axis, keepdim=True),
    "concat": lambda _, *tensors: mt.cat(tensors, dim=1),
    "transpose": lambda _, a: a.T,
    "slice": lambda columns, a: a[:, columns[0] : columns[1]],
    "fused": _fused,
}


def device() -> str:
    """Return "cuda" where there is one, else "cpu"."""
    return "cuda" if mt.cuda.is_available() else "cpu"


def move_to_device(program: Program, feeds: Feeds) -> dict[int, Tensor]:
    """Return {step: tensor on the device} for a program's inputs and constants."""
    steps = [(i, s) for i, s in enumerate(program.steps) if s.op in ("input", "const")]
    arrays = {i: feeds[s.attr[0]] if s.op == "input" else s.attr for i, s in steps}
    return {i: mt.tensor(array, device=device()) for i, array in arrays.items()}


def run_on_device(
    program: Program, given: dict[int, Tensor], watch: Callable[[], None] = lambda: None
) -> list[Tensor]:
    """Run a program on the device and wait for its end; a tensor is dropped after its last use.

    `watch` is called after each step, before anything is dropped.
    """
    values, last = dict(given), {j: i for i, s in enumerate(program.steps) for j in s.inputs}
    for i, step in enumerate(program.steps):
        if i not in given:
            values[i] = OPERATORS[step.op](step.attr, *(values[j] for j in step.inputs))
        watch()
        for j in set(step.inputs) - set(program.outputs):
            if last[j] == i:
                del values[j]
    if device() == "cuda":
        mt.cuda.synchronize()  # a GPU works on while Python goes ahead
    return [values[i] for i in program.outputs]


def count_bytes(program: Program, given: dict[int, Tensor]) -> tuple[list[int], int]:
    """Return (bytes alive at each step, requests to the system), as the allocator counts them."""
    counters = mt.cuda.memory_stats if device() == "cuda" else mt.cpu.memory_stats
    before, alive = counters(), []
    run_on_device(
        program, given, lambda: alive.append(counters()["allocated"] - before["allocated"])
    )
    return alive, counters()["misses"] - before["misses"]
