"""Bodies of kernels over rows: softmax, its logarithm, the loss of a class, and their gradients.

May import: row_text; functions, text.
"""

from collections.abc import Callable

from .. import functions
from ..text import Text
from .row_text import RowText


def softmax(k: RowText) -> None:
    """x, out: softmax of number · x, over the first elements of each row; 0 behind them."""
    t, stop = k.t, _reach(k)

    def scaled(v: str, mask: str | None) -> str:
        return t.mul(k.load(0, v, mask), k.number)

    (most,) = k.fold(stop, ("greatest", scaled))

    def power_at(v: str, mask: str | None) -> str:
        return power(t, t.sub(scaled(v, mask), most))

    whole, inside = _last_vector(k, stop)
    last = t.either(inside, power_at(whole, inside), t.number(0.0))
    (total,) = k.fold(whole, ("sum", lambda v, m: k.store(1, power_at(v, m), v, m)), first=last)
    part = t.div(t.number(1.0), total)
    t.each(lambda v, mask: k.store(1, t.mul(k.load(1, v, mask), part), v, mask), whole)
    _store_end(k, 1, t.mul(last, part), whole, inside)


def attention_of_one(k: RowText) -> None:
    """q, keys, values, scores, out: of each row q, softmax(number · q Kᵀ) V.

    A row has a matrix of `rows` keys and one of values, `first` numbers behind the last row's.
    Scores are memory to work in, `rows` numbers a row.
    """
    t, (n, keys, apart) = k.t, k.integers
    totals = [t.variable() for _ in range(4)]
    whole = t.emit(f"and i64 {keys}, -4")
    with t.loop("r", "%hi", start="%lo") as row:
        k.first, matrix, own = t.times(row, n), t.times(row, apart), t.times(row, keys)

        def load(array: int, s: str, v: str, mask: str | None) -> str:
            return k.load(array, t.plus(t.plus(matrix, t.times(s, n)), v), mask, True)

        with t.loop("s", keys) as s:
            (score,) = k.fold(n, ("sum", lambda v, m: t.mul(k.load(0, v, m), load(1, s, v, m))))
            k.store_first(3, t.plus(own, s), t.mul(score, k.number))
        (most,) = k.fold(keys, ("greatest", lambda v, m: k.load(3, t.plus(own, v), m, True)))

        def weight(v: str, mask: str | None) -> str:
            at = t.plus(own, v)
            return k.store(3, power(t, t.sub(k.load(3, at, mask, True), most)), at, mask, True)

        (total,) = k.fold(keys, ("sum", weight))
        part = t.div(t.number(1.0), total)

        def mix(v: str, mask: str | None) -> None:
            def add(s: str, variable: str) -> None:
                p = k.spread_from(3, t.plus(own, s))
                t.store(t.fma(p, load(2, s, v, mask), t.load(variable)), variable)

            for variable in totals:
                t.store(t.number(0.0), variable)
            with t.loop("s", whole, 4) as s:
                for i, variable in enumerate(totals):
                    add(t.plus(s, i), variable)
            with t.loop("s", keys, start=whole) as s:
                add(s, totals[0])
            a, b, c, d = map(t.load, totals)
            k.store(4, t.mul(t.add(t.add(a, b), t.add(c, d)), part), v, mask)

        t.each(mix, n)


def log_softmax(k: RowText) -> None:
    """x, out: the logarithm of softmax."""
    t, n = k.t, k.integers[0]
    most, total = _powers(k, lambda v, mask, power: power)
    less = t.add(most, functions.log(t, total))
    t.each(lambda v, mask: k.store(1, t.sub(k.load(0, v, mask), less), v, mask), n)


def log_sum_exp(k: RowText) -> None:
    """x, out: the logarithm of the sum of powers of each row; where it is finite."""
    most, total = _powers(k, lambda v, mask, power: power)
    k.store_first(1, k.row, k.t.add(most, functions.log(k.t, total)))


def log_softmax_gradient(k: RowText) -> None:
    """g, y, out: g - exp(y) Σ g."""
    t, n = k.t, k.integers[0]
    (total,) = k.fold(n, ("sum", lambda v, mask: k.load(0, v, mask)))

    def share(v: str, mask: str | None) -> str:
        part = t.mul(functions.exp(t, k.load(1, v, mask)), total)
        return k.store(2, t.sub(k.load(0, v, mask), part), v, mask)

    t.each(share, n)


def class_loss(k: RowText) -> None:
    """x, labels, flags, out: log Σ exp x - x[label]; 0 for the label `first`.

    Of x[label] the part `number` is the mean of x instead. Of the flags, two integers, the first is
    set where a label is no class, and the second where one is `first`.
    """
    t, label, counts, is_ignored = k.t, *class_of(k, k.row, k.integers[0])
    zero = t.number(0.0)
    (most,) = k.fold(k.integers[0], ("greatest", lambda v, mask: k.load(0, v, mask)))

    def away(v: str, mask: str | None) -> str:
        return t.sub(k.load(0, v, mask), most)

    total, sum_away = k.fold(
        k.integers[0], ("sum", lambda v, mask: power(t, away(v, mask))), ("sum", away)
    )
    place = t.emit(f"select i1 {counts}, i64 {label}, i64 0")
    picked = t.sub(k.spread_from(0, t.plus(k.first, place)), most)
    mixed = t.add(
        picked, t.mul(k.number, t.sub(t.div(sum_away, t.from_whole(k.integers[0])), picked))
    )
    loss = t.sub(functions.log(t, total), t.either(t.compare("oeq", k.number, zero), picked, mixed))
    value = t.emit(f"select i1 {counts}, {t.vector} {loss}, {t.vector} zeroinitializer")
    k.store_first(3, k.row, value)
    flag_class(k, counts, is_ignored)


