"""What `algorithm="auto"` means: by collective, size in bytes and number of ranks.

All ranks must choose alike, so nothing here may depend on what a single rank knows. The sizes are
where one algorithm was measured to overtake another, on 4 ranks that share two cores:

    python bench/ddp_lab_collectives.py --thresholds --ranks 4

There the ring's 2(W-1) messages cost more than the bytes that it saves up to about 1 MiB.
"""

from functools import lru_cache

from ddp_lab.collectives.closed_forms import POWERS_OF_TWO, collective_time
from ddp_lab.transport.links.link import Hosts, Link

KIB = 1024
ONE_SHOT_BYTES = 16 * KIB  # what fits a mailbox; from 32 KiB on two_shot was 1.3 times faster

# the algorithms for small and for large arrays, and the size from which the second one is taken
ON_WIRES = {
    "all_gather": ("recursive_doubling", "ring", 32 * KIB),
    "all_reduce": ("recursive_doubling", "ring", 1024 * KIB),
    "all_to_all": ("reference", "reference", 0),
    "barrier": ("dissemination", "dissemination", 0),
    "broadcast": ("tree", "tree", 0),
    "gather": ("reference", "reference", 0),
    "reduce": ("tree", "tree", 0),
    "reduce_scatter": ("direct", "ring", 1024 * KIB),
    "scatter": ("reference", "reference", 0),
}
# where the link is known, what its closed form is least for
BY_LINK = {
    "all_gather": ("recursive_doubling", "ring"),
    "all_reduce": ("recursive_doubling", "halving_doubling", "ring"),
}


def choose(collective: str, n_bytes: int, shared: bool, hosts: Hosts, link: Link | None) -> str:
    """Return the name of the algorithm.

    Args:
        shared: ranks see each other's memory.
        hosts: the ranks of each; those of one host are nearer to each other than to the rest.
        link: what joins the hosts, measured or given; None where it is not known.
    """
    if shared and collective == "all_reduce":
        return "one_shot" if n_bytes <= ONE_SHOT_BYTES else "two_shot"
    if shared and collective == "gather" and n_bytes <= ONE_SHOT_BYTES:
        return "reference"  # nobody waits but the root
    if shared and collective != "scatter":
        return "direct"
    if len(hosts) > 1 and max(map(len, hosts)) > 1:
        return "hierarchical"
    return on_wires(collective, n_bytes, sum(map(len, hosts)), link)


@lru_cache(maxsize=1024)  # a program asks for the same few sizes at every step
def on_wires(collective: str, n_bytes: int, size: int, link: Link | None) -> str:
    """Return the name of the algorithm for ranks of which each reaches all others alike."""
    names = BY_LINK.get(collective, ())
    if link is None or not names:
        small, large, from_bytes = ON_WIRES[collective]
        return small if n_bytes < from_bytes else large
    if size & (size - 1):
        names = tuple(name for name in names if (collective, name) not in POWERS_OF_TWO)
    costs = link.alpha, link.beta, link.gamma
    return min(names, key=lambda name: collective_time(collective, name, n_bytes, size, *costs))
