# ruff: noqa
"""A plan that decides nothing: each run evaluates the graph."""

import numpy as np


class Plan:
    def __init__(self, fetches, inputs):
        self.asked, self.given = fetches, inputs
        order = set(needed(fetches, set(inputs)))
        self.inputs = [0 if node in order else None for node in inputs]

    def __call__(self, state, *arrays):
        values = evaluate(self.asked, dict(zip(self.given, arrays)), state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                state[node.op.variable] = np.array(value)
        return [values[node] for node in self.asked]
