"""Checks of lab 11. Models and gradients are drawn anew; in grading the judge is the network."""

from dataclasses import replace

import numpy as np

from autograder.checks import RANK_SETTINGS, Feedback, check, close
from autograder.errors import StudentError

HOOKS = ("fp16_compress_hook", "top_k_hook", "power_sgd_hook")
TORCH_C10D = ("distributed", "_C._distributed_c10d")
WITHHELD = (
    *("ddp_lab.data_parallel:DistributedDataParallel", "ddp_lab.data_parallel.bucketing:assign"),
    "ddp_lab.data_parallel.torch.autograd_graph:find_unreached",
    *(f"ddp_lab.data_parallel.hooks.comm_hooks:{hook}" for hook in HOOKS),
    *(f"torch.{c10d}:_compute_bucket_assignment_by_size" for c10d in TORCH_C10D),
)
LAB = replace(RANK_SETTINGS, wall_s=240.0, preload=("numpy", "torch", "ddp_lab"), withheld=WITHHELD)

SHAPES = ((3, 4), (4,), (2, 3), (2,))


def draw_arrays(rng, n, shapes=SHAPES):
    """Return one list of float32 arrays a rank."""
    return [[rng.normal(size=s).astype(np.float32) for s in shapes] for _ in range(n)]


def count_elements_sent(run):
    """Return how many elements one of two ranks sent at most, by whatever message."""
    return max(sum(m.array.size for m in run.messages if m.src == rank) for rank in (0, 1))


def is_same(got, expected, rtol=1e-4, atol=1e-5):
    return np.shape(got) == np.shape(expected) and np.allclose(got, expected, rtol, atol)


NEAR = {"rtol": 1e-4, "atol": 1e-5}  # of `is_same`, for `close`


# ---- 1. synchronize


def run_synchronize(comm, values, drop=False):
    """Make a model of these values, synchronize it, and return what is in it, or the error."""
    import torch

    layers = [torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)]
    if drop:
        layers = layers[:1]
    model = torch.nn.Sequential(*layers)
    for tensor, value in zip(model.state_dict().values(), values):
        tensor.copy_(torch.from_numpy(value))
    error, held = None, list(model.parameters())
    try:
        synchronize(comm, model)
    except ValueError as raised:
        error = type(raised).__name__
    same = all(one is other for one, other in zip(held, model.parameters()))
    return error, [t.numpy().copy() for t in model.state_dict().values()], same


NAMES = ("0.weight", "0.bias", "1.weight", "1.bias")
BUFFERS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")


def draw_states(rng, n):
    """Return the values of a small model, one list a rank: parameters, then buffers."""
    shapes = ((2, 3), (2,), (2,), (2,), (2,), (2,))
    counts = rng.permutation(100)
    return [
        [*(rng.normal(size=s).astype(np.float32) for s in shapes), np.array(counts[rank])]
        for rank in range(n)
    ]


def compare_states(student, rng, which):
    for n in (2, 3, 1):
        models = draw_states(rng, n)
        run = student.ranks(run_synchronize, n, [(values,) for values in models])
        for rank, (error, got, same) in enumerate(run.results):
            if error:
                raise Feedback(
                    f"synchronize: {n} ranks have models of the same layout, and rank {rank} "
                    "raised ValueError. Which fingerprints does it compare?"
                )
            for name, value, first, own in zip(
                NAMES + BUFFERS, got, models[0], models[rank], strict=True
            ):
                if name not in which or is_same(value, first):
                    continue
                what = "something else"
                if is_same(value, own):
                    what = "still its own"
                elif any(is_same(value, values[0]) for values in models):
                    what = "another rank's"
                raise Feedback(
                    f"synchronize: afterwards {name} of rank {rank} of {n} should be rank 0's; "
                    f"it is {what}. Which tensors make up the state of a model?"
                )
            if not same:
                raise Feedback(
                    f"synchronize: the values are right, but the model of rank {rank} has other "
                    "parameters now than the optimizer was given.",
                    hint="How does one write into a tensor that is there?",
                )


@check("synchronize", weight=2)
def parameters_become_rank_0s(student, rng):
    """every rank has rank 0's parameters"""
    compare_states(student, rng, NAMES)


@check("synchronize")
def buffers_become_rank_0s(student, rng):
    """every rank has rank 0's buffers"""
    compare_states(student, rng, BUFFERS)


@check("synchronize", weight=2, requires="parameters_become_rank_0s")
def different_models_are_an_error_everywhere(student, rng):
    """ranks whose models differ all raise ValueError, and nothing has changed"""
    odd, models = 2, draw_states(rng, 3)  # whoever looks at two ranks alone, has equal ones
    run = student.ranks(run_synchronize, 3, [(models[r], r == odd) for r in range(3)])
    quiet = [rank for rank, (error, *_) in enumerate(run.results) if error is None]
    if quiet:
        raise Feedback(
            f"synchronize: the model of rank {odd} has fewer layers than those of the other two; "
            f"ranks {quiet} did not raise ValueError. Who would wait for whom now? Does each rank "
            "look at all fingerprints?"
        )
    for rank, (_, got, _) in enumerate(run.results):
        if not all(is_same(a, b) for a, b in zip(got, models[rank])):
            raise Feedback(
                "synchronize: models differ, and some tensors have been overwritten "
                "before that was noticed."
            )


def run_with_names(comm, values, names, frozen):
    """Synchronize a model with layers of these names, some frozen; return it, or the error."""
    import torch

    model = torch.nn.Module()
    for name, value, still in zip(names, values, frozen):
        layer = torch.nn.Linear(3, 2)
        with torch.no_grad():
            for param, fill in zip(layer.parameters(), value):
                param.copy_(torch.from_numpy(fill))
                param.requires_grad_(not still)
        model.add_module(name, layer)
    error = None
    try:
        synchronize(comm, model)
    except ValueError as raised:
        error = type(raised).__name__
    return error, [t.numpy().copy() for t in model.state_dict().values()]


def draw_three_layers(rng, n):
    """Return the weights and biases of three layers for each of n ranks."""
    shapes = ((2, 3), (2,))
    return [
        [[rng.normal(size=s).astype(np.float32) for s in shapes] for _ in "abc"] for _ in "r" * n
    ]


@check("synchronize", hidden=True, requires="different_models_are_an_error_everywhere")
def layers_of_other_names_are_another_model(student, rng):
    """as many layers of the same shapes under other names are an error everywhere"""
    models, odd = draw_three_layers(rng, 3), 1  # the first and the last are equal
    usual = ("first", "second", "third")
    other = ("first", "third", "second")
    inputs = [(models[r], other if r == odd else usual, (False,) * 3) for r in range(3)]
    run = student.ranks(run_with_names, 3, inputs)
    if not all(error for error, _ in run.results):
        raise Feedback(
            f"synchronize: rank {odd} has two layers in another order, and some rank went on.",
            hint="Equal counts and shapes are not equal models. What is in a fingerprint, and does "
            "each rank look at all of them?",
        )


@check("synchronize", hidden=True, requires="parameters_become_rank_0s")
def frozen_parameters_are_synchronized_too(student, rng):
    """parameters that need no gradient are rank 0's afterwards, and still need none"""
    models = draw_three_layers(rng, 2)
    frozen = tuple(bool(f) for f in rng.permutation([True, True, False]))
    names = ("first", "second", "third")
    run = student.ranks(run_with_names, 2, [(values, names, frozen) for values in models])
    expected = [tensor for layer in models[0] for tensor in layer]
    for error, got in run.results:
        if error or not all(is_same(a, b) for a, b in zip(got, expected, strict=True)):
            raise Feedback(
                "synchronize: a layer that needs no gradient is not rank 0's afterwards.",
                hint="Fine-tuning freezes layers. Do they take part in the forward pass?",
            )


