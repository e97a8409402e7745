"""Programs of steps to try passes on: a chain of products, two heads, networks, a training step."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from lessons.graphs.programs import Program, Tree, emit_tree

LAYERS = {"u": (64, 8), "v": (8, 768), "b": (1, 768), "p": (768, 10), "r": (768, 2)}


def chain(*sizes: int, tree: Tree) -> Program:
    """Return a program that multiplies matrices sizes[i] x sizes[i+1] in the order of `tree`."""
    program = Program()
    factors = [program.emit("input", attr=(f"m{i}", s)) for i, s in enumerate(pairwise(sizes))]
    program.outputs = [emit_tree(program, factors, tree)]
    return program


def two_heads(rows: int, middle: int, columns: int, weights: str = "input") -> Program:
    """Return tanh(x a) + tanh(x b); the weights are each an "input" or a "const"."""
    p = Program()
    x = p.emit("input", attr=("x", (rows, middle)))
    rng = np.random.default_rng(1)
    arrays = {name: rng.normal(size=(middle, columns)).astype(np.float32) / 8 for name in "ab"}
    both = [
        p.emit(weights, attr=array if weights == "const" else (name, array.shape))
        for name, array in arrays.items()
    ]
    heads = [p.emit("tanh", p.emit("matmul", x, w)) for w in both]
    p.outputs = [p.emit("add", *heads)]
    return p


def five_elementwise(rows: int, columns: int = 1024) -> Program:
    """Return relu(x * w + b) * s + y, with vectors w, b, s."""
    p = Program()
    x, y = (p.emit("input", attr=(n, (rows, columns))) for n in "xy")
    w, b, s = (p.emit("input", attr=(n, (1, columns))) for n in "wbs")
    inside = p.emit("relu", p.emit("add", p.emit("mul", x, w), b))
    p.outputs = [p.emit("add", p.emit("mul", inside, s), y)]
    return p


def two_layers(between: bool, width: int = 96, batch: int = 8) -> Program:
    """Return MSE(w2 f(w1 x), y) and its gradients for w1 and w2; f is ReLU, if `between`."""
    p = Program()
    names = {"w1": (64, 64), "w2": (width, 64), "x": (64, batch), "y": (width, batch)}
    w1, w2, x, y = (p.emit("input", attr=item) for item in names.items())
    hidden = p.emit("matmul", w1, x)
    hidden = p.emit("relu", hidden) if between else hidden
    difference = p.emit("sub", p.emit("matmul", w2, hidden), y)
    loss = p.emit("sum", p.emit("square", difference))
    p.outputs = [loss, *gradients(p, loss, [w1, w2])]
    return p


def deep_network(depth: int, backward: bool, size: int = 256, batch: int = 64) -> Program:
    """Return a network of relu layers, or its gradients with respect to all weights."""
    p = Program()
    h = p.emit("input", attr=("x", (batch, size)))
    weights = [p.emit("input", attr=(f"w{k}", (size, size))) for k in range(depth)]
    for w in weights:
        h = p.emit("relu", p.emit("matmul", h, w))
    p.outputs = gradients(p, p.emit("sum", h), weights) if backward else [h]
    return p


def training_step(batch: int) -> Program:
    """Return one training step: the loss, then the new weights in the order of LAYERS.

    A first layer of two thin factors, u v; two heads on one hidden layer, p for which digit it is
    and r for whether it is even; mean squared errors; SGD.
    """
    p = Program()
    fed = (("x", 64), ("digit", 10), ("even", 2))
    x, digit, even = (p.emit("input", attr=(name, (batch, n))) for name, n in fed)
    w = {name: p.emit("input", attr=(name, shape)) for name, shape in LAYERS.items()}
    layer = p.emit("matmul", x, p.emit("matmul", w["u"], w["v"]))
    hidden = p.emit("relu", p.emit("add", layer, w["b"]))
    losses = []
    for head, target in (("p", digit), ("r", even)):
        wrong = p.emit("sub", p.emit("matmul", hidden, w[head]), target)
        mean = p.emit("div", number(p, 1), number(p, batch))
        losses.append(p.emit("mul", p.emit("sum", p.emit("square", wrong)), mean))
    loss = p.emit("add", *losses)
    grads = gradients(p, loss, list(w.values()))
    rate = p.emit("mul", number(p, 0.5), number(p, 0.02))
    steps = zip(w.values(), grads, strict=True)
    p.outputs = [loss, *(p.emit("sub", old, p.emit("mul", rate, g)) for old, g in steps)]
    return p


# gradients, appended to a program rule by rule

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
        partials = RULES[step.op](p, adjoint[i], i, *step.inputs)
        for j, partial in zip(step.inputs, partials, strict=True):
            for axis in (0, 1):  # a broadcast input is a copy, and copies add up
                if p.steps[j].shape[axis] == 1 < p.steps[partial].shape[axis]:
                    partial = p.emit("sum", partial, attr=axis)
            adjoint[j] = p.emit("add", adjoint[j], partial) if j in adjoint else partial
    return [adjoint[j] for j in wrt]
