"""`trace`: one run of imperative code, kept as a dataflow graph."""

import gc
import linecache
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from types import FunctionType, ModuleType
from typing import Any

from minitorch.arrays.library import CPU, Device, to_numpy
from minitorch.errors import DeviceError, GraphError
from minitorch.graph.core.graph import PACKAGE, Graph
from minitorch.graph.core.graph import outside as outside_branches
from minitorch.graph.core.node import Constant, Node
from minitorch.graph.core.order import schedule
from minitorch.graph.core.placeholders import Placeholder
from minitorch.graph.passes.cse import signature
from minitorch.nn import Module
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.pytree import Rebuild
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.arguments import flatten, objects_in
from minitorch.tracing.control import lift
from minitorch.tracing.drawing import forbid_drawing
from minitorch.tracing.effects import Effects, check_apart
from minitorch.tracing.program import Program
from minitorch.tracing.reach import Reach
from minitorch.tracing.stages import OldGradient
from minitorch.tracing.steps import Steps
from minitorch.tracing.switch import tracing
from minitorch.tracing.symbol import SIZE, Symbol
from minitorch.tracing.tracer import Outside, Tracer

Update = tuple[Tensor | int, Node]
"""A tensor that a function updated in place, an argument by its number; the node it becomes."""

HELD_DEPTH = 4  # function, its closure, a cell, what is in it