# ---- 2. agreed_order, rebuild


@check("agreed_order")
def everybody_has_rank_0s_order(student, rng):
    """the order that rank 0 saw is returned on every rank, as a list of ints"""
    for n in (2, 3):
        orders = [[int(i) for i in rng.permutation(9)] for _ in range(n)]
        run = student.ranks(run_ordered, n, [(order,) for order in orders])
        for rank, (got, kind) in enumerate(run.results):
            other = f", rank {rank} of {n} saw {orders[rank]}" if rank else ""
            called = f"agreed_order: rank 0 saw {orders[0]}{other}"
            if got == orders[rank] and got != orders[0]:
                raise Feedback(f"{called}, and it has its own. How would the ranks agree on that?")
            if got != orders[0]:
                raise Feedback(f"{called}, and was returned {got}. It should be rank 0's.")
            if kind == "ready":
                raise Feedback(
                    f"{called}: rank {rank}'s own list has been overwritten.",
                    hint="What this rank saw is its own. What else could you return?",
                )
            if kind != "list of int":
                raise Feedback(f"{called}: the right numbers, but a {kind}, not a list of ints.")


@check("agreed_order", hidden=True, requires="everybody_has_rank_0s_order")
def a_thousand_parameters_have_an_order_too(student, rng):
    """the order may have many entries, or none"""
    for n, many in ((2, 1000), (1, 0)):
        orders = [[int(i) for i in rng.permutation(many)] for _ in range(n)]
        hint = "Which numbers can your dtype hold? And an array of no numbers?"
        try:
            run = student.ranks(run_ordered, n, [(order,) for order in orders])
        except StudentError as error:
            raise Feedback(f"agreed_order, {many}: {error.type_name}.", hint=hint) from error
        if not all(got == orders[0] for got, _ in run.results):
            raise Feedback(f"agreed_order of {many} parameters is not rank 0's.", hint=hint)


def run_ordered(comm, ready):
    before = list(ready)
    got = agreed_order(comm, ready)
    if ready != before:
        return [int(i) for i in got], "ready"
    inner = {type(x).__name__ for x in got}
    return [int(i) for i in got], f"{type(got).__name__} of {' '.join(sorted(inner))}"


def draw_rebuild_cases(rng):
    yield [4, 4, 4, 4, 4], [2, 0, 1, 4, 3], 4, 8
    yield [10, 1000, 10], [1, 2, 0], 5, 100
    yield [1] * 6, [5, 4, 3, 2, 1, 0], 2, 3
    yield [8, 8], [0, 1], 1000, 1000
    yield [3], [0], 1, 1
    yield [], [], 1, 10
    for _ in range(6):
        n = int(rng.integers(5, 25))
        sizes = [int(b) for b in rng.integers(1, 50, size=n)]
        order = [int(i) for i in rng.permutation(n)]
        yield sizes, order, int(rng.integers(1, 60)), int(rng.integers(60, 150))


@check("rebuild")
def buckets_follow_the_order(student, rng):
    """put end to end, the buckets are the order that was given"""
    for sizes, order, first, cap in draw_rebuild_cases(rng):
        got = student.call("rebuild", sizes, order, first, cap)
        called = f"rebuild({sizes}, {order}, {first}, {cap}) gave {got}"
        flat = [i for bucket in got for i in bucket]
        if sorted(flat) != sorted(order):
            raise Feedback(f"{called}: each index belongs into one bucket, once.")
        if flat != order:
            raise Feedback(f"{called}. In which order do the gradients get ready?")
        if not all(len(bucket) for bucket in got):
            raise Feedback(f"{called}: a bucket is empty. It would be an all-reduce of nothing.")


@check("rebuild", weight=2, requires="buckets_follow_the_order")
def the_first_bucket_has_a_cap_of_its_own(student, rng):
    """the first bucket is closed at first_bytes, the others at cap_bytes"""
    for sizes, order, first, cap in draw_rebuild_cases(rng):
        got = student.call("rebuild", sizes, order, first, cap)
        called = f"rebuild({sizes}, {order}, {first}, {cap}) gave {got}"
        for number, bucket in enumerate(got):
            due = cap if number else first
            n_bytes = sum(sizes[i] for i in bucket)
            before = sum(sizes[i] for i in bucket[:-1])
            if len(bucket) > 1 and before >= due:
                hint = "It was full before its last gradient came."
                if number == 0 and before < cap:
                    hint = "The first bucket was filled up to the cap of the others."
                if before == due:
                    hint += " And before that it held just its cap: is that full?"
            elif n_bytes < due and number < len(got) - 1:
                hint = "It was closed before it was full."
                if number and n_bytes >= first:
                    hint = "It was closed at the small cap. For which bucket is that meant?"
            else:
                continue
            raise Feedback(f"{called}: bucket {number} holds {n_bytes} bytes. {hint}")


def rebuild_by_rule(sizes, order, first, cap):
    """Return the buckets of `rebuild`, from the words of its docstring."""
    buckets = [[]]
    for index in order:
        due = first if len(buckets) == 1 else cap
        if buckets[-1] and sum(sizes[i] for i in buckets[-1]) >= due:
            buckets.append([])
        buckets[-1].append(index)
    return [bucket for bucket in buckets if bucket]


@check("rebuild", hidden=True, requires="the_first_bucket_has_a_cap_of_its_own")
def empty_gradients_fill_nothing(student, rng):
    """a gradient of no bytes has a place in a bucket, and neither opens nor closes one"""
    for _ in range(4):
        sizes = [int(b) for b in rng.integers(1, 9, size=14)]
        for empty in rng.permutation(14)[:6]:
            sizes[empty] = 0
        order = [int(i) for i in rng.permutation(14)]
        first, cap = (int(b) for b in rng.integers(2, 20, size=2))
        got = [list(bucket) for bucket in student.call("rebuild", sizes, order, first, cap)]
        if got != rebuild_by_rule(sizes, order, first, cap):
            raise Feedback(
                f"rebuild({sizes}, {order}, {first}, {cap}): wrong with gradients of no bytes.",
                hint="By what does your code know that a bucket is new? A gradient may be empty.",
            )


@check("rebuild", hidden=True, requires="the_first_bucket_has_a_cap_of_its_own")
def frozen_parameters_are_in_no_bucket(student, rng):
    """an index that is not in the order, as of a parameter without gradient, is left out"""
    sizes = [int(b) for b in rng.integers(1, 50, size=20)]
    order = [int(i) for i in rng.permutation(20)[:13]]
    hint = "Parameters that are frozen are never ready. How many indices does `order` have?"
    try:
        got = student.call("rebuild", sizes, order, 40, 70)
    except StudentError as error:
        raise Feedback(f"rebuild, 13 of 20 in order: {error.type_name}.", hint=hint) from error
    if [list(bucket) for bucket in got] != rebuild_by_rule(sizes, order, 40, 70):
        raise Feedback("rebuild, 13 of 20 in order: wrong.", hint=hint)


def leaves_lists_alone(n_bytes, order):
    """Call the learner's rebuild, and return whether its lists are what they were before."""
    before = list(n_bytes), list(order)
    rebuild(n_bytes, order, 20, 60)
    return (n_bytes, order) == before


