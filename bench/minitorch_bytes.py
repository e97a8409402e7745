"""Bytes that a training step moves and allocates, beside the least that it needs: counted.

Python's profiler hook, `sys.setprofile`, sees each call of an operator, of its gradient rule, of an
update and of clipping. A call is taken at its word: it reads the arrays that
it is given and writes those that it gives, once each. A view moves nothing; what picks reads no
more than it gives; a rule that applies operators moves what they move. What a call goes over twice
inside is not seen, nor are caches.

The least, of arrays by their memory:

    parameter        read on the way there and, where the operator's first input has a gradient, on
                     the way back; read and written by its update
    its gradient     written and read; read once more where all are clipped together
    optimizer state  read and written
    activation       that backward reads: written, read there, read back; its gradient written, read
    data             that backward reads: read there, read back

So in the least everything between two such activations is one operator. Each call uses up what the
least has for its arrays; what it moves beyond that is its operator's excess. `pages` are those
that the system gives afresh in a step, each for about the time of writing it: memory that neither
the allocator nor the C library has kept.
Run: python bench/minitorch_bytes.py
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import math
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import minitorch_speed as speed
import numpy as np

import minitorch
import minitorch.nn.utils
from minitorch.arrays.allocator import CachingAllocator, Lease
from minitorch.arrays.library import owner
from minitorch.backward import backward
from minitorch.op import Op
from minitorch.ops.elementwise.rows import ROWS
from minitorch.ops.shaping.picked_parts import PICKING, Part
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.hub import Arriving
from minitorch.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
METHODS = {"compute": Op, "gradient": Op, "update": Optimizer, "dense": Part}
ROW_OF = {getattr(row.compute, "__code__", None): row for row in ROWS.values()}
CLIPPING = minitorch.nn.utils.clip_grad_norm_.__code__


class Move(NamedTuple):
    """Bytes of one memory that a call goes over, and which of the step's needs that meets."""

    memory: int
    need: str
    size: int


class Call(NamedTuple):
    """A call that has not returned; `inner` are the moves of those inside it."""

    frame: FrameType
    of: Any
    name: str
    reads: list[Array]
    inner: list[tuple[str, Move]]


def arrays_in(value: Any) -> Iterator[Array]:
    """Yield the arrays of tensors, lists, tables and gradients in parts."""
    value = value.array if isinstance(value, Tensor) else value
    value = vars(value) if isinstance(value, Arriving | Part) else value
    if isinstance(value, np.ndarray) and value.ndim:
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(item)


def called(frame: FrameType) -> Any:
    """Return whose method is called, if calls of it are counted; None else."""
    if frame.f_code in ROW_OF and frame.f_back:  # several rows may share the code
        return frame.f_back.f_locals.get("op", ROW_OF[frame.f_code])
    kind = METHODS.get(frame.f_code.co_name)
    of = frame.f_locals.get("self") if kind else None
    return of if kind and isinstance(of, kind) else None


def size_of(array: Array) -> int:
    """Return how many bytes an array looks at; an axis of stride 0 repeats the same ones."""
    sizes = zip(array.shape, array.strides, strict=True)
    return array.itemsize * math.prod(size for size, stride in sizes if stride)


def read_by_rule(op: Op, node: Any) -> list[Array]:
    """Return the arrays that the gradient rule of a result reads, but for the gradient."""
    reads = [*node.inputs] if op.reads_inputs else []
    if op.reads_across and sum(node.wants) == 1:
        reads.pop(node.wants.index(True))
    return [*arrays_in([reads, node.output if op.reads_output else None, vars(op)])]


