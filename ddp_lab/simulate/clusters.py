"""Clusters of papers that this package's predictions are held against.

Alpha is a kernel, a copy and a switch, the order of magnitude that such links are known for. Links
are at the line rate that was bought; `published` says where that turned out too good. How fast a
device computes depends on the model, so `with_pace` sets it by what one device was measured to do.

May import: cluster, errors, layers.
"""

from collections.abc import Sequence
from dataclasses import replace

from ddp_lab.errors import InvalidArgument
from ddp_lab.simulate.cluster import Cluster, cluster
from ddp_lab.simulate.layers import BACKWARD, LayerCost

GIGABIT = 1e9 / 8  # bytes
GIB = 2.0**30
NVLINK, PCI = (5e-6, 1 / 100e9), (5e-6, 1 / 10e9)


def ethernet(gigabits_per_s: float) -> tuple[float, float]:
    """Return alpha and beta of a link of that line rate."""
    return 10e-6, 1 / (gigabits_per_s * GIGABIT)


# Sergeev & Del Balso, Horovod, arXiv:1802.05799, 2018: 128 servers of 4 Pascal GPUs, 25 Gb/s RoCE
P100S_ROCE = cluster(128, 4, 9.3e12, NVLINK, ethernet(25), 16 * GIB)
# Li et al., PyTorch Distributed, VLDB 2020: 4 servers of 8 V100s; 100 Gb/s is assumed
V100S = cluster(4, 8, 14e12, NVLINK, ethernet(100), 32 * GIB)
# BytePS, docs/performance.md: 8 V100s a machine, 20 Gb/s TCP; 8 machines are assumed
V100S_TCP = cluster(8, 8, 14e12, NVLINK, ethernet(20), 16 * GIB)
# Zhang et al., Poseidon, ATC 2017: machines of one Titan X, 40 Gb/s
TITANS = cluster(32, 1, 6.6e12, PCI, ethernet(40), 12 * GIB)
# Cui et al., GeePS, EuroSys 2016: machines of one K20, 40 Gb/s
K20S = cluster(16, 1, 3.5e12, PCI, ethernet(40), 5 * GIB)
# Narayanan et al., SC 2021, section 5: 80 GB A100s, 8 a node on NVSwitch, with 8 HCAs of 200 Gb/s
A100S = cluster(384, 8, 312e12, (5e-6, 1 / 300e9), (10e-6, 1 / (8 * 200 * GIGABIT)), 80e9)


def with_pace(cluster: Cluster, workload: Sequence[LayerCost], samples_per_s: float) -> Cluster:
    """Return the cluster with devices that train on so many samples a second, alone.

    Raises:
        InvalidArgument: a speed that is not above 0, or a workload without work.
    """
    flops = (1 + BACKWARD) * sum(layer.flops for layer in workload) * samples_per_s
    if not flops > 0:
        raise InvalidArgument(
            f"paced: a device works: got {samples_per_s!r} samples a second and {flops!r} flops a "
            "second, expected more than 0. Pass what one device was measured to do."
        )
    return replace(cluster, flops=flops)
