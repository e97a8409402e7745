"""What the ranks of a placed run must agree on before it: the graph.

Every rank cuts the graph by itself, so each must have the same one. Two programs that differ in a
line would else exchange values of one shape and different meaning. So the first time that fetches
are run with these feeds, rank 0 sends a number for every node; each rank compares them with its
own, and all raise the same error if one of them differs.

Names and lines may differ, as may seeds and arrays that only one rank reads: weights that NumPy
drew without a seed, for a variable that lives on one rank, do no harm. A single number is a choice,
such as a learning rate, and must be the same.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import GraphError
from ...op import Op
from ..control.while_op import While
from ..core.node import Constant, Node
from ..core.order import schedule
from ..core.variables import Variable
from .send_recv import Ranks, another_run

MAGIC = 0x67726170685F6964  # "graph_id": no message of values begins like this
WANTED = "what it is about to run"
SAME = "the same"
Prints = npt.NDArray[np.int64]


def check_same_graph(
    ranks: Ranks,
    order: Sequence[Node],
    leaves: Sequence[Node],
    feeds: Sequence[Node],
    placed: Mapping[Node, int],
) -> int:
    """Return the number of this run's plan; raise on all ranks if one is about to run another.

    Args:
        order: the nodes of the run, inputs first.
        leaves, feeds: what is fetched and what is fed.
        placed: the rank of every node that is not on all of them.
    Raises:
        GraphError: names the first node that differs, with both lines; or a rank is in another
            run.
    """
    if ranks.size == 1:
        return 0
    prints = Fingerprints(order, leaves, feeds, placed)
    number = _hash(prints.numbers.tobytes())
    if ranks.rank != 0:
        first = _receive(ranks, 0, np.int64)
        if first[:1] != MAGIC:
            raise another_run(0, WANTED, first)
        ranks.send(_letters(prints.compare(first)), 0)
        message = _text(_receive(ranks, 0, np.uint8))
    else:
        others = range(1, ranks.size)
        for rank in others:
            ranks.send(prints.numbers, rank)
        answers = {rank: _text(_receive(ranks, rank, np.uint8)) for rank in others}
        message = prints.judge(answers)
        for rank in others:
            ranks.send(_letters(message), rank)
    if message != SAME:
        raise GraphError(message)
    return number


def _receive(ranks: Ranks, src: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the next array of `src`, which must be one of those that are sent here."""
    array = np.asarray(ranks.recv(src))
    if array.dtype != dtype or array.ndim != 1:
        raise another_run(src, WANTED, array)
    return array


