"""Gradients against finite differences, whole Jacobians at once by random projection.

For random u and v, uᵀJv is one number that depends on every element of the Jacobian J. Backward
gives it as (uᵀJ)·v, the central difference (f(x + hv) - f(x - hv))·u / 2h as uᵀ(Jv). A wrong
element of J changes the first but not the second. The comparison is relative to the size of the
terms that are added up, so that neither a flipped sign of a tiny gradient nor cancellation passes.

Source: HIPS autograd's test_util, and for the step h Press et al., Numerical Recipes, 5.7.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays.library import Array
from .backward import grad
from .errors import GradcheckError
from .tensor.modes import enable_grad
from .tensor.tensor import Tensor

TIMES = 3
"""Random projections: a wrong Jacobian that one misses is caught by the next."""


def gradcheck(
    function: Callable[..., object],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 0.0,
    rtol: float = 1e-6,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Tell whether the gradients of `function` agree with finite differences.

    Args:
        function: takes the inputs; returns a tensor or several.
        inputs: a tensor or several; float64 those that require a gradient.
        eps: relative step of the finite difference.
        atol: absolute error allowed besides that of rounding, which is always allowed for.
        rtol: relative error allowed.
        seed: of the random projections.
        raise_exception: raise rather than return False.
    Raises:
        GradcheckError: they disagree; says by how much. Or no input requires a float64 gradient.
    """
    points = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    varied = [i for i, x in enumerate(points) if isinstance(x, Tensor) and x.requires_grad]
    if not varied or any(points[i].dtype.itemsize < 8 for i in varied):
        raise GradcheckError(
            "gradcheck: expected an input that requires a gradient, and those to be float64: "
            "finite differences need the digits."
        )
    rng = np.random.default_rng(seed)
    try:
        for _ in range(TIMES):
            _compare(function, points, varied, rng, eps, (atol, rtol))
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    function: Callable[..., Any], inputs: Any, *, rtol: float = 1e-5, **options: Any
) -> bool:
    """Tell whether the second gradients agree with finite differences of the first.

    Args: as `gradcheck`.
    """
    points = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    with enable_grad():
        shapes = [y.shape for y in _outputs(function, points)]
    rng = np.random.default_rng(0)
    weights = [Tensor._new(rng.standard_normal(shape)).requires_grad_() for shape in shapes]

    def slopes(*args: Any) -> tuple[Tensor, ...]:
        own = args[: len(points)]
        pairs = zip(_outputs(function, own), args[len(points) :], strict=True)
        tracked = [(y, u) for y, u in pairs if y.requires_grad]
        if not tracked:
            return ()
        ys, us = zip(*tracked, strict=True)
        varied = [x for x in own if isinstance(x, Tensor) and x.requires_grad]
        shares = grad(ys, varied, us, create_graph=True, allow_unused=True)
        return tuple(share for share in shares if share is not None)

    return gradcheck(slopes, (*points, *weights), rtol=rtol, **options)


def _outputs(function: Callable[..., Any], points: Sequence[Any]) -> list[Tensor]:
    result = function(*points)
    outputs = [result] if isinstance(result, Tensor) else list(result)
    return [y for y in outputs if isinstance(y, Tensor) and y.dtype.kind == "f"]


def _compare(
    function: Callable[..., Any],
    points: Sequence[Any],
    varied: Sequence[int],
    rng: np.random.Generator,
    eps: float,
    tolerance: tuple[float, float],
) -> None:
    """Raise unless uᵀJv by backward is uᵀJv by differences."""
    with enable_grad():
        leaves = list(points)
        for i in varied:
            leaves[i] = points[i].detach().requires_grad_()
        outputs = _outputs(function, leaves)
        weights = [Tensor._new(rng.standard_normal(y.shape)) for y in outputs]
        steps = {i: rng.standard_normal(points[i].shape) for i in varied}
        tracked = [(y, u) for y, u in zip(outputs, weights, strict=True) if y.requires_grad]
        shares: Sequence[Any] = [None] * len(varied)
        if tracked:
            ys, us = zip(*tracked, strict=True)
            shares = grad(ys, [leaves[i] for i in varied], us, allow_unused=True)
    terms = [
        share.numpy(force=True) * steps[i]
        for i, share in zip(varied, shares, strict=True)
        if share is not None
    ]
    analytic = sum(float(term.sum()) for term in terms)
    scale = sum(float(np.abs(term).sum()) for term in terms)
    numeric, noise = _difference(function, points, steps, [u.numpy() for u in weights], eps)
    atol, rtol = tolerance
    allowed = atol + rtol * max(scale, abs(numeric)) + noise
    if not (abs(analytic - numeric) <= allowed < float("inf")):
        raise GradcheckError(
            f"gradcheck: the gradient disagrees with finite differences: got {analytic:.12g}, "
            f"expected {numeric:.12g} within {allowed:.2g}. Check each term of the rule."
        )


def _difference(
    function: Callable[..., Any],
    points: Sequence[Tensor],
    steps: dict[int, Array],
    weights: Sequence[Array],
    eps: float,
) -> tuple[float, float]:
    """Return uᵀJv by a five-point difference, and the rounding error to expect in it."""
    size = max(
        (float(np.abs(points[i].numpy(force=True)).max(initial=0)) for i in steps), default=0
    )
    h = eps**0.6 * max(size, 1.0)  # truncation h⁴ against rounding 1e-16/h: near 2.5e-4

    def along(distance: float) -> list[Array]:
        moved = list(points)
        for i, step in steps.items():
            values = points[i].numpy(force=True) + distance * step
            moved[i] = Tensor._new(values).requires_grad_()
        return [y.numpy(force=True) for y in _outputs(function, moved)]

    total, rounding = 0.0, 0.0
    near_up, near_down, far_up, far_down = along(h), along(-h), along(2 * h), along(-2 * h)
    for u, a, b, c, d in zip(weights, near_up, near_down, far_up, far_down, strict=True):
        total += float((u * (8 * (a - b) - (c - d))).sum()) / (12 * h)
        rounding += float((np.abs(u) * (np.abs(a) + np.abs(c))).sum()) * 4e-16 / h
    return total, rounding
