"""Checks of lab 10. Gradients are drawn anew; in grading every message passes through the judge."""

from dataclasses import replace

import numpy as np

from autograder.checks import RANK_SETTINGS, Feedback, check, to_number
from autograder.errors import StudentError

TORCH_C10D = ("distributed", "_C._distributed_c10d")
WITHHELD = (
    *("ddp_lab.data_parallel.bucketing:assign", "ddp_lab.simulate.ddp:ddp"),
    *("ddp_lab.data_parallel:DistributedDataParallel", "ddp_lab.data_parallel.ladder:Replica"),
    *(f"torch.{c10d}:_compute_bucket_assignment_by_size" for c10d in TORCH_C10D),
)
LAB = replace(RANK_SETTINGS, preload=("numpy", "torch", "ddp_lab"), withheld=WITHHELD)

SHAPES = ((3, 4), (4,), (2, 3), (2,))
ODD = ((5,), (), (0, 3), (2, 1, 3), (7, 4))  # a scale, an empty table, a convolution, ...


def draw_gradients(rng, n):
    """Return one list of float32 gradients a rank."""
    return [[rng.normal(size=s).astype(np.float32) for s in SHAPES] for _ in range(n)]


def mean(grads):
    return [np.mean(column, axis=0) for column in zip(*grads, strict=True)]


def compare_with_mean(called, rank, got, grads):
    """Raise Feedback unless `got` is the average of `grads`; say what it is instead."""
    n = len(grads)
    for i, (g, expected) in enumerate(zip(got, mean(grads), strict=True)):
        own = grads[rank][i]
        if np.shape(g) != expected.shape:
            raise Feedback(f"{called}: gradient {i} of rank {rank} has shape {np.shape(g)}.")
        if np.allclose(g, expected, rtol=1e-4, atol=1e-6):
            continue
        at = tuple(int(k) for k in np.argwhere(~np.isclose(g, expected, 1e-4, 1e-6))[0])
        what = f"{g[at]:.4g} at {list(at)}, and the average of the ranks' is {expected[at]:.4g}"
        if np.allclose(g, n * expected, rtol=1e-4, atol=1e-6):
            what = "the sum over the ranks. The gradient of a mean is not a sum"
        elif np.allclose(g, own, rtol=1e-4, atol=1e-6):
            what = "still its own: the result of the all-reduce has not reached .grad"
        elif np.allclose(g, own / n, rtol=1e-4, atol=1e-6):
            what = "its own, divided by the number of ranks: nothing of the others is in it"
        elif np.allclose(g, expected / n, rtol=1e-4, atol=1e-6):
            what = "the average, divided by the number of ranks once more"
        raise Feedback(f"{called}: on {n} ranks, gradient {i} of rank {rank} is {what}.")


def require_untouched(called, weights):
    """Raise Feedback unless the weights of every rank are what the check made them."""
    for rank, values in enumerate(weights):
        for w in values:
            if not np.all(np.asarray(w) == 7.0 + rank):
                raise Feedback(
                    f"{called} changed the weights of rank {rank}. Only gradients are averaged; "
                    "which of the two is your variable?"
                )


def list_collectives(run):
    """Return the number of elements of each all-reduce, in order, as the headers tell."""
    elements = {}
    for m in run.messages:
        fields = m.header.split(b"\0")[0].split(b"|")
        if len(fields) > 4 and fields[1] == b"all_reduce":
            size = [int(part) for part in fields[4].strip(b"()").split(b",") if part.strip()]
            elements[fields[0]] = int(np.prod(size))
    return [
        elements[key] for key in sorted(elements, key=lambda order: int(order.rpartition(b".")[2]))
    ]


