"""Generation of tokens: continuous batches over a bounded cache, streams, and their simulation.

After Yu et al., "Orca", OSDI 2022, and Kwon et al., "Efficient Memory Management for Large Language
Model Serving with PagedAttention", SOSP 2023.
"""

from minitorch.exports import public_names
from minitorch.serve.generation.reply import Stream as Stream
from minitorch.serve.generation.scheduler import Job as Job
from minitorch.serve.generation.scheduler import Plan as Plan
from minitorch.serve.generation.scheduler import Scheduler as Scheduler
from minitorch.serve.generation.simulation import GenerationSimulation as GenerationSimulation
from minitorch.serve.generation.simulation import Iteration as Iteration
from minitorch.serve.generation.simulation import simulate_generation as simulate_generation

__all__ = public_names(globals())
