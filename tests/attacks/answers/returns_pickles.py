# ruff: noqa
"""Returns what would run if anyone unpickled or evaluated it."""

import pickle

import numpy as np


class Bomb:
    def __reduce__(self):
        return (exec, ("open('/tmp/attack-was-here', 'w')",))


def scale(x, factor):
    if len(x) == 3:
        return pickle.dumps(Bomb())
    return [np.array([Bomb()], dtype=object).dumps(), "__import__('os').system('true')"]


largest = np.array([Bomb()], dtype=object)
