"""Graph: names, scopes and defaults while nodes are being built.

It holds only the nodes that the user named. Any other is freed when nobody can reach it any more:
what keeps it alive is a node that uses it, a session's cached plan or the user's own variable.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import GraphError, MinitorchError

if TYPE_CHECKING:
    from ..control.cond import Branch
    from .node import Node
    from .session import Session
    from .variables import Variable

__all__ = [
    "Graph",
    "control_dependencies",
    "device",
    "get_default_graph",
    "name_scope",
    "reset_default_graph",
]


PACKAGE = str(Path(__file__).parents[2])
E = TypeVar("E", bound=MinitorchError)


def call_site() -> tuple[str, int]:
    """Return (file, line) of the innermost caller outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class Graph:
    """A namespace for nodes: unique names, variables, the seed of random nodes.

    Attributes:
        made_at: (file, line) of the user's code that made it.
    """

    def __init__(self) -> None:
        self.made_at = call_site()
        self.seed: int | None = None
        self.random_nodes = 0
        self.site: tuple[str, int] | None = None  # the line that new nodes belong to, in a pass
        self._counts: dict[str, int] = {}
        self._nodes: weakref.WeakValueDictionary[str, Node] = weakref.WeakValueDictionary()
        self._named: list[Node] = []
        self._variables: list[weakref.ref[Variable]] = []
        self.scopes: list[str] = []
        self.pivots: set[int] = set()  # ids of the nodes that say that a branch is taken
        self.branches: list[Branch] = []  # the sides of `cond` that are being built, outer first
        self.control: list[tuple[Node, ...]] = [()]
        self.devices: list[str | None] = []  # the `device` blocks that are open, outer first

    def unique_name(self, base: str) -> str:
        """Return `base` in the present scope, with _1, _2, ... from its second use on."""
        name = self.with_scopes(base)
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        if not count:
            return name
        return self.unique_name(f"{base}_{count}")

    def with_scopes(self, base: str) -> str:
        """Return `base` behind the scopes that are open."""
        return "/".join([*self.scopes, base])

    @property
    def location(self) -> str:
        """`file:line` of the user's code that made this graph; "import" of the first default."""
        file, line = self.made_at
        return "import" if file.startswith("<frozen importlib") else f"{file}:{line}"

    def __repr__(self) -> str:
        return f"<Graph made at {self.location}>"

    def receive(self, node: Node, name: str) -> None:
        """Give a new node its place: its name, what it waits for, its device and its line."""
        node.graph = self
        node.name = self.unique_name(name)
        node.control_inputs = self.control[-1]
        node.device = self.devices[-1] if self.devices else None
        node.built_at = self.site or call_site()
        for branch in self.branches:
            branch.inside.add(node)
        self._nodes[node.name] = node

    def call(self, node: Node, name: str) -> None:
        """Give a node another name than that of its operator."""
        node.name = self.unique_name(name)
        self._nodes[node.name] = node

    def keep(self, node: Node) -> None:
        """Hold a node that the user named: a run may fetch it by that name alone."""
        self._named.append(node)
        self._nodes[node.name] = node

    def add_variable(self, variable: Variable) -> None:
        """Take note of a variable, for `initialize_all_variables`."""
        self._variables.append(weakref.ref(variable))

    @property
    def variables(self) -> list[Variable]:
        """The variables that are still alive, in the order of their creation."""
        return [v for ref in self._variables if (v := ref()) is not None]

    @property
    def nodes(self) -> list[Node]:
        """The nodes that are still alive, by name."""
        return list(self._nodes.values())

    def find(self, name: str) -> Node | None:
        """Return the node called `name`; TensorFlow's "name:0" means the same."""
        return self._nodes.get(name.removesuffix(":0"))

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Build nodes in this graph inside the `with` block."""
        _local.stack.append(self)
        try:
            yield self
        finally:
            self._leave()

    def _leave(self) -> None:
        stack = _local.stack
        del stack[len(stack) - 1 - stack[::-1].index(self)]

    @contextmanager
    def scope(self, name: str) -> Iterator[str]:
        """Build nodes in this graph under a scope's name, which it gives; see `name_scope`."""
        outer = self.scopes
        if not name:
            self.scopes = []
        elif name.endswith("/"):
            self.scopes = [name[:-1]]
        else:
            self.scopes = [self.unique_name(name)]
        _local.stack.append(self)
        try:
            yield f"{self.scopes[0]}/" if self.scopes else ""
        finally:
            self._leave()
            self.scopes = outer


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Graph] = []
        self.sessions: list[Session] = []


_local = _Local()
_root: list[Graph] = [Graph()]


def get_default_graph() -> Graph:
    """Return the graph in which nodes are being built."""
    stack = _local.stack
    return stack[-1] if stack else _root[0]


