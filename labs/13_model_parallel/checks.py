"""Checks of lab 13. Weights, batches and sizes are drawn anew; every message passes the judge."""

from dataclasses import replace

import numpy as np

from autograder.checks import RANK_SETTINGS, Feedback, check, close, to_number
from autograder.errors import StudentError

LATE = "torch.fx.experimental.symbolic_shapes"  # else each rank imports it, in backward(gradient)
SCHEDULES = ("gpipe", "one_forward_one_backward", "zero_bubble")
TORCH_SCHEDULES = ("_get_1f1b_rank_ops", "_PipelineSchedule", "ScheduleGPipe", "Schedule1F1B")
WITHHELD = (
    *("ddp_lab.simulate.pipeline:pipeline", "ddp_lab.simulate.pipeline:finish_times"),
    *(f"ddp_lab.parallel.pipeline.schedules:{name}" for name in SCHEDULES),
    *(f"torch.distributed.pipelining.schedules:{name}" for name in TORCH_SCHEDULES),
    "ddp_lab.parallel.pipeline.pipeline:Pipeline",
    "ddp_lab.parallel.tensor.conjugate:CopyForwardReduceBackward",
    "ddp_lab.parallel.tensor.conjugate:ReduceForwardCopyBackward",
)
LAB = replace(RANK_SETTINGS, preload=("numpy", "torch", LATE, "ddp_lab"), withheld=WITHHELD)


# ---- 1. naive_step


def run_step(comm, weight, x, labels, name):
    """Take a step with stages x -> tanh(x w); return loss, gradient, weight and runs of the stage."""
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.from_numpy(weight.copy()))
            self.forwards = 0

        def forward(self, x):
            self.forwards += 1
            return torch.tanh(x @ self.w)

    stage = Layer()
    stage_input = None if x is None else torch.from_numpy(x)
    target = None if labels is None else torch.from_numpy(labels)
    loss = globals()[name](comm, stage, stage_input, target)
    grad = None if stage.w.grad is None else stage.w.grad.numpy()
    loss = None if loss is None else torch.as_tensor(loss, dtype=torch.float64).item()
    return loss, grad, stage.w.detach().numpy(), stage.forwards


def draw_network(rng, ranks, rows=5, width=4):
    """Return a weight a rank, and a batch with labels, in double precision."""
    weights = [rng.normal(size=(width, width)) for _ in range(ranks)]
    return weights, rng.normal(size=(rows, width)), rng.integers(0, width, size=rows)


def compute_alone(weights, x, labels):
    """Return loss and gradients of tanh layers under cross entropy, by hand."""
    inputs = [x]
    for w in weights:
        inputs.append(np.tanh(inputs[-1] @ w))
    shifted = np.exp(inputs[-1] - inputs[-1].max(axis=1, keepdims=True))
    p = shifted / shifted.sum(axis=1, keepdims=True)
    at = np.arange(len(x)), labels
    loss = -np.log(p[at]).mean()
    p[at] -= 1
    grad, grads = p / len(x), []
    for w, before, after in zip(weights[::-1], inputs[-2::-1], inputs[:0:-1], strict=True):
        grad = grad * (1 - after**2)
        grads.insert(0, before.T @ grad)
        grad = grad @ w.T
    return loss, grads


def ask_naive_step(student, rng, ranks, *, steps=False, **sizes):
    weights, x, labels = draw_network(rng, ranks, **sizes)
    xs, targets = [x, *[None] * (ranks - 1)], [*[None] * (ranks - 1), labels]
    inputs = [(w, *own, "naive_step") for w, *own in zip(weights, xs, targets, strict=True)]
    try:
        run = student.ranks(run_step, ranks, inputs, steps=steps)
    except StudentError as error:
        if "NoneType" not in str(error):
            raise
        raise Feedback(
            f"naive_step: {str(error).rstrip('. ')}.",
            hint="x.grad is None where nobody asked torch to keep it: x.requires_grad_().",
        ) from error
    return run, weights, *compute_alone(weights, x, labels)


