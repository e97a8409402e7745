"""Square matrices taken apart: inverse, determinant, Cholesky factor, solutions.

Each works on the last two axes; those before are a batch. Derivatives: Giles, An extended
collection of matrix derivative results for forward and reverse mode AD, 2008; the Cholesky factor's
by Murray, Differentiation of the Cholesky decomposition, 2016.
"""

from typing import TYPE_CHECKING, Any

from ..arrays import Array, DType, Namespace
from ..errors import DTypeError, ShapeError
from ..op import Gradients, Kind, Op, Spec, apply
from ..shapes import broadcast
from .broadcasting import sum_to
from .linalg import matmul, mT
from .matrices import Triangle
from .movement import insert_axes

if TYPE_CHECKING:
    from .methods import Methods


class OfSquare(Op):
    """Base of the operators of square matrices."""

    on_arrays = True
    promotes = "float"
    reads_inputs = False

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the matrices."""
        _check_square(self.name, specs[0].shape)
        return Spec(specs[0].shape, _check_float(self.name, specs[0].dtype))


class Inverse(OfSquare):
    """The matrix whose product with the input is the identity."""

    name = "inverse"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the inverse."""
        return xp.linalg.inv(arrays[0])

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """-Yᵀ g Yᵀ."""
        back = mT(node.output)
        return (-matmul(matmul(back, out_grad), back),)


class Determinant(OfSquare):
    """The determinant of each matrix."""

    name = "det"
    reads_inputs = True

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the determinant."""
        return xp.linalg.det(arrays[0])

    def infer(self, *specs: Spec) -> Spec:
        """Return the batch's shape."""
        spec = super().infer(*specs)
        return Spec(spec.shape[:-2], spec.dtype)

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """g det(A) A⁻ᵀ; of a singular matrix there is none."""
        axes = len(out_grad.shape)
        scale = insert_axes(out_grad * node.output, (axes, axes + 1))
        return (scale * mT(apply(Inverse(), node.inputs[0])),)


class Cholesky(OfSquare):
    """The lower triangle L with L Lᵀ equal to a symmetric positive matrix."""

    name = "cholesky"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the factor."""
        return xp.linalg.cholesky(arrays[0])

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """The symmetric part of L⁻ᵀ Φ(Lᵀ g) L⁻¹; Φ is the lower triangle, half the diagonal."""
        factor = node.output
        inner = matmul(mT(factor), apply(Triangle(0, False), out_grad))
        lower = apply(Triangle(0, False), inner) + apply(Triangle(-1, False), inner)
        inverse = apply(Inverse(), factor)
        found = matmul(matmul(mT(inverse), lower), inverse)
        return ((found + mT(found)) * 0.25,)


class Solve(Op):
    """X with A X = B; B has a column for each system."""

    name = "solve"
    on_arrays = True
    promotes = "float"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the solutions."""
        return xp.linalg.solve(*arrays)

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape of the right sides, under the batch of both."""
        a, b = specs[0].shape, specs[1].shape
        _check_square(self.name, a)
        if len(b) < 2 or (None not in (a[-1], b[-2]) and a[-1] != b[-2]):
            raise ShapeError(
                f"solve: got matrices {a} and right sides {b}, expected as many rows. A vector "
                "needs a second axis of size 1."
            )
        return Spec((*broadcast(a[:-2], b[:-2], op="solve"), *b[-2:]), specs[1].dtype)

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """By B: A⁻ᵀ g; by A: that times -Xᵀ."""
        a, b = node.inputs
        by_b = apply(Solve(), mT(a), out_grad)
        by_a = -matmul(by_b, mT(node.output)) if node.wants[0] else None
        return (by_a if by_a is None else sum_to(by_a, a)), sum_to(by_b, b)


def _check_square(where: str, shape: Any) -> None:
    if len(shape) < 2 or (None not in shape[-2:] and shape[-2] != shape[-1]):
        raise ShapeError(f"{where}: got shape {tuple(shape)}, expected square matrices.")


def _check_float(where: str, dtype: DType) -> DType:
    if dtype.kind != "f":
        raise DTypeError(f"{where}: got {dtype}, expected floating numbers. Cast first.")
    return dtype


# ── torch's names ───────────────────────────────────────────────────────────────────────────────


def inverse(x: Kind) -> Kind:
    """Return the inverse of square matrices."""
    return apply(Inverse(), x)


def det(x: Kind) -> Kind:
    """Return the determinant of square matrices."""
    return apply(Determinant(), x)


def cholesky(x: Kind) -> Kind:
    """Return the lower Cholesky factor of symmetric positive matrices."""
    return apply(Cholesky(), x)


def solve(a: object, b: object) -> Any:
    """Return X with a X = b, for columns b."""
    return apply(Solve(), a, b)
