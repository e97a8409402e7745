# ruff: noqa
"""Returns what makes a check raise, hoping that a broken check is given away."""


def scale(x, factor):
    return {"shape": None} if len(x) == 3 else None


def pass_on(comm, x):
    return object()


largest = [17.25, None]
