"""Serving without a process: controllers, queue, cache, policies and wire, on a virtual clock."""

import asyncio
import itertools
import math
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn
from prometheus_client import CollectorRegistry

from minitorch.errors import ArgumentError, DTypeError, MinitorchError, ServeError, ShapeError
from minitorch.serve import AIMD, Cache, NoBatching, Quantile, Server, VirtualClock, http, simulate
from minitorch.serve import connections as front_connections
from minitorch.serve.__main__ import listen
from minitorch.serve.admission import Admission, Gate
from minitorch.serve.asks import App
from minitorch.serve.batching import LatencyLine, quantile_line
from minitorch.serve.cache import ENTRY_BYTES, MISS
from minitorch.serve.container import answer, as_model
from minitorch.serve.dispatch import Dispatcher, Lane, Query
from minitorch.serve.selection import Ensemble, Exp3, Exp4, Policy, loss
from minitorch.serve.wire import as_input, pack_array, pack_results, unpack_results

GOAL_MS, FIXED_MS, PER_ITEM_MS = 20.0, 1.0, 0.1
LARGEST = int((GOAL_MS - FIXED_MS) / PER_ITEM_MS)  # 190
SATURATING = np.arange(0, 3000, 0.09)


# ---- controllers


def test_no_batching_computes_one_query_at_a_time() -> None:
    found = simulate([(1.0, 0.1)], range(0, 100, 3), "none", GOAL_MS)
    assert found.batches == [1] * 34
    np.testing.assert_allclose(found.latency_ms, 1.1)


def test_aimd_goes_up_by_one_and_down_by_a_tenth_about_the_largest_batch() -> None:
    sizes = simulate([(FIXED_MS, PER_ITEM_MS)], SATURATING, "aimd", GOAL_MS).batches[:-1]
    assert sizes[: LARGEST + 1] == list(range(1, LARGEST + 2))
    for before, after in itertools.pairwise(sizes):
        assert after == (before + 1 if before <= LARGEST else int(before * 0.9))


def test_quantile_regression_finds_the_largest_batch_and_never_more_than_doubles() -> None:
    sizes = simulate([(FIXED_MS, PER_ITEM_MS)], SATURATING, "quantile", GOAL_MS).batches[:-1]
    assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))
    assert set(sizes[20:]) <= {LARGEST - 1, LARGEST}


def test_the_quantiles_line_leaves_the_quantile_below_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(1, 100, 4000).astype(float)
    y = 2 + 0.1 * x + rng.exponential(1.0, 4000)
    for quantile in (0.5, 0.9, 0.99):
        fixed, per_item = quantile_line(x, y, quantile)
        assert abs(np.mean(y < fixed + per_item * x) - quantile) < 0.005
        assert abs(fixed - (2 - math.log(1 - quantile))) < 0.25  # the exponential's own quantile
        assert abs(per_item - 0.1) < 0.005


def test_a_slow_tail_keeps_the_quantiles_batch_below_the_means() -> None:
    rng = np.random.default_rng(1)
    noisy = [lambda size: FIXED_MS + PER_ITEM_MS * size * rng.choice([1.0, 2.0], p=[0.9, 0.1])]
    sizes = simulate(noisy, SATURATING, "quantile", GOAL_MS).batches
    assert np.median(sizes[50:]) < 0.6 * LARGEST


def test_pauses_that_have_nothing_to_do_with_size_do_not_end_batching() -> None:
    rng = np.random.default_rng(2)
    paused = [lambda n: FIXED_MS + PER_ITEM_MS * n + rng.choice([0.0, 50.0], p=[0.97, 0.03])]
    sizes = simulate(paused, SATURATING, "quantile", GOAL_MS).batches
    assert np.median(sizes[50:]) > 0.8 * LARGEST


GOALS_MS, BEST, SHARES = (5.0, 20.0, 100.0), (1, 2, 3, 5, 10, 19, 60, 150), (0.0, 0.25, 0.5, 0.9)


