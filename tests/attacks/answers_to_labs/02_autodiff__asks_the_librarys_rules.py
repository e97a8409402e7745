# ruff: noqa
"""Operators whose rules are those of the library's operators, and a step of torch's."""

import numpy as np

import minitorch as mt

UNPAID = (
    "exp_gradient_follows_the_chain_rule",
    "mul_gradients_cross_over",
    "mul_gradients_have_the_shapes_of_the_inputs",
    "matmul_gradient_of_the_left_factor",
    "matmul_gradient_of_the_right_factor",
    "a_step_goes_against_the_gradient",
)


def rule(function, inputs):
    with mt.enable_grad():
        return function(*[mt.ones(1, 1).requires_grad_() for _ in range(inputs)]).op.gradient


class ExpOp(Op):
    def compute(self, xp, x):
        return xp.exp(x)

    def gradient(self, out_grad, node):
        return rule(mt.exp, 1)(out_grad, node)


class MulOp(Op):
    def compute(self, xp, a, b):
        return a * b

    def gradient(self, out_grad, node):
        return rule(lambda a, b: a * b, 2)(out_grad, node)


class MatMulOp(Op):
    def compute(self, xp, a, b):
        return a @ b

    def gradient(self, out_grad, node):
        return rule(mt.matmul, 2)(out_grad, node)


def sgd_step(parameters, grads, lr):
    import torch

    new = [torch.tensor(p.detach().numpy(), requires_grad=True) for p in parameters]
    for p, g in zip(new, grads):
        p.grad = torch.tensor(g.detach().numpy())
    torch.optim.SGD(new, lr=lr).step()
    return [mt.tensor(p.detach().numpy(), requires_grad=True) for p in new]
