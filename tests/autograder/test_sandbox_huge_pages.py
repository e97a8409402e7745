"""A warm process's heap in huge pages: what is moved, and that it stays what it was."""

import re
import subprocess
import sys
from pathlib import Path

from autograder.sandbox import zygote

MAPS = """\
55d0c0000000-55d0c0700000 rw-p 00000000 00:00 0                          [heap]
7f0000100000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 rw-p 00000000 00:00 0
7f0001000000-7f0001400000 r--p 00000000 00:00 0
7f0002000000-7f0002400000 rw-s 00000000 00:01 9                          /dev/zero (deleted)
7f0003000000-7f0003400000 rw-p 00000000 fd:00 77                         /usr/lib/a library.so
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0                          [stack]
"""
COLLAPSE = """
import re
from autograder.sandbox import zygote
content = bytearray(range(256)) * (100 << 12)
moved = zygote.collapse_heap()
lines = open("/proc/self/smaps").readlines()
huge = sum(int(re.search(r"\\d+", line)[0]) << 10 for line in lines if "AnonHugePages" in line)
assert content == bytearray(range(256)) * (100 << 12)
print(moved, huge)
"""


def test_only_whole_huge_pages_of_the_heap_are_moved() -> None:
    heap, large = zygote.heap(MAPS)
    assert heap == (0x55D0C0000000, 0x55D0C0600000)
    assert large == (0x7F0000200000, 0x7F0000400000)


def test_a_large_heap_lies_in_huge_pages_where_the_kernel_can_and_is_unchanged() -> None:
    run = subprocess.run([sys.executable, "-c", COLLAPSE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    moved, huge = map(int, run.stdout.split())
    assert huge >= moved
    release = re.match(r"(\d+)\.(\d+)", Path("/proc/sys/kernel/osrelease").read_text())
    assert release is not None
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if (int(release[1]), int(release[2])) >= (6, 1) and mode.is_file():
        assert moved or "[never]" in mode.read_text()


def test_a_small_heap_stays_where_it_is() -> None:
    code = "from autograder.sandbox import zygote; print(zygote.collapse_heap())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "0\n", run.stderr
