"""The order in which each rank of a pipeline works: GPipe, 1F1B, interleaved 1F1B, zero bubble.

    rank 0   F0 F1 F2 F3          B0 B1 B2 B3      gpipe: all forwards, then all backwards
    rank 0   F0 F1    B0 F2 B1 F3 B2    B3         1f1b: one backward for each forward

An action is written as torch does: `"2F3"` is the forward of micro-batch 3 on stage 2, B its
backward, I the backward for the stage's input and W that for its weights. Stage s lies on rank
s % ranks; a rank with several stages (chunks of the model) has the interleaved schedules.

May import: arguments, errors.
Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019 (1F1B), and
Efficient Large-Scale Language Model Training, SC 2021 (interleaved); Qi et al., Zero Bubble
Pipeline Parallelism, ICLR 2024 (ZB-H1).
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count
from typing import NamedTuple

from ddp_lab.arguments import check_counts, check_name
from ddp_lab.errors import InvalidArgument

KINDS = "FBIW"
_WRITTEN = re.compile(r"(\d+)([FBIW])(\d+)", re.ASCII)


class ActionSpan(NamedTuple):
    """When an action was done, `"0F3"` for stage 0, forward, micro-batch 3; seconds."""

    action: str
    began_at: float
    ended_at: float


class Action(NamedTuple):
    """What a rank does next: a kind of work (one of FBIW) on a stage for a micro-batch."""

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"

    @property
    def gives(self) -> "Action":
        """What others may wait for: a forward's output, or the gradient that B and I compute."""
        return self._replace(kind="I") if self.kind == "B" else self

    def needs(self, last_stage: int) -> "list[Action]":
        """Return what has to be given before it can begin, by this rank or another."""
        stage, kind, m = self
        if kind == "F":
            return [Action(stage - 1, "F", m)] if stage else []
        if kind == "W":
            return [Action(stage, "I", m)]
        before = [Action(stage, "F", m)]
        return before if stage == last_stage else [*before, Action(stage + 1, "I", m)]


def parse(text: str) -> Action:
    """Return the action that `"2F3"` stands for.

    Raises:
        InvalidArgument: it stands for none.
    """
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument(
            f"schedule: no such action: got {text!r}, expected a stage, one of F, B, I, W, and a "
            "micro-batch. Write for example '0F3'."
        )
    return Action(int(match[1]), match[2], int(match[3]))