@dataclass(frozen=True)
class Traced:
    """Imperative code as a graph; call it as the function, or run its nodes in a session.

    Attributes:
        inputs: a placeholder for each tensor among the arguments, in order.
        outputs: what the function returned, with nodes in the place of tensors.
        captured: the tensors that the function used from outside, by the node that stands for
            each: a variable for what requires a gradient, else a placeholder with a default.
        updates: what the function updated in place.
        graph: where the nodes are.
        effects: what else it does, where gradients are set or optimizers step inside it.
        modes: the modules that it leaves training, or not, and found otherwise.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: Any
    captured: dict[Node, Tensor]
    updates: tuple[Update, ...]
    graph: Graph
    outside: tuple[Outside, ...]
    device: Device
    optimize: bool
    _results: tuple[Any, ...]
    _rebuild: Rebuild
    _kind: Hashable
    effects: Effects | None = None
    modes: tuple[tuple[Module, bool], ...] = ()

    def feed(self, *args: object) -> dict[Node, Any]:
        """Return the `feed_dict` for these arguments, with captured tensors as they are now."""
        tensors = dict(zip(self.inputs, self._tensors(args), strict=True)) | self.captured
        return {node: tensor.array for node, tensor in tensors.items()}

    def _tensors(self, args: object) -> list[Tensor]:
        tensors: list[Tensor] = []
        flatten(args, tensors, self.name)
        if len(tensors) != len(self.inputs):
            raise GraphError(
                f"{self.name}: got {len(tensors)} tensors, expected {len(self.inputs)}, as in the "
                "example."
            )
        return tensors

    def __call__(self, *args: object) -> Any:
        """Return what the function gives for these arguments; gradients pass through."""
        return self.run(self._tensors(args))

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """As a call, with the tensors among the arguments in a list; writes updated buffers."""
        feeds = [*tensors, *self.captured.values()]
        self._check_memory(tensors, feeds)
        values = iter(self.program(feeds) if self.steps is None else self.steps.run(tensors))
        results = []
        for result in self._results:
            if isinstance(result, int):  # the place of a tensor that is handed through
                results.append(feeds[result])
            else:
                results.append(next(values) if isinstance(result, Node) else result)
        if self.updates and self.steps is None:
            with no_grad():
                for (target, _), value in zip(self.updates, values, strict=True):
                    (tensors[target] if isinstance(target, int) else target).copy_(value)
        for part, training in self.modes:
            part.training = training
        return self._rebuild(iter(results))

    def _check_memory(self, tensors: Sequence[Tensor], feeds: list[Any]) -> None:
        """Raise if an argument lies in the memory of something else that is updated, or read."""
        for target in self.written:
            if isinstance(target, int):
                updated, others = tensors[target], [*feeds[:target], *feeds[target + 1 :]]
            else:
                updated, others = target, list(tensors)
            for other in others:
                if isinstance(other, Tensor):
                    check_apart(self.name, updated, other)

    def signature(self) -> object:
        """Return a key that another trace shares if it computes and does the same."""
        stages = () if self.effects is None else self.effects.stages
        effects = [effect for stage in stages for effect in stage.effects]
        ends = [
            end for end in (*self._results, *(e.value for e in effects)) if isinstance(end, Node)
        ]
        order = schedule([*ends, *(node for _, node in self.updates)], ())
        feeds = (*self.inputs, *self.captured)
        place: dict[object, object] = {node: i for i, node in enumerate((*feeds, *order))}
        place |= {id(tensor): place[node] for node, tensor in self.captured.items()}

        def at(value: object) -> object:
            key = id(value) if isinstance(value, Tensor | OldGradient) else value
            return place.get(key, key)

        done = [(e.kind, at(e.on), at(e.value)) for e in effects]
        done += [("write", at(target), at(node)) for target, node in self.updates]
        computed = [
            (node.value.tobytes() if isinstance(node, Constant) else node.op and signature(node.op),
             node.dtype, node.shape, [*map(at, node.inputs)])
            for node in order
        ]  # fmt: skip
        return self._kind, [*map(at, self._results)], done, computed, len(stages)

    @cached_property
    def written(self) -> tuple[Tensor | int, ...]:
        """What a run updates in place: tensors from outside, arguments by their numbers."""
        if self.effects is None:
            return tuple(target for target, _ in self.updates)
        effects = [effect for stage in self.effects.stages for effect in stage.effects]
        writes = [effect.on for effect in effects if effect.kind == "write"]
        return tuple(on for on in writes if not isinstance(on, OldGradient))

    @cached_property
    def program(self) -> Program:
        """The graph as a function of arrays."""
        ends = [result for result in self._results if isinstance(result, Node)]
        ends += [node for _, node in self.updates]
        feeds = (*self.inputs, *self.captured)
        place = {id(tensor): i for i, tensor in enumerate(self.captured.values(), len(self.inputs))}
        written = [on if isinstance(on, int) else place[id(on)] for on in self.written]
        return Program(self.name, feeds, ends, self.graph, self.device, self.optimize, written)

    @cached_property
    def steps(self) -> Steps | None:
        """The run with effects, where the function has any that are not updates alone."""
        if self.effects is None:
            return None
        ends = [result for result in self._results if isinstance(result, Node)]

        def program(feeds: Sequence[Node], outputs: Sequence[Node]) -> Program:
            return Program(self.name, feeds, outputs, self.graph, self.device, self.optimize)

        return Steps(self.effects, self.inputs, self.captured, ends, program)

    def steps_scheduler(self) -> bool:
        """Tell whether a run steps a scheduler."""
        stages = () if self.effects is None else self.effects.stages
        calls = [e.on for stage in stages for e in stage.effects if isinstance(e.on, partial)]
        return any(isinstance(of, LRScheduler) for call in calls for of in call.args)

    def fits(self) -> bool:
        """Tell whether tensors want gradients, and have them, where they did."""
        return self.effects is None or self.effects.fits()

    def up_to_date(self) -> bool:
        """Tell whether every tensor that was read while tracing still has the same numbers."""
        return not any(outside.changed() for outside in self.outside)


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
        static, rebuild = flatten((args, kwargs), tensors, "trace")
        reach = Reach(function, objects_in(static))
        return record(function, tensors, rebuild, "trace", reach, variables=True)

    return of_examples


def record(
    function: Callable[..., object],
    tensors: Sequence[Tensor],
    rebuild: Rebuild,
    operation: str,
    reach: Reach,
    *,
    variables: bool = False,
    optimize: bool = False,
) -> Traced:
    """Return `function`, which reaches `reach`, as a graph, run on symbols of `tensors`' types."""
    modules, parts = reach.roots, [(part, part.training) for part in reach.parts]
    tracer = Tracer(operation, _device(tensors, operation), variables, _names(modules))
    with tracing(tracer), swap_buffers(modules, tracer) as buffers:
        symbols = [tracer.argument(t, f"x{i}" if i else "x") for i, t in enumerate(tensors)]
        starts = [s.node for s in symbols]
        with forbid_drawing(operation, reach.streams):
            given, outputs = rebuild(iter(symbols)), list[Tensor]()
            with forbid_changes(given, operation), name_unknown_sizes(tracer):
                result = function(*given[0], **given[1])
            kind, back = flatten(lift(result), outputs, operation)
        outputs = [tracer.effects.as_result(value) for value in outputs]
        ends = [_node(value, tracer) for value in outputs]
        if added := [] if variables else tracer.graph.variables:
            raise GraphError(
                f"{operation}: the function makes variable {added[0].name!r} (built at "
                f"{added[0].location}), which no call would give a value. Trace it and run the "
                "graph in a session, or use a module, whose parameters are tensors."
            )
        arguments = enumerate(zip(symbols, starts, strict=True))
        updates: list[Update] = [(i, s.node) for i, (s, start) in arguments if s.node is not start]
        updates += _find_updated_buffers(buffers, tracer)
        effects = tracer.effects.finish(updates, symbols)
    _refuse_hidden(kind, operation)
    del given, result, symbols  # so that what the function alone held is gone
    captured = _list_captured(tracer)
    places = {node: i for i, node in enumerate([*starts, *captured])}
    results = tuple(
        places.get(node, node if isinstance(value, Symbol) else value)
        for node, value in zip(ends, outputs, strict=True)
    )
    name = getattr(function, "__name__", type(function).__name__)
    outside = tuple(tracer.outside())
    return Traced(
        name, tuple(starts), back(iter(ends)), captured, tuple(updates), tracer.graph, outside,
        tracer.device, optimize, results, back, kind, effects,
        tuple((part, part.training) for part, before in parts if part.training != before),
    )  # fmt: skip


