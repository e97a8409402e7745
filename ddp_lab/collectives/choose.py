"""What `algorithm="auto"` means: by collective, size in bytes and number of ranks.

All ranks must choose alike, so nothing here may depend on what a single rank knows. The sizes are
where `python bench/ddp_lab_collectives.py --thresholds` saw one algorithm overtake another.
"""

ONE_SHOT_BYTES = 16 * 1024  # what fits a mailbox: one meeting, nothing copied twice
RING_BYTES = 64 * 1024  # below, the ring's 2(W-1) messages cost more than the bytes it saves

ON_WIRES = {
    "all_gather": ("recursive_doubling", "ring"),
    "all_reduce": ("recursive_doubling", "ring"),
    "all_to_all": ("reference", "reference"),
    "barrier": ("dissemination", "dissemination"),
    "broadcast": ("tree", "tree"),
    "gather": ("reference", "reference"),
    "reduce": ("tree", "tree"),
    "reduce_scatter": ("direct", "ring"),
    "scan": ("recursive_doubling", "reference"),
    "scatter": ("reference", "reference"),
}
IN_MEMORY = {
    "all_gather",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
}


def choose(collective: str, n_bytes: int, shared: bool) -> str:
    """Return the name of the algorithm; `shared` says that ranks see each other's memory."""
    if shared and collective == "all_reduce":
        return "one_shot" if n_bytes <= ONE_SHOT_BYTES else "two_shot"
    if shared and collective in IN_MEMORY:
        return "direct"
    small, large = ON_WIRES[collective]
    return small if n_bytes < RING_BYTES else large
