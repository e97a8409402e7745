"""A graph as a function of tensors through which gradients pass.

Going back is a graph too: built once, from the gradients of the outputs and those values of the way
forward that it needs, which the way forward returns besides its outputs. A call is the operator
that its results remember; with several results, each is an output of a hub.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from minitorch.arrays.generator import default_generator
from minitorch.arrays.library import Array, Device, asarray, copy_array
from minitorch.graph.core.gradients import Identity, StopGradient, gradients
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.node import Constant, Node
from minitorch.graph.core.order import list_needed, schedule
from minitorch.graph.core.placeholders import Placeholder
from minitorch.graph.core.session import Session
from minitorch.graph.executors.compiled import Step
from minitorch.graph.shapes.deferred import any_late
from minitorch.op import Op
from minitorch.ops.random import Drawn, DropMask
from minitorch.sweep import ancestors
from minitorch.tensor.hub import Arriving, attach
from minitorch.tensor.modes import recording
from minitorch.tensor.tensor import Tensor

Plan = Callable[[Sequence[Array]], list[Array]]


class Program:
    """Outputs as a function of feeds.

    Args:
        feeds: nodes that each call gives values for.
        outputs: nodes to compute.
        optimize: rewrite the graph before it runs.
        written: places of the feeds whose tensors are overwritten after a run.
    """

    def __init__(
        self,
        name: str,
        feeds: Sequence[Node],
        outputs: Sequence[Node],
        graph: Graph,
        device: Device,
        optimize: bool = False,
        written: Sequence[int] = (),
    ) -> None:
        self.written = written
        self.name, self.feeds, self.outputs = name, tuple(feeds), tuple(outputs)
        self.graph, self.device, self.optimize = graph, device, optimize
        self.session = Session(graph, optimize=optimize, device=device)
        self._ways_back: dict[tuple[bool, ...], WayBack] = {}

    def plan(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        when_sure: Callable[[], object] | None = None,
    ) -> Plan:
        """Return the run of these fetches from arrays for these feeds.

        It gives each of its results memory of its own.

        Args:
            when_sure: called in each run once no value can make it fail any more, if that is known.
        """
        step, state = self.session.plan(list(fetches), tuple(feeds)), self.session.state
        if when_sure is not None and isinstance(step, Step):
            step.call_when_sure(when_sure)

        def run(arrays: Sequence[Array]) -> list[Array]:
            arrays_in = [np.asarray(a) if isinstance(a, np.generic) else a for a in arrays]
            return list(step(state, arrays_in))

        return run

    @cached_property
    def forward(self) -> Plan:
        """The run of the outputs alone."""
        return self.plan(self.outputs, self.feeds)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs as tensors that remember where they came from."""
        arrays = [tensor.array for tensor in tensors]
        if recording.on:
            wants = tuple([
                tensor.requires_grad and moves
                for tensor, moves in zip(tensors, self.moving, strict=True)
            ])  # fmt: skip
            if any(wants):
                return self.way_back(wants).forward(tensors, arrays)
        return [Tensor._new(a) for a in self.forward(arrays)]

    @cached_property
    def moving(self) -> tuple[bool, ...]:
        """For each feed, whether an output has a gradient with respect to it."""
        ends = [node for node in self.outputs if node.dtype.kind == "f"]
        between = ancestors(self.feeds, ends)
        return tuple(node.dtype.kind == "f" and node in between for node in self.feeds)

    @cached_property
    def drawn(self) -> tuple[Node, ...]:
        """The nodes that draw random numbers."""
        nodes = list_needed(self.outputs, set(self.feeds))
        return tuple(node for node in nodes if isinstance(node.op, Drawn | DropMask))

    def way_back(self, wants: tuple[bool, ...]) -> "WayBack":
        """Return the gradients with respect to the wanted feeds."""
        way = self._ways_back.get(wants)
        if way is None:
            way = self._ways_back[wants] = WayBack(self, wants)
        return way


