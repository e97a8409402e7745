"""Who uses what: a run, or a loop's condition or round, as all ranks see it before it is cut.

Every rank works this out for the whole graph and finds the same, so all agree on what crosses,
from where to where and in which order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..control.liveness import Fate, deadly, die_first, endangered, fates
from ..control.loop_stacks import Empty, History, Opaque
from ..control.while_op import While, loops_used
from ..core.node import Constant, Node, Placeholder
from ..core.order import schedule, sources
from ..core.variables import NoOp


@dataclass(frozen=True)
class Loop:
    """A loop of a run.

    Attributes:
        node: what runs it.
        takers: the nodes that take a value or a list out of its outcome.
        users: the nodes that use the outcome in other ways, as a whole; to wait is not to use.
    """

    node: Node
    takers: tuple[Node, ...]
    users: tuple[Node, ...]

    @property
    def op(self) -> While:
        """The operator, with condition and body."""
        loop: While = self.node.op
        return loop

    @property
    def given(self) -> frozenset[Node]:
        """The placeholders that condition and body stand on."""
        return self.op.placeholders

    @cached_property
    def kept(self) -> dict[int, Node]:
        """The lists that are asked for, by number, each with the first node that takes it."""
        found: dict[int, Node] = {}
        for taker in self.takers:
            if isinstance(taker.op, History):
                found.setdefault(taker.op.place, taker)
        return found

    @cached_property
    def test(self) -> list[Node]:
        """The nodes of the condition, in the order in which they run."""
        return schedule([self.op.test], self.given)

    @cached_property
    def body(self) -> list[Node]:
        """The nodes of a round, in the order in which they run."""
        return schedule([*self.op.body, *(self.op.saved[k] for k in sorted(self.kept))], self.given)

    @property
    def inner(self) -> list[Node]:
        """All nodes inside, but for those inside other loops."""
        return list(dict.fromkeys((*self.test, *self.body)))

    def stays(self, i: int) -> bool:
        """Tell whether a variable is in every round what it was at first."""
        return self.op.body[i] is self.op.variables[i]

    @cached_property
    def staying(self) -> frozenset[Node]:
        """The variables that stay what they are, and what enters from outside."""
        numbered = enumerate(self.op.variables)
        return frozenset((*self.op.entrances, *(v for i, v in numbered if self.stays(i))))

    def roams(self, node: Node) -> bool:
        """Tell whether a value inside is of no place: a constant, or an array that stays."""
        if isinstance(node, Opaque):
            return isinstance(node.op, Empty)
        return isinstance(node, Constant) or node in self.staying


def loops_in(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, Loop]:
    """Return the loops that a run meets outside other loops."""
    used = loops_used(order, fed)
    return {node: Loop(node, tuple(takers), tuple(users)) for node, (takers, users) in used.items()}


def everywhere(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether every device has the value of `node`, or can have it for nothing."""
    return node in fed or isinstance(node, Constant | Placeholder) or isinstance(node.op, Empty)


Placed = Mapping[Node, int]
"""The rank of every node that is on one; a loop that is cut is not in it, but its inside is."""


@dataclass
class Part:
    """What one rank runs.

    Attributes:
        order: its nodes, Send and Recv among them, in the order in which they run.
        here: what stands for a node of the whole graph on this rank.
        sends, recvs: how many values it sends and receives in a run, but for those in loops.
    """

    order: list[Node] = field(default_factory=list)
    here: dict[Node, Node] = field(default_factory=dict)
    sends: int = 0
    recvs: int = 0


