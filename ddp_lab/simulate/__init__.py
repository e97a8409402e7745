"""Predictions of what was, or could be, measured."""

from ddp_lab.simulate.checkpointing import checkpointing
from ddp_lab.simulate.cluster import cluster
from ddp_lab.simulate.collectives import collective
from ddp_lab.simulate.ddp import ddp
from ddp_lab.simulate.layers import LayerCost
from ddp_lab.simulate.parameter_server import parameter_server
from ddp_lab.simulate.pipeline import pipeline
from ddp_lab.simulate.planner import best_plan, plan_cost, plans
from ddp_lab.simulate.program import program
from ddp_lab.simulate.stragglers import backup_workers
from ddp_lab.simulate.training import training

__all__ = [
    "LayerCost",
    "backup_workers",
    "best_plan",
    "checkpointing",
    "cluster",
    "collective",
    "ddp",
    "parameter_server",
    "pipeline",
    "plan_cost",
    "plans",
    "program",
    "training",
]
