"""A step: one set of feeds and fetches turned into straight-line Python, run many times.

The plan of a run never changes, so the loop over nodes is unrolled once into the source of a
function, one node a line, and compiled. What is left at run time is the arithmetic. A line that
fails is found again by its number, which is how an error names its node.
"""

from collections.abc import Callable, Collection, Sequence
from types import CodeType
from typing import Any, Protocol

import numpy as np

from ...arrays.allocator import Lease
from ...arrays.library import CPU, Array, Device, asarray, namespace_on
from ...ops.shaping.broadcasting import ExpandTo, SumTo
from ..control.liveness import maybe_dead, required_inputs
from ..control.loop_stacks import DEAD, HandleNode, require_alive
from ..core.node import Constant, Node
from ..core.order import last_uses
from ..core.placeholders import Placeholder
from ..core.variables import NoOp, Read, State, StateOp, Variable
from ..memory.aliasing import find_overwriting_nodes, is_fresh, running_order, views
from ..passes.fused import Fused
from .node_errors import explain


class Run(Protocol):
    """The run of some fetches from some feeds, planned once."""

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched values."""


HEADER_LINES = 2  # def, and the unpacking of feeds


class Step:
    """The compiled run of `fetches` from `feeds`; call it with a session's state and the arrays.

    Args:
        inner: for a part of a larger run, a loop's round: so many of the fetches must be alive.
            What it gives stays within that run, so nothing is copied, and it overwrites nothing.
        order: the nodes in the order in which they are to run, where not in `running_order`.
    """

    def __init__(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        device: Device = CPU,
        inner: int | None = None,
        order: Sequence[Node] | None = None,
    ) -> None:
        self.fetches, self.feeds, self.device, self.inner = fetches, feeds, device, inner
        self.order = running_order(fetches, set(feeds)) if order is None else list(order)
        self.place = {node: i for i, node in enumerate(self.order)}
        fed = set(feeds)
        for node in self.order:
            if node not in fed:
                check_source(node)
        self.in_place = find_overwriting_nodes(self.order, fetches, fed) if inner is None else set()
        self.slot = {node: f"v{i}" for i, node in enumerate(self.order)}
        self.names: dict[str, Any] = {"xp": namespace_on(device), "own": _own, "copy": copy_result}
        self.call_when_sure(lambda: None)
        self.source = self._emit(fed)
        exec(compile(self.source, "<graph step>", "exec"), self.names)
        self.function: Callable[..., tuple[Array, ...]] = self.names["step"]
        self.code: CodeType = self.function.__code__

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays. One that a variable or caller holds as well is copied.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        try:
            if self.inner is not None:
                return self.function(state, state.values, arrays)
            with np.errstate(all="ignore"):
                return self.function(state, state.values, arrays)
        except Exception as error:
            raise self._explain(error) from error

    def call_when_sure(self, function: Callable[[], object]) -> None:
        """Let each run call `function` once no value can make it fail any more."""
        self.names["sure"] = function

    def _emit(self, fed: Collection[Node]) -> str:
        """Return the source of the step; `names` gets what its names mean."""
        slot = self.slot
        self.shared = views([n for n in self.order if n in fed or n.op is None], self.order, fed)
        self.maybe_dead = maybe_dead(self.order, fed)
        self.asked = _find_handle_users(self.order)
        free = last_uses(self.order, fed, set(self.fetches))
        into = "".join(f"{slot.get(node, '_')}, " for node in self.feeds)
        sure = _last_that_may_fail(self.order, fed) if self.inner is None else len(self.order)
        begin = "; sure()" if sure < 0 else ""
        lines = ["def step(state, values, feeds):", f"    [{into}] = feeds{begin}"]
        for i, node in enumerate(self.order):
            line = self._guard(node, "pass" if node in fed else self._line(node, fed))
            unneeded = ", ".join(slot[n] for n in free[i])
            line += f"; del {unneeded}" if unneeded else ""
            lines.append(f"    {line}" + ("; sure()" if i == sure else ""))
        result = "".join(
            f"{self._fetch_expression(i, node)}, " for i, node in enumerate(self.fetches)
        )
        lines.append(f"    return {self._separate_results(f'({result})')}")
        return "\n".join(lines)

    def _line(self, node: Node, fed: Collection[Node]) -> str:
        """Return the statement that computes `node`, and put what it calls into `names`."""
        slot, names, target = self.slot, self.names, self.slot[node]
        key = f"k{target[1:]}"
        if isinstance(node, Constant):
            names[key] = node.value if names["xp"] is np else asarray(node.value, None, self.device)
            return f"{target} = {key}"
        if isinstance(node, Placeholder):
            return f"{target} = {slot[node.inputs[0]]}"
        if isinstance(node.op, Read) and node.op.variable in fed:
            return f"{target} = {slot[node.op.variable]}"
        if isinstance(node, Variable) or isinstance(node.op, Read):
            names[key] = node if isinstance(node, Variable) else node.op.variable
            return f"{target} = values[{key}]"
        if isinstance(node.op, NoOp):
            return f"{target} = None"
        arguments = "".join(f", {slot[source]}" for source in node.inputs)
        if isinstance(node.op, StateOp):
            runner = node.op.runner(self.asked.get(node, ()))
            names[key] = node.op.run_in_place if node in self.in_place else runner
            return f"{target} = {key}(state{arguments})"
        names[key] = node.op.compute
        call = f"{key}(xp{arguments})"
        if isinstance(node.op, Fused) and names["xp"] is not np:
            names[key] = node.op.on_device
        elif isinstance(node.op, Fused) and node.op.always_by_kernel:
            names[key], call = node.op.kernel, f"{key}({arguments[2:]})"
        if isinstance(node.op, SumTo | ExpandTo) and len(node.inputs) == 2:
            x, like = (slot[source] for source in node.inputs)
            call = (
                f"{x} if {x}.shape == {like}.shape else {call}"  # most often there is nothing to do
            )
        return f"{target} = {call}"

    def _guard(self, node: Node, line: str) -> str:
        """Return the statement with the test, where needed, that nothing before it was dead."""
        if node not in self.maybe_dead or node.op is None:
            return line
        before = dict.fromkeys(required_inputs(node))
        tests = [f"{self.slot[n]} is DEAD" for n in before if n in self.maybe_dead]
        if not tests:
            return line
        self.names["DEAD"] = DEAD
        target, _, value = line.partition(" = ")
        return f"{target} = DEAD if {' or '.join(tests)} else ({value})"

    def _fetch_expression(self, i: int, node: Node) -> str:
        """Return the expression for a fetched value: a copy if others may hold its array."""
        value = self.slot[node]
        if isinstance(node.op, NoOp):
            return "None"
        if node in self.maybe_dead and (self.inner is None or i < self.inner):
            self.names["require_alive"], self.names[f"n{value}"] = require_alive, node
            value = f"require_alive({value}, n{value})"
        if self.inner is not None:
            return value
        shared = node in self.shared or isinstance(node.op, StateOp)
        return f"{'copy' if shared else 'own'}({value})"

    def _separate_results(self, result: str) -> str:
        """Return the results' expression, with a look at each where two may be one array."""
        own = [n for n in self.fetches if n not in self.shared and not isinstance(n.op, StateOp)]
        handed_on = len(own) > 1 and not all(is_fresh(n.op) for n in own)
        if self.inner is not None or not (handed_on or len(set(own)) < len(own)):
            return result
        self.names["apart"] = apart
        return f"apart({result})"

    def _explain(self, error: Exception) -> Exception:
        """Return `error` with the node named whose line raised it, in the library's own words."""
        line_and_locals = _line_and_locals(error, self.code)
        if line_and_locals is None:
            return error
        line, values = line_and_locals
        if not HEADER_LINES < line <= HEADER_LINES + len(self.order):
            return error
        node = self.order[line - HEADER_LINES - 1]
        if isinstance(error, KeyError) and isinstance(error.args[0], Variable):
            return error.args[0].uninitialised_error()
        arrays = [values.get(self.slot[source]) for source in node.inputs]
        return explain(node, arrays, error)


