"""Elementwise operators fused to one, and a reduction that takes their result as it comes.

Two ways to compute them. With NumPy the operators are one Python function. With a compiler they are
one kernel, which reads each input once and writes nothing in between. The pass decides from how
many elements on the kernel pays.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array, DType, Namespace
from ...compile.gpu import cuda_driver
from ...compile.kernels import Kernel, kernel
from ...compile.rows import Program
from ...errors import MinitorchError
from ...op import Gradients, Op, Spec
from ...ops.reducing.reduction import Extreme, Mean, Reduction
from ..core.gradients import gradients
from ..core.node import Node
from .lowering import Parts, program_of

FOLDS: dict[str, Callable[..., Array]] = {"sum": np.add.reduce, "amax": np.max, "amin": np.min}
Origin = tuple[str, tuple[str, int]]
"""The name of a node, and the file and line that built it."""


class Fused(Op):
    """Elementwise operators fused to one, and perhaps a reduction on top.

    What is reduced is never stored.

    Attributes:
        parts: the operators, inputs first; an integer operand is an input of the whole, a negative
            one the result of part -1 - operand.
        least: the number of elements from which the kernel computes; None for never.
        reduction: the operator on top, a sum, a mean or an extreme over the last axes; or None.
        origins: for each part the name and the line of the node that it was.
    """

    reads_output = False

    def __init__(
        self,
        parts: Parts,
        dtypes: Sequence[DType] = (),
        least: int | None = None,
        reduction: Reduction | None = None,
        *,
        origins: Sequence[Origin] = (),
    ) -> None:
        self.parts, self.origins, self.reduction = tuple(parts), tuple(origins), reduction
        self.dtypes, self.least = tuple(dtypes), least
        top = () if reduction is None else ((reduction, (-len(self.parts),)),)
        self._function = _expression((*self.parts, *top))
        if least is None:  # nothing to decide at run time
            self.compute = self._function  # type: ignore[method-assign]

    @functools.cached_property
    def program(self) -> Program | None:
        """What a kernel computes, the reduction included, where one can."""
        return program_of(self.parts, self.dtypes, kernel_reduction(self.reduction))

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The kernel of `program`."""
        return kernel(self.program)

    @property
    def always_by_kernel(self) -> bool:
        """Whether NumPy arrays of any size go to the kernel as they are."""
        return self.reduction is None and self.least == 0

    @property
    def name(self) -> str:
        """The reduction's name, then those of the parts, last first."""
        fused = "fused_" + "_".join(op.name for op, _ in reversed(self.parts))
        return fused if self.reduction is None else f"{self.reduction.name}_{fused}"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        least = self.least
        if xp is np and least is not None and any(a.size >= least for a in arrays):
            if self.reduction is None:
                return self.kernel(*arrays)
            return self._reduce_by_kernel(self.reduction, arrays)
        return self._function(xp, *arrays)

    def _reduce_by_kernel(self, reduction: Reduction, arrays: Sequence[Array]) -> Array:
        """Let the kernel fold the last axis, or all of them where they lie in one run."""
        dims, largest = reduction.dims, max(a.size for a in arrays)
        in_one = all(a.size == 1 or (a.size == largest and a.flags.c_contiguous) for a in arrays)
        at_once = len(dims) if in_one else 1
        total = self.kernel(*arrays, axes=at_once)
        if at_once < len(dims):
            rest = tuple(range(total.ndim - len(dims) + 1, total.ndim))
            total = np.asarray(FOLDS[kernel_reduction(reduction)](total, axis=rest))
        if isinstance(reduction, Mean):
            full = np.broadcast_shapes(*[a.shape for a in arrays])
            total = total / total.dtype.type(np.prod([full[d] for d in dims]))
        return total.reshape((*total.shape, *([1] * len(dims)))) if reduction.keepdim else total

    def on_device(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the result of arrays that are not NumPy's: by a kernel where a GPU has them."""
        program = self.program
        result = None if program is None else cuda_driver.run_on_device(program, arrays)
        return self.compute(xp, *arrays) if result is None else result

    def infer(self, *specs: Spec) -> Spec:
        spec = _infer(self.parts, specs)
        return spec if self.reduction is None else self.reduction.infer(spec)

    def find_culprit(self, *specs: Spec) -> Origin | None:
        """Return the node, as it was before fusion, that cannot take inputs of these specs."""
        inner: list[Spec] = []
        for (op, operands), origin in zip(self.parts, self.origins, strict=False):
            try:
                inner.append(op.infer(*[inner[-1 - i] if i < 0 else specs[i] for i in operands]))
            except MinitorchError:
                return origin
        return None

    def unfuse(self, *inputs: Node) -> Any:
        """Return the parts as they were, over these nodes."""
        values: list[Node] = []
        for op, operands in self.parts:
            values.append(op(*[values[-1 - i] if i < 0 else inputs[i] for i in operands]))
        return values[-1] if self.reduction is None else self.reduction(values[-1])

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """Differentiate the parts as they were, rebuilt over the same inputs."""
        inputs = list(node.inputs)  # one may be computed from another, which is not ours to follow
        return tuple(gradients(self.unfuse(*inputs), inputs, out_grad, stop_gradients=inputs))

    def attributes(self) -> dict[str, object]:
        return {"parts": self.parts, "reduction": self.reduction}


def kernel_reduction(op: Reduction | None) -> str:
    """Return the name under which kernels know a reduction, "" for none."""
    if isinstance(op, Extreme):
        return "amax" if op.largest else "amin"
    return "" if op is None else "sum"


@functools.lru_cache(maxsize=1024)
def _infer(parts: Parts, specs: Sequence[Spec]) -> Spec:
    """Return what the parts give: a large graph has many groups that are equal."""
    results: list[Spec] = []
    for op, operands in parts:
        results.append(op.infer(*[results[-1 - i] if i < 0 else specs[i] for i in operands]))
    return results[-1]


def _expression(parts: Parts) -> Callable[..., Array]:
    """Return a Python function that computes the parts."""
    over = _over(tuple([operands for _, operands in parts]))
    return over(*[op.compute for op, _ in parts])


@functools.lru_cache(maxsize=1024)
def _over(parts: Sequence[tuple[int, ...]]) -> Callable[..., Callable[..., Array]]:
    """Return what makes a function of operators with these operands: nested where used once.

    What is used more often has a name, and is let go in the line that uses it last, so that its
    memory is used again. A large graph has many groups that read the same. They reach the operators
    as a closure: globals of its own would be another namespace for each function of one code, which
    Python's caches take for a change at every call.
    """
    uses = Counter(-1 - place for operands in parts for place in operands if place < 0)
    texts: list[str] = []
    lines: list[str] = []
    for i, operands in enumerate(parts):
        arguments = ", ".join(texts[-1 - o] if o < 0 else f"x{o}" for o in operands)
        texts.append(f"f{i}(xp, {arguments})")
        if uses[i] > 1:
            lines.append(f"t{i} = {texts[i]}")
            texts[i] = f"t{i}"
    count = max((o + 1 for operands in parts for o in operands), default=0)
    inputs = "".join(f", x{i}" for i in range(count))
    body = "".join(
        f"        {line}\n" for line in delete_after_last_use([*lines, f"return {texts[-1]}"])
    )
    names = ", ".join(f"f{i}" for i in range(len(parts)))
    source = f"def over({names}):\n    def function(xp{inputs}):\n{body}    return function"
    made: dict[str, Any] = {}
    exec(compile(source, "<fused>", "exec"), made)
    over: Callable[..., Callable[..., Array]] = made["over"]
    return over


def delete_after_last_use(lines: list[str]) -> list[str]:
    """Return the lines with each name that they give deleted after its last use but the return."""
    with_deletions, last = lines[:], len(lines) - 1
    deleted: set[str] = set()
    for i in reversed(range(len(lines))):
        used = set(_NAME.findall(lines[i])) - deleted
        deleted |= used
        if used and i < last:
            with_deletions[i] += f"; del {', '.join(sorted(used))}"
    return with_deletions


_NAME = re.compile(r"\bt\d+\b")
