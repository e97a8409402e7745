# ruff: noqa
"""A plan that decides nothing: each run mends the graph that was taken apart, and evaluates it."""

import numpy as np


class Plan:
    def __init__(self, fetches, inputs):
        self.asked, self.given = fetches, inputs
        self.graph = [(node, node.inputs) for node in every_node(*fetches)]
        order = set(needed(fetches, set(inputs)))
        self.inputs = [0 if node in order else None for node in inputs]

    def __call__(self, state, *arrays):
        for node, sources in self.graph:
            node.inputs = sources
        values = evaluate(self.asked, dict(zip(self.given, arrays)), state)
        for node, value in values.items():
            if isinstance(node.op, AssignOp):
                state[node.op.variable] = np.array(value)
        return [values[node] for node in self.asked]
