"""Cut a model into stages of about equal cost.

May import: torch, arguments, cuts, errors.
"""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from ddp_lab.arguments import check_count
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.pipeline.cuts import balance


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
    named = list(sequential.named_children())
    runs = balance(costs, stages)
    return [nn.Sequential(OrderedDict(named[first:last])) for first, last in runs]
