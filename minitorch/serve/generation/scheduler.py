"""Who generates in the next iteration: requests, slots, and a cache of so many tokens in blocks.

    waiting -> active (a slot, its blocks) -> started (its prompt is in the cache) -> done

Pure: it knows no clock, no process and no model. Events go in, a `Plan` of one iteration comes out;
the server runs plans on a container, `simulate_generation` on a virtual clock.

- First come, first served: nobody is admitted before one who waits for longer, so nobody starves.
- One who is admitted has room for the prompt and for all new tokens. Room that grows block by block
  would admit more where replies stop early, but then a reply may have to leave and begin anew in
  the middle; here the time between its tokens never depends on who comes later.
- Starts and steps take turns, and a start has so many prompt tokens: the longest pause of those who
  generate is one start and one step.

May import: errors.
Source: Yu et al., "Orca", OSDI 2022 (iterations); Kwon et al., "vLLM", SOSP 2023 (blocks).
"""

import heapq
import math
from bisect import insort
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Generic, TypeVar

from minitorch.errors import ArgumentError

BLOCK_TOKENS = 16  # or the largest power of two below it that divides the cache
START_TOKENS = 512  # of all prompts that are started together, where there is more than one
BATCHING = ("continuous", "static")


@dataclass(eq=False, kw_only=True)
class Job:
    """What the scheduler knows of a request."""

    number: int  # by arrival
    prompt_tokens: int
    max_tokens: int
    made: int = 0  # new tokens so far
    strikes: int = 0  # iterations with it that went wrong since the last step that went right
    slot: int | None = None
    is_started: bool = False


J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Plan(Generic[J]):
    """One iteration: slots to free, then prompts to start, or slots to step by a token."""

    free: list[int] = field(default_factory=list)
    starts: list[J] = field(default_factory=list)
    steps: list[J] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.free or self.starts or self.steps)


class Scheduler(Generic[J]):
    """Slots, blocks, and the order of requests.

    Args:
        slots: how many generate at a time.
        cache_tokens: how many tokens they may hold together, prompts and new ones.
        batching: "continuous": a slot that is free is taken in the next iteration. "static": a
            batch is formed when the last one has ended; the rival to compare with.
    """

    def __init__(self, slots: int, cache_tokens: int, batching: str = "continuous") -> None:
        for name, value in (("slots", slots), ("cache_tokens", cache_tokens)):
            if type(value) is not int or value < 1:
                raise ArgumentError(
                    f"deploy_generator: {name}: got {value!r}, expected a whole number from 1 on."
                )
        if batching not in BATCHING:
            raise ArgumentError(
                f"deploy_generator: batching: got {batching!r}, expected one of {[*BATCHING]}."
            )
        self.cache_tokens = cache_tokens
        self.waiting: list[J] = []  # by number
        self.active: list[J] = []  # by admission
        self._is_static = batching == "static"
        self._block_tokens = math.gcd(cache_tokens, BLOCK_TOKENS)
        self._free_blocks = cache_tokens // self._block_tokens
        self._free_slots = [*range(slots)]  # a heap
        self._to_free: list[int] = []  # slots that were left since the last plan
        self._has_just_started = False

    @property
    def cache_tokens_used(self) -> int:
        """How many tokens of the cache are reserved, in whole blocks."""
        return self.cache_tokens - self._free_blocks * self._block_tokens

    def add(self, job: J) -> None:
        """Let a job wait in its place by number.

        Raises:
            ArgumentError: it can never have room.
        """
        if job.prompt_tokens + job.max_tokens > self.cache_tokens:
            raise ArgumentError(
                f"generate: {job.prompt_tokens} tokens and max_tokens={job.max_tokens} new ones "
                f"never fit the cache: expected {self.cache_tokens} together at most. Shorten the "
                "prompt, lower max_tokens, or deploy with more cache_tokens."
            )
        insort(self.waiting, job, key=attrgetter("number"))

    def remove(self, job: J) -> None:
        """Forget a job, wherever it is; its slot and its room are free."""
        if job.slot is None:
            if job in self.waiting:
                self.waiting.remove(job)
            return
        if job.is_started:
            self._to_free.append(job.slot)
        self.active.remove(job)
        heapq.heappush(self._free_slots, job.slot)
        self._free_blocks += self._blocks(job)
        job.slot, job.is_started = None, False

    def advance(self, job: J, plan: Plan[J]) -> None:
        """Count a token that a plan has given; a job that has all leaves."""
        job.made += 1
        if plan.steps:
            job.strikes = 0
        if job.made == job.max_tokens:
            self.remove(job)

    def retry(self, jobs: list[J]) -> None:
        """Start jobs anew, each alone: an iteration has gone wrong, and one of them may be why."""
        for job in jobs:
            if job.slot is not None:
                job.strikes += 1
                if job.is_started:
                    self._to_free.append(job.slot)
                job.is_started = False

    def lose(self, plan: Plan[J] | None) -> None:
        """Start everything anew: the cache is gone, in the middle of a plan or between two."""
        if plan is not None:
            self.retry([*plan.starts, *plan.steps])
        for job in self.active:
            job.is_started = False
        self._to_free.clear()

    def plan(self) -> Plan[J]:
        """Return the next iteration, which is empty where there is nothing to do."""
        self._admit()
        fresh = [job for job in self.active if not job.is_started]
        started = [job for job in self.active if job.is_started]
        self._has_just_started = bool(fresh) and not (self._has_just_started and started)
        starts = self._prompts(fresh) if self._has_just_started else []
        suspects = [job for job in started if job.strikes]
        steps = [] if starts else suspects[:1] or started
        for job in starts:
            job.is_started = True
        free, self._to_free = self._to_free, []
        return Plan(free, starts, steps)

    def _admit(self) -> None:
        if self._is_static and self.active:
            return
        while self.waiting and self._free_slots:
            blocks = self._blocks(self.waiting[0])
            if blocks > self._free_blocks:
                return
            job = self.waiting.pop(0)
            self._free_blocks -= blocks
            job.slot = heapq.heappop(self._free_slots)
            self.active.append(job)

    def _prompts(self, fresh: list[J]) -> list[J]:
        """Return who starts now: a suspect alone, else the first whose prompts are not too much."""
        if fresh[0].strikes:
            return fresh[:1]
        starts: list[J] = []
        tokens = 0
        for job in fresh:
            tokens += job.prompt_tokens + job.made
            if job.strikes or (starts and tokens > START_TOKENS and not self._is_static):
                break
            starts.append(job)
        return starts

    def _blocks(self, job: J) -> int:
        return -(-(job.prompt_tokens + job.max_tokens) // self._block_tokens)
