"""A prediction beside what came out. May import: the standard library."""

from math import isclose
from numbers import Integral
from types import EllipsisType

LABEL, NUMBER, KIND = 46, 11, 9  # columns


def compare(
    what: str,
    predicted: float | EllipsisType,
    measured: float | None = None,
    *,
    simulated: float | None = None,
    computed: float | None = None,
    exact: bool | None = None,
) -> None:
    """Print a prediction beside what came out, how that came about, and their ratio.

    What can be known to the last digit is exact or wrong: a ratio near 1 is no praise there.

    Args:
        predicted: a number, or `...` while nothing has been written down.
        measured: seconds or counts that were taken.
        simulated: what a model, a virtual clock or drawn numbers gave.
        computed: what a formula gave; one of these three.
        exact: whether it can be known; by default, whether what came out is an integer.

    Raises:
        TypeError: none of the three was given, or several.
    """
    outcomes = {"measured": measured, "simulated": simulated, "computed": computed}
    stated = [(kind, value) for kind, value in outcomes.items() if value is not None]
    if len(stated) != 1:
        names = " and ".join(kind for kind, _ in stated) or "none"
        raise TypeError(f"compare: got {names}, expected one of measured, simulated, computed.")
    kind, value = stated[0]
    if isinstance(predicted, EllipsisType):
        print(f"{what:<{LABEL}} {kind} {_number(value)}   (no prediction yet)")
        return
    ratio = f"ratio {float(value) / float(predicted):.3f}" if predicted else "no ratio to 0"
    if isinstance(value, Integral) if exact is None else exact:
        ratio = "exact" if isclose(value, predicted) else f"{ratio}, not exact: work it out again"
    beside = f"predicted {_number(predicted)}  {kind:<{KIND}} {_number(value)}"
    print(f"{what:<{LABEL}} {beside}  {ratio}")


def _number(value: float) -> str:
    whole = float(value).is_integer() and abs(value) < 10**8
    return f"{int(value):>{NUMBER},}" if whole else f"{float(value):>{NUMBER},.5g}"
