"""Backward of tensors: from outputs to `.grad` of the leaves, or to the gradients asked for.

    on_tensors  rules build tensors that record, so that gradients can be differentiated again
    on_arrays   rules of the library run on plain arrays, at NumPy's cost: nothing is recorded

May import: errors, arrays, op, ops, sweep, tensor.modes, tensor.rebase, tensor.versions, vjp.
"""

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from .arrays.library import cast, copy_array, float16, owner
from .errors import GradientError, GraphFreed, ShapeError, UnusedInput
from .op import Value
from .ops.elementwise.casting import cast_to, clone, copy_in_rows
from .ops.elementwise.rows import gradient_in_float32
from .ops.elementwise.unary import ones_like, zeros_like
from .ops.shaping.picked_parts import PICKING, Part, part_of
from .sweep import Rule, ancestors, count_uses, sweep
from .tensor.modes import set_grad_enabled
from .tensor.rebase import FREED, resolve_history
from .tensor.versions import clock
from .vjp import on_values

_array_of = attrgetter("array")


class _Plain:
    """What a rule sees of a tensor when it runs on plain arrays; one serves a whole sweep."""

    __slots__ = ("inputs", "output", "wants")

    inputs: tuple[Any, ...]
    output: Any
    wants: tuple[bool, ...]


def _check(value: Any, clock: int) -> None:
    if value._stamp == FREED:
        raise GraphFreed(
            f"backward: the graph was used up by an earlier backward: {value.op.name} cannot go "
            "back a second time. Pass retain_graph=True to the first."
        )
    if value._stamp < clock:
        value._check_unmodified()


def on_arrays(uses: dict[Any, int], clock: int, retain: bool) -> Rule:
    """Return the rule of a sweep that records nothing: gradients are plain arrays."""
    plain, wanted = _Plain(), uses.__contains__

    def rule(value: Any, grad: Any) -> Sequence[Any]:
        op = value.op
        shares: Sequence[Any]
        if value._stamp != clock:
            _check(value, clock)
        sources = value.inputs
        part = part_of(op, grad, sources) if type(op) in PICKING else None
        if part is not None:
            shares = part
        elif op.on_arrays:
            plain.inputs = tuple(map(_array_of, sources))
            plain.wants = tuple(map(wanted, sources))
            plain.output = value.array
            if type(grad) is np.ndarray and grad.dtype is float16:
                shares = gradient_in_float32(op, grad, plain)
            else:
                shares = op.gradient(grad, plain)
        else:
            shares = [
                None if share is None else copy_array(share.array)
                for share in on_values(value, value._new(grad))
            ]
        if not retain and (op.reads_inputs or op.reads_output):
            value._stamp = FREED
        return shares

    return rule


def on_tensors(clock: int, retain: bool) -> Rule:
    """Return the rule of a sweep on tensors, which record what the rules compute."""

    def rule(value: Any, grad: object) -> Sequence[Any]:
        if value._stamp != clock:
            _check(value, clock)
        shares = on_values(value, grad)
        if not retain and (value.op.reads_inputs or value.op.reads_output):
            value._stamp = FREED
        return [_in_dtype(*pair) for pair in zip(value.inputs, shares, strict=True)]

    return rule


