"""Apple's GPUs, which minitorch does not use."""


def is_available() -> bool:
    """Tell that there is none."""
    return False


def is_built() -> bool:
    """Tell that there is none."""
    return False
