"""What a message costs on a link, and where the links are: which ranks lie on which host."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

from ddp_lab.errors import InvalidArgument

Hosts: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Link:
    """What messages cost: `alpha` seconds each, `beta` a byte; `gamma` a byte reduced."""

    alpha: float
    beta: float
    gamma: float = 0.0


def equal_hosts(world_size: int, hosts: int) -> Hosts:
    """Return the ranks of each host: equal runs of neighbours.

    Raises:
        InvalidArgument: the ranks cannot be shared out equally.
    """
    whole = isinstance(hosts, Integral) and not isinstance(hosts, bool)
    if not whole or hosts < 1 or world_size % hosts:
        raise InvalidArgument(
            f"launch: the ranks do not lie on equal hosts: got hosts={hosts!r} for {world_size} "
            "ranks, expected a number that divides them. Change one of the two."
        )
    width = world_size // hosts
    return tuple(tuple(range(h * width, (h + 1) * width)) for h in range(hosts))


def hosts_of(names: Iterable[str]) -> Hosts:
    """Return the ranks of each host, which each rank names; hosts by their first ranks."""
    ranks_of: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        ranks_of.setdefault(name, []).append(rank)
    return tuple(map(tuple, ranks_of.values()))


def home_of(rank: int, hosts: Hosts) -> tuple[int, ...]:
    """Return the ranks of the host that this one lies on."""
    return next(host for host in hosts if rank in host)


def within(hosts: Hosts, members: tuple[int, ...]) -> Hosts:
    """Return the hosts of a group: of its `members` by their numbers in it."""
    number = {member: rank for rank, member in enumerate(members)}
    shares = (tuple(number[rank] for rank in host if rank in number) for host in hosts)
    return tuple(host for host in shares if host)
