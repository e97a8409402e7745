"""Programs as lists of steps over matrices of float32: straight-line code, each value set once.

Step i computes value i from values with smaller numbers. Imports NumPy alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Feeds = Mapping[str, Array]
Parts = Sequence[tuple[str, Sequence[int]]]
Tree = Any  # the number of a factor, or a pair of trees

BLOCK = 65_536  # elements: 256 KiB a temporary, so that it stays in a level-2 cache
NOISE = np.random.default_rng(0)

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "square": np.square,
    "tanh": np.tanh,
    "relu": lambda a, out: np.maximum(a, 0, out=out),
    "positive": lambda a, out: np.greater(a, 0, out=out),
}
KERNELS: dict[str, Callable[..., Any]] = {
    "matmul": lambda attr, out, a, b: np.matmul(a, b, out=out),
    "sum": lambda attr, out, a: np.sum(a, axis=attr, keepdims=True, out=out),
    "concat": lambda attr, out, *arrays: np.concatenate(arrays, axis=1, out=out),
    "noise": lambda attr, out: np.greater(NOISE.random(attr[1]), attr[0], out=out),
    "fused": lambda parts, out, *arrays: fused_kernel(parts, out, *arrays),
}
VIEWS: dict[str, Callable[..., Any]] = {  # no arithmetic and no memory: the same numbers
    "transpose": lambda attr, a: a.T,
    "slice": lambda attr, a: a[:, attr[0] : attr[1]],
}


class Step(NamedTuple):
    """One step: `inputs` are numbers of earlier steps, `attr` whatever else the operator needs."""

    op: str
    inputs: tuple[int, ...]
    attr: Any
    shape: tuple[int, ...]


class Program:
    """Steps in order, and the numbers of those that are its outputs."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.outputs: list[int] = []

    def emit(self, op: str, *inputs: int, attr: object = None) -> int:
        """Add a step and return its number."""
        shape = infer(op, attr, [self.steps[i].shape for i in inputs])
        return self.keep(Step(op, inputs, attr, shape), inputs)

    def keep(self, step: Step, inputs: Iterable[int]) -> int:
        """Add a step of another program, over these inputs, and return its number."""
        self.steps.append(step._replace(inputs=tuple(inputs)))
        return len(self.steps) - 1

    def __str__(self) -> str:
        lines = []
        for i, step in enumerate(self.steps):
            of = " ".join(f"%{j}" for j in step.inputs)
            note = "" if step.attr is None or step.op == "const" else f" {step.attr}"
            mark = "   <- output" if i in self.outputs else ""
            lines.append(f"%{i} = {step.op} {of}{note}  {step.shape}{mark}")
        return "\n".join(lines)


