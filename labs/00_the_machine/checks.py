"""Checks of lab 00. The clock is made up here: no check depends on how fast a machine is."""

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

LAB = LabSettings(preload=("numpy",))

WORDS = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "owl", "pig"]


def leaves_arguments(name, arguments):
    """Return whether a function of the learner leaves lists, dicts and arrays as they were."""
    import copy
    import pickle

    given = copy.deepcopy(arguments)
    globals()[name](*given)
    return pickle.dumps(given) == pickle.dumps(copy.deepcopy(arguments))


def require_left_alone(student, name, *arguments):
    """Raise Feedback where a function changes what it is given."""
    if not student.probe(leaves_arguments, name=name, arguments=list(arguments)):
        hint = "Who asks needs it again. Which of your lines takes from it, or writes into it?"
        raise Feedback(f"{name} changed what it was given.", hint=hint)


# ---- 1. counts


def text(rng, sentences, lengths):
    """Return sentences, and the words of each axis."""
    axes = [[str(w) for w in rng.permutation(WORDS)[:length]] for length in lengths]
    picked = [tuple(str(rng.choice(words)) for words in axes) for _ in range(sentences)]
    return picked, axes


def counting(sentences, axes):
    c = np.zeros([len(words) for words in axes], int)
    for sentence in sentences:
        c[tuple(words.index(word) for words, word in zip(axes, sentence, strict=True))] += 1
    return c


@check("counts", weight=2)
def every_sentence_is_counted_at_its_three_words(student, rng):
    """c[s, v, o] is how many sentences have these three words"""
    for sentences, lengths in ((9, (2, 3, 4)), (1, (3, 1, 2)), (40, (2, 2, 3)), (600, (1, 1, 2))):
        picked, axes = text(rng, sentences, lengths)
        got = student.call("counts", picked, *axes)
        expected = counting(picked, axes)
        if np.shape(got) != expected.shape:
            raise Feedback(
                f"counts of {lengths[0]} subjects, {lengths[1]} verbs and {lengths[2]} objects "
                f"has shape {np.shape(got)}. One axis for each, in which order?"
            )
        hint = "Count the sentences of three words by hand."
        if np.array_equal(got, expected > 0):
            hint = "A sentence that stands twice counts twice."
        elif np.sum(got) != sentences:
            hint = f"There are {sentences} sentences, and all counts together are {np.sum(got)}."
        close(got, expected, called="counts", hint=hint)


@check("counts", hidden=True, requires="every_sentence_is_counted_at_its_three_words")
def no_sentences_make_zeros(student, rng):
    """no sentences make zeros of the same shape, again and again; and the sentences stay"""
    picked, axes = text(rng, 5, (2, 4, 3))
    got = student.call("counts", [], *axes)
    close(got, np.zeros((2, 4, 3)), called="counts of nothing", hint="Who says the shape?")
    student.call("counts", picked, *axes)
    hint = "What is left over from the call before?"
    close(student.call("counts", [], *axes), np.zeros((2, 4, 3)), called="counts", hint=hint)
    require_left_alone(student, "counts", picked, *axes)


# ---- 2. strides


def shape_of(rng, axes):
    return [int(length) for length in rng.integers(2, 7, size=axes)]


