"""Programs of steps run where memory is planned, poisoned, or handed out by an allocator."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from lessons.graphs.programs import Array, Feeds, Program, Step, compute, run

Lives = Mapping[int, tuple[int, int]]
LINE_BYTES = 64  # of a cache: what shares no line is not slowed down by its neighbour


class Plan(NamedTuple):
    """Offsets in an arena, its size, and what all values would need without one."""

    lives: Lives
    sizes: dict[int, int]
    offsets: Mapping[int, int]
    peak: int
    total: int


def memory_plan(
    program: Program,
    lifetimes: Callable[[Program], Lives],
    place: Callable[[Lives, dict[int, int]], Mapping[int, int]],
) -> Plan:
    """Return the plan of a program by two functions: when values live, and where they lie."""
    lives = lifetimes(program)
    sizes = {i: 4 * int(np.prod(program.steps[i].shape)) for i in lives}
    sizes = {i: -(-size // LINE_BYTES) * LINE_BYTES for i, size in sizes.items()}
    offsets = place(lives, sizes)
    peak = max((offsets[i] + sizes[i] for i in lives), default=0)
    return Plan(lives, sizes, offsets, peak, sum(sizes.values()))


def places(program: Program, plan: Plan) -> dict[int, Array]:
    """Return an array for each planned value, all in one arena."""
    arena, memory = np.empty(plan.peak, np.uint8), {}
    for i, offset in plan.offsets.items():
        shape = program.steps[i].shape
        n_bytes = 4 * int(np.prod(shape))
        memory[i] = arena[offset : offset + n_bytes].view(np.float32).reshape(shape)
    return memory


def in_arena(program: Program, plan: Plan) -> Callable[[Feeds], list[Array]]:
    """Return a function of feeds that runs the program in an arena."""
    return partial(run, program, memory=places(program, plan))


class _Spoiling(list[Step]):
    """Steps which, as they are gone through, make NaN of what has ended."""

    def __init__(self, steps: list[Step], plan: Plan, memory: Mapping[int, Array]) -> None:
        super().__init__(steps)
        self.plan, self.memory = plan, memory

    def __iter__(self) -> Iterator[Step]:
        for now, step in enumerate(super().__iter__()):
            for i, (_, last) in self.plan.lives.items():
                if last == now - 1:
                    self.memory[i].fill(np.nan)
            yield step


def poisoned(program: Program, plan: Plan, feeds: Feeds) -> list[Array]:
    """Return the outputs of a run in an arena in which whatever has ended is made NaN."""
    memory, spoiling = places(program, plan), Program()
    spoiling.steps, spoiling.outputs = _Spoiling(program.steps, plan, memory), program.outputs
    return run(spoiling, feeds, memory)


def alive_bytes(program: Program, plan: Plan) -> list[int]:
    """Return how many bytes are alive at each step, by a plan."""
    steps = range(len(program.steps))
    spans = [(first, last, plan.sizes[i]) for i, (first, last) in plan.lives.items()]
    return [sum(n for first, last, n in spans if first <= now <= last) for now in steps]


class Counter:
    """A system that reserves bytes: it counts the calls, and how many bytes."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0

    def __call__(self, n: int) -> int:
        """Return the address of `n` new bytes."""
        self.calls, self.bytes = self.calls + 1, self.bytes + n
        return self.bytes - n


class Allocator(Protocol):
    """What hands out addresses."""

    def malloc(self, n: int) -> int:
        """Return the address of `n` bytes that nobody else has."""

    def free(self, address: int) -> None:
        """Take a block back."""


class Heap:
    """Arrays in one piece of memory, divided by an allocator made by `make(reserve)`."""

    def __init__(self, n_bytes: int, make: Callable[[Counter], Allocator]) -> None:
        self.memory = np.empty(n_bytes, np.uint8)
        self.system = Counter()
        self.allocator = make(self.system)

    def array(self, shape: tuple[int, ...]) -> tuple[int, Array]:
        """Return (address, array); sizes are rounded up to 512 bytes."""
        count = int(np.prod(shape))
        n_bytes = -(-4 * count // 512) * 512
        at = self.allocator.malloc(n_bytes)
        return at, self.memory[at : at + n_bytes].view(np.float32)[:count].reshape(shape)


def run_in_heap(program: Program, feeds: Feeds, heap: Heap, lives: Lives) -> list[Array]:
    """Return copies of the outputs; values lie in the heap and are freed after their last use."""
    values: list[Array] = []
    address: dict[int, int] = {}
    for i, step in enumerate(program.steps):
        out: Any = None
        if i in lives:
            address[i], out = heap.array(step.shape)
        fed = step.op == "input"
        sources = [values[j] for j in step.inputs]
        values.append(feeds[step.attr[0]] if fed else compute(step, sources, out))
        for j in [j for j in address if lives[j][1] <= i]:
            heap.allocator.free(address.pop(j))
    outputs = [values[i].copy() for i in program.outputs]
    for at in address.values():
        heap.allocator.free(at)
    return outputs


def take_and_give(lock: AbstractContextManager[Any], start: Any, pairs: int, took: Any) -> None:
    """Take a block from a list and give it back, each under the lock; send the microseconds."""
    blocks = [0]
    start.wait()
    began = perf_counter()
    for _ in range(pairs):
        with lock:
            block = blocks.pop()
        with lock:
            blocks.append(block)
    took.send(1e6 * (perf_counter() - began) / pairs)


def pair_us(locks: int, pairs: int = 50_000) -> float:
    """Return the microseconds of a malloc and a free in two processes with one lock, or two.

    Processes, for threads of Python take turns; the blocks are no more than a list.
    """
    context = get_context("spawn")
    all_locks, start = [context.Lock() for _ in range(locks)], context.Barrier(2)
    pipes = [context.Pipe(duplex=False) for _ in range(2)]
    workers = [
        context.Process(target=take_and_give, args=(all_locks[k % locks], start, pairs, sender))
        for k, (_, sender) in enumerate(pipes)
    ]
    for worker in workers:
        worker.start()
    took = [receiver.recv() for receiver, _ in pipes]
    for worker in workers:
        worker.join()
    return float(max(took))
