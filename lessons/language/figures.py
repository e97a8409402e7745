"""Figures of lab 18: where a step's time goes, batches slot by slot, the stack with its shares."""

import cProfile
import pstats
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

MOST = 14  # bars


def own_times(run: Callable[[], object], calls: int = 3) -> dict[str, tuple[float, int]]:
    """Return (share of the time, calls) of each function by itself, the largest first."""
    run()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(calls):
        run()
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    whole = sum(entry[2] for entry in stats.values())
    times = dict[str, tuple[float, int]]()
    for (file, _, name), (_, count, own, *_) in sorted(stats.items(), key=lambda item: -item[1][2]):
        label = name_for_people(file, name)
        share, before = times.get(label, (0.0, 0))
        times[label] = share + own / whole, before + count // calls
    return times


def name_for_people(file: str, name: str) -> str:
    """Return a profiled function's name for people: `ufunc.reduce`, `allocator: empty`."""
    if method := re.match(r"<method '(\w+)' of '([\w.]+)' objects>", name):
        return f"{method[2]}.{method[1]}"
    short = re.sub(r" of type object at .*", "", name.strip("<>").removeprefix("built-in method "))
    if file == "~":
        return short
    is_a_cell = file.startswith("<") or Path(file).stem.isdecimal()
    return f"{'a cell' if is_a_cell else Path(file).stem}: {short}"


def draw_profile(found: Mapping[str, tuple[float, int]]) -> None:
    """Draw the functions that take most, and all others together."""
    first = [*found.items()][:MOST]
    rest = 1 - sum(share for _, (share, _) in first)
    names = [f"{name} ({count})" for name, (_, count) in first] + ["all others"]
    _, ax = plt.subplots(figsize=(6.8, 4.2))
    ax.barh(names, [*(share for _, (share, _) in first), rest])
    ax.invert_yaxis()
    ax.set(xlabel="share of a step", title="Where the time goes (calls in a step)")
    plt.show()


def draw_batches(runs: Mapping[str, Any]) -> None:
    """Draw who is in which slot in each iteration, for each run of a simulation."""
    _, axes = plt.subplots(len(runs), 1, figsize=(6.8, 1.9 * len(runs)), sharex=True)
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        bars: dict[tuple[int, int], list[int]] = {}
        for number, iteration in enumerate(run.iterations):
            requests = iteration.starts + iteration.steps
            for request, slot in zip(requests, iteration.slots, strict=True):
                bars.setdefault((slot, request), []).append(number)
        for (slot, request), at in bars.items():
            color = f"C{request % 10}"
            ax.barh(slot, max(at) - min(at) + 1, 0.85, min(at), color=color, edgecolor="white")
        ax.set(title=f"{name}: {len(run.iterations)} iterations", ylabel="slot")
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.invert_yaxis()
    axes[-1].set_xlabel("iteration")
    plt.show()


def draw_growth(
    tokens: Sequence[int], without_ms: Sequence[float], with_ms: Sequence[float]
) -> None:
    """Draw what one token more costs after so many, as a multiple of the first with a cache."""
    _, ax = plt.subplots()
    for times, label in ((without_ms, "the whole row again"), (with_ms, "with a cache")):
        ax.plot(tokens, [time / with_ms[0] for time in times], "o-", label=label)
    ax.set(xlabel="tokens before", ylabel="time, as a multiple", title="One token more")
    ax.legend()
    plt.show()
