"""What the ranks of a pipeline send each other in a step, taken in whatever order it is needed.

Messages from one rank to another arrive in the order in which they were sent. Both know that order
from the schedule, so no message carries a name. A rank that fails sends an empty array in place of
each message that it has not sent, so that nobody waits for it.

May import: torch, communicator, schedules.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.parallel.pipeline.schedules import Action

FAILURE_NOTICE = torch.empty(
    0, dtype=torch.uint8
)  # activations and gradients are never whole numbers


class PeerFailed(Exception):
    """Another rank of the pipeline has failed, and will say how at the step's end."""


class Mail:
    """One rank's messages of a step; `expect` begins one.

    Args:
        comm: the pipeline's ranks.
        orders: what each of them does.
    """

    def __init__(self, comm: Communicator, orders: Sequence[Sequence[Action]]) -> None:
        self._comm = comm
        self._size = len(orders)
        self._last_stage = max(action.stage for order in orders for action in order)
        self._outgoing = [
            [a.gives for a in order if self.receiver(a) is not None] for order in orders
        ]
        self._received: dict[Action, Tensor] = {}
        self._expected: dict[int, deque[Action]] = {}
        self._receives: dict[int, Any] = {}  # one receive under way from each rank
        self._unsent: dict[int, int] = {}
        self._sends: list[Any] = []

    def receiver(self, action: Action) -> int | None:
        """Return the rank that waits for the result of an action, None where none does."""
        if action.kind == "F":
            return None if action.stage == self._last_stage else (action.stage + 1) % self._size
        return None if action.kind == "W" or not action.stage else (action.stage - 1) % self._size

    def expect(self) -> None:
        """Begin a step: ask for the first message of every rank that will send some."""
        me = self._comm.rank
        for of_last_step in (self._received, self._expected, self._receives, self._unsent):
            of_last_step.clear()
        self._sends.clear()
        for src, actions in enumerate(self._outgoing):
            expected = deque(action for action in actions if self.receiver(action) == me)
            if src != me and expected:
                self._expected[src] = expected
                self._receives[src] = self._comm.irecv(src)
        for action in self._outgoing[me]:
            dst = self.receiver(action)
            if dst is not None and dst != me:
                self._unsent[dst] = self._unsent.get(dst, 0) + 1

    def send(self, action: Action, tensor: Tensor) -> None:
        """Send the result of an action to the rank that waits for it."""
        dst = self.receiver(action)
        if dst == self._comm.rank:
            self._received[action.gives] = tensor
        elif dst is not None:
            self._sends.append(self._comm.isend(tensor, dst))
            self._unsent[dst] -= 1

    def take(self, action: Action, src: int) -> Tensor:
        """Return the result of an action of rank `src`; waits for it.

        Raises:
            PeerFailed: that rank has failed.
        """
        while action not in self._received:
            self._receive(src)
        return self._received.pop(action)

    def _receive(self, src: int) -> None:
        tensor: Tensor = self._receives.pop(src).wait()
        if tensor.dtype == FAILURE_NOTICE.dtype:
            raise PeerFailed
        self._received[self._expected[src].popleft()] = tensor
        if self._expected[src]:
            self._receives[src] = self._comm.irecv(src)

    def wait_for_sends(self) -> None:
        """Return once everything is on its way."""
        for send in self._sends:
            send.wait()

    def notify_failure(self) -> None:
        """Tell the ranks that wait for this one that it has failed; take what they still send.

        A notice goes in place of each message that has not been sent.
        """
        for dst, count in self._unsent.items():
            if count:
                self._comm.isend(FAILURE_NOTICE, dst).wait()
        for src in list(self._receives):
            with suppress(PeerFailed):
                while src in self._receives:
                    self._receive(src)
