"""What a layer costs: on a device, and where data and tensor parallelism split it over a mesh.

A tensor-parallel layer has its weights cut over tp ranks, each of which makes a part of the sum
that the output is: one all-reduce of the output in forward, and one of the gradient of the input,
taken to be as large, in backward. A data-parallel one is copied dp times.

May import: cluster, errors.
Source: Shoeybi et al., Megatron-LM, arXiv:1909.08053, 2019, section 3; Rajbhandari et al., ZeRO,
SC 2020, section 3 for what training keeps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lab.errors import InvalidArgument
from ddp_lab.simulate.cluster import Mesh

BACKWARD = 2.0  # times forward: one product for the input's gradient, one for the weights'
STATES = 4.0  # bytes kept for each of parameters: itself, its gradient and Adam's two moments


@dataclass(frozen=True)
class LayerCost:
    """A layer, for one sample.

    Attributes:
        flops: floating-point operations of forward; backward takes twice as many.
        param_bytes: bytes of its parameters, and of their gradients.
        activation_bytes: bytes of its output, which is kept until backward.
    """

    flops: float
    param_bytes: float
    activation_bytes: float

    def __post_init__(self) -> None:
        for name in ("flops", "param_bytes", "activation_bytes"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InvalidArgument(
                    f"LayerCost: no layer has such {name}: got {value!r}, expected 0 or more. "
                    "Pass the numbers of one sample."
                )


@dataclass(frozen=True)
class LayerTime:
    """A layer on each device of a mesh, for some samples a replica; seconds and bytes.

    `tensor` is what each way of `forward` and `backward` spends in tensor-parallel all-reduces;
    `param_bytes` and `kept_bytes` are a device's parameters and activations of these samples.
    """

    forward: float
    backward: float
    tensor: float
    param_bytes: float
    kept_bytes: float


def layer_time(layer: LayerCost, mesh: Mesh, samples: float) -> LayerTime:
    """Return what `samples` of each replica cost in a layer that is split over `mesh`."""
    compute = layer.flops * samples / mesh.tp / mesh.cluster.flops
    kept_bytes = layer.activation_bytes * samples
    tensor = mesh.tensor(kept_bytes)
    param_bytes = layer.param_bytes / mesh.tp
    return LayerTime(compute + tensor, BACKWARD * compute + tensor, tensor, param_bytes, kept_bytes)


def check_layers(who: str, layers: Sequence[LayerCost]) -> None:
    """Raise `InvalidArgument` unless all are `LayerCost`s, and one of them has work to do."""
    bad = next((layer for layer in layers if not isinstance(layer, LayerCost)), None)
    if bad is not None or not layers:
        raise InvalidArgument(
            f"{who}: a workload is a list of layers: got {bad if layers else layers!r}, expected "
            "one LayerCost(flops, param_bytes, activation_bytes) or more, in forward order."
        )
    if not any(layer.flops for layer in layers):
        raise InvalidArgument(
            f"{who}: a workload has work: got {len(layers)} layers of 0 flops, expected one with "
            "more."
        )