def run_with_gradients(comm, grads, name):
    """Give parameters these gradients, call the learner's function, and return what is there."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0 + comm.rank)) for g in grads]
    for param, grad in zip(params, grads, strict=True):
        param.grad = torch.from_numpy(grad.copy())
    globals()[name](comm, params)
    return [p.grad.numpy() for p in params], [p.detach().numpy() for p in params]


def run_with_odd_gradients(comm, grads, name):
    """As `run_with_gradients`, in double precision; gradients with several axes are transposed views."""
    import torch

    params = []
    for grad in grads:
        param = torch.nn.Parameter(torch.full(grad.shape, 7.0 + comm.rank, dtype=torch.float64))
        axes = tuple(reversed(range(grad.ndim)))
        param.grad = torch.from_numpy(grad.transpose(axes).copy()).permute(axes)
        params.append(param)
    globals()[name](comm, params)
    return [p.grad.numpy() for p in params], [p.detach().numpy() for p in params]


def draw_odd_gradients(rng, n):
    """Return one list of float64 gradients a rank, of shapes that some model has somewhere."""
    return [[np.asarray(rng.normal(size=s)) for s in ODD] for _ in range(n)]


VIEWS = "Some tensors have no axis, no element, or are transposed views. Which line minds?"
DIGITS = "Which dtype has each tensor that you make on the way?"


def compare_odd_averages(student, rng, called, function, *rest, ranks=(3, 1)):
    """Raise Feedback unless `function` averages `draw_odd_gradients` to the last digits."""
    for n in ranks:
        grads = draw_odd_gradients(rng, n)
        try:
            run = student.ranks(function, n, [(g, *rest) for g in grads])
        except StudentError as error:
            raise Feedback(f"{called}: {error.type_name} on shapes {ODD}.", hint=VIEWS) from error
        for rank, (got, weights) in enumerate(run.results):
            for i, (g, expected) in enumerate(zip(got, mean(grads), strict=True)):
                place = f"{called} on {n} ranks: gradient {i} of rank {rank}, shape {ODD[i]}"
                if np.shape(g) != ODD[i] or not np.allclose(g, expected, rtol=1e-4, atol=1e-6):
                    raise Feedback(f"{place}, is not the average.", hint=VIEWS)
                if not np.allclose(g, expected, rtol=1e-12, atol=1e-14):
                    raise Feedback(f"{place}, has lost half of its digits.", hint=DIGITS)
            if not all(np.all(np.asarray(w) == 7.0 + rank) for w in weights):
                raise Feedback(f"{called} changed weights.", hint="Only gradients are averaged.")


# ---- 1. average_gradients


@check("average_gradients", weight=3)
def gradients_become_the_average(student, rng):
    """every gradient is the average over the ranks"""
    for n in (3, 2):
        grads = draw_gradients(rng, n)
        run = student.ranks(run_with_gradients, n, [(g, "average_gradients") for g in grads])
        for rank, (got, _) in enumerate(run.results):
            compare_with_mean("average_gradients", rank, got, grads)


@check("average_gradients", requires="gradients_become_the_average")
def weights_are_left_alone(student, rng):
    """the parameters themselves keep their values"""
    run = student.ranks(
        run_with_gradients, 2, [(g, "average_gradients") for g in draw_gradients(rng, 2)]
    )
    require_untouched("average_gradients", [weights for _, weights in run.results])


@check("average_gradients")
def one_all_reduce_a_parameter(student, rng):
    """each parameter's gradient travels by itself"""
    run = student.ranks(
        run_with_gradients, 2, [(g, "average_gradients") for g in draw_gradients(rng, 2)]
    )
    if sorted(list_collectives(run)) != sorted(int(np.prod(s)) for s in SHAPES):
        raise Feedback(
            f"average_gradients: {len(SHAPES)} parameters, all-reduces of {list_collectives(run)} "
            "elements. How many should there be, and of what?"
        )


@check("average_gradients", weight=2, hidden=True, requires="gradients_become_the_average")
def any_shape_in_double_precision_is_averaged(student, rng):
    """gradients of any shape and dtype, on any number of ranks, become their average"""
    compare_odd_averages(
        student, rng, "average_gradients", run_with_odd_gradients, "average_gradients"
    )


# ---- 2. attach_hooks, flat_all_reduce


def run_backward_twice(comm, grads):
    """Attach hooks, run two backward passes with these gradients, return what each left."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0 + comm.rank)) for g in grads]
    attach_hooks(comm, params)
    grads_after = []
    for factor in (1.0, 2.0):
        for param in params:
            param.grad = None
        loss = sum((p * torch.from_numpy(g * factor)).sum() for p, g in zip(params, grads))
        loss.backward()
        grads_after.append([p.grad.numpy().copy() for p in params])
    return grads_after, [p.detach().numpy() for p in params]


@check("attach_hooks", weight=3)
def gradients_are_averaged_when_backward_returns(student, rng):
    """after backward every gradient is the average over the ranks"""
    for n in (3, 2):
        grads = draw_gradients(rng, n)
        run = student.ranks(run_backward_twice, n, wrap_gradients(grads))
        for rank, (grads_after, _) in enumerate(run.results):
            compare_with_mean("attach_hooks, then backward", rank, grads_after[0], grads)


def wrap_gradients(grads):
    return [(g,) for g in grads]


@check("attach_hooks", requires="gradients_are_averaged_when_backward_returns")
def the_hook_leaves_weights_alone(student, rng):
    """the parameters themselves keep their values"""
    run = student.ranks(run_backward_twice, 2, wrap_gradients(draw_gradients(rng, 2)))
    require_untouched("attach_hooks, then backward,", [weights for _, weights in run.results])


@check("attach_hooks")
def every_backward_is_averaged(student, rng):
    """the hooks work in the second backward as in the first"""
    grads = draw_gradients(rng, 2)
    run = student.ranks(run_backward_twice, 2, wrap_gradients(grads))
    doubled = [[2 * g for g in rank] for rank in grads]
    for rank, (grads_after, _) in enumerate(run.results):
        try:
            compare_with_mean("attach_hooks, second backward", rank, grads_after[1], doubled)
        except Feedback as feedback:
            raise Feedback(f"{feedback} The first backward is not the last.") from feedback


def run_with_some(comm, grads, order):
    """Attach hooks to all parameters, use those in `order`; return the gradients, some None."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0 + comm.rank)) for g in grads]
    attach_hooks(comm, params)
    loss = 0.0
    for index in order:
        loss = loss + (params[index] * torch.from_numpy(grads[index])).sum()
    loss.backward()
    return [None if p.grad is None else p.grad.numpy() for p in params]


@check("attach_hooks", hidden=True, requires="gradients_are_averaged_when_backward_returns")
def each_gradient_goes_by_itself(student, rng):
    """whichever parameters take part, and in whichever order, theirs are averaged"""
    hint = "Does one gradient's hook count on another gradient being there?"
    for order in ([3, 1, 0], [0, 2]):
        grads = draw_gradients(rng, 2)
        called = f"attach_hooks, then a backward that reaches parameters {order}"
        try:
            run = student.ranks(run_with_some, 2, [(g, order) for g in grads])
        except StudentError as error:
            raise Feedback(f"{called}: {error.type_name}.", hint=hint) from error
        for rank, got in enumerate(run.results):
            for i, expected in enumerate(mean(grads)):
                if i not in order and got[i] is None:
                    continue
                if i not in order or not np.allclose(got[i], expected, rtol=1e-4, atol=1e-6):
                    raise Feedback(f"{called}: gradient {i} of rank {rank} is wrong.", hint=hint)


