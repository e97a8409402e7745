"""Session: runs what is asked for, and nothing else, and keeps the variables in between."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from ...arrays.library import Array, DeviceLike
from ...arrays.library import device as device_called
from ...errors import GraphError
from ..executors.compiled import Run
from ..executors.registry import find_executor
from ..passes.fold import fed_constants
from ..passes.optimize import optimize
from ..passes.rewrite import PLANNING
from ..shapes.by_shape import ByShape, needs_shapes
from .fetches import Feeds, as_feed, check_runnable, flatten_fetches, read_feeds
from .graph import Graph, get_default_graph, open_sessions
from .node import Node
from .order import keep_orders, list_needed
from .placeholders import Placeholder
from .variables import State, Variable


class _Wanted:
    """What a feed should be; `shape` is one that fits, known after the first that did."""

    __slots__ = ("dtype", "node", "shape")

    def __init__(self, node: Node) -> None:
        self.node, self.dtype = node, node.dtype
        self.shape: tuple[int, ...] | None = None


_Ready = tuple[Run, list[_Wanted], Callable[[tuple[object, ...]], Any]]
"""A plan, what each of its feeds should be, and what makes the answer of its values."""

MOST_PLANS = 1000  # kept in a session, one for each pair of fetches and feeds


class Session:
    """Where a graph runs. A context manager; several sessions of one graph share nothing.

    Args:
        target: the graph, or TensorFlow's address of a server, which has no effect.
        graph: the graph whose names `run("loss")` looks up; the default one unless given.
        optimize: whether what is fetched is rewritten before its first run (see `passes`); unless
            given, `Session.default_optimize` for the executor "compiled". The others, which show or
            check a run, run a graph as it was built.
        device: "cpu", or "cuda" where there is one.
        executor: how it runs, `Session.default_executor` unless given; all give the same values.
            "compiled": as straight-line Python; the fastest.
            "interpreter": node by node, a loop within.
            "tokens": loops taken apart, as tokens that move; tells what happens.
        options: of the executor: `shuffle=` and `on_event=` of "tokens".
    """

    default_executor: ClassVar[str] = "compiled"
    default_optimize: ClassVar[bool] = True

    def __init__(
        self,
        target: Graph | str | None = None,
        graph: Graph | None = None,
        *,
        optimize: bool | None = None,
        device: DeviceLike = "cpu",
        executor: str | None = None,
        **options: object,
    ) -> None:
        chosen = target if isinstance(target, Graph) else graph
        self.graph = get_default_graph() if chosen is None else chosen
        by = executor or self.default_executor
        self._executor = find_executor(by, options)
        self.optimize = self.default_optimize and by == "compiled" if optimize is None else optimize
        self.device = device_called(device)
        self.state = State(self.device)
        self.closed = False
        self._steps: dict[tuple[object, ...], Run] = {}
        self._ready: dict[tuple[object, ...], _Ready] = {}

    def run(self, fetches: object, feed_dict: Feeds | None = None) -> Any:
        """Return the values of `fetches`, in the same structure.

        Arrays are the caller's: each has memory of its own, not a feed's nor a variable's.

        Args:
            fetches: a node, a node's name, or lists, tuples and dicts of them. An operation such
                as `group` or `minimize` gives None.
            feed_dict: a value for each placeholder that is needed; any node may be fed, and a tuple
                of nodes, such as a cell's state, by a tuple of values.
        Raises:
            GraphError: a placeholder is missing, a feed does not fit, a variable has no value;
                names the node and the line that built it.
        """
        feeds_by_node = {} if feed_dict is None else feed_dict
        try:  # what was run before in this very form goes the short way
            ready = self._ready.get(
                ((list, *fetches) if type(fetches) is list else fetches, *feeds_by_node)
            )
            values = feeds_by_node.values()
        except (TypeError, AttributeError):  # no hash, no dict
            ready = None
        if ready is None:
            return self._run_anew(fetches, feed_dict)
        step, expected, rebuild = ready
        arrays = [
            value
            if type(value) is np.ndarray and value.dtype is want.dtype and value.shape == want.shape
            else self._feed_array(want, value)
            for want, value in zip(expected, values, strict=True)
        ]
        return rebuild(step(self.state, arrays))

    def _feed_array(self, want: _Wanted, value: object) -> Array:
        """Return the array for a feed; the shape of one that fits is known the next time."""
        array = as_feed(want.node, value, self.device)
        if array is value:
            want.shape = value.shape
        return array

    def _run_anew(self, fetches: object, feed_dict: Feeds | None) -> Any:
        """Run what may never have run before; fetches and feeds may be named and nested."""
        if self.closed:
            raise GraphError("run: the session is closed. Open a new one.")
        leaves: list[Node] = []
        rebuild = flatten_fetches(fetches, self.graph, leaves)
        feeds, arrays = read_feeds(feed_dict, self.graph, self.device) if feed_dict else ((), [])
        key = (tuple(leaves), feeds)
        step = self._steps.get(key)
        if step is None:
            with PLANNING:  # other threads plan runs of their own
                step = self._steps.get(key)  # which another may have planned meanwhile
                if step is None:
                    step = self._steps[key] = self.plan(leaves, feeds)
                    while len(self._steps) > MOST_PLANS:  # a program may build nodes for ever
                        del self._steps[next(iter(self._steps))]
                        self._ready.clear()
        self._make_ready(fetches, feed_dict, step)
        return rebuild(iter(step(self.state, arrays)))

    def _make_ready(self, fetches: Any, feed_dict: Feeds | None, step: Run) -> None:
        """Remember the plan for the next run of these fetches, if they and the feeds are nodes."""
        feeds = tuple(feed_dict or ())
        flat = tuple(fetches) if type(fetches) in (list, tuple) else (fetches,)
        if self.device != "cpu" or not all(isinstance(n, Node) for n in (*flat, *feeds)):
            return
        key = (list, *flat) if type(fetches) is list else fetches
        rebuild = list if type(fetches) is list else tuple if flat is fetches else itemgetter(0)
        expected = [_Wanted(node) for node in feeds]
        self._ready[key, *feeds] = (step, expected, rebuild)

    @property
    def plans(self) -> int:
        """How many pairs of feeds and fetches this session has a plan for."""
        return len(self._steps)

    def load(self, variable: Variable, value: object) -> None:
        """Set a variable at once."""
        self.state.values[variable] = as_feed(variable, value, self.device, copy=True)

    @property
    def writes_files(self) -> bool:
        """Whether this session writes files: of those on several ranks one does."""
        return True

    def close(self) -> None:
        """Forget variables and plans."""
        self.closed = True
        self.state = State(self.device)
        self._steps.clear()
        self._ready.clear()

    def plan(self, leaves: list[Node], feeds: tuple[Node, ...]) -> Run:
        """Return the run of these nodes from values for `feeds`, made anew and kept by the caller.

        Raises:
            GraphError: a node of another graph, or one that has no value of its own; a placeholder
                that is needed and not among `feeds`.
        """
        with keep_orders():
            check_runnable(self.graph, leaves, feeds)
            leaves = fed_constants(leaves, feeds)
            if needs_shapes(leaves, feeds):
                return ByShape(leaves, feeds, self._step)
            return self._step(leaves, feeds)

    def _step(self, leaves: list[Node], feeds: tuple[Node, ...]) -> Run:
        if self.optimize:
            leaves = optimize(leaves, feeds)
        return self._executor(leaves, feeds, self.device)

    # A context manager

    @contextmanager
    def as_default(self) -> "Iterator[Session]":
        """Make this the default session inside the `with` block, and leave it open after it."""
        open_sessions().append(self)
        try:
            yield self
        finally:
            open_sessions().remove(self)

    def __enter__(self) -> "Session":
        open_sessions().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        open_sessions().remove(self)
        self.close()


def compile(node: object) -> Callable[..., Any]:
    """Return a function that computes `node` (or a structure of nodes) from named arrays.

        A, B = Variable("A"), Variable("B")
        f = compile(B * A + Constant(1))
        f(A=ones(10), B=ones(10) * 2)

    The names are those that the placeholders and variables which the node depends on were given;
    where two were given the same, they are told apart as their graph does it: A, A_1, which is
    always understood. A variable with an initial value may be left out, and then has that.

    Raises:
        GraphError: (when called) an argument is missing or unknown; lists the names.
    """
    leaves: list[Node] = []
    flatten_fetches(node, get_default_graph(), leaves)
    session = Session(graph=leaves[0].graph if leaves else None, optimize=True)
    inputs = _by_name([n for n in list_needed(leaves, ()) if isinstance(n, Placeholder | Variable)])
    orders: dict[tuple[str, ...], list[Node]] = {}  # the nodes for arguments, by orders seen before

    def function(**arrays: object) -> Any:
        nodes = orders.get(tuple(arrays))
        if nodes is None:
            nodes = orders[tuple(arrays)] = _inputs_by_name(arrays, inputs, session)
        return session.run(node, dict(zip(nodes, arrays.values(), strict=True)))

    function.__doc__ = f"Compute it from {', '.join(inputs) or 'nothing'}."
    return function


def _by_name(nodes: Sequence[Placeholder | Variable]) -> dict[str, Node]:
    """Return the nodes by the names that they were given, or have where these do not tell."""
    names_given = [node.asked for node in nodes]
    taken = {node.name for node in nodes}
    clear = (names_given.count(name) == 1 and name not in taken for name in names_given)
    named = zip(nodes, names_given, clear, strict=True)
    return {name if is_clear else node.name: node for node, name, is_clear in named}


def _inputs_by_name(arrays: Iterable[str], inputs: dict[str, Node], session: Session) -> list[Node]:
    """Return the inputs of these names; what is left out gets its initial value."""
    argument_of = {node.name: name for name, node in inputs.items()}
    names = [argument_of.get(name, name) for name in arrays]
    starts = {name: n.initializer for name, n in inputs.items() if isinstance(n, Variable)}
    left = inputs.keys() - names
    missing = sorted(name for name in left if starts.get(name) is None)
    unknown = sorted(set(names) - inputs.keys())
    if missing or unknown:
        problem = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(unknown)}"
        raise GraphError(
            f"compile: arguments do not fit: {problem}; the inputs are {', '.join(inputs)}."
        )
    for name in left:
        if inputs[name] not in session.state.values:
            session.run(starts[name])
    return [inputs[name] for name in names]
