"""Generation without a process: the scheduler, its simulation, sampling, the slots of a worker."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch.errors import ArgumentError
from minitorch.serve import simulate_generation
from minitorch.serve.generation import Job, Plan, Scheduler
from minitorch.serve.generation.reply import request
from minitorch.serve.generation.sampling import Sampling, largest, sample, uniform
from minitorch.serve.generation.worker import prepare

COSTS = {"step_ms": 10.0, "per_slot_ms": 1.0, "prompt_ms_per_token": 0.5}


# ---- the scheduler


def job(number: int, prompt_tokens: int = 4, max_tokens: int = 4) -> Job:
    return Job(number=number, prompt_tokens=prompt_tokens, max_tokens=max_tokens)


def numbers(jobs: list[Job]) -> list[int]:
    return [job.number for job in jobs]


def run(scheduler: Scheduler[Job], plan: Plan[Job]) -> None:
    for each in plan.starts or plan.steps:
        scheduler.advance(each, plan)


def test_a_slot_that_is_left_is_taken_in_the_next_iteration() -> None:
    scheduler = Scheduler[Job](2, 100)
    for number, new in enumerate((1, 3, 2)):
        scheduler.add(job(number, max_tokens=new))
    first = scheduler.plan()
    assert (numbers(first.starts), first.steps, first.free) == ([0, 1], [], [])
    run(scheduler, first)
    second = scheduler.plan()  # slot 0 is free: but after a start it is the steps' turn
    assert (second.free, second.starts, numbers(second.steps)) == ([0], [], [1])
    run(scheduler, second)
    third = scheduler.plan()
    assert (numbers(third.starts), third.starts[0].slot) == ([2], 0)


def test_a_static_batch_admits_nobody_until_all_have_ended() -> None:
    scheduler = Scheduler[Job](2, 100, "static")
    for number, new in enumerate((1, 3, 2)):
        scheduler.add(job(number, max_tokens=new))
    stories = []
    while plan := scheduler.plan():
        stories.append((numbers(plan.starts), numbers(plan.steps)))
        run(scheduler, plan)
    assert stories == [([0, 1], []), ([], [1]), ([], [1]), ([2], []), ([], [2]), ([], [])]


def test_one_who_has_no_room_yet_is_not_overtaken() -> None:
    scheduler = Scheduler[Job](8, 64)
    for number, size in enumerate((40, 60, 4)):
        scheduler.add(job(number, size - 4))
    plan = scheduler.plan()
    assert (numbers(plan.starts), scheduler.cache_tokens_used) == ([0], 48)
    scheduler.remove(scheduler.active[0])
    assert numbers(scheduler.plan().starts) == [1]
    assert (numbers(scheduler.waiting), scheduler.cache_tokens_used) == ([2], 64)


@pytest.mark.parametrize("cache_tokens", [1, 7, 20, 48, 100, 16_384])
def test_what_fits_the_whole_cache_is_admitted_whatever_the_blocks(cache_tokens: int) -> None:
    scheduler = Scheduler[Job](1, cache_tokens)
    if cache_tokens > 1:
        scheduler.add(job(0, cache_tokens - 1, 1))
        assert numbers(scheduler.plan().starts) == [0]
        assert scheduler.cache_tokens_used == cache_tokens
    with pytest.raises(ArgumentError, match="never fit"):
        scheduler.add(job(1, cache_tokens, 1))


def test_long_prompts_start_one_by_one_with_steps_between() -> None:
    scheduler = Scheduler[Job](4, 4096)
    for number in range(3):
        scheduler.add(job(number, 400))
    plans = []
    for _ in range(5):
        plans.append(scheduler.plan())
        run(scheduler, plans[-1])
    assert [numbers(plan.starts) for plan in plans] == [[0], [], [1], [], [2]]
    assert [numbers(plan.steps) for plan in plans] == [[], [0], [], [0, 1], []]


def test_after_an_iteration_that_went_wrong_each_of_it_is_tried_alone() -> None:
    scheduler = Scheduler[Job](3, 100)
    for number in range(3):
        scheduler.add(job(number, max_tokens=9))
    run(scheduler, scheduler.plan())
    wrong = scheduler.plan()
    scheduler.retry(wrong.steps)
    stories = []
    for _ in range(8):
        plan = scheduler.plan()
        stories.append((plan.free, numbers(plan.starts), numbers(plan.steps)))
        run(scheduler, plan)
    assert stories == [
        ([0, 1, 2], [0], []), ([], [], [0]), ([], [1], []), ([], [], [1]), ([], [2], []),
        ([], [], [2]), ([], [], [0, 1, 2]), ([], [], [0, 1, 2]),
    ]  # fmt: skip


def test_a_cache_that_is_lost_starts_all_anew_and_blames_who_was_under_way() -> None:
    scheduler = Scheduler[Job](3, 100)
    scheduler.add(job(0, max_tokens=9))
    run(scheduler, scheduler.plan())
    scheduler.add(job(1))
    scheduler.lose(scheduler.plan())  # a start of 1 (it waited behind a step of 0)
    assert [each.strikes for each in scheduler.active] == [1, 0]
    assert not any(each.is_started for each in scheduler.active)
    assert numbers(scheduler.plan().starts) == [0]


loads = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=30
)


@given(loads, st.integers(1, 6), st.integers(100, 260), st.sampled_from(["continuous", "static"]))
def test_every_iteration_keeps_slots_cache_and_the_order_of_arrival(
    load: list[tuple[int, int, int]], slots: int, cache_tokens: int, batching: str
) -> None:
    found = simulate_generation(
        load, slots=slots, cache_tokens=cache_tokens, batching=batching, **COSTS
    )
    made: Counter[int] = Counter()
    held: dict[int, int] = {}  # request: slot
    started = []
    for iteration in found.iterations:
        assert not (iteration.starts and iteration.steps)
        numbers = iteration.starts or iteration.steps
        started += iteration.starts
        held.update(zip(iteration.starts, iteration.slots, strict=False))
        assert [held[number] for number in numbers] == [*iteration.slots]
        assert len(set(held.values())) == len(held) <= slots
        assert sum(load[n][1] + load[n][2] for n in held) <= cache_tokens
        made.update(numbers)
        for number in numbers:
            if made[number] == load[number][2]:
                del held[number]
    assert {number: load[number][2] for number in range(len(load))} == dict(made)
    assert started == sorted(range(len(load)), key=lambda n: load[n][0])
    assert all(0 < first <= done for first, done in
               zip(found.first_token_ms, found.done_ms, strict=True))  # fmt: skip


@given(loads, st.integers(1, 6))
def test_what_is_removed_at_any_time_leaves_its_slot_and_its_room(
    load: list[tuple[int, int, int]], slots: int
) -> None:
    scheduler = Scheduler[Job](slots, 128)
    jobs = [job(number, prompt, new) for number, (_, prompt, new) in enumerate(load)]
    for each in jobs:
        scheduler.add(each)
    for (when, _, _), each in sorted(zip(load, jobs, strict=True), key=lambda pair: pair[0][0]):
        for _ in range(when % 4):
            run(scheduler, scheduler.plan())
        scheduler.remove(each)
    scheduler.plan()
    assert (scheduler.active, scheduler.waiting, scheduler.cache_tokens_used) == ([], [], 0)
    assert not scheduler.plan()


# ---- the simulation


def test_a_request_alone_takes_its_prompt_and_a_step_for_each_further_token() -> None:
    found = simulate_generation([(3.0, 10, 5)], **COSTS)
    assert found.first_token_ms == [5.0]
    assert found.done_ms == [5.0 + 4 * 11.0]
    assert found.between_tokens_ms == [11.0] * 4
    assert found.tokens_per_s == pytest.approx(5 / 0.049)


def test_the_schedule_is_that_computed_by_hand() -> None:
    """Two slots. A and B come at 0, C at 20 while both generate; B ends first."""
    requests = [(0.0, 4, 4), (0.0, 6, 2), (20.0, 2, 2)]
    found = simulate_generation(requests, slots=2, cache_tokens=64, **COSTS)
    assert [(i.began_ms, i.ended_ms, i.starts, i.steps) for i in found.iterations] == [
        (0.0, 5.0, (0, 1), ()),  # 10 prompt tokens
        (5.0, 17.0, (), (0, 1)),  # two slots; B is done
        (17.0, 28.0, (), (0,)),
        (28.0, 29.0, (2,), ()),  # C, in B's slot
        (29.0, 41.0, (), (0, 2)),
    ]
    assert (found.first_token_ms, found.done_ms) == ([5.0, 5.0, 9.0], [41.0, 17.0, 21.0])
    static = simulate_generation(requests, slots=2, cache_tokens=64, batching="static", **COSTS)
    assert [(i.began_ms, i.starts, i.steps) for i in static.iterations] == [
        (0.0, (0, 1), ()), (5.0, (), (0, 1)), (17.0, (), (0,)), (28.0, (), (0,)),
        (39.0, (2,), ()), (40.0, (), (2,)),
    ]  # fmt: skip
    assert static.done_ms == [39.0, 17.0, 31.0]


def test_continuous_batches_give_as_many_times_the_tokens_as_the_longest_is_the_mean() -> None:
    """Four short replies for each long one: a static batch of 16 nearly always waits for a long."""
    rng = np.random.default_rng(0)
    news = np.where(rng.random(400) < 0.8, rng.integers(10, 30, 400), rng.integers(150, 201, 400))
    load = [(0.0, 20, int(new)) for new in news]
    costs = {"step_ms": 5.0, "per_slot_ms": 0.0, "prompt_ms_per_token": 0.0}
    both = {name: simulate_generation(load, batching=name, **costs)  # type: ignore[arg-type]
            for name in ("continuous", "static")}  # fmt: skip
    ratio = both["continuous"].tokens_per_s / both["static"].tokens_per_s
    batches = [max(news[at : at + 16]) for at in range(0, 400, 16)]
    assert ratio == pytest.approx(np.mean(batches) / news.mean(), rel=0.1)
    assert ratio > 3
    p99s = [np.quantile(found.between_tokens_ms, 0.99) for found in both.values()]
    assert p99s[0] == p99s[1] == 5.0


@pytest.mark.parametrize(
    ("requests", "options", "words"),
    [
        ([(0.0, 10, 7)], {"cache_tokens": 16}, "never fit"),
        ([(-1.0, 1, 1)], {}, "request 0"),
        ([(0.0, 0, 1)], {}, "request 0"),
        ([(0.0, 1, 1)], {"slots": 0}, "slots"),
        ([(0.0, 1, 1)], {"batching": "dynamic"}, "batching"),
        ([(0.0, 1, 1)], {"step_ms": -1.0}, "step_ms"),
    ],
)
def test_what_cannot_be_simulated_is_told(requests: Any, options: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        simulate_generation(requests, **{**COSTS, **options})


# ---- sampling


ROW = np.array([0.0, 3.0, 1.0, 3.0, -np.inf], np.float32)


def test_temperature_0_and_one_of_the_largest_take_the_first_of_the_largest() -> None:
    assert sample(ROW, Sampling(0.0, None, 7), 0) == 1
    assert {sample(ROW, Sampling(5.0, 1, 7), draw) for draw in range(50)} == {1}
    assert {sample(ROW, Sampling(1e-300, None, 7), draw) for draw in range(50)} == {1, 3}


def test_draws_are_as_likely_as_the_softmax_says() -> None:
    counts = np.bincount([sample(ROW, Sampling(2.0, None, 1), n) for n in range(4000)], minlength=5)
    weights = np.exp(ROW / 2.0)
    expected = weights / weights.sum()
    assert counts[4] == 0
    np.testing.assert_allclose(counts / 4000, expected, atol=4 * np.sqrt(0.25 / 4000))
    drawn = {sample(ROW, Sampling(100.0, 2, 1), n) for n in range(100)}
    assert drawn == {1, 3}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 25))
def test_the_largest_are_those_of_a_stable_sort(values: list[int], count: int) -> None:
    row = np.array(values, np.float32)
    expected = np.sort(np.argsort(-row, kind="stable")[:count])
    assert largest(row, count).tolist() == expected.tolist()


def test_a_draw_depends_on_its_seed_and_its_number_alone() -> None:
    draws = [uniform(seed, draw) for seed in (-3, 0, 10**30) for draw in range(300)]
    assert draws == [uniform(seed, draw) for seed in (-3, 0, 10**30) for draw in range(300)]
    assert len(set(draws)) == 900 and 0 <= min(draws) <= max(draws) < 1
    assert abs(np.mean(draws) - 0.5) < 4 * np.sqrt(1 / 12 / 900)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_none_are_told(bad: float) -> None:
    with pytest.raises(ValueError, match="largest logit"):
        sample(np.array([1.0, bad, 2.0]), Sampling(0.0, None, 0), 0)
    with pytest.raises(ValueError, match="largest logit"):
        sample(np.full(3, -np.inf), Sampling(1.0, None, 0), 0)


# ---- the worker


class Echo:
    """Logits are largest at the last token plus one, of 8; notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        self.calls.append(("start", slot, tokens))
        if tokens[-1] == 6:
            raise ValueError("a context of 6 tokens")
        return self.rows(tokens[-1:])[0]

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        self.calls.append(("step", slots, tokens))
        return self.rows(tokens)

    def free(self, slot: int) -> None:
        self.calls.append(("free", slot))

    def rows(self, tokens: list[int]) -> np.ndarray:
        return np.eye(8, dtype=np.float32)[np.add(tokens, 1)]