@pytest.mark.parametrize("batching", ["aimd", "quantile"])
@pytest.mark.parametrize(
    ("fixed_share", "best", "goal_ms"),  # every two of them meet
    [(s, b, GOALS_MS[(i + j) % 3]) for i, s in enumerate(SHARES) for j, b in enumerate(BEST)],
)
def test_every_controller_ends_near_the_largest_batch_that_meets_the_goal(
    fixed_share: float, best: int, goal_ms: float, batching: str
) -> None:
    fixed_ms = fixed_share * goal_ms
    per_item_ms = (goal_ms - fixed_ms) / (best + 0.5)
    arrivals = np.zeros(best * (best + 60))
    sizes = simulate([(fixed_ms, per_item_ms)], arrivals, batching, goal_ms).batches[:-1]
    ended = np.mean(sizes[-len(sizes) // 4 :])
    assert abs(ended - best) <= max(0.1 * best, 0.6)


@pytest.mark.parametrize("batching", ["aimd", "quantile"])
def test_a_container_that_never_meets_the_goal_gets_one_query_at_a_time(batching: str) -> None:
    sizes = simulate([(30.0, 1.0)], np.zeros(500), batching, GOAL_MS).batches
    assert max(sizes) == 1


@pytest.mark.parametrize("batching", ["aimd", "quantile"])
def test_a_controller_follows_a_container_that_becomes_faster_and_slower(batching: str) -> None:
    started = itertools.count()

    def took_ms(size: int) -> float:
        fixed_ms = (10.0, 1.0, 15.0)[min(next(started) // 600, 2)]
        return fixed_ms + size

    sizes = simulate([took_ms], np.zeros(25_000), batching, GOAL_MS).batches[:1900]
    for end, best in ((600, 10), (1200, 19), (1800, 5)):
        assert abs(np.mean(sizes[end - 100 : end]) - best) <= max(0.1 * best, 0.6)


@pytest.mark.parametrize("make", [NoBatching, AIMD, Quantile])
def test_a_limit_never_falls_below_one(make: Callable[[float], Any]) -> None:
    controller = make(1.0)
    for _ in range(50):
        controller.observe(controller.limit, 100.0)
    assert controller.limit == 1


def test_a_batch_that_is_not_full_says_nothing_of_larger_ones() -> None:
    controller = AIMD(GOAL_MS)
    for _ in range(10):
        controller.observe(controller.limit, 1.0)
    for _ in range(10):
        controller.observe(3, 1.0)
    assert controller.limit == 11


# ---- the queue


def test_no_query_waits_where_one_is_computed_before_the_next_arrives() -> None:
    """M/D/1 with no overlap: each latency is the evaluation alone."""
    found = simulate([(2.0, 0.5)], range(0, 300, 3), "aimd", GOAL_MS)
    np.testing.assert_allclose(found.latency_ms, 2.5)


def test_replicas_share_the_queries() -> None:
    one, two = (
        simulate([(FIXED_MS, PER_ITEM_MS)] * n, [0.0] * 30_000, "aimd", GOAL_MS) for n in (1, 2)
    )
    assert max(run.ended_ms for run in two.runs) < 0.6 * max(run.ended_ms for run in one.runs)
    assert sorted(q for run in two.runs for q in run.queries) == list(range(30_000))


def test_a_delay_waits_for_more_queries_and_no_longer() -> None:
    arrivals = [0.0, 1.0, 10.0]
    plain = simulate([(0.1, 0.0)], arrivals, lambda goal: Fixed(4), GOAL_MS)
    assert plain.batches == [1, 1, 1]
    delayed = simulate([(0.1, 0.0)], arrivals, lambda goal: Fixed(4), GOAL_MS, delay_ms=2.0)
    assert delayed.batches == [2, 1]
    np.testing.assert_allclose(delayed.latency_ms, [2.1, 1.1, 2.1])


class Fixed:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def observe(self, size: int, took_ms: float) -> None:
        pass


def test_under_overload_a_server_answers_in_time_nearly_as_many_as_it_can_compute() -> None:
    found = simulate([(FIXED_MS, PER_ITEM_MS)], SATURATING, "aimd", GOAL_MS, deadlines=True)
    latency = np.array(found.latency_ms)
    in_time = latency[np.isfinite(latency)]
    assert np.quantile(in_time, 0.99) <= GOAL_MS
    capacity = 1 / PER_ITEM_MS  # a ms, were the fixed part nothing
    assert np.sum(in_time <= GOAL_MS) > 0.8 * capacity * SATURATING[-1]


class Rig:
    """A dispatcher on a virtual clock with one lane, which notes its batches."""

    def __init__(self, limit: int = 4, drops: bool = True) -> None:
        self.clock = VirtualClock()
        soon = lambda call: self.clock.call_at(self.clock.now_ms(), call)  # noqa: E731
        self.dispatcher = Dispatcher(self.clock, soon, drops=drops)
        self.batches: list[list[Any]] = []
        self.told: dict[Any, list[Any]] = {}
        self.lane = Lane(Fixed(limit), self.run)
        self.dispatcher.add(self.lane)

    def run(self, batch: list[Query]) -> None:
        self.batches.append([query.x for query in batch])

    def submit(self, x: Any, due_ms: float, shape: tuple[int, ...] = ()) -> None:
        def told(value: Any, error: ServeError | None) -> None:
            self.told.setdefault(x, []).append(value if error is None else type(error).__name__)

        query = Query(x, ("<f8", shape), self.clock.now_ms(), due_ms, told)
        self.dispatcher.submit(query)

    def done(self, after_ms: float) -> None:
        self.clock.advance(after_ms)
        for query in self.dispatcher.finish(self.lane, after_ms):
            query.answer(query.x, None)
        self.clock.advance(0)


def test_the_earliest_deadline_is_computed_first() -> None:
    rig = Rig(limit=2)
    for x, due_ms in (("late", 90), ("soon", 30), ("middle", 60)):
        rig.submit(x, due_ms)
    rig.clock.advance(0)
    rig.done(1)
    assert rig.batches == [["soon", "middle"], ["late"]]


def test_queries_of_different_shapes_are_never_in_one_batch() -> None:
    rig = Rig()
    for i in range(6):
        rig.submit(i, 50 + i, shape=(i % 2,))
    rig.clock.advance(0)
    rig.done(1)
    assert rig.batches == [[0, 2, 4], [1, 3, 5]]


def test_what_cannot_be_answered_in_time_is_told_and_not_computed() -> None:
    rig = Rig(limit=1)
    rig.submit("first", 100)
    rig.clock.advance(0)
    rig.submit("second", 5)
    rig.done(10)
    assert rig.batches == [["first"]]
    assert rig.told == {"first": ["first"], "second": ["DeadlineMissed"]}


def test_a_lane_that_is_always_too_slow_is_tried_only_now_and_then() -> None:
    rig = Rig(limit=1)
    for i in range(200):
        rig.submit(i, rig.clock.now_ms() + 20)
        rig.clock.advance(0)
        if rig.lane.batch:
            rig.done(30)
        else:
            rig.clock.advance(10)
    assert all(len(told) == 1 for told in rig.told.values()) and len(rig.told) == 200
    assert 3 < len(rig.batches) < 12


def test_a_dead_lanes_queries_get_one_more_try_each_by_itself() -> None:
    rig = Rig()
    for i in range(3):
        rig.submit(i, 1000)
    rig.clock.advance(0)
    error = ServeError("died")
    rig.dispatcher.fail(rig.lane, error)
    other = Lane(Fixed(4), rig.run)
    rig.dispatcher.add(other)
    rig.clock.advance(0)
    assert rig.batches == [[0, 1, 2], [0]]
    rig.dispatcher.fail(other, error)
    assert rig.told == {0: ["ServeError"]}
    rig.dispatcher.add(rig.lane)
    rig.clock.advance(0)
    rig.done(1)
    rig.done(1)
    assert rig.batches[2:] == [[1], [2]]
    assert rig.told == {0: ["ServeError"], 1: [1], 2: [2]}


def test_random_queries_are_each_told_exactly_once() -> None:
    rng = np.random.default_rng(3)
    rig = Rig(limit=5)
    for i in range(500):
        rig.submit(i, rig.clock.now_ms() + rng.exponential(8), shape=(int(rng.integers(3)),))
        rig.clock.advance(rng.exponential(1.0))
        if rig.lane.batch and rng.random() < 0.05:
            dead = rig.lane
            rig.lane = Lane(Fixed(5), rig.run)
            rig.dispatcher.add(rig.lane)
            rig.dispatcher.fail(dead, ServeError("died"))
        elif rig.lane.batch and rng.random() < 0.5:
            rig.done(0)
    rig.clock.advance(0)
    while rig.lane.batch:
        rig.done(1)
    assert sorted(rig.told) == list(range(500))
    assert {len(told) for told in rig.told.values()} == {1}


def test_the_latency_line_predicts_what_fits() -> None:
    line = LatencyLine()
    assert line.fits(1.0) == math.inf
    for size in itertools.islice(itertools.cycle((5, 20, 40)), 300):
        line.observe(size, 2 + 0.5 * size)
    assert line.fits(12.6) in (20, 21)
    assert line.fits(2.7) == 1
    assert line.fits(0.5) == math.inf  # smaller would not help


# ---- the cache


def test_clock_evicts_what_was_not_used_since_the_hand_came_by() -> None:
    cache = Cache(3 * (ENTRY_BYTES + 8))
    for key in "abc":
        cache.put(key, 1.0)
    cache.get("a"), cache.get("c")
    cache.put("d", 1.0)
    assert cache.get("b") is MISS
    assert [cache.get(key) for key in "acd"] == [1.0, 1.0, 1.0]


def test_a_cache_never_holds_more_bytes_than_told_and_keeps_the_popular() -> None:
    rng = np.random.default_rng(0)
    cache = Cache(100 * (ENTRY_BYTES + 80))
    hits = 0
    for key in np.minimum(rng.zipf(1.5, 5000), 10**6).tolist():
        hits += (found := cache.get(key)) is not MISS
        if found is MISS:
            cache.put(key, np.zeros(rng.integers(1, 20)))
        assert cache.n_bytes <= cache.limit_bytes
    assert hits > 0.75 * 5000
    cache.put("large", np.zeros(10**6))
    assert cache.get("large") is MISS


# ---- policies


def play(policy: Policy, wrong: Callable[[int], list[float]], steps: int) -> tuple[float, Any]:
    """Return the share of errors of a policy, and its last weights."""
    rng, coins = Random(0), np.random.default_rng(0)
    rates = wrong(0)
    weights = {f"m{i}": 1 / len(rates) for i in range(len(rates))}
    errors = 0
    for step in range(steps):
        said = {n: int(coins.random() < r) for n, r in zip(weights, wrong(step), strict=True)}
        asked = policy.ask(weights, rng)
        values = {name: said[name] for name in asked}
        errors += policy.combine(weights, asked, values)[0] != 0
        policy.learn(weights, asked, values, 0)
        assert math.isclose(sum(weights.values()), 1.0)
    return errors / steps, weights


def degrading(step: int) -> list[float]:
    return [0.5, 0.4, 0.35, 0.3, 0.85 if 5000 <= step < 10_000 else 0.2]


@pytest.mark.parametrize(("policy", "most"), [(Exp3(), 0.3), (Exp4(), 0.25)])
def test_a_policy_follows_the_best_model_through_its_failure(policy: Policy, most: float) -> None:
    """Always the formerly best errs 0.417 of the time, the best at each moment 0.233."""
    errors, weights = play(policy, degrading, 15_000)
    assert errors < most
    assert max(weights, key=lambda name: weights[name]) == "m4"


def test_an_ensemble_votes_on_labels_and_averages_what_is_real() -> None:
    weights = dict.fromkeys("abc", 1 / 3)
    combine = Ensemble().combine
    all_three = Ensemble().ask(weights, Random(0))
    assert combine(weights, all_three, {"a": 3, "b": 5, "c": 5}) == (5, 2 / 3)
    assert combine(weights, all_three, {"a": "cat", "b": "cat"}) == ("cat", 2 / 3)
    value, share = combine(weights, {"a": 1.0, "b": 1.0}, {"a": 0.5, "b": 1.0})
    assert (value, share) == (0.75, 0.0)
    scores = {"a": np.array([0.9, 0.1]), "b": np.array([0.6, 0.4]), "c": np.array([0.3, 0.7])}
    value, share = combine(weights, all_three, scores)
    np.testing.assert_allclose(value, [0.6, 0.4])
    assert share == 2 / 3


def test_a_model_that_has_not_answered_was_wrong() -> None:
    weights = {"a": 0.5, "b": 0.5}
    Exp4().learn(weights, {"a": 1.0, "b": 1.0}, {"a": 1}, 1)
    assert weights["a"] > weights["b"]


def test_the_context_that_was_not_used_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minitorch.serve.asks.MOST_CONTEXTS", 2)
    app = App("app", ("a", "b"), Exp4(), None)
    learned = app.weights_of("me")
    for context in ("you", "me", "they"):
        app.weights_of(context)
    assert list(app.weights) == ["me", "they"] and app.weights_of("me") is learned


def test_exp3_charges_by_the_chance_at_the_draw_however_late_feedback_comes() -> None:
    """Drawn at 0.5 from two equal models; by the time of feedback the weights are 0.9 and 0.1."""
    policy, weights = Exp3(), {"a": 0.5, "b": 0.5}
    asked = policy.ask(weights, Random(0))
    assert list(asked.values()) == [0.5]
    (name,) = asked
    weights.update(dict.fromkeys("ab", 0.9), **{name: 0.1})
    policy.learn(weights, asked, {name: 1}, 0)
    charged = 0.1 * math.exp(-policy.eta / 0.5)
    assert math.isclose(weights[name], charged / (charged + 0.9))


@pytest.mark.parametrize("label", [[1, 2, 3], [[1], [2, 3]], "cat", None, {}, 10**400], ids=type)
def test_a_label_that_no_answer_can_equal_is_a_loss_of_one(label: Any) -> None:
    for value in (np.array([7.0, 9.0]), 0.5, "dog", [1.0]):
        assert loss(value, label) == 1.0


@pytest.mark.parametrize("value", [np.array([]), [], 0.5, [1.0]], ids=repr)
def test_an_empty_label_is_equalled_by_an_empty_answer_alone(value: Any) -> None:
    assert loss(value, []) == bool(np.size(value))


# ---- the wire, and a container's answers


@pytest.mark.parametrize(
    "x", [1, 2.5, True, "text", [1, 2], [[1.0], [2.0]], ["a", "bc"], np.float32(3), 1j]
)
def test_an_input_arrives_as_it_was_sent(x: Any) -> None:
    array = as_input(x)
    header, data = pack_array(array.dtype.str, (1, *array.shape), array.tobytes())
    results, errors, _ = unpack_results(*answer(lambda batch: batch, header, data))
    assert errors == {}
    np.testing.assert_array_equal(np.asarray(results[0]), np.asarray(x))


@pytest.mark.parametrize("x", [None, {}, b"bytes", [1, "a"], [[1], [2, 3]], object(), [2**70]])
def test_what_is_no_plain_array_is_refused(x: Any) -> None:
    with pytest.raises((ShapeError, DTypeError)):
        as_input(x)


@pytest.mark.parametrize(
    "results",
    [
        np.arange(6.0).reshape(2, 3),
        [1, 2],
        ["a", "b"],
        [{"k": [1]}, None],
        [np.zeros(2), np.zeros(3)],
    ],
)
def test_results_arrive_as_they_were_sent(results: Any) -> None:
    got, errors, took_ms = unpack_results(*pack_results(results, {}, 1.5))
    assert (len(got), errors, took_ms) == (2, {}, 1.5)
    for mine, theirs in zip(got, results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def batch_of(values: list[float]) -> list[bytes]:
    return pack_array("<f8", (len(values),), np.array(values).tobytes())


def test_an_error_reaches_only_the_queries_that_caused_it() -> None:
    def model(batch: np.ndarray) -> np.ndarray:
        if (batch < 0).any():
            raise ValueError(f"no root of {batch.min()}")
        batch **= 0.5  # the next try must not see this
        return batch

    values = [4.0, -1.0, 9.0, 16.0, -4.0]
    results, errors, _ = unpack_results(*answer(model, *batch_of(values)))
    assert results == [2.0, 3.0, 4.0]
    assert errors == {
        1: (True, "ValueError: no root of -1.0 (the model got a batch of float64 of shape (1,))"),
        4: (True, "ValueError: no root of -4.0 (the model got a batch of float64 of shape (1,))"),
    }


def test_a_model_that_cannot_take_text_says_that_it_got_text() -> None:
    texts = as_input([["a", "b"]])
    sent = pack_array(texts.dtype.str, texts.shape, texts.tobytes())
    _, errors, _ = unpack_results(*answer(lambda batch: batch @ np.ones(2), *sent))
    blamed, words = errors[0]
    assert blamed and words.endswith("(the model got a batch of text of shape (1, 2))")


@pytest.mark.parametrize("wrong", [lambda b: b[:-1], lambda b: 3, lambda b: [object()] * len(b)])
def test_results_that_are_none_are_every_querys_error(wrong: Callable[[Any], Any]) -> None:
    results, errors, _ = unpack_results(*answer(wrong, *batch_of([1.0, 2.0])))
    assert results == [] and sorted(errors) == [0, 1]


def test_a_model_is_a_function_a_factory_a_module_or_an_estimator() -> None:
    import torch
    from sklearn.linear_model import LinearRegression

    import minitorch as mt

    x = np.arange(6.0).reshape(2, 3)
    linear = torch.nn.Linear(3, 2)
    ours = mt.nn.Linear(3, 2)
    ours.load_state_dict({k: mt.tensor(v.numpy()) for k, v in linear.state_dict().items()})
    expected = x @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    for model in (linear, ours, lambda: linear):
        _, errors, _ = found = unpack_results(
            *answer(as_model(model), *pack_array("<f8", x.shape, x.tobytes()))
        )
        assert errors == {}
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    estimator = LinearRegression().fit(x, [1.0, 2.0])
    np.testing.assert_allclose(as_model(estimator)(x), [1.0, 2.0])
    np.testing.assert_array_equal(as_model(Doubler)(x), 2 * x)


class Doubler:
    """A factory, as any class that takes nothing and can be called is."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return 2 * batch


@pytest.mark.parametrize(
    "call",
    [
        lambda: simulate([], [0.0], "aimd", 20),
        lambda: simulate([(1, 1)], [0.0], "fast", 20),
        lambda: simulate([(1, 1)], [-1.0], "aimd", 20),
        lambda: simulate([(1, -1)], [0.0], "aimd", 20),
        lambda: simulate([(1, 1)], [0.0], "aimd", 0),
    ],
)
def test_bad_arguments_are_told(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError) as told:
        call()
    assert isinstance(told.value, MinitorchError) and "expected" in str(told.value)


@pytest.mark.parametrize(
    ("gate", "says"),
    [
        (Gate(most_queries=1), "overload: 1 queries are under way"),
        (Gate(most_bytes=2**20), "overload: the queries under way hold 1 MiB"),
    ],
)
def test_over_http_overload_is_refused_and_said(gate: Gate, says: str) -> None:
    """A query whose body has not come is under way; the one that may be is let go."""

    async def queries() -> list[httpx.Response]:
        reads, end = asyncio.Event(), asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b" " * 2**20
            reads.set()
            await end.wait()

        async with Server() as server:
            transport = httpx.ASGITransport(http.application(server, gate))
            async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
                first = asyncio.create_task(client.post("/apps/none/predict", content=body()))
                await reads.wait()
                verbs = ("predict", "feedback", "generate")
                refused = [await client.post(f"/apps/none/{verb}", json={}) for verb in verbs]
                scraped = (await client.get("/metrics")).text.splitlines()
                assert {"serve_under_way 1.0", "serve_under_way_bytes 1.048576e+06"} <= {*scraped}
                end.set()
                return [*refused, await first, await client.post("/apps/none/predict", json={})]

    *all_refused, first, after = asyncio.run(queries())
    for refused in all_refused:
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert says in refused.json()["detail"]
    assert (first.status_code, after.status_code) == (400, 422)
    assert (gate.queries, gate.n_bytes) == (0, 0)


def test_over_http_an_input_is_held_as_the_array_that_it_becomes() -> None:
    """Three bytes of JSON, `"",`, are a text of 64 bytes."""

    async def ask(most_bytes: int) -> httpx.Response:
        gate = Gate(most_bytes=most_bytes)
        transport = httpx.ASGITransport(http.application(Server(), gate))
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
            answer = await client.post("/apps/none/predict", json={"x": [""] * 1000})
        assert (gate.queries, gate.n_bytes) == (0, 0)
        return answer

    assert asyncio.run(ask(60_000)).status_code == 503
    assert asyncio.run(ask(70_000)).status_code != 503


@pytest.mark.parametrize(
    ("make_body", "says"),
    [
        (
            lambda: '{"x": ["' + "a" * 2**22 + '"' + ',""' * 2**20 + "]}",
            "1048577 parts and one of 4194304",
        ),
        (
            lambda: "{" + "".join(f'"{n}": 0, ' for n in range(300_000)) + '"5": 0}',
            '"5" stands twice',
        ),
    ],
)
def test_over_http_a_body_that_would_take_all_memory_or_hours_is_refused(
    make_body: Callable[[], str], says: str
) -> None:
    """16 TiB as an array of texts; and 9e10 comparisons, each name with each."""
    body = make_body()  # here, and not in each process that collects tests

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(http.application(Server()))
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
            return await client.post("/apps/none/predict", content=body)

    answer = asyncio.run(ask())
    assert answer.status_code == 422 and says in answer.json()["detail"]


def test_over_http_a_body_that_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_S", 0.01)

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(http.application(Server()))
        async with httpx.AsyncClient(transport=transport, base_url="http://front") as client:
            return await client.post("/apps/none/predict", content=never())

    answer = asyncio.run(ask())
    assert (answer.status_code, [*answer.json()]) == (408, ["detail"])


def test_what_raises_is_counted_as_what_it_is_answered_with() -> None:
    registry = CollectorRegistry()

    async def broken(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    front: Any = http.RequestCounts(broken, registry)
    with pytest.raises(RuntimeError):
        asyncio.run(front({"type": "http", "method": "GET"}, None, None))
    counted = {"method": "GET", "route": "other", "status": "500"}
    assert registry.get_sample_value("serve_requests_total", counted) == 1


@asynccontextmanager
async def fronted(app: Any, protocol: Any) -> AsyncIterator[tuple[Any, tuple[str, int]]]:
    """Give a front that answers by an ASGI application, and its address."""
    front = uvicorn.Server(uvicorn.Config(app, http=protocol, ws="none", lifespan="off"))
    with listen("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(front._serve([listener]))
        yield front, listener.getsockname()
        front.should_exit = True
        await serving


def test_connections_that_ask_nothing_are_closed_and_too_many_are_refused() -> None:
    async def read_all(address: tuple[str, int], asks: bytes = b"") -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(asks)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    async def program() -> None:
        asks = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        protocol = front_connections.connection()
        protocol.most = 1
        async with fronted(http.application(Server()), protocol) as (front, address):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(asks)
            await reader.readuntil(b'"down": []}')
            assert (await read_all(address)).startswith(b"HTTP/1.1 503 ")
            writer.close()
            while front.server_state.connections:
                await asyncio.sleep(0)
        async with fronted(http.application(Server()), front_connections.connection(0.1)) as (
            _, address,
        ):  # fmt: skip
            assert await read_all(address) == b""
            assert await read_all(address, asks[:9]) == b""
            assert (await read_all(address, asks + asks[:9])).endswith(b'"down": []}')

    asyncio.run(asyncio.wait_for(program(), 30))


@pytest.mark.parametrize("parts", [1, 2**14])
def test_a_client_that_does_not_read_keeps_neither_place_nor_connection(parts: int) -> None:
    """Be it one large answer or a stream; who reads gets all of it, however late."""
    gate, left = Gate(), asyncio.Event()
    size = 2**24 // parts

    async def large(scope: Any, receive: Any, send: Any) -> None:
        scope["place"].enter()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in range(parts):
            more = part + 1 < parts
            await send({"type": "http.response.body", "body": b" " * size, "more_body": more})
        left.set()

    async def program() -> None:
        protocol = front_connections.connection(0.3)
        async with fronted(Admission(large, gate), protocol) as (front, address):  # type: ignore[arg-type]
            reader, writer = await asyncio.open_connection(*address, limit=2**10)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            assert gate.queries == 1 and not left.is_set()
            while gate.queries or front.server_state.connections:
                await asyncio.sleep(0.01)
            writer.close()
            protocol.look_s = 10.0  # this client shares the loop, on a machine that may be busy
            async with httpx.AsyncClient() as client:
                answer = await client.get(f"http://{address[0]}:{address[1]}/")
            assert len(answer.content) == 2**24

    asyncio.run(asyncio.wait_for(program(), 60))


def test_connections_of_the_http_front_send_at_once() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_cannot_be_is_told() -> None:
    with pytest.raises(ServeError, match="port 65536: expected 0 to 65535"):
        listen("127.0.0.1", 65536)