@check("naive_step", weight=3)
def gradients_are_those_of_one_process(student, rng):
    """after a step every stage has the gradient that one process would have"""
    for ranks in (3, 2):
        run, _, _, grads = ask_naive_step(student, rng, ranks)
        for rank, ((_, got, _, _), expected) in enumerate(zip(run.results, grads, strict=True)):
            place = f"naive_step on {ranks} ranks: the stage of rank {rank}"
            if got is None:
                raise Feedback(f"{place} has no gradient. Which backward is to make it?")
            if not np.allclose(got, expected, rtol=1e-9, atol=1e-12):
                hint = "Which gradient does the rank behind send: of its output, or its input?"
                called = f"{place}: its gradient, beside that of one process,"
                close(got, expected, called=called, hint=hint, rtol=1e-9, atol=1e-12)


@check("naive_step")
def the_loss_is_returned_on_the_last_rank_alone(student, rng):
    """the last rank returns the loss, the others None"""
    run, _, loss, _ = ask_naive_step(student, rng, 3)
    got = [result[0] for result in run.results]
    if got[-1] is None or not np.isclose(got[-1], loss, rtol=1e-9):
        raise Feedback(f"naive_step: the last rank returned {got[-1]!r}, the loss is {loss:.6f}.")
    if any(value is not None for value in got[:-1]):
        raise Feedback(f"naive_step: the ranks before the last returned {got[:-1]}, not None.")


@check("naive_step", requires="gradients_are_those_of_one_process")
def one_array_goes_each_way(student, rng):
    """one array goes forward and one back between stages, sends are over, and weights stay"""
    run, weights, _, _ = ask_naive_step(student, rng, 3, steps=True)
    pairs = sorted((m.src, m.dst) for m in run.messages)
    if pairs != [(0, 1), (1, 0), (1, 2), (2, 1)]:
        raise Feedback(
            f"naive_step on 3 ranks: messages sent: {len(pairs)}, from and to {pairs}. "
            "How many does each pair of neighbours need?"
        )
    kinds = [(step.rank, step.kind) for step in run.steps]
    for rank in range(3):
        if kinds.count((rank, "over")) < kinds.count((rank, "send")):
            raise Feedback(
                f"naive_step: when rank {rank} returns, a send of its may still be going on. Who waits "
                "for what isend returned?"
            )
    for rank, (_, _, w, forwards) in enumerate(run.results):
        if not np.array_equal(w, weights[rank]):
            raise Feedback(f"naive_step changed the weights of rank {rank}: that is for later.")
        if forwards != 1:
            raise Feedback(
                f"naive_step called the stage of rank {rank} {forwards} times, not once."
            )


@check("naive_step", hidden=True)
def one_rank_is_a_pipeline_too(student, rng):
    """with one rank, or one row, the step is still right"""
    for ranks, rows in ((1, 5), (4, 1)):
        try:
            run, _, loss, grads = ask_naive_step(student, rng, ranks, rows=rows)
        except StudentError as error:
            raise Feedback(
                f"naive_step: {error.type_name} on {ranks} ranks with {rows} rows.",
                hint="With one rank, rank 0 is the last as well.",
            ) from error
        got = [result[1] for result in run.results]
        fine = [g is not None and np.allclose(g, e, rtol=1e-9) for g, e in zip(got, grads)]
        if not all(fine) or not np.isclose(run.results[-1][0] or 0.0, loss, rtol=1e-9):
            raise Feedback(
                f"naive_step: wrong on {ranks} ranks with {rows} rows.",
                hint="With one rank, rank 0 is the last as well.",
            )


# ---- 2. gpipe, bubble


def ask_order(student, name, rank, ranks, microbatches):
    got = student.call(name, rank, ranks, microbatches)
    called = f"{name}({rank}, {ranks}, {microbatches})"
    if not isinstance(got, list | tuple) or not all(isinstance(action, str) for action in got):
        raise Feedback(f"{called} returned {got!r}, not a list of actions such as '{rank}F0'.")
    return list(got), called


def require_all_work(got, called, rank, microbatches):
    """Raise Feedback unless the actions are a forward and a backward for each micro-batch."""
    due = {f"{rank}{kind}{m}" for kind in "FB" for m in range(microbatches)}
    for action in got:
        if action not in due:
            raise Feedback(f"{called} has {action!r}, which is no work of rank {rank}.")
    for action in sorted(due):
        if got.count(action) != 1:
            raise Feedback(f"{called} has {action!r} {got.count(action)} times, expected once.")


