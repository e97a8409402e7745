"""What a traced step does besides computing: it sets gradients, writes memory, calls optimizers.

While it is traced none of this happens: `Effects` takes note of it, and later reads see what would
then be there. `steps` makes up for it in a run, in order. An optimizer is called itself, after the
graph has computed what it needs: its hyperparameters, which a scheduler may change, and its state
are those of the moment, and its parameters are overwritten where they lie. What the function
computes after that from the parameters is a graph of its own, a further stage. So a stage is a
graph without effects, and what goes wrong in it leaves everything as it was. Gradients that it
replaces go once no value can make it fail, so that the new ones can have their memory.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.arrays.library import owner
from minitorch.errors import GradientError, GraphError
from minitorch.graph.core.gradients import StopGradient, gradients
from minitorch.graph.core.node import Constant, Node, build
from minitorch.op import Op
from minitorch.ops.elementwise.casting import cast_to
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.modes import no_grad, recording
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.stages import Effect, OldGradient, Stage
from minitorch.tracing.symbol import Symbol, place, shows

if TYPE_CHECKING:
    from minitorch.tracing.tracer import Tracer


ALONE = 2  # references to an object that one name or attribute holds: it, and the argument


def check_apart(operation: str, updated: Tensor, other: Tensor, name: str = "another") -> None:
    """Raise if a tensor that a trace updates lies in the memory of another that it uses.

    A graph would read the other as it was before.
    """
    pair = updated.array, other.array
    if all(isinstance(a, np.ndarray) for a in pair) and np.may_share_memory(*pair):
        raise GraphError(
            f"{operation}: a tensor is updated in place that {name}, which is used "
            f"too, shares memory with: got {updated.shape} and {other.shape}, expected memory of "
            "its own. Use one of them for both, or pass a clone()."
        )


class Effects:
    """What one trace has noted so far, and what the outside would look like by now.

    Attributes:
        stages: those that have ended, and the present one.
        moved: tensors from outside, and constants made inside, that were updated in place, with
            the symbol that stands for each since; a run writes those from outside.
        grads: the gradient of each tensor that was asked for its own, or given one.
        had: the tensors whose gradient was read, and whether there was one.
        past: what was captured of tensors that an optimizer has overwritten since.
        shown: views that were made at once, of what is no symbol, with what made them.
    """

    def __init__(self, tracer: "Tracer") -> None:
        self.tracer = tracer
        self.stages = [Stage()]
        self.moved: dict[int, tuple[Tensor, Symbol]] = {}
        self.grads: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.had: dict[int, tuple[Tensor, bool]] = {}
        self.shown: dict[int, tuple[Tensor, Op, tuple[Tensor, ...]]] = {}
        self._symbols: dict[int, Symbol] = {}  # of those, by id
        self.past: list[tuple[Tensor, Node]] = []
        self.stage_of: dict[Node, int] = {}
        self.wanted: list[tuple[Tensor, bool]] = []
        self._leaves: dict[int, list[Node]] = {}  # by tensor, the nodes that stood for it
        self._old: dict[int, tuple[OldGradient, Symbol]] = {}
        self._done: dict[int, tuple[object, object]] = {}  # what is there when the stage begins

    @property
    def any(self) -> bool:
        """Whether gradients are set or something is called, which a graph alone does not do."""
        return bool(self.grads) or len(self.stages) > 1 or bool(self.stages[0].effects)

    def note_captured(self, tensor: Tensor, node: Node) -> None:
        """Note that `node` stands for a tensor from outside, from the present stage on."""
        self.stage_of[node] = len(self.stages) - 1
        self._leaves.setdefault(id(tensor), []).append(node)

    # ── updates in place of what is outside ─────────────────────────────────────────────────────

    def note_shown(self, view: Tensor, op: Op, inputs: tuple[Any, ...]) -> None:
        """Note what a tensor that was made at once is a view of: an update of it is one of that.

        It is from outside where that is. What is a copy has read numbers.
        """
        if owner(view.array) is owner(inputs[0].array):
            view._stamp = inputs[0]._stamp
            self.shown[id(view)] = view, op, inputs
        else:
            self.tracer.as_read(inputs[0])

    def source_of(self, tensor: Any) -> Any:
        """Return what a tensor that is no symbol is a view of, or itself."""
        while id(tensor) in self.shown:
            _, _, (tensor, *_) = self.shown[id(tensor)]
        return tensor

    def symbol_of(self, view: Tensor) -> Symbol:
        """Return the symbol for a view that was made at once."""
        symbol = self._symbols.get(id(view))
        if symbol is None:
            _, op, inputs = self.shown[id(view)]
            detached = isinstance(op, StopGradient)
            symbol = self.tracer.detach(*inputs) if detached else self.tracer.apply(op, inputs)
            assert symbol.made_as is not None
            symbol.made_as.certain = True  # it is there
            if not self.tracer.blocks:
                self._symbols[id(view)] = symbol
        return symbol

    def moved_to(self, tensor: object) -> Symbol | None:
        """Return what a tensor became by an update of it, or of what it is a view of."""
        source = self.source_of(tensor)
        _, moved = self.moved.get(id(source), (source, None))
        return moved if moved is None or source is tensor else self.symbol_of(tensor)  # type: ignore[arg-type]

    def _written(self) -> list[tuple[Tensor, Symbol]]:
        """Return what a run writes: of what was moved, what is from outside."""
        return [pair for pair in self.moved.values() if self.tracer.is_outside(pair[0])]

    def as_result(self, value: Tensor) -> Tensor:
        """Return what the function returns for `value`: the symbol of what was made inside."""
        moved = None if self.tracer.is_outside(value) else self.moved_to(value)
        return value if moved is None else moved

    def stands_for(self, tensor: Tensor) -> Symbol:
        """Return the symbol that is a tensor as it is by now."""
        if isinstance(tensor, Symbol):
            return tensor
        if (moved := self.moved_to(tensor)) is not None:
            return moved
        return Symbol.of(self.tracer.node_of(tensor), self.tracer, tensor.requires_grad)

    def detach(self, tensor: Tensor, eager: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a tensor from outside without its history; an update of it is one of `tensor`."""
        if not tensor.requires_grad and self.moved_to(tensor) is None:
            detached = eager(tensor)
            self.note_shown(detached, StopGradient(), (tensor,))
            return detached
        return self.tracer.detach(tensor)

    def move(self, tensor: Tensor, method: str, *args: object, **kwargs: object) -> Any:
        """Update a tensor from outside, which is then to be written, or one that was a constant."""
        if self.tracer.blocks or tensor.op is not None:
            raise GraphError(
                f"{self.tracer.operation}: cannot trace an update of a tensor from outside in a "
                f"branch, a loop or a history (at {place()}). Update what the function returns."
            )
        if method == "__setitem__":
            index, value = args
            part = self.symbol_of(value) if id(value) in self.shown else value  # type: ignore[arg-type]
            if shows(part, tensor, index):
                return None  # `x[0] += 1` has done it
        if id(tensor) in self.shown:
            symbol = self.symbol_of(tensor)
            result = getattr(Symbol, method)(symbol, *args, **kwargs)
            return tensor if result is symbol else result
        self._check_alone(tensor)
        symbol = self.stands_for(tensor)
        symbol.requires_grad = recording.on and symbol.requires_grad
        result = getattr(Symbol, method)(symbol, *args, **kwargs)
        self.moved[id(tensor)] = (tensor, symbol)
        if not recording.on:
            symbol.requires_grad, symbol.op, symbol.inputs = tensor.requires_grad, None, ()
            symbol.node = build(StopGradient(), (symbol.node,))
            self.tracer.updates += 1
        self._leaves[id(tensor)].append(symbol.node)
        return tensor if result is symbol else result

    def _check_alone(self, tensor: Tensor) -> None:
        """Raise if the memory of what was made inside may be that of an array outside."""
        if self.tracer.is_outside(tensor) or self.moved_to(tensor) is not None:
            return
        viewed = any(inputs[0] is tensor for _, _, inputs in self.shown.values())
        if sys.getrefcount(tensor.array) > ALONE and not viewed:
            raise GraphError(
                f"{self.tracer.operation}: cannot trace an update of numbers that something else "
                f"holds too, as from_numpy's array does (at {place()}). Update a clone()."
            )

    # ── gradients ───────────────────────────────────────────────────────────────────────────────

    def grad(self, tensor: Tensor) -> Tensor | None:
        """Return the gradient that a tensor from outside has by now."""
        if id(tensor) not in self.grads:
            has_grad = tensor._grad is not None
            self.had[id(tensor)] = (tensor, has_grad)
            symbol = None
            if has_grad:
                old = OldGradient(tensor)
                symbol = Symbol.of(self.tracer.node_of(old), self.tracer)
                self._old[id(tensor)] = (old, symbol)
            self.grads[id(tensor)] = (tensor, symbol)
            self._done[id(tensor)] = (symbol, None if symbol is None else symbol.node)
        return self.grads[id(tensor)][1]

    def set_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """Note the gradient that a tensor from outside is to have."""
        self.grads[id(tensor)] = (tensor, value)

    def backward(self, root: Symbol, seed: Tensor | None, create_graph: bool) -> None:
        """Add the gradients of `root` to those of the leaves that it was computed from."""
        if self.tracer.variables:
            raise GraphError(
                f"{self.tracer.operation}: backward is called while tracing (at {place()}), "
                "expected a function that returns the loss. Ask for `gradients` of what the trace "
                "returns, or use jit."
            )
        if not root.requires_grad:
            raise GradientError(
                f"backward: this tensor does not require a gradient (at {place()}) and was not "
                "computed from one that does. Make an input with requires_grad=True."
            )
        if seed is None and root.numel() != 1:
            raise GradientError(
                f"backward: got an output of shape {root.shape} (at {place()}), expected one "
                "element. Reduce it with .sum() or .mean(), or pass the gradient."
            )
        output = self.tracer.node_of(root)
        leaves = self._below(root)
        nodes = [node for leaf in leaves for node in self._nodes_of(leaf)]
        arriving = None if seed is None else [self.tracer.node_of(seed)]
        shares = dict(zip(nodes, gradients([output], nodes, arriving), strict=True))
        for leaf in leaves:
            parts = [share for node in self._nodes_of(leaf) if (share := shares[node]) is not None]
            for share in parts:
                grad = self._of(cast_to(share, leaf.dtype), leaves if create_graph else ())
                self._add(leaf, grad, create_graph)

    def _of(self, share: Any, leaves: Sequence[Tensor]) -> Symbol:
        """Return the symbol for a gradient, which has one itself with respect to `leaves`."""
        if not leaves:
            return Symbol.of(build(StopGradient(), (share,)), self.tracer)
        symbol = Symbol.of(share, self.tracer, True)
        symbol.op, symbol.inputs = share.op, tuple(leaves)
        return symbol

    def _add(self, leaf: Tensor, grad: Any, create_graph: bool) -> None:
        for hook in tuple(leaf.hooks.before.values()) if leaf.hooks else ():
            replaced = hook(grad)
            grad = grad if replaced is None else replaced
        have: Any = leaf.grad
        if have is None or create_graph:
            leaf.grad = grad if have is None else have + grad
        else:
            with no_grad():
                have.add_(grad)
        for hook in tuple(leaf.hooks.after.values()) if leaf.hooks else ():
            hook(leaf)

    def _below(self, root: Symbol) -> list[Tensor]:
        """Return the leaves that `root` was computed from, each once."""
        stands = {id(symbol): tensor for tensor, symbol in self.moved.values()}
        leaves: dict[int, Tensor] = {}
        seen: set[int] = set()
        waiting: list[Tensor] = [root]
        while waiting:
            value = waiting.pop()
            if id(value) in seen or not value.requires_grad:
                continue
            seen.add(id(value))
            if value.op is None:
                leaf = stands.get(id(value), value)
                leaves[id(leaf)] = leaf
            elif isinstance(value, Symbol):
                waiting += value.inputs
            else:
                raise GraphError(
                    f"{self.tracer.operation}: backward would reach a tensor that "
                    f"{value.op.name} computed outside (at {place()}). Compute it inside, or "
                    "detach() it."
                )
        return list(reversed(leaves.values()))

    def _nodes_of(self, leaf: Tensor) -> list[Node]:
        return [leaf.node] if isinstance(leaf, Symbol) else self._leaves[id(leaf)]

    # ── calls, and the end of a stage ───────────────────────────────────────────────────────────

    def step(self, optimizer: Optimizer) -> None:
        """Note that an optimizer is to update its parameters; what is read of them later is new."""
        params = [p for group in optimizer.param_groups for p in group["params"]]
        changed = [p for p in params if self.grad(p) is not None]
        self.call(optimizer.step)
        self.tracer.updates += 1
        for param in changed:
            self.moved.pop(id(param), None)
            captured = self.tracer.captured.pop(id(param), None)
            if captured is not None:
                self.past.append(captured)

    def call(self, function: Callable[[], object]) -> None:
        """Note a call that must find the outside as it is by now, and end the stage."""
        if self.tracer.blocks or self.tracer.variables:
            raise GraphError(
                f"{self.tracer.operation}: an optimizer or a scheduler steps inside a branch, a "
                f"loop or a function for `trace` (at {place()}), expected it at the top of one for "
                "`jit`."
            )
        self.flush()
        self.stages[-1].effects.append(Effect("call", function))
        self.stages[-1].end = Constant(0, graph=self.tracer.graph).id
        self.stages.append(Stage())

    def finish(
        self, updates: list[tuple[Any, Node]], arguments: Sequence[Symbol]
    ) -> "Effects | None":
        """Note what is left to do when the function has returned; None where `updates` is all."""
        self._check_memory()
        if not self.any:
            updates += [(tensor, symbol.node) for tensor, symbol in self._written()]
            return None
        self.flush()
        self.stages[-1].effects += [Effect("write", target, node) for target, node in updates]
        for i, symbol in enumerate(arguments):
            if symbol._grad is not None:
                node = self.tracer.node_of(symbol._grad)
                self.stages[-1].effects.append(Effect("add", i, node))
        leaves = [tensor for tensor, _ in (*self.past, *self.tracer.captured.values())]
        self.wanted = [(leaf, leaf.requires_grad) for leaf in leaves if isinstance(leaf, Tensor)]
        return self

    def close(self) -> None:
        """Let go of the trace and its symbols: what a run needs stays."""
        del self.tracer
        for table in (self.moved, self.grads, self.shown, self._symbols, self._old, self._done):
            table.clear()
        self._leaves.clear()

    def fits(self) -> bool:
        """Tell whether each tensor wants a gradient, and has one, as when it was traced."""
        for tensor, wants in self.wanted:
            if tensor.requires_grad is not wants:
                return False
        return all((tensor._grad is not None) is had for tensor, had in self.had.values())

    def _check_memory(self) -> None:
        """Raise if something was updated that another tensor, which is used too, has a view of."""
        for other, node in (*self.past, *self.tracer.captured.values()):
            if isinstance(other, Tensor):
                self.check_unmoved(other, node.name)

    def check_unmoved(self, other: Tensor, name: str = "another") -> None:
        """Raise if a tensor lies in the memory of one that was updated, and is not that itself."""
        for tensor, _ in self.moved.values():
            if other is not tensor:
                check_apart(self.tracer.operation, tensor, other, name)

    def flush(self) -> None:
        """Note what must be written so that the outside is as it should be by now."""
        effects = self.stages[-1].effects
        for tensor, symbol in self._written():
            if self._done.get(id(symbol)) != (symbol, symbol.node):
                self._done[id(symbol)] = (symbol, symbol.node)
                effects.append(Effect("write", tensor, symbol.node))
        for key, (tensor, value) in self.grads.items():
            node = self.tracer.node_of(value) if isinstance(value, Symbol) else None
            before, then = self._done.get(key, (self, None))
            if before is value and then is node:
                continue
            self._done[key] = (value, node)
            old, first = self._old.get(key, (None, None))
            if before is value and old is not None and value is first:
                effects.append(Effect("write", old, node))
            else:
                effects.append(Effect("grad", tensor, value if node is None else node))
