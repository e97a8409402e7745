"""The tracer: while it is on, operators on symbols and on what requires a gradient become nodes.

What is computed from neither is a constant of the graph, and is computed at once.
"""

import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from minitorch.arrays.library import CPU, Array, Device, DType, bfloat16, to_numpy
from minitorch.arrays.promotion import result_type
from minitorch.errors import DeviceError, GraphError
from minitorch.graph.core.gradients import StopGradient
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.graph import outside as outside_branches
from minitorch.graph.core.node import Constant, Node, build, convert
from minitorch.graph.core.placeholders import Placeholder
from minitorch.graph.core.variables import Variable
from minitorch.op import Op, common_dtype
from minitorch.ops.elementwise.casting import Cast, Move
from minitorch.ops.random import Drawn
from minitorch.ops.shaping.indexing import Slice, split_index
from minitorch.tensor.modes import recording
from minitorch.tensor.rebase import base_of
from minitorch.tensor.tensor import Tensor
from minitorch.tensor.versions import clock
from minitorch.tracing.effects import Effects, OldGradient
from minitorch.tracing.switch import current, is_tracing
from minitorch.tracing.symbol import Symbol, place

_before = count(-1, -1)


@dataclass(frozen=True)
class Outside:
    """A tensor that a trace read as it was: when it changes, the trace is out of date."""

    tensor: Tensor
    array: Any
    stamp: int

    def changed(self) -> bool:
        """Tell whether the tensor has other numbers by now."""
        return self.tensor.array is not self.array or clock.last(self.array) > self.stamp


