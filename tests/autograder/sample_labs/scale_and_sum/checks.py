"""Checks of the lab scale_and_sum."""

from autograder.checks import Feedback, LabSettings, check, close

LAB = LabSettings(wall_s=30, call_s=3)


@check("scale", weight=1)
def every_element_is_multiplied(student, rng):
    """every element is multiplied by the factor"""
    x = rng.normal(size=(3, 4))
    got = student.call("scale", x, 2.5)
    close(got, 2.5 * x, called="scale(x, 2.5)", hint="Look at the first element.")


@check("scale", weight=1, hidden=True)
def a_negative_factor_changes_the_sign(student, rng):
    """a negative factor changes the sign"""
    x = rng.normal(size=secret_length(rng))
    got = student.call("scale", x, -1.5)
    close(got, -1.5 * x, called="scale(x, -1.5)", hint="Try a negative factor.")


def secret_length(rng):
    """Return a length that only the hidden check draws."""
    return int(rng.integers(5, 9))


@check("predicted_size")
def one_element_for_each_column(student, rng):
    """a sum over rows has one element for each column"""
    if student.value("predicted_size") != 3:
        raise Feedback("x has shape (2, 3).", hint="Which of the two numbers is left?")


@check("sum_rows")
def rows_are_added(student, rng):
    """rows are added, columns stay"""
    x = rng.normal(size=(4, 3))
    got = student.call("sum_rows", x)
    close(got, x.sum(axis=0), called="sum_rows(x)", hint="One number for each column.")
