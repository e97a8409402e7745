"""Prediction serving: models in containers, adaptive batches, deadlines, selection by feedback.

After Crankshaw et al., "Clipper: A Low-Latency Online Prediction Serving System", NSDI 2017. And
generation of tokens, in `generation`.
"""

from minitorch.exports import public_names
from minitorch.serve.asks import Prediction as Prediction
from minitorch.serve.batching import AIMD as AIMD
from minitorch.serve.batching import Controller as Controller
from minitorch.serve.batching import NoBatching as NoBatching
from minitorch.serve.batching import Quantile as Quantile
from minitorch.serve.cache import Cache as Cache
from minitorch.serve.clock import Clock as Clock
from minitorch.serve.clock import VirtualClock as VirtualClock
from minitorch.serve.generation import GenerationSimulation as GenerationSimulation
from minitorch.serve.generation import Stream as Stream
from minitorch.serve.generation import simulate_generation as simulate_generation
from minitorch.serve.loading import Load as Load
from minitorch.serve.loading import load as load
from minitorch.serve.server import Server as Server
from minitorch.serve.simulation import Batch as Batch
from minitorch.serve.simulation import Simulation as Simulation
from minitorch.serve.simulation import simulate as simulate

__all__ = public_names(globals())
