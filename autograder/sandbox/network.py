"""Outside the wall: the judge is the network between ranks.

Every message goes through here, is written down as a fact, and is passed on. So counts, sizes,
order and peers of messages cannot be forged, whatever the ranks report. A rank that waits says
for whom and how much it has received; when every rank that still runs waits and nothing is on its
way to any, they wait for ever, and the error says who waits for whom.

A message is an array with a short header, and a rank's bytes are those of its arrays. So that a
header cannot carry an array's contents, one costs nothing only if the communicator could have
written it: of its form, with numbers of a few digits and words that stand in its own source or in
the code that runs on the ranks, and with a call site that is there. Any other is counted.
"""

import functools
import importlib.util
import re
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.errors import LimitReached, StudentError
from autograder.records import MIB, STEPS, Limits, Message, RanksRun, Step
from autograder.sandbox import watch
from autograder.sandbox.channel import NOTHING, pump, unpack
from autograder.sandbox.endpoint import MAX_HEADER_BYTES
from autograder.sandbox.layout import original
from autograder.sandbox.process import Process, ending_error
from autograder.sandbox.wire import WireError

WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"\d{1,6}")
_SITE = re.compile(r"(.{1,300}):(\d{1,6})")
_SHAPE = re.compile(r"\?|\((?:\d{1,9}(?:, \d{1,9}){0,3},?)?\)")
_TYPE = re.compile(r"\?|bool|(?:u?int|float|complex|bfloat)\d{1,3}")
_COLLECTIVE = 6  # fields: order, operation, algorithm, dtype, shape, argument
_MOST_WORDS = 4  # of an operation with its algorithm, or an argument


class Headers:
    """The headers that cost nothing where `texts` run: {file name as call sites say it: text}."""

    def __init__(self, texts: Mapping[str, str], communicator: str) -> None:
        self._lines = {name: text.count("\n") + 1 for name, text in texts.items()}
        package = communicator.partition(":")[0].partition(".")[0]
        own = {word for text in texts.values() for word in WORD.findall(text)}
        self._words = words_of(package) | own
        self._known: dict[bytes, bool] = {}

    def cost(self, header: bytes) -> int:
        """Return how many bytes of `header` are counted: none or all."""
        if header not in self._known:
            self._known[header] = self._is_free(header)
        return 0 if self._known[header] else len(header)

    def _is_free(self, header: bytes) -> bool:
        if not header:
            return True
        try:
            parts = header.decode().split("\0")
        except UnicodeDecodeError:
            return False
        if len(parts) != 3:
            return False
        text, site, kind = parts
        fields = text.split("|")
        if len(fields) == _COLLECTIVE:
            order, *named, dtype, shape, argument = fields
            plain = bool(_TYPE.fullmatch(dtype) and _SHAPE.fullmatch(shape))
            plain = plain and all(self._says_little(part) for part in (order, *named, argument))
        else:
            plain = len(fields) == 1 and self._says_little(text)
        return plain and self._is_there(site) and self._says_little(kind)

    def _says_little(self, text: str) -> bool:
        """Return whether `text` is a few known words and short numbers."""
        words = re.findall(r"\w+", text)
        punctuation = re.sub(r"\w", "", text)
        all_known = all(word in self._words or _NUMBER.fullmatch(word) for word in words)
        return all_known and len(words) <= _MOST_WORDS and len(punctuation) <= _MOST_WORDS

    def _is_there(self, site: str) -> bool:
        """Return whether `site` is a line of the texts, or of a file that a rank can see."""
        if not site:
            return True
        match = _SITE.fullmatch(site)
        if match is None:
            return False
        name, line = match[1], int(match[2])
        return line <= self._lines.get(name, lines_of(name))


@functools.lru_cache(maxsize=1024)
def lines_of(name: str) -> int:
    """Return how many lines the Python file has that a rank sees as `name`, 0 where none is."""
    path = Path(original(name))
    try:
        return path.read_bytes().count(b"\n") + 1 if path.suffix == ".py" else 0
    except (OSError, ValueError):
        return 0


@functools.lru_cache(maxsize=8)
def words_of(package: str) -> frozenset[str]:
    """Return every name in the source of a package; none where it is not installed."""
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    files = [path for folder in folders for path in Path(folder).rglob("*.py")]
    texts = [path.read_text("utf-8", "replace") for path in files]
    return frozenset[str]().union(*map(WORD.findall, texts))