class WayBack:
    """The gradient of a program with respect to some of its feeds.

    Attributes:
        ends: places of the outputs that have a gradient.
        seeds: a placeholder for the gradient of each.
        grads: for each wanted feed, the node of its gradient.
        saved: the values of the way forward that the way back starts from.
        kept: places of the feeds that are overwritten before the way back, which reads them.
    """

    def __init__(self, program: Program, wants: tuple[bool, ...]) -> None:
        self.program = program
        self.sources = [i for i, want in enumerate(wants) if want]
        xs = [program.feeds[i] for i in self.sources]
        reached = with_gradient(xs, program.outputs)
        self.ends = [i for i, y in enumerate(program.outputs) if y in reached]
        ys = [program.outputs[i] for i in self.ends]
        below = set(list_needed(ys, set()))
        self.kept = [i for i in program.written if program.feeds[i] in below]
        with program.graph.as_default():
            self.seeds = [Placeholder(y.dtype, y.shape, "seed") for y in ys]
            by_feed = gradients(ys, xs, list(self.seeds)) if ys else [None] * len(xs)
        self.grads = [grad for grad in by_feed if grad is not None]
        self.has = [grad is not None for grad in by_feed]
        inside = list_needed(self.grads, set())  # what is built late goes forward again
        self.recomputes = has_control(program) or any_late(inside)
        self.saved = () if self.recomputes else self._frontier()
        self.there = program.plan((*program.outputs, *self.saved), program.feeds)
        self.back = program.plan(self.grads, (*program.feeds, *self.seeds, *self.saved))

    def _frontier(self) -> tuple[Node, ...]:
        """Return the nodes of the way forward that the way back reads."""
        program = self.program
        fed = set(program.feeds)
        forward = set(list_needed(program.outputs, fed))
        below = list_needed(self.grads, forward | set(self.seeds))
        own = [n for n in below if n in forward and n not in fed and not isinstance(n, Constant)]
        return tuple(dict.fromkeys([*own, *program.drawn]))

    def forward(self, tensors: Sequence[Tensor], arrays: Sequence[Array]) -> list[Tensor]:
        """Return the outputs as tensors whose `op` runs the way back."""
        program = self.program
        before = default_generator(program.device).get_state() if self.replays else None
        results_and_saved = self.there(arrays)
        count = len(program.outputs)
        shapes = tuple([tuple(results_and_saved[i].shape) for i in self.ends])
        then = list(tensors)
        for i in self.kept:
            if not tensors[i].requires_grad:  # else going back says that it was overwritten
                then[i] = Tensor._new(copy_array(arrays[i]))
        call = Call(self, tuple(then), tuple(results_and_saved[count:]), shapes, before)
        sources = tuple([tensors[i] for i in self.sources])
        results = [Tensor._new(array) for array in results_and_saved[:count]]
        if len(self.ends) == 1:
            end = results[self.ends[0]]
            end.requires_grad, end.op, end.inputs = True, call, sources
        elif self.ends:
            attach(call, sources, dict(enumerate(results[i] for i in self.ends)))
        return results

    @property
    def replays(self) -> bool:
        """Whether the way back draws again what the way forward drew."""
        return self.recomputes and bool(self.program.drawn)

    @cached_property
    def again(self) -> Program:
        """The way back from the feeds alone, through which gradients pass in turn."""
        program = self.program
        drawn = () if self.recomputes else program.drawn
        return Program(
            f"gradient of {program.name}", (*program.feeds, *self.seeds, *drawn), self.grads,
            program.graph, program.device, program.optimize,
        )  # fmt: skip

    def arrays(self, call: "Call", seeds: Sequence[Array]) -> list[Array]:
        """Return the gradients for plain arrays."""
        feeds = [*(tensor.array for tensor in call.tensors), *seeds, *call.saved]
        if not self.replays:
            return self.back(feeds)
        generator = default_generator(self.program.device)
        now = generator.get_state()
        generator.set_state(call.before)
        try:
            return self.back(feeds)
        finally:
            generator.set_state(now)

    def tensors(self, call: "Call", seeds: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients for tensors, recorded."""
        saved = dict(zip(self.saved, call.saved, strict=True))
        nodes = () if self.recomputes else self.program.drawn
        return self.again([*call.tensors, *seeds, *(Tensor._new(saved[node]) for node in nodes)])


class Call(Op):
    """One call of a program: its tensors, and what the way back needs."""

    on_arrays = True
    reads_output = False

    def __init__(
        self,
        way: WayBack,
        tensors: tuple[Tensor, ...],
        saved: tuple[Array, ...],
        shapes: tuple[tuple[int, ...], ...],
        before: object,
    ) -> None:
        self.way, self.tensors, self.saved, self.before = way, tensors, saved, before
        self.shapes = shapes  # of the outputs that have a gradient

    @property
    def name(self) -> str:
        """The traced function's name."""
        return self.way.program.name

    def attributes(self) -> dict[str, object]:
        """Return nothing: what it holds is numbers."""
        return {}

    def gradient(self, out_grad: Any, node: Any) -> Any:
        way = self.way
        arriving = dict(out_grad.by_place) if isinstance(out_grad, Arriving) else {0: out_grad}
        dtypes = [seed.dtype for seed in way.seeds]
        records = any(isinstance(grad, Tensor) for grad in arriving.values())
        for i, (shape, dtype) in enumerate(zip(self.shapes, dtypes, strict=True)):
            if i not in arriving:  # nobody used this output
                zeros = asarray(np.zeros(shape, dtype), None, way.program.device)
                arriving[i] = Tensor._new(zeros) if records else zeros
        seeds = [arriving[i] for i in range(len(dtypes))]
        grads = iter(way.tensors(self, seeds) if records else way.arrays(self, seeds))
        return tuple([next(grads) if wanted else None for wanted in way.has])


def with_gradient(sources: Sequence[Node], ends: Sequence[Node]) -> set[Node]:
    """Return the nodes that would require a gradient, were they tensors and if `sources` do."""
    requiring = set(sources)
    for node in schedule(ends, requiring):
        if any(source in requiring for source in node.inputs) and not _stops(node):
            requiring.add(node)
    return requiring


def _stops(node: Node) -> bool:
    if isinstance(node.op, StopGradient) and not isinstance(node.op, Identity):
        return True
    return node.op is not None and node.op.pure and node.dtype.kind != "f"


def has_control(program: Program) -> bool:
    """Tell whether some values may be dead or are no arrays, so that they cannot be handed over."""
    nodes = list_needed(program.outputs, set(program.feeds))
    return any(
        node.op is not None and not node.op.pure and not isinstance(node.op, Drawn | DropMask)
        for node in nodes
    )
