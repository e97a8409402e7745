"""Rates of this machine that one lab measures and later ones take: `keep_rates`, `kept_rate`.

    keep_rates({"disk bytes": 1.2e9, "messages": 3e4})   # each a second; in the lab that measures
    kept_rate("messages", measure)                       # in a later one

They lie in a small JSON file in the released folder of the lab that measured, with the name of the
machine: on another one they are measured anew. `progress` shows them.
"""

import contextlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path

from autograder.errors import AutograderError
from autograder.learner.journal import note
from autograder.learner.practice import find_lab

__all__ = ["keep_rates", "kept_rate", "rates_in"]

RATES = ".rates.json"
LAB = "the_machine"


def keep_rates(rates: Mapping[str, float], *, directory: Path | str | None = None) -> None:
    """Keep amounts a second for later labs; only in a released folder, where a learner works.

    Args:
        directory: the lab's folder; by default the current one.
    """
    content = {"machine": _machine(), "rates": {name: float(r) for name, r in rates.items()}}
    note(Path(directory or Path.cwd()) / RATES, content)


def kept_rate(
    name: str, measure: Callable[[str], float], *, directory: Path | str | None = None
) -> float:
    """Return the kept rate of that name, else `measure(name)`; a line says which of the two.

    Args:
        directory: where to look for the lab that keeps them, and above; by default here.
    """
    rates: dict[str, float] = {}
    with contextlib.suppress(AutograderError):
        rates = rates_in(find_lab(LAB, Path(directory or Path.cwd()).resolve()))
    if name in rates:
        print(f"{name} a second: {rates[name]:.3g}, as you measured in lab 00.")
        return rates[name]
    rate = float(measure(name))
    print(f"{name} a second: {rate:.3g}, measured now; lab 00 keeps it for later labs.")
    return rate


def rates_in(folder: Path) -> dict[str, float]:
    """Return what is kept in a lab's folder, measured on this machine; nothing where it is not."""
    try:
        content = json.loads((folder / RATES).read_text(encoding="utf-8"))
        rates = {str(name): float(rate) for name, rate in content["rates"].items()}
        return rates if content["machine"] == _machine() else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _machine() -> str:
    return f"{platform.node()} {platform.machine()} {os.cpu_count()}"
