"""Generation on a virtual clock: the server's scheduler, no process, no waiting.

May import: clock, errors, scheduler.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from minitorch.errors import ArgumentError
from minitorch.serve.clock import VirtualClock
from minitorch.serve.generation.scheduler import Job, Plan, Scheduler


@dataclass(eq=False, kw_only=True)
class Request(Job):
    """A request, and when its last token came."""

    at: int  # its place in the list
    arrival_ms: float
    last_ms: float = 0.0


@dataclass(frozen=True)
class Costs:
    """What an iteration takes, in ms; raises ArgumentError where that cannot be."""

    step_ms: float
    per_slot_ms: float
    prompt_ms_per_token: float

    def __post_init__(self) -> None:
        for name, cost in vars(self).items():
            if not 0 <= cost < float("inf"):
                problem = f"{name}: got {cost}, expected 0 ms or more."
                raise ArgumentError(f"simulate_generation: {problem}")

    def of(self, plan: Plan[Request]) -> float:
        """Return how long a plan takes."""
        prompts_ms = self.prompt_ms_per_token * sum(job.prompt_tokens for job in plan.starts)
        return prompts_ms + bool(plan.steps) * self.step_ms + self.per_slot_ms * len(plan.steps)


@dataclass(frozen=True)
class Iteration:
    """One iteration: from when to when, whose prompts it started or whom it gave a token."""

    began_ms: float
    ended_ms: float
    starts: tuple[int, ...]  # numbers of requests
    steps: tuple[int, ...]
    slots: tuple[int, ...]  # of those, in order


@dataclass
class GenerationSimulation:
    """What happened; lists are by request, times of requests count from their arrival."""

    first_token_ms: list[float]
    done_ms: list[float]
    tokens_per_s: float = 0.0  # from the first arrival to the last token
    between_tokens_ms: list[float] = field(default_factory=list)  # of all requests
    iterations: list[Iteration] = field(default_factory=list)

    def add_token(self, job: Request, now_ms: float) -> None:
        """Note when a token came."""
        if job.made:
            self.between_tokens_ms.append(now_ms - job.last_ms)
        else:
            self.first_token_ms[job.at] = now_ms - job.arrival_ms
        job.last_ms = now_ms
        self.done_ms[job.at] = now_ms - job.arrival_ms


def simulate_generation(
    requests: Sequence[tuple[float, int, int]], *, slots: int = 16, cache_tokens: int = 16_384,
    step_ms: float, per_slot_ms: float, prompt_ms_per_token: float, batching: str = "continuous",
) -> GenerationSimulation:  # fmt: skip
    """Return what would happen to requests.

    Starting prompts takes `prompt_ms_per_token` for each of their tokens and gives each request its
    first token; a step takes `step_ms` and `per_slot_ms` for each slot and gives each a further
    one. Starts and steps take turns, as on a server.

    Args:
        requests: (arrival_ms, prompt_tokens, new_tokens) of each.
        slots, cache_tokens, batching: as for `Server.deploy_generator`.
    Raises:
        ArgumentError: a number out of its range, or a request that never fits the cache.
    """
    costs = Costs(step_ms, per_slot_ms, prompt_ms_per_token)
    by_arrival = sorted(range(len(requests)), key=lambda at: requests[at][0])
    jobs = [_request(at, requests[at], number) for number, at in enumerate(by_arrival)]
    clock = VirtualClock()
    scheduler = Scheduler[Request](slots, cache_tokens, batching)
    simulation = GenerationSimulation([0.0] * len(jobs), [0.0] * len(jobs))
    under_way: Plan[Request] | None = None

    def arrive(job: Request) -> None:
        scheduler.add(job)
        clock.call_at(clock.now_ms(), run)  # who comes together starts together

    def run() -> None:
        nonlocal under_way
        plan = under_way or scheduler.plan()
        if under_way is None and (plan.starts or plan.steps):
            under_way = plan
            ended_ms = clock.now_ms() + costs.of(plan)
            simulation.iterations.append(_iteration(plan, clock.now_ms(), ended_ms))
            clock.call_at(ended_ms, partial(end, plan))

    def end(plan: Plan[Request]) -> None:
        nonlocal under_way
        under_way = None
        for job in plan.starts or plan.steps:
            simulation.add_token(job, clock.now_ms())
            scheduler.advance(job, plan)
        clock.call_at(clock.now_ms(), run)

    for job in jobs:
        clock.call_at(job.arrival_ms, partial(arrive, job))
    clock.run()
    took_ms = clock.now_ms() - jobs[0].arrival_ms if jobs else 0.0
    if took_ms:
        simulation.tokens_per_s = 1e3 * sum(job.made for job in jobs) / took_ms
    return simulation


def _request(at: int, request: tuple[float, int, int], number: int) -> Request:
    arrival_ms, prompt_tokens, new_tokens = request
    if not (0 <= arrival_ms < float("inf") and prompt_tokens >= 1 and new_tokens >= 1):
        raise ArgumentError(
            f"simulate_generation: request {at}: got {tuple(request)}, expected a time from 0 on "
            "and at least one token each of prompt and reply."
        )
    return Request(number=number, prompt_tokens=prompt_tokens, max_tokens=new_tokens, at=at,
                   arrival_ms=arrival_ms)  # fmt: skip


def _iteration(plan: Plan[Request], began_ms: float, ended_ms: float) -> Iteration:
    starts, steps = (tuple(job.at for job in jobs) for jobs in (plan.starts, plan.steps))
    slots = tuple(job.slot for job in plan.starts or plan.steps if job.slot is not None)
    return Iteration(began_ms, ended_ms, starts, steps, slots)