@check("flat_all_reduce", weight=3)
def each_average_reaches_its_own_gradient(student, rng):
    """every gradient is the average over the ranks, in its own shape and place"""
    for n in (3, 2):
        grads = draw_gradients(rng, n)
        run = student.ranks(run_with_gradients, n, [(g, "flat_all_reduce") for g in grads])
        for rank, (got, _) in enumerate(run.results):
            compare_with_mean("flat_all_reduce", rank, got, grads)


@check("flat_all_reduce", requires="each_average_reaches_its_own_gradient")
def the_optimizers_weights_are_left_alone(student, rng):
    """the parameters themselves keep their values"""
    run = student.ranks(
        run_with_gradients, 2, [(g, "flat_all_reduce") for g in draw_gradients(rng, 2)]
    )
    require_untouched("flat_all_reduce", [weights for _, weights in run.results])


@check("flat_all_reduce", weight=2)
def all_gradients_in_one_message(student, rng):
    """one all-reduce of all elements together"""
    run = student.ranks(
        run_with_gradients, 2, [(g, "flat_all_reduce") for g in draw_gradients(rng, 2)]
    )
    total = sum(int(np.prod(s)) for s in SHAPES)
    if list_collectives(run) != [total]:
        raise Feedback(
            f"flat_all_reduce: {total} elements in all, but all-reduces of {list_collectives(run)} "
            "elements. How many latencies does that pay?"
        )


@check("flat_all_reduce", weight=2, hidden=True, requires="each_average_reaches_its_own_gradient")
def views_and_double_precision_fit_in_one_message(student, rng):
    """gradients of any shape and dtype, on any number of ranks, become their average"""
    compare_odd_averages(student, rng, "flat_all_reduce", run_with_odd_gradients, "flat_all_reduce")


# ---- 3. assign_buckets


def draw_cases(rng):
    yield [100, 10, 100, 10, 100, 10], 120
    yield [4, 4, 4, 4, 4], 8
    yield [10, 1000, 10], 100
    yield [5, 5, 5], 0
    yield [1] * 7, 3
    yield [], 10
    for _ in range(5):
        sizes = [int(b) for b in rng.integers(1, 50, size=int(rng.integers(5, 30)))]
        yield sizes, int(rng.integers(1, 150))


@check("assign_buckets")
def every_gradient_is_in_one_bucket(student, rng):
    """no index is missing, none is in two buckets, no bucket is empty"""
    for sizes, cap in draw_cases(rng):
        got = student.call("assign_buckets", sizes, cap)
        called = f"assign_buckets({sizes}, {cap}) gave {got}"
        flat = [i for bucket in got for i in bucket]
        if sizes and sorted(flat) == sorted(sizes):
            raise Feedback(f"{called}. These are bytes. By what does one know whose they are?")
        if missing := sorted(set(range(len(sizes))) - set(flat)):
            raise Feedback(f"{called}: {missing} are in no bucket. Who sends their gradients?")
        if len(flat) != len(sizes):
            raise Feedback(f"{called}: some index is there twice, or is no parameter at all.")
        if not all(len(bucket) for bucket in got):
            raise Feedback(f"{called}: a bucket is empty. It would be an all-reduce of nothing.")


@check("assign_buckets", requires="every_gradient_is_in_one_bucket")
def the_last_parameter_comes_first(student, rng):
    """parameters are taken in reverse, as backward finishes them"""
    for sizes, cap in draw_cases(rng):
        got = student.call("assign_buckets", sizes, cap)
        flat = [i for bucket in got for i in bucket]
        if flat != sorted(flat, reverse=True):
            raise Feedback(
                f"assign_buckets({sizes}, {cap}) gave {got}. Whose gradient does backward finish "
                "first, and in which bucket is it?"
            )


@check("assign_buckets", weight=2, requires="every_gradient_is_in_one_bucket")
def a_bucket_is_closed_once_it_is_full(student, rng):
    """each bucket but the last holds cap_bytes or more, and would not without its last gradient"""
    for sizes, cap in draw_cases(rng):
        got = student.call("assign_buckets", sizes, cap)
        called = f"assign_buckets({sizes}, {cap}) gave {got}"
        for bucket in got:
            n_bytes = sum(sizes[i] for i in bucket)
            if n_bytes < cap and bucket is not got[-1]:
                raise Feedback(
                    f"{called}: {bucket} holds {n_bytes} bytes: closed before it was full."
                )
            if len(bucket) > 1 and n_bytes - sizes[bucket[-1]] >= cap:
                raise Feedback(f"{called}: {bucket} was full before its last gradient came.")


def assign_by_rule(sizes, cap):
    """Return the buckets of `assign_buckets`, from the words of its docstring."""
    buckets = [[]]
    for index in reversed(range(len(sizes))):
        if buckets[-1] and sum(sizes[i] for i in buckets[-1]) >= cap:
            buckets.append([])
        buckets[-1].append(index)
    return buckets


