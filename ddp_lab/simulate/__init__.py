"""Predictions of what was, or could be, measured."""

from ddp_lab.simulate.collectives import collective
from ddp_lab.simulate.ddp import ddp

__all__ = ["collective", "ddp"]
