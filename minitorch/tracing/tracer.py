"""The tracer: while it is on, operators on symbols and on what requires a gradient become nodes.

What is computed from neither is a constant of the graph, and is computed at once.
"""

import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from minitorch.arrays.library import CPU, Array, Device, DType, bfloat16, to_numpy
from minitorch.arrays.promotion import result_type
from minitorch.errors import DeviceError, GradientError, GraphError
from minitorch.graph.core.gradients import StopGradient
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.graph import outside as outside_branches
from minitorch.graph.core.node import Constant, Node, build, convert, fresh_id
from minitorch.graph.core.placeholders import Placeholder
from minitorch.graph.core.variables import Variable
from minitorch.op import Op, common_dtype
from minitorch.ops.elementwise.casting import Cast, Move
from minitorch.ops.random import Drawn
from minitorch.tensor.modes import recording, set_grad_enabled
from minitorch.tensor.tensor import Tensor
from minitorch.tensor.versions import clock
from minitorch.tracing.effects import ALONE, Effects
from minitorch.tracing.stages import OldGradient
from minitorch.tracing.switch import current, is_tracing
from minitorch.tracing.symbol import Symbol, place
from minitorch.tracing.views import View, is_certain

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
        views, made: the living views, and what may be a leaf, an argument or made inside.
        updates: how often something became another node.
        blocks: of the branches and loops that are being built, outer first, the ids at which they
            begin, and their arguments.
        start: when it began: tensors that were made before are from outside.
    """

    operation: str = "trace"
    device: Device = CPU
    variables: bool = False
    names: dict[int, str] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    captured: dict[int, tuple[Tensor, Node]] = field(default_factory=dict)
    read: dict[int, Tensor] = field(default_factory=dict)
    views: list[weakref.ref[Symbol]] = field(default_factory=list)
    updates: int = 0
    blocks: list[tuple[int, frozenset[object]]] = field(default_factory=list)
    made: list[weakref.ref[Symbol]] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock.now += 1
        self.start, self.effects = clock.now, Effects(self)

    def argument(self, tensor: Tensor, name: str) -> Symbol:
        """Return the symbol for an argument of the traced function."""
        node = Placeholder(self._has(tensor.dtype), tensor.shape, name)
        return self._note_made(Symbol.of(node, self, tensor.requires_grad))

    def apply(self, op: Op, inputs: tuple[object, ...]) -> Symbol:
        """Return the symbol for `op` of these inputs."""
        if not is_tracing() or current() is not self:
            raise GraphError(
                f"{op.name}: a traced value is used outside its trace (at {place()})."
                " Return it from the traced function, rather than keeping it elsewhere."
            )
        values = self._prepare(op, inputs)
        shown = [self.node_of(value) for value in values]
        node = build(op, shown)
        needs = self._has(node.dtype).kind == "f" and any(v.requires_grad for v in values)
        if needs and not recording.on:
            node, needs = build(StopGradient(), (node,)), False
        symbol = Symbol.of(node, self, needs)
        if needs:
            symbol.op, symbol.inputs = op, values
        if op.views:
            of = inputs[0] if isinstance(inputs[0], Tensor) else values[0]
            symbol.made_as = View(of, op, values[1:], shown[0], self.updates, recording.on)
            symbol.made_as.certain = is_certain(op, values[0].shape, symbol.shape)
            self.views.append(weakref.ref(symbol))
        return symbol

    def detach(self, tensor: Tensor) -> Symbol:
        """Return a view of a tensor that no gradient flows through."""
        op, shown = StopGradient(), self.node_of(tensor)
        symbol = Symbol.of(build(op, (shown,)), self)
        symbol.made_as = View(tensor, op, (), shown, self.updates, recorded=False)
        self.views.append(weakref.ref(symbol))
        return symbol

    def constant(self, array: Array) -> Symbol:
        """Return the symbol for numbers that the function made for itself, and may write into."""
        return self._note_made(Symbol.of(Constant(array), self))

    def _note_made(self, symbol: Symbol) -> Symbol:
        self.made.append(weakref.ref(symbol))
        return symbol

    def leaves(self) -> tuple[Tensor, ...]:
        """Return the tensors that gradients may flow to so far."""
        made = [symbol for ref in self.made if (symbol := ref()) is not None and symbol.op is None]
        used = [tensor for tensor, _ in self.captured.values() if isinstance(tensor, Tensor)]
        return tuple([value for value in (*made, *used) if value.requires_grad])

    @contextmanager
    def in_block(self, arguments: Sequence[object]) -> Iterator[None]:
        """Build a branch, or what a loop repeats."""
        self.blocks.append((fresh_id(), frozenset(arguments)))
        try:
            yield
        finally:
            self.blocks.pop()

    def check_in_block(self, node: Node) -> None:
        """Raise if what is to be updated was not made in the branch or loop that is being built."""
        if self.blocks and node.id < self.blocks[-1][0] and node not in self.blocks[-1][1]:
            raise GraphError(
                f"{self.operation}: what was made outside a branch or a loop is updated in place "
                f"inside (at {place()}). Return the new value, or update a clone()."
            )

    def draw(self, op: Drawn) -> Symbol:
        """Return the symbol for random numbers, which are drawn anew in each run."""
        self._has(op.dtype)
        return Symbol.of(build(op, ()), self)

    def node_of(self, value: Any) -> Node:
        """Return the node for a symbol, or for a tensor from outside."""
        if isinstance(value, Symbol):
            if value.made_as is not None and value.made_as.updates != self.updates:
                self._bring_up_to_date(value)
            return value.node
        if (moved := self.effects.moved_to(value)) is not None:
            return self.node_of(moved)
        if id(value) in self.effects.shown:
            return self.node_of(self.effects.symbol_of(value))
        captured = self.captured.get(id(value))
        if captured is None:
            with outside_branches():  # as if before everything else
                node = self._capture(value)
                node.id = next(_before)  # a loop's body takes what is older than it from outside
            captured = self.captured[id(value)] = (value, node)
            self.effects.note_captured(value, node)
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

    def concerns(self, op: Op, inputs: Sequence[object]) -> bool:
        """Tell whether an operator on these is part of the graph; else it is a constant's.

        Of what a view is taken of no number is read yet.
        """
        for value in inputs:
            if isinstance(value, Symbol) or getattr(value, "requires_grad", False):
                return True
            if self.effects.moved_to(value) is not None:
                return True
        for value in inputs[1:] if op.views else inputs:
            if isinstance(value, Tensor):
                self._note_read(value)
        return False

    def as_read(self, value: Tensor) -> Tensor:
        """Note that the numbers of a tensor are read; return the symbol that it has become."""
        if (moved := self.effects.moved_to(value)) is not None:
            return moved
        if self.is_outside(value):
            self._note_read(value)
        return value

    def _note_read(self, value: Tensor) -> None:
        """Note that a constant is made of a tensor, or of what it is a view of."""
        source = self.effects.source_of(value)
        self.effects.check_unmoved(source)
        self.read[id(source)] = source

    def follows(self, tensor: Tensor, values: Iterable[object]) -> bool:
        """Tell whether an update of a tensor is part of the graph: not of what is a constant."""
        if isinstance(tensor, Symbol):
            return False  # it does it itself
        if self.is_outside(tensor) or self.effects.moved_to(tensor) is not None:
            return True
        for value in values:
            if isinstance(value, tuple | list):
                if self.follows(tensor, value):
                    return True
            elif isinstance(value, Symbol) or (
                isinstance(value, Tensor)
                and (self.is_outside(value) or self.effects.moved_to(value) is not None)
            ):
                return True
        return False

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

    def _bring_up_to_date(self, symbol: Symbol) -> None:
        """Make a view, and what it is a view of, anew where that has been updated since."""
        due: list[tuple[Symbol, View]] = []
        of: Tensor = symbol
        while isinstance(of, Symbol) and of.made_as and of.made_as.updates != self.updates:
            due.append((of, of.made_as))
            of = of.made_as.of
        for symbol, view in reversed(due):
            shown = self.node_of(view.of)
            if shown is not view.node:
                self._check_certain(view)
                if isinstance(view.op, StopGradient):
                    new = self.detach(view.of)
                else:
                    with set_grad_enabled(view.recorded):
                        new = self.apply(view.op, (view.of, *view.others))
                symbol._stand_for(new)
            view.node, view.updates = shown, self.updates

    def bring_views_up_to_date(self) -> None:
        """Make views anew here, where branches and loops that use them may begin."""
        self.views = [ref for ref in self.views if ref() is not None]
        for ref in self.views[:]:
            symbol = ref()
            if symbol is not None and symbol.made_as is not None and symbol.made_as.certain:
                self.node_of(symbol)

    def update_through(self, view: View, name: str, new: Symbol) -> None:
        """Make `new` what a view shows: a part of what it is a view of.

        Raises:
            GradientError: gradients would have to flow through a view that is not recorded.
        """
        self._check_certain(view)
        detached = isinstance(view.op, StopGradient)
        if recording.on and new.requires_grad and not (view.recorded or detached):
            raise GradientError(
                f"{name}: cannot record an update of a view that was made under no_grad(). Make "
                "the view outside of it, or update a clone()."
            )
        with set_grad_enabled(recording.on and view.recorded):
            whole = new if detached else view.put(self.effects.stands_for(view.of)._past(), new)
            if isinstance(view.of, Symbol):
                view.of._become(name, whole)
            else:
                self.effects.move(view.of, "_become", name, whole)

    def _check_certain(self, view: View) -> None:
        if not view.certain:
            raise GraphError(
                f"{self.operation}: a reshaped tensor, or what it may be a view of, was updated in "
                f"place (at {place()}), and only a run can tell whether it is one. Reshape by "
                "view(), or update a clone()."
            )

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
