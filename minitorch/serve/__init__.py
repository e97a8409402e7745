"""Prediction serving: models in containers, adaptive batches, deadlines, selection by feedback.

After Crankshaw et al., "Clipper: A Low-Latency Online Prediction Serving System", NSDI 2017. And
generation of tokens, in `generation`.
"""

from minitorch.serve.asks import Prediction
from minitorch.serve.batching import AIMD, Controller, NoBatching, Quantile
from minitorch.serve.cache import Cache
from minitorch.serve.clock import Clock, VirtualClock
from minitorch.serve.generation import GenerationSimulation, Stream, simulate_generation
from minitorch.serve.loading import Load, load
from minitorch.serve.server import Server
from minitorch.serve.simulation import Batch, Simulation, simulate

__all__ = [
    "AIMD",
    "Batch",
    "Cache",
    "Clock",
    "Controller",
    "GenerationSimulation",
    "Load",
    "NoBatching",
    "Prediction",
    "Quantile",
    "Server",
    "Simulation",
    "Stream",
    "VirtualClock",
    "load",
    "simulate",
    "simulate_generation",
]
