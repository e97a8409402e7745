"""What carries a value from rank to rank: the group of ranks, Send, and Recv.

Between two ranks values arrive in the order in which they were sent, which is all the addressing
that is needed. A value that can be dead travels behind a flag: a dead token crosses as the flag
alone.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...arrays.library import Array, as_dtype
from ...errors import GraphError
from ...op import FixedSpec, Spec
from ..control.loop_stacks import DEAD
from ..core.node import Node
from ..core.variables import State, StateOp
from ..shapes.static import agree


class Ranks(Protocol):
    """What placement asks of a group of ranks; a `ddp_lab` communicator is one."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def send(self, x: object, dst: int) -> None:
        """Send an array to rank `dst`."""

    def recv(self, src: int) -> Array:
        """Return the next array from rank `src`, in the order in which it sent them."""


@dataclass(frozen=True)
class Wire:
    """How a value crosses: behind a flag if it can be dead, as a flag alone if nobody reads it."""

    mortal: bool
    carries: bool

    @property
    def flagged(self) -> bool:
        """Whether a flag is sent: 1 for alive."""
        return self.mortal or not self.carries


FLAG = Spec((1,), as_dtype("uint8"))


OPENS = 0x6F70656E735F7275  # "opens_ru": begins what a run sends first; no values begin like this


class Lines:
    """The messages of one plan: what a run sends first to a rank says which plan it runs.

    So a rank that runs another plan than its partner is told, though the values that they exchange
    may be of one shape.

    Args:
        number: of the plan, the same on all ranks.
        what: words for what is fetched.
    """

    def __init__(self, ranks: Ranks, number: int, what: str) -> None:
        self.rank, self.size = ranks.rank, ranks.size
        self._ranks, self._what = ranks, what
        self._opening = np.array([OPENS, number])
        self._sent_to: set[int] = set()
        self._heard_from: set[int] = set()

    def begin(self) -> None:
        """Begin a run."""
        self._sent_to.clear()
        self._heard_from.clear()

    def send(self, x: object, dst: int) -> None:
        """Send an array to rank `dst`."""
        if dst not in self._sent_to:
            self._sent_to.add(dst)
            self._ranks.send(self._opening, dst)
        self._ranks.send(x, dst)

    def recv(self, src: int) -> Array:
        """Return the next array from rank `src`.

        Raises:
            GraphError: it belongs to a run of another plan.
        """
        if src not in self._heard_from:
            self._heard_from.add(src)
            opening = np.asarray(self._ranks.recv(src))
            if not np.array_equal(opening, self._opening):
                raise another_run(src, f"the first value of a run of {self._what}", opening)
        return self._ranks.recv(src)


def another_run(src: int, wanted: str, got: Array) -> GraphError:
    """Return the error of a rank that received what belongs to another run than its own."""
    opens = got.dtype == np.int64 and got.shape == (2,) and got[0] == OPENS
    received = "the first value of another one" if opens else f"{got.dtype} {got.shape}"
    return GraphError(
        f"run: rank {src} is in another run: waited for {wanted} from it, got {received}. "
        "Make the same calls of run in the same order on every rank."
    )


class Send(FixedSpec, StateOp):
    """Send the input to another rank, dead or alive; gives nothing."""

    dtype = as_dtype(bool)
    fires_on_dead = (0,)

    def __init__(self, ranks: Ranks, dst: int, wire: Wire) -> None:
        self.ranks, self.dst, self.wire = ranks, dst, wire

    def run(self, state: State, *arrays: Any) -> Any:
        """Send the flag, if there is one, then the value, if it is alive and read."""
        (value,) = arrays
        if self.wire.flagged:
            self.ranks.send(np.array([value is not DEAD], np.uint8), self.dst)
        if self.wire.carries and value is not DEAD:
            self.ranks.send(np.asarray(value), self.dst)
        return None


class Recv(FixedSpec, StateOp):
    """The value that another rank sends at this point of the order; dead if it says so."""

    def __init__(self, ranks: Ranks, src: int, wire: Wire, like: Node) -> None:
        self.ranks, self.src, self.wire = ranks, src, wire
        self.may_kill = wire.mortal
        self.shape, self.dtype = like.shape, like.dtype

    def run(self, state: State, *arrays: Array) -> Any:
        if self.wire.flagged and not self._check_received(self.ranks.recv(self.src), FLAG)[0]:
            return DEAD
        return (
            self._check_received(self.ranks.recv(self.src), self.infer())
            if self.wire.carries
            else None
        )

    def _check_received(self, value: Array, want: Spec) -> Array:
        """Return what was received, if it is of the kind that is sent here."""
        if value.dtype != want.dtype or not agree(value.shape, want.shape):
            raise another_run(self.src, f"{want.dtype} {want.shape}", value)
        return value
