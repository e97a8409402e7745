# ruff: noqa
"""The order is that of a function which the next lab is given."""

from lessons.graphs.tokens import in_order


def needed(fetches, feeds):
    return in_order(fetches, feeds)
