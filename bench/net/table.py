"""Two hosts and the link between them: this package beside gloo, and beside what the link allows.

    python bench/net/table.py [--rounds 15] [--rate 400mbit] [--write docs/results/two_hosts.md]

Hosts are namespaces of this machine (`python -m ddp_lab hosts`). A job's ranks measure both sides
in turn; a round takes as long as its slowest rank, and figures are medians of the rounds' ratios.
The link's time is that of the bytes at the link's rate: what headers, acknowledgements and other
programs take is part of the ratio, so plain sockets stand beside. Each line says what was wanted.
"""

import argparse
import json
import os
import platform
import re
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from ranks import FRAME_BYTES, SIZES, Rounds, messages

import ddp_lab
from ddp_lab.errors import HostsRefused
from ddp_lab.launch.hosts import Hosts

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
Row = tuple[str, list[str], str]  # what, the ratios in words, what was wanted
UNSHAPED = "no rate"
MOST_BUSY = 0.2  # cores; from there on times say little
DATA_BYTES = 1448  # what a frame carries by TCP


def run(job: str, n_hosts: int, per_host: int, rate: str | None, rounds: int) -> Rounds:
    """Return the rounds of a job, of each the slowest rank."""
    size = n_hosts * per_host
    with tempfile.TemporaryDirectory() as folder, Hosts(n_hosts, rate=rate) as hosts:
        command = [sys.executable, str(HERE / "ranks.py"), job, folder, str(rounds)]
        environment = {"WORLD_SIZE": str(size), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        processes = [
            hosts.start(rank // per_host, command, {**environment, "RANK": str(rank)})
            for rank in range(size)
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(f"bench-net: {job} failed: exit codes {codes}")
        files = [Path(folder, f"{rank}.json") for rank in range(size)]
        tables = [json.loads(file.read_text()) for file in files]
    return slowest(tables)


def slowest(tables: list[Rounds]) -> Rounds:
    rows = zip(*tables, strict=True)
    return [{name: max(rank[name] for rank in row) for name in row[0]} for row in rows]


def ratio(table: Rounds, of: Callable[[dict[str, float]], float]) -> str:
    """Return a median over rounds, with its quartiles."""
    low, middle, high = statistics.quantiles([of(row) for row in table], n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def reductions(rounds: int, rate: str) -> Iterator[Row]:
    """All-reduce over the link: large arrays beside its time, small ones beside gloo."""
    a_second = bits(rate) / 8
    for per_host, most in ((1, "1.10"), (2, "1.15")):
        table = run("all_reduce", 2, per_host, rate, rounds)
        where = f"{per_host} rank{'s' * (per_host > 1)} a host"
        for size, n_bytes in SIZES.items():
            ours = ratio(table, lambda row, s=size: row[f"{s} ours"] / row[f"{s} gloo"])
            if f"{size} sockets" not in table[0]:
                yield f"all-reduce {size}, {where}", ["", "", "", ours], "1.00 of gloo's"
                continue
            least = n_bytes / a_second
            of_link = [
                ratio(table, lambda row, n=f"{size} {who}", s=least: row[n] / s)
                for who in ("sockets", "gloo", "ours")
            ]
            yield f"all-reduce {size}, {where}", [*of_link, ours], f"{most} of the link's"


def steps(rounds: int, rate: str) -> Iterator[Row]:
    """A DDP step beside forward pass and link, and beside gloo's."""
    a_second, gloo = bits(rate) / 8, "torch's class, gloo"
    for per_host in (1, 2):
        table = run("ddp", 2, per_host, rate, rounds)
        for name in ("torch's class, backend", "ours, backend"):
            of_bound = [
                ratio(table, lambda row, n=n: row[n] / (row["forward"] + row["bytes"] / a_second))
                for n in ("plain sockets", gloo, name)
            ]
            ours = ratio(table, lambda row, n=name: row[n] / row[gloo])
            where = f"{per_host} rank{'s' * (per_host > 1)} a host"
            goal = "1.15 of forward and link, 0.80 of gloo's"
            yield f"DDP step, {name}, {where}", [*of_bound, ours], goal


def unshaped(rounds: int) -> Iterator[Row]:
    """All-reduce where the link is as fast as the machine."""
    for per_host in (1, 2):
        table = run("all_reduce", 2, per_host, None, rounds)
        for size in SIZES:
            ours = ratio(table, lambda row, s=size: row[f"{s} ours"] / row[f"{s} gloo"])
            where = f"{per_host} rank{'s' * (per_host > 1)} a host"
            yield f"all-reduce {size}, {where}, {UNSHAPED}", ["", "", "", ours], "1.00 of gloo's"


def bytes_sent() -> list[tuple[str, float]]:
    """Bytes that a host sends in a step, by the least that the method needs, 2 ranks a host."""
    (row,) = run("counted", 2, 2, None, 1)
    return list(row.items())


def emulated(rounds: int, rate: str) -> Iterator[tuple[str, float]]:
    """The emulated link's seconds by those of namespaces, measured in turns.

    It is given the rate that is left for data: `Link` knows nothing of frames.
    """
    beta = 8 / bits(rate) * FRAME_BYTES / DATA_BYTES
    for n_hosts in (2, 4):
        real: Rounds = []
        pretended: Rounds = []
        for _ in range(3):
            real += run("on_a_link", n_hosts, 1, rate, max(2, rounds // 3))
            link = ddp_lab.Link(real[-1]["alpha"], beta)
            options = {"hosts": n_hosts, "link": link, "timeout_s": 600.0}
            ranks = ddp_lab.launch(messages, n_hosts, max(2, rounds // 3), **options)
            pretended += slowest(list(ranks))
        for name in pretended[0]:
            middle = [statistics.median(row[name] for row in side) for side in (pretended, real)]
            yield name, middle[0] / middle[1]


def bits(rate: str) -> float:
    match = re.fullmatch(r"(\d+)([kmg])bit", rate)
    if match is None:
        raise SystemExit(f"bench-net: this is no rate: got {rate!r}, expected such as 400mbit.")
    return float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]]


def busy_cores() -> float:
    """Return how many cores other programs keep busy, counted over two seconds."""
    return sum(psutil.cpu_percent(2.0, percpu=True)) / 100


def machine(others: float) -> str:
    cores = len(os.sched_getaffinity(0))
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    return (
        f"{cores} cores of {platform.machine()}, Linux, TCP's congestion control {control}; when "
        f"it began, other programs kept {others:.1f} of them busy"
    )


def report(rounds: int, rate: str) -> Iterator[str]:
    """Yield the lines of the page, each part as soon as it is measured."""
    others = busy_cores()
    yield "# Two hosts and a link"
    yield ""
    yield f"What `make bench-net` printed: medians of {rounds} rounds, quartiles behind them."
    yield f"Hosts are namespaces of one machine ({machine(others)}),"
    yield f"the link has {rate}/s each way."
    yield "Times are in units of the link's own (the bytes at its rate; for a DDP step after the"
    yield "forward pass); in the last column but one in units of gloo's, measured in turn."
    yield "Beside a DDP step plain sockets carry as many bytes while the same model computes, from"
    yield "its first gradients on, and add nothing up: so much these cores leave of the link."
    if others > MOST_BUSY:
        yield ""
        yield "**The machine was busy**: its ranks waited for cores, and only the bytes say much."
    yield ""
    yield "| | plain sockets | gloo | ddp_lab | ddp_lab by gloo | at most |"
    yield "|---|---|---|---|---|---|"
    for rows in (reductions(rounds, rate), steps(rounds, rate), unshaped(rounds)):
        for name, cells, goal in rows:
            yield f"| {name} | {' | '.join(cells)} | {goal} |"
    yield ""
    yield "| bytes that a host sends in a step, 2 hosts of 2 ranks | by the least it needs |"
    yield "|---|---|"
    for name, share in bytes_sent():
        yield f"| {name} | {share:.2f} |"
    yield ""
    yield "Counted at the interface, acknowledgements and headers too, these once a run of packets;"
    yield "without what TCP sent a second time."
    yield ""
    yield f"| the emulated link of `launch(link=)`, {rate}/s | its time by that of namespaces |"
    yield "|---|---|"
    for name, share in emulated(rounds, rate):
        yield f"| {name} | {share:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rate", default="400mbit")
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    options = parser.parse_args()
    lines = []
    try:
        for line in report(options.rounds, options.rate):
            print(line, flush=True)
            lines.append(line)
    except HostsRefused as refused:
        raise SystemExit(str(refused)) from None
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
