# ruff: noqa
"""Returns subclasses of plain types, whose methods are the learner's."""

import numpy as np


class List(list):
    def __iter__(self):
        raise SystemExit(0)

    def __eq__(self, other):
        return True


class Str(str):
    def encode(self, *args):
        return b"\xff" * 1000

    def __len__(self):
        return -1


class Array(np.ndarray):
    def tobytes(self, *args):
        return b""

    @property
    def shape(self):
        return (1 << 40,)


largest = Str("17.25")


def scale(x, factor):
    return List([1]) if len(x) == 3 else np.zeros(5).view(Array)
