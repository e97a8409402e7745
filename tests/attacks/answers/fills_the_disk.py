# ruff: noqa
"""Fills every place that can be written, with large files, sparse files and many files."""

import os

PLACES = ["/tmp", "/dev/shm", "/var/tmp", "/run", "/dev", "/", "/proc/self"]


def fill():
    total = 0
    for place in PLACES:
        try:
            for n in range(100_000):
                with open(f"{place}/attack-was-here-{n}", "wb") as file:
                    total += file.write(b"x" * (1 << 20 if n < 200 else 0))
        except OSError:
            pass
    if total > (200 << 20):
        raise RuntimeError("ESC" + "APED: wrote " + str(total))
    try:
        os.truncate("/tmp/attack-was-here-0", 1 << 40)
        raise RuntimeError("ESC" + "APED: a file of a terabyte")
    except OSError:
        pass


def scale(x, factor):
    fill()
    return x
