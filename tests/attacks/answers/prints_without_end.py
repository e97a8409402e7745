# ruff: noqa
"""An output bomb, through Python and past it."""

import os


def bomb():
    while True:
        print("x" * 100_000)
        os.write(2, b"y" * 100_000)


def scale(x, factor):
    bomb()
