"""Discovered rules at work: `improve(fetches, discover())` looks for a cheaper graph.

A rule is tried on numbers before it is used, so that one that was written wrong is refused; and a
graph is checked after each use, as after any pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ...errors import GraphError
from ...ops import binary, elementwise
from ...ops.indexing import narrow
from ...ops.joining import Cat
from ...ops.linalg import MatMul
from ...ops.movement import Permute
from ...ops.rows import operator_of
from ..control.pytree import flatten
from ..core.node import Node, UnknownShape
from ..core.order import needed, schedule
from ..costs.prediction import predicted_s
from ..passes.loops import each_loop
from ..passes.optimize import verified
from ..passes.rewrite import rebuilt, rewrite, simple
from .search import Rule, Term, head, holds, variables

GAIN = 0.98  # a use of a rule must make the whole graph so much cheaper
Site = tuple[dict[Node, Term], dict[str, Node]]
"""Which nodes become which terms, and what the variables stand for."""

_BUILD: dict[str, Callable[..., Node]] = {
    "matmul": lambda a, b: rebuilt(MatMul(), a, b),
    "add": lambda a, b: rebuilt(operator_of(binary.add), a, b),
    "mul": lambda a, b: rebuilt(operator_of(binary.mul), a, b),
    "transpose": lambda a: rebuilt(Permute((1, 0)), a),
    "relu": lambda a: rebuilt(operator_of(elementwise.relu), a),
    "neg": lambda a: rebuilt(operator_of(elementwise.neg), a),
    "concat": lambda a, b: rebuilt(Cat(1), a, b),
}


def improve(fetches: object, rules: Sequence[Rule], fed: Collection[Node] = ()) -> Any:
    """Return nodes of the same values that the machine's cost model finds cheaper.

    Of all places where a rule applies, either way round, the best is taken, until none is left
    that pays.

    Args:
        fetches: a node, or lists, tuples and dicts of nodes.
        rules: what `discover` found, say.
        fed: nodes that a run will feed; nothing above them matters.

    Raises:
        GraphError: a rule does not hold for some matrices.
    """
    checked(rules)
    fed = set(fed)
    now: list[Node] = []
    rebuild = flatten(fetches, now)
    return rebuild(iter(_improved(now, rules, fed)).__next__)


def _improved(fetches: Sequence[Node], rules: Sequence[Rule], fed: Collection[Node]) -> list[Node]:
    """Return nodes of the same values for which no use of a rule pays, inside loops either."""
    fed = set(fed)
    now = each_loop(fetches, fed, lambda nodes, given: _improved(nodes, rules, given))
    cost = predicted_s(now, fed)
    while True:
        found = [(predicted_s(other, fed), other) for other in _others(now, rules, fed)]
        best = min(found, key=lambda pair: pair[0], default=None)
        if best is None or best[0] >= GAIN * cost:
            return now
        cost, now = best[0], verified(best[1], now, fed, "improve")


def checked(rules: Sequence[Rule]) -> None:
    """Raise unless every rule holds."""
    for rule in rules:
        if not isinstance(rule, Rule):
            raise GraphError(f"improve: got {rule!r}, expected rules. Take those of discover().")
        if not holds(rule):
            raise GraphError(
                f"improve: rule {rule} does not hold: its sides differ on random matrices. "
                "Use rules from discover()."
            )


def _others(
    fetches: Sequence[Node], rules: Sequence[Rule], fed: Collection[Node]
) -> Iterator[list[Node]]:
    """Yield the graphs that one use of one rule gives."""
    order = [n for n in schedule(fetches, fed) if n not in fed and simple(n)]
    for rule in rules:
        for way in (rule, rule.reverse):
            if all(map(_plain, way.before)):
                for site in _sites(order, way):
                    yield _applied(fetches, site, fed)


def _plain(term: Term) -> bool:
    """Tell whether a term can be looked for in a graph: an operator, and no part of a matrix."""
    if isinstance(term, str):
        return False
    return term[0] in _BUILD and all(isinstance(p, str) or _plain(p) for p in term[1:])


def _sites(order: Sequence[Node], rule: Rule) -> Iterator[Site]:
    """Yield the places where a rule's left side is found."""
    first, rest = rule.before[0], rule.before[1:]
    wanted = {v for term in rule.after for v in variables(term)}
    for node in order:
        env: dict[str, Node] = {}
        if not _matches(first, node, env):
            continue
        if not rest and wanted <= env.keys():
            yield {node: rule.after[0]}, env
        for other in order if len(rest) == 1 else ():
            both = dict(env)
            if other is node or not _matches(rest[0], other, both) or not wanted <= both.keys():
                continue
            above = needed(both.values(), ())
            if not {node, other} & set(above):
                yield {node: rule.after[0], other: rule.after[1]}, both


def _applied(fetches: Sequence[Node], site: Site, fed: Collection[Node]) -> list[Node]:
    places, env = site
    made: dict[Term, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        return _built(places[node], env, made) if node in places else None

    return rewrite(fetches, rule, fed)


def _matches(term: Term, node: Node, env: dict[str, Node]) -> bool:
    """Tell whether a node is an instance of a term; `env` gets what its variables stand for."""
    if isinstance(term, str):
        return env.setdefault(term, node) is node and _is_matrix(node)
    if _named(node) != term[0] or len(node.inputs) != len(term) - 1:
        return False
    return all(_matches(p, n, env) for p, n in zip(term[1:], node.inputs, strict=True))


def _is_matrix(node: Node) -> bool:
    return not isinstance(node.shape, UnknownShape) and len(node.shape) == 2


def _named(node: Node) -> str:
    """Return the operator of a term that a node is, "" where it is none, or not of matrices."""
    op = node.op
    if not simple(node) or not _is_matrix(node) or not all(map(_is_matrix, node.inputs)):
        return ""
    if isinstance(op, Permute):
        return "transpose" if tuple(op.dims) == (1, 0) else ""
    if isinstance(op, Cat):
        return "concat" if op.dim == 1 and len(node.inputs) == 2 else ""
    same = all(source.shape == node.shape for source in node.inputs)
    name = op.name if op is not None else ""
    return name if name == "matmul" or (name in ("add", "mul", "relu", "neg") and same) else ""


def _built(term: Term, env: dict[str, Node], made: dict[Term, Node]) -> Node:
    """Return the node of a term; `made` keeps parts that terms share."""
    if isinstance(term, str):
        return env[term]
    if term not in made:
        parts = [_built(part, env, made) for part in term[1:]]
        if term[0] in ("left", "right"):
            cut, width = _cut(term[1], env, made), int(parts[0].shape[1])
            start, length = (0, cut) if term[0] == "left" else (cut, width - cut)
            made[term] = narrow(parts[0], 1, start, length)
        else:
            made[term] = _BUILD[head(term)](*parts)
    return made[term]


def _cut(term: Term, env: dict[str, Node], made: dict[Term, Node]) -> int:
    """Return the column at which a term's value was put together."""
    if isinstance(term, str):
        raise GraphError(f"improve: {term} was not put together from parts: it cannot be cut.")
    if term[0] == "concat":
        return int(_built(term[1], env, made).shape[1])
    return _cut(term[2 if term[0] == "matmul" else 1], env, made)