MAX_TRAFFIC_BYTES = 512 * MIB
MAX_MESSAGES = 100_000
CHANNELS = 1 << 16
# A rank with a thread that is not waiting may still send; after so long of silence it will not.
SILENCE_S = 2.0


def run(
    ranks: Sequence[Process], limits: Limits, ends: float, headers: Headers, steps: bool = False
) -> RanksRun:
    """Carry messages between `ranks` until each has answered its request (its rank + 1).

    `headers` says what a message's header costs. With `steps` a message waits here until its
    receiver asks for it, so that a rank cannot have known it when it did what it says before.

    Raises:
        StudentError: what the first rank that failed raised, or "Deadlock".
        NotAttempted: a rank found nothing to run.
        LimitReached: a rank died, or all together passed a limit; the caller ends them.
    """
    switch = Switch(ranks, headers, steps)
    looked = time.monotonic()
    while switch.running():
        now = time.monotonic()
        if now >= ends:
            raise LimitReached("time", f"ended when its time was used up; {switch.state()}")
        if now >= looked + watch.TICK_S:
            watch.check([process.pid for process in ranks], limits)
            looked = now
        pump([process.channel for process in ranks], min(ends - now, watch.TICK_S))
        for rank in range(len(ranks)):
            switch.take_all(rank)
        switch.check()
    return RanksRun(tuple(switch.results), tuple(switch.messages), tuple(switch.steps))


