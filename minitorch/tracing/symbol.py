"""Symbol: what a traced function gets instead of a tensor. It has a type but no numbers.

It is a tensor for everything that asks for shapes, dtypes and operators, so any code written for
tensors runs on it; every operator adds a node to a graph. What asks for its numbers is refused,
with the line that asked and with what to write instead.
"""

from __future__ import annotations

import linecache
import math
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from minitorch.arrays.library import Array, Device, Namespace, copy_array
from minitorch.arrays.shapes import axis
from minitorch.errors import GraphError
from minitorch.graph.core.graph import PACKAGE, call_site
from minitorch.graph.core.node import Node
from minitorch.op import Gradients, KeepsSpec, Methods, Op
from minitorch.ops.elementwise.casting import cast_to
from minitorch.ops.shaping.assigning import assign_at, replace_all
from minitorch.ops.shaping.movement import reshape_like
from minitorch.tensor.inplace import _FUNCTIONS as SIGNS
from minitorch.tensor.inplace import check_rank
from minitorch.tensor.modes import enable_grad, recording
from minitorch.tensor.tensor import Tensor
from minitorch.tensor.versions import clock
from minitorch.tracing.views import View

if TYPE_CHECKING:
    from minitorch.tracing.tracer import Tracer

BRANCH = (
    "Use minitorch.graph.cond for a branch, minitorch.graph.while_loop for a loop, or "
    "minitorch.where to choose element by element."
)
COUNT = (
    "Use minitorch.graph.while_loop for a trip count that depends on data, or pass a Python number."
)
SIZE = f"Branch on the data, as in cond(mask.any(), ...). {COUNT}"
OUTSIDE = "Return it and read it outside, or compute with operators of the library."


def _refusal(what: str, expected: str, instead: str) -> Any:
    """Return a method that refuses: with what is asked for, and what to write instead."""

    def refused(self: Symbol, *_: object, **__: object) -> NoReturn:
        self._refuse(what, expected, instead)

    return refused


class NoNumbers(GraphError, AttributeError):
    """There is no array yet: `getattr(value, "array", None)` finds none, as for a graph's node."""