def place_of_new() -> tuple[str, int]:
    """Return the line that a node built now belongs to: the user's, or its predecessor's."""
    return get_default_graph().site or call_site()


def add_location(error: E, place: tuple[str, int], name: str | None = None) -> E:
    """Return an error of the same type whose message also names the line (and the node)."""
    built = f"node {name!r} built at" if name else "built at"
    new = type(error)(f"{error} ({built} {place[0]}:{place[1]})")
    new.__dict__.update(error.__dict__)
    new.__dict__.update(built_at=place, node_name=name)
    return new


def open_sessions() -> list[Session]:
    """Return the sessions that this thread has open, the innermost last."""
    return _local.sessions


def innermost_session(what: str) -> Session:
    """Return the session of the innermost `with` block.

    Raises:
        GraphError: none is open; says what would need one.
    """
    if not _local.sessions:
        raise GraphError(f"{what}: no session is open. Use `with Session():` or pass session=.")
    return _local.sessions[-1]


def reset_default_graph() -> None:
    """Begin a new default graph: names start over, earlier variables are no longer initialised."""
    _root[0] = Graph()


def name_scope(name: str) -> AbstractContextManager[str]:
    """Put a scope's name before the names of nodes built inside the `with` block; give it.

    A second scope of a name gets _1 at its end. A name with a "/" at its end is taken as it is,
    from the root: what an earlier scope gave enters that one again. "" is the root.
    """
    return get_default_graph().scope(name)


@contextmanager
def device(name: str | None) -> Iterator[None]:
    """Place nodes built inside the `with` block on the device `name`; None leaves them open.

    A task in the name is the rank that it runs on, else the number at its end: "cpu:1",
    "/job:worker/task:1". What begins with a "/" adds to such a name outside: "/gpu:0" within
    "/job:worker/task:1" is "/job:worker/task:1/gpu:0".
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"device: got {type(name).__name__}, expected a name such as 'cpu:0'. A function that "
            "chooses is not supported: open a block for each device."
        )
    graph = get_default_graph()
    graph.devices.append(_device_within(name, graph.devices[-1] if graph.devices else None))
    try:
        yield
    finally:
        graph.devices.pop()


def _device_within(name: str | None, around: str | None) -> str | None:
    """Return the name of a device inside a block of another, whose other parts it keeps."""
    if not name or not around or name[0] != "/" or around[0] != "/":
        return name
    parts: dict[str, str] = {}
    for part in (around + name)[1:].split("/"):
        kind = part.partition(":")[0]
        parts[kind if kind in ("job", "replica", "task") else "device"] = part
    return "".join(f"/{part}" for part in parts.values())


@contextmanager
def control_dependencies(control_inputs: Sequence[Node] | None) -> Iterator[None]:
    """Make nodes built inside the `with` block run after `control_inputs`; None lifts all."""
    graph = get_default_graph()
    outer = graph.control[-1]
    inner = () if control_inputs is None else (*outer, *_check_nodes(control_inputs, graph))
    graph.control.append(inner)
    try:
        yield
    finally:
        graph.control.pop()


@contextmanager
def like(node: Node) -> Iterator[None]:
    """Build nodes with the graph, the line and the device of `node`, which wait for nothing."""
    graph = node.graph
    outer = graph.control, graph.site, graph.devices
    graph.control, graph.site, graph.devices = [()], node.built_at, [node.device]
    _local.stack.append(graph)
    try:
        yield
    finally:
        graph._leave()
        graph.control, graph.site, graph.devices = outer


@contextmanager
def outside() -> Iterator[None]:
    """Build nodes outside every control dependency and branch that is open."""
    with in_branches([]):
        yield


@contextmanager
def in_branches(branches: list[Branch]) -> Iterator[None]:
    """Build nodes in these of the branches that are open, and outside control dependencies."""
    graph = get_default_graph()
    outer = graph.control, graph.branches
    graph.control, graph.branches = [()], branches
    try:
        yield
    finally:
        graph.control, graph.branches = outer


def _check_nodes(control_inputs: Any, graph: Graph) -> list[Node]:
    if hasattr(control_inputs, "built_at"):
        control_inputs = [control_inputs]
    for value in control_inputs:
        if not hasattr(value, "built_at"):
            raise TypeError(
                f"control_dependencies: got {type(value).__name__}, expected nodes of a graph."
            )
        if value.graph is not graph:
            raise GraphError(
                f"control_dependencies: {value.name!r} (built at {value.location}) is of the graph "
                f"made at {value.graph.location}, expected one of the graph made at "
                f"{graph.location}, where nodes are being built. Build both in one graph."
            )
    return list(control_inputs)
