"""When parameters are gathered and freed, and when gradients are reduced, unit by unit.

    forward     gather unit 1 | compute 1, gather 2 | free 1, compute 2, gather 3 | ...
    backward    gather unit 3 | grads of 3, gather 2 | reduce 3, grads of 2, gather 1  | ...

What comes next is what came next in the forward pass before; a guess that proves wrong costs memory
alone. Gathers and reductions go by two communicators, so that neither waits for the other. All
ranks run the same units in the same order; which parameters of a unit get gradients may differ.

May import: torch, autograd_graph, flat_params.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_map

from ddp_lab.data_parallel.torch.autograd_graph import tensors_in
from ddp_lab.parallel.sharded.flat_params import FlatParams

IN_FLIGHT = 2  # reductions under way: one is waited for by others while the next is sent


def backward_task() -> int:
    """Return the number of the backward pass that this thread is in, -1 outside of one."""
    number: int = torch._C._current_graph_task_id()
    return number


@dataclass(eq=False)
class Use:
    """One forward pass through a unit; `has_inputs`: gradients leave through its inputs."""

    has_inputs: bool = False


class Unit:
    """A module whose parameters come and go together, around its forward and its backward."""

    def __init__(
        self, module: nn.Module, flats: list[FlatParams], compute_dtype: torch.dtype | None
    ) -> None:
        self.module, self.flats, self.compute_dtype = module, flats, compute_dtype
        self.order = UnitOrder([self], True)
        self.trained = [flat for flat in flats if flat.trains]
        self.place = 0  # where its gradients stand in the order of reductions
        self._uses: list[Use] = []  # forward passes that have begun and not ended
        self._open: set[Use] = set()  # backward passes that have begun and not ended
        for flat in self.trained:
            flat.on_arrival = self._note_arrival
        module.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._after_forward, always_call=True)

    def gather(self) -> None:
        """Start to gather."""
        for flat in self.flats:
            flat.gather(self.order.pass_number)

    def free(self) -> None:
        """Free the memory of the whole parameters."""
        for flat in self.flats:
            if flat.has_memory:
                flat.free()

    def wait_and_prefetch(self, upcoming: "Unit | None") -> None:
        """Wait for the whole parameters, and begin to gather those of the next unit."""
        self.gather()
        for flat in self.flats:
            flat.wait()
        if upcoming is not None:
            upcoming.gather()

    # Forward

    def _before_forward(self, _: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        upcoming, use = self.order.enter(self), Use()
        self._uses.append(use)  # `_after_forward` takes it away even if the others are lost here
        self.wait_and_prefetch(upcoming)
        for flat in self.flats:
            flat.install(flat.params)
        return self._inputs(use, args, kwargs)

    def _inputs(self, use: Use, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the inputs as views: a backward of this use is over when these have gradients."""
        seen: dict[int, Tensor] = {}
        watched: list[Tensor] = []

        def view(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point():
                return x
            if id(x) not in seen:
                own = x if self.compute_dtype is None else x.to(self.compute_dtype)
                if x.requires_grad and torch.is_grad_enabled():
                    own = own.view_as(own)
                    watched.append(own)
                seen[id(x)] = own
            return seen[id(x)]

        inputs = tree_map(view, (args, kwargs)) if self.flats else (args, kwargs)
        if watched:
            use.has_inputs = True
            register_multi_grad_hook(watched, lambda _: self._close(use), mode="all")
        return inputs

    def _after_forward(self, _: nn.Module, __: Any, result: Any) -> None:
        use = self._uses.pop()
        if not self._uses:
            for flat in self.flats:
                flat.install(flat.shares)
        outputs = [x for x in tensors_in(result) if x.requires_grad]
        if outputs:
            register_multi_grad_hook(outputs, lambda _: self._before_backward(use), mode="any")
        self.order.leave(self, keep=bool(outputs) and not self.order.reshard_after_forward)

    # Backward

    def _before_backward(self, use: Use) -> None:
        self.order.add_to_task(self)
        self._open.add(use)
        self.wait_and_prefetch(self.order.before(self))

    def _note_arrival(self) -> None:
        task = self.order.add_to_task(self)
        if self.complete:
            self.order.reduce(task)
            self._free_if_done()

    def _close(self, use: Use) -> None:
        self._open.discard(use)
        self._free_if_done()

    @property
    def complete(self) -> bool:
        """Whether all gradients have come."""
        return all(flat.complete for flat in self.trained)

    def _free_if_done(self) -> None:
        """Free the whole parameters if no node of the graph will read them any more.

        A use is over when the gradients of its inputs are there; if it has none, when those of all
        its parameters are.
        """
        if self.complete and not any(use.has_inputs or not self.trained for use in self._open):
            self.free()

    def end(self) -> None:
        """End a backward pass."""
        self._open.clear()
        self.free()


class UnitOrder:
    """The order of the units that work together, and the backward passes under way."""

    def __init__(self, units: Iterable[Unit], reshard_after_forward: bool) -> None:
        self.units = list(units)
        self.reshard_after_forward = reshard_after_forward
        self.pass_number = 0
        self._forward = self.units  # in order of entry; before the first pass a guess
        self._backward: list[Unit] = []
        self._entered: list[Unit] = []
        self._left: list[Unit] = []
        self._depth = 0
        self._tasks: dict[int, dict[Unit, None]] = {}
        self._waiting: dict[int, list[tuple[int, int, Unit]]] = {}
        self._in_flight: list[FlatParams] = []

    # Forward

    def enter(self, unit: Unit) -> Unit | None:
        """Note that a unit's forward begins; return the unit to gather next."""
        if backward_task() >= 0:  # activations are computed again
            self.add_to_task(unit)
            return None
        if self._depth == 0:
            self._begin_pass()
        self._depth += 1
        at = len(self._entered)
        self._entered.append(unit)
        follows = at + 1 < len(self._forward) and self._forward[at] is unit
        return self._forward[at + 1] if follows else None

    def _begin_pass(self) -> None:
        self.pass_number += 1
        self._entered, self._left = [], []
        for task in list(self._tasks):  # a backward pass has raised
            for unit in self._tasks.pop(task):
                unit.end()
                for flat in unit.trained:
                    flat.drop_gradients()
        self._waiting.clear()
        self._in_flight.clear()

    def leave(self, unit: Unit, keep: bool) -> None:
        """Note that a unit's forward is over."""
        if backward_task() >= 0:
            return
        self._depth -= 1
        self._left.append(unit)
        if not keep:
            unit.free()
        if self._depth == 0:
            self._end_pass()

    def _end_pass(self) -> None:
        entered = set(self._entered)
        for unit in self.units:
            if unit not in entered:
                unit.free()  # gathered ahead, and not used
        self._forward = self._entered
        self._backward = list(dict.fromkeys(reversed(self._left)))
        order = dict.fromkeys(self._entered)
        for place, unit in enumerate(reversed(order)):
            unit.place = place

    # Backward

    def before(self, unit: Unit) -> Unit | None:
        """Return the unit whose backward will come after that of `unit`."""
        if unit not in self._backward:
            return None
        at = self._backward.index(unit) + 1
        return self._backward[at] if at < len(self._backward) else None

    def add_to_task(self, unit: Unit) -> int:
        """Note that the backward pass which runs now has come to a unit; return its number."""
        task = backward_task()
        if task not in self._tasks:
            self._tasks[task], self._waiting[task] = {}, []
            engine = torch.autograd.Variable._execution_engine
            engine.queue_callback(partial(self._finish, task))
        if unit not in self._tasks[task]:
            insort(self._waiting[task], (unit.place, len(self._tasks[task]), unit))
            self._tasks[task][unit] = None
        return task

    def reduce(self, task: int, everything: bool = False) -> None:
        """Start the reductions whose turn it is, in one order on all ranks.

        It is the reverse of the order in which forward came to the units, for that is when their
        gradients are complete.
        """
        waiting = self._waiting[task]
        while waiting and (everything or waiting[0][-1].complete):
            *_, unit = waiting.pop(0)
            for flat in unit.trained:
                if len(self._in_flight) == IN_FLIGHT:
                    self._in_flight.pop(0).wait_for_gradients()
                flat.reduce()
                self._in_flight.append(flat)

    def _finish(self, task: int) -> None:
        self.reduce(task, everything=True)
        while self._in_flight:
            self._in_flight.pop(0).wait_for_gradients()
        units = sorted(self._tasks.pop(task), key=lambda unit: unit.place)
        del self._waiting[task]
        flats = [flat for unit in units for flat in unit.trained]
        if flats:
            keep_used(flats)
        for unit in units if self._tasks else self.units:
            unit.end()


def keep_used(flats: list[FlatParams]) -> None:
    """Keep the gradients of parameters that got one on some rank; the others have none."""
    flags = [i in flat.arrived for flat in flats for i in range(len(flat.params))]
    used = flats[0].reduces.all_reduce(torch.tensor(flags, dtype=torch.int8), "max").tolist()
    for flat in flats:
        mine, used = used[: len(flat.params)], used[len(flat.params) :]
        flat.keep_gradients(mine)
