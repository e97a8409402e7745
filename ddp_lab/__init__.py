"""Messages, collectives, and data-parallel training."""

from ddp_lab.collectives.registry import algorithms, register_algorithm
from ddp_lab.communicator import Communicator
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.errors import (
    DdpLabError,
    Deadlock,
    InvalidArgument,
    Mismatch,
    OutOfSharedMemory,
    RankFailed,
    RankLost,
    RankTimeout,
    UnknownAlgorithm,
)
from ddp_lab.launch import launch
from ddp_lab.world import init

__all__ = [
    "Communicator",
    "DdpLabError",
    "Deadlock",
    "DistributedDataParallel",
    "InvalidArgument",
    "Mismatch",
    "OutOfSharedMemory",
    "RankFailed",
    "RankLost",
    "RankTimeout",
    "UnknownAlgorithm",
    "algorithms",
    "init",
    "launch",
    "register_algorithm",
]
