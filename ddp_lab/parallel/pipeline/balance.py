"""Cut a model into stages of about equal cost.

May import: NumPy, torch, arguments, errors.
Source: Huang et al., torchgpipe's `balance`, and Narayanan et al., PipeDream, SOSP 2019, section
3.1: of all cuts the one whose slowest stage is fastest.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from torch import nn

from ddp_lab.arguments import check_count
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
        costs: what each layer costs, in any unit. Without it, the number of its parameters and
            one more.
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
            "Pass its seconds, or its operations."
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
