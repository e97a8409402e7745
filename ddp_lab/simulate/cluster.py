"""A cluster as a few numbers, and what a stage's groups of ranks pay to talk within it.

    host 0: devices 0 1 2 3      links within a host: intra, one a device
    host 1: devices 4 5 6 7      links between hosts: inter, one a host, shared by its devices

Every link carries a message of n bytes in alpha + n beta seconds in each direction. The ranks of a
tensor-parallel group are neighbours, for they talk most; those of a data-parallel group lie as
many devices apart. A ring goes round in lockstep, so that its slowest link decides.

May import: arguments, collectives.closed_forms, errors.
Source of the order: Narayanan et al., Efficient Large-Scale Language Model Training on GPU
Clusters, SC 2021, section 3.
"""

import math
from dataclasses import dataclass

from ddp_lab.arguments import check_counts
from ddp_lab.collectives.closed_forms import collective_time
from ddp_lab.errors import InvalidArgument

Link = tuple[float, float]  # alpha and beta: seconds a message and a byte


@dataclass(frozen=True)
class Cluster:
    """Hosts that are alike.

    Attributes:
        hosts: how many there are.
        devices_per_host: devices that each has.
        flops: floating-point operations that a device gets done in a second, of a model's own:
            what was measured, not what the maker says.
        intra: alpha and beta of a device's link to others of its host, as seconds a message and a
            byte.
        inter: the same of a host's link to other hosts, which its devices share.
        memory_bytes: memory of a device.
    Raises:
        InvalidArgument: a number that no cluster has. A link that exists is faster than none: its
            beta is above 0, its alpha 0 or more.
    """

    hosts: int
    devices_per_host: int
    flops: float
    intra: Link
    inter: Link
    memory_bytes: float = math.inf

    def __post_init__(self) -> None:
        check_counts("cluster", hosts=self.hosts, devices_per_host=self.devices_per_host)
        for name in ("flops", "memory_bytes"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(
                    f"cluster: {name} must be above 0: got {getattr(self, name)!r}. Pass what a "
                    "device has."
                )
        _check_link("intra", self.intra, used=self.devices_per_host > 1)
        _check_link("inter", self.inter, used=self.hosts > 1)

    @property
    def devices(self) -> int:
        """Devices of all hosts."""
        return self.hosts * self.devices_per_host


cluster = Cluster


def _check_link(name: str, link: Link, used: bool) -> None:
    try:
        alpha, beta = map(float, link)
    except (TypeError, ValueError):
        alpha = beta = math.nan
    if not (0 <= alpha < math.inf and 0 <= beta < math.inf and (beta > 0 or not used)):
        raise InvalidArgument(
            f"cluster: no such link: got {name}={link!r}, expected seconds a message, 0 or more, "
            "and seconds a byte, above 0. For 25 GB/s pass a beta of 1 / 25e9."
        )


@dataclass(frozen=True)
class Mesh:
    """The devices of one stage, `devices` on each of `hosts`; dp groups of tp neighbours each.

    dp * tp is hosts * devices.
    """

    cluster: Cluster
    hosts: int
    devices: int
    dp: int
    tp: int

    def tensor(self, n_bytes: float) -> float:
        """Return the seconds of an all-reduce in each tensor-parallel group at once."""
        inside = self.hosts == 1 or self.devices % self.tp == 0
        return self._ring("all_reduce", n_bytes, self.tp, inside, 1)

    def data(self, collective: str, n_bytes: float) -> float:
        """Return the seconds of a ring of that name in each data-parallel group at once."""
        return self._ring(collective, n_bytes, self.dp, self.hosts == 1, self._sharing)

    def to_servers(self, n_bytes: float, servers: int) -> float:
        """Return the seconds in which the replicas send so many bytes, spread over the servers.

        The way back takes as long. The devices of a host first add up what they have; then a host
        sends n bytes, and a server takes n from each host for its share of the parameters.
        """
        if self.dp == 1 or not n_bytes:
            return 0.0
        if self.hosts == 1:
            alpha, beta = self.cluster.intra
            return alpha + n_bytes * beta * max(1.0, self.dp / servers)
        alpha, beta = self.cluster.inter
        senders = min(self.dp, self.hosts)
        across = alpha + n_bytes * beta * max(self._sharing, senders * self.tp / servers)
        own = Mesh(self.cluster, 1, self.devices, max(1, self.dp // self.hosts), self.tp)
        return max(across, own.data("reduce_scatter", n_bytes))

    def to_next_stage(self, n_bytes: float, inside: bool) -> float:
        """Return the seconds in which all replicas send so much on; tp ranks send a part each."""
        alpha, beta = self.cluster.intra if inside else self.cluster.inter
        devices = 1 if inside else self.devices  # that share the link
        return alpha + n_bytes * beta * devices / self.tp

    @property
    def _sharing(self) -> int:
        """How many data-parallel groups share the link of a host."""
        return min(self.tp, self.devices)

    def _ring(self, name: str, n_bytes: float, ranks: int, inside: bool, sharing: int) -> float:
        if ranks == 1 or not n_bytes:
            return 0.0
        hops = [] if self.devices == 1 else [self.cluster.intra]
        if not inside:
            alpha, beta = self.cluster.inter
            hops.append((alpha, beta * sharing))
        return max(collective_time(name, "ring", n_bytes, ranks, *hop) for hop in hops)


def mesh(cluster: Cluster, dp: int, tp: int) -> Mesh:
    """Return the devices of a stage of dp * tp ranks: some of a host, or whole hosts.

    Raises:
        InvalidArgument: the stage is larger than a host and does not fill hosts.
    """
    size, full = dp * tp, cluster.devices_per_host
    if size <= full:
        return Mesh(cluster, 1, size, dp, tp)
    if size % full:
        raise InvalidArgument(
            f"cluster: dp * tp does not divide into hosts: got {dp} * {tp} devices on hosts of "
            f"{full}, expected a multiple of {full}. Choose another dp or tp."
        )
    return Mesh(cluster, size // full, full, dp, tp)