@check("gpipe", weight=2)
def gpipe_does_all_work_once(student, rng):
    """each rank does a forward and a backward for each micro-batch, once"""
    for rank, ranks, m in ((0, 4, 2), (2, 3, 5), (0, 1, 1), (11, 13, 12)):
        require_all_work(*ask_order(student, "gpipe", rank, ranks, m), rank, m)


@check("gpipe", weight=2, requires="gpipe_does_all_work_once")
def forwards_first_then_backwards(student, rng):
    """all forwards come first, then all backwards, each from micro-batch 0 up"""
    for rank, ranks, m in ((1, 4, 2), (2, 3, 5), (0, 1, 1), (0, 2, 12)):
        got, called = ask_order(student, "gpipe", rank, ranks, m)
        kinds = [action.strip("0123456789") for action in got]
        if kinds != ["F"] * m + ["B"] * m:
            raise Feedback(f"{called} = {got}: is a backward before the last forward?")
        numbers = [int(action.partition(kind)[2]) for action, kind in zip(got, kinds)]
        if numbers != [*range(m), *range(m)]:
            raise Feedback(f"{called} = {got}: micro-batches do not go from 0 up.")


def simulate_bubble(stages, microbatches):
    """Return the idle share, by going through every action of GPipe."""
    ends = {}
    for kind, back in (("F", 1), ("B", -1)):
        for m in range(microbatches):
            for stage in range(stages)[::back]:
                before = (
                    (kind, stage - back, m),
                    (kind, stage, m - 1),
                    ("F", stage, microbatches - 1),
                )
                ends[kind, stage, m] = 1 + max(ends.get(key, 0) for key in before)
    return 1 - 2 * microbatches / max(ends.values())


def draw_pairs(rng, count):
    """Return numbers of stages, or ranks, and of micro-batches, or blocks."""
    return [(int(a), int(b)) for a, b in rng.integers(3, 40, size=(count, 2))]


@check("bubble", weight=2)
def the_bubble_is_what_a_clock_shows(student, rng):
    """the share is that of a pipeline that was gone through action by action"""
    for stages, m in ((4, 8), (2, 1), (8, 1), *draw_pairs(rng, 3)):
        got = student.call("bubble", stages, m)
        expected = simulate_bubble(stages, m)
        if not np.isclose(got, expected, rtol=1e-9):
            why = "Count the slots of a stage, and the slots of the whole step."
            if np.isclose(got, (stages - 1) / m, rtol=1e-9):
                why = "That is idle time over working time. The share is of all of the time."
            elif np.isclose(got, 1 - expected, rtol=1e-9):
                why = "That is the share for which a stage works."
            raise Feedback(
                f"bubble({stages}, {m}) = {got:.4g}, the clock shows {expected:.4g}. {why}"
            )


@check("bubble", hidden=True, requires="the_bubble_is_what_a_clock_shows")
def one_stage_never_waits(student, rng):
    """a single stage is never idle"""
    got = student.call("bubble", 1, int(rng.integers(1, 9)))
    if got != 0:
        raise Feedback(f"bubble(1, M) = {got!r}.", hint="Whom does a single stage wait for?")


def simulate_step(stages, microbatches, forward, backward, message):
    """Return the seconds of a GPipe step, by going through every action."""
    ends = {}
    for kind, back, seconds in (("F", 1, forward), ("B", -1, backward)):
        for m in range(microbatches):
            for stage in range(stages)[::back]:
                own = ((kind, stage, m - 1), ("F", stage, microbatches - 1))
                starts = [ends.get(key, 0.0) for key in own]
                if (kind, stage - back, m) in ends:
                    starts.append(ends[kind, stage - back, m] + message)
                ends[kind, stage, m] = max(starts) + seconds
    return max(ends.values())


def draw_step_case(rng, stages, m, message=None):
    """Return arguments of step_seconds, and the seconds."""
    forward = float(rng.uniform(1, 3))
    backward = forward * float(rng.uniform(1.2, 2.5))
    message = float(rng.uniform(0.2, 1)) * forward if message is None else message
    case = stages, m, forward, backward, message
    return case, simulate_step(*case)