class Count:
    """What a step moves.

    Attributes:
        least, allocated: bytes that the step needs, and those of the arrays that it makes.
        moved, excess: bytes that an operator's calls go over, and those that nothing needs.
    """

    def __init__(self, step: Callable[[], None]) -> None:
        self.allocated, self.moved, self.excess = 0, Counter[str](), Counter[str]()
        self._calls: list[Call] = []
        self._moves: list[tuple[str, Move]] = []
        self._needs = Counter[tuple[int, str]]()
        self._gradients: dict[int, int] = {}  # the memory of a gradient, and of what it is of
        self._summed: set[int] = set()
        self._made: set[int] = set()
        self._way = "there"
        self._alive: list[Any] = []  # so that no address stands for two memories
        sys.setprofile(self._look)
        try:
            step()
        finally:
            sys.setprofile(None)
        self.least = self._needs.total()
        for name, move in self._moves:
            covered = min(move.size, self._needs[move.memory, move.need])
            self._needs[move.memory, move.need] -= covered
            self.moved[name] += move.size
            self.excess[name] += move.size - covered
        self._alive.clear()

    def _look(self, frame: FrameType, event: str, arg: Any) -> None:
        code, names = frame.f_code, frame.f_locals
        if event == "return" and self._calls and self._calls[-1].frame is frame:
            self._end(self._calls.pop(), arg)
        elif event == "call" and code is CachingAllocator.empty.__code__:
            self.allocated += math.prod(names["shape"]) * np.dtype(names["dtype"]).itemsize
        elif event == "call" and code is backward.__code__:
            self._way = "back"
            self._need(names["tensors"])
        elif event == "call" and code is CLIPPING:
            for param in names["parameters"]:
                self._gradients[self._memory(param.grad.array)] = self._memory(param.array)
                self._change("clipping", param.grad.array, "clip", 3)
                self._needs[self._memory(param.array), "gradient clip"] = size_of(param.array)
        elif event == "call" and (of := called(frame)) is not None:
            self._begin(frame, of, {name: names[name] for name in names if name != "self"})

    def _memory(self, array: Array) -> int:
        memory = owner(array)
        self._alive.append(memory)
        return id(memory)

    def _need(self, tensors: Any) -> None:
        """Note what the step needs, from the graph that a backward is about to use up."""
        waiting, seen = [tensors] if isinstance(tensors, Tensor) else [*tensors], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) in seen or node.op is None:
                continue
            seen.add(id(node))
            waiting += node.inputs
            inside = [*arrays_in(vars(node.op))]
            for array in inside:  # what an operator keeps for itself
                self._raise_needs(array, ("write", "back"))
            read = {self._memory(array) for array in read_by_rule(node.op, node)}
            for value in (*node.inputs, node):
                if value.op is None and value.requires_grad:
                    picks = size_of(node.array) if type(node.op) in PICKING else None
                    self._raise_needs(value.array, ("there",), picks)
                    self._raise_needs(value.array, ("gradient write",))
                    if node.inputs[0].requires_grad and self._memory(value.array) in read:
                        self._raise_needs(value.array, ("back",))
                elif self._memory(value.array) in read:
                    made = ("write", "gradient write", "gradient back")
                    made = made if value.requires_grad else made[:1] if value.op else ()
                    self._raise_needs(value.array, ("there", "back", *made))

    def _raise_needs(self, array: Array, ways: tuple[str, ...], size: int | None = None) -> None:
        memory, whole = self._memory(array), size_of(owner(array))
        for way in ways:
            self._needs[memory, way] = max(self._needs[memory, way], min(whole, size or whole))

    def _begin(self, frame: FrameType, of: Any, names: dict[str, Any]) -> None:
        """Note what a call reads; an update, which is in place, is counted here and now."""
        method, name = frame.f_code.co_name, getattr(of, "name", type(of).__name__)
        if method == "update":
            w, g = names["w"], names["g"]
            self._gradients[self._memory(g)] = self._memory(w)
            self._needs[self._memory(w), "gradient update"] = size_of(w)
            self._change(name, g, "update", 1)
            for array in arrays_in([w, names["state"]]):
                self._needs[self._memory(array), "update"] = 2 * size_of(array)
                self._change(name, array, "update", 2)
            return
        if method == "gradient":
            arriving, node = (names[name] for name in frame.f_code.co_varnames[1:3])
            if isinstance(arriving, np.ndarray):
                self._gradients.setdefault(self._memory(arriving), self._memory(node.output))
            name, reads = f"{name} back", [*arrays_in(arriving), *read_by_rule(of, node)]
        elif method == "dense":
            done = of._whole is not None
            reads = [of._whole] if done else [values for values, _, _ in of._pieces]
            name = "gradient of parts"
        else:
            reads = [*arrays_in([names, vars(of) if isinstance(of, Op) else ()])]
        self._calls.append(Call(frame, of, name, reads, []))

    def _end(self, call: Call, result: Any) -> None:
        """Count a call: what it read and what it wrote, unless that was done inside it."""
        of, method = call.of, call.frame.f_code.co_name
        read = {self._memory(array): array for array in call.reads}
        held = vars(of) if isinstance(of, Op) else ()
        made = {self._memory(array): array for array in arrays_in([result, held])}
        made = {memory: array for memory, array in made.items() if memory not in read}
        for memory, array in made.items():
            if memory not in self._made and not isinstance(owner(array).base, Lease):
                self.allocated += size_of(array)
            self._made.add(memory)
        own = [Move(memory, self._way, size_of(array)) for memory, array in read.items()]
        writes = [Move(memory, "write", size_of(array)) for memory, array in made.items()]
        if type(of) in PICKING and writes:
            own = [move._replace(size=min(move.size, writes[0].size)) for move in own]
        if not writes and (method in ("gradient", "dense") or np.ndim(result)):
            own = []  # a view, or a gradient handed on
        moves = call.inner or [(call.name, move) for move in own + writes]
        if method == "gradient":
            node = call.frame.f_locals[call.frame.f_code.co_varnames[2]]
            if len(result) == len(node.inputs):  # or a part, of a rule that builds on another's
                moves += self._deliver(node, result)
        elif method == "dense":
            self._gradients.setdefault(self._memory(result), self._memory(of.like))
        if self._calls:
            self._calls[-1].inner.extend(moves)
        else:
            self._moves += [(name, self._resolved(move)) for name, move in moves]

    def _deliver(self, node: Any, shares: Any) -> list[tuple[str, Move]]:
        """Note of what each share is the gradient; return what adding up several moves."""
        moves = []
        for source, share in zip(node.inputs, shares, strict=True):
            array = source.array if isinstance(source, Tensor) else source
            for part in arrays_in(share):
                self._gradients.setdefault(self._memory(part), self._memory(array))
                if id(array) in self._summed:
                    moves.append(("sum of gradients", Move(0, "write", 3 * size_of(part))))
            if share is not None:
                self._summed.add(id(array))
                self._alive.append(array)
        return moves

    def _resolved(self, move: Move) -> Move:
        of = self._gradients.get(move.memory)
        return move if of is None else move._replace(memory=of, need=f"gradient {move.need}")

    def _change(self, name: str, array: Array, way: str, times: int) -> None:
        """Count a call that goes over an array so many times in place."""
        move = Move(self._memory(array), way, times * size_of(array))
        self._moves.append((name, self._resolved(move)))