def infer(op: str, attr: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of a step's result."""
    if op in ("input", "noise"):
        return tuple(attr[1])
    if op == "const":
        return tuple(attr.shape)
    if op in ELEMENTWISE or op == "fused":
        return np.broadcast_shapes(*shapes)
    rows, columns = shapes[0]
    if op == "sum":
        return {None: (1, 1), 0: (1, columns), 1: (rows, 1)}[attr]
    if op == "slice":
        return rows, attr[1] - attr[0]
    if op == "concat":
        return rows, sum(shape[1] for shape in shapes)
    return {"transpose": (columns, rows), "matmul": (rows, shapes[-1][1])}[op]


def compute(step: Step, arrays: Sequence[Array], out: Array | None = None) -> Array:
    """Return the result of one step of arrays; `out` is the memory for it, if there is any."""
    if step.op == "const":
        return np.asarray(step.attr)
    if step.op in VIEWS:
        return np.asarray(VIEWS[step.op](step.attr, *arrays))
    if out is None:
        out = np.empty(step.shape, np.float32)
    if step.op in ELEMENTWISE:
        ELEMENTWISE[step.op](*arrays, out=out)
    else:
        KERNELS[step.op](step.attr, out, *arrays)
    return out


def run(program: Program, feeds: Feeds, memory: Mapping[int, Array] | None = None) -> list[Array]:
    """Return the outputs, given {name: array} for the inputs; memory[i], if any, is for step i."""
    values: list[Array] = []
    for i, step in enumerate(program.steps):
        sources = [values[j] for j in step.inputs]
        if step.op == "input":
            values.append(feeds[step.attr[0]])
        else:
            values.append(compute(step, sources, (memory or {}).get(i)))
    return [values[i] for i in program.outputs]


def ready(program: Program, feeds: Feeds) -> Callable[[], list[Array]]:
    """Return a function that runs the program again and again into the same memory."""
    own = [i for i, step in enumerate(program.steps) if step.op not in ("input", "const", *VIEWS)]
    memory = {i: np.empty(program.steps[i].shape, np.float32) for i in own}
    return partial(run, program, feeds, memory)


def fused_kernel(parts: Parts, out: Array, *arrays: Array) -> Array:
    """Compute all parts block by block, by rows; a part's result is overwritten by its user.

    A part is (op, operands); an operand of 0 or more is an array, -1-k the result of part k.
    """
    n, columns = out.shape
    rows = max(1, min(n, BLOCK // columns))
    fresh = [k for k, (_, operands) in enumerate(parts[:-1]) if min(operands) >= 0]
    scratch = {k: np.empty((rows, columns), np.float32) for k in fresh}
    for lo in range(0, n, rows):
        hi = min(lo + rows, n)
        pieces = [a[lo:hi] if len(a) == n else a for a in arrays]
        results: list[Array] = []
        for k, (op, operands) in enumerate(parts):
            sources = [pieces[j] if j >= 0 else results[-1 - j] for j in operands]
            if k == len(parts) - 1:
                target = out[lo:hi]
            else:
                target = scratch[k][: hi - lo] if k in scratch else results[-1 - min(operands)]
            results.append(ELEMENTWISE[op](*sources, out=target))
    return out


def tree_of(
    program: Program, i: int, joins: Iterable[int]
) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], list[int]]:
    """Return (parts, leaves) of step i with all of its inputs in `joins`, and theirs, inside."""
    parts: list[tuple[str, tuple[int, ...]]] = []
    leaves: list[int] = []
    inside = set(joins)

    def visit(k: int) -> int:
        operands = []
        for j in program.steps[k].inputs:
            if j in inside:
                operands.append(visit(j))
            else:
                leaves.append(j) if j not in leaves else None
                operands.append(leaves.index(j))
        parts.append((program.steps[k].op, tuple(operands)))
        return -len(parts)

    visit(i)
    return tuple(parts), leaves


def users_of(program: Program) -> list[list[int | None]]:
    """Return for each step the list of its users; an output has the user None too."""
    users: list[list[int | None]] = [[] for _ in program.steps]
    for i, step in enumerate(program.steps):
        for j in step.inputs:
            users[j].append(i)
    for i in program.outputs:
        users[i].append(None)
    return users


def emit_tree(program: Program, factors: Sequence[int], tree: Tree) -> int:
    """Emit the products of `tree`, whose leaves count `factors`; return the number of the last."""
    if isinstance(tree, int):
        return factors[tree]
    return program.emit("matmul", *(emit_tree(program, factors, side) for side in tree))


def random_feeds(program: Program, seed: int = 0) -> dict[str, Array]:
    """Return random arrays for all inputs of a program."""
    rng = np.random.default_rng(seed)
    names = [step.attr for step in program.steps if step.op == "input"]
    return {name: rng.normal(size=shape).astype(np.float32) / 8 for name, shape in names}


def flops(program: Program) -> int:
    """Return the multiplications in all products of a program."""
    shapes = [step.shape for step in program.steps]
    products = [step for step in program.steps if step.op == "matmul"]
    return sum(shapes[s.inputs[0]][0] * shapes[s.inputs[0]][1] * s.shape[1] for s in products)


def traffic(program: Program) -> int:
    """Return how many arrays of the largest size the steps read and write."""
    largest = max(step.shape for step in program.steps)
    arithmetic = [s for s in program.steps if s.inputs and s.op not in VIEWS]
    reads = [program.steps[j].shape == largest for s in arithmetic for j in set(s.inputs)]
    return sum(reads) + sum(s.shape == largest for s in arithmetic)


def attr_key(attr: object) -> Any:
    """Return something that is equal and hashable exactly where attributes are equal."""
    return (attr.shape, attr.tobytes()) if isinstance(attr, np.ndarray) else attr


def identity_of(program: Program) -> int:
    """Return a fingerprint of a program's text and its constants."""
    constants = [attr_key(s.attr) for s in program.steps if s.op == "const"]
    return hash((str(program), tuple(constants)))
