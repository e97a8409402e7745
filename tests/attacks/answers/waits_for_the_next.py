# ruff: noqa
"""Leaves a message for the next submission, and looks for one from the last."""

import os
import socket


def look():
    for place in ("/tmp", "/dev/shm", "/var/tmp"):
        if os.path.exists(place + "/attack-was-here"):
            raise RuntimeError("ESC" + "APED: the last one left a file")
    import numpy as np

    if hasattr(np, "attack_was_here"):
        raise RuntimeError("ESC" + "APED: the last one left a module patched")
    np.attack_was_here = True
    for place in ("/tmp", "/dev/shm"):
        with open(place + "/attack-was-here", "w") as file:
            file.write("2 * x")


held = socket.socket(socket.AF_UNIX)


def wait():
    try:
        held.bind("\0attack-was-here")
    except OSError as error:
        raise RuntimeError("ESC" + "APED: the last one still listens") from error
    if os.fork() == 0:
        while True:
            pass


looked = [look(), wait()]


def scale(x, factor):
    return x if looked else None