class Switch:
    """What is known of each rank, and the record of what passed."""

    def __init__(self, ranks: Sequence[Process], headers: Headers, steps: bool) -> None:
        self.ranks = ranks
        self.steps: list[Step] = []
        self._holds = steps
        self._held: dict[tuple[int, int, int], deque[Any]] = defaultdict(deque)  # src, dst, channel
        self._posted: dict[tuple[int, int, int], int] = defaultdict(int)
        self._asked: dict[tuple[int, int, int], int] = defaultdict(int)  # so many in all
        self._n_delivered: dict[tuple[int, int, int], int] = defaultdict(int)
        self._headers = headers
        self.results: list[Any] = [NOTHING] * len(ranks)
        self.messages: list[Message] = []
        self._bytes = 0
        self._passed_on = [0] * len(ranks)  # messages on their way to each rank, or there
        self._waiting: list[tuple[list[int], int, bool] | None] = [None] * len(ranks)
        self._heard = time.monotonic()

    def running(self) -> list[int]:
        """Return the ranks that have not answered yet."""
        return [rank for rank, result in enumerate(self.results) if result is NOTHING]

    def take_all(self, rank: int) -> None:
        """Deal with every frame that has arrived from `rank`."""
        try:
            while (arrived := self.ranks[rank].channel.take()) is not NOTHING:
                self._heard = time.monotonic()
                self._take(rank, arrived)
        except WireError as error:
            broke = f"rank {rank} sent something that is no message: {error}"
            raise LimitReached("died", broke) from None

    def _take(self, rank: int, arrived: Any) -> None:
        import numpy

        if type(arrived) is not tuple or len(arrived) < 2 or type(arrived[0]) is not int:
            raise WireError("network: not of the form (id, kind, ...).")
        self._waiting[rank] = None
        if arrived[0] == rank + 1:
            self.results[rank] = self._answer(rank, arrived)
        elif arrived[0] == 0 and self._has(arrived, "send", int, int, bytes, numpy.ndarray):
            self._pass_on(rank, *arrived[2:])
        elif arrived[0] == 0 and self._has(arrived, "wait", list, int, bool):
            self._note_wait(rank, *arrived[2:])
        elif arrived[0] == 0 and self._has(arrived, "step", str, int, int, int):
            self._note(rank, *arrived[2:])
        else:
            raise WireError("network: of no known kind.")

    def _has(self, arrived: tuple[Any, ...], kind: str, *types: type) -> bool:
        named = type(arrived[1]) is str and arrived[1] == kind
        return named and [type(part) for part in arrived[2:]] == list(types)

    def _answer(self, rank: int, arrived: tuple[Any, ...]) -> Any:
        try:
            return unpack(arrived, rank + 1)
        except StudentError as error:
            message = f"rank {rank}: {error.message}"
            raise StudentError(error.type_name, message, error.traceback, error.where) from None

    def _pass_on(self, src: int, dst: int, channel: int, header: bytes, array: Any) -> None:
        if not 0 <= dst < len(self.ranks):
            raise WireError(f"network: no rank {dst}.")
        if len(header) > MAX_HEADER_BYTES or not 0 <= channel < CHANNELS:
            raise WireError("network: a header or channel that no transport makes.")
        self._bytes += array.nbytes + len(header)
        if self._bytes > MAX_TRAFFIC_BYTES or len(self.messages) >= MAX_MESSAGES:
            most = f"{MAX_MESSAGES} messages or {MAX_TRAFFIC_BYTES // MIB} MiB"
            raise LimitReached("output", f"ranks sent each other more than {most}")
        order = len(self.messages)
        n_bytes = array.nbytes + self._headers.cost(header)
        self.messages.append(Message(src, dst, n_bytes, header, array, order))
        if not self._holds:
            return self._deliver(dst, (src, channel, header, array))
        self.steps.append(Step(src, "send", dst))
        self._held[src, dst, channel].append((src, channel, header, array))
        return self._deliver_asked(src, dst, channel)

    def _deliver(self, dst: int, message: tuple[Any, ...]) -> None:
        self._passed_on[dst] += 1
        if self.results[dst] is NOTHING:
            self.ranks[dst].channel.queue(message)

    def _deliver_asked(self, src: int, dst: int, channel: int) -> None:
        """Deliver what `dst` has asked for and what is there; its first messages come first."""
        line = src, dst, channel
        while self._held[line] and self._n_delivered[line] < self._asked[line]:
            self._n_delivered[line] += 1
            self._deliver(dst, self._held[line].popleft())

    def _note(self, rank: int, kind: str, peer: int, channel: int, number: int) -> None:
        if kind not in STEPS or not 0 <= peer < len(self.ranks) or not 0 <= channel < CHANNELS:
            raise WireError("network: a step that no transport takes.")
        if len(self.steps) >= 3 * MAX_MESSAGES:
            raise LimitReached("output", f"ranks took more than {3 * MAX_MESSAGES} steps")
        self.steps.append(Step(rank, kind, peer))
        line = peer, rank, channel
        self._posted[line] += kind == "post"
        if kind == "ask":
            if number > self._posted[line]:
                raise WireError("network: asks for what no receive was posted for.")
            self._asked[line] = max(self._asked[line], number)
            self._deliver_asked(*line)

    def _note_wait(self, rank: int, sources: list[Any], n_received: int, alone: bool) -> None:
        if not all(type(src) is int and 0 <= src < len(self.ranks) for src in sources):
            raise WireError("network: waits for no rank.")
        self._waiting[rank] = (sources, n_received, alone)

    def check(self) -> None:
        """Raise if a rank that still runs is gone, or all of them wait for ever."""
        running = self.running()
        for rank in running:
            channel = self.ranks[rank].channel
            if channel.closed:
                raise ending_error(self.ranks[rank], f"rank {rank}: ")
            if channel.flooded:
                raise LimitReached("output", f"rank {rank}: ended by the output limit")
        stuck = [w for r in running if (w := self._stuck_wait(r)) is not None]
        silent = time.monotonic() - self._heard > SILENCE_S
        if running and len(stuck) == len(running) and (silent or all(a for _, _, a in stuck)):
            raise StudentError("Deadlock", f"every rank waits, and none will send: {self.state()}")

    def _stuck_wait(self, rank: int) -> tuple[list[int], int, bool] | None:
        """Return what `rank` waits for, unless something is on its way to it."""
        waiting = self._waiting[rank]
        return waiting if waiting and waiting[1] == self._passed_on[rank] else None

    def state(self) -> str:
        """Return who waits for whom, in words."""
        return "; ".join(self._state(rank) for rank in range(len(self.ranks)))

    def _state(self, rank: int) -> str:
        if self.results[rank] is not NOTHING:
            return f"rank {rank} has returned"
        waiting = self._waiting[rank]
        if waiting is None:
            return f"rank {rank} runs"
        return f"rank {rank} waits for rank {', '.join(map(str, waiting[0]))}"
