"""Tokens: a run of the token executor, operator by operator, with dead tokens, frames, iterations.

The graph is the lowered one, where a loop is a ring of Enter, Merge, Switch, NextIteration and
Exit. Constants are left out of the picture: they are written into the operators that use them.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np

from minitorch.arrays.library import Array
from minitorch.errors import ArgumentError
from minitorch.graph.core.fetches import find_node
from minitorch.graph.core.node import Constant, Node
from minitorch.graph.core.session import Session
from minitorch.graph.executors.tokens.loop_nodes import Enter
from minitorch.graph.executors.tokens.lower import lower
from minitorch.graph.executors.tokens.program import TokenEvent
from minitorch.show.asked import MOST, nodes_in
from minitorch.show.diagram import Boxed, Line, Paths, Wire, draw
from minitorch.show.numbers import brief, file_and_line, listing, plural
from minitorch.show.record import bring_variables
from minitorch.show.scene import ALWAYS, Canvas, Scene, Step, Travel, When, forever, phases

CONTROL = ("Switch", "Merge", "MergeIndex", "Enter", "Exit", "NextIteration", "LoopCond")
HINT = "#2 means in iteration 2. On the right every token of the run, a row an iteration."
LEGEND = (
    ("dot", "token, alive"),
    ("dot dead", "dead token: a value that was not sent"),
    ("box control", "operator of control flow"),
    ("box value", "has sent a value"),
    ("box dead", "has sent a dead token"),
)
LEDGER, SQUARE = 250.0, 14.0
NEAR, FAR = (8.0, 18.0), (16.0, 32.0)  # below a row's name, and from its squares to the next

Tokens = list[list[tuple[int, TokenEvent]]]
"""For each operator drawn, (position, token) of everything that it sent."""


def follow_tokens(
    fetches: object,
    feed_dict: Mapping[Node, object] | None = None,
    session: Session | None = None,
    *,
    title: str = "Tokens on the move",
) -> Scene:
    """Return a run of `fetches` by the token executor, to be stepped through.

    Args:
        feed_dict: as `Session.run` takes it.
        session: where variables have their values; it is not changed. Initial values unless given.
    Raises:
        GraphError: what `run` raises.
        ArgumentError: no nodes, or more operators than can be drawn.
    """
    leaves = nodes_in("follow_tokens", fetches)
    events: list[TokenEvent] = []
    own = Session(leaves[0].graph, executor="tokens", on_event=events.append)
    bring_variables(own, session)
    events.clear()
    results = own.run(leaves, feed_dict)
    keys = [k if isinstance(k, Node) else find_node(k, own.graph, "feed") for k in feed_dict or {}]
    shown = Shown(leaves, keys)
    if len(shown.nodes) > MOST:
        raise ArgumentError(
            f"follow_tokens: got a graph of {len(shown.nodes)} operators, expected at most "
            f"{MOST}. Fetch less of it."
        )
    shown_events = [event for event in events if event.node_name in shown.place]
    return _scene(shown, shown_events, title, _summary(shown_events, results))


# ── the picture ─────────────────────────────────────────────────────────────────────────────────


def _scene(shown: "Shown", events: Sequence[TokenEvent], title: str, summary: str) -> Scene:
    tokens: Tokens = [[] for _ in shown.nodes]
    for k, event in enumerate(events):
        tokens[shown.place[event.node_name]].append((k + 1, event))
    canvas = Canvas()
    wires = [
        Wire(source, i, _wire(tokens[source], tokens[i]))
        for i, sources in enumerate(shown.sources)
        for source in sources
    ]
    boxes = [_box(shown, i, tokens[i]) for i in range(len(shown.nodes))]
    drawn = draw(canvas, boxes, wires)
    bottom = _ledger(canvas, events, drawn.width + 10, drawn.height)
    steps = [Step("Before the run: no token is there.")]
    steps += [
        _step(shown, event, k, len(events), tokens, drawn.paths)
        for k, event in enumerate(events, 1)
    ]
    return Scene(
        title, HINT, "Tokens", summary, drawn.width + LEDGER + 20,
        max(drawn.height, bottom), tuple(canvas.marks), tuple(steps),
        len(steps) - 1, LEGEND,
    )  # fmt: skip


def _box(shown: "Shown", i: int, tokens: list[tuple[int, TokenEvent]]) -> Boxed:
    node = shown.nodes[i]
    op = node.op.name if node.op is not None else type(node).__name__
    constants = f" with {', '.join(shown.constants[i])}" if shown.constants[i] else ""
    head = op if op in CONTROL else node.name
    kind = _short(node.name) if op in CONTROL else op
    below = (("" if kind == head else kind) + constants).strip()
    if op == "Switch":
        below = f"if {bool(getattr(node.op, 'branch', True))}"
    lines = [Line(head, "bold"), Line(below, "small muted")]
    base = "box control" if op in CONTROL else "box"
    changes: list[tuple[int, str | None]] = [(0, f"{base} idle")]
    starts = [at for at, _ in tokens]
    for (at, event), later in zip(tokens, [*starts[1:], ALWAYS], strict=True):
        classes = "code muted" if event.dead else "code value"
        lines.append(Line(_token(event), ((at, later, classes),), 2))
        changes.append((at, "box dead" if event.dead else "box value"))
    tip = f"{node.name}, {op}, built at {file_and_line(node.location)}"
    return Boxed(i, tuple(lines), phases(changes), tuple(starts), tip, round=node.op is None)


def _short(name: str) -> str:
    """Return the last parts of a name, which tell it from its neighbours."""
    head, _, tail = name.rpartition("/")
    return head if tail in ("Enter", "Merge", "Exit", "Next", "LoopCond") else name


def _token(event: TokenEvent) -> str:
    value = "dead" if event.dead else brief(event.value, 22) if event.value is not None else "done"
    return f"{value} #{event.iteration}" if event.frame else value


def _wire(source: list[tuple[int, TokenEvent]], target: list[tuple[int, TokenEvent]]) -> When:
    """Light a wire in the step in which its token is taken."""
    changes: list[tuple[int, str | None]] = [(0, "wire")]
    for at, _ in target:
        token = last(source, at)
        if token is not None:
            changes += [(at, "wire dead" if token.dead else "wire value"), (at + 1, "wire")]
    return phases(sorted(dict(changes).items()))


# ── every token of the run, a row for each iteration ────────────────────────────────────────────


def _ledger(canvas: Canvas, events: Sequence[TokenEvent], x: float, room: float) -> float:
    """Add a square for each token, a row for each iteration; return where they end.

    Rows stand far from each other where so much room has them all.
    """
    y, per_line = 26.0, int((LEDGER - 20) // SQUARE)
    rows: dict[tuple[str, int], list[tuple[int, TokenEvent]]] = {}
    for k, event in enumerate(events):
        rows.setdefault((event.frame, event.iteration), []).append((k + 1, event))
    lines = sum(-(-len(row) // per_line) for row in rows.values())
    below, between = FAR if y + SQUARE * lines + sum(FAR) * len(rows) <= room else NEAR
    for (frame, iteration), row in sorted(rows.items(), key=itemgetter(0)):
        label = f"{frame}, iteration {iteration}" if frame else "outside all loops"
        canvas.text(x, y, label, "bold")
        y += below
        for n, (at, event) in enumerate(row):
            left, top = x + (n % per_line) * SQUARE, y + (n // per_line) * SQUARE
            kind = "box dead" if event.dead else "bar"
            tip = f"{event.node_name}: {_token(event)}"
            canvas.rect(left, top, SQUARE - 3, SQUARE - 3, forever(at, kind), rx=2, tip=tip)
            canvas.rect(left - 2, top - 2, SQUARE + 1, SQUARE + 1, ((at, at + 1, "ring"),), rx=3)
        y += SQUARE * -(-len(row) // per_line) + between
    return y + 14


# ── what of the lowered graph is drawn, and which tokens an operator took ──


class Shown:
    """What of the lowered graph is drawn: no constants, and no Switch that only carries control.

    Attributes:
        nodes: in order.
        place: their numbers, by name.
        sources: for each the numbers of the nodes whose tokens it takes.
        constants: for each the constants that it uses, by the place among its inputs.
    """

    def __init__(self, leaves: Sequence[Node], fed: Sequence[Node]) -> None:
        lowered = lower(leaves, set(fed))
        hidden = {node for node in lowered.nodes if _constant(node) is not None}
        used = {source for node in lowered.nodes for source in node.inputs}
        fetched = {*lowered.fetches}
        hidden |= {
            node
            for node in lowered.nodes
            if node not in used and node not in fetched and getattr(node.op, "name", "") == "Switch"
        }
        self.nodes = [node for node in lowered.nodes if node not in hidden]
        self.place = {node.name: i for i, node in enumerate(self.nodes)}
        at = {node: i for i, node in enumerate(self.nodes)}
        self.sources = [[at[s] for s in node.inputs if s in at] for node in self.nodes]
        self.constants = [
            [
                brief(constant.value, 10)
                for s in node.inputs
                if (constant := _constant(s)) is not None
            ]
            for node in self.nodes
        ]


def _constant(node: Node) -> Constant | None:
    """Return the constant that a node is, or that it brings into a loop for every iteration."""
    if isinstance(node.op, Enter) and node.op.constant:
        node = node.inputs[0]
    return node if isinstance(node, Constant) else None


def find_taken(shown: Shown, i: int, at: int, tokens: Tokens) -> list[tuple[int, TokenEvent]]:
    """Return (source, token) of what operator `i` took at a position.

    Of a Merge's tokens it is the one that counted.
    """
    sent = [(source, last(tokens[source], at)) for source in dict.fromkeys(shown.sources[i])]
    taken_tokens = [(source, token) for source, token in sent if token is not None]
    op = shown.nodes[i].op
    if op is not None and op.name == "Merge":
        return sorted(taken_tokens, key=lambda pair: (not pair[1].dead, pair[1].step))[-1:]
    return taken_tokens


def last(tokens: list[tuple[int, TokenEvent]], before: int) -> TokenEvent | None:
    """Return the last token sent before a position."""
    earlier = [event for at, event in tokens if at < before]
    return earlier[-1] if earlier else None


# ── the words ───────────────────────────────────────────────────────────────────────────────────


def _step(
    shown: Shown, event: TokenEvent, k: int, count: int, tokens: Tokens, paths: Paths
) -> Step:
    i = shown.place[event.node_name]
    took = find_taken(shown, i, k, tokens)
    where = f" in {event.frame}, iteration {event.iteration}" if event.frame else ""
    what = f"{_describe(event)} {_sends(event)}"
    text = f"Token {k} of {count}{where}: {what}. {_explain_rule(event, took)}"
    rows = [
        f"{_sends(token).replace('sends', 'takes', 1)} from {shown.nodes[source].name}"
        for source, token in took
        if token.dead or token.value is not None
    ]
    travels = [Travel(paths[source, i][-1], "dead" if token.dead else "") for source, token in took]
    return Step(text.strip(), tuple(rows), tuple(travels))


def _sends(event: TokenEvent) -> str:
    if event.dead:
        return "sends a dead token"
    return "is done" if event.value is None else f"sends {brief(event.value, 60)}"


def _describe(event: TokenEvent) -> str:
    name, op = event.node_name, event.op_name
    return name if op in name else f"{name} ({op})"


def _explain_rule(event: TokenEvent, took: Sequence[tuple[int, TokenEvent]]) -> str:
    """Return the rule at work, where there is one worth saying."""
    dead_input = any(token.dead for _, token in took)
    rules = {
        "Switch": "It goes one way only: dead on this side." if event.dead else "",
        "Merge": "Merge lives as soon as one input does." if not event.dead else
                 "Merge is dead because all its inputs are.",
        "Enter": "Enter brings a value into the loop's frame.",
        "Exit": "Exit hands the value out of the frame." if not event.dead else
                "Nothing leaves the loop yet.",
        "NextIteration": "NextIteration carries it into the next round." if not event.dead else
                         "A dead value ends here: there is no further round.",
        "LoopCond": "Another round." if event.value is not None and bool(np.all(event.value)) else
                    "No further round.",
    }  # fmt: skip
    if event.op_name in rules and not (event.op_name == "Switch" and dead_input):
        return rules[event.op_name]
    return "One input is dead, so nothing is computed." if event.dead and dead_input else ""


def _summary(events: Sequence[TokenEvent], results: Sequence[Array]) -> str:
    dead = sum(event.dead for event in events)
    loops = {event.frame for event in events if event.frame}
    rounds = {(event.frame, event.iteration) for event in events if event.frame}
    text = f"A run of {plural(len(events), 'token')}, {dead} of them dead"
    if loops:
        text += f", in {plural(len(loops), 'loop')} of {plural(len(rounds), 'iteration')} begun"
    values = [brief(value) for value in results if hasattr(value, "dtype")]
    gives = f" It gives {listing(values)}." if values else ""
    return f"{text}.{gives}"
