"""The search for schedules: on a landscape whose best point is known, and its logs."""

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from minitorch.compile import (
    CostModel,
    Schedule,
    processor,
    recorded,
    recorded_tasks,
    space,
    tune,
    tuning,
)
from minitorch.compile.cost_model import Ridge, Trees, by_pairs
from minitorch.compile.tuning import Clock

TASK = ("matmul", 64, 64, 64)
Point = dict[str, Any]


def landscape(point: Point) -> float:
    """Return seconds that depend on two knobs together and on two more alone; 1e-3 is the best."""
    away = abs(math.log2(point["rows"] * point["vectors"]) - 4) + abs(math.log2(point["lanes"]) - 3)
    return float(1e-3 * 1.5**away * (1 if point["pack_b"] else 1.3))


@pytest.mark.parametrize("search", ["learned", "genetic", "annealing", "random"])
def test_a_search_tries_new_legal_points_and_is_the_same_again_with_its_seed(search: str) -> None:
    found, again = (tune(TASK, 20, search, landscape, seed=3) for _ in range(2))
    assert found.history == again.history and len(found.history) == 20
    assert len({str(point) for point, _ in found.history}) == 20
    legal = space(TASK).legal
    assert all(legal(point) and landscape(point) == s for point, s in found.history)
    assert isinstance(found.best, Schedule)
    assert found.seconds == min(s for _, s in found.history) == landscape(dict(found.best))
    assert found.curve()[-1] == found.seconds


def test_what_learns_finds_better_points_than_chance() -> None:
    ends = {
        search: np.median(
            [tune(TASK, 40, search, landscape, seed=s, start_from=()).seconds for s in range(3)]
        )
        for search in ("learned", "annealing", "random")
    }
    assert ends["learned"] == pytest.approx(1e-3)
    assert ends["annealing"] < ends["random"]


def test_a_search_ends_with_the_space() -> None:
    tiny = ("matmul", 1, 1, 1)
    assert len(tune(tiny, 1000, "random", lambda _: 1.0).history) == len(space(tiny))