class Level:
    """A graph that is run as one.

    Args:
        order: its nodes, in the order in which they run.
        given: what it is given: the feeds of a run, or the placeholders of a loop.
        placed: the ranks of the whole run's nodes, those inside loops that are cut included.

    Attributes:
        mortal: the nodes that can be dead.
        loops: the loops that are cut.
        ranks: the ranks that compute something of it.
    """

    def __init__(
        self,
        order: Sequence[Node],
        given: Collection[Node],
        placed: Placed,
    ) -> None:
        self.order, self.given, self.placed = order, given, placed
        self.mortal = endangered(order, given)
        found = {n: loop for n, loop in loops_in(order, given).items() if n not in placed}
        self.loops = {node: LoopCut(loop, placed) for node, loop in found.items()}
        self.ranks = {placed[n] for n in order if n in placed and n not in given}
        self.ranks.update(rank for cut in self.loops.values() for rank in cut.ranks)
        self._read: dict[Node, set[int]] = {}
        self._awaited: dict[Node, set[int]] = {}
        self._there: Mapping[Node, Collection[int]] = {}

    def end_in(
        self,
        ends: Iterable[tuple[Node, Collection[int]]],
        there: Mapping[Node, Collection[int]] | None = None,
    ) -> None:
        """Take note of who uses what.

        Args:
            ends: the results, each with the ranks that need it.
            there: for what is given, ranks that have it besides that of `placed`.
        """
        self._there = there or {}
        for node, ranks in ends:
            kind = self._awaited if isinstance(node.op, NoOp) else self._read
            kind.setdefault(node, set()).update(ranks)
        for node in reversed(self.order):
            if node in self.loops:
                self._enter(node, self.loops[node])
            elif node not in self.given:
                at = {self.placed[node]} if node in self.placed else self.users(node)
                waits = () if node.op is None else self.waits(node)
                self._note(sources(node, self.given), waits, at)

    def users(self, node: Node) -> set[int]:
        """Return the ranks on which something waits for `node`."""
        return self.readers(node) | self._awaited.get(node, set())

    def readers(self, node: Node) -> set[int]:
        """Return the ranks on which something reads the value of `node`."""
        return self._read.get(node, set())

    def has(self, node: Node, rank: int) -> bool:
        """Tell whether a rank has the value of `node` without being sent it."""
        home = self.placed.get(node)
        if home is None:
            return rank in self.users(node)
        return rank == home or (rank in self._there.get(node, ()) and rank in self.readers(node))

    def targets(self, node: Node) -> list[int]:
        """Return the ranks to which a value is sent once it is there."""
        if node not in self.placed:
            return []
        wanted = self.readers(node) if node in self.given else self.users(node)
        return sorted(rank for rank in wanted if not self.has(node, rank))

    def waits(self, node: Node) -> list[Node]:
        """Return what a node waits for, but for what is there from the start."""
        return [n for n in node.control_inputs if n not in self.given]

    def decisive(self, node: Node) -> list[Node]:
        """Return what a loop waits for, and enough of what it dies of to know that it is dead."""
        chosen = dict.fromkeys(self.waits(node))
        for source in deadly(node):
            if source in self.mortal and not die_first(chosen, source, self._fates):
                chosen[source] = None
        return list(chosen)

    @cached_property
    def _fates(self) -> dict[Node, Fate]:
        return fates(self.order, self.given)

    def _enter(self, node: Node, cut: LoopCut) -> None:
        for j, source in enumerate(node.inputs):
            self._note((source,), (), cut.readers(j))
        self._note((), self.decisive(node), {cut.owner})

    def _note(self, read: Iterable[Node], awaited: Iterable[Node], at: set[int]) -> None:
        for source in read:
            self._read.setdefault(source, set()).update(at)
        for source in awaited:
            self._awaited.setdefault(source, set()).update(at)


class LoopCut:
    """A loop that runs on several ranks: a loop on each, and who does what.

    Attributes:
        homes: the rank of each variable, by number, but for those that stay what they are.
        stays: for each variable that stays what it is, the rank on which it is taken out, if any.
        pasts: the rank of each list that is asked for, by number.
        ranks: those that take part.
        owner: the one that knows first whether there is another round.
        test, body: the condition and a round.
    """

    def __init__(self, loop: Loop, placed: Placed) -> None:
        self.loop, op = loop, loop.op
        numbers = range(len(op.variables))
        self.homes = {i: placed[op.variables[i]] for i in numbers if not loop.stays(i)}
        out = {t.op.slot[1]: placed[t] for t in loop.takers if t.op.slot[0] == "out"}
        self.stays = {i: out.get(i) for i in numbers if loop.stays(i)}
        self.pasts = {k: placed[taker] for k, taker in loop.kept.items()}
        self.test = Level(loop.test, loop.given, placed)
        ends = [(op.body[i], (home,)) for i, home in self.homes.items()]
        ends += [(op.saved[k], (home,)) for k, home in self.pasts.items()]
        own = {*self.homes.values(), *self.pasts.values()}
        own.update(rank for rank in self.stays.values() if rank is not None)
        self.body = Level(loop.body, loop.given, placed)
        self.ranks = sorted(own | self.test.ranks | self.body.ranks)
        self.owner = placed.get(op.test, self.ranks[0])
        self.test.end_in([(op.test, self.ranks)])
        self.body.end_in(ends, {v: self.test.readers(v) for v in op.variables})

    def readers(self, j: int) -> set[int]:
        """Return the ranks that need input `j` of the loop before it begins."""
        if j in self.homes:
            return {self.homes[j]}
        node = self.loop.op.given[j]
        out = self.stays.get(j)
        own = set() if out is None else {out}
        return self.test.readers(node) | self.body.readers(node) | own

    def carried(self, rank: int) -> list[Node]:
        """Return the variables that a rank receives for the condition and has in the round too."""
        op = self.loop.op
        at_home = {op.variables[i] for i, home in self.homes.items() if home == rank}
        return [
            variable
            for variable in op.variables
            if variable not in at_home | self.loop.staying
            and rank in self.test.readers(variable)
            and rank in self.body.readers(variable)
        ]


def check_lists(level: Level) -> None:
    """Raise if a list, or what a loop hands on as a whole, would have to be sent.

    Raises:
        GraphError: names it.
    """
    for node in level.order:
        if isinstance(node, Opaque) and level.readers(node).intersection(level.targets(node)):
            raise node.error(
                f"place: {node.name!r} is a loop or a list and cannot be sent. Put what uses it on "
                "one device."
            )
    for cut in level.loops.values():
        check_lists(cut.test)
        check_lists(cut.body)
