"""Data-parallel training: DistributedDataParallel, and the steps that lead to it."""

from ddp_lab.data_parallel.bucketing import BucketPlan as BucketPlan
from ddp_lab.data_parallel.bucketing import Caps as Caps
from ddp_lab.data_parallel.bucketing import ParamSpec as ParamSpec
from ddp_lab.data_parallel.bucketing import assign as assign
from ddp_lab.data_parallel.bucketing import reverse_plan as reverse_plan
from ddp_lab.data_parallel.checkpoint import Checkpoint as Checkpoint
from ddp_lab.data_parallel.communicator_group import CommunicatorGroup as CommunicatorGroup
from ddp_lab.data_parallel.errors import DataParallelError as DataParallelError
from ddp_lab.data_parallel.errors import ModelMismatch as ModelMismatch
from ddp_lab.data_parallel.errors import ReadyTwice as ReadyTwice
from ddp_lab.data_parallel.errors import UnusedParameters as UnusedParameters
from ddp_lab.data_parallel.ladder import LADDER as LADDER
from ddp_lab.data_parallel.ladder import Bucketed as Bucketed
from ddp_lab.data_parallel.ladder import EachParameter as EachParameter
from ddp_lab.data_parallel.ladder import Hooked as Hooked
from ddp_lab.data_parallel.ladder import OneFlat as OneFlat
from ddp_lab.data_parallel.ladder import Overlapped as Overlapped
from ddp_lab.data_parallel.measurement.breakdown import measure as measure
from ddp_lab.data_parallel.measurement.breakdown import typical as typical
from ddp_lab.data_parallel.wrapping import DistributedDataParallel as DistributedDataParallel
