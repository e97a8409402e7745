"""Gradients as nodes: the reverse sweep, run once, while the graph is being built."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ...arrays.library import Array, Namespace
from ...errors import GraphError, NoGradientRule
from ...op import Flat, Gradients, KeepsSpec, Value
from ...ops.shaping.broadcasting import expand_to
from ...sweep import Rule, ancestors, count_uses, sweep
from ...vjp import on_values
from ..shapes.deferred import any_late, late, unknown
from ..shapes.sizes import comes_of_none
from ..shapes.static import agree
from .graph import add_location
from .node import Constant, Node, convert
from .order import list_needed


def gradients(
    ys: object,
    xs: object,
    grad_ys: object = None,
    name: str = "gradients",
    stop_gradients: object = None,
) -> list[Node | None]:
    """Return, for each of `xs`, a node for the derivative of the sum of all elements of `ys`.

    Args:
        ys: a node or a list of nodes.
        xs: a node or a list of nodes; an intermediate value will do.
        grad_ys: for each y the gradient that arrives there, instead of ones.
        stop_gradients: nodes that count as constants: the derivative by one of them does not flow
            on to what it was computed from.
    Returns:
        a list as long as `xs`; None where no y depends on x.
    Raises:
        GraphError: an x is a constant that a loop uses; loops keep their constants to themselves.
    """
    roots, sources = _check_nodes(ys, "ys"), _check_nodes(xs, "xs")
    arriving: list[object] = [None] * len(roots) if grad_ys is None else _as_list(grad_ys)
    if len(arriving) != len(roots):
        raise GraphError(
            f"gradients: got {len(arriving)} grad_ys, expected {len(roots)}, one for each y."
        )
    stops = [] if stop_gradients is None else _check_nodes(stop_gradients, "stop_gradients")
    _check_outside_loops(sources, roots)
    between = ancestors(sources, roots)
    inner = [node for node in list_needed(roots, set()) if node in between]
    if any_late(inner) or unknown(*inner):
        return _later(roots, sources, arriving, stops)
    with roots[0].graph.scope(name):
        seeds = _seeds(roots, arriving)
        try:
            grads = _sweep(seeds, sources, between, set(stops))
        except TypeError as error:
            if not comes_of_none(error, list_needed(roots, set())):
                raise
            return _later(roots, sources, arriving, stops)  # a rule computes with sizes
    return [grads.get(x) for x in sources]


def _check_outside_loops(sources: list[Node], roots: list[Node]) -> None:
    """Raise if one of the sources is a constant inside a loop: its gradient would stay there."""
    constants = {x for x in sources if isinstance(x, Constant)}
    nodes = list_needed(roots, set()) if constants else []
    while nodes:
        nodes = [inner for node in nodes for inner in getattr(node.op, "nodes", list)()]
        for node in nodes:
            if node in constants:
                raise node.error(
                    f"gradients: x {node.name!r} is a constant that a loop uses, expected a "
                    "variable, a placeholder, or one of the loop's variables."
                )


def _sweep(
    seeds: dict[Node, Node], sources: list[Node], between: set[object], stops: set[Node]
) -> dict[Node, Node | None]:
    """Return the gradient of each source that lies below a y."""
    grads: dict[Node, Node | None] = {}
    uses = count_uses([y for y in seeds if y in between], between.__contains__)
    arriving = {y: seed for y, seed in seeds.items() if y in uses}
    sweep(arriving, uses, _rule(uses, stops), grads.__setitem__, sources)
    return grads


def _later(
    roots: list[Node], wanted: list[Node], arriving: list[object], stops: list[Node]
) -> list[Node | None]:
    """Return gradients that are built once the shapes are known; None where none will be."""
    between = ancestors(wanted, roots)
    arrives = [grad is not None for grad in arriving]
    arrived = [convert(grad) for grad in arriving if grad is not None]
    inputs = (*roots, *wanted, *stops, *arrived)
    first, second = len(roots), len(roots) + len(wanted)
    third = second + len(stops)

    @lru_cache(1)  # all of one run are built at once
    def build(*nodes: Node) -> list[Node]:
        ys, xs, seeds = nodes[:first], nodes[first:second], iter(nodes[third:])
        ends = [next(seeds) if present else None for present in arrives]
        grads = gradients(list(ys), list(xs), ends, stop_gradients=list(nodes[second:third]))
        return [x * 0.0 if grad is None else grad for x, grad in zip(xs, grads, strict=True)]

    def by(place: int) -> Callable[..., Node]:
        return lambda *nodes: build(*nodes)[place]

    return [
        late(by(i), inputs, x.dtype, x.shape) if x in between else None
        for i, x in enumerate(wanted)
    ]


def _seeds(roots: Sequence[Node], arriving: Sequence[object]) -> dict[Node, Node]:
    """Return the gradient of each y; one that is listed twice counts twice."""
    seeds: dict[Node, Node] = {}
    for y, grad in zip(roots, arriving, strict=True):
        if y.dtype.kind != "f":
            raise y.error(
                f"gradients: {y.name!r} is {y.dtype}, expected a floating dtype. Cast it first."
            )
        seed: Node
        if grad is None:
            seed = expand_to(Constant(np.ones((), y.dtype), graph=y.graph), y)
        elif not agree((seed := convert(grad, y.dtype)).shape, y.shape):
            raise y.error(
                f"gradients: got grad_ys of shape {seed.shape} for {y.name!r}, expected {y.shape}."
            )
        seeds[y] = seeds[y] + seed if y in seeds else seed
    return seeds


def _rule(uses: dict[Node, int], stops: set[Node]) -> Rule:
    def rule(node: Node, grad: Node) -> Sequence[Value | None]:
        if node in stops:
            return (None,) * len(node.inputs)
        node.wants = tuple([source in uses for source in node.inputs])
        try:
            return on_values(node, grad)
        except NoGradientRule as error:
            raise add_location(error, node.built_at, node.name) from None
        finally:
            node.wants = (True,) * len(node.inputs)

    return rule


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _check_nodes(value: object, what: str) -> list[Node]:
    nodes: list[Node] = []
    values = _as_list(value)
    if not values and what != "stop_gradients":
        raise GraphError(f"gradients: got no {what}, expected a node or a list of nodes.")
    for node in values:
        if not isinstance(node, Node):
            raise GraphError(f"gradients: got {type(node).__name__} in {what}, expected nodes.")
        nodes.append(node)
    return nodes


class StopGradient(Flat, KeepsSpec):
    """The input itself; no gradient passes."""

    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return arrays[0]


class Identity(StopGradient):
    """The input itself, as a node of its own: a place to fetch, name or order."""

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return out_grad
