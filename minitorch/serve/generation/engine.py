"""A deployed generator: one container, a scheduler, and the replies under way.

One iteration is under way at a time: the plan goes out as an order, its tokens come back, the next
order goes out, and then readers take theirs while the container computes. A container that ends
loses its cache and nothing else: replies start anew from prompt and tokens so far, unseen by their
readers, since the draws of a reply depend on its seed and their number alone.

A reader who does not keep up has `MOST_UNREAD` tokens waiting; then its request leaves its slot to
others, and comes back when the reader has caught up.

May import: clock, containers, counts, errors, reply, scheduler.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minitorch.errors import ArgumentError, ContainerDied, MinitorchError, ModelFailed, ServeError
from minitorch.serve.clock import Clock
from minitorch.serve.containers import Container, Hub
from minitorch.serve.counts import Counts, Times, quantiles, recent_times
from minitorch.serve.generation.reply import Reply, Stream
from minitorch.serve.generation.scheduler import Plan, Scheduler

MOST_UNREAD = 256
UNREAD_MS = 60_000.0  # a reader who is so far behind for as long is taken to be gone
MOST_STRIKES = 4  # of a request that ends its container, alone since the second
HANG_MS = 60_000.0  # an iteration: long prompts take their time


@dataclass(slots=True)
class GeneratorCounts(Counts):
    """What has happened to one generator's requests; `batches` are steps, `queries` their rows."""

    tokens: int = 0
    cancelled: int = 0  # whose readers went away
    first_token_ms: Times = field(default_factory=recent_times)  # from asked
    between_tokens_ms: Times = field(default_factory=recent_times)