@check("step_seconds")
def without_messages_it_is_slots_of_both(student, rng):
    """where messages cost nothing, a step is as many slots as the bubble says"""
    for stages, m in ((2, 8), (4, 3), (1, 5)):
        case, expected = draw_step_case(rng, stages, m, 0.0)
        got = student.call("step_seconds", *case)
        if not np.isclose(got, expected, rtol=1e-9):
            why = "How many slots pass from the first begin to the last end?"
            if np.isclose(got, m * (case[2] + case[3]), rtol=1e-9):
                why = "So long a stage works. When does it wait?"
            call = f"step_seconds({stages}, {m}, {case[2]:.3g}, {case[3]:.3g}, 0)"
            raise Feedback(f"{call} gave {got:.4g}, a clock shows {expected:.4g}. {why}")


@check("step_seconds", weight=2, requires="without_messages_it_is_slots_of_both")
def a_message_is_waited_for_at_each_boundary_both_ways(student, rng):
    """a message is waited for at each boundary, forward and backward; the others are hidden"""
    for stages, m in ((2, 8), (4, 6), (3, 2)):
        case, expected = draw_step_case(rng, stages, m)
        got = to_number(student.call("step_seconds", *case))
        n_waits = (got - (m + stages - 1) * (case[2] + case[3])) / case[4]
        if not np.isclose(got, expected, rtol=1e-6):  # as near as float32
            why = "Draw two stages and two micro-batches, with a gap for each message."
            if np.isclose(n_waits, 2 * (stages - 1) * m):
                why = "Does a stage wait for the second micro-batch's, while it computes the first?"
            elif np.isclose(n_waits, stages - 1):
                why = "And backward?"
            raise Feedback(
                f"step_seconds with {stages} stages and {m} micro-batches waits for {n_waits:.4g} "
                f"messages. {why}"
            )


@check("step_seconds", hidden=True, requires="without_messages_it_is_slots_of_both")
def one_stage_waits_for_no_message(student, rng):
    """a single stage waits for nothing, and one micro-batch crosses every boundary twice"""
    for stages, m in ((1, int(rng.integers(1, 9))), (int(rng.integers(2, 9)), 1)):
        case, expected = draw_step_case(rng, stages, m)
        if not np.isclose(student.call("step_seconds", *case), expected, rtol=1e-9):
            raise Feedback(
                f"step_seconds({stages}, {m}, ...) is not what a clock shows.",
                hint="Try one stage, and one micro-batch.",
            )


# ---- 3. one_f_one_b

SHAPES = ((4, 8), (4, 4), (3, 5), (2, 7), (12, 24))


@check("one_f_one_b", weight=2)
def one_f_one_b_does_all_work_once(student, rng):
    """each rank does a forward and a backward for each micro-batch, once"""
    for ranks, m in SHAPES:
        for rank in range(ranks):
            require_all_work(*ask_order(student, "one_f_one_b", rank, ranks, m), rank, m)


def require_least_ahead(student, ranks, m):
    """Raise Feedback unless each rank is exactly as far ahead as it has to be."""
    for rank in range(ranks):
        got, called = ask_order(student, "one_f_one_b", rank, ranks, m)
        kinds = [action.strip("0123456789") for action in got]
        n_held = np.cumsum([1 if kind == "F" else -1 for kind in kinds])
        due = min(ranks - rank, m)
        if n_held.max() != due:
            raise Feedback(
                f"{called}: the most micro-batches held at once: {n_held.max()}, expected {due}. "
                "How many stages has a micro-batch still to go, this one included?"
            )
        if "B" in kinds and kinds.index("B") != due:
            ahead = kinds.index("B")
            raise Feedback(f"{called}: forwards before the first B: {ahead}, expected {due}.")


@check("one_f_one_b", weight=2, requires="one_f_one_b_does_all_work_once")
def each_rank_is_as_far_ahead_as_it_must_be(student, rng):
    """a rank holds as many micro-batches as stages are left, and no more"""
    for ranks, m in SHAPES:
        require_least_ahead(student, ranks, m)


@check("one_f_one_b", weight=2, requires="one_f_one_b_does_all_work_once")
def backward_and_forward_take_turns(student, rng):
    """after the first forwards B and F take turns, each from micro-batch 0 up"""
    for ranks, m in SHAPES:
        for rank in range(ranks):
            got, called = ask_order(student, "one_f_one_b", rank, ranks, m)
            for kind in "FB":
                numbers = [int(a.partition(kind)[2]) for a in got if kind in a]
                if numbers != list(range(m)):
                    raise Feedback(f"{called} = {got}: the {kind}s do not go from 0 up.")
            kinds = "".join(action.strip("0123456789") for action in got)
            turns = kinds.lstrip("F")
            if "BB" in turns.rstrip("B") or "FF" in turns:
                raise Feedback(f"{called} = {got}: two of a kind in a row, while both can be done.")


