"""Apple's GPUs, which minitorch does not use."""


def is_available() -> bool:
    """Tell that there is none."""
    return False


is_built = is_available
