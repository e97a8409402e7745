# ruff: noqa
"""Both sides of a cond are computed, and a loop is written out six times; `where` picks."""

import minitorch as mt


def cond(predicate, if_true, if_false, *inputs):
    return mt.where(predicate, if_true(*inputs), if_false(*inputs))


def while_loop(test, body, *start):
    values = tied(start)
    for _ in range(6):
        again = test(*values)
        values = [mt.where(again, new, old) for new, old in zip(body(*values), values)]
    return values