class Engine(Container):
    """One generator, from its deployment until the next of its name."""

    program = "from minitorch.serve.generation.worker import prepare; main(prepare)"

    def __init__(
        self, name: str, data: bytes, hub: Hub, clock: Clock, counts: GeneratorCounts,
        scheduler: Scheduler[Reply], hang_ms: float | None = None,
    ) -> None:  # fmt: skip
        self.counts = counts
        self.words: list[str] | None = None  # the text of each token
        self._scheduler = scheduler
        self._hang_ms = HANG_MS if hang_ms is None else hang_ms
        self._replies: dict[int, Reply] = {}  # that have not ended, by number
        self._plan: Plan[Reply] | None = None  # under way in the container
        self._vocabulary: int | None = None
        self._is_awaited = self._is_retired = False
        super().__init__(name, data, hub, clock, counts)

    def submit(self, reply: Reply) -> Stream:
        """Let a request wait for a slot; return its reader's end.

        Raises:
            ArgumentError: it can never have room, or has a token that is none.
        """
        if misfit := self._misfit(reply):
            raise misfit
        self._scheduler.add(reply)
        self._replies[reply.number] = reply
        reply.asked_ms = self._clock.now_ms()
        reply.due_ms += reply.asked_ms
        reply.first_due_ms += reply.asked_ms
        self._set_deadline(reply)
        self._wake()
        return Stream(reply, self._has_read, partial(self._end, reason="cancelled"))

    def metrics(self) -> dict[str, Any]:
        """Return what was counted, and who generates and waits now."""
        return self.counts.as_dict() | {
            "tokens": self.counts.tokens,
            "cancelled": self.counts.cancelled,
            "active": len(self._scheduler.active),
            "waiting": len(self._scheduler.waiting),
            "first_token_ms": quantiles(self.counts.first_token_ms),
            "between_tokens_ms": quantiles(self.counts.between_tokens_ms),
            "cache_tokens_used": self._scheduler.cache_tokens_used,
        }

    def join(self) -> None:
        self._wake()

    def retire(self) -> None:
        """End when the replies under way have ended; nobody submits any more."""
        self._is_retired = True
        if not self._replies:
            self.stop()

    def stop(self) -> None:
        """End now; who still waits is told."""
        super().stop()
        for reply in [*self._replies.values()]:
            self._end(reply, error=ServeError("generate: the server was closed."))

    # ---- iterations

    def _wake(self) -> None:
        """Run what is planned, after what happens now: who comes together starts together."""
        if not self._is_awaited and not self._is_over:
            self._is_awaited = True
            self._hub.loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_awaited = False
        if not self.is_serving or self._plan is not None:
            return
        plan = self._scheduler.plan()
        if plan:
            self._plan = plan
            self._send([json.dumps(order(plan)).encode()], self._hang_ms)

    def _take_results(self, frames: list[bytes]) -> None:
        answer = json.loads(frames[0])
        plan, self._plan = self._plan or Plan(), None
        self._vocabulary = answer["vocabulary"]
        jobs = plan.starts or plan.steps
        self.counts.batches += bool(plan.steps)
        self.counts.queries += len(plan.steps)
        if answer["error"] is None:
            for reply, result in zip(jobs, answer["results"], strict=True):
                if reply.slot is not None:
                    self._take(reply, plan, result)
        elif len(jobs) == 1:
            self._fail(jobs[0], answer["error"])
        else:  # one of them is to blame: each starts anew and makes its next step alone
            self._scheduler.retry(jobs)
        self._pump()

    def _take(self, reply: Reply, plan: Plan[Reply], result: Any) -> None:
        """Give a reply its next token, or what went wrong."""
        if plan.starts and (misfit := self._misfit(reply)):
            self._end(reply, error=misfit)
        elif not isinstance(result, int):
            self._fail(reply, result)
        elif result in reply.stop:
            self._end(reply, reason="stop")
        else:
            self._add_token(reply, plan, result)

    def _add_token(self, reply: Reply, plan: Plan[Reply], token: int) -> None:
        now_ms = self._clock.now_ms()
        if reply.tokens:
            self.counts.between_tokens_ms.append(now_ms - reply.last_ms)
        else:
            self.counts.first_token_ms.append(now_ms - reply.asked_ms)
        self.counts.tokens += 1
        reply.last_ms = now_ms
        reply.tokens.append(token)
        reply.changed.set()
        self._scheduler.advance(reply, plan)
        if reply.made == reply.max_tokens:
            self._end(reply, reason="length")
        elif reply.unread >= MOST_UNREAD:
            self._pause(reply)

    def _return_work(self) -> None:
        plan, self._plan = self._plan, None
        self._scheduler.lose(plan)
        for reply in [*self._replies.values()]:
            if reply.strikes >= MOST_STRIKES:
                words = f"generate: the container of {self._name} ended with the request each time."
                self._end(reply, error=ContainerDied(words))

    # ---- readers

    def _has_read(self, reply: Reply) -> None:
        if reply.is_paused and not reply.is_over and reply.unread <= MOST_UNREAD // 2:
            reply.is_paused = False
            self._set_deadline(reply)
            self._scheduler.add(reply)
            self._wake()

    def _pause(self, reply: Reply) -> None:
        """Leave the slot to others until the reader has caught up."""
        self._scheduler.remove(reply)
        reply.is_paused = True
        reply.timer.cancel()
        until_ms = min(reply.due_ms, self._clock.now_ms() + UNREAD_MS)
        reply.timer = self._clock.call_at(until_ms, partial(self._give_up, reply))

    def _give_up(self, reply: Reply) -> None:
        if self._clock.now_ms() >= reply.due_ms:
            self._end(reply, reason="deadline")
            return
        words = (
            f"generate: the reader was {reply.unread} tokens behind for {UNREAD_MS / 1e3:g} s, so "
            "the reply has ended. Read faster, or ask for fewer max_tokens."
        )
        self._end(reply, error=ServeError(words))

    def _set_deadline(self, reply: Reply) -> None:
        reply.timer.cancel()
        if reply.next_due_ms() < math.inf:
            expire = partial(self._expire, reply)
            reply.timer = self._clock.call_at(reply.next_due_ms(), expire)

    def _expire(self, reply: Reply) -> None:
        if self._clock.now_ms() >= reply.next_due_ms():
            self._end(reply, reason="deadline")
        else:  # that of the first token has been met
            self._set_deadline(reply)

    def _fail(self, reply: Reply, error: Sequence[Any]) -> None:
        by_input, words = error
        self._end(reply, error=ModelFailed(f"generate: {self._name}: {words}", by_input))

    def _end(
        self, reply: Reply, reason: str = "error", error: MinitorchError | None = None
    ) -> None:
        """End a reply, once: its slot and its room are free, and its reader is told."""
        if reply.is_over:
            return
        reply.reason, reply.error = reason, error
        reply.timer.cancel()
        reply.changed.set()
        del self._replies[reply.number]
        self._scheduler.remove(reply)
        self.counts.served += reason in ("length", "stop")
        self.counts.late += reason == "deadline"
        self.counts.failed += error is not None
        self.counts.cancelled += reason == "cancelled"
        if reason in ("length", "stop"):
            self.counts.latency_ms.append(self._clock.now_ms() - reply.asked_ms)
        if self._is_retired and not self._replies:
            self.stop()
        else:
            self._wake()

    def _misfit(self, reply: Reply) -> ArgumentError | None:
        """Return what is wrong with a prompt, once the vocabulary is known."""
        most = max(reply.prompt)
        if self._vocabulary is None or most < self._vocabulary:
            return None
        return ArgumentError(
            f"generate: token {most} is outside the vocabulary of {self._name}: expected 0 to "
            f"{self._vocabulary - 1}. Encode the text with the model's own tokenizer."
        )


def order(plan: Plan[Reply]) -> dict[str, Any]:
    """Return a plan as its container gets it."""
    starts = [
        (reply.slot, reply.prompt + reply.tokens, reply.made, *reply.sampling)
        for reply in plan.starts
    ]
    return {"free": plan.free, "starts": starts, "steps": [reply.slot for reply in plan.steps]}
