"""Data-parallel training: DistributedDataParallel, and the steps that lead to it."""

from ddp_lab.data_parallel.bucketing import BucketPlan, Caps, ParamSpec, assign, reverse_plan
from ddp_lab.data_parallel.checkpoint import Checkpoint
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
from ddp_lab.data_parallel.measurement.breakdown import measure, typical
from ddp_lab.data_parallel.reduction_group import CommunicatorGroup
from ddp_lab.data_parallel.wrapping import DistributedDataParallel

__all__ = [
    "LADDER",
    "BucketPlan",
    "Bucketed",
    "Caps",
    "Checkpoint",
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
    "measure",
    "reverse_plan",
    "typical",
]
