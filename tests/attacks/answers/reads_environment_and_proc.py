# ruff: noqa
"""Reads every environment, command line, root, descriptor and memory that /proc has."""

import os


def processes():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def hunt():
    if any("SECRET" in name for name in os.environ):
        raise RuntimeError("ESC" + "APED: the judge's environment")
    for pid in processes():
        for file in ("environ", "cmdline", "maps", "cgroup", "mountinfo"):
            try:
                with open(f"/proc/{pid}/{file}", "rb") as opened:
                    found = opened.read()
            except OSError:
                continue
            if b"judge" + b"-only" in found or b"pytest" in found:
                raise RuntimeError("ESC" + "APED: " + repr(found))
        for place in (f"/proc/{pid}/root/work/main", f"/proc/{pid}/cwd/labs"):
            if os.path.exists(place + "/checks.py") or os.path.exists(place + "/pyproject.toml"):
                raise RuntimeError("ESC" + "APED: " + place)
    if len(processes()) > 4:
        raise RuntimeError("ESC" + "APED: sees other processes")
    try:
        with open("/proc/1/mem", "r+b"):
            raise RuntimeError("ESC" + "APED: pid 1 can be written")
    except OSError:
        pass


def scale(x, factor):
    hunt()
    return x
