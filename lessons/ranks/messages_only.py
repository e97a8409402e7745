"""A communicator for answers that are collectives themselves: messages, and nothing made of them.

Imports NumPy through ddp_lab, and of that the lower half of its communicator.
"""

from typing import NoReturn

from ddp_lab.communicator.point_to_point import Messenger
from ddp_lab.transport.base import Transport

MESSAGES = ("send", "isend", "recv", "irecv", "sendrecv", "empty")


class MessagesOnly:
    """What a `Communicator` has for messages; its collectives, and what these call, are missing."""

    def __init__(self, transport: Transport) -> None:
        messenger = Messenger(transport)
        self.rank, self.size = messenger.rank, messenger.size
        for name in MESSAGES:  # bound methods, so that call sites are the answer's own
            setattr(self, name, getattr(messenger, name))

    def __repr__(self) -> str:
        return f"MessagesOnly(rank={self.rank}, size={self.size})"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"comm.{name}: not there where collectives are what you write: expected "
            f"{', '.join(MESSAGES)}, rank or size. Make it of messages."
        )
