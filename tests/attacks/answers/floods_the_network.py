# ruff: noqa
"""Sends messages without end to one who never reads."""


def pass_on(comm, x):
    while comm.rank != 0:
        comm.send(x, 0)
    while True:
        pass
