"""Predictions of what was, or could be, measured."""

from ddp_lab.simulate.collectives import collective

__all__ = ["collective"]
