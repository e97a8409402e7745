"""What the ranks of a pipeline send each other in a step, taken in whatever order it is needed.

Messages from one rank to another arrive in the order in which they were sent, which the schedule
tells; so none carries a name. A rank that fails sends an empty array in place of what it owes,
so that nobody waits for it.

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

NOTICE = torch.empty(0, dtype=torch.uint8)  # activations and gradients are never whole numbers


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
        self._sent = [[a.gives for a in order if self.receiver(a) is not None] for order in orders]
        self._here: dict[Action, Tensor] = {}
        self._due: dict[int, deque[Action]] = {}
        self._coming: dict[int, Any] = {}  # one receive under way from each rank
        self._owed: dict[int, int] = {}
        self._sends: list[Any] = []

    def receiver(self, action: Action) -> int | None:
        """Return the rank that waits for what an action gives, None where none does."""
        if action.kind == "F":
            return None if action.stage == self._last_stage else (action.stage + 1) % self._size
        return None if action.kind == "W" or not action.stage else (action.stage - 1) % self._size

    def expect(self) -> None:
        """Begin a step: ask for the first message of every rank that will send some."""
        me = self._comm.rank
        for kept in (self._here, self._due, self._coming, self._owed):
            kept.clear()
        self._sends.clear()
        for src, given in enumerate(self._sent):
            due = deque(action for action in given if self.receiver(action) == me)
            if src != me and due:
                self._due[src] = due
                self._coming[src] = self._comm.irecv(src)
        for action in self._sent[me]:
            dst = self.receiver(action)
            if dst is not None and dst != me:
                self._owed[dst] = self._owed.get(dst, 0) + 1

    def send(self, action: Action, tensor: Tensor) -> None:
        """Give what an action gave to the rank that waits for it."""
        dst = self.receiver(action)
        if dst == self._comm.rank:
            self._here[action.gives] = tensor
        elif dst is not None:
            self._sends.append(self._comm.isend(tensor, dst))
            self._owed[dst] -= 1

    def take(self, given: Action, giver: int) -> Tensor:
        """Return what rank `giver` gave by an action.

        Raises:
            PeerFailed: that rank has failed.
        """
        while given not in self._here:
            self._receive(giver)
        return self._here.pop(given)

    def _receive(self, src: int) -> None:
        tensor: Tensor = self._coming.pop(src).wait()
        if tensor.dtype == NOTICE.dtype:
            raise PeerFailed
        self._here[self._due[src].popleft()] = tensor
        if self._due[src]:
            self._coming[src] = self._comm.irecv(src)

    def sent(self) -> None:
        """Return once everything is on its way."""
        for send in self._sends:
            send.wait()

    def excuse(self) -> None:
        """Send a notice in place of all that is owed, and take what still comes."""
        for dst, left in self._owed.items():
            if left:
                self._comm.isend(NOTICE, dst).wait()
        for src in list(self._coming):
            with suppress(PeerFailed):
                while src in self._coming:
                    self._receive(src)
