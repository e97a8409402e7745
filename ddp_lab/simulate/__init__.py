"""Predictions of what was, or could be, measured."""

from ddp_lab.simulate.checkpointing import checkpointing as checkpointing
from ddp_lab.simulate.cluster import cluster as cluster
from ddp_lab.simulate.collectives import collective as collective
from ddp_lab.simulate.ddp import ddp as ddp
from ddp_lab.simulate.layers import LayerCost as LayerCost
from ddp_lab.simulate.parameter_server import parameter_server as parameter_server
from ddp_lab.simulate.pipeline import pipeline as pipeline
from ddp_lab.simulate.planner import best_plan as best_plan
from ddp_lab.simulate.planner import plan_cost as plan_cost
from ddp_lab.simulate.planner import plans as plans
from ddp_lab.simulate.program import program as program
from ddp_lab.simulate.stragglers import backup_workers as backup_workers
from ddp_lab.simulate.training import training as training
