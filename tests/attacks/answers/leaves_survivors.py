# ruff: noqa
"""Starts processes that leave their session, their parent and their group, and stay."""

import os
import subprocess
import time


def leave():
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                os.execv("/usr/bin/sleep", ["attack-was-here", "98765"])
            os._exit(0)
    try:
        subprocess.Popen(["/usr/bin/nohup", "/usr/bin/sleep", "98765"], start_new_session=True)
    except OSError:
        pass
    time.sleep(0.05)


def scale(x, factor):
    leave()
    return x
