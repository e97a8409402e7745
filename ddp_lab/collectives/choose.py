"""What `algorithm="auto"` means: by collective, size in bytes and number of ranks.

All ranks must choose alike, so nothing here may depend on what a single rank knows.
"""

RING_BYTES = 64 * 1024  # below, the ring's 2(W-1) messages cost more than the bytes it saves


def choose(collective: str, n_bytes: int, size: int, shared: bool) -> str:
    """Return the name of the algorithm; `shared` says that ranks see each other's memory."""
    if collective in ("all_reduce", "reduce_scatter", "all_gather"):
        return "ring" if n_bytes >= RING_BYTES else "reference"
    return "reference"