def stepping(shape, item_bytes):
    return [int(item_bytes * np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


@check("strides", weight=2)
def the_last_axis_is_the_fastest(student, rng):
    """the stride of the last axis is one number, and each before is the next times its length"""
    for axes, item in ((3, 4), (2, 8), (1, 2), (4, 1)):
        shape = shape_of(rng, axes)
        got = student.call("strides_of", shape, item)
        expected = stepping(shape, item)
        hint = "How many numbers lie between an element and the next along this axis?"
        if list(np.ravel(got)) == expected[::-1] and expected != expected[::-1]:
            hint = "These are the right numbers, from the last axis to the first."
        elif list(np.ravel(got)) == stepping(shape, 1):
            hint = f"That counts numbers; each has {item} bytes."
        close(got, expected, called=f"strides_of({shape}, {item})", hint=hint)
        if any(isinstance(stride, float | np.floating) for stride in got):
            raise Feedback(
                f"strides_of({shape}, {item}) gave {got}. Bytes are whole numbers: which line makes "
                "others of them?"
            )
    shape, item = [int(rng.integers(2, 7)), 1 << 25, 1 << 25], int(rng.choice([4, 8]))
    called, hint = f"strides_of({shape}, {item})", "Strides are numbers. Which array do you need?"
    try:
        got = student.call("strides_of", shape, item)
    except StudentError as error:
        failure = f"{called}, more than any memory holds, raised {str(error).rstrip('. ')}."
        raise Feedback(failure, hint=hint) from error
    close(got, stepping(shape, item), called=called, hint=hint)


@check("strides", weight=2)
def an_element_lies_at_the_sum_of_its_steps(student, rng):
    """position adds index times stride over all axes, for any strides"""
    for axes in (3, 1, 2, 4):
        strides = [int(s) for s in rng.integers(1, 99, size=axes)]
        index = [int(i) for i in rng.integers(1, 9, size=axes)]
        got = student.call("position", tuple(index), tuple(strides))
        expected = sum(i * s for i, s in zip(index, strides, strict=True))
        if got != expected:
            raise Feedback(
                f"position({tuple(index)}, {tuple(strides)}) gave {got!r}, expected {expected}. "
                "By how many bytes does each index move?"
            )


@check("strides", hidden=True)
def a_single_number_has_no_strides(student, rng):
    """a tensor without axes has no strides, and its number lies at byte 0"""
    strides, place = student.call("strides_of", [], 8), student.call("position", (), ())
    if list(strides) != [] or place != 0:
        raise Feedback("a shape of no axes: wrong.", hint="How many strides has a single number?")
    got, hint = student.call("strides_of", (5, 3), 4), "Which of your lines minds a tuple?"
    close(got, [12, 4], called="strides_of((5, 3), 4)", hint=hint)


# ---- 3. best_rate


def timed(seconds, amounts, turns):
    """Return the rate of a work that takes these seconds, and how often it was called."""
    now, calls = [100.0], []

    def clock():
        now[0] += 1 / 1024  # to ask costs time too
        return now[0]

    def work():
        at = len(calls)
        calls.append(at)
        now[0] += seconds[at % len(seconds)]
        return amounts[at % len(amounts)]

    return best_rate(work, turns, clock), len(calls)


@check("best_rate", weight=2)
def the_best_turn_counts(student, rng):
    """the largest amount a second of one turn, whichever turn that is"""
    for turns in (3, 5, 1):
        seconds = rng.uniform(3, 9, size=turns).tolist()
        seconds[turns // 2] = float(rng.uniform(1, 2))  # neither the first nor the last of several
        amount = float(rng.integers(10, 99))
        got, calls = student.probe(timed, seconds=seconds, amounts=[amount], turns=turns)
        if calls != turns:
            raise Feedback(f"best_rate with {turns} turns called work {calls} times.")
        rates = amount / (np.array(seconds) + 1 / 1024)
        hint = "Which turn was not disturbed?"
        shown = ", ".join(f"{s:.3g}" for s in seconds)
        called = f"best_rate of work that does {amount:g} in each turn, in {shown} s"
        if turns > 1 and isinstance(got, int | float | np.number):
            for other, says in (
                (rates.mean(), "That is the mean of all turns. What do disturbed ones tell?"),
                (rates.min(), "That is the slowest turn."),
                (rates[-1], "That is the last turn."),
                (rates[0], "That is the first turn."),
                (1 / rates.max(), "That is seconds for each; how many in a second?"),
                (amount * turns / np.sum(seconds), "That adds all turns up."),
            ):
                if abs(got - other) < 0.01 * other and abs(other - rates.max()) > 0.02 * other:
                    hint = says
        close(got, rates.max(), called=called, hint=hint)


@check("best_rate", requires="the_best_turn_counts")
def each_turn_has_its_own_amount(student, rng):
    """the amount of a turn is divided by the seconds of that turn"""
    amounts = [1000.0, 10.0, 500.0]
    seconds = [100.0, 2.0, float(rng.uniform(4, 8))]
    got, _ = student.probe(timed, seconds=seconds, amounts=amounts, turns=3)
    expected = 500.0 / (seconds[2] + 1 / 1024)
    hint = "The turn of fewest seconds is not always the one with the largest rate."
    shown = ", ".join(f"{a:g} in {s:.3g} s" for a, s in zip(amounts, seconds, strict=True))
    close(got, expected, called=f"best_rate of turns that do {shown}", hint=hint)


@check("best_rate", hidden=True, requires="the_best_turn_counts")
def the_clock_is_asked_around_each_turn_alone(student, rng):
    """only the turn lies between the two times"""
    got, _ = student.probe(timed, seconds=[1 / 1024], amounts=[2.0], turns=4)
    close(got, 1024.0, called="best_rate of quick work", hint="How often do you ask the clock?")


# ---- 4. time_of

KINDS = ["disk bytes", "memory bytes", "multiplications", "messages"]


def pair(student, task, rates):
    got = student.call("time_of", task, rates)
    if not isinstance(got, list | tuple) or len(got) != 2 or not isinstance(got[1], str):
        raise Feedback(f"time_of should return seconds and a kind: got {got!r}.")
    return float(got[0]), got[1]


@check("time_of", weight=2)
def the_slowest_kind_decides(student, rng):
    """the task takes as long as the kind that takes longest, which is named"""
    for at in range(4):
        rates = {kind: float(rng.uniform(500, 1000)) for kind in KINDS}
        rates[KINDS[at]] = float(rng.uniform(10, 50))  # the smallest amount, and yet the slowest
        task = {kind: rates[kind] * float(rng.uniform(1, 5)) for kind in KINDS}
        task[KINDS[at]] = rates[KINDS[at]] * float(rng.uniform(6, 9))
        seconds, kind = pair(student, task, rates)
        each = {k: task[k] / rates[k] for k in KINDS}
        hint = ""
        if not abs(seconds - each[KINDS[at]]) <= 1e-9:  # so that NaN is wrong
            hint = "How long does each kind take, and which one is the last to end?"
            if abs(seconds - sum(each.values())) < 1e-9:
                hint = "That is one after the other. They go on at the same time."
            elif abs(seconds - min(each.values())) < 1e-9:
                hint = "That is when the first kind is done."
        elif kind != KINDS[at]:
            hint = f"The seconds are right, the kind is {kind!r}. Whose seconds are they?"
        if hint:
            raise Feedback(f"time_of({task}, {rates}): {hint}")


@check("time_of", requires="the_slowest_kind_decides")
def kinds_that_the_task_does_not_have_cost_nothing(student, rng):
    """a task may have some of the kinds only, or none of one"""
    rates = {kind: float(rng.uniform(10, 1000)) for kind in KINDS}
    for kind in KINDS:
        seconds, named = pair(student, {kind: 3 * rates[kind]}, rates)
        if named != kind or not abs(seconds - 3) <= 1e-9:
            raise Feedback(f"time_of with {kind} alone, for 3 s, gave {seconds:g} s, {named!r}.")
    seconds, named = pair(student, {KINDS[0]: 0, KINDS[1]: 2 * rates[KINDS[1]]}, rates)
    if named != KINDS[1] or not abs(seconds - 2) <= 1e-9:
        raise Feedback(f"time_of with none of {KINDS[0]} gave {seconds:g} s, {named!r}.")


@check("time_of", hidden=True, requires="the_slowest_kind_decides")
def other_kinds_may_come(student, rng):
    """any names of kinds will do, and task and rates stay as they are"""
    task, rates = {"cups": 6, "plates": 4}, {"cups": 1.0, "plates": 2.0, "forks": 3.0}
    if pair(student, task, rates) != (6.0, "cups"):
        raise Feedback("with kinds of other names: wrong.", hint="Which kinds do you go through?")
    require_left_alone(student, "time_of", task, rates)


# ---- 5. by_tensors


def means(x, labels, classes):
    return np.array([x[labels == k].mean(axis=0) for k in range(classes)])


def labelled(rng, rows, columns, classes):
    """Return rows with labels, every class among them."""
    labels = rng.permutation(np.arange(rows) % classes)
    labels[labels == 0] = rng.integers(classes, size=int((labels == 0).sum()))
    labels[:classes] = rng.permutation(classes)
    return rng.normal(size=(rows, columns)), labels


@check("by_tensors", weight=2)
def each_class_has_the_mean_of_its_rows(student, rng):
    """row k is the mean of the rows whose label is k"""
    for rows, columns, classes in ((12, 3, 4), (7, 5, 2), (9, 2, 3)):
        x, labels = labelled(rng, rows, columns, classes)
        got = student.call("by_tensors", x, labels, classes)
        expected = means(x, labels, classes)
        n = np.bincount(labels)[:, np.newaxis]
        hint = "Take two classes and three rows, by hand."
        if np.shape(got) == expected.shape:
            if np.allclose(got, expected * n):
                hint = "These are sums. How many rows has each class?"
            elif np.allclose(got, expected * n / rows):
                hint = "Divide each sum by the rows of its own class, not by all."
        close(got, expected, called=f"by_tensors of {rows} rows in {classes} classes", hint=hint)


def counted_lines(rows):
    """Return how many lines of Python run for so many rows, whatever by_tensors is and calls."""
    import sys
    import threading

    import numpy as np

    lines = []

    def trace(frame, event, argument):
        if event == "line":
            lines.append(1)
        return trace

    x, labels = np.ones((rows, 3)), np.arange(rows) % 2
    by_tensors(x, labels, 2)  # what the first call imports is not counted
    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        by_tensors(x, labels, 2)
        return len(lines) if sys.gettrace() is trace else None
    finally:
        sys.settrace(before)
        threading.settrace(before)


@check("by_tensors", requires="each_class_has_the_mean_of_its_rows")
def no_line_runs_once_a_row(student, rng):
    """a hundred times as many rows run no more lines of Python"""
    few, many = (student.probe(counted_lines, rows=rows) for rows in (10, 1000))
    if few is None or many is None:
        raise Feedback(
            "by_tensors calls sys.settrace, by which its lines are counted. Leave it out."
        )
    if many > 2 * few + 20:
        raise Feedback(
            f"10 rows run {few} lines of Python, 1,000 rows {many}. Which operation of NumPy "
            "does that for all rows at once?"
        )


@check("by_tensors", hidden=True, requires="each_class_has_the_mean_of_its_rows")
def one_class_is_the_mean_of_all(student, rng):
    """with one class there is one row, the mean of all; rows and labels stay as they are"""
    x = rng.normal(size=(5, 4))
    got = student.call("by_tensors", x, np.zeros(5, int), 1)
    close(got, x.mean(axis=0, keepdims=True), called="one class", hint="Which shape has it?")
    require_left_alone(student, "by_tensors", x, np.array([2, 0, 1, 0, 2]), 3)


# ---- 6. train


def run(theta, shifts, steps):
    """Return theta after some steps, what each was asked, and whether the first was changed."""
    calls = []

    def data(t):
        calls.append(["data", t])
        return shifts[t]

    def gradient(theta, shift):
        return (theta + 1) * shift

    def f(theta, grad):
        calls.append(["f", float(grad[0])])
        return theta - 0.5 * grad + 0.125

    before = theta.copy()
    after = train(theta, gradient, data, f, steps)
    return after, calls, bool((theta == before).all())


@check("train", weight=2)
def each_step_is_the_equation(student, rng):
    """theta(t+1) = f(theta(t), gradient(theta(t), data(t))), for t from 0"""
    for steps in (1, 4, 2):
        theta, shifts = rng.normal(size=3), rng.uniform(0.1, 1, size=6).tolist()
        after, asked, _ = student.probe(run, theta=theta, shifts=shifts, steps=steps)
        drawn = [t for what, t in asked if what == "data"]
        if drawn != list(range(steps)):
            raise Feedback(f"train with {steps} steps asked for the data of t = {drawn}.")
        expected = theta
        for t in range(steps):
            expected = expected - 0.5 * (expected + 1) * shifts[t] + 0.125
        hint = "Write the first two steps down. Which theta is the second gradient of?"
        close(after, expected, called=f"theta after {steps} steps", hint=hint)


@check("train", hidden=True, requires="each_step_is_the_equation")
def no_steps_change_nothing(student, rng):
    """after no steps theta is what it was, and the first theta is left alone"""
    theta = rng.normal(size=2)
    after, _, same = student.probe(run, theta=theta, shifts=[0.5] * 6, steps=0)
    close(after, theta, called="theta after 0 steps", hint="What is returned?")
    _, _, same = student.probe(run, theta=theta, shifts=[0.5] * 6, steps=2)
    if not same:
        raise Feedback("the first theta has changed.", hint="f makes a new one.")