@dataclass(eq=False)
class Tracer:
    """What one trace collects.

    Attributes:
        operation: what messages begin with.
        device: where the example inputs are.
        variables: make parameters graph variables, rather than placeholders fed at each run.
        names: what to call captured tensors, by id.
        captured: the tensors used from outside, and the nodes that stand for them.
        effects: what the function does besides computing.
        views: the views of each node.
        unshown: what `view += x` gave and what made the view, by the nodes that do not show it.
        start: when it began: tensors that were made before are from outside.
    """

    operation: str = "trace"
    device: Device = CPU
    variables: bool = False
    names: dict[int, str] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    captured: dict[int, tuple[Tensor, Node]] = field(default_factory=dict)
    read: dict[int, Tensor] = field(default_factory=dict)
    views: dict[Node, list[weakref.ref[Symbol]]] = field(default_factory=dict)
    unshown: dict[Node, tuple[Symbol, Op]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        clock.now += 1
        self.start, self.effects = clock.now, Effects(self)

    def argument(self, tensor: Tensor, name: str) -> Symbol:
        """Return the symbol for an argument of the traced function."""
        node = Placeholder(self._has(tensor.dtype), tensor.shape, name)
        return Symbol.of(node, self, tensor.requires_grad)

    def apply(self, op: Op, inputs: tuple[object, ...]) -> Symbol:
        """Return the symbol for `op` of these inputs."""
        if not is_tracing() or current() is not self:
            raise GraphError(
                f"{op.name}: a traced value is used outside its trace (at {place()})."
                " Return it from the traced function, rather than keeping it elsewhere."
            )
        values = self._prepare(op, inputs)
        node = build(op, [self.node_of(value) for value in values])
        needs = self._has(node.dtype).kind == "f" and any(v.requires_grad for v in values)
        if needs and not recording.on:
            node, needs = build(StopGradient(), (node,)), False
        symbol = Symbol.of(node, self, needs)
        if needs:
            symbol.op, symbol.inputs = op, values
        if op.views:
            self.note_view(symbol, values[0])
        return symbol

    def constant(self, array: Array) -> Symbol:
        """Return the symbol for numbers that the function made for itself, and may write into."""
        return Symbol.of(Constant(array), self)

    def draw(self, op: Drawn) -> Symbol:
        """Return the symbol for random numbers, which are drawn anew in each run."""
        self._has(op.dtype)
        return Symbol.of(build(op, ()), self)

    def node_of(self, value: Any) -> Node:
        """Return the node for a symbol, or for a tensor from outside."""
        if isinstance(value, Symbol):
            if value.stale:
                raise GraphError(
                    f"{self.operation}: a view is used after what it looks at was updated in place "
                    f"(at {place()}). Take the view after the update, or a clone() before it."
                )
            self.check_shown([value.node])
            return value.node
        if (moved := self.effects.moved_to(value)) is not None:
            return self.node_of(moved)
        captured = self.captured.get(id(value))
        if captured is None:
            with outside_branches():  # as if before everything else
                node = self._capture(value)
                node.id = next(_before)  # a loop's body takes what is older than it from outside
            captured = self.captured[id(value)] = (value, node)
            self.effects.note_captured(value, node)
        self.check_shown([captured[1]])
        return captured[1]

    def _has(self, dtype: DType) -> DType:
        """Return a dtype that graphs have."""
        if dtype is bfloat16:
            raise GraphError(f"{self.operation}: a graph has no bfloat16. Use .float() before.")
        return dtype

    def _capture(self, tensor: Tensor | OldGradient) -> Node:
        name = self.names.get(id(tensor), "captured")
        if self.variables and tensor.requires_grad:
            return Variable(to_numpy(tensor.array), name=name, dtype=self._has(tensor.dtype))
        return Placeholder(self._has(tensor.dtype), tensor.shape, name)

    def concerns(self, inputs: Sequence[object]) -> bool:
        """Tell whether an operator on these is part of the graph; else it is a constant's."""
        for value in inputs:
            if isinstance(value, Symbol) or getattr(value, "requires_grad", False):
                return True
            if self.effects.moved_to(value) is not None:
                return True
        for value in inputs:
            if isinstance(value, Tensor):
                self._note_read(value)
        return False

    def as_read(self, value: Tensor) -> Tensor:
        """Note that the numbers of a tensor are read; return the symbol that it has become."""
        if not self.is_outside(value):
            return value
        if (moved := self.effects.moved_to(value)) is not None:
            return moved
        self._note_read(value)
        return value

    def _note_read(self, value: Tensor) -> None:
        """Note that a constant is made of a tensor, or of what it is the detached form of."""
        self.effects.check_unmoved(value)
        source = self.effects.detached.get(id(value), (value, value))[1]
        self.read[id(source)] = source

    def is_outside(self, value: object) -> bool:
        """Tell whether a tensor was there before the trace began."""
        return not isinstance(value, Symbol) and getattr(value, "_stamp", self.start) < self.start

    # Updates in place

    def check_no_update(self, name: str, sources: Sequence[object]) -> None:
        """Raise if a tensor that is no symbol would be overwritten with a traced value."""
        if any(isinstance(source, Symbol) for source in sources):
            raise GraphError(
                f"{name}: cannot trace an update of a tensor from outside, or of plain numbers, "
                f"with a traced value (at {place()}). Begin with a traced tensor or zeros(), join "
                "parts with stack or cat, or return the new value and assign it outside."
            )

    def note_view(self, view: Symbol, of: Tensor) -> None:
        """Note that in PyTorch's reading either of these sees an update of the other."""
        view.bases = (self.node_of(of), *(of.bases if isinstance(of, Symbol) else ()))
        for base in view.bases:
            self.views.setdefault(base, []).append(weakref.ref(view))

    def note_unshown(self, view: Symbol, result: Symbol) -> None:
        """Note that `view`, updated in place, became `result`, which its bases do not show."""
        made = view.node.inputs[0] if isinstance(view.node.op, StopGradient) else view.node
        for ref in self.views[view.bases[-1]]:
            other = ref()
            if other is not None and (other is view or _overlap(other, view)):
                other.stale = True
        self.unshown |= dict.fromkeys(view.bases, (result, made.op))

    def note_shown(self, base: Node | None, index: object, value: object) -> None:
        """Note that what the view x[index] of `base` became is assigned to x[index]."""
        result, op = (None, None) if base is None else self.unshown.get(base, (None, None))
        if result is value and isinstance(op, Slice) and op.index == split_index(index)[0]:
            left = {node: due for node, due in self.unshown.items() if due[0] is not result}
            self.unshown = left

    def check_shown(self, nodes: Iterable[Node]) -> None:
        """Raise if one of these should show what a view has become."""
        if self.unshown and any(node in self.unshown for node in nodes):
            raise GraphError(
                f"{self.operation}: a tensor is used after a view of it was updated in place (at "
                f"{place()}). Assign through the whole tensor, as in x[i, j] += value, or update "
                "a clone()."
            )

    def check_no_view(self, symbol: Symbol, name: str) -> None:
        """Raise if an update in place would have to show in another tensor."""
        if symbol.bases:
            raise GraphError(
                f"{name}: cannot trace an update of a view (at {place()}). Assign through the "
                "whole tensor, as in x[i, j] = value, or update a clone()."
            )

    def check_no_view_of_outside(self, tensor: Tensor) -> None:
        """Raise if an update in place would be one, at once, of a tensor from outside."""
        if self.is_outside(base_of(tensor)[0]):
            raise GraphError(
                f"{self.operation}: cannot trace an update of a view of a tensor from outside (at "
                f"{place()}). Compute the new value, and assign it to the whole by copy_."
            )

    def outdate_views(self, node: Node) -> None:
        """Note that views of this node do not show what is about to be written."""
        for ref in self.views.get(node, ()):
            view = ref()
            if view is not None:
                view.stale = True

    # Inputs as eager operators take them: numbers and arrays wrapped, dtypes promoted

    def _prepare(self, op: Op, inputs: tuple[object, ...]) -> tuple[Tensor, ...]:
        if isinstance(op, Move) and op.device != self.device:
            raise DeviceError(
                f"{self.operation}: got a move to {op.device}, expected all on {self.device}."
            )
        own, loose = inputs[: op.fixed], inputs[op.fixed :]
        if not op.promotes:
            return tuple([self._wrap(value) for value in inputs])
        dtype = common_dtype(op, [self._operand(value) for value in loose])
        return (*map(self._wrap, own), *(self._wrap(value, dtype) for value in loose))

    def _operand(self, value: object) -> Any:
        if isinstance(value, bool | int | float):
            return value
        tensor = self._wrap(value)
        return tensor.dtype, tensor.ndim

    def _wrap(self, value: object, dtype: DType | None = None) -> Tensor:
        if isinstance(value, Tensor):
            moved = self.effects.moved_to(value)
            value = value if moved is None else moved
            return value if dtype in (None, value.dtype) else self.apply(Cast(dtype), (value,))
        if isinstance(value, Node):
            return self._wrap(Symbol.of(value, self), dtype)
        if dtype is None:
            if isinstance(value, bool | int | float):
                dtype = result_type([value])
            else:
                dtype = np.asarray(value).dtype
        return Symbol.of(convert(value, dtype), self)

    # What is left when the function has returned

    def outside(self) -> list[Outside]:
        """Return the tensors that were read as they were and that somebody else holds too."""
        stamp, read = clock.now, []
        for key in list(self.read):
            tensor = self.read.pop(key)
            if sys.getrefcount(tensor) > ALONE:
                read.append(Outside(tensor, tensor.array, stamp))
        return read


def _overlap(a: Symbol, b: Symbol) -> bool:
    """Tell whether two views of one value may have an element in common."""
    base = b.bases[-1]
    try:
        elements = np.empty(tuple(base.shape), np.int8)  # never touched: it costs an address
        views = [_view(symbol.node, base, elements) for symbol in (a, b)]
        return np.shares_memory(*views, max_work=10_000)  # type: ignore[arg-type,misc]  # any number
    except (TypeError, ValueError, np.exceptions.TooHardError):
        return True


def _view(node: Node, base: Node, elements: Array) -> Array:
    if node is base:
        return elements
    source, *others = node.inputs
    view: Array = node.op.compute(np, _view(source, base, elements), *others)
    return view


ALONE = 2  # references to an object that only one local variable holds: it, and the argument