@check("one_f_one_b", hidden=True, requires="one_f_one_b_does_all_work_once")
def fewer_micro_batches_than_stages(student, rng):
    """with fewer micro-batches than stages it is still right"""
    for ranks, m in ((4, 1), (4, 2), (5, 3), (1, 1), (1, 4)):
        for rank in range(ranks):
            require_all_work(*ask_order(student, "one_f_one_b", rank, ranks, m), rank, m)
        require_least_ahead(student, ranks, m)


# ---- 4. column_row, row_column


def run_product(comm, x, a, b, name):
    """Return z, and whether the inputs are still what they were."""
    before = x.copy(), a.copy(), b.copy()
    z = globals()[name](comm, x, a, b)
    same = all(np.array_equal(u, v) for u, v in zip(before, (x, a, b), strict=True))
    return None if z is None else np.asarray(z), same


def list_collectives(run):
    """Return (name, number of elements) of each collective, in order, as the headers tell."""
    elements = {}
    for m in run.messages:
        fields = m.header.split(b"\0")[0].split(b"|")
        if len(fields) > 4:
            size = [int(part) for part in fields[4].strip(b"()").split(b",") if part.strip()]
            elements[fields[0]] = fields[1].decode(), int(np.prod(size))
    return [
        elements[key] for key in sorted(elements, key=lambda order: int(order.rpartition(b".")[2]))
    ]


def ask_product(student, rng, name, ranks, cut, rows=3, width=8, hidden=24):
    """Run a product; return the run, z, and what z is without relu and with it too early."""
    x = rng.normal(size=(rows, width))
    w1, w2 = rng.normal(size=(width, hidden)), rng.normal(size=(hidden, width))
    parts = zip(np.split(w1, ranks, cut), np.split(w2, ranks, 1 - cut), strict=True)
    run = student.ranks(run_product, ranks, [(x, a.copy(), b.copy(), name) for a, b in parts])
    terms = zip(np.split(x, ranks, 1), np.split(w1, ranks), strict=True)
    early_relu = sum(np.maximum(own @ rows, 0) for own, rows in terms) @ w2
    return run, np.maximum(x @ w1, 0) @ w2, (x @ w1 @ w2, early_relu)


def require_equal(name, run, z, wrong, ranks):
    """Raise Feedback unless every rank has z, and its inputs as they were."""
    for rank, (got, same) in enumerate(run.results):
        place = f"{name} on {ranks} ranks: rank {rank}"
        if got is None:
            raise Feedback(f"{place} returned None. Does {name} end in a return?")
        if np.shape(got) != z.shape:
            raise Feedback(
                f"{place} returned shape {np.shape(got)}, expected that of z, {z.shape}."
            )
        if not np.allclose(got, z, rtol=1e-9, atol=1e-9):
            why = "Compare with relu(x @ w1) @ w2 by hand."
            if np.allclose(got, wrong[0], rtol=1e-9, atol=1e-9):
                why = "It is x W1 W2: where is the relu?"
            elif np.allclose(got, wrong[1], rtol=1e-9, atol=1e-9):
                why = "relu of each addend is not relu of their sum. Which of the two is first?"
            elif np.allclose(got * ranks, z) or np.allclose(got, z * ranks):
                why = "It is off by the number of ranks."
            close(got, z, called=f"{place}: z", hint=why, rtol=1e-9, atol=1e-9)
        if not same:
            raise Feedback(f"{place}: the inputs were changed.")


@check("column_row", weight=2)
def column_row_gives_z(student, rng):
    """every rank returns relu(x W1) W2"""
    for ranks in (2, 4):
        run, z, wrong = ask_product(student, rng, "column_row", ranks, 1)
        require_equal("column_row", run, z, wrong, ranks)


@check("column_row", weight=2, requires="column_row_gives_z")
def column_row_needs_one_collective(student, rng):
    """one collective, an all-reduce of z's size"""
    run, z, _ = ask_product(student, rng, "column_row", 2, 1)
    got = list_collectives(run)
    if got != [("all_reduce", z.size)]:
        raise Feedback(
            f"column_row made the collectives {got} (name, elements). One all-reduce of "
            f"{z.size} elements is enough: what has each rank after the second product?"
        )


