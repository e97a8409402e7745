"""cuDNN's switches. The array library for CUDA has its own; these change nothing."""

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Tell whether minitorch itself calls cuDNN: it does not."""
    return False


def version() -> None:
    """Return the version of cuDNN that minitorch itself calls: none."""