def orders(make: Callable[[], Any]) -> Callable[..., dict[str, Any]]:
    answer = prepare(make)

    def carry_out(**order: Any) -> dict[str, Any]:
        full = {"free": [], "starts": [], "steps": []} | order
        found: dict[str, Any] = json.loads(answer(json.dumps(full).encode())[0])
        return found

    return carry_out


def test_a_worker_feeds_each_slot_its_own_last_token() -> None:
    echo = Echo()
    carry_out = orders(lambda: echo)
    starts = [(2, [1, 3], 0, 0.0, None, 0), (0, [6], 0, 0.0, None, 0), (1, [0], 0, 0.0, None, 0)]
    found = carry_out(starts=starts)
    assert found["results"][::2] == [4, 1] and found["vocabulary"] == 8
    assert found["results"][1] == [True, "ValueError: a context of 6 tokens"]
    assert carry_out(steps=[2, 1])["results"] == [5, 2]
    assert carry_out(steps=[1], free=[0, 2])["results"] == [3]
    assert [call for call in echo.calls if call[0] != "start"] == [
        ("free", 0), ("step", [2, 1], [4, 1]), ("free", 2), ("step", [1], [2])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (np.zeros((2, 7)), "(2, 7)"),
        (np.zeros(8), "(8,)"),
        (np.zeros((1, 8)), "(1, 8)"),
        (np.zeros((2, 8), complex), "complex"),
        (None, "object"),
    ],
)
def test_a_step_whose_logits_do_not_fit_is_told_as_a_whole(logits: Any, words: str) -> None:
    echo = Echo()
    carry_out = orders(lambda: echo)
    carry_out(starts=[(0, [1], 0, 0.0, None, 0), (1, [2], 0, 0.0, None, 0)])
    echo.rows = lambda tokens: logits  # type: ignore[method-assign]
    found = carry_out(steps=[0, 1])
    assert found["results"] == [] and found["error"][0] is False and words in found["error"][1]
    assert "expected real (2, 8)" in found["error"][1]


