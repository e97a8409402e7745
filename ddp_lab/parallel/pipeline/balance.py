"""Cut a model into stages of about equal cost.

May import: NumPy, torch, arguments, communicator, errors.
Source: Huang et al., torchgpipe's `balance`, and Narayanan et al., PipeDream, SOSP 2019, section
3.1: profile the layers, then choose the cut whose slowest stage is fastest.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate, pairwise
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn

from ddp_lab.arguments import check_count
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument


def split(
    sequential: nn.Sequential, stages: int, costs: Sequence[float] | None = None
) -> list[nn.Sequential]:
    """Return `stages` runs of the layers, so that the most costly run costs as little as can be.

    The layers are the model's own, under their own names: the stages' state dicts together are
    that of the model.

    Args:
        sequential: the model; a layer is one of its children.
        stages: how many runs, at most one for each layer.
        costs: what each layer costs, in any unit; `measure_costs` measures seconds. Without it,
            the number of its parameters and one more.

    Raises:
        InvalidArgument: more stages than layers, or costs that do not fit.
    """
    check_count("split", "stages", stages)
    if not isinstance(sequential, nn.Sequential):
        raise InvalidArgument(
            f"split: no sequence of layers: got {type(sequential).__name__}, expected a "
            "torch.nn.Sequential. Put the layers into one, or write the stages by hand."
        )
    layers = list(sequential)
    if stages > len(layers):
        raise InvalidArgument(
            f"split: more stages than layers: got {stages} stages for {len(layers)} layers. "
            "Use fewer ranks or chunks, or cut the layers finer."
        )
    if costs is None:
        costs = [1 + sum(p.numel() for p in layer.parameters()) for layer in layers]
    if len(costs) != len(layers) or not all(0 <= cost < float("inf") for cost in costs):
        raise InvalidArgument(
            f"split: one cost a layer, 0 or more: got {list(costs)} for {len(layers)} layers. "
            "Pass what measure_costs returned."
        )
    cuts = balanced_cuts(costs, stages)
    runs = pairwise([0, *cuts, len(layers)])
    named = list(sequential.named_children())
    return [nn.Sequential(OrderedDict(named[begin:end])) for begin, end in runs]


def balanced_cuts(costs: Sequence[float], stages: int) -> list[int]:
    """Return where to cut `costs` into `stages` runs so that the largest sum is the least.

    Dynamic programming: the best cut of the first n layers into k runs is the best, over where
    the last run begins, of the larger of that run and the best cut before it into k - 1.
    """
    total = np.array([0.0, *accumulate(costs)])
    n = len(costs)
    best = [total[1:]]  # best[k][i]: the largest sum of k + 1 runs over layers 0 to i
    begins: list[list[int]] = []
    for k in range(1, stages):
        row, begin = np.full(n, np.inf), [0] * n
        for i in range(k, n):
            largest = np.maximum(best[-1][k - 1 : i], total[i + 1] - total[k : i + 1])
            at = int(largest.argmin())
            row[i], begin[i] = largest[at], k + at
        best.append(row)
        begins.append(begin)
    cuts: list[int] = []
    end = n
    for begin in reversed(begins):
        end = begin[end - 1]
        cuts.insert(0, end)
    return cuts


def measure_costs(
    sequential: nn.Sequential, x: Tensor, *, comm: Communicator | None = None, repeats: int = 5
) -> list[float]:
    """Return the seconds of each layer's forward and backward on micro-batch `x`: the shortest.

    Gradients, buffers and random numbers are as before afterwards.

    Args:
        sequential: the model.
        x: a micro-batch, as the pipeline will see it.
        comm: with it, every rank gets what rank 0 measured, so that all split alike.
        repeats: how often each layer runs.
    """
    costs = []
    buffers = {name: buffer.clone() for name, buffer in sequential.named_buffers()}
    with torch.random.fork_rng(devices=[]):
        for layer in sequential:
            params = [p for p in layer.parameters() if p.requires_grad]
            x = x.detach().requires_grad_(x.is_floating_point())
            shortest = float("inf")
            for _ in range(max(1, repeats)):
                began_at = perf_counter()
                y = layer(x)
                inputs = [*params, x] if x.requires_grad else params
                if y.requires_grad:
                    torch.autograd.grad(y, inputs, torch.ones_like(y), allow_unused=True)
                shortest = min(shortest, perf_counter() - began_at)
            costs.append(shortest)
            x = y
    for name, buffer in sequential.named_buffers():
        buffer.copy_(buffers[name])
    if comm is None:
        return costs
    shared: list[float] = comm.broadcast(np.array(costs) if comm.rank == 0 else None).tolist()
    return shared
