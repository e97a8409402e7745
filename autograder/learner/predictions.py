"""A prediction beside what came out. May import: the standard library."""

from math import isclose
from numbers import Integral
from types import EllipsisType

LABEL, NUMBER = 46, 11  # columns


def compare(
    what: str, predicted: float | EllipsisType, measured: float, *, exact: bool | None = None
) -> None:
    """Print a prediction beside what came out, and their ratio.

    What can be known to the last digit is exact or wrong: a ratio near 1 is no praise there.

    Args:
        predicted: a number, or `...` while nothing has been written down.
        exact: whether it can be known; by default, whether `measured` is an integer.
    """
    if isinstance(predicted, EllipsisType):
        print(f"{what:<{LABEL}} measured {_number(measured)}   (no prediction yet)")
        return
    said = f"ratio {float(measured) / float(predicted):.3f}" if predicted else "no ratio to 0"
    if isinstance(measured, Integral) if exact is None else exact:
        said = "exact" if isclose(measured, predicted) else f"{said}, not exact: work it out again"
    print(f"{what:<{LABEL}} predicted {_number(predicted)}  measured {_number(measured)}  {said}")


def _number(value: float) -> str:
    whole = float(value).is_integer() and abs(value) < 10**8
    return f"{int(value):>{NUMBER},}" if whole else f"{float(value):>{NUMBER},.5g}"