@check("assign_buckets", hidden=True, requires="a_bucket_is_closed_once_it_is_full")
def a_gradient_of_no_bytes_fills_nothing(student, rng):
    """a parameter without elements has a place in a bucket, and closes none"""
    for _ in range(4):
        sizes = [int(b) for b in rng.integers(1, 9, size=12)]
        for empty in rng.permutation(12)[:5]:
            sizes[empty] = 0
        cap = int(rng.integers(8, 20))
        got = [list(bucket) for bucket in student.call("assign_buckets", sizes, cap)]
        if got != assign_by_rule(sizes, cap):
            raise Feedback(
                f"assign_buckets({sizes}, {cap}): wrong where a gradient has no bytes.",
                hint="By what does your code know that a bucket is new? A gradient may be empty.",
            )


@check("assign_buckets", hidden=True, requires="a_bucket_is_closed_once_it_is_full")
def thousands_of_parameters_are_dealt_out(student, rng):
    """a model of 5,000 parameters is no problem"""
    sizes = [int(b) for b in rng.integers(1, 9, size=5000)]
    hint = "How deep do your calls go, when each parameter is one of them?"
    try:
        got = student.call("assign_buckets", sizes, 40)
    except StudentError as error:
        if error.type_name != "RecursionError":
            raise
        raise Feedback(f"5,000 parameters: {error.type_name}.", hint=hint) from error
    if [list(bucket) for bucket in got] != assign_by_rule(sizes, 40):
        raise Feedback("5,000 parameters: other buckets than by the rule.", hint="Try 50 first.")


def leaves_lists_alone(name, lists, rest):
    """Call the learner's function, and return whether the lists are what they were before."""
    before = [list(values) for values in lists]
    globals()[name](*lists, *rest)
    return lists == before


@check("assign_buckets", hidden=True, requires="a_bucket_is_closed_once_it_is_full")
def the_sizes_are_only_read(student, rng):
    """n_bytes is as it was afterwards"""
    sizes = [int(b) for b in rng.integers(1, 50, size=12)]
    if not student.probe(leaves_lists_alone, name="assign_buckets", lists=[sizes], rest=[60]):
        hint = "Somebody asks for two caps, one after the other. Which line changes the list?"
        raise Feedback("assign_buckets changed n_bytes.", hint=hint)


# ---- 4. launchable, Overlapped


@check("launchable")
def full_buckets_go_in_their_order(student, rng):
    """the next bucket and those right behind it go, as far as they are full"""
    fixed = [
        ([1, 0, 0, 0], 0), ([0, 0, 0, 0], 0), ([0, 0, 2, 0], 1), ([0, 0], 2), ([0, 3], 1), ([], 0),
    ]  # fmt: skip
    random_cases = [
        ([int(w) for w in rng.integers(0, 2, size=8) * rng.integers(0, 2, size=8)], int(at))
        for at in rng.integers(0, 9, size=6)
    ]
    for waiting, at in fixed + random_cases:
        due = []
        for b in range(at, len(waiting)):
            if waiting[b]:
                break
            due.append(b)
        got = list(student.call("launchable", waiting, at))
        if got == due:
            continue
        hint = "Start at next_bucket, and stop at the first that is not full."
        if any(b < at for b in got):
            hint = "Buckets before next_bucket have been launched already."
        elif any(waiting[b] for b in got if b < len(waiting)):
            hint = "A bucket that still waits for a gradient cannot be sent."
        elif set(got) > set(due):
            hint = "Another rank may fill its buckets in another order: which does it send first?"
        elif len(got) < len(due):
            hint = "If nothing calls again, who launches the others that are full?"
        raise Feedback(f"launchable({waiting}, {at}) gave {got}. {hint}")


def ask_launchable_twice(waiting, next_bucket):
    """Return what launchable says, the books after it, and what it says then."""
    books = list(waiting)
    first = [int(b) for b in launchable(books, next_bucket)]
    return first, [int(w) for w in books], [int(b) for b in launchable(books, next_bucket)]