@check("rebuild", hidden=True, requires="the_first_bucket_has_a_cap_of_its_own")
def order_and_sizes_are_only_read(student, rng):
    """n_bytes and order are as they were afterwards"""
    sizes = [int(b) for b in rng.integers(1, 50, size=12)]
    order = [int(i) for i in rng.permutation(12)]
    if not student.probe(leaves_lists_alone, n_bytes=sizes, order=order):
        hint = "Other caps are asked for next, in the same order. Which line changes a list?"
        raise Feedback("rebuild changed n_bytes or order.", hint=hint)


# ---- 3. used_parameters, average_used


def run_used_parameters(plan, depth):
    """Build a graph by `plan` over six parameters; ask which are used."""
    import torch

    params = [torch.nn.Parameter(torch.ones(2)) for _ in range(6)]
    frozen = torch.ones(2)
    value = frozen
    for how, index in plan:
        if how == "add":
            value = value + params[index]
        elif how == "twice":
            value = (value + value) * params[index]
        elif how == "cut":
            value = value + params[index].detach()
        elif how == "zero":
            value = value + 0.0 * params[index]
    for _ in range(depth):
        value = value + 1.0
    loss = (value * value).sum()
    if loss.requires_grad:  # a graph that is used up can be walked, and not run through again
        loss.backward()
    for param in params:
        param.grad = None
    return [bool(b) for b in used_parameters(loss, params)]


def ask_used_parameters(student, plan, depth=0):
    """Return which of six parameters the learner's walk finds; it may not be a backward."""
    try:
        return student.probe(run_used_parameters, plan=plan, depth=depth)
    except StudentError as error:
        if "backward through the graph a second time" not in str(error):
            raise
        raise Feedback(
            "used_parameters runs backward, which costs as much as a step and holds no second "
            "time. Where does loss.grad_fn.next_functions lead?"
        ) from error


def draw_plans(rng):
    """Yield (plan, which of six are used)."""
    for _ in range(5):
        plan, used = [("add", int(rng.integers(0, 6)))], [False] * 6
        for index in rng.permutation(6)[: int(rng.integers(2, 6))]:
            plan.append((str(rng.choice(["add", "twice", "cut", "zero"])), int(index)))
        for how, index in plan:
            used[index] = used[index] or how != "cut"
        yield plan, used


@check("used_parameters", weight=3)
def what_backward_reaches_is_used(student, rng):
    """a parameter is used if the graph of the loss leads to it, and only then"""
    for plan, used in draw_plans(rng):
        got = ask_used_parameters(student, plan)
        if got == used:
            continue
        called = f"used_parameters: a loss made by {plan} of six parameters gave {got}"
        if len(got) != 6:
            raise Feedback(f"{called}. One bool a parameter, in the order of params.")
        wrong = next(i for i in range(6) if got[i] != used[i])
        hint = f"Parameter {wrong} can be reached from the loss."
        if got[wrong]:
            hint = f"Nothing leads from the loss to parameter {wrong}: `cut` detaches it."
            if all(got):
                hint = "Parameters with equal numbers in them are not the same parameter."
        raise Feedback(f"{called}. {hint}")


@check("used_parameters", requires="what_backward_reaches_is_used")
def a_deep_graph_can_be_walked(student, rng):
    """a graph of 20,000 operations is walked like a short one"""
    index = int(rng.integers(0, 6))
    try:
        got = ask_used_parameters(student, [("add", index)], 20_000)
    except StudentError as error:
        if error.type_name != "RecursionError":
            raise
        raise Feedback(
            "used_parameters: RecursionError on a graph of 20,000 operations in a row. "
            "Keep the nodes that are still to be visited in a list of your own."
        ) from error
    if got != [i == index for i in range(6)]:
        raise Feedback(
            f"used_parameters: 20,000 operations after parameter {index} of six went in, alone: {got}. "
            "Does your walk go on until no node is left?"
        )


def walk_diamonds(order, most):
    """Walk a graph of nodes that count how often they are asked; return (answer, most asked)."""
    n_asked = [0] * (len(order) + 1)

    class AskedTooOften(Exception):
        pass

    class AccumulateGrad:
        next_functions = ()

        def __init__(self, variable):
            self.variable = variable

    class MulBackward0:
        def __init__(self, number, before, leaf):
            self.number, self.before = number, [(before, 0), (before, 0), (leaf, 0)]

        @property
        def next_functions(self):
            n_asked[self.number] += 1
            if n_asked[self.number] > most:
                raise AskedTooOften
            return tuple(self.before)

    class Loss:
        pass

    leaves = [AccumulateGrad(object()) for _ in range(3)]
    loss = Loss()
    loss.grad_fn = leaves[order[0]]
    for number, index in enumerate(order):
        loss.grad_fn = MulBackward0(number, loss.grad_fn, leaves[index])
    try:
        got = used_parameters(loss, [leaf.variable for leaf in leaves])
    except AskedTooOften:
        got = []
    return [bool(b) for b in got], max(n_asked)


def run_backward_after(weights):
    """Ask which parameters are used, then run backward; return the gradients."""
    import torch

    params = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    loss = params[0]
    for param in params[1:]:
        loss = loss * param
    used_parameters(loss, params)
    with_grad = [i for i, param in enumerate(params) if param.grad is not None]
    try:
        loss.backward()
    except RuntimeError:
        return with_grad, []
    return with_grad, [float(param.grad) for param in params]


@check("used_parameters", requires="what_backward_reaches_is_used")
def backward_is_still_to_come(student, rng):
    """nothing is computed: no gradient appears, and backward works afterwards as ever"""
    weights = [float(w) for w in rng.uniform(1, 2, size=3)]
    with_grad, grads = student.probe(run_backward_after, weights=weights)
    if with_grad:
        raise Feedback(
            f"used_parameters: parameters {with_grad} had a .grad before anybody called backward."
        )
    if not grads:
        raise Feedback(
            "used_parameters: afterwards loss.backward() fails: the graph has been used up. "
            "What is asked for is a walk through it, before backward."
        )
    expected = [np.prod(weights) / w for w in weights]
    if not is_same(grads, expected):
        raise Feedback(
            f"used_parameters, then backward: gradients {grads}, expected {expected}. "
            "What did asking add to them?"
        )


@check("used_parameters", requires="what_backward_reaches_is_used")
def every_node_is_visited_once(student, rng):
    """a node that many paths lead to is looked into once, not once a path"""
    for most in (2, 3):
        order = [int(i) for i in rng.choice(rng.permutation(3)[:most], size=60)]
        try:
            got, most_asked = student.probe(walk_diamonds, order=order, most=8)
        except StudentError as error:
            raise Feedback(
                "used_parameters: on nodes that have next_functions, and variable at the leaves, "
                f"and nothing else: {error.type_name}. What else does your walk ask for?"
            ) from error
        if most_asked > 8:
            raise Feedback(
                "used_parameters: sixty doublings in a row are 62 nodes and 2**60 paths; one node "
                f"was asked for its next_functions {most_asked} times. How does a walk know a node again?"
            )
        if got != [i in order for i in range(3)]:
            raise Feedback(
                f"used_parameters: sixty doublings, into which parameters {sorted(set(order))} of "
                f"three went: {got}. A node that is known is left out: what of those before it?"
            )


def run_odd_losses(weights):
    """Ask which parameters are used by a loss of constants, and by one of a function of its own."""
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad

    params = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    params[1].requires_grad_(False)
    losses = [sum(p.detach() for p in params), Double.apply(params[0]) * params[1]]
    losses.append(torch.stack([params[2], params[1]])[0] + params[2])
    return [[bool(b) for b in used_parameters(loss, params)] for loss in losses]


