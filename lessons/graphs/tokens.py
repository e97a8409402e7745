"""Graphs with branches and loops, run by tokens, of which some are dead.

Switch and Merge, tags and frames are those of dataflow machines: Dennis 1974; Arvind & Culler
1986; Yu et al., "Dynamic Control Flow in Large-Scale Machine Learning", EuroSys 2018. What a token
becomes, which tag it has, and when a frame is over, `TokenRun` leaves to its subclass.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minitorch.arrays.library import Array, DTypeLike, Namespace
from minitorch.op import KeepsSpec, Spec
from minitorch.ops.methods import Methods

Tag = tuple[tuple[Any, int], ...]  # (loop, iteration), outermost loop first
Fire = Callable[[Any, list[Any]], Any]
MOST_FIRINGS = 50_000  # of a run; a loop that goes on for longer never ends


# nodes, as in lab 04


class Node(Methods):
    """A value that a run computes: its operator, its inputs, and what is known of it now."""

    def __init__(
        self,
        op: Any,
        inputs: Iterable[Any],
        shape: Sequence[int | None] = (),
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> None:
        self.op, self.inputs = op, tuple(inputs)
        self.name = name or (op.name if op else "node")
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def _apply(self, op: object, inputs: Sequence[object]) -> "Node":
        return record(op, inputs)

    def __bool__(self) -> bool:
        raise TypeError(f"{self.name} is a node: it is neither true nor false until it is run")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self.name} is a node: it cannot be gone through until it is run")

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape}>"


class Constant(Node):
    """A value that is fixed now."""

    def __init__(self, value: Any) -> None:
        self.value: Any = np.asarray(value)
        if self.value.dtype.kind in "fiu":
            self.value = self.value.astype(np.float32)
        super().__init__(None, (), self.value.shape, self.value.dtype, "const")


def as_node(value: object) -> Node:
    """Return a node as it is, and anything else as a constant."""
    return value if isinstance(value, Node) else Constant(value)


def record(op: Any, inputs: Iterable[object]) -> Node:
    """Return a node for `op` of `inputs`; an operator of constants is computed now."""
    nodes = [as_node(value) for value in inputs]
    if op.pure and all(isinstance(node, Constant) for node in nodes):
        return Constant(op.compute(np, *[node.value for node in nodes]))  # type: ignore[attr-defined]
    spec = op.infer(*[Spec(node.shape, node.dtype) for node in nodes])
    return Node(op, nodes, spec.shape, spec.dtype)


def placeholder(name: str, shape: Sequence[int | None] = ()) -> Node:
    """Return a node that each run is given a value for."""
    return Node(None, (), shape, name=name)


# operators for branches


class Dead:
    """The token for a value that was not sent."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()


class Switch(KeepsSpec):
    """Of (data, predicate): the data where the predicate is `side`, dead otherwise."""

    pure = False  # even of constants it is no constant

    def __init__(self, side: bool) -> None:
        self.side = side

    @property
    def name(self) -> str:
        """Return the operator's name with its side."""
        return f"Switch {self.side}"


class Merge(KeepsSpec):
    """Of its inputs: the one that is alive."""

    name, pure = "Merge", False


class Beside(KeepsSpec):
    """Of (value, witness): the value, if the witness is alive too."""

    name, pure = "beside", False

    def compute(self, xp: Namespace, value: Array, witness: object) -> Array:
        """Return the value."""
        return value

    def gradient(self, out_grad: Node, node: object) -> tuple[Node, None]:
        """Return the adjoint, for the value alone."""
        return out_grad, None


def beside(value: object, witness: Node) -> Node:
    """Return value, dead where the witness is dead."""
    return record(Beside(), [value, witness])


# operators for loops


class Border(KeepsSpec):
    """Base of the operators that change a token's tag."""

    pure = False

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    def compute(self, xp: Namespace, value: Array) -> Array:
        """Return the value."""
        return value


class Enter(Border):
    """Into iteration 0 of the loop."""


class NextIteration(Border):
    """Into the next iteration."""


class Exit(Border):
    """Out of the loop."""


_loops = iter(range(10**9))


