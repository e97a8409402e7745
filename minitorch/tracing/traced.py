"""`trace`: one run of imperative code, kept as a dataflow graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minitorch.arrays import CPU, Device, to_numpy
from minitorch.errors import DeviceError, GraphError
from minitorch.generator import default_generator
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.node import Constant, Node, Placeholder
from minitorch.nn import Module
from minitorch.recording import no_grad
from minitorch.tensor import Tensor
from minitorch.tracing.control import lift
from minitorch.tracing.program import Program
from minitorch.tracing.reach import Reach
from minitorch.tracing.structure import Rebuild, flatten
from minitorch.tracing.switch import tracing
from minitorch.tracing.symbol import Symbol
from minitorch.tracing.tracer import Outside, Tracer, at_the_start


@dataclass(frozen=True)
class Traced:
    """Imperative code as a graph; call it as the function, or run its nodes in a session.

    Attributes:
        inputs: a placeholder for each tensor among the arguments, in order.
        outputs: what the function returned, with nodes in the place of tensors.
        captured: the tensors that the function used from outside, by the node that stands for
            each: a variable for what requires a gradient, else a placeholder with a default.
        updates: tensors that the function updated in place, and the nodes they become; an
            argument by its number.
        graph: where the nodes are.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: Any
    captured: dict[Node, Tensor]
    updates: tuple[tuple[Tensor | int, Node], ...]
    graph: Graph
    outside: tuple[Outside, ...]
    device: Device
    optimize: bool
    _results: tuple[Any, ...]
    _rebuild: Rebuild

    def feed(self, *args: object) -> dict[Node, Any]:
        """Return the `feed_dict` for these arguments, with captured tensors as they are now."""
        tensors: list[Tensor] = []
        flatten(args, tensors, self.name)
        if len(tensors) != len(self.inputs):
            raise GraphError(
                f"{self.name}: got {len(tensors)} tensors, expected {len(self.inputs)}, as in the "
                "example."
            )
        return {
            node: tensor.array
            for node, tensor in zip(
                (*self.inputs, *self.captured), (*tensors, *self.captured.values()), strict=True
            )
        }

    def __call__(self, *args: object) -> Any:
        """Return what the function gives for these arguments; gradients pass through."""
        tensors: list[Tensor] = []
        flatten(args, tensors, self.name)
        if len(tensors) != len(self.inputs):
            self.feed(*args)
        return self.run(tensors)

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """As a call, with the tensors among the arguments in a list; writes updated buffers."""
        given = [*tensors, *self.captured.values()]
        values = iter(self.program(given))
        results = []
        for result in self._results:
            if isinstance(result, int):  # the place of a tensor that is handed through
                results.append(given[result])
            else:
                results.append(next(values) if isinstance(result, Node) else result.tensor)
        if self.updates:
            with no_grad():
                for (target, _), value in zip(self.updates, values, strict=True):
                    (tensors[target] if isinstance(target, int) else target).copy_(value)
        return self._rebuild(iter(results))

    @cached_property
    def program(self) -> Program:
        """The graph as a function of arrays."""
        ends = [result for result in self._results if isinstance(result, Node)]
        ends += [node for _, node in self.updates]
        feeds = (*self.inputs, *self.captured)
        return Program(self.name, feeds, ends, self.graph, self.device, self.optimize)

    def up_to_date(self) -> bool:
        """Tell whether every tensor that was read while tracing still has the same numbers."""
        return not any(outside.changed() for outside in self.outside)


@dataclass(frozen=True)
class _Fixed:
    """A tensor of the result that does not depend on the arguments."""

    tensor: Tensor


def trace(function: Callable[..., object]) -> Callable[..., Traced]:
    """Return a function that takes example arguments and returns `function` as a graph.

        traced = trace(model)(x)
        Session().run(traced.outputs, traced.feed(x))

    The function is run once, on symbols with the types of the example's tensors; every operator
    becomes a node. Arguments that are not tensors are fixed as they are. Parameters become
    variables that start at their present values, so that `gradients` and optimizers know them.
    Functions of nodes, such as `dynamic_rnn`, take the traced tensors too; what they make is a node
    of the same graph.

    Raises:
        GraphError: (when called) the function asks for a number that only a run can tell, in an
            `if` say; names the line and what to write instead.
    """

    def of_examples(*args: object, **kwargs: object) -> Traced:
        tensors: list[Tensor] = []
        _, rebuild = flatten((args, kwargs), tensors, "trace")
        return record(function, tensors, rebuild, "trace", variables=True)

    return of_examples


def record(
    function: Callable[..., object],
    tensors: Sequence[Tensor],
    rebuild: Rebuild,
    operation: str,
    *,
    variables: bool = False,
    optimize: bool = False,
) -> Traced:
    """Return `function` as a graph, run on symbols of the types of `tensors`."""
    modules = Reach(function).roots
    tracer = Tracer(operation, _device(tensors, operation), variables, _names(modules))
    with tracing(tracer), swapped(modules, tracer) as buffers:
        symbols = [tracer.argument(t, f"x{i}" if i else "x") for i, t in enumerate(tensors)]
        starts = [s.node for s in symbols]
        with drawing_nothing(operation):
            args, kwargs = rebuild(iter(symbols))
            found, back = _results(lift(function(*args, **kwargs)), tracer)
        if not variables:
            _refuse_variables(tracer)
        updates = [*_updated_arguments(symbols, starts), *_updated_buffers(buffers, tracer)]
    del args, kwargs, symbols  # so that what the function alone held is gone
    captured = _captured(tracer)
    places = {node: i for i, node in enumerate([*starts, *captured])}
    results = tuple(_result(value, places, tracer) for value in found)
    outputs = back(iter([_node(value, tracer) for value in found]))
    name = getattr(function, "__name__", type(function).__name__)
    outside = tuple(tracer.outside())
    return Traced(
        name, tuple(starts), outputs, captured, tuple(updates), tracer.graph, outside,
        tracer.device, optimize, results, back,
    )  # fmt: skip