@check("used_parameters", hidden=True, requires="what_backward_reaches_is_used")
def frozen_parameters_and_constants_are_not_used(student, rng):
    """a loss without a graph uses nothing, and a parameter that needs no gradient is not used"""
    hint = "What is grad_fn of a tensor that no parameter went into?"
    try:
        got = student.probe(run_odd_losses, weights=[float(w) for w in rng.uniform(1, 2, size=3)])
    except StudentError as error:
        raise Feedback(f"a loss of constants: {error.type_name}.", hint=hint) from error
    if got != [[False] * 3, [True, False, False], [False, False, True]]:
        raise Feedback(
            f"three losses over a frozen parameter and two others: {got}.",
            hint="What does backward reach where a layer is frozen, or nothing has a gradient?",
        )


def run_average_used(comm, grads, used):
    """Average gradients where they are used; return them, and whether `used` is as it was."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0)) for g in grads]
    for param, grad in zip(params, grads):
        param.grad = None if np.isnan(grad).any() else torch.from_numpy(grad.copy())
    before = list(used)
    average_used(comm, params, used)
    return [*(None if p.grad is None else p.grad.numpy() for p in params), used == before]


def draw_used_case(rng, n):
    """Return (gradients, used), by rank: one parameter used by all, some, one, and none."""
    grads = draw_arrays(rng, n)
    only_user, odd = rng.integers(0, n), rng.integers(0, 2)
    patterns = [[True] * n, [rank == only_user for rank in range(n)], [False] * n]
    patterns.insert(1, [rank % 2 == odd for rank in range(n)])
    patterns = [patterns[i] for i in rng.permutation(4)]
    used = [[bool(pattern[rank]) for pattern in patterns] for rank in range(n)]
    unused = patterns.index([False] * n)  # of which one rank has None, and the others what was left
    stale = [(r, i) for r in range(n) for i in range(4) if not used[r][i] and i != unused]
    for k, at in enumerate(rng.permutation(len(stale))):  # None, or left over, some of either
        rank, i = stale[at]
        if k % 2:
            grads[rank][i] = np.full_like(grads[rank][i], np.nan)
    rank = rng.integers(0, n)
    grads[rank][unused] = np.full_like(grads[rank][unused], np.nan)
    return grads, used


def find_users(used, i):
    """Return the ranks that used parameter i."""
    return [rank for rank, row in enumerate(used) if row[i]]


def ask_average_used(student, rng, n):
    grads, used = draw_used_case(rng, n)
    try:
        return grads, used, student.ranks(run_average_used, n, list(zip(grads, used, strict=True)))
    except StudentError as error:
        if "None" not in str(error):
            raise
        raise Feedback(
            f"average_used: your code raised {error} On a rank that did not use a parameter "
            "its .grad may be None. What does such a rank contribute?"
        ) from error


@check("average_used", weight=3)
def a_rank_without_a_gradient_counts_as_zero(student, rng):
    """what some rank used is averaged over all ranks, with zeros for those that did not"""
    for n in (2, 3):
        grads, used, run = ask_average_used(student, rng, n)
        for i in range(4):
            who = find_users(used, i)
            if not who:
                continue
            parts = [
                grads[r][i] if used[r][i] else np.zeros(SHAPES[i], np.float32) for r in range(n)
            ]
            for rank, got in enumerate(run.results):
                if got[i] is not None and is_same(got[i], sum(parts) / n):
                    continue
                hint = "Average the gradients of the ranks by hand."
                stale = [grads[r][i] for r in range(n) if not np.isnan(grads[r][i]).any()]
                if got[i] is None:
                    hint = "It has no gradient there. It will not take the step of the others."
                elif is_same(got[i], sum(parts) / len(who)) and len(who) < n:
                    hint = "That is the average over those who used it; here all ranks count."
                elif is_same(got[i], sum(parts)):
                    hint = "That is the sum over the ranks."
                elif is_same(got[i], sum(stale) / n):
                    hint = "A gradient that was left over from an earlier step is in it."
                raise Feedback(
                    f"average_used: {n} ranks, of which {who} used parameter {i}: rank {rank}'s "
                    f"gradient of it is not right. {hint}"
                )


@check("average_used", requires="a_rank_without_a_gradient_counts_as_zero")
def what_nobody_used_stays_as_it_was(student, rng):
    """a parameter that no rank used keeps its gradient, or its None, and `used` is only read"""
    grads, used, run = ask_average_used(student, rng, 2)
    (free,) = (i for i in range(4) if not find_users(used, i))
    for rank, got in enumerate(run.results):
        before = None if np.isnan(grads[rank][free]).any() else grads[rank][free]
        if (got[free] is None) != (before is None) or (
            before is not None and not is_same(got[free], before)
        ):
            raise Feedback(
                f"average_used: no rank used parameter {free}. On rank {rank} its .grad was "
                f"{'None' if before is None else 'left over from an earlier step'}, "
                "and is something else now."
            )
        if not got[-1]:
            raise Feedback(
                "average_used changed the list `used`.",
                hint="The caller may read it afterwards, to see what this rank used.",
            )


@check("average_used", requires="a_rank_without_a_gradient_counts_as_zero")
def what_nobody_used_is_not_sent(student, rng):
    """the counts are reduced together, and of the parameters those that some rank used"""
    _, used, run = ask_average_used(student, rng, 2)
    needed = sum(int(np.prod(shape)) for i, shape in enumerate(SHAPES) if find_users(used, i))
    if count_elements_sent(run) > len(SHAPES) + needed:
        raise Feedback(
            f"average_used: three of four parameters were used by some rank, {needed} elements; "
            f"a rank sent {count_elements_sent(run)}, {len(SHAPES)} for the counts. What need not be sent?"
        )
    rounds = len({m.header.split(b"|")[0] for m in run.messages})
    if rounds > len(SHAPES):
        raise Feedback(
            f"average_used: one small all-reduce for all counts, and one for each of three parameters, "
            f"are {len(SHAPES)}; there were {rounds}. How many counts does one array hold?"
        )


def average_precisely(comm, function, grads, here):
    """Average gradients in double precision by one of the two functions; return all of them."""
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0, dtype=torch.float64)) for g in grads]
    for param, grad, has_grad in zip(params, grads, here):
        param.grad = torch.from_numpy(grad.copy()) if has_grad else None
    if function == "average_used":
        average_used(comm, params, here)
    else:
        average_uneven(comm, params, here[0])
    return [(p.grad.numpy(), str(p.grad.dtype)) for p in params]


ODD = ((), (0, 3), (2, 1, 3), (5,))


def compare_precisely(student, rng, function, here, count):
    """Raise Feedback unless the average is right in float64, for shapes that are unusual."""
    hint = "What shape and dtype have the zeros of a rank that has nothing to say, and what you divide "
    hint += "by? A gradient may have no axis at all."
    n = len(here)
    grads = [[np.asarray(rng.normal(size=s)) for s in ODD] for _ in range(n)]
    try:
        run = student.ranks(average_precisely, n, [(function, g, h) for g, h in zip(grads, here)])
    except StudentError as error:
        raise Feedback(f"{function} in float64: {error.type_name}.", hint=hint) from error
    for i, shape in enumerate(ODD):
        expected = sum(g[i] for g, has_grad in zip(grads, here) if has_grad[i]) / count
        for got in run.results:
            value, dtype = got[i]
            exact = np.allclose(value, expected, rtol=1e-12, atol=1e-14)
            if np.shape(value) != shape or dtype != "torch.float64" or not exact:
                raise Feedback(f"{function} in float64, shape {shape}: wrong.", hint=hint)


@check("average_used", hidden=True, requires="a_rank_without_a_gradient_counts_as_zero")
def zeros_fit_their_parameter(student, rng):
    """parameters of any shape, in double precision, on four ranks"""
    here = rng.random((4, len(ODD))) < 0.5
    here[int(rng.integers(0, 4))] = True
    here[int(rng.integers(0, 4))][:2] = False
    here[0, :2] |= ~here[:, :2].any(axis=0)  # each is used by some rank
    here = [[bool(h) for h in row] for row in here]
    compare_precisely(student, rng, "average_used", here, 4)


# ---- 4. average_uneven


def run_average_uneven(comm, grads, has_batch):
    import torch

    params = [torch.nn.Parameter(torch.full(g.shape, 7.0)) for g in grads]
    for param, grad in zip(params, grads):
        param.grad = None if np.isnan(grad).any() else torch.from_numpy(grad.copy())
    active = average_uneven(comm, params, has_batch)
    if active is not None:
        active = float(np.asarray(active).reshape(-1)[0])
    return active, [None if p.grad is None else p.grad.numpy() for p in params]


def ask_average_uneven(student, rng, have):
    grads = draw_arrays(rng, len(have))
    return grads, student.ranks(run_average_uneven, len(have), list(zip(grads, have, strict=True)))


HAVE = ([True, True], [True, False], [False, True, True], [False, False, True])


@check("average_uneven", weight=3)
def the_average_is_over_those_with_a_batch(student, rng):
    """every rank gets the average over the ranks that have a batch"""
    for have in HAVE:
        grads, run = ask_average_uneven(student, rng, have)
        n, active = len(have), sum(have)
        for i in range(len(SHAPES)):
            total = sum(grads[r][i] for r in range(n) if have[r])
            for rank, (_, got) in enumerate(run.results):
                if is_same(got[i], total / active):
                    continue
                hint = "Average the gradients of those with a batch by hand."
                if is_same(got[i], total / n):
                    hint = "It was divided by the number of all ranks."
                elif is_same(got[i], total):
                    hint = "That is a sum."
                elif is_same(got[i], sum(grads[r][i] for r in range(n)) / active):
                    hint = "The old gradients of a rank without a batch are in it."
                elif is_same(got[i], grads[rank][i]):
                    hint = "It is still what it was. A shadow takes the same step as the others."
                raise Feedback(
                    f"average_uneven: has_batch is {have}; gradient {i} of rank {rank} is not the "
                    f"average over those with a batch. {hint}"
                )


@check("average_uneven", requires="the_average_is_over_those_with_a_batch")
def a_shadow_may_never_have_had_a_gradient(student, rng):
    """a rank without a batch has the average also where its .grad was None"""
    grads = draw_arrays(rng, 3)
    shadow = int(rng.integers(0, 3))
    have = [rank != shadow for rank in range(3)]
    inputs = [
        g if has_batch else [np.full_like(x, np.nan) for x in g]
        for g, has_batch in zip(grads, have)
    ]
    called = f"average_uneven: rank {shadow} of 3 has no batch, and never had: its .grad is None"
    try:
        run = student.ranks(run_average_uneven, 3, list(zip(inputs, have, strict=True)))
    except StudentError as error:
        raise Feedback(f"{called}. {error.type_name}. What has the right shape there?") from error
    for i in range(len(SHAPES)):
        expected = sum(g[i] for g, has_batch in zip(grads, have) if has_batch) / 2
        for rank, (_, got) in enumerate(run.results):
            if got[i] is None or not is_same(got[i], expected):
                raise Feedback(
                    f"{called}. Gradient {i} of rank {rank} should be the average of the other two."
                )


@check("average_uneven", requires="the_average_is_over_those_with_a_batch")
def the_number_of_active_ranks_is_returned(student, rng):
    """every rank is told how many have a batch"""
    for have in (*HAVE, [False, False]):
        _, run = ask_average_uneven(student, rng, have)
        got = [active for active, _ in run.results]
        if got != [sum(have)] * len(have):
            raise Feedback(
                f"average_uneven: has_batch is {have}, and the ranks were returned {got}. "
                "When does each of them stop?"
            )


@check("average_uneven", requires="the_average_is_over_those_with_a_batch")
def when_nobody_has_a_batch_nothing_changes(student, rng):
    """with no batch left one number is all-reduced, and every gradient stays"""
    grads, run = ask_average_uneven(student, rng, [False, False])
    for rank, (_, got) in enumerate(run.results):
        if not all(is_same(a, b) for a, b in zip(got, grads[rank], strict=True)):
            raise Feedback(
                "average_uneven: no rank has a batch, and gradients changed. An average over "
                "nobody is a division by what?"
            )
    if count_elements_sent(run) != 1:
        raise Feedback(
            f"average_uneven: no rank has a batch, and a rank sent {count_elements_sent(run)} elements. The "
            "count of those with a batch is one number, and enough."
        )


@check("average_uneven", hidden=True, requires="the_average_is_over_those_with_a_batch")
def shadows_of_four_ranks_fit_their_parameters(student, rng):
    """parameters of any shape, in double precision, on four ranks"""
    have = [bool(h) for h in rng.permutation([True, True, True, False])]
    here = [[h] * len(ODD) for h in have]
    compare_precisely(student, rng, "average_uneven", here, 3)


@check("average_uneven", hidden=True, requires="the_average_is_over_those_with_a_batch")
def a_shadows_old_overflow_is_not_heard(student, rng):
    """what lies in a shadow's .grad does not count, not even inf"""
    grads = draw_arrays(rng, 3)
    shadow = int(rng.integers(0, 3))
    for grad in grads[shadow]:
        grad.flat[0] = np.inf
    have = [rank != shadow for rank in range(3)]
    run = student.ranks(run_average_uneven, 3, list(zip(grads, have, strict=True)))
    for _, got in run.results:
        for i in range(len(SHAPES)):
            total = sum(g[i] for g, has_batch in zip(grads, have) if has_batch)
            if not is_same(got[i], total / 2):
                raise Feedback(
                    "average_uneven: an inf in a shadow's old gradient reached the others.",
                    hint="What is nothing times an old infinity? Where do your zeros come from?",
                )


