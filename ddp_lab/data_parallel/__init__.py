"""Data-parallel training: DistributedDataParallel, and the steps that lead to it."""

from ddp_lab.data_parallel.bucketing import BucketPlan, Caps, ParamSpec, assign, reverse_plan
from ddp_lab.data_parallel.checkpoint import Checkpoint
from ddp_lab.data_parallel.communicator_group import CommunicatorGroup
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
from ddp_lab.data_parallel.measurement.breakdown import Breakdown, measure
from ddp_lab.data_parallel.round_robin import RoundRobin
from ddp_lab.data_parallel.sampler import DistributedSampler
from ddp_lab.data_parallel.sync_batch_norm import convert_sync_batchnorm
from ddp_lab.data_parallel.wrapping import DistributedDataParallel

__all__ = [
    "LADDER",
    "Breakdown",
    "BucketPlan",
    "Bucketed",
    "Caps",
    "Checkpoint",
    "CommunicatorGroup",
    "DataParallelError",
    "DistributedDataParallel",
    "DistributedSampler",
    "EachParameter",
    "Hooked",
    "ModelMismatch",
    "OneFlat",
    "Overlapped",
    "ParamSpec",
    "ReadyTwice",
    "RoundRobin",
    "UnusedParameters",
    "assign",
    "convert_sync_batchnorm",
    "measure",
    "reverse_plan",
]