def test_a_row_with_nan_fails_its_own_request() -> None:
    echo = Echo()
    carry_out = orders(lambda: echo)
    carry_out(starts=[(0, [1], 0, 0.0, None, 0), (1, [2], 0, 0.0, None, 0)])
    echo.rows = lambda tokens: np.array([[0, np.nan, 1], [1, 0, 0]])  # type: ignore[method-assign]
    assert carry_out(steps=[0, 1])["error"] is not None  # three columns, not eight
    wide = np.zeros((2, 8))
    wide[0, 3] = np.nan
    echo.rows = lambda tokens: wide  # type: ignore[method-assign]
    (by_input, words), token = carry_out(steps=[0, 1])["results"]
    assert not by_input and "largest logit is nan" in words and token == 0


def test_what_cannot_generate_is_told_when_it_is_made() -> None:
    with pytest.raises(TypeError, match=r"has no step\(\)"):
        prepare(lambda: type("Half", (), {"start": print}))

    def large() -> Any:
        raise MemoryError("40 GiB")

    with pytest.raises(MemoryError, match="fewer slots or a shorter context"):
        prepare(large)


# ---- what can be asked for


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tokens": []}, "prompt is empty"),
        ({"tokens": [1, -1]}, r"tokens\[1\]: got -1"),
        ({"tokens": [1.0]}, r"tokens\[0\]: got 1.0"),
        ({"tokens": [True]}, r"tokens\[0\]: got True"),
        ({"tokens": [2**63]}, "tokens"),
        ({"tokens": 5}, "tokens: got int"),
        ({"tokens": None}, "tokens: got NoneType"),
        ({"tokens": "abc"}, r"tokens\[0\]: got 'a'"),
        ({"max_tokens": 0}, "max_tokens: got 0"),
        ({"max_tokens": None}, "max_tokens: got None"),
        ({"max_tokens": 2.5}, "max_tokens: got 2.5"),
        ({"temperature": -0.1}, "temperature: got -0.1"),
        ({"temperature": float("nan")}, "temperature: got nan"),
        ({"temperature": float("inf")}, "temperature: got inf"),
        ({"temperature": None}, "temperature: got None"),
        ({"top_k": 0}, "top_k: got 0"),
        ({"seed": "x"}, "seed: got 'x'"),
        ({"stop": 3}, "stop: got int"),
        ({"stop": [-2]}, r"stop\[0\]: got -2"),
        ({"deadline_ms": 0}, "deadline_ms: got 0"),
        ({"temperature": 10**400}, "temperature: got 1000"),
        ({"deadline_ms": 10**400}, "deadline_ms: got 1000"),
        ({"deadline_ms": float("nan")}, "deadline_ms: got nan"),
        ({"first_token_deadline_ms": -1}, "first_token_deadline_ms: got -1"),
    ],
)
def test_what_cannot_be_asked_for_is_told(options: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"tokens": [1], "max_tokens": 1} | options
    with pytest.raises(ArgumentError, match=words):
        request(0, asked.pop("tokens"), **asked)


def test_numbers_of_numpy_are_taken_as_pythons() -> None:
    reply = request(
        0, np.array([3, 4]), max_tokens=np.int32(5), temperature=np.float32(0.5),  # type: ignore[arg-type]
        top_k=np.int64(2), seed=np.uint8(9), stop=np.array([7]),  # type: ignore[arg-type]
    )  # fmt: skip
    assert (reply.prompt, reply.max_tokens, reply.stop) == ([3, 4], 5, frozenset({7}))
    assert json.dumps([reply.prompt, *reply.sampling]) == "[[3, 4], 0.5, 2, 9]"


def test_requests_without_a_seed_differ() -> None:
    seeds = {request(0, [1], max_tokens=1).sampling.seed for _ in range(20)}
    assert len(seeds) == 20
