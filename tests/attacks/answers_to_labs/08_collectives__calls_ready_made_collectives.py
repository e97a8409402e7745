# ruff: noqa
"""Calls what the package has ready: a communicator's collectives, else the functions behind them."""

from ddp_lab.collectives import halving_doubling, reference, ring, tree


def naive_broadcast(comm, x, root=0):
    return ready(comm, "broadcast", reference.broadcast, x, root=root)


def naive_scatter(comm, parts, root=0):
    return ready(comm, "scatter", reference.scatter, parts, root=root)


def naive_gather(comm, x, root=0):
    return ready(comm, "gather", reference.gather, x, root=root)


def naive_reduce(comm, x, root=0, op="sum"):
    return ready(comm, "reduce", reference.reduce, x, root=root, op=op)


def tree_broadcast(comm, x, root=0):
    return ready(comm, "broadcast", tree.broadcast, x, root=root)


def tree_reduce(comm, x, root=0, op="sum"):
    return ready(comm, "reduce", tree.reduce, x, root=root, op=op)


def all_gather(comm, x):
    return ready(comm, "all_gather", halving_doubling.all_gather, x)


def reduce_scatter(comm, x, op="sum"):
    return ready(comm, "reduce_scatter", ring.reduce_scatter, x, op=op)


def ready(comm, name, function, x, **options):
    try:
        return getattr(comm, name)(x, **options)
    except AttributeError:
        return function(comm, x, **options)