def _refuse_hidden(kind: Hashable, operation: str) -> None:
    """Refuse a result with a traced value where no run would put numbers.

    Such are generators, coroutines, iterators, functions, and objects of classes of one's own.
    """
    pairs = kind if isinstance(kind, tuple) else ()
    for leaf in [pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) == 2]:
        held: list[object] = [leaf]
        for _ in range(HELD_DEPTH):
            names = [x.__globals__ for x in held if isinstance(x, FunctionType)]
            below = [x for x in gc.get_referents(*held) if not isinstance(x, type | ModuleType)]
            held = [x for x in below if all(x is not y for y in names)]
            if any(isinstance(x, Symbol) for x in held):
                raise GraphError(
                    f"{operation}: the result holds a traced value that no run would fill: got "
                    f"{type(leaf).__name__}, expected tensors, or lists, tuples, dicts and "
                    "dataclasses of them. Return the tensor itself."
                )


def _names(modules: Sequence[Module]) -> dict[int, str]:
    """Return what to call the parameters and buffers, by id."""
    named = [pair for m in modules for pair in (*m.named_parameters(), *m.named_buffers())]
    return {id(value): name for name, value in named}


def _device(tensors: Sequence[Tensor], operation: str) -> Device:
    places = dict.fromkeys(str(t.device) for t in tensors)
    if len(places) > 1:
        raise DeviceError(f"{operation}: inputs live on {' and '.join(places)}, expected one.")
    return tensors[0].device if tensors else CPU


def _node(value: Tensor, tracer: Tracer) -> Node:
    """Return the node of a result: one of the trace, or a constant."""
    if isinstance(value, Symbol) or value.requires_grad or id(value) in tracer.captured:
        return tracer.node_of(value)
    return Constant(value.array)


def _list_captured(tracer: Tracer) -> dict[Node, Tensor]:
    """Return the captured tensors by node; where a session runs them, they have a default."""
    captured: dict[Node, Tensor] = {}
    for tensor, node in (*tracer.effects.past, *tracer.captured.values()):
        captured[node] = tensor
        if tracer.variables and isinstance(node, Placeholder):
            with tracer.graph.as_default(), outside_branches():
                node.inputs = (Constant(to_numpy(tensor.array)),)
    return captured


def _find_updated_buffers(
    buffers: Sequence[tuple[Module, str, Tensor, Symbol]], tracer: Tracer
) -> list[Update]:
    updates: dict[int, Update] = {}
    for module, name, buffer, symbol in buffers:
        now = module._buffers[name]
        if now is not symbol and isinstance(now, Tensor):
            updates[id(buffer)] = (buffer, tracer.node_of(now))
        elif symbol.node is not tracer.captured[id(buffer)][1]:
            updates[id(buffer)] = (buffer, symbol.node)
    return list(updates.values())


@contextmanager
def swap_buffers(
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
def forbid_changes(arguments: object, operation: str) -> Iterator[None]:
    """Raise if structures among the arguments are other ones after: the caller's would not."""
    before, after = list[Tensor](), list[Tensor]()
    kind, _ = flatten(arguments, before, operation)
    yield
    if flatten(arguments, after, operation)[0] != kind or [*map(id, before)] != [*map(id, after)]:
        raise GraphError(
            f"{operation}: the function changes a list, dict or dataclass that it was given, which "
            "a run of the graph would not. Return what is new, or change a copy."
        )


@contextmanager
def name_unknown_sizes(tracer: Tracer) -> Iterator[None]:
    """Raise what names the line where the library itself counted with a size not known, a None."""
    try:
        yield
    except TypeError as error:
        places = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(error.__traceback__)]
        own = places[-1][0].startswith(PACKAGE) and "NoneType" in str(error)
        if not own or not any(None in n.shape for n in tracer.graph.nodes):
            raise
        where = ""  # modules of the library alone have no line of the program's
        for file, line in places:
            if not file.startswith(PACKAGE):
                where = f"{file}:{line} (`{linecache.getline(file, line).strip()}`): "
        raise GraphError(
            f"{tracer.operation}: {where}a size that only a run can tell is needed while tracing. "
            f"{SIZE}"
        ) from error