def gpipe(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's order: all forwards, then all backwards."""
    for kind in "FB":
        for m in range(microbatches):
            yield Action(rank, kind, m)


def one_forward_one_backward(
    rank: int, ranks: int, microbatches: int, chunks: int
) -> Iterator[Action]:
    """Yield a rank's order: as many forwards as stages are left, then in turns."""
    ahead = min(ranks - rank, microbatches)
    for m in range(ahead):
        yield Action(rank, "F", m)
    for m in range(microbatches):
        yield Action(rank, "B", m)
        if m + ahead < microbatches:
            yield Action(rank, "F", m + ahead)


def interleaved(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's order: 1F1B over chunks, a round of micro-batches through each in turn."""
    yield from _interleave(rank, ranks, microbatches, chunks, warmup_a_rank=2)


def zero_bubble(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """Yield a rank's order: interleaved, each backward in two, the weights' half up to `rank` late.

    Only the input's half is waited for by others, so the weights' halves fill the bubble.
    """
    late: list[Action] = []
    for action in _interleave(rank, ranks, microbatches, chunks, warmup_a_rank=1):
        if action.kind == "F":
            yield action
            continue
        yield action._replace(kind="I")
        late.append(action._replace(kind="W"))
        if len(late) > rank:
            yield late.pop(0)
    yield from late


def _interleave(
    rank: int, ranks: int, microbatches: int, chunks: int, warmup_a_rank: int
) -> Iterator[Action]:
    """Yield forwards alone, then forward and backward in turns, then backwards alone."""
    round_ = microbatches // max(1, microbatches // ranks)  # micro-batches that go as one
    total = microbatches * chunks
    warmup = min((chunks - 1) * round_ + warmup_a_rank * (ranks - 1 - rank), total)
    forward = _in_rounds("F", range(rank, ranks * chunks, ranks), round_)
    backward = _in_rounds("B", range(rank, ranks * chunks, ranks)[::-1], round_)
    for _ in range(warmup):
        yield next(forward)
    for _ in range(total - warmup):
        yield next(forward)
        yield next(backward)
    for _ in range(warmup):
        yield next(backward)


def _in_rounds(kind: str, stages: Sequence[int], round_: int) -> Iterator[Action]:
    """Yield the first `round_` micro-batches stage by stage, then the next ones."""
    for start in count(0, round_):
        for stage in stages:
            for m in range(start, start + round_):
                yield Action(stage, kind, m)


Order = Callable[[int, int, int, int], Iterator[Action]]

SCHEDULES: dict[str, Order] = {
    "1f1b": one_forward_one_backward,
    "gpipe": gpipe,
    "interleaved_1f1b": interleaved,
    "pipedream": one_forward_one_backward,  # the order alone; its weights are Pipeline's affair
    "zero_bubble": zero_bubble,
}
INTERLEAVED = ("interleaved_1f1b", "zero_bubble")


def schedule(name: str, stages: int, microbatches: int, chunks: int = 1) -> list[list[str]]:
    """Return what each rank does, in order, in torch's notation.

        >>> schedule("1f1b", 2, 2)
        [['0F0', '0F1', '0B0', '0B1'], ['1F0', '1B0', '1F1', '1B1']]

    Args:
        name: `"gpipe"`, `"1f1b"`, `"interleaved_1f1b"`, `"zero_bubble"`, or `"pipedream"`, whose
            order is that of 1F1B.
        stages: how many ranks there are.
        microbatches: how many the batch is cut into. The interleaved schedules send them through
            the chunks in `microbatches // stages` rounds of one size.
        chunks: stages on each rank; more than one only for the interleaved schedules. Stage
            numbers count all of them: rank r has r, r + stages, r + 2 stages, ...
    Raises:
        InvalidArgument: an unknown name, or numbers that do not fit it.
    """
    check_name("schedule", "schedule", name, sorted(SCHEDULES))
    check_counts("schedule", stages=stages, microbatches=microbatches, chunks=chunks)
    _check_fit(name, stages, microbatches, chunks)
    orders = [SCHEDULES[name](rank, stages, microbatches, chunks) for rank in range(stages)]
    return [[str(action) for action in order] for order in orders]


def orders_of(
    plan: str | Sequence[Sequence[str]], stages: int, microbatches: int, chunks: int = 1
) -> list[list[Action]]:
    """Return what each rank does, by a schedule's name or by a table such as `schedule` returns.

    Raises:
        InvalidArgument: no such schedule; or the table is not one: an action is missing, stands
            twice or on the wrong rank, or ranks wait for each other for ever.
    """
    table = schedule(plan, stages, microbatches, chunks) if isinstance(plan, str) else plan
    orders = [[parse(text) for text in order] for order in table]
    if not isinstance(plan, str):
        check_counts("schedule", stages=stages, microbatches=microbatches, chunks=chunks)
        _check_table(orders, stages, microbatches, chunks)
    return orders


def _check_table(orders: list[list[Action]], stages: int, microbatches: int, chunks: int) -> None:
    """Check that each rank does all its work, once, and that none waits for ever."""
    if len(orders) != stages:
        raise InvalidArgument(
            f"schedule: one list a rank: got {len(orders)} lists, expected {stages}. "
            "Write what each rank does."
        )
    for rank, order in enumerate(orders):
        halves = {(a.stage, a.microbatch) for a in order if a.kind in "IW"}
        due = Counter(
            Action(stage, kind, m)
            for stage in range(rank, stages * chunks, stages)
            for m in range(microbatches)
            for kind in ("FIW" if (stage, m) in halves else "FB")
        )
        done = Counter(order)
        for wrong, problem in ((done - due, "too much"), (due - done, "missing")):
            for action in wrong:
                raise InvalidArgument(
                    f"schedule: rank {rank} does not do its work once: {action} is {problem}, "
                    f"with {stages} ranks, {chunks} stages on each and {microbatches} "
                    "micro-batches. Give each rank a forward and a backward for each micro-batch "
                    "and stage of its own."
                )
    for _ in walk(orders):
        pass


def walk(orders: Sequence[Sequence[Action]]) -> Iterator[tuple[int, Action]]:
    """Yield (rank, action) in an order in which everything is there when it is needed.

    Raises:
        InvalidArgument: ranks wait for each other.
    """
    last_stage = max(action.stage for order in orders for action in order)
    done: set[Action] = set()
    left = [deque(order) for order in orders]
    while any(left):
        before = len(done)
        for rank, order in enumerate(left):
            while order and done.issuperset(order[0].needs(last_stage)):
                action = order.popleft()
                done.add(action.gives)
                yield rank, action
        if len(done) == before:
            waits = [
                f"rank {rank} waits at {order[0]} for "
                + " and ".join(str(a) for a in order[0].needs(last_stage) if a not in done)
                for rank, order in enumerate(left)
                if order
            ]
            raise InvalidArgument(
                f"schedule: ranks wait for each other: {'; '.join(waits)}. "
                "Put what is waited for earlier."
            )


def most_activations(order: Sequence[Action]) -> int:
    """Return the most micro-batches whose activations a rank keeps at a time, over its stages."""
    change = {"F": 1, "B": -1, "I": 0, "W": -1}
    return max(accumulate(change[action.kind] for action in order))


def _check_fit(name: str, stages: int, microbatches: int, chunks: int) -> None:
    if name not in INTERLEAVED:
        if chunks > 1:
            raise InvalidArgument(
                f"schedule: {name} has one stage a rank: got chunks={chunks}, expected 1. "
                f"Choose one of {', '.join(INTERLEAVED)} for more."
            )
        return
    rounds = max(1, microbatches // stages)
    if microbatches % rounds:
        raise InvalidArgument(
            f"schedule: {name} needs rounds of one size: got microbatches={microbatches} for "
            f"{rounds} rounds over {stages} ranks, expected a multiple of {rounds}. "
            f"Take microbatches={microbatches // rounds * rounds}."
        )
