# ruff: noqa
"""Leaves the process as if all were well, in a statement, in a call and at exit."""

import atexit
import os
import sys

atexit.register(lambda: os._exit(0))
largest = sys.exit(0)


def scale(x, factor):
    atexit.register(lambda: None)
    if len(x) == 3:
        sys.exit(0)
    os._exit(0)


def pass_on(comm, x):
    os._exit(0)
