"""ZeRO's third stage: what it costs to fetch each layer's parameters when they are needed.

    link      g0 g1 g2 ...                   gather: one layer ahead of compute
    compute      f0 f1 f2 ...  b2 b1 b0      forward, backward
    link                    g1 s2 g0 s1 s0   backward gathers again, and scatters the gradients

May import: the standard library.
Source: Rajbhandari et al., ZeRO, SC 2020, section 7: half as many bytes again as an all-reduce.
"""

from collections.abc import Sequence


def fetch_seconds(
    compute: Sequence[float],
    gather: Sequence[float],
    scatter: Sequence[float] | None = None,
    overlap: bool = True,
) -> float:
    """Return the seconds of one pass over the layers, whose parameters lie with other ranks.

    Args:
        compute: seconds of each layer, in the order of the pass.
        gather: seconds until a layer's parameters are there.
        scatter: seconds to sum its gradients where they belong; None in forward.
        overlap: whether a layer's messages travel beside the compute of others.
    """
    if not overlap:
        return sum(compute) + sum(gather) + sum(scatter or ())
    link = now = 0.0
    began = 0.0  # of the layer before: from then on this one's parameters are fetched
    for layer, seconds in enumerate(compute):
        link = there = max(link, began) + gather[layer]
        began = max(now, there)
        if scatter and layer:  # what the layer before left, once its gradients are ready
            link = max(link, now) + scatter[layer - 1]
        now = began + seconds
    if scatter:
        link = max(link, now) + scatter[-1]
    return max(link, now)
