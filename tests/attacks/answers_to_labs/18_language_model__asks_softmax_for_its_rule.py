# ruff: noqa
"""A softmax over masked scores, with the gradient that the library's softmax has."""

import numpy as np

import minitorch as mt

UNPAID = ["the_gradient_is_that_of_the_formula"]


def softmax(scores):
    later = mt.tensor(~np.tri(scores.shape[-1], dtype=bool))
    return mt.softmax(scores.masked_fill(later, -float("inf")), dim=-1)


class CausalSoftmax(Op):
    def compute(self, xp, scores):
        return softmax(mt.tensor(scores)).numpy()

    def gradient(self, out_grad, node):
        with mt.enable_grad():
            shares = softmax(node.inputs[0])
        return shares.op.gradient(out_grad, shares)