def _find_handle_users(order: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return, for each node whose value is no array, the nodes that use it."""
    users: dict[Node, list[Node]] = {}
    for node in order:
        for source in node.inputs:
            if isinstance(source, HandleNode):
                users.setdefault(source, []).append(node)
    return users


def _last_that_may_fail(order: Sequence[Node], fed: Collection[Node]) -> int:
    """Return the place of the last node that values, not types, can make fail; -1 without one.

    It picks by whole numbers, unless others have picked by the same ones before, or is not ours.
    What computes with fractions always gives something.
    """
    last, picked = -1, set[Node]()
    for i, node in enumerate(order):
        if node.op is None or node in fed:
            continue
        numbers = {source for source in node.inputs if source.dtype.kind in "iu"} - picked
        own = type(node.op).__module__.startswith("minitorch.")
        if numbers or not (own and node.op.pure):
            last = i
            picked |= numbers
    return last


def check_source(node: Node) -> None:
    """Raise unless `node` can do without a feed."""
    if isinstance(node, Placeholder) and node.default is None:
        raise node.error(
            f"run: placeholder {node.name!r} was not fed: expected {node.dtype} of shape "
            f"{node.shape}. Add it to feed_dict."
        )


def _line_and_locals(error: Exception, code: CodeType) -> tuple[int, dict[str, Any]] | None:
    """Return where in the step's own source `error` passed, and its variables there."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return trace.tb_lineno, trace.tb_frame.f_locals
        trace = trace.tb_next
    return None


def copy_result(array: object) -> Any:
    """Return what a run hands over: an array of its own; of one number a NumPy scalar."""
    if not isinstance(array, np.ndarray):
        return array
    return array.copy() if array.ndim else array[()]


def apart(results: Sequence[Array]) -> tuple[Array, ...]:
    """Return the results of a run, each array in memory of its own, also one that comes twice."""
    seen: set[int] = set()
    own = []
    for value in results:
        again = id(value) in seen
        seen.add(id(value))
        own.append(value.copy() if again and isinstance(value, np.ndarray) else value)
    return tuple(own)


def _own(array: Array) -> Array:
    """Return `array`, copied when it looks into memory that someone else holds.

    A block of the allocator is held by the one array that was made in it. One number becomes a
    NumPy scalar, as a run of TensorFlow gives it.
    """
    if not isinstance(array, np.ndarray):
        return array
    if not array.ndim:
        return array[()]
    return array if array.base is None or type(array.base) is Lease else array.copy()