class Symbol(Tensor):
    """A tensor while its function is being traced.

    Attributes:
        node: the graph's node that stands for its value; an in-place update replaces it.
        tracer: the trace that it belongs to.
        made_as: of a view, how it is one.
    """

    __slots__ = ("made_as", "node", "tracer")

    node: Node
    tracer: Tracer
    made_as: View | None
    has_numbers = False

    @classmethod
    def of(cls, node: Node, tracer: Tracer, requires_grad: bool = False) -> Symbol:
        """Return a symbol for a node."""
        symbol: Symbol = object.__new__(cls)
        symbol.node, symbol.tracer, symbol.made_as = node, tracer, None
        symbol.requires_grad, symbol.op, symbol.inputs = requires_grad, None, ()
        symbol._grad, symbol._stamp, symbol.hooks = None, clock.now, None
        return symbol

    def _apply(self, op: Op, inputs: tuple[object, ...]) -> Symbol:
        return self.tracer.apply(op, inputs)

    # ── what is known of it ─────────────────────────────────────────────────────────────────────

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes.

        One that only a run can tell is None for this package, which knows; for anybody else it is
        an `UnknownSize`, since None would decide an `if` or a `==` without a word.
        """
        sizes = tuple(self.node.shape)
        if None in sizes and not sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
            return self._sizes()
        return sizes

    def _sizes(self) -> tuple[Any, ...]:
        return tuple(UnknownSize(self) if size is None else size for size in self.node.shape)

    @property
    def dtype(self) -> Any:
        return self.node.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def device(self) -> Device:
        return self.tracer.device

    def as_node(self) -> Node:
        """Return the graph's node, for functions of nodes that are called while tracing."""
        return self.tracer.node_of(self)

    def detach(self) -> Symbol:
        return self.tracer.detach(self)

    _set_data = _refusal("`.data` is set", "a traced tensor", "Use copy_, or return the new value.")
    data = property(detach, _set_data)

    def is_contiguous(self) -> bool:
        """Return True: where the elements lie is decided when it runs."""
        return True

    def contiguous(self) -> Symbol:
        """Return this, or of a view what may be a copy."""
        if self.made_as is None:
            return self
        shown: Symbol = reshape_like(self, self)
        assert shown.made_as is not None
        shown.made_as.certain = False
        return shown

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len: a 0-d tensor has no length.")
        return int(self.size(0))

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one axis, which must be known."""
        if dim is None:
            return self._sizes()
        return self._require_size(self.shape[axis(dim, self.ndim, "size")])

    def numel(self) -> int:
        """Return the number of elements, which must be known."""
        return math.prod(map(self._require_size, self.shape))

    nelement = numel

    def _require_size(self, size: int | None) -> int:
        if size is None:
            self._refuse_size()
        return size

    def _own_hooks(self) -> NoReturn:
        self._refuse("it gets a hook", "hooks on tensors from outside", "Register it outside.")

    def _refuse_size(self, *_: object) -> NoReturn:
        self._refuse("a size depends on it", "a size known before the run", SIZE)

    def __iter__(self) -> Iterator[Symbol]:
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        return f"traced({self.node.name!r}, shape={self.shape}, dtype={self.dtype})"

    def _check_unmodified(self) -> None:
        """Nothing is overwritten: an update in place makes a new node."""

    # ── updates in place: the symbol moves on to a new node ─────────────────────────────────────

    def _become(self, name: str, value: Any) -> Symbol:
        """Become `value`, converted to what this symbol is; what it is a view of shows it too."""
        check_rank(name, value.dtype, self.dtype)
        new = cast_to(value, self.dtype)
        if tuple(new.shape) != tuple(self.shape):
            self._refuse(
                f"{name} would change its shape", f"{self.shape}", f"The result has {new.shape}."
            )
        if self.made_as is not None:
            self.tracer.update_through(self.made_as, name, new)
            return self
        self._refuse_leaf(name)
        self.tracer.check_in_block(self.node)
        if self.requires_grad and not recording.on:
            with enable_grad():
                new = self.tracer.apply(Overwritten(), (self._past(), new))
        self._stand_for(new)
        self.tracer.updates += 1
        return self

    def _stand_for(self, new: Symbol) -> None:
        self.node = new.node
        self.requires_grad, self.op, self.inputs = new.requires_grad, new.op, new.inputs

    def _past(self) -> Symbol:
        """Return what this symbol is now, as a symbol that will not move on."""
        past = Symbol.of(self.tracer.node_of(self), self.tracer, self.requires_grad)
        past.op, past.inputs = self.op, self.inputs
        return past

    def _update(
        self, name: str, function: Callable[..., Tensor], *others: object, **options: object
    ) -> Symbol:
        self._refuse_leaf(name)
        past = self._past()
        rest = tuple(past if other is self else other for other in others)
        return self._become(name, function(past, *rest, **options))

    def _arithmetic(self, name: str, other: Any, alpha: float = 1) -> Symbol:
        return self._update(name, SIGNS[name], other if alpha == 1 else other * alpha)

    def _apply_sign(self, name: str, other: object) -> Symbol:
        return self._update(name, SIGNS[name], other)

    def copy_(self, source: object) -> Symbol:
        """Become `source`, broadcast and converted."""
        return self._update("copy_", replace_all, source)

    def fill_(self, value: object) -> Symbol:
        """Become one number everywhere."""
        return self._update("fill_", replace_all, value)

    def __setitem__(self, index: object, value: object) -> None:
        if not shows(value, self, index):  # `x[0] += 1` has done it
            self._update("x[index] = value", assign_at, index, value)

    # ── what only a run can tell ────────────────────────────────────────────────────────────────

    def _no_numbers(self) -> NoReturn:
        raise NoNumbers(self._why("its numbers are asked for", "no use of numbers", OUTSIDE))

    array = property(_no_numbers, _refusal("its memory is replaced", "an operator", OUTSIDE))
    __bool__ = _refusal("it decides an `if`, `while`, `and` or `or`", "a Python bool", BRANCH)
    __contains__ = _refusal("`in` looks for an element", "a Python bool", BRANCH)
    __index__ = _refusal("it counts or indexes as a Python integer", "a Python int", COUNT)
    __int__ = _refusal("it becomes a Python integer", "a Python int", COUNT)
    __float__ = _refusal("it becomes a Python number", "a Python float", OUTSIDE)
    item = _refusal("item() asks for its number", "no use of numbers", f"{OUTSIDE} {BRANCH}")
    tolist = _refusal("tolist() asks for its numbers", "no use of numbers", f"{OUTSIDE} {BRANCH}")
    numpy = _refusal("numpy() asks for its numbers", "no use of numbers", OUTSIDE)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: object = None,
    ) -> None:
        """Add the gradient of this symbol to `.grad` of the leaves: a part of the graph."""
        if inputs is not None:
            self._refuse("backward(inputs=...) is called", "None", "Ask for them by grad().")
        self.tracer.effects.backward(self, gradient, create_graph)

    def __format__(self, spec: str) -> str:
        """Return what `print` would show; digits after the point are of a number."""
        return repr(self) if not spec else self._refuse("a text has its number", "no spec", OUTSIDE)

    def _refuse(self, what: str, expected: str, instead: str) -> NoReturn:
        raise GraphError(self._why(what, expected, instead))

    def _why(self, what: str, expected: str, instead: str) -> str:
        file, line = call_site()
        text = linecache.getline(file, line).strip()
        code = f" (`{text}`)" if text else ""
        return (
            f"{self.tracer.operation}: {file}:{line}{code}: a value is not known while tracing, "
            f"and {what}: got {self.node.name!r}, {self.dtype} {self.shape}, expected {expected}. "
            f"{instead}"
        )


class Overwritten(KeepsSpec):
    """The second input, which was written over the first under `no_grad`: it has its gradient."""

    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return copy_array(arrays[1])

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return out_grad, None


class UnknownSize:
    """A size of a symbol that only a run can tell; whatever asks for its number is refused."""

    def __init__(self, symbol: Symbol) -> None:
        self._symbol = symbol

    def _refuse(self, *_: object) -> NoReturn:
        self._symbol._refuse_size()

    def __repr__(self) -> str:
        return "?"

    __bool__ = __index__ = __int__ = __float__ = __iter__ = __array__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _refuse


def shows(value: object, of: Tensor, index: object) -> bool:
    """Tell whether a value is the view of[index], and so assigned already."""
    return (
        isinstance(value, Symbol) and value.made_as is not None and value.made_as.is_at(of, index)
    )


def place() -> str:
    """Return `file:line` of the user's code."""
    file, line = call_site()
    return f"{file}:{line}"
