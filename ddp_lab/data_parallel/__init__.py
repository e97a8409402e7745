"""Data-parallel training: DistributedDataParallel, and the steps that lead to it."""

from ddp_lab.data_parallel.bucketing import BucketPlan, Caps, ParamSpec, assign, reverse_plan
from ddp_lab.data_parallel.communicator_group import CommunicatorGroup
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.errors import (
    DataParallelError,
    ModelMismatch,
    ReadyTwice,
    UnusedParameters,
)
from ddp_lab.data_parallel.ladder import (
    LADDER,
    Bucketed,
    EachParameter,
    Hooked,
    OneFlat,
    Overlapped,
)

__all__ = [
    "LADDER",
    "BucketPlan",
    "Bucketed",
    "Caps",
    "CommunicatorGroup",
    "DataParallelError",
    "DistributedDataParallel",
    "EachParameter",
    "Hooked",
    "ModelMismatch",
    "OneFlat",
    "Overlapped",
    "ParamSpec",
    "ReadyTwice",
    "UnusedParameters",
    "assign",
    "reverse_plan",
]