# ---- 5. fp16_average, top_k_average, low_rank_average


def run_fp16_average(comm, flat):
    import torch

    own_flat = torch.from_numpy(flat.copy())
    got = fp16_average(comm, own_flat)
    return got.numpy(), str(got.dtype), own_flat.numpy()


@check("fp16_average", weight=2)
def averages_within_half_precision(student, rng):
    """the average, to about three digits, as float32, also where a sum would overflow"""
    for n in (2, 3):
        flats = [rng.normal(size=40).astype(np.float32) for _ in range(n)]
        for flat in flats:
            flat[:5] = rng.uniform(45_000, 60_000, size=5)
        run = student.ranks(run_fp16_average, n, [(flat,) for flat in flats])
        expected = np.mean(flats, axis=0)
        for rank, (got, dtype, _) in enumerate(run.results):
            called = f"fp16_average on {n} ranks"
            if np.isinf(got).any():
                raise Feedback(
                    f"{called}: numbers of about 50,000 came back infinite. float16 ends at "
                    "65,504: what is larger than that on the way?"
                )
            if dtype != "torch.float32":
                raise Feedback(f"{called}: returned {dtype}. The optimizer wants float32.")
            close(got, expected, rtol=3e-3, atol=3e-3, called=f"{called}, rank {rank}")
        whole_numbers = [n * rng.integers(-300, 300, size=40).astype(np.float32) for _ in range(n)]
        run = student.ranks(run_fp16_average, n, [(flat,) for flat in whole_numbers])
        for got, _, _ in run.results:
            hint = "These are whole numbers that float16 holds exactly, and so is their average."
            close(got, np.mean(whole_numbers, axis=0), called=called, hint=hint)


