"""Pictures of recorded and of predicted runs: widgets, their posters and their pages."""

from ddp_lab.show.collectives_explorer import CollectivesExplorer, explore
from ddp_lab.show.ddp_timeline import DdpTimeline
from ddp_lab.show.lineage import Lineage
from ddp_lab.show.matrix_split import MatrixSplit
from ddp_lab.show.options import DistributionOptions
from ddp_lab.show.pipeline_schedules import PipelineSchedules
from ddp_lab.show.plan_on_mesh import PlanOnMesh
from ddp_lab.show.poster import poster, summary
from ddp_lab.show.ring_player import RingPlayer
from ddp_lab.show.roofline import Roofline
from ddp_lab.show.scaling_curves import ScalingCurves
from ddp_lab.show.server_timeline import ServerTimeline
from ddp_lab.show.story import Hop, Story, tell
from ddp_lab.show.training_curves import TrainingCurves
from ddp_lab.show.watch import Recording, watch

__all__ = [
    "CollectivesExplorer",
    "DdpTimeline",
    "DistributionOptions",
    "Hop",
    "Lineage",
    "MatrixSplit",
    "PipelineSchedules",
    "PlanOnMesh",
    "Recording",
    "RingPlayer",
    "Roofline",
    "ScalingCurves",
    "ServerTimeline",
    "Story",
    "TrainingCurves",
    "explore",
    "poster",
    "summary",
    "tell",
    "watch",
]
