"""Figures of control flow: where tokens were, and what branches, padding and batches cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from lessons.graphs.tokens import DEAD, TokenRun
from minitorch.arrays.library import Array


def draw_tokens(done: TokenRun, title: str) -> None:
    """Draw a run: a row for each node, one colour an iteration, a cross where a token was dead."""
    names: Counter[str] = Counter()
    rows: dict[Any, tuple[int, str]] = {}
    for node, _, _ in done.events:
        if node not in rows:
            names[node.name] += 1
            more = f" ({names[node.name]})" if names[node.name] > 1 else ""
            rows[node] = (len(rows), node.name + more)
    _, ax = plt.subplots(figsize=(6.8, 0.6 + 0.24 * len(rows)))
    for when, (node, tag, token) in enumerate(done.events):
        color = f"C{tag[-1][1] % 6}" if tag else "#57606a"
        marker = "x" if token is DEAD else "o"
        ax.plot(when, rows[node][0], marker, color=color, markersize=7)
        if isinstance(token, (np.ndarray, np.generic)) and token.ndim == 0:
            place = when, rows[node][0]
            ax.annotate(f"{token:g}", place, (4, 3), textcoords="offset points", fontsize=7)
    ax.set_yticks(range(len(rows)), [label for _, label in rows.values()])
    ax.set(xlabel="firing", title=title, ylim=(len(rows) - 0.4, -0.6))
    ax.margins(x=0.04)
    plt.show()


def plot_branch(shares: Array, predicted_ms: Any, measured_ms: Any) -> None:
    """Plot the time of a run over the share of runs that take the expensive side."""
    _, ax = plt.subplots(figsize=(6.8, 2.6))
    ax.plot(100 * shares, predicted_ms, lw=1, color="C4", label="from the first and the last")
    ax.plot(100 * shares, measured_ms, "o", color="C0", label="measured")
    ax.set(xlabel="runs whose predicate is true, %", ylabel="ms a run", ylim=(0, None))
    ax.set_title("What a branch of a hundred products costs")
    ax.legend()
    plt.show()


def plot_ways(each_ms: Mapping[str, float], predicted: Any, at: int) -> None:
    """Plot the time of a sentence in several ways; the prediction, a ratio, stands at bar `at`."""
    _, ax = plt.subplots()
    costs = list(each_ms.values())
    ax.barh(list(each_ms), costs)
    for place, cost in enumerate(costs):
        is_predicted = place == at and predicted is not ...
        end = max(cost, predicted * costs[0]) if is_predicted else cost  # right of bar and mark
        ax.text(end, place, f"   {costs[0] / cost:.1f} x", va="center")
    if predicted is not ...:
        ax.plot(predicted * costs[0], at, "D", color="C1", label="your prediction")
        ax.legend(loc="lower right")
    ax.set(xscale="log", xlabel="ms a sentence")
    ax.set(title="One network, five ways; speed against the loop")
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    plt.show()


def plot_trees(sizes: Sequence[int], taken_s: Any, cells: Any, device: str) -> None:
    """Plot trees a second by recursion and by batching, beside what the cells alone would give."""
    _, ax = plt.subplots()
    price = taken_s[0, 0] / cells[0, 0]  # of one cell, from the first tree alone
    for k, (name, marker) in enumerate([("recursion", "o"), ("batched by height", "s")]):
        trees_per_s = sizes / taken_s[:, k]
        ax.loglog(sizes, trees_per_s, marker, ls="", color=f"C{k}", label=f"{name}, {device}")
        label = "" if k else "if only the number of cells counted"
        ax.loglog(sizes, sizes / (price * cells[:, k]), color="C4", lw=1, ls=":", label=label)
    ax.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    ax.xaxis.set_minor_formatter("")
    ax.set(xlabel="trees at once", ylabel="trees a second, forward and backward")
    ax.set_title("What differs in structure can still share its operators")
    ax.legend()
    plt.show()