@check("fp16_average", requires="averages_within_half_precision")
def the_flat_gradient_is_left_alone(student, rng):
    """`flat` is not modified"""
    flats = [rng.normal(size=40).astype(np.float32) for _ in range(2)]
    run = student.ranks(run_fp16_average, 2, [(flat,) for flat in flats])
    if not all(is_same(after, flat) for (_, _, after), flat in zip(run.results, flats)):
        raise Feedback("fp16_average changed `flat`. Which of your operations works in place?")


@check("fp16_average", requires="averages_within_half_precision")
def half_the_bytes_are_sent(student, rng):
    """two bytes a number travel"""
    flats = [rng.normal(size=500).astype(np.float32) for _ in range(2)]
    run = student.ranks(run_fp16_average, 2, [(flat,) for flat in flats])
    n_sent, n_float32 = run.bytes_sent(1), 500 * 4
    if n_sent > 0.55 * n_float32:
        raise Feedback(
            f"fp16_average: rank 1 sent {n_sent} bytes of 500 numbers. In which dtype did they travel?"
        )
    if n_sent == 0:
        raise Feedback("fp16_average: rank 1 sent nothing.")


@check("fp16_average", hidden=True, requires="averages_within_half_precision")
def many_ranks_do_not_overflow_either(student, rng):
    """on seven ranks as on two, and on one"""
    for n in (7, 1):
        flats = [rng.uniform(55_000, 64_000, size=9).astype(np.float32) for _ in range(n)]
        flats[0][0] = flats[0][1] = 0.0
        for rank, flat in enumerate(flats):  # too large for float16 on one rank, and no average
            flat[2] = 0.0 if rank else 55_000.0 * n
        run = student.ranks(run_fp16_average, n, [(flat,) for flat in flats])
        for got, _, _ in run.results:
            if not is_same(got, np.mean(flats, axis=0), rtol=5e-3, atol=1.0):
                raise Feedback(
                    f"fp16_average of numbers near 60,000 is wrong on {n} ranks.",
                    hint="For how many ranks is each number small enough that you make a float16?",
                )


def run_top_k_average(comm, flats, memory, k):
    """Run a few steps; return each average, the memory after it, and the input."""
    import torch

    left_out, steps = torch.from_numpy(memory.copy()), []
    for flat in flats:
        own_flat = torch.from_numpy(flat.copy())
        got = top_k_average(comm, own_flat, left_out, k)
        steps.append((got.numpy(), left_out.numpy().copy(), own_flat.numpy()))
    return steps


def average_largest(flats, memories, k):
    """Return the average and the new memories that top-k gives."""
    total, after = np.zeros_like(flats[0]), []
    for flat, memory in zip(flats, memories, strict=True):
        corrected = memory + flat
        at = np.argsort(-np.abs(corrected))[:k]
        total[at] += corrected[at]
        corrected[at] = 0
        after.append(corrected)
    return total / len(flats), after


def ask_top_k_average(student, rng, n, elements=60, k=7, steps=3):
    """Return (inputs by rank, memories by rank, run); some positions are picked by all."""
    flats = [[rng.normal(size=elements).astype(np.float32) for _ in range(steps)] for _ in range(n)]
    shared = rng.integers(0, elements)
    for rank in range(n):
        flats[rank][0][shared] = 9 + rank
    memories = [rng.normal(size=elements).astype(np.float32) for _ in range(n)]
    return (
        flats,
        memories,
        student.ranks(
            run_top_k_average, n, [(f, m, k) for f, m in zip(flats, memories, strict=True)]
        ),
    )


@check("top_k_average", weight=3)
def the_largest_entries_are_averaged(student, rng):
    """the average of what the ranks sent: the k largest of memory plus gradient on each"""
    for n, k in ((2, 7), (3, 5), (1, 3)):
        flats, memories, run = ask_top_k_average(student, rng, n, k=k)
        first = [flat[0] for flat in flats]
        expected, _ = average_largest(first, memories, k)
        for rank, steps in enumerate(run.results):
            got = steps[0][0]
            if is_same(got, expected):
                continue
            called = f"top_k_average with k = {k} on {n} ranks"
            hint = "Pick by hand on a gradient of five numbers, and compare."
            if is_same(got, n * expected):
                hint = "That is the sum over the ranks."
            elif is_same(got, average_largest(first, [0 * m for m in memories], k)[0]):
                hint = "What was left out in earlier steps is not in it."
            elif np.shape(got) != np.shape(expected):
                hint = f"It has the shape {np.shape(got)}, the gradient {np.shape(expected)}."
            elif (got != 0).sum() < (expected != 0).sum():
                hint = "Some entries are missing. Largest means: far from zero on either side."
            elif is_same(got != 0, expected != 0):
                hint = "The positions are right. Did two ranks send the same position?"
            close(got, expected, called=f"{called}: rank {rank}'s first average", hint=hint, **NEAR)


@check("top_k_average", weight=2, requires="the_largest_entries_are_averaged")
def nothing_is_lost_only_late(student, rng):
    """what is not sent stays in left_out, what is sent leaves it, over several steps"""
    flats, memories, run = ask_top_k_average(student, rng, 2)
    for step in range(3):
        before = memories
        expected, memories = average_largest([flat[step] for flat in flats], memories, 7)
        for rank, steps in enumerate(run.results):
            got, left_out, _ = steps[step]
            if not is_same(left_out, memories[rank]):
                hint = "Its sum with what was sent should be memory plus gradient."
                if is_same(left_out, before[rank]):
                    hint = "It is what it was before the call. Which line changes it in place?"
                elif is_same(left_out, 0 * left_out):
                    hint = "It is empty: whatever is small is forgotten."
                elif (left_out == 0).sum() == 0:
                    hint = "What has been sent is still in it, and will be said again."
                called = f"top_k_average, k = 7: after step {step + 1}, left_out of rank {rank}"
                close(left_out, memories[rank], called=called, hint=hint, **NEAR)
            if not is_same(got, expected):
                raise Feedback(
                    f"top_k_average: left_out is right after step {step + 1}, and the average of "
                    "that step is not what the ranks took out of it, added up and divided."
                )


@check("top_k_average", requires="the_largest_entries_are_averaged")
def the_gradient_is_left_alone(student, rng):
    """`flat` is not modified"""
    flats, _, run = ask_top_k_average(student, rng, 2)
    for rank, steps in enumerate(run.results):
        if not all(is_same(after, flat) for (_, _, after), flat in zip(steps, flats[rank])):
            raise Feedback("top_k_average changed `flat`. It should change left_out only.")


@check("top_k_average", requires="the_largest_entries_are_averaged")
def only_k_entries_travel(student, rng):
    """a rank sends its k values and k positions, in 8 bytes an entry"""
    _, _, run = ask_top_k_average(student, rng, 2, elements=2000, k=20, steps=1)
    n_sent = run.bytes_sent(1)
    if n_sent > 8 * 20:
        raise Feedback(
            f"top_k_average: rank 1 of 2 sent {n_sent} bytes for k = 20 of 2,000 entries. "
            "A value has 4 bytes; how many has a position, and which dtype has so many?"
        )


