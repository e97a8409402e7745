"""What collectives cost by closed forms: p ranks, n bytes, alpha a message, beta and gamma a byte.

Alpha is the latency of a message, 1/beta the bandwidth of a link, 1/gamma the speed of reducing.
Ranks send and receive at the same time, one message each way. n is the size of the whole array:
of that which is gathered, scattered or exchanged, too.

Source: Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005, section 3.
"""

from collections.abc import Callable
from typing import TypeAlias

from ddp_lab.arguments import check_sizes
from ddp_lab.errors import InvalidArgument, UnknownAlgorithm

# of p, n*beta and n*gamma in seconds, and alpha
Form: TypeAlias = Callable[[int, float, float, float], float]


def rounds(world_size: int) -> int:
    """Return ceil(lg p)."""
    return (world_size - 1).bit_length()


FORMS: dict[tuple[str, str], Form] = {
    ("all_gather", "recursive_doubling"): lambda p, b, g, a: rounds(p) * a + (p - 1) / p * b,
    ("all_gather", "ring"): lambda p, b, g, a: (p - 1) * a + (p - 1) / p * b,
    ("all_reduce", "halving_doubling"): lambda p, b, g, a: (
        2 * rounds(p) * a + 2 * (p - 1) / p * b + (p - 1) / p * g
    ),
    ("all_reduce", "one_shot"): lambda p, b, g, a: (p - 1) * (a + b + g),
    ("all_reduce", "recursive_doubling"): lambda p, b, g, a: rounds(p) * (a + b + g),
    ("all_reduce", "reference"): lambda p, b, g, a: (p - 1) * (2 * a + 2 * b + g),
    ("all_reduce", "ring"): lambda p, b, g, a: (
        2 * (p - 1) * a + 2 * (p - 1) / p * b + (p - 1) / p * g
    ),
    ("all_reduce", "tree"): lambda p, b, g, a: rounds(p) * (2 * a + 2 * b + g),
    ("all_reduce", "two_shot"): lambda p, b, g, a: (
        2 * (p - 1) * a + 2 * (p - 1) / p * b + (p - 1) / p * g
    ),
    ("all_to_all", "reference"): lambda p, b, g, a: (p - 1) * a + (p - 1) / p * b,
    ("barrier", "dissemination"): lambda p, b, g, a: rounds(p) * a,
    ("broadcast", "reference"): lambda p, b, g, a: (p - 1) * (a + b),
    ("broadcast", "tree"): lambda p, b, g, a: rounds(p) * (a + b),
    ("gather", "reference"): lambda p, b, g, a: (p - 1) * a + (p - 1) / p * b,
    ("gather", "tree"): lambda p, b, g, a: rounds(p) * a + (p - 1) / p * b,
    ("reduce", "reference"): lambda p, b, g, a: (p - 1) * (a + b + g),
    ("reduce", "tree"): lambda p, b, g, a: rounds(p) * (a + b + g),
    ("reduce_scatter", "ring"): lambda p, b, g, a: (p - 1) * a + (p - 1) / p * (b + g),
    ("scatter", "reference"): lambda p, b, g, a: (p - 1) * a + (p - 1) / p * b,
    ("scatter", "tree"): lambda p, b, g, a: rounds(p) * a + (p - 1) / p * b,
}
POWERS_OF_TWO = {("all_reduce", "halving_doubling"), ("all_reduce", "recursive_doubling")}


def collective_time(
    collective: str,
    algorithm: str,
    n_bytes: float,
    world_size: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
) -> float:
    """Return the seconds that a collective takes.

    Raises:
        UnknownAlgorithm: there is no closed form for it.
        InvalidArgument: a size that makes no sense, or, for `halving_doubling` and
            `recursive_doubling`, a world size that is no power of two.
    """
    form = FORMS.get((collective, algorithm))
    if form is None:
        names = ", ".join(name for other, name in FORMS if other == collective) or "none"
        raise UnknownAlgorithm(
            f"cost: no closed form for {collective} by {algorithm!r}: expected one of {names}. "
            "Simulate it instead: ddp_lab.simulate.collective."
        )
    check_sizes("cost", "collective", n_bytes, world_size, alpha, beta, gamma)
    if (collective, algorithm) in POWERS_OF_TWO and world_size & (world_size - 1):
        raise InvalidArgument(
            f"cost: {algorithm} has this closed form for powers of two only: got {world_size} "
            "ranks. Simulate it instead: ddp_lab.simulate.collective."
        )
    return float(form(world_size, n_bytes * beta, n_bytes * gamma, alpha))


def all_reduce_time(
    algorithm: str,
    n_bytes: float,
    world_size: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
) -> float:
    """Return the seconds that an all-reduce of `n_bytes` takes; see `collective_time`.

    ring               2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma
    halving_doubling   2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma, p a power of two
    tree               ceil(lg p) (2 alpha + 2 n beta + n gamma): reduce, then broadcast
    """
    return collective_time("all_reduce", algorithm, n_bytes, world_size, alpha, beta, gamma)
