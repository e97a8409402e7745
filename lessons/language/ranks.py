"""A GPT's products shared out among ranks, or its blocks in two stages, for plans of lab 18.

Both give what one process gives: the loss, and the gradients of what a rank has. The model is the
notebook's: its linear layers have `weight` and `bias`, and it has `embed`, `blocks` and `top`.
`train_in_turns` measures plans beside each other.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import minitorch as mt
from minitorch import Op


class CopyIn(Op):
    """The same on all ranks, each of which uses it for a part: gradients are added up."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm

    def compute(self, xp: Any, x: Any) -> Any:
        """Return x."""
        return x.copy()

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the sum of the ranks' gradients."""
        return mt.tensor(self.comm.all_reduce(out_grad.numpy(), algorithm="ring"))


class GatherOut(Op):
    """Each rank has some columns, and all get all: of the gradient each keeps its own."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm

    def compute(self, xp: Any, x: Any) -> Any:
        """Return the columns of all ranks side by side."""
        return np.concatenate(self.comm.all_gather(np.ascontiguousarray(x)), axis=-1)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return this rank's columns of the gradient."""
        return mt.tensor(np.split(out_grad.numpy(), self.comm.size, axis=-1)[self.comm.rank])


class Shared:
    """A linear layer of which this rank has some of the outputs; called as the whole layer.

    Args:
        linear: the layer; its weight and bias become this rank's rows.
        parameter: makes a parameter of an array.
    """

    def __init__(self, linear: Any, comm: Any, parameter: Callable[[Any], Any]) -> None:
        self.copy_in, self.gather_out = CopyIn(comm), GatherOut(comm)
        linear.weight, linear.bias = (
            parameter(np.array_split(p.detach().numpy(), comm.size)[comm.rank])
            for p in (linear.weight, linear.bias)
        )
        self.forward = linear.forward

    def __call__(self, x: Any) -> Any:
        """Return (..., n_out), of all ranks."""
        return self.gather_out(self.forward(self.copy_in(x)))


def share_products(comm: Any, model: Any, parameter: Callable[[Any], Any]) -> None:
    """Have every linear layer of the blocks computed by all ranks, a part of its outputs each."""
    for block in model.blocks:
        for module in (block, block.attention):
            for name, linear in linear_layers(module):
                shared = Shared(linear, comm, parameter)
                object.__setattr__(linear, "forward", shared)
                assert getattr(module, name) is linear


def linear_layers(module: Any) -> list[tuple[str, Any]]:
    """Return (name, layer) of what a module has that has a weight."""
    parts = vars(module) | vars(module).get("_modules", {})
    return [(name, part) for name, part in parts.items() if hasattr(part, "weight")]


def stage_step(
    comm: Any, model: Any, x: NDArray[Any], y: NDArray[Any], loss_of: Any, microbatches: int
) -> tuple[float, list[Any]]:
    """Return the loss, and gradients of all parameters: None where the other stage has them.

    Rank 0 has the embedding and the first half of the blocks, rank 1 the rest. All forward
    passes come first, as in GPipe.
    """
    half, parameters = len(model.blocks) // 2, list(model.parameters())
    blocks = model.blocks[:half] if comm.rank == 0 else model.blocks[half:]
    grads: list[Any] = [None] * len(parameters)
    parts = list(zip(np.split(x, microbatches), np.split(y, microbatches), strict=True))
    ends, loss = [], 0.0
    for rows, targets in parts:
        h = model.embed(mt.tensor(rows)) if comm.rank == 0 else receive(comm)
        out = through(blocks, h)
        if comm.rank == 0:
            comm.send(out.detach().numpy(), 1)
        else:
            out = loss_of(model.top(out), mt.tensor(targets)) / microbatches
            loss += out.item()
        ends.append((h, out))
    for h, out in ends:
        sources = [*parameters, h] if comm.rank else parameters
        out_grad = None if comm.rank else mt.tensor(comm.recv(src=1))
        own_grads = mt.grad(out, sources, grad_outputs=out_grad, allow_unused=True)
        if comm.rank:
            comm.send(own_grads[-1].numpy(), 0)
        grads = [add(a, b) for a, b in zip(grads, own_grads, strict=False)]
    return comm.broadcast(np.array([loss]), root=1)[0], grads


def receive(comm: Any) -> Any:
    """Return what rank 0 sends, as a tensor whose gradient goes back."""
    return mt.tensor(comm.recv(src=0)).requires_grad_()


def through(blocks: Sequence[Any], h: Any) -> Any:
    """Return what comes out of the blocks."""
    for block in blocks:
        h = block(h)
    return h


def add(a: Any, b: Any) -> Any:
    """Return a sum in which None is nothing."""
    return b if a is None else a if b is None else a + b


def train_in_turns(
    comm: Any, plans: Sequence[Callable[[Any], Callable[[int], float]]], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the losses of some steps of each plan, and the median of their seconds; in turns.

    Args:
        plans: each makes of a rank what takes a step, by its number, and returns the loss.
    Returns: losses (plans, steps), and seconds (plans,).
    """
    mt.set_num_threads(1)
    takes = [plan(comm) for plan in plans]
    losses, seconds = np.zeros((2, len(plans), steps))
    for step in range(steps):
        for at, take in enumerate(takes):
            comm.barrier()
            began = perf_counter()
            losses[at, step] = take(step)
            seconds[at, step] = perf_counter() - began
    return losses, np.median(seconds, axis=1)