def new_loop() -> str:
    """Return a name that no other loop has."""
    return f"loop {next(_loops)}"


def tied(values: Iterable[object], witness: Node | None = None) -> list[Node]:
    """Return nodes; a constant is alive wherever the witness is (default: the first other)."""
    nodes = [as_node(value) for value in values]
    moving = [node for node in nodes if not isinstance(node, Constant)]
    if witness is None:
        if not moving:
            return nodes
        witness = moving[0]
    return [beside(node, witness) if isinstance(node, Constant) else node for node in nodes]


# runs


def in_order(
    nodes: Iterable[Node], stop: Collection[Node] | Mapping[Node, object] = ()
) -> list[Node]:
    """Return all nodes behind these, inputs first; what is in `stop` has none behind it."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [(node, False) for node in nodes]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(source, False) for source in node.inputs if node not in stop]
    return order


def fire_in_order(
    fetches: Sequence[Node], feeds: Mapping[Node, object], fire: Fire
) -> dict[Node, object]:
    """Return {node: token} for all nodes behind the fetches; each fires once, inputs first."""
    tokens: dict[Node, Any] = {}
    for node in in_order(fetches, feeds):
        if node in feeds:
            tokens[node] = np.asarray(feeds[node], np.float32)
        elif isinstance(node, Constant):
            tokens[node] = node.value
        else:
            tokens[node] = fire(node.op, [tokens[source] for source in node.inputs])
    return tokens


class Frame:
    """One run of a loop.

    live: firings that are under way in it, in loops inside it too;
    enters: how many Enter operators the loop has, one for each variable;
    entered: how many of them have had their token, alive or dead.
    """

    def __init__(self, loop: Any, outside: Tag, enters: int) -> None:
        self.loop, self.outside, self.enters = loop, outside, enters
        self.live = self.entered = 0
        self.left: set[Node] = set()  # Exits that have let a live token out


class TokenRun:
    """One run of a graph by tokens. `events`: (node, tag, token) of every firing, in order.

    A firing is an operator with a tag whose tokens are all there.
    """

    def __init__(self, fetches: Sequence[Node], feeds: Mapping[Node, Any]) -> None:
        self.users: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
        self.arrived: dict[tuple[Node, Tag], dict[int, Any]] = defaultdict(dict)
        self.frames: dict[tuple[Tag, Any], Frame] = {}
        self.ready: deque[tuple[Node, Tag]] = deque()
        self.merged: set[tuple[Node, Tag]] = set()
        self.events: list[tuple[Node, Tag, Any]] = []
        self.values: dict[Node, Any] = {}
        nodes = in_order(fetches, feeds)
        for node in nodes:
            for place, source in enumerate(node.inputs if node not in feeds else ()):
                self.users[source].append((node, place))
        self.exits = [node for node in nodes if isinstance(node.op, Exit)]
        self.enters = Counter(node.op.loop for node in nodes if isinstance(node.op, Enter))
        for node in nodes:
            if node in feeds:
                self.send(node, (), np.asarray(feeds[node], np.float32))
            elif node.op and all(isinstance(source, Constant) for source in node.inputs):
                self.get_ready(node, ())
        while self.ready:
            self.step(*self.ready.popleft())
            if len(self.events) > MOST_FIRINGS:
                raise RuntimeError("50,000 operators have fired: does the loop ever end?")

    def fire(self, op: object, tokens: list[object]) -> Any:
        """Return the token that an operator sends."""
        raise NotImplementedError

    def tag_after(self, op: object, tag: Tag) -> Tag:
        """Return the tag of what an operator sends."""
        raise NotImplementedError

    def is_over(self, frame: Frame) -> bool:
        """Return whether a frame has come to its end."""
        raise NotImplementedError

    def send(self, node: Node, tag: Tag, token: object) -> None:
        """Hand a token to all users of a node."""
        if tag == ():
            self.values[node] = token
        for user, place in self.users[node]:
            self.arrive(user, tag, place, token)

    def arrive(self, node: Node, tag: Tag, place: int, token: object) -> None:
        """Note a token. Constants are always there, and are not waited for."""
        tokens = self.arrived[node, tag]
        tokens[place] = token
        if isinstance(node.op, Merge):
            go = token is not DEAD or len(tokens) == len(node.inputs)
            if not go or (node, tag) in self.merged:
                return
            self.merged.add((node, tag))
        elif len(tokens) < sum(not isinstance(source, Constant) for source in node.inputs):
            return
        self.get_ready(node, tag)

    def get_ready(self, node: Node, tag: Tag) -> None:
        """Put an operator into the queue, and count it in every frame that it is in."""
        self.ready.append((node, tag))
        for frame in self.frames_of(tag):
            frame.live += 1

    def frames_of(self, tag: Tag) -> list[Frame]:
        """Return the frames that a tag is in, innermost first."""
        return [self.frames[tag[:depth], tag[depth][0]] for depth in reversed(range(len(tag)))]

    def step(self, node: Node, tag: Tag) -> None:
        """Let one operator fire; then see whether that was the last thing in its frame."""
        arrived = self.arrived.pop((node, tag), {})
        tokens = [arrived.get(i, getattr(s, "value", DEAD)) for i, s in enumerate(node.inputs)]
        token = self.fire(node.op, tokens)
        self.events.append((node, tag, token))
        self.pass_on(node, tag, token)
        for frame in self.frames_of(tag):
            frame.live -= 1
            self.end_if_finished(frame)

    def pass_on(self, node: Node, tag: Tag, token: object) -> None:
        """Send a token on; across the border of a frame, only if it is alive."""
        op, dead = node.op, token is DEAD
        if isinstance(op, Enter):
            fresh = Frame(op.loop, tag, self.enters[op.loop])
            frame = self.frames.setdefault((tag, op.loop), fresh)
            frame.entered += 1
            if not dead:
                self.send(node, self.tag_after(op, tag), token)
            self.end_if_finished(frame)
        elif isinstance(op, Exit):
            frame = self.frames_of(tag)[0]
            if not dead and node not in frame.left:
                frame.left.add(node)
                self.send(node, self.tag_after(op, tag), token)
        elif not (dead and isinstance(op, NextIteration)):
            self.send(node, self.tag_after(op, tag), token)

    def end_if_finished(self, frame: Frame) -> None:
        """When a frame is over, send a dead token out of each Exit that let nothing out."""
        if self.is_over(frame):
            for node in self.exits:
                if node.op.loop == frame.loop and node not in frame.left:
                    frame.left.add(node)
                    self.events.append((node, frame.outside, DEAD))
                    self.send(node, frame.outside, DEAD)


def fetch_tokens(executor: type[TokenRun], fetches: Sequence[Node], feeds: Any = ()) -> list[Any]:
    """Return the tokens of the fetches."""
    values = executor(fetches, dict(feeds)).values
    values |= {node: node.value for node in fetches if isinstance(node, Constant)}
    lost = [node for node in fetches if node not in values]
    if lost:
        raise ValueError(f"no token ever came to {lost}: does a body use a node from outside?")
    return [values[node] for node in fetches]


# gradients


def gradients(
    outputs: Sequence[Node], arriving: Sequence[object], inputs: Sequence[Node]
) -> list[Node]:
    """Return nodes for the gradients by `inputs`, given the adjoints of `outputs`.

    It looks no further than `inputs`, and gives zeros where nothing depends on one.
    """
    adjoint: dict[Node, Any] = {}
    ends = set(inputs)

    def add(node: Node, partial: object) -> None:
        adjoint[node] = adjoint[node] + partial if node in adjoint else partial

    for output, grad in zip(outputs, arriving, strict=True):
        add(output, as_node(grad))
    for node in reversed(in_order(outputs, ends)):
        if node.op is None or node not in adjoint or node in ends:
            continue
        partials = node.op.gradient(adjoint[node], node)
        partials = partials if isinstance(partials, tuple | list) else (partials,)
        for source, partial in zip(node.inputs, partials, strict=True):
            if partial is not None and not isinstance(source, Constant):
                add(source, partial)
    return [adjoint.get(node, node * 0.0) for node in inputs]