@check("top_k_average", hidden=True, requires="the_largest_entries_are_averaged")
def positions_far_back_arrive(student, rng):
    """the largest entries may lie anywhere in a gradient of 100,000"""
    flats = [rng.uniform(-1, 1, size=100_000).astype(np.float32) for _ in range(2)]
    for flat in flats:
        flat[rng.integers(70_000, 100_000, size=3)] = rng.uniform(5, 9, size=3)
    memories = [np.zeros(100_000, np.float32) for _ in range(2)]
    hint = "Which is the largest position that your dtype can hold?"
    try:
        run = student.ranks(run_top_k_average, 2, [([f], m, 3) for f, m in zip(flats, memories)])
    except StudentError as error:
        raise Feedback(f"top_k_average of 100,000: {error.type_name}.", hint=hint) from error
    expected, _ = average_largest(flats, memories, 3)
    if not all(is_same(steps[0][0], expected) for steps in run.results):
        raise Feedback("top_k_average of 100,000 entries is wrong.", hint=hint)


@check("top_k_average", hidden=True, requires="nothing_is_lost_only_late")
def a_gradient_of_few_entries_sends_k_too(student, rng):
    """where fewer than k entries are not zero, k are sent all the same"""
    flats = [np.zeros(40, np.float32) for _ in range(2)]
    for n_entries, flat in zip((2, 4), flats, strict=True):
        flat[rng.permutation(40)[:n_entries]] = rng.uniform(1, 9, size=n_entries)
    memories = [np.zeros(40, np.float32) for _ in range(2)]
    hint = (
        "Layers that a batch does not use have zeros. How many positions does your code pick then?"
    )
    try:
        run = student.ranks(run_top_k_average, 2, [([f], m, 6) for f, m in zip(flats, memories)])
    except StudentError as error:
        raise Feedback(f"top_k_average of few entries: {error.type_name}.", hint=hint) from error
    right = all(is_same(steps[0][0], sum(flats) / 2) for steps in run.results)
    if not right or run.bytes_sent(1) > 8 * 6:
        raise Feedback("top_k_average of few entries: wrong, or more than k were sent.", hint=hint)


@check("top_k_average", hidden=True, requires="nothing_is_lost_only_late")
def all_entries_are_the_plain_average(student, rng):
    """with k = all entries nothing is left out, on three ranks and on one"""
    for n in (3, 1):
        called = f"top_k_average with k = N on {n} ranks"
        hint = "Nothing should be left out. What of your code takes k for less than N?"
        try:
            flats, memories, run = ask_top_k_average(student, rng, n, elements=9, k=9, steps=2)
        except StudentError as error:
            raise Feedback(f"{called}: {error.type_name}.", hint=hint) from error
        expected, _ = average_largest([flat[0] for flat in flats], memories, 9)
        for steps in run.results:
            if not is_same(steps[0][0], expected) or np.any(steps[0][1]):
                raise Feedback(f"{called} is not the average of all.", hint=hint)


def run_low_rank_average(comm, matrices, q, memory):
    """Run a few steps; return each average, q and the memory after it, and the input."""
    import torch

    left_out, q, steps = torch.from_numpy(memory.copy()), torch.from_numpy(q.copy()), []
    for matrix in matrices:
        own_matrix = torch.from_numpy(matrix.copy())
        result = low_rank_average(comm, own_matrix, q, left_out)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TypeError("low_rank_average returns two: the average, and q for the next step")
        got, q = result
        steps.append((got.numpy(), q.numpy().copy(), left_out.numpy().copy(), own_matrix.numpy()))
    return steps


def power_step(matrices, q, memories):
    """Return the average, q and memories of one step of PowerSGD, in float64."""
    full = [m.astype(np.float64) + e for m, e in zip(matrices, memories, strict=True)]
    p = np.linalg.qr(sum(f @ q for f in full))[0]
    own = [f.T @ p for f in full]
    mean = sum(own) / len(full)
    return p @ mean.T, mean, [f - p @ o.T for f, o in zip(full, own, strict=True)]


def ask_low_rank_average(student, rng, n, r, steps=3, shape=(8, 6)):
    matrices = [[rng.normal(size=shape) for _ in range(steps)] for _ in range(n)]
    memories = [rng.normal(size=shape) for _ in range(n)]
    q = rng.normal(size=(shape[1], r))
    run = student.ranks(
        run_low_rank_average, n, [(m, q, e) for m, e in zip(matrices, memories, strict=True)]
    )
    return matrices, memories, q, run


@check("low_rank_average", weight=3)
def the_average_is_a_power_step(student, rng):
    """the average is P Q^T of one step of power iteration from the given q"""
    for n, r in ((2, 1), (3, 2), (1, 2)):
        matrices, memories, q, run = ask_low_rank_average(student, rng, n, r, steps=1)
        first = [m[0] for m in matrices]
        expected = power_step(first, q, memories)[0]
        for rank, steps in enumerate(run.results):
            got = steps[0][0]
            if is_same(got, expected):
                continue
            hint = "Follow the three lines with matrices of 2 by 2."
            if is_same(got, n * expected) and n > 1:
                hint = "It is the sum over the ranks. Which of the two all-reduces is an average?"
            elif is_same(got, power_step(first, q, [0 * e for e in memories])[0]):
                hint = "What was left out before is not in it."
            elif np.shape(got) != np.shape(expected):
                hint = f"It has the shape {np.shape(got)}, the gradient {np.shape(expected)}."
            called = f"low_rank_average on {n} ranks, r = {r}: rank {rank}'s average"
            close(got, expected, called=called, hint=hint, **NEAR)


@check("low_rank_average", weight=2, requires="the_average_is_a_power_step")
def memory_and_q_go_on_to_the_next_step(student, rng):
    """left_out keeps what was not sent, q is the next step's start, over several steps"""
    matrices, memories, q, run = ask_low_rank_average(student, rng, 2, 2)
    for step in range(3):
        before = memories
        expected, q, memories = power_step([m[step] for m in matrices], q, memories)
        for rank, steps in enumerate(run.results):
            got, _, left_out, _ = steps[step]
            if not is_same(left_out, memories[rank]):
                hint = "Its memory and gradient, less P times its own factor."
                if is_same(left_out, before[rank]):
                    hint = "It is what it was before the call. Which line changes it in place?"
                elif is_same(left_out, memories[1 - rank]):
                    hint = "It is another rank's."
                elif is_same(sum(s[step][2] for s in run.results), sum(memories)):
                    hint = "Over all ranks together nothing is lost. Whose factor was taken off?"
                called = f"low_rank_average, r = 2: after step {step + 1}, left_out of rank {rank}"
                close(left_out, memories[rank], called=called, hint=hint, **NEAR)
            called = f"low_rank_average, r = 2: the average of step {step + 1}"
            close(
                got, expected, called=called, hint="Which q does a step hand to the next?", **NEAR
            )


@check("low_rank_average", requires="the_average_is_a_power_step")
def the_matrix_is_left_alone(student, rng):
    """`matrix` is not modified"""
    matrices, _, _, run = ask_low_rank_average(student, rng, 2, 1)
    for rank, steps in enumerate(run.results):
        if not all(is_same(step[3], m) for step, m in zip(steps, matrices[rank])):
            raise Feedback("low_rank_average changed `matrix`. It should change left_out only.")


@check("low_rank_average", requires="the_average_is_a_power_step")
def only_the_factors_travel(student, rng):
    """two all-reduces, of (m, r) and of (n, r)"""
    _, _, _, run = ask_low_rank_average(student, rng, 2, 2, steps=1, shape=(9, 7))
    if count_elements_sent(run) > 9 * 2 + 7 * 2:
        raise Feedback(
            f"low_rank_average: a gradient of (9, 7), r = 2: a rank sent {count_elements_sent(run)} elements. "
            "Which two matrices say all there is to say?"
        )


