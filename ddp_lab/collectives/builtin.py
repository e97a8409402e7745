"""Importing this module registers all algorithms of the package."""

from ddp_lab.collectives import reference, ring

__all__ = ["reference", "ring"]
