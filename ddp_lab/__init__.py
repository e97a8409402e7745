"""Messages, collectives, and data-parallel training."""

from ddp_lab.collectives.registry import algorithms, register_algorithm
from ddp_lab.communicator import Communicator
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.errors import (
    DdpLabError,
    InvalidArgument,
    Mismatch,
    OutOfSharedMemory,
    RankFailed,
    RankLost,
    RankTimeout,
    UnknownAlgorithm,
)
from ddp_lab.launch import launch

__all__ = [
    "Communicator",
    "DdpLabError",
    "DistributedDataParallel",
    "InvalidArgument",
    "Mismatch",
    "OutOfSharedMemory",
    "RankFailed",
    "RankLost",
    "RankTimeout",
    "UnknownAlgorithm",
    "algorithms",
    "launch",
    "register_algorithm",
]
