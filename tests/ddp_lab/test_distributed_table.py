"""A table of what works with torch.distributed over gloo and over our backend, side by side.

Each feature runs on two ranks over both, and what they compute is compared. The table is printed
at the end of the tests; `distributed_features.py` holds the features.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

PROGRAM = Path(__file__).with_name("distributed_features.py")
LACKING: dict[str, str] = {}  # what gloo has and we have not, and why
Found = dict[str, tuple[Any, str]]


@pytest.fixture(scope="module")
def found(python: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Found]]:
    """Return for each backend what each rank found."""
    folder = tmp_path_factory.mktemp("features")
    return {backend: run(python, backend, folder) for backend in ("gloo", "ddp_lab")}


def run(python: Any, backend: str, folder: Path) -> list[Found]:
    results = [folder / f"{backend}-{rank}" for rank in range(2)]
    ranks = [(backend, folder / backend, rank, result) for rank, result in enumerate(results)]
    ended = python(PROGRAM, *ranks)
    assert [rank.status for rank in ended] == [0, 0], ended
    return [torch.load(result, weights_only=False) for result in results]


def verdict(theirs: list[Found], ours: list[Found], name: str) -> str:
    """Return how our backend compares with gloo in a feature."""
    if errors := [rank[name][1] for rank in ours if rank[name][1]]:
        return f"no: {errors[0]}"
    if any(rank[name][1] for rank in theirs):
        return "yes"
    try:
        for left, right in zip(ours, theirs, strict=True):
            check_same(left[name][0], right[name][0])
    except AssertionError as error:
        return f"differs: {error}"
    return "the same"


def check_same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor | float):
        torch.testing.assert_close(ours, theirs)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for left, right in zip(ours, theirs, strict=True):
            check_same(left, right)
    else:
        assert ours == theirs


def table(rows: dict[str, tuple[str, str]]) -> str:
    """Return rows of (over gloo, over ours) by feature as text."""
    lines = [f"{'feature':52} | {'gloo':4} | ddp_lab"]
    for name, (theirs, ours) in rows.items():
        text = f"no: {LACKING[name]}" if name in LACKING else ours
        lines.append(f"{name:52} | {theirs:4} | {text[:90]}")
    return "\n".join(lines)


@pytest.mark.timeout(600)
def test_what_works_over_gloo_works_over_our_backend_alike(
    found: dict[str, list[Found]], record_property: Callable[[str, object], None]
) -> None:
    theirs, ours = found["gloo"], found["ddp_lab"]
    rows = {
        name: (
            "no" if theirs[0][name][1] else "yes",
            verdict(theirs, ours, name),
        )
        for name in theirs[0]
    }
    record_property("table", table(rows))
    lacking = {
        name: ours
        for name, (has, ours) in rows.items()
        if (has == "yes" and ours != "the same") or ours.startswith("differs")
    }
    assert set(lacking) == set(LACKING), lacking


def test_a_result_that_is_slightly_off_is_seen() -> None:
    right: list[Found] = [{"all_reduce": ([torch.ones(2)], "")}]
    wrong: list[Found] = [{"all_reduce": ([torch.ones(2) * 1.0005], "")}]
    failed: list[Found] = [{"all_reduce": (None, "RuntimeError: no")}]
    assert verdict(right, right, "all_reduce") == "the same"
    assert verdict(right, wrong, "all_reduce").startswith("differs")
    assert verdict(right, failed, "all_reduce") == "no: RuntimeError: no"
