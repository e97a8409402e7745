# ruff: noqa
"""Talks to the judge's machine and to the world by every family that there is."""

import socket

TARGETS = [
    (socket.AF_INET, ("127.0.0.1", 47811)),
    (socket.AF_INET, ("8.8.8.8", 53)),
    (socket.AF_INET6, ("::1", 47811)),
    (socket.AF_UNIX, "\0attack-target"),
    (socket.AF_UNIX, "/tmp/attack-target"),
    (socket.AF_UNIX, "/run/docker.sock"),
]


def talk():
    for family, address in TARGETS:
        try:
            with socket.socket(family) as connection:
                connection.settimeout(0.2)
                connection.connect(address)
        except OSError:
            continue
        raise RuntimeError("ESC" + f"APED: connected to {address!r}")
    for family in (getattr(socket, "AF_VSOCK", 40), 17, 38):
        try:
            socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW)
        except OSError:
            continue
        raise RuntimeError("ESC" + f"APED: a socket of family {family}")


def scale(x, factor):
    talk()
    return x
