"""Predictions of what was, or could be, measured."""

from ddp_lab.simulate.collectives import collective
from ddp_lab.simulate.ddp import ddp
from ddp_lab.simulate.parameter_server import parameter_server
from ddp_lab.simulate.pipeline import pipeline
from ddp_lab.simulate.stragglers import backup_workers

__all__ = ["backup_workers", "collective", "ddp", "parameter_server", "pipeline"]
