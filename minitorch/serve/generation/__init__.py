"""Generation of tokens: continuous batches over a bounded cache, streams, and their simulation.

After Yu et al., "Orca", OSDI 2022, and Kwon et al., "Efficient Memory Management for Large Language
Model Serving with PagedAttention", SOSP 2023.
"""

from minitorch.serve.generation.reply import Stream
from minitorch.serve.generation.scheduler import Job, Plan, Scheduler
from minitorch.serve.generation.simulation import (
    GenerationSimulation,
    Iteration,
    simulate_generation,
)

__all__ = [
    "GenerationSimulation",
    "Iteration",
    "Job",
    "Plan",
    "Scheduler",
    "Stream",
    "simulate_generation",
]
