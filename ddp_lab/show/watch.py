"""Run a function on a few ranks and keep every message with its contents, for the player.

For small arrays only: ranks are threads, and each array that travels is copied once more.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.show.story import Story, tell
from ddp_lab.transport.base import Transport, Work
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.record import Log, Message, Recorder, merge


@dataclass(frozen=True)
class Seen(Message):
    """A message and a copy of the array that travelled."""

    values: NDArray[Any]


@dataclass(frozen=True)
class Recording:
    """What each rank was given and returned, and every message between them."""

    inputs: list[NDArray[Any]]
    results: list[Any]
    messages: list[Seen]
    timed: bool = False  # whether messages went over a link, so that their times mean something

    def story(self, title: str = "A recorded run") -> Story:
        """Return the run in rounds, each message explained as a partial sum of the inputs."""
        return tell(self.messages, len(self.inputs), self.inputs, title, self.timed)


class Watcher(Recorder):
    """A recorder that keeps the arrays too."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.values: list[NDArray[Any]] = []

    def isend(
        self, array: NDArray[Any], dst: int, *, channel: int = 0, header: bytes = b""
    ) -> Work:
        self.values.append(array.copy())
        return super().isend(array, dst, channel=channel, header=header)


def watch(
    fn: Callable[..., Any],
    inputs: Sequence[NDArray[Any]],
    *args: Any,
    timeout_s: float = 20.0,
    hosts: int = 1,
    link: Link | None = None,
) -> Recording:
    """Return what `fn(comm, inputs[rank], *args)` returned on each rank, and what it sent.

    Each rank gets a copy of its input, so that a function which works in place spoils nothing.
    With `hosts` and a `link` between them, as `launch` takes them, the player says what time it is.

    Raises:
        RankFailed: `fn` raised on a rank, or the ranks wait for each other for ever.
    """
    from ddp_lab.launch.launcher import launch

    arrays = [np.array(x) for x in inputs]

    def body(comm: Communicator) -> tuple[Any, Log, list[NDArray[Any]]]:
        watcher = Watcher(comm._transport)
        result = fn(Communicator(watcher), arrays[comm.rank].copy(), *args)
        return result, watcher.log, watcher.values

    where: Any = {"hosts": hosts, "link": link}
    ends = launch(body, len(arrays), transport="threads", timeout_s=timeout_s, **where)
    values = [iter(contents) for _, _, contents in ends]
    # Within one sender, `merge` keeps the order of sending.
    messages = [Seen(**asdict(m), values=next(values[m.src])) for m in merge([e[1] for e in ends])]
    return Recording(arrays, [result for result, _, _ in ends], messages, link is not None)
