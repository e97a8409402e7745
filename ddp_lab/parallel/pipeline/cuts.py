"""Cut a model, or what costs these seconds, into stages of which the slowest has least to do.

May import: arguments, errors; torch inside functions.
Source: Huang et al., torchgpipe's `balance`, and Narayanan et al., PipeDream, SOSP 2019, section
3.1: of all cuts the one whose slowest stage is fastest.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from ddp_lab.arguments import check_count
from ddp_lab.errors import InvalidArgument

if TYPE_CHECKING:
    from torch import nn


def split(
    sequential: "nn.Sequential", stages: int, costs: Sequence[float] | None = None
) -> "list[nn.Sequential]":
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
    from torch import nn

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
    named = list(sequential.named_children())
    runs = balance(costs, stages)
    return [nn.Sequential(OrderedDict(named[first:last])) for first, last in runs]


def balance(seconds: Sequence[float], stages: int) -> list[tuple[int, int]]:
    """Return first and last + 1 of each stage's items, so that the slowest has the least to do.

    Each stage has an item at least. By bisection for the least limit that no stage exceeds.
    """
    low, high = max(seconds), sum(seconds)
    until = [0.0, *accumulate(seconds)]
    for _ in range(40 if stages > 1 else 0):
        middle = (low + high) / 2
        if _fill(until, stages, middle)[-1][1] == len(seconds):
            high = middle
        else:
            low = middle
    bounds = _fill(until, stages, high * (1 + 1e-9))
    return [*bounds[:-1], (bounds[-1][0], len(seconds))]


def _fill(until: Sequence[float], stages: int, limit: float) -> list[tuple[int, int]]:
    """Return stages filled in order up to a limit; the last may end early."""
    items, bounds, first = len(until) - 1, [], 0
    for stage in range(stages):
        most = items - (stages - 1 - stage)  # leaves one for each stage to come
        last = min(most, max(first + 1, bisect_right(until, until[first] + limit) - 1))
        bounds.append((first, last))
        first = last
    return bounds
