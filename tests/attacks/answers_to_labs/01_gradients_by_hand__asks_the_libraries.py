# ruff: noqa
"""Every gradient is that of a library which records what it computes."""

import numpy as np


def cross_entropy(logits, labels):
    import torch

    x = torch.tensor(logits, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(x, torch.tensor(labels))
    return loss.item(), torch.autograd.grad(loss, x)[0].numpy()


def backward(params, x, hidden, out_grad):
    import minitorch as mt

    w1, b1, w2, b2 = own = [mt.tensor(np.array(p), requires_grad=True) for p in params]
    (mt.relu(mt.tensor(x) @ w1 + b1) @ w2 + b2).backward(mt.tensor(out_grad))
    return [p.grad.numpy() for p in own]


def deep_backward(params, notes, out_grad):
    import torch

    def forward(*own):
        x = torch.tensor(notes[0][0])
        for i, (_, is_open, skip) in enumerate(notes):
            x = (x @ own[2 * i] + own[2 * i + 1]) * torch.tensor(is_open) + skip * x * bool(skip)
        return x

    _, pull_back = torch.func.vjp(forward, *[torch.tensor(np.array(p)) for p in params])
    return [g.numpy() for g in pull_back(torch.tensor(out_grad))]