def test_a_log_is_gone_on_from_and_other_lines_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, asked = tmp_path / "trials.jsonl", []

    def measure(point: Point) -> float:
        asked.append(point)
        return landscape(point)

    first = tune(TASK, 20, "learned", measure, log=log)
    tune(("matmul", 32, 32, 32), 4, "random", landscape, log=log)
    with log.open("a") as file:
        file.write('{"task": ["matmul", 64, 64, 64], "point": {"rows"')  # cut off
    with caplog.at_level(logging.WARNING):
        second = tune(TASK, 30, "learned", measure, log=log)
    assert len(asked) == 30 and second.history[:20] == first.history
    assert len(second.skipped) == 5 and "damaged" in second.skipped[-1]
    assert "another task, matmul 32 32 32" in caplog.text and "damaged" in caplog.text
    assert len(tune(TASK, 30, measure=measure, log=log).history) == len(asked) == 30
    assert all(json.loads(line) for line in log.read_text().splitlines() if "seconds" in line)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"seconds": -1}, "-1.0 seconds"),
        ({"processor": "z80"}, "measured on z80"),
        ({"point": {"rows": 0}}, "rows is 0"),
        ({"point": [1]}, "damaged"),
        ({"task": ["conv2d", 1, 1, 4, 4, 1, 3, 3]}, "another task"),
        ({"task": 5}, "damaged"),
    ],
)
def test_a_line_that_cannot_be_used_is_said(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    log = tmp_path / "log"
    good = {"task": TASK, "point": {"rows": 2}, "seconds": 1, "processor": processor()}
    log.write_text(json.dumps(good) + "\n[]\n\xff\n" + json.dumps(good | change) + "\n")
    found, skipped = tuning.read(log, "matmul", Schedule(TASK).task)
    assert len(found) == 1 and len(skipped) == 3
    assert words in skipped[2]


def test_another_shapes_log_gives_a_search_its_start(tmp_path: Path) -> None:
    log = tmp_path / "small.jsonl"
    tune(("matmul", 32, 32, 64), 60, "learned", landscape, log=log, start_from=())
    firsts = {True: [], False: []}  # type: dict[bool, list[float]]
    for seed in range(5):
        for known in firsts:
            start = log if known else ()
            found = tune(TASK, 8, "learned", landscape, seed=seed, start_from=start)
            firsts[known].append(found.seconds)
    assert np.median(firsts[True]) < np.median(firsts[False])
    with pytest.raises(FileNotFoundError):
        tune(TASK, 8, measure=landscape, start_from=tmp_path / "none")
    with pytest.raises(ValueError, match="path of a log"):
        tune(TASK, 8, measure=landscape, start_from=[1])  # type: ignore[arg-type]


def test_a_clock_refuses_a_kernel_that_computes_something_else() -> None:
    clock = Clock(Schedule(TASK).task)
    assert 0 < clock({"rows": 4, "lanes": 8}) < 1
    with pytest.raises(RuntimeError, match="off by"):
        clock.of(lambda: np.zeros_like(clock.right))
    with pytest.raises(RuntimeError, match="off by nan"):
        clock.of(lambda: clock.out)


def test_a_short_kernel_is_not_judged_by_its_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = Clock(Schedule(TASK).task), [0.0]
    monkeypatch.setattr("minitorch.compile.tuning.time.perf_counter", lambda: now[0])
    counts = Counter[str]()

    def kernel(name: str, first: float, later: float) -> Callable[[], Any]:
        def run() -> Any:
            now[0] += later if counts[name] else first
            counts[name] += 1
            return clock.right

        return run

    assert clock.of(kernel("best", 3e-4, 5e-5)) == pytest.approx(5e-5)
    assert clock.of(kernel("cold", 3e-4, 6e-5)) == pytest.approx(6e-5)
    assert clock.of(kernel("slow", 3e-4, 2e-4)) == pytest.approx(2e-4) and counts["slow"] == 2
    assert clock.of(kernel("slowest", 3e-2, 3e-2)) == pytest.approx(3e-2)
    assert counts["slowest"] == 1


def test_tuning_by_the_clock_gives_a_schedule_that_computes() -> None:
    found = tune(("conv2d", 1, 2, 8, 8, 4, 3, 3, 1, 1), 3, "random")
    assert len(found.history) == 3 and "for " in str(found.best)


def test_arguments_that_cannot_be_are_refused() -> None:
    for bad in ({"trials": 0}, {"trials": 1.5}, {"search": "magic"}, {"measure": lambda p: None}):
        with pytest.raises(ValueError, match=r"tune: got|gave no number"):
            tune(TASK, **bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected seconds above zero"):
        tune(TASK, measure=lambda p: math.nan)


# ---- cost models


def test_ridge_is_scikit_learns() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    scaled = (x - x.mean(0)) / x.std(0)
    right = linear_model.Ridge(alpha=2.0).fit(scaled, y).predict(scaled)
    np.testing.assert_allclose(Ridge(2.0).fit(x, y).predict(x), right, 1e-9)


def test_trees_are_scikit_learns() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    right = ensemble.GradientBoostingRegressor(
        n_estimators=20, learning_rate=0.15, max_depth=3,
        min_samples_leaf=2, random_state=0,
    ).fit(x, y).predict(x)  # fmt: skip
    np.testing.assert_allclose(Trees(20, 3, 0.15, 2).fit(x, y).predict(x), right, 1e-6, 1e-9)


def test_pairs_move_scores_down_the_slope_of_the_logistic_loss() -> None:
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=9), rng.integers(0, 4, 9).astype(float)
    s = torch.tensor(scores, requires_grad=True)
    slower = torch.tensor(y[:, None] > y)
    loss = torch.nn.functional.softplus(-(s[:, None] - s))[slower].sum() / len(y)
    loss.backward()
    np.testing.assert_allclose(by_pairs(scores, y), -np.asarray(s.grad), 1e-12)


@pytest.mark.parametrize("kind", ["both", "ridge", "trees", "rank"])
@pytest.mark.parametrize("task", [None, TASK])
def test_a_model_ranks_points_it_has_not_seen_and_says_what_matters(kind: str, task: Any) -> None:
    points = np.random.default_rng(1).permutation(space(TASK).points())
    seconds = [landscape(point) for point in points]
    model = CostModel(task, kind)
    with pytest.raises(ValueError, match="Call fit first"):
        model.predict(points)
    assert model.fit(points[:150], seconds[:150]) is model
    guesses, right = model.predict(points[150:]), np.array(seconds[150:])
    assert guesses.shape == right.shape and (guesses > 0).all()
    ranks = [np.argsort(np.argsort(v)) for v in (guesses, right)]
    assert np.corrcoef(*ranks)[0, 1] > (0.55 if kind == "ridge" else 0.8)
    weights = model.explain()
    assert set(weights) == set(points[0]) and sum(weights.values()) == pytest.approx(1)
    assert weights["lanes"] > 0.2 and weights["unroll"] + weights["tile_k"] < 0.1


def test_a_model_takes_any_knobs_and_one_point() -> None:
    model = CostModel().fit([{"a": 1, "b": "x"}], [0.5])
    np.testing.assert_allclose(model.predict([{"a": 2, "b": "y"}]), [0.5])
    for points, seconds in (([], []), ([{"a": 1}], [0.0]), ([{"a": 1}], [1.0, 2.0])):
        with pytest.raises(ValueError, match="fit"):
            CostModel().fit(points, seconds)
    with pytest.raises(ValueError, match="kind"):
        CostModel(kind="oracle")


# ---- recorded tables


def test_on_a_recorded_table_chance_is_far_from_the_best_after_64_trials() -> None:
    table = recorded(("matmul", 512, 512, 512))
    points = table.space.points()
    assert len(points) == len(table.seconds) and table(points[7]) == table.seconds[7]
    chance = [
        tune(table.task, 64, "random", table, seed, space=table.space).seconds for seed in range(9)
    ]
    assert np.median(chance) > 1.10 * table.seconds.min()


@pytest.mark.parametrize("task", recorded_tasks(), ids=lambda task: "-".join(map(str, task)))
def test_twenty_trials_of_what_learns_are_near_the_best_of_a_course_layer(
    task: tuple[Any, ...],
) -> None:
    table = recorded(task)
    assert len(table.seconds) == len(table.space) > 1000
    seeds = range(3 if os.environ.get("WIDE") else 1)
    found = [tune(task, 20, "learned", table, seed, space=table.space).seconds for seed in seeds]
    assert np.median(found) <= 1.10 * table.seconds.min()


def test_what_is_not_recorded_is_refused() -> None:
    with pytest.raises(ValueError, match="no table of matmul 3 4 5, but of"):
        recorded(("matmul", 3, 4, 5))
    with pytest.raises(ValueError, match="none of its points"):
        recorded(("matmul", 256, 256, 256))({"rows": 3})
