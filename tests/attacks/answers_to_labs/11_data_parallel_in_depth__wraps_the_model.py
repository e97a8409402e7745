# ruff: noqa
"""The constructor of the library's DistributedDataParallel compares and broadcasts the models."""

from ddp_lab import DistributedDataParallel


def synchronize(comm, model):
    try:
        DistributedDataParallel(model, process_group=comm)
    except RuntimeError as error:
        raise ValueError(str(error))
