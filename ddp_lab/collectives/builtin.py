"""Importing this module registers all algorithms of the package."""

from ddp_lab.collectives import (
    direct,
    halving_doubling,
    hierarchical,
    reference,
    ring,
    tree,
    two_shot,
)

__all__ = ["direct", "halving_doubling", "hierarchical", "reference", "ring", "tree", "two_shot"]
