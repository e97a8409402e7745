# ruff: noqa
"""Each gradient is asked of the rule of one operator of the library; nothing sweeps."""

import numpy as np


def backward(params, x, hidden, out_grad):
    import minitorch as mt

    def back(left, right, adjoint):
        product = mt.tensor(np.array(left), requires_grad=True) @ mt.tensor(np.array(right))
        found = product.op.gradient(mt.tensor(adjoint), product)
        return [g.detach().numpy() for g in found]

    inner, w2 = back(hidden, params[2], out_grad)
    inner = inner * (hidden > 0)
    return [back(x, params[0], inner)[1], inner.sum(axis=0), w2, out_grad.sum(axis=0)]


def cross_entropy(logits, labels):
    import minitorch as mt
    import minitorch.nn.functional as F

    loss = F.cross_entropy(mt.tensor(logits, requires_grad=True), mt.tensor(labels))
    found = loss.op.gradient(mt.ones_like(loss.detach()), loss)
    return loss.item(), (found[0] if isinstance(found, tuple) else found).detach().numpy()