def class_gradient(k: RowText) -> None:
    """x, labels, g, out: g (softmax x - [the element is the label's]); 0 for the label `first`.

    Of the label's 1 the part `number` is shared by all elements of the row instead. `rows` is the
    stride of g in bytes. A label that is no class has no element.
    """
    t, label, counts, is_ignored = k.t, *class_of(k, k.row, k.integers[0])
    n, stride, _ = k.integers
    _, total = _powers(k, lambda v, mask, power: k.store(3, power, v, mask))
    gs = t.spread_from(t.at(k.bases[2], t.times(k.row, stride)))
    factor, spread = t.div(gs, total), t.div(t.mul(gs, k.number), t.from_whole(n))
    at_label = t.lane(t.vector, t.mul(gs, t.sub(t.number(1.0), k.number)), 0)
    stays = t.spread("i1", t.emit(f"xor i1 {is_ignored}, true"))

    def share(v: str, mask: str | None) -> None:
        part = t.sub(t.mul(k.load(3, v, mask), factor), spread)
        k.store(3, t.either(stays, part, t.number(0.0)), v, mask)

    t.each(share, n)
    with t.when(counts):
        place = k.at(3, label)
        part = t.emit(f"load {t.scalar}, ptr {place}, align 1")
        less = t.emit(f"fsub {t.scalar} {part}, {at_label}")
        t.do(f"store {t.scalar} {less}, ptr {place}, align 1")


def class_of(k: RowText, place: str, classes: str) -> tuple[str, str, str]:
    """Return the label at a place, whether it is a class that counts, and whether it is `first`."""
    t = k.t
    label = t.emit(f"load i64, ptr {t.at(k.bases[1], place, 'i64')}, align 1")
    is_ignored = t.emit(f"icmp eq i64 {label}, {k.integers[2]}")
    is_class = t.emit(f"icmp ult i64 {label}, {classes}")  # negative ones are huge
    return label, t.emit(f"select i1 {is_ignored}, i1 false, i1 {is_class}"), is_ignored


def flag_class(k: RowText, counts: str, is_ignored: str) -> None:
    """Write what sets the first flag where a label is no class, the second where it is `first`."""
    t = k.t
    is_known = t.emit(f"or i1 {counts}, {is_ignored}")
    for i, is_so in enumerate((t.emit(f"xor i1 {is_known}, true"), is_ignored)):
        with t.when(is_so):
            t.do(f"store i64 1, ptr {t.at(k.bases[2], i, 'i64')}, align 8")


def _powers(k: RowText, use: Callable[[str, str | None, str], str]) -> tuple[str, str]:
    """Return a row's largest element, the sum of what `use` returns for e^(element - largest)."""
    t, n = k.t, k.integers[0]
    (most,) = k.fold(n, ("greatest", lambda v, mask: k.load(0, v, mask)))

    def each_power(v: str, mask: str | None) -> str:
        return use(v, mask, power(t, t.sub(k.load(0, v, mask), most)))

    (total,) = k.fold(n, ("sum", each_power))
    return most, total


def power(t: Text, x: str) -> str:
    """Return e^x of x <= 0, 0 for what is far below 0: arithmetic on denormals takes long."""
    none, zero = t.compare("olt", x, t.number(functions.EXP_RANGE[t.single][0])), t.number(0.0)
    return t.either(none, zero, functions.exp_of_negative(t, t.either(none, zero, x)))


def softmax_gradient(k: RowText) -> None:
    """g, y, out: number · y (g - Σ g y), over the first elements of each row; 0 behind them."""
    t, stop = k.t, _reach(k)
    (along,) = k.fold(stop, ("sum", lambda v, m: t.mul(k.load(0, v, m), k.load(1, v, m))))

    def share(v: str, mask: str | None) -> str:
        y = t.mul(k.load(1, v, mask), k.number)
        return t.mul(y, t.sub(k.load(0, v, mask), along))

    whole, inside = _last_vector(k, stop)
    last = share(whole, inside)
    t.each(lambda v, mask: k.store(2, share(v, mask), v, mask), whole)
    _store_end(k, 2, last, whole, inside)


def _last_vector(k: RowText, stop: str) -> tuple[str, str]:
    """Return where the last vector of a row's first elements begins, and which lanes it has."""
    whole = k.t.emit(f"and i64 {k.t.plus(stop, -1)}, {-k.t.width}")
    return whole, k.t.first_lanes(k.t.minus(stop, whole))


def _store_end(k: RowText, array: int, last: str, whole: str, inside: str) -> None:
    """Write the last vector of a row's first elements, and 0 behind it.

    Nothing is written under a mask and read again, or begins between vectors: a processor that
    loads what such a store might have written waits until the store is done.
    """
    k.t.each(lambda v, mask: k.store(array, k.t.number(0.0), v, mask), k.integers[0], whole)
    k.store(array, last, whole, inside)


def _reach(k: RowText) -> str:
    """Return how many elements of a row count: one more with each row of a matrix, n at most."""
    n, rows, first = k.integers
    row = k.t.emit(f"urem i64 {k.row}, {rows}")
    return k.t.least(n, k.t.plus(row, first))