@check("row_column", weight=3)
def row_column_gives_z(student, rng):
    """every rank returns relu(x W1) W2"""
    for ranks in (2, 4):
        run, z, wrong = ask_product(student, rng, "row_column", ranks, 0)
        require_equal("row_column", run, z, wrong, ranks)


@check("row_column", weight=2, requires="row_column_gives_z")
def row_column_sums_before_relu_and_gathers_behind(student, rng):
    """an all-reduce of the hidden layer, and then an all-gather of columns of z"""
    run, z, _ = ask_product(student, rng, "row_column", 2, 0)
    got = list_collectives(run)
    expected = [("all_reduce", 3 * 24), ("all_gather", z.size // 2)]
    if got != expected:
        raise Feedback(
            f"row_column made the collectives {got} (name, elements), expected {expected}. "
            "Which of the two results is a sum, and which lies side by side?"
        )


@check("column_row", hidden=True)
def column_row_on_one_rank_and_other_sizes(student, rng):
    """one rank, one row and other sizes are right too"""
    for ranks, rows, width, hidden in ((1, 2, 4, 6), (3, 1, 6, 9)):
        run, z, wrong = ask_product(student, rng, "column_row", ranks, 1, rows, width, hidden)
        require_equal("column_row", run, z, wrong, ranks)


@check("row_column", hidden=True)
def row_column_on_one_rank_and_other_sizes(student, rng):
    """one rank, one row and other sizes are right too"""
    for ranks, rows, width, hidden in ((1, 2, 4, 6), (3, 1, 6, 9)):
        run, z, wrong = ask_product(student, rng, "row_column", ranks, 0, rows, width, hidden)
        require_equal("row_column", run, z, wrong, ranks)


# ---- 5. conjugate


def run_alone(comm, x, grad, name):
    """Send x through one of the functions, and a gradient back; what changed of the two?"""
    import torch

    given = {"x": x, "the gradient": grad}
    before = {what: array.copy() for what, array in given.items()}
    x = torch.from_numpy(x).requires_grad_()
    y = globals()[name].apply(x, comm)
    y.backward(torch.from_numpy(grad))
    changed = [what for what in given if (given[what] != before[what]).any()]
    return y.detach().numpy(), x.grad.numpy(), changed


def ask_alone(student, rng, name, ranks=3):
    xs, grads = rng.normal(size=(2, ranks, 2, 5))
    inputs = [(xs[r], grads[r], name) for r in range(ranks)]
    try:
        run = student.ranks(run_alone, ranks, inputs)
    except StudentError as error:
        raise Feedback(
            f"{name}: applied, and sent a gradient back, it raised {str(error).rstrip('. ')}.",
            hint="backward returns one gradient for each argument of forward: for x, and for comm.",
        ) from error
    return run, xs, grads


def require_unchanged(name, rank, changed):
    """Raise Feedback where x or a gradient is not what it was."""
    if changed:
        raise Feedback(
            f"{name} on rank {rank} wrote into {changed[0]} that it was given. Others use it too: "
            "which result needs an array of its own?"
        )


@check("conjugate", weight=2)
def copy_passes_x_and_sums_gradients(student, rng):
    """Copy hands x on; its gradient is the sum over the ranks"""
    run, xs, grads = ask_alone(student, rng, "Copy")
    for rank, (y, x_grad, changed) in enumerate(run.results):
        if not np.array_equal(y, xs[rank]):
            raise Feedback(f"Copy on rank {rank}: forward returned something else than x.")
        if not np.allclose(x_grad, grads.sum(axis=0), rtol=1e-12):
            own = " It is the rank's own." if np.allclose(x_grad, grads[rank]) else ""
            own = " It is their average." if np.allclose(x_grad, grads.mean(axis=0)) else own
            raise Feedback(f"Copy on rank {rank}: the gradient is not the sum of all.{own}")
        require_unchanged("Copy", rank, changed)


@check("conjugate", weight=2)
def reduce_sums_x_and_passes_gradients(student, rng):
    """Reduce returns the sum over the ranks; its gradient is handed on"""
    run, xs, grads = ask_alone(student, rng, "Reduce")
    for rank, (y, x_grad, changed) in enumerate(run.results):
        if not np.allclose(y, xs.sum(axis=0), rtol=1e-12):
            raise Feedback(f"Reduce on rank {rank}: forward did not return the sum over the ranks.")
        if not np.array_equal(x_grad, grads[rank]):
            raise Feedback(
                f"Reduce on rank {rank}: the gradient was changed on its way back. "
                "What is the derivative of a sum by one addend?"
            )
        require_unchanged("Reduce", rank, changed)


@check("conjugate", requires="copy_passes_x_and_sums_gradients")
def each_function_communicates_once(student, rng):
    """each of the two needs one all-reduce, there and back together"""
    for name in ("Copy", "Reduce"):
        run, xs, _ = ask_alone(student, rng, name)
        got = list_collectives(run)
        if got != [("all_reduce", xs[0].size)]:
            raise Feedback(f"{name} made the collectives {got} (name, elements): one is enough.")


# ---- 6. communication


@check("communication", weight=2)
def a_pipeline_sends_activations_and_gradients(student, rng):
    """a pipeline sends an activation and a gradient over each boundary"""
    for ranks, blocks in ((4, 4), (2, 12), *draw_pairs(rng, 2)):
        n = 8 * int(rng.integers(10, 999))
        got = student.call("communication", ranks, blocks, n)[0]
        if got != 2 * (ranks - 1) * n:
            raise Feedback(
                f"communication({ranks}, {blocks}, {n})[0] = {got}, expected "
                f"{2 * (ranks - 1) * n}. How many boundaries are there, and what crosses one?"
            )


@check("communication", weight=2)
def tensor_parallelism_sums_twice_a_block(student, rng):
    """tensor parallelism does two ring all-reduces a block"""
    for ranks, blocks in ((4, 4), (2, 12), *draw_pairs(rng, 2)):
        n = 8 * int(rng.integers(10, 999))
        got = student.call("communication", ranks, blocks, n)[1]
        expected = 4 * blocks * (ranks - 1) * n
        if not np.isclose(got, expected, rtol=1e-9):
            why = "Count the all-reduces of a block, and what all ranks send in one."
            if np.isclose(got * ranks, expected, rtol=1e-9):
                why = "That is what one rank sends."
            elif np.isclose(2 * got, expected, rtol=1e-9):
                why = "Is there one in the backward pass too?"
            raise Feedback(f"communication({ranks}, {blocks}, {n})[1] = {got}. {why}")


@check("communication", hidden=True, requires="a_pipeline_sends_activations_and_gradients")
def one_rank_sends_nothing(student, rng):
    """one rank has nobody to send to"""
    if tuple(student.call("communication", 1, 6, 100)) != (0, 0):
        raise Feedback("communication(1, 6, 100) is not (0, 0).", hint="Whom could it send to?")


# ---- 7. views

CUTS = {
    "replicas with a part of the batch each": "intra",
    "a device for each run of layers": "inter",
    "heads of attention on different devices": "intra",
    "activations computed again in backward": "neither",
    "parameters stored in shares, gathered for each layer": "neither",
}


def ask_views(student):
    views = student.value("views")
    if not isinstance(views, dict) or set(views) != set(CUTS):
        raise Feedback("views should be a dict with each of METHODS.")
    if not set(views.values()) <= {"inter", "intra", "neither"}:
        raise Feedback('views: each is "inter", "intra" or "neither".')
    return views


@check("views", weight=2)
def what_cuts_operators_is_told_from_what_cuts_between(student, rng):
    """methods that divide operators among devices, and methods that divide the list of them"""
    views = ask_views(student)
    for method, cut in CUTS.items():
        if cut != "neither" and views[method] != cut:
            raise Feedback(
                f"views: {method}: is one product of matrices computed by one device there, or by "
                "several together?"
            )


@check("views", requires="what_cuts_operators_is_told_from_what_cuts_between")
def what_cuts_neither_is_known(student, rng):
    """methods that only change when something is computed, or where it is stored"""
    views = ask_views(student)
    for method, cut in CUTS.items():
        if cut == "neither" and views[method] != cut:
            raise Feedback(
                f"views: {method}: who multiplies which rows by which columns? Is that another "
                "device than without it?"
            )