@check("low_rank_average", hidden=True, requires="the_average_is_a_power_step")
def a_gradient_of_zeros_is_no_division(student, rng):
    """a gradient of zeros, or of lower rank than r, has a finite average that is right"""
    shape, q = (8, 6), rng.normal(size=(6, 2))
    column, row = rng.normal(size=(8, 1)), rng.normal(size=(1, 6))
    for matrix in (np.zeros(shape), column @ row):
        run = student.ranks(run_low_rank_average, 2, [([matrix], q, np.zeros(shape))] * 2)
        for steps in run.results:
            if not is_same(steps[0][0], matrix):  # NaN is not
                raise Feedback(
                    "low_rank_average of zeros, or of a matrix of rank 1 with r = 2, is wrong.",
                    hint="A layer may have a gradient of zeros. Does your code divide by a length?",
                )


@check("low_rank_average", hidden=True, requires="the_average_is_a_power_step")
def single_precision_and_wide_matrices(student, rng):
    """float32 as in training, wide and tall, on four ranks"""
    for shape in ((3, 40), (40, 3)):
        matrices = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]
        memories = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]
        q = rng.normal(size=(shape[1], 2)).astype(np.float32)
        hint = "Training is in float32. Which tensor of yours has another dtype, or is transposed?"
        try:
            run = student.ranks(
                run_low_rank_average, 4, [([m], q, e) for m, e in zip(matrices, memories)]
            )
        except StudentError as error:
            raise Feedback(f"low_rank_average, {shape}: {error.type_name}.", hint=hint) from error
        expected, _, after = power_step(matrices, q, memories)
        for rank, ((got, _, left_out, _),) in enumerate(run.results):
            right = is_same(got, expected, 1e-3, 1e-3) and is_same(
                left_out, after[rank], 1e-3, 1e-3
            )
            if not right or np.asarray(got).dtype != np.float32:
                raise Feedback(f"low_rank_average of float32 {shape} is wrong.", hint=hint)


# ---- 6. RoundRobin


def run_in_turn(factors, values, ops, rank, size):
    """Return what the all-reduces gave on groups that multiply by a factor of their own."""

    class Later:
        def __init__(self, value):
            self.value = value

        def result(self):
            return self.value

        wait = result

    class Group:
        def __init__(self, factor):
            self.factor, self.rank, self.size = factor, rank, size

        def all_reduce(self, x, op="sum", algorithm="auto", async_op=False):
            if algorithm != "auto":
                raise ValueError(f"all_reduce: unknown algorithm: got {algorithm!r}")
            value = x * self.factor + (0.5 if op == "max" else 0.0)
            return Later(value) if async_op else value

    groups = RoundRobin([Group(f) for f in factors])
    got = []
    for value, (op, later) in zip(values, ops):
        result = groups.all_reduce(np.array(value), op, async_op=later)
        got.append((isinstance(result, Later), float(getattr(result, "value", result))))
    return got, (groups.rank, groups.size)


def ask_round_robin(student, rng, count=None):
    count = count or int(rng.integers(2, 5))
    factors = [float(f) for f in rng.permutation(50)[:count] + 2]
    values = [float(v) for v in rng.uniform(1, 9, size=9)]
    ops = [(str(rng.choice(["sum", "max"])), bool(rng.integers(0, 2))) for _ in values]
    ops[0], ops[1] = ("sum", True), ("max", False)
    rank = count * int(rng.integers(0, 20)) + 1  # whose own turn is not the first group's
    size = rank + int(rng.integers(1, 30))
    place = rank, size
    try:
        got, rank_and_size = student.probe(
            run_in_turn, factors=factors, values=values, ops=ops, rank=place[0], size=size
        )
    except StudentError as error:
        if "unknown algorithm" not in str(error):
            raise
        hint = "The third place of a group's all_reduce is not async_op: hand that on by its name."
        raise Feedback(f"RoundRobin: {error}", hint=hint) from error
    return count, factors, values, ops, got, (place, tuple(rank_and_size))


@check("RoundRobin", weight=2)
def the_groups_take_turns(student, rng):
    """the k-th all-reduce is carried by group k modulo their number"""
    for _ in range(2):
        count, factors, values, ops, got, _ = ask_round_robin(student, rng)
        for k, ((_, result), value, (op, _)) in enumerate(zip(got, values, ops, strict=True)):
            product = result - (0.5 if op == "max" else 0.0)
            by = [g for g, factor in enumerate(factors) if abs(product - value * factor) < 1e-6]
            if by != [k % count]:
                who = f"group {by[0]}" if by else "no group, or with another op"
                raise Feedback(
                    f"RoundRobin over {count} groups: all-reduce {k} was carried by {who}. "
                    "Whose turn was it? Count from 0."
                )


@check("RoundRobin", requires="the_groups_take_turns")
def an_asynchronous_call_stays_one(student, rng):
    """async_op is handed on to the group"""
    *_, ops, got, _ = ask_round_robin(student, rng)
    for (later, _), (_, async_op) in zip(got, ops, strict=True):
        if later != async_op:
            raise Feedback(
                f"RoundRobin: all_reduce with async_op={async_op} returned "
                f"{'a handle' if later else 'a result'}. What is gained if each is waited for?"
            )


@check("RoundRobin", requires="the_groups_take_turns")
def it_has_the_groups_rank_and_size(student, rng):
    """rank and size are those of the groups"""
    *_, (place, rank_and_size) = ask_round_robin(student, rng, count=2)
    if rank_and_size != place:
        raise Feedback(
            f"RoundRobin: its groups have rank {place[0]} and size {place[1]}; it says "
            f"rank {rank_and_size[0]} and size {rank_and_size[1]}."
        )


def run_two_in_turns(factors, calls):
    """Return what the all-reduces of two RoundRobins gave, called in a mixed order."""

    class Group:
        rank, size = 0, 1

        def __init__(self, factor):
            self.factor = factor

        def all_reduce(self, x, op="sum", algorithm="auto", async_op=False):
            return x * self.factor

    rows = [[Group(f) for f in row] for row in factors]
    given = [list(row) for row in rows]
    pair = [RoundRobin(row) for row in rows]
    got, as_given = [], True
    for which, value in calls:
        got.append(float(pair[which].all_reduce(np.array(value))))
        as_given = as_given and rows == given  # three turns of three are none
    return got, as_given


@check("RoundRobin", hidden=True, requires="the_groups_take_turns")
def two_of_them_count_apart(student, rng):
    """each RoundRobin counts its own all-reduces, over one group as over several, of any list"""
    factors = [[float(f) for f in rng.permutation(50)[:k] + 2] for k in (3, 1)]
    calls = [(int(w), float(v)) for w, v in zip(rng.integers(0, 2, 12), rng.uniform(1, 9, 12))]
    calls = [(0, 1.0), (1, 1.0), (0, 2.0), *calls]
    hint = "Two models are trained in one program. Whose calls does each of them count?"
    try:
        got, as_given = student.probe(run_two_in_turns, factors=factors, calls=calls)
    except StudentError as error:
        raise Feedback(f"two RoundRobins: {error.type_name}.", hint=hint) from error
    turns = [0, 0]
    for (which, value), result in zip(calls, got, strict=True):
        due = value * factors[which][turns[which] % len(factors[which])]
        turns[which] += 1
        if not abs(result - due) <= 1e-6:  # so that NaN is wrong
            raise Feedback("two RoundRobins used by turns: a wrong group.", hint=hint)
    if not as_given:
        hint = "Another RoundRobin may be made of the same list. Whose list do you turn round?"
        raise Feedback("RoundRobin changed the list of groups that it was given.", hint=hint)
