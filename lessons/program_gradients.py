"""Gradients of programs of steps, appended to them rule by rule."""

from collections.abc import Callable, Sequence

import numpy as np

from lessons.programs import Program

# of each operator: program, gradient of the result, number of the result, numbers of the inputs
RULES: dict[str, Callable[..., tuple[int, ...]]] = {
    "add": lambda p, g, i, a, b: (g, g),
    "sub": lambda p, g, i, a, b: (g, p.emit("neg", g)),
    "mul": lambda p, g, i, a, b: (p.emit("mul", g, b), p.emit("mul", g, a)),
    "div": lambda p, g, i, a, b: (
        p.emit("div", g, b),
        p.emit("neg", p.emit("div", p.emit("mul", g, i), b)),
    ),
    "matmul": lambda p, g, i, a, b: (
        p.emit("matmul", g, p.emit("transpose", b)),
        p.emit("matmul", p.emit("transpose", a), g),
    ),
    "relu": lambda p, g, i, a: (p.emit("mul", g, p.emit("positive", a)),),
    "square": lambda p, g, i, a: (p.emit("mul", g, p.emit("mul", number(p, 2), a)),),
    "sum": lambda p, g, i, a: (p.emit("mul", g, ones(p, p.steps[a].shape)),),
}


def number(program: Program, value: float) -> int:
    """Add a constant of one element; return its number."""
    return program.emit("const", attr=np.full((1, 1), value, np.float32))


def ones(program: Program, shape: tuple[int, ...]) -> int:
    """Add a constant of ones; return its number."""
    return program.emit("const", attr=np.ones(shape, np.float32))


def gradients(p: Program, loss: int, wrt: Sequence[int]) -> list[int]:
    """Append the gradients of value `loss` to program `p`; return their numbers, one for each."""
    adjoint = {loss: ones(p, p.steps[loss].shape)}
    for i in range(loss, -1, -1):
        step = p.steps[i]
        if i not in adjoint or not step.inputs:
            continue
        found = RULES[step.op](p, adjoint[i], i, *step.inputs)
        for j, partial in zip(step.inputs, found, strict=True):
            for axis in (0, 1):  # a broadcast input is a copy, and copies add up
                if p.steps[j].shape[axis] == 1 < p.steps[partial].shape[axis]:
                    partial = p.emit("sum", partial, attr=axis)
            adjoint[j] = p.emit("add", adjoint[j], partial) if j in adjoint else partial
    return [adjoint[j] for j in wrt]
