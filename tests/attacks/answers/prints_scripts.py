# ruff: noqa
"""Puts scripts, terminal escapes and text that runs backwards where people will read them."""

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>"
    "\x1b[2J\x1b]0;owned\x07\u202e\u2066gnp.exe\u200b\ud800\r\x00 ]]></failure>"
)


class Odd(Exception):
    def __str__(self):
        return HOSTILE


Odd.__name__ = Odd.__qualname__ = HOSTILE.encode("utf-8", "replace").decode().replace("\x00", "")


def scale(x, factor):
    print(HOSTILE.encode("utf-8", "replace").decode())
    if len(x) == 3:
        raise Odd(HOSTILE)
    return HOSTILE.replace("\ud800", "")


def pass_on(comm, x):
    raise ValueError(HOSTILE)