def _letters(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _text(letters: npt.NDArray[np.uint8]) -> str:
    return letters.tobytes().decode()


class Fingerprints:
    """A number for every node of a run, such that equal graphs have equal numbers.

    Attributes:
        numbers: `MAGIC`, one for each node in the order in which they run, one for the fetches.
    """

    def __init__(
        self,
        order: Sequence[Node],
        leaves: Sequence[Node],
        feeds: Sequence[Node],
        placed: Mapping[Node, int],
    ) -> None:
        self._placed, self._order = placed, order
        self._leaves, self._feeds = leaves, set(feeds)
        self._number: dict[Node, int] = {}
        shared = _read_on_several(order, leaves, placed)
        for node in order:
            self._add(node, node in shared)
        places = tuple(self._of(node) for node in (*leaves, *feeds))
        numbers = [MAGIC, *(self._number[node] for node in order), _hash((places, len(leaves)))]
        self.numbers = np.array(numbers, np.int64)

    def compare(self, first: Prints) -> str:
        """Return `SAME`, or the number of the first node that rank 0 has otherwise, and words."""
        if np.array_equal(first, self.numbers):
            return SAME
        n = min(len(first), len(self.numbers))
        unequal = np.flatnonzero(first[:n] != self.numbers[:n])
        at = int(unequal[0] if len(unequal) else n) - 1
        return f"{at} {self.about(at)}"

    def judge(self, answers: Mapping[int, str]) -> str:
        """Return `SAME`, or what rank 0 has to say of the first rank that has another graph."""
        rank = next((rank for rank, answer in answers.items() if answer != SAME), None)
        if rank is None:
            return SAME
        at, _, theirs = answers[rank].partition(" ")
        return (
            f"run: rank {rank} has another graph than rank 0: it has {theirs} where rank 0 has "
            f"{self.about(int(at))}. Build the same graph on every rank, with the same devices, "
            "and call run with the same fetches and feeds; ranks that are threads of one process "
            "need a graph each, `with Graph().as_default():`."
        )

    def about(self, i: int) -> str:
        """Return a description of node `i`."""
        if i >= len(self._order):
            return f"{len(self._leaves)} fetches and {len(self._feeds)} feeds of these nodes"
        node = self._order[i]
        kind = type(node).__name__ if node.op is None else node.op.name
        if isinstance(node, Constant) and node.value.ndim == 0:
            kind = f"{kind} {node.value}"
        where = f" on rank {self._placed[node]}" if node in self._placed else ""
        return f"{kind} of {node.dtype} {node.shape}{where} ({node.name!r}, {node.location})"

    def _add(self, node: Node, by_value: bool) -> None:
        """Number a node.

        Args:
            by_value: whether a constant counts with its value, as a single number always does.
        """
        facts: list[object] = [len(self._number), type(node).__name__, node.dtype.name, node.shape]
        facts += [self._placed.get(node), node in self._feeds]
        if isinstance(node, Variable):
            facts.append(node.name)
        if isinstance(node, Constant) and (by_value or node.value.ndim == 0):
            facts.append(self._of(node.value))
        if node not in self._feeds:
            facts += [self._of(source) for source in (*node.inputs, *node.control_inputs)]
            facts.append(len(node.inputs))
            if isinstance(node.op, While):
                facts += self._inside(node.op)
            else:
                facts.append(self._of(node.op))
        self._number[node] = _hash(tuple(facts))

    def _inside(self, loop: While) -> list[int]:
        """Number what is inside a loop; return what the loop is."""
        for node in loop.given:
            self._add(node, by_value=False)
        ends = (loop.test, *loop.body)
        for node in schedule(ends, loop.placeholders):
            if node not in self._number:
                self._add(node, by_value=False)
        return [loop.parallel_iterations, *(self._number[node] for node in ends)]

    def _of(self, value: object) -> object:
        """Return what stands for a value: the same on every rank, whatever its address."""
        if isinstance(value, Node):
            if value not in self._number:  # a parameter of an operator, such as a variable
                self._add(value, by_value=False)
            return self._number[value]
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | slice):
            return repr(value)
        if isinstance(value, list | tuple):
            return tuple(self._of(item) for item in value)
        if isinstance(value, dict):
            return tuple(sorted((str(key), self._of(item)) for key, item in value.items()))
        if isinstance(value, np.ndarray | np.generic):
            data = None if value.dtype.hasobject else value.tobytes()
            return (value.dtype.str, value.shape, _hash(data))
        if isinstance(value, np.dtype):
            return value.str
        if isinstance(value, Op):
            # a seed says nothing of the operator's meaning to other ranks
            own = value.attributes().items()
            mine = {k: v for k, v in own if k != "seed" and not k.startswith("_")}
            return (type(value).__name__, value.name, self._of(mine))
        if is_dataclass(value) and not isinstance(value, type):
            return self._of({f.name: getattr(value, f.name) for f in fields(value)})
        return type(value).__name__


def _read_on_several(
    order: Sequence[Node], leaves: Collection[Node], placed: Mapping[Node, int]
) -> set[Node]:
    """Return the constants that must be the same on all ranks, as more than one reads them."""
    readers: dict[Node, set[int | None]] = {}
    for node in order:
        for source in node.inputs:
            if isinstance(source, Constant):
                readers.setdefault(source, set()).add(placed.get(node))
    several = {node for node, ranks in readers.items() if len(ranks) > 1 or None in ranks}
    return several.union(node for node in leaves if isinstance(node, Constant))


def _hash(value: object) -> int:
    """Return 63 bits of a value whose `repr` says all about it."""
    digest = hashlib.blake2b(repr(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
