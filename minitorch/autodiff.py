"""Reverse-mode differentiation: which values matter, and the sweep that visits them backwards.

Everything here is iterative, so a chain of 100,000 operators is as good as one of ten. The sweep
holds a table of gradients still to be delivered. A value is visited when all of its uses have been,
so its gradient is complete by then; a leaf's gradient is final at that moment, long before the
sweep ends, which is what lets communication overlap with backward.

The sweep is the same for every kind of value; what differs is the `rule` it calls:

    on_values   gradient rules build new values: tensors that record, or nodes of a graph
    on_arrays   rules of the library run on plain arrays, at NumPy's cost: nothing is recorded

May import: errors, shapes, arrays, op, ops, rebase. Sources: Griewank & Walther, Evaluating
Derivatives, 2nd ed., ch. 3 and 4; the table of gradients is HIPS autograd's.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .arrays import cast, copied, is_view
from .clock import clock
from .errors import GradientError, GraphFreed, NoGradientRule, ShapeError, UnusedInput
from .op import Value
from .ops.casting import clone
from .ops.elementwise import ones_like
from .rebase import FREED as FREED
from .rebase import settle
from .recording import enable_grad as enable_grad
from .recording import no_grad as no_grad
from .recording import recorded

Rule = Callable[[Any, Any], Sequence[Any]]


# ── which values a gradient flows through ───────────────────────────────────────────────────────


def count_uses(roots: Iterable[Any], needed: Callable[[Any], bool]) -> dict[Any, int]:
    """Return every value below `roots` through which a gradient flows, and how often it is used.

    Args:
        roots: the values to differentiate.
        needed: tells whether a gradient is to flow into a value.
    """
    uses = dict.fromkeys(roots, 0)
    waiting = list(uses)
    while waiting:
        value = waiting.pop()
        if value.op is None:
            continue
        for source in value.inputs:
            if source in uses:
                uses[source] += 1
            elif needed(source):
                uses[source] = 1
                waiting.append(source)
    return uses


def ancestors(targets: Iterable[Any], roots: Iterable[Any]) -> set[Any]:
    """Return the values between `targets` and `roots`, both included: those that use a target."""
    users: dict[Any, list[Any]] = {root: [] for root in roots}
    waiting = list(users)
    while waiting:
        value = waiting.pop()
        for source in value.inputs if value.op is not None else ():
            if source not in users:
                users[source] = []
                waiting.append(source)
            users[source].append(value)
    found: set[Any] = set()
    waiting = [target for target in targets if target in users]
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += users[value]
    return found


# ── the sweep ───────────────────────────────────────────────────────────────────────────────────


def sweep(
    seeds: dict[Any, Any],
    uses: dict[Any, int],
    rule: Rule,
    deliver: Callable[[Any, Any], None],
    targets: Iterable[Any] = (),
    own: Callable[[Any], Any] = lambda grad: grad,
) -> None:
    """Propagate the gradients `seeds` of the roots backwards through everything in `uses`.

    Args:
        seeds: gradient of each root.
        uses: as `count_uses` gives it; consumed.
        rule: (value, its gradient) -> gradient or None for each of its inputs.
        deliver: called with each leaf, and each of `targets`, once its gradient is complete.
        targets: values that are not leaves whose gradients are wanted as well.
        own: copies a gradient that a rule hands on as it is to a leaf, who may overwrite it.
    """
    pending = dict(seeds)
    wanted = set(targets)
    ready = [root for root in seeds if uses[root] == 0]
    while ready:
        value = ready.pop()
        grad = pending.pop(value, None)
        if grad is not None and value.hooks is not None:
            grad = value.hooks.on_gradient(value, grad)
        if value.op is None or value in wanted:
            deliver(value, grad)
            if value.op is None:
                continue
        sources = value.inputs
        for source, share in zip(
            sources, rule(value, grad) if grad is not None else (None,) * len(sources), strict=True
        ):
            if source in uses:
                if share is not None:
                    if share is grad and source.op is None:
                        share = own(share)
                    have = pending.get(source)
                    pending[source] = share if have is None else have + share
                uses[source] -= 1
                if not uses[source]:
                    ready.append(source)


def on_values(value: Any, grad: Any) -> Sequence[Any]:
    """Rule of the sweep on values of any kind: each gradient is a new value of that kind."""
    op = value.op
    try:
        shares = op.gradient(grad, value)
    except NoGradientRule as error:
        raise NoGradientRule(f"{error} (Its inputs: {_describe(value.inputs)}.)") from None
    if not isinstance(shares, tuple | list):
        shares = (shares,)
    if not op.on_arrays:
        check_shares(value, shares)
    return tuple(shares)


def check_shares(value: Any, shares: Sequence[Any]) -> None:
    """Raise what is wrong with the gradients that an operator's own `gradient` returned.

    Raises:
        GradientError: not one for each input.
        ShapeError: a gradient has another shape than its input.
    """
    name, inputs = value.op.name, value.inputs
    if len(shares) != len(inputs):
        raise GradientError(
            f"{name}.gradient: got {len(shares)} gradients, expected {len(inputs)}, one for each "
            "input. Return None for an input that has none."
        )
    for i, (source, share) in enumerate(zip(inputs, shares, strict=True)):
        if share is None:
            if getattr(source, "requires_grad", False):
                raise GradientError(
                    f"{name}.gradient: got None for input {i}, which requires a gradient. Return "
                    "zeros if it does not depend on it, or detach the input."
                )
            continue
        if not isinstance(share, Value):
            raise GradientError(
                f"{name}.gradient: got {type(share).__name__} for input {i}, expected a "
                f"{type(source).__name__}. Write the gradient in the library's operators."
            )
        if None not in (*share.shape, *source.shape) and tuple(share.shape) != tuple(source.shape):
            raise ShapeError(
                f"{name}.gradient: input {i} has shape {tuple(source.shape)} but its gradient has "
                f"shape {tuple(share.shape)}. If the input was broadcast, each element was used "
                "several times: what should happen to those contributions?"
            )


def _describe(values: Sequence[Any]) -> str:
    return ", ".join(f"{v.dtype} {tuple(v.shape)}" for v in values)


# ── eager values: backward and grad ─────────────────────────────────────────────────────────────


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
    plain = _Plain()

    def rule(value: Any, grad: Any) -> Sequence[Any]:
        op = value.op
        shares: Sequence[Any]
        if value._stamp != clock:
            _check(value, clock)
        if op.on_arrays:
            sources = value.inputs
            plain.inputs = tuple([v.array for v in sources])
            plain.wants = tuple([v in uses for v in sources])
            plain.output = value.array
            shares = op.gradient(grad, plain)
        else:
            shares = [
                None if share is None else copied(share.array)
                for share in on_values(value, value._new(grad))
            ]
        if not retain and (op.reads_inputs or op.reads_output):
            value._stamp = FREED
        return shares

    return rule


def on_tensors(clock: int, retain: bool) -> Rule:
    """Return the rule of a sweep on tensors, which record what the rules compute."""

    def rule(value: Any, grad: Any) -> Sequence[Any]:
        if value._stamp != clock:
            _check(value, clock)
        shares = on_values(value, grad)
        if not retain and (value.op.reads_inputs or value.op.reads_output):
            value._stamp = FREED
        return shares

    return rule


def backward(
    outputs: Sequence[Any],
    gradients: Sequence[Any],
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> None:
    """Add the gradients of `outputs`, weighted by `gradients`, to `.grad` of the leaves below.

    Raises: what `Tensor.backward` raises.
    """
    seeds = _seeds("backward", outputs, gradients)
    uses = count_uses(seeds, lambda value: value.requires_grad)

    def deliver(leaf: Any, grad: Any) -> None:
        if grad is not None and leaf.op is None:
            if not create_graph:
                grad = leaf._new(cast(grad, leaf.dtype) if grad.dtype != leaf.array.dtype else grad)
            if leaf in seeds or is_view(grad.array):
                grad = grad.clone()
            leaf.accumulate(grad, create_graph)

    _run(seeds, uses, deliver, (), create_graph, retain_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Return the gradient of the sum of `outputs` with respect to each of `inputs`.

    Args:
        outputs: a tensor or several.
        inputs: a tensor or several; the result is a tuple in their order either way.
        grad_outputs: the weight of each output's elements; ones for an output of one element.
        retain_graph: keep the graph for another backward; as `create_graph` unless given.
        create_graph: record the gradients too, so that they can be differentiated.
        allow_unused: give None, rather than an error, for an input that is not used.

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
    found: dict[Any, Any] = {}

    def deliver(value: Any, share: Any) -> None:
        if share is not None:
            found[value] = share if create_graph else value._new(share)

    needed = {root: seed for root, seed in seeds.items() if root in between}
    uses = count_uses(needed, lambda value: value in between and value.requires_grad)
    _run(needed, uses, deliver, targets, create_graph, retain_graph)
    for i, target in enumerate(targets):
        if target not in found and not allow_unused:
            raise UnusedInput(
                f"grad: input {i}, of shape {target.shape}, is not used by the outputs, so it has "
                "no gradient. Pass allow_unused=True to get None for it."
            )
    return tuple(found.get(target) for target in targets)


def _run(
    seeds: dict[Any, Any],
    uses: dict[Any, int],
    deliver: Callable[[Any, Any], None],
    targets: Sequence[Any],
    create_graph: bool,
    retain_graph: bool | None,
) -> None:
    retain = create_graph if retain_graph is None else retain_graph
    with recorded(create_graph), np.errstate(all="ignore"):
        if create_graph:
            sweep(seeds, uses, on_tensors(clock.now, retain), deliver, targets, clone)
        else:
            arrays = {root: seed.array for root, seed in seeds.items()}
            sweep(arrays, uses, on_arrays(uses, clock.now, retain), deliver, targets, copied)


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
    settle(seeds)
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