def pages(step: Callable[[], None], rounds: int = 5) -> float:
    """Return how many fresh pages a step asks the system for, once memory to keep is there."""
    faults = []
    for i in range(2 * rounds):
        step()
        if i >= rounds - 1:
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return (faults[-1] - faults[0]) / rounds


def row(count: Count, fresh: float) -> str:
    """Return a row's cells: bytes, their ratio, and the five operators of most excess."""
    moved = count.moved.total()
    most = [f"{name} {size / moved:.0%}" for name, size in count.excess.most_common(5) if size]
    sizes = "".join(f"{size / 2**20:>9.2f}" for size in (count.allocated, moved, count.least))
    return f"{sizes}{moved / count.least:>7.2f}{fresh:>8.0f}  {', '.join(most)}"


def main() -> None:
    minitorch.set_num_threads(1)
    print(f"{'MiB of a step':<34}{'made':>9}{'moved':>9}{'least':>9}{'ratio':>7}"
          f"{'pages':>8}  excess, of moved")  # fmt: skip
    for title, (_, _, make) in speed.ROWS.items():
        if not title.startswith(("chain", "generation")):  # numbers alone, and no step
            step = make(minitorch)
            fresh = pages(step)
            print(f"{title:<34}{row(Count(step), fresh)}", flush=True)


if __name__ == "__main__":
    main()