def _refuse_variables(tracer: Tracer) -> None:
    """Raise if the function made variables of the graph: a call has no session to keep them in."""
    for variable in tracer.graph.variables:
        raise GraphError(
            f"{tracer.operation}: the function makes variable {variable.name!r} (built at "
            f"{variable.location}), which no call would give a value. Trace it and run the graph "
            "in a session, or use a module, whose parameters are tensors."
        )


def _results(result: object, tracer: Tracer) -> tuple[list[Tensor], Rebuild]:
    """Return the tensors that a function returned, and how to rebuild what it returned."""
    found: list[Tensor] = []
    _, back = flatten(result, found, tracer.operation)
    for value in found:
        if isinstance(value, Symbol) or value.requires_grad:
            tracer.node_of(value)
    return found, back


def _names(modules: Sequence[Module]) -> dict[int, str]:
    """Return what to call the parameters and buffers, by id."""
    named = [pair for m in modules for pair in (*m.named_parameters(), *m.named_buffers())]
    return {id(value): name for name, value in named}


def _device(tensors: Sequence[Tensor], operation: str) -> Device:
    places = dict.fromkeys(str(t.device) for t in tensors)
    if len(places) > 1:
        raise DeviceError(f"{operation}: inputs live on {' and '.join(places)}, expected one.")
    return tensors[0].device if tensors else CPU


def _node(value: Tensor, tracer: Tracer) -> Any:
    return (
        tracer.captured[id(value)][1]
        if id(value) in tracer.captured
        else (value.node if isinstance(value, Symbol) else Constant(value.array))
    )


def _result(value: Tensor, places: dict[Node, int], tracer: Tracer) -> Any:
    """Return a node to compute, the place of an input that is handed through, or a tensor."""
    node = _node(value, tracer)
    if node in places:
        return places[node]
    return node if isinstance(value, Symbol) else _Fixed(value)


def _captured(tracer: Tracer) -> dict[Node, Tensor]:
    """Return the captured tensors by node; where a session runs them, they have a default."""
    kept: dict[Node, Tensor] = {}
    for tensor, node in tracer.captured.values():
        kept[node] = tensor
        if tracer.variables and isinstance(node, Placeholder):
            with tracer.graph.as_default(), at_the_start():
                node.inputs = (Constant(to_numpy(tensor.array)),)
    return kept


def _updated_arguments(
    symbols: Sequence[Symbol], starts: Sequence[Node]
) -> list[tuple[Tensor | int, Node]]:
    pairs = enumerate(zip(symbols, starts, strict=True))
    return [(i, symbol.node) for i, (symbol, start) in pairs if symbol.node is not start]


def _updated_buffers(
    buffers: Sequence[tuple[Module, str, Tensor, Symbol]], tracer: Tracer
) -> list[tuple[Tensor | int, Node]]:
    found: dict[int, tuple[Tensor | int, Node]] = {}
    for module, name, buffer, symbol in buffers:
        now = module._buffers[name]
        if now is not symbol and isinstance(now, Tensor):
            found[id(buffer)] = (buffer, tracer.node_of(now))
        elif symbol.node is not tracer.captured[id(buffer)][1]:
            found[id(buffer)] = (buffer, symbol.node)
    return list(found.values())


@contextmanager
def swapped(
    modules: Sequence[Module], tracer: Tracer
) -> Iterator[list[tuple[Module, str, Tensor, Symbol]]]:
    """Put symbols in the place of the modules' buffers, so that updates of them are seen."""
    symbols: dict[int, Symbol] = {}
    held: list[tuple[Module, str, Tensor, Symbol]] = []
    for module in dict.fromkeys(part for root in modules for part in root.modules()):
        for name, buffer in module._buffers.items():
            if buffer is not None:
                if id(buffer) not in symbols:
                    symbols[id(buffer)] = Symbol.of(tracer.node_of(buffer), tracer)
                held.append((module, name, buffer, symbols[id(buffer)]))
    for module, name, _, symbol in held:
        module._buffers[name] = symbol
    try:
        yield held
    finally:
        for module, name, buffer, _ in held:
            module._buffers[name] = buffer


@contextmanager
def drawing_nothing(operation: str) -> Iterator[None]:
    """Raise if random numbers are drawn inside: they would be the same in every run."""
    generator = default_generator()
    before = generator.get_state()
    yield
    same = generator.get_state() == before
    if not (same if isinstance(same, bool) else bool(same.all())):  # a dict, or torch's bytes
        generator.set_state(before)
        raise GraphError(
            f"{operation}: random numbers were drawn while tracing, and would be the same in every "
            "run. Pass them as an input, or use functional.dropout, which draws anew."
        )