@check("launchable", hidden=True, requires="full_buckets_go_in_their_order")
def the_books_are_only_read(student, rng):
    """waiting is as it was afterwards, and thousands of buckets are no problem"""
    for n in (9, 3000):
        at, full = (int(k) for k in rng.integers(1, n // 2, size=2))
        waiting = [0] * (at + full) + [1, 0, 2]
        hint = "How deep do your calls go, when each bucket is one of them?"
        try:
            first, books, second = student.probe(
                ask_launchable_twice, waiting=waiting, next_bucket=at
            )
        except StudentError as error:
            if error.type_name != "RecursionError":
                raise
            raise Feedback(f"launchable, {n} buckets: {error.type_name}.", hint=hint) from error
        if books != waiting or second != first:
            raise Feedback(
                "launchable changed waiting: asked again, it says something else.",
                hint="Who counts down, and who begins afresh? This one only looks.",
            )
        if first != list(range(at, at + full)):
            raise Feedback(f"launchable, {n} buckets: not those that are due.", hint="Try nine.")


def run_overlapped(comm, grads, cap_bytes):
    """Two iterations with real backward passes; return what each left, and the weights."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0 + comm.rank)) for g in grads]
    reducer = Overlapped(comm, params, cap_bytes)
    grads_after = []
    for factor in (1.0, 2.0):
        for param in params:
            param.grad = None
        loss = sum((p * torch.from_numpy(g * factor)).sum() for p, g in zip(params, grads))
        loss.backward()
        reducer.finish()
        grads_after.append([p.grad.numpy().copy() for p in params])
    return grads_after, [p.detach().numpy() for p in params]


def reduce_in_order(comm, grads, order, cap_bytes):
    """Hand the reducer finished gradients in a given order; return the averages."""
    import torch

    params = [torch.nn.Parameter(torch.zeros(g.shape)) for g in grads]
    reducer = Overlapped(comm, params, cap_bytes)
    for index in order:
        params[index].grad = torch.from_numpy(grads[index].copy())
        reducer.on_gradient(index)
    reducer.finish()
    return [p.grad.numpy() for p in params]


@check("Overlapped", weight=3)
def every_gradient_becomes_the_average(student, rng):
    """after finish every gradient is the average over the ranks, and weights are untouched"""
    for n, cap in ((3, 30), (2, 10_000), (2, 0)):
        grads = draw_gradients(rng, n)
        run = student.ranks(run_overlapped, n, [(g, cap) for g in grads])
        for rank, (grads_after, _) in enumerate(run.results):
            compare_with_mean(f"Overlapped, cap {cap}, after finish", rank, grads_after[0], grads)
        require_untouched("Overlapped", [weights for _, weights in run.results])


@check("Overlapped")
def the_second_iteration_is_like_the_first(student, rng):
    """finish starts afresh, so that the next backward is averaged too"""
    grads = draw_gradients(rng, 2)
    run = student.ranks(run_overlapped, 2, [(g, 30) for g in grads])
    doubled = [[2 * g for g in rank] for rank in grads]
    for rank, (grads_after, _) in enumerate(run.results):
        try:
            compare_with_mean("Overlapped, second iteration", rank, grads_after[1], doubled)
        except Feedback as feedback:
            raise Feedback(
                f"{feedback} What of the first iteration is still in the books?"
            ) from feedback


@check("Overlapped", weight=3)
def ranks_may_finish_in_different_orders(student, rng):
    """buckets are launched in one order on every rank, whatever its own gradients' order"""
    grads = [[rng.normal(size=4).astype(np.float32) for _ in range(4)] for _ in range(2)]
    orders = ([3, 2, 1, 0], [0, 1, 2, 3])
    run = student.ranks(
        reduce_in_order, 2, [(g, order, 16) for g, order in zip(grads, orders, strict=True)]
    )
    for rank, got in enumerate(run.results):
        for i, expected in enumerate(mean(grads)):
            if np.allclose(got[i], grads[rank][i], rtol=1e-4, atol=1e-6):
                raise Feedback(
                    f"Overlapped: gradient {i} of rank {rank} is still its own after finish. "
                    "What becomes of the results of the all-reduces?"
                )
            if not np.allclose(got[i], expected, rtol=1e-4, atol=1e-6):
                raise Feedback(
                    f"Overlapped: rank 0 finished gradients in the order {orders[0]}, rank 1 in "
                    f"{orders[1]}, and gradient {i} of rank {rank} is wrong: two ranks' all-reduces "
                    "met that did not belong together. In which order must buckets be launched?"
                )


def run_odd_backward(comm, grads, cap_bytes):
    """Hand the reducer gradients of `draw_odd_gradients`; return the averages and the weights."""
    import torch

    params = []
    for grad in grads:
        weights = torch.full(grad.shape, 7.0 + comm.rank, dtype=torch.float64)
        params.append(torch.nn.Parameter(weights))
    reducer = Overlapped(comm, params, cap_bytes)
    for index in reversed(range(len(grads))):
        grad = grads[index]
        axes = tuple(reversed(range(grad.ndim)))
        params[index].grad = torch.from_numpy(grad.transpose(axes).copy()).permute(axes)
        reducer.on_gradient(index)
    reducer.finish()
    return [p.grad.numpy() for p in params], [p.detach().numpy() for p in params]


@check("Overlapped", hidden=True, requires="every_gradient_becomes_the_average")
def any_shape_in_double_precision_is_bucketed(student, rng):
    """gradients of any shape and dtype, in any buckets, become their average"""
    for cap, n in ((60, 3), (10_000, 1)):
        compare_odd_averages(
            student, rng, f"Overlapped, cap {cap}", run_odd_backward, cap, ranks=(n,)
        )


def record_steps(comm, grads, marks, cap_bytes, order):
    """Rank 0 reduces alone, and tells rank 1 in messages what it does when; rank 1 listens.

    A launch sends what is reduced; `marks` are sent for waiting, and when a gradient is done with.
    """
    import copy

    import numpy
    import torch

    ready_marks, wait_mark, end_mark = marks[:-2], marks[-2], marks[-1]

    class Carried:
        def __init__(self, x):
            self.x = x

        def wait(self, timeout_s=None):
            comm.send(wait_mark, 1)
            return self.x

        def test(self):
            return False

    class OneRank:
        rank, size = 0, 1

        def all_reduce(self, x, op="sum", algorithm="auto", async_op=False, **kwargs):
            sent = numpy.array(x.detach() if isinstance(x, torch.Tensor) else x, numpy.float32)
            comm.send(sent.reshape(-1), 1)
            work = Carried(copy.deepcopy(x))
            return work if async_op else work.wait()

    if comm.rank == 0:
        params = [torch.nn.Parameter(torch.zeros(4)) for _ in grads]
        reducer = Overlapped(OneRank(), params, cap_bytes)
        for index in order:
            params[index].grad = torch.from_numpy(grads[index].copy())
            reducer.on_gradient(index)
            comm.send(ready_marks[index], 1)
        reducer.finish()
        comm.send(end_mark, 1)
        return
    while not numpy.array_equal(comm.recv(0), end_mark):
        pass


def name_messages(run, known_arrays):
    """Return by name what rank 0 sent, in order; `known_arrays` has the array of each name."""
    log = []
    for m in run.messages:
        name = [
            name
            for name, array in known_arrays.items()
            if np.shape(m.array) == array.shape and np.array_equal(m.array, array)
        ]
        log += name or ["something else"]
    return log


def ask_log(student, rng, order):
    """Return what rank 0 did when gradients came in `order`, a bucket each."""
    n = len(order)
    grads = list(rng.normal(size=(n, 4)).astype(np.float32))
    marks = list(rng.normal(size=(n + 2, 3)).astype(np.float32))
    inputs = (grads, marks, 16, order)
    run = student.ranks(record_steps, 2, [inputs, inputs])
    known_arrays = {f"gradient {i}": mark for i, mark in enumerate(marks[:n])}
    known_arrays |= {"waited": marks[n], "end": marks[n + 1]}
    known_arrays |= {f"launched {i}": grad for i, grad in enumerate(grads)}
    return name_messages(run, known_arrays)


@check("Overlapped", weight=2, requires="every_gradient_becomes_the_average")
def backward_goes_on_while_buckets_travel(student, rng):
    """a bucket is launched as soon as it may go, and nothing is waited for before finish"""
    n = int(rng.integers(3, 6))
    log = ask_log(student, rng, list(reversed(range(n))))
    backward = log[: log.index("gradient 0")] if "gradient 0" in log else log
    if "waited" in backward:
        raise Feedback(
            "Overlapped: on_gradient waited for an all-reduce. Backward stands still meanwhile, and "
            "nothing is hidden. Which argument of all_reduce returns at once?"
        )
    repeated = [step for step in log if step.startswith("launched") and log.count(step) > 1]
    if repeated:
        raise Feedback(
            f"Overlapped: the bucket of {repeated[0].replace('launched', 'gradient')} was launched "
            f"{log.count(repeated[0])} times. From where does launchable know which have gone?"
        )
    due = [step for i in reversed(range(n)) for step in (f"launched {i}", f"gradient {i}")]
    if log[: 2 * n] != due:
        raise Feedback(
            f"Overlapped: {n} buckets were full one after the other, and this happened: {log}. "
            "When could the first have been launched?"
        )


@check("Overlapped", weight=2, hidden=True, requires="backward_goes_on_while_buckets_travel")
def full_buckets_do_not_wait_for_the_end_of_backward(student, rng):
    """a bucket that was full too early goes at once with the one that it had to wait for"""
    order = [3, *(int(i) for i in rng.permutation(3))]
    order.insert(int(rng.integers(1, 4)), 4)  # the first bucket's, after the second and others
    due, ready, at = [], set(), 4
    for index in order:
        ready.add(index)
        while at in ready:
            due.append(f"launched {at}")
            at -= 1
        due.append(f"gradient {index}")
    if ask_log(student, rng, order)[: len(due)] != due:
        raise Feedback(
            f"Overlapped: gradients came in the order {order}, a bucket each, and full buckets "
            "were launched later than they could be.",
            hint="When the bucket comes that others waited for, which may go in that moment?",
        )


@check("Overlapped", requires="every_gradient_becomes_the_average")
def one_all_reduce_a_bucket(student, rng):
    """each bucket is one all-reduce, in the order of the buckets"""
    grads = draw_gradients(rng, 2)
    run = student.ranks(reduce_in_order, 2, [(g, [3, 2, 1, 0], 30) for g in grads])
    expected = [2 + 6, 4 + 12]
    if list_collectives(run) != expected:
        raise Feedback(
            f"Overlapped: two buckets of {expected} elements, but all-reduces of "
            f"{list_collectives(run)} elements. What is a bucket for?"
        )


def count_launches(grads):
    """Hand the reducer a bucket's gradients with sync off, then on; return launches after each."""
    import torch

    launched = []

    class Done:
        def __init__(self, x):
            self.x = x

        def wait(self, timeout_s=None):
            return self.x

    class OneRank:
        rank, size = 0, 1

        def all_reduce(self, x, op="sum", algorithm="auto", async_op=False, **kwargs):
            launched.append(x)
            return Done(x) if async_op else x

    params = [torch.nn.Parameter(torch.zeros(len(g))) for g in grads]
    reducer, counts = Overlapped(OneRank(), params, 10_000), []
    for reducer.sync in (False, True):
        for index in reversed(range(len(grads))):
            params[index].grad = torch.tensor(grads[index])
            reducer.on_gradient(index)
            counts.append(len(launched))
    return counts


@check("Overlapped", requires="every_gradient_becomes_the_average")
def nothing_is_counted_while_sync_is_off(student, rng):
    """gradients that come while sync is off launch nothing, and are still to come afterwards"""
    n = int(rng.integers(2, 5))
    got = student.probe(count_launches, grads=[rng.normal(size=3).tolist() for _ in range(n)])
    if got != [0] * (2 * n - 1) + [1]:
        raise Feedback(
            f"Overlapped: one bucket of {n} gradients. They came with sync off, then again with "
            f"sync on, and so many buckets had been launched after each: {got}.",
            hint="Which line counts down, and is it reached while sync is off?",
        )


# ---- 5. no_sync


def run_no_sync(comm, values, plan):
    """Rank 0 adds values up, and sends rank 1 the sum whenever `sync` is on; rank 1 listens.

    `plan` is what rank 0 does: ["add", i]; ["block", [...]], and ["other", [...]], a block of
    another reducer's; or ["fail", [...]] and ["stop", [...]], blocks that end in an exception.
    """
    import numpy

    class Books:
        sync = True
        total = numpy.zeros(values.shape[1])

    books = Books()

    def follow(steps):
        for what, which in steps:
            if what == "add":
                books.total = books.total + values[which]
                if books.sync:
                    comm.send(books.total, 1)
                    books.total = numpy.zeros(values.shape[1])
            elif what in ("block", "other"):
                with no_sync(books if what == "block" else Books()):
                    follow(which)
            else:
                raised = KeyError if what == "fail" else KeyboardInterrupt
                try:
                    with no_sync(books):
                        follow(which)
                        raise raised("in the middle")
                except raised:
                    comm.send(values[-1], 1)

    if comm.rank == 0:
        follow(plan)
        comm.send(numpy.zeros(0), 1)
    else:
        while len(comm.recv(0)):
            pass


def ask_sums(student, rng, plan):
    """Follow `plan` with some values; return which of them were in each sum that was sent."""
    values = rng.normal(size=(12, 3))
    run = student.ranks(run_no_sync, 2, [(values, plan), (values, plan)])
    return [find_parts(m.array, values) for m in run.messages if np.shape(m.array) == (3,)]


def find_parts(total, values):
    """Return which of the first values in a row add up to `total`: [first, last], or None."""
    for first in range(len(values)):
        for last in range(first, len(values)):
            if np.allclose(values[first : last + 1].sum(axis=0), total):
                return [first, last]
    return None


def list_additions(first, count):
    return [["add", first + i] for i in range(count)]


@check("no_sync")
def sync_is_off_inside_and_on_after(student, rng):
    """sync is off in the block and on after it"""
    before, inside = (int(k) for k in rng.integers(2, 5, size=2))
    first, last = before, before + inside
    plan = [
        *list_additions(0, before),
        ["block", list_additions(before, inside)],
        *list_additions(last, 2),
    ]
    sums = ask_sums(student, rng, plan)
    alone = [[i, i] for i in range(before)]
    if sums == [*alone, [first, last], [last + 1, last + 1]]:
        return
    off = not any(part and part[0] == part[1] == first for part in sums)
    on = any(part and part[1] >= last for part in sums)
    raise Feedback(
        f"no_sync: sync was {'off' if off else 'on'} inside the block and "
        f"{'on' if on else 'off'} after it. What should it be in each place?"
    )


@check("no_sync", requires="sync_is_off_inside_and_on_after")
def an_exception_switches_sync_on_again(student, rng):
    """an exception in the block leaves sync as it was before, and is passed on"""
    inside = int(rng.integers(2, 5))
    passed_on = [11, 11]  # what is sent where the exception arrives
    sums = ask_sums(student, rng, [["fail", list_additions(0, inside)], *list_additions(inside, 2)])
    if passed_on not in sums:
        raise Feedback("no_sync swallowed an exception that was raised in its block.")
    if sums != [passed_on, [0, inside], [inside + 1, inside + 1]]:
        raise Feedback(
            "no_sync: after an exception in the block sync stays off, and from then on nothing is "
            "averaged, without a word. Which statement runs on every way out?"
        )


@check("no_sync", requires="sync_is_off_inside_and_on_after")
def a_block_in_a_block_stays_off(student, rng):
    """after an inner block sync is what it was before that block"""
    inner, outer = (int(k) for k in rng.integers(2, 5, size=2))
    last = inner + outer
    plan = [
        ["block", [["block", list_additions(0, inner)], *list_additions(inner, outer)]],
        *list_additions(last, 2),
    ]
    sums = ask_sums(student, rng, plan)
    if sums != [[0, last], [last + 1, last + 1]]:
        after = "off" if all(part and part[1] >= last for part in sums) else "on"
        raise Feedback(
            f"no_sync inside no_sync: sync was {after} after the inner block, with the outer one "
            "still open. What was it *before* the inner block?"
        )


@check("no_sync", hidden=True, requires="an_exception_switches_sync_on_again")
def an_interrupt_is_a_way_out_too(student, rng):
    """whatever ends the block, the stop button of a notebook too, leaves sync as it was"""
    inside = int(rng.integers(2, 5))
    sums = ask_sums(student, rng, [["stop", list_additions(0, inside)], *list_additions(inside, 2)])
    if sums != [[11, 11], [0, inside], [inside + 1, inside + 1]]:
        raise Feedback(
            "no_sync: after a KeyboardInterrupt in the block sync was not as before.",
            hint="Somebody presses stop inside the block. Is that one of the exceptions you catch?",
        )


@check("no_sync", hidden=True, requires="a_block_in_a_block_stays_off")
def each_reducer_has_its_own_before(student, rng):
    """a block of one reducer inside a block of another restores its own"""
    inner, outer = (int(k) for k in rng.integers(2, 5, size=2))
    plan = [
        ["other", [["block", list_additions(0, inner)], *list_additions(inner, outer)]],
        *list_additions(inner + outer, 1),
    ]
    sums = ask_sums(student, rng, plan)
    if sums != [[0, inner], *([i, i] for i in range(inner + 1, inner + outer + 1))]:
        raise Feedback(
            "no_sync of one reducer inside that of another: its sync was not as before.",
            hint="A program may train two models. Where is it kept what sync was before?",
        )


def run_micro_batches(comm, grads, cap_bytes):
    """Three backward passes, two of them inside no_sync; return the gradients."""
    import torch

    params = [torch.nn.Parameter(torch.zeros(g.shape[1:])) for g in grads]
    reducer = Overlapped(comm, params, cap_bytes)

    def backward(micro):
        sum((p * torch.from_numpy(g[micro])).sum() for p, g in zip(params, grads)).backward()

    with no_sync(reducer):
        backward(0)
        backward(1)
    backward(2)
    reducer.finish()
    return [p.grad.numpy() for p in params]


@check("no_sync", weight=2)
def the_sum_of_all_micro_batches_is_sent_once(student, rng):
    """gradients pile up inside the block and are averaged once, after it"""
    grads = [[rng.normal(size=(3, *s)).astype(np.float32) for s in SHAPES] for _ in range(2)]
    run = student.ranks(run_micro_batches, 2, [(g, 10_000) for g in grads])
    total = [[g.sum(axis=0) for g in rank] for rank in grads]
    for rank, got in enumerate(run.results):
        compare_with_mean("three micro-batches, two inside no_sync", rank, got, total)
    if len(list_collectives(run)) != 1:
        raise Feedback(
            f"three micro-batches, two inside no_sync: {len(list_collectives(run))} all-reduces. "
            "What should on_gradient do while sync is off?"
        )


# ---- 6. finish_time


@check("finish_time")
def one_wire_in_order(student, rng):
    """a bucket starts when it is ready and the wire is free"""
    cases = [([], []), ([1.0], [2.0]), ([0.0, 1.0], [5.0, 1.0]), ([1.0, 10.0], [2.0, 3.0])]
    for _ in range(6):
        n = int(rng.integers(2, 9))
        cases.append(
            (
                sorted(rng.uniform(0, 10, n).round(2).tolist()),
                rng.uniform(0.1, 4, n).round(2).tolist(),
            )
        )
    for ready, duration in cases:
        free = 0.0
        for at, bucket_s in zip(ready, duration, strict=True):
            free = max(free, at) + bucket_s
        got = to_number(student.call("finish_time", ready, duration))
        if abs(got - free) < 1e-9:
            continue
        hint = "Follow the wire, one bucket after the other."
        if ready and abs(got - sum(duration)) < 1e-9:
            hint = "That is a wire that never waits. Can a bucket start before it is ready?"
        elif ready and abs(got - max(ready) - sum(duration)) < 1e-9:
            hint = "That is when everything is sent after the last bucket is ready: no overlap."
        elif ready and abs(got - max(r + d for r, d in zip(ready, duration, strict=True))) < 1e-9:
            hint = "That would be a wire for each bucket. There is one, and it may still be busy."
        elif ready and abs(got - ready[0] - sum(duration)) < 1e-9:
            hint = "The wire can fall idle between two buckets, too."
        raise Feedback(f"finish_time({ready}, {duration}) gave {got:g}. {hint}")


@check("finish_time", hidden=True, requires="one_wire_in_order")
def arrays_will_do_too(student, rng):
    """ready and duration may be NumPy arrays, as section 6 has them"""
    for n in (int(rng.integers(20, 90)), 1, 0):
        ready, duration = np.sort(rng.uniform(0, 10, n)), rng.uniform(0.0, 0.5, n)
        free = 0.0
        for at, bucket_s in zip(ready, duration, strict=True):
            free = max(free, at) + bucket_s
        try:
            got = to_number(student.call("finish_time", ready, duration))
        except StudentError as error:
            raise Feedback(
                f"finish_time on arrays of {n}: {error.type_name}.",
                hint="Which of your lines does a list know and an array not, or the other way?",
            ) from error
        if not abs(got - free) < 1e-9:
            raise Feedback(
                f"finish_time on arrays of {n}: wrong.",
                hint="Does it hold for lists? Then look for what changes an array in place.",
            )


@check("finish_time", hidden=True, requires="one_wire_in_order")
def the_times_are_only_read(student, rng):
    """ready and duration are as they were afterwards"""
    lists = [sorted(rng.uniform(0, 10, 7).tolist()), rng.uniform(0.1, 4, 7).tolist()]
    if not student.probe(leaves_lists_alone, name="finish_time", lists=lists, rest=[]):
        hint = "The same ready is asked about on another link. Which line writes into it?"
        raise Feedback("finish_time changed one of its lists.", hint=hint)


# ---- 7. data_parallel_bytes


@check("data_parallel_bytes")
def three_transfers_a_step(student, rng):
    """weights and shards from rank 0, gradients to it"""
    for n in (4, 2, int(rng.integers(5, 40))):
        model, batch = 4 * int(rng.integers(10, 1000)), 4 * n * int(rng.integers(10, 100))
        boss, worker = (float(b) for b in student.call("data_parallel_bytes", n, model, batch))
        called = f"data_parallel_bytes({n}, {model}, {batch}) gave ({boss:g}, {worker:g})"
        right = (n - 1) * (model + batch / n)
        if not abs(boss - right) <= 1e-6 * right:  # so that NaN is wrong
            hint = "What does rank 0 send to each of the others, and how many others are there?"
            if abs(boss - (n - 1) * model) < 1e-6:
                hint = "The weights are in it. What else do the others need for their step?"
            elif abs(boss - (n - 1) * (model + batch)) < 1e-6:
                hint = "Does every rank need the whole batch?"
            elif abs(boss - n * model - batch) < 1e-6:
                hint = "Does rank 0 send anything to itself?"
            raise Feedback(f"{called}. Rank 0: {hint}")
        if not abs(worker - model) <= 1e-6 * model:  # so that NaN is wrong
            raise Feedback(
                f"{called}. Another rank: one message goes back to rank 0. What is in it?"
            )