def _in_dtype(source: Any, share: Any) -> Any:
    """Return the gradient of `source` in its dtype; None, and what a hub waits for, as it is."""
    same = not isinstance(share, Value) or share.dtype == source.dtype
    return share if same else cast_to(share, source.dtype)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Add the gradients of `tensors`, weighted by `grad_tensors`, to `.grad` of the leaves below.

    Args:
        tensors: a tensor or several.
        grad_tensors: the weight of each one's elements; may be left out for one element.
        retain_graph, create_graph, inputs: as for `Tensor.backward`.

    Raises: what `Tensor.backward` raises.
    """
    if inputs is not None:
        sources = _several(inputs)
        options = (retain_graph, create_graph, True, True)
        shares = grad(tensors, sources, grad_tensors, *options)
        for source, share in zip(sources, shares, strict=True):
            if share is not None:
                source.accumulate(share.clone(), create_graph)
        return
    outputs = _several(tensors)
    weights = [None] * len(outputs) if grad_tensors is None else _several(grad_tensors)
    seeds = _seeds("backward", outputs, weights)
    uses = count_uses(seeds, attrgetter("requires_grad"))

    def deliver(leaf: Any, grad: Any) -> None:
        if grad is not None and leaf.op is None:
            if type(grad) is Part:
                if leaf.add_part(grad):
                    return
                grad = grad.dense()
            if not create_graph:
                grad = _tensor_of(leaf, grad)
            if leaf in seeds or owner(grad.array) is not grad.array:
                grad = copy_in_rows(grad)
            leaf.accumulate(grad, create_graph)

    _run(seeds, uses, deliver, (), create_graph, retain_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return the gradient of the sum of `outputs` with respect to each of `inputs`.

    Args:
        outputs: a tensor or several.
        inputs: a tensor or several; the result is a tuple in their order either way.
        grad_outputs: the weight of each output's elements; ones for an output of one element.
        retain_graph: keep the graph for another backward; as `create_graph` unless given.
        create_graph: record the gradients too, so that they can be differentiated.
        only_inputs: torch's; nothing but the inputs ever gets a gradient.
        allow_unused: give None, rather than an error, for an input that is not used.
        materialize_grads: give zeros for it.
    Raises:
        UnusedInput: the outputs do not depend on an input; says which.
        GradientError: an input does not require a gradient.
    """
    roots, targets = _several(outputs), _several(inputs)
    weights = [None] * len(roots) if grad_outputs is None else _several(grad_outputs)
    for i, target in enumerate(targets):
        if not target.requires_grad:
            raise GradientError(
                f"grad: input {i} does not require a gradient. Make it with requires_grad=True."
            )
    seeds = _seeds("grad", roots, weights)
    between = ancestors(targets, seeds)
    grads: dict[Any, Any] = {}
    records = create_graph or not all(root.has_numbers for root in roots)

    def deliver(value: Any, share: Any) -> None:
        if share is not None:
            if records:
                grads[value] = share if create_graph else share.detach()
            else:
                grads[value] = _tensor_of(value, share.dense() if type(share) is Part else share)

    needed = {root: seed for root, seed in seeds.items() if root in between}
    uses = count_uses(needed, lambda value: value in between and value.requires_grad)
    _run(needed, uses, deliver, targets, records, retain_graph)
    for i, target in enumerate(targets):
        if target not in grads and materialize_grads:
            grads[target] = zeros_like(target.detach())
        elif target not in grads and not allow_unused:
            raise UnusedInput(
                f"grad: input {i}, of shape {target.shape}, is not used by the outputs, so it has "
                "no gradient. Pass allow_unused=True to get None for it."
            )
    return tuple(grads.get(target) for target in targets)


def _tensor_of(value: Any, grad: Any) -> Any:
    """Return an array as the gradient of `value`, of its dtype."""
    return value._new(cast(grad, value.dtype) if grad.dtype != value.array.dtype else grad)


def _run(
    seeds: dict[Any, Any],
    uses: dict[Any, int],
    deliver: Callable[[Any, Any], None],
    targets: Sequence[Any],
    create_graph: bool,
    retain_graph: bool | None,
) -> None:
    retain = create_graph if retain_graph is None else retain_graph
    with set_grad_enabled(create_graph), np.errstate(all="ignore"):
        if create_graph:
            sweep(seeds, uses, on_tensors(clock.now, retain), deliver, targets, clone)
        else:
            arrays = {root: seed.array for root, seed in seeds.items()}
            rule = on_arrays(uses, clock.now, retain)
            sweep(arrays, uses, rule, deliver, targets, copy_array, Part)


def _seeds(name: str, outputs: Sequence[Any], gradients: Sequence[Any]) -> dict[Any, Any]:
    """Return each output with its gradient; an output given twice gets the sum.

    Raises:
        GradientError: an output requires no gradient, or has several elements and none is given.
        ShapeError: a gradient of another shape than its output.
    """
    if len(outputs) != len(gradients):
        raise GradientError(
            f"{name}: got {len(gradients)} gradients for {len(outputs)} outputs, expected one each."
        )
    seeds: dict[Any, Any] = {}
    for output, gradient in zip(outputs, gradients, strict=True):
        if not output.requires_grad:
            raise GradientError(
                f"{name}: this tensor does not require a gradient and was not computed from one "
                "that does. Make an input with requires_grad=True, outside no_grad."
            )
        seed = _seed(name, output, gradient)
        seeds[output] = seeds[output] + seed if output in seeds else seed
    resolve_history(seeds)
    return seeds


def _seed(name: str, output: Any, gradient: Any) -> Any:
    if gradient is None:
        if math.prod(output.shape) != 1:
            raise GradientError(
                f"{name}: got an output of shape {output.shape}, expected one element. "
                "Reduce it with .sum() or .mean(), or pass the gradient of each element."
            )
        return ones_like(output.detach())
    if tuple(gradient.shape) != tuple(output.shape):
        raise ShapeError(
            f"{name}: the gradient has shape {tuple(gradient.shape)}, expected "
            f"{tuple(output.shape)}, that of the output."
        )
    return gradient


def _several(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, Value) else tuple(values)
