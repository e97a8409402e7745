"""The communicator: messages, collectives by name, handles."""

from ddp_lab.communicator.communicator import Communicator as Communicator
