# ruff: noqa
"""Returns lists in lists in lists, one of which holds itself, and numbers without end."""


def scale(x, factor):
    value = []
    if len(x) == 3:
        value.append(value)
        return value
    for _ in range(100_000):
        value = [value]
    return value


largest = 1 << 1_000_000
