"""`scan`, `map_fn`, `foldl`, `foldr`: loops over the rows of arrays, under TensorFlow's names.

The rows are a list of which each round takes the top, and the results a list to which each round
adds, so a round costs what its row costs, backwards too, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays.library import DTypeLike, as_dtype
from ...errors import GraphError
from ...pytree import mapped
from ..core.node import Node, UnknownShape, build, convert
from ..core.structures import apart_from, same_structure
from .loop import while_loop
from .loop_stacks import Opaque, empty, has_more, pushed, without_top
from .row_lists import Spread, next_row, stacked
from .while_op import KEPT_APART


def scan(
    fn: Callable[..., object],
    elems: object,
    initializer: object = None,
    parallel_iterations: int = KEPT_APART,
    reverse: bool = False,
) -> Any:
    """Return every value of a = fn(a, elem), for elem along the first axis of `elems`.

    Args:
        fn: (accumulator, row) -> next accumulator, of the same structure, dtypes and shapes.
        elems: a node with one axis or more, or a structure of nodes of equally many rows.
        initializer: what the accumulator starts from; the first row unless given, which then is
            the first result.
        parallel_iterations: as for `while_loop`.
        reverse: from the last row to the first; results stay where their rows are.
    Returns: the structure of the accumulator, each with an axis more in front: a value a row.
    """
    rows = Rows("scan", fn, elems, first_on_top=not reverse)
    start, kept = _start(rows, initializer)
    accs, rebuild = apart_from(start)
    results = [_begun(acc, kept) for acc in accs]

    def body(now: list[Node], done: list[Node]) -> tuple[list[Node], list[Node]]:
        found = _kept(rows, accs, same_structure("scan", fn(rebuild(now), rows.taken()), start))
        return found, list(map(pushed, done, found))

    _, done = _over(rows, accs, results, body, parallel_iterations)
    return rebuild([stacked(d, a, reverse, rows.count) for d, a in zip(done, accs, strict=True)])


def _folding(called: str, from_first: bool) -> Callable[..., Any]:
    def fold(
        fn: Callable[..., object],
        elems: object,
        initializer: object = None,
        parallel_iterations: int = KEPT_APART,
    ) -> Any:
        rows = Rows(called, fn, elems, first_on_top=from_first)
        start, _ = _start(rows, initializer)
        accs, rebuild = apart_from(start)

        def body(now: list[Node], done: list[Node]) -> tuple[list[Node], list[Node]]:
            found = same_structure(called, fn(rebuild(now), rows.taken()), start)
            return _kept(rows, accs, found), []

        return rebuild(_over(rows, accs, [], body, parallel_iterations)[0])

    ends = "from the first row to the last" if from_first else "from the last row to the first"
    fold.__name__ = fold.__qualname__ = called
    fold.__doc__ = f"Return the last value of a = fn(a, elem), for elem {ends}."
    return fold


foldl, foldr = _folding("foldl", True), _folding("foldr", False)


def map_fn(
    fn: Callable[..., object],
    elems: object,
    dtype: DTypeLike = None,
    parallel_iterations: int = KEPT_APART,
) -> Any:
    """Return fn(elem) for every elem along the first axis of `elems`.

    Args:
        dtype: a dtype for each result, in their structure; those of `elems` unless given.
    """
    rows = Rows("map_fn", fn, elems, first_on_top=True)
    wanted = rows.rebuild([n.dtype for n in rows.nodes]) if dtype is None else dtype
    dtypes, rebuild = apart_from(mapped(lambda kind: convert(as_dtype(kind).type(0)), wanted))
    results = [empty(node.dtype.kind == "f") for node in dtypes]
    made: list[Node] = []

    def body(now: list[Node], done: list[Node]) -> tuple[list[Node], list[Node]]:
        made.extend(same_structure("map_fn", fn(rows.taken()), rebuild(dtypes)))
        for node, want in zip(made, dtypes, strict=True):
            if node.dtype != want.dtype:
                raise node.error(
                    f"map_fn: got {node.dtype} from fn, expected {want.dtype}. Say so in dtype=."
                )
        return [], list(map(pushed, done, made))

    _, done = _over(rows, [], results, body, parallel_iterations)
    return rebuild([stacked(d, m, False, rows.count) for d, m in zip(done, made, strict=True)])


class Rows:
    """The rows of a structure of arrays, read one a round.

    Attributes:
        lists: what is left to read, as the round that is being built sees it.
        count: how many rows there are, if that is known before the run.
    """

    def __init__(self, where: str, fn: object, elems: object, first_on_top: bool) -> None:
        if not callable(fn):
            raise TypeError(f"{where}: got {type(fn).__name__} as fn, expected a function.")
        self.where = where
        self.nodes, self.rebuild = apart_from(elems)
        if not self.nodes:
            raise GraphError(f"{where}: got no elems, expected one node or more.")
        self.count: int | None = None
        for node in self.nodes:
            self._check(node)
        spread = Spread(first_on_top, where)
        first = self.nodes[0]
        self.lists = [build(spread, (n, first), kind=Opaque) for n in self.nodes]

    def _check(self, node: Node) -> None:
        if isinstance(node.shape, UnknownShape) or not node.shape:
            raise node.error(
                f"{self.where}: got elems of shape {node.shape}, expected one axis or more."
            )
        count = node.shape[0]
        if None not in (count, self.count) and count != self.count:
            raise node.error(
                f"{self.where}: elems have {self.count} and {count} rows, expected equally many."
            )
        self.count = count if self.count is None else self.count

    def taken(self) -> Any:
        """Return the next row of each, in their structure."""
        pairs = zip(self.lists, self.nodes, strict=True)
        return self.rebuild([next_row(past, n) for past, n in pairs])

    def rest(self) -> list[Node]:
        """Return what is left after the next row."""
        return list(map(without_top, self.lists))


Body = Callable[[list[Node], list[Node]], tuple[list[Node], list[Node]]]


def _over(
    rows: Rows, accs: Sequence[Node], results: Sequence[Node], body: Body, parallel_iterations: int
) -> tuple[list[Node], list[Node]]:
    """Run `body` (accumulators, results) -> (accumulators, results) for every row."""
    count, kept = len(rows.lists), len(accs)
    first = [*rows.lists, *accs, *results]

    def round_of(*now: Node) -> list[Node]:
        rows.lists = list(now[:count])
        after, done = body(list(now[count : count + kept]), list(now[count + kept :]))
        return [*rows.rest(), *after, *done]

    found = while_loop(
        lambda *now: has_more(now[0]),
        round_of,
        first,
        parallel_iterations=parallel_iterations,
    )
    found = list(found) if isinstance(found, list) else [found]
    return found[count : count + kept], found[count + kept :]


def _start(rows: Rows, initializer: object) -> tuple[object, bool]:
    """Return what the accumulator starts from, and whether that is a result."""
    if initializer is not None:
        nodes, rebuild = apart_from(initializer)
        return rebuild(nodes), False
    if rows.count == 0:
        raise GraphError(f"{rows.where}: got no row and no initializer. Give an initializer.")
    first = rows.taken()
    rows.lists = rows.rest()
    return first, True


def _kept(rows: Rows, accs: Sequence[Node], found: list[Node]) -> list[Node]:
    """Return the next accumulators, which must be of the type of the first ones."""
    for old, new in zip(accs, found, strict=True):
        known = not isinstance(new.shape, UnknownShape)
        fits = known and len(new.shape) == len(old.shape)
        fits = fits and all(a in (None, b) for a, b in zip(old.shape, new.shape, strict=True))
        if new.dtype != old.dtype or not fits:
            raise new.error(
                f"{rows.where}: the accumulator changes from {old.dtype} {old.shape} to "
                f"{new.dtype} {new.shape}. fn must give what it is given."
            )
    return found


def _begun(acc: Node, kept: bool) -> Node:
    """Return a list of results, with the accumulator's start in it or without."""
    begun = empty(acc.dtype.kind == "f")
    return pushed(begun, acc) if kept else begun
