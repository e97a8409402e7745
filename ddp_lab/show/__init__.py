"""Pictures of recorded and of predicted runs: widgets, their posters and their pages."""

from ddp_lab.show.collectives_explorer import CollectivesExplorer as CollectivesExplorer
from ddp_lab.show.collectives_explorer import explore as explore
from ddp_lab.show.ddp_timeline import DdpTimeline as DdpTimeline
from ddp_lab.show.lineage import Lineage as Lineage
from ddp_lab.show.matrix_split import MatrixSplit as MatrixSplit
from ddp_lab.show.options import DistributionOptions as DistributionOptions
from ddp_lab.show.pipeline_schedules import PipelineSchedules as PipelineSchedules
from ddp_lab.show.plan_on_mesh import PlanOnMesh as PlanOnMesh
from ddp_lab.show.poster import poster as poster
from ddp_lab.show.poster import summary as summary
from ddp_lab.show.ring_player import RingPlayer as RingPlayer
from ddp_lab.show.roofline import Roofline as Roofline
from ddp_lab.show.scaling_curves import ScalingCurves as ScalingCurves
from ddp_lab.show.server_timeline import ServerTimeline as ServerTimeline
from ddp_lab.show.story import Hop as Hop
from ddp_lab.show.story import Story as Story
from ddp_lab.show.story import tell as tell
from ddp_lab.show.training_curves import TrainingCurves as TrainingCurves
from ddp_lab.show.watch import Recording as Recording
from ddp_lab.show.watch import watch as watch
