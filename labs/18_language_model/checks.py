"""Checks of lab 18: each piece against its formula in NumPy, in small; training in small too."""

from collections import Counter
from itertools import pairwise

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

GENERATION = "minitorch.serve.generation"
WITHHELD = (
    *(f"{GENERATION}.sampling:sample", f"{GENERATION}.sampling:largest"),
    *(f"{GENERATION}.simulation:simulate_generation", f"{GENERATION}.scheduler:Scheduler"),
)
LAB = LabSettings(wall_s=240, preload=("numpy", "minitorch"), withheld=WITHHELD)


# ---- 1. pairs


def merging(tokens, pair, new):
    found = merge(list(tokens), tuple(pair), new)
    return list(found) if hasattr(found, "__iter__") else found


def merged(tokens, pair, new):
    out = []
    for token in tokens:
        if out and out[-1] == pair[0] and token == pair[1]:
            out[-1] = new
        else:
            out.append(token)
    return out


def leaves_tokens(tokens):
    given = list(tokens)
    merge(given, (0, 1), 99)
    return given == list(tokens)


def learning(tokens, n, first):
    given = list(tokens)
    pairs = learn_pairs(given, n, first)
    return [list(pair) for pair in pairs], given == list(tokens)


def learned(tokens, n, first):
    found = []
    for new in range(first, first + n):
        counts = Counter(pairwise(tokens))
        if counts:
            best = max(counts.values())
            found.append(max(pair for pair, count in counts.items() if count == best))
            tokens = merged(tokens, found[-1], new)
    return [list(pair) for pair in found]


@check("pairs", weight=2)
def pairs_are_replaced_from_left_to_right(student, rng):
    """merge puts the new token in place of each pair, from left to right, none twice"""
    for n, letters in ((12, 2), (9, 3), (int(rng.integers(20, 30)), 2)):
        tokens = rng.integers(letters, size=n).tolist()
        for pair in ([0, 0], [0, 1], [1, 0], [1, 1]):
            got, want = (
                student.probe(merging, tokens=tokens, pair=pair, new=99),
                merged(tokens, pair, 99),
            )
            if got != want:
                hint = "In a a a the first two are the pair. Where do you go on after one?"
                if got and 99 in want and 99 not in got:
                    hint = "No pair was found. What do you compare with the pair?"
                raise Feedback(
                    f"merge({tokens}, {tuple(pair)}, 99): got {got}, expected {want}. {hint}"
                )
    if not student.probe(leaves_tokens, tokens=[0, 1, 0, 1, 1]):
        raise Feedback("merge changed the tokens that it was given. Make a list of its own.")


@check("pairs", weight=2)
def each_round_takes_the_most_frequent_pair(student, rng):
    """each round takes the most frequent pair of what the round before has left"""
    equal = [4, 1, 5, 2, 3]  # every pair once
    cases = [(equal, 1), *((rng.integers(n, size=60).tolist(), 5) for n in (2, 3, 4))]
    first = int(rng.integers(10, 90))
    for tokens, n in cases:
        got, _ = student.probe(learning, tokens=tokens, n=n, first=first)
        want = learned(tokens, n, first)
        if got == want:
            continue
        at = next((k for k, pair in enumerate(want) if got[k : k + 1] != [pair]), len(want))
        hint = "Which tokens does a round count: the first, or what was merged?"
        if got == learned(tokens, n, 96):
            hint = "That makes token 96 in its first round. Which is asked for?"
        counts = Counter(pairwise(tokens))
        if at == 0 and got and counts[tuple(got[0])] == counts[tuple(want[0])]:
            hint = "Both are as frequent. Which of them is taken?"
        elif len(got) != len(want):
            hint = f"{len(got)} pairs came, of {len(want)}."
        elif at == 0:
            hint = "Count the pairs of the first round by hand."
        raise Feedback(f"learn_pairs({tokens}, {n}, {first}): round {at} differs. {hint}")


@check("pairs", requires="each_round_takes_the_most_frequent_pair")
def it_stops_where_nothing_is_left(student, rng):
    """the list is shorter where no two tokens are left, and the tokens stay as they are"""
    for tokens in ([], [4], [4, 4], rng.integers(3, size=5).tolist()):
        try:
            got, same = student.probe(learning, tokens=tokens, n=9, first=96)
        except StudentError as error:
            raise Feedback(
                f"learn_pairs({tokens}, 9, 96) raised {error.type_name}. What does a round do "
                "where there is no pair?"
            ) from error
        if got != learned(tokens, 9, 96):
            raise Feedback(f"learn_pairs({tokens}, 9, 96): got {got}. How many rounds are there?")
        if not same:
            raise Feedback("learn_pairs changed the tokens. They belong to who asked.")
    if student.probe(learning, tokens=[1, 2, 1, 2], n=0, first=96)[0]:
        raise Feedback("learn_pairs of 0 rounds gave a pair. When do you ask how many there are?")


@check("pairs", hidden=True, requires="pairs_are_replaced_from_left_to_right")
def the_ends_of_a_text_are_merged_too(student, rng):
    """the first and the last two tokens may be a pair, and a text may be empty"""
    for tokens in ([1, 2], [0, 1, 2], [1, 2, 0], [], [1], [2, 1]):
        got = student.probe(merging, tokens=tokens, pair=[1, 2], new=7)
        if got != merged(tokens, [1, 2], 7):
            raise Feedback(f"merge({tokens}) gave {got}.", hint="Look at both ends, and at none.")


# ---- 2. CausalSoftmax, Attention, block_costs, train_step


def softmax_of(scores, out_grad=None, others=None, towards=None):
    """Return what the operator gives; or its gradient; or the gradients of that times `towards`.

    In between it is called with `others`, as in the next layer.
    """
    import minitorch as mt
    from autograder.student.withheld import withheld

    x, operator = mt.tensor(scores).requires_grad_(), CausalSoftmax()
    out = operator(x)
    if not isinstance(out.op, CausalSoftmax):
        return type(out.op).__name__
    if out_grad is None:
        return out.detach().numpy()
    with withheld(["minitorch.ops.networks.softmax:Softmax.gradient"]):  # this rule is asked for
        operator(mt.tensor(others))
        if towards is None:
            return mt.grad(out, [x], grad_outputs=mt.tensor(out_grad))[0].numpy()
        adjoint = mt.tensor(out_grad).requires_grad_()
        [first] = mt.grad(out, [x], grad_outputs=adjoint, create_graph=True)
        if not first.requires_grad:
            return "an array"
        seconds = mt.grad((first * mt.tensor(towards)).sum(), [x, adjoint], allow_unused=True)
        return [None if second is None else second.numpy() for second in seconds]


def softmaxed(student, scores, **adjoint):
    """Return what the learner's operator gives, or its gradient; it has to be one operator."""
    if adjoint:
        adjoint["others"] = 1.0 - 2.0 * scores
    got = student.probe(softmax_of, scores=scores, **adjoint)
    if isinstance(got, str) and got == "an array":
        raise Feedback(
            "what CausalSoftmax's gradient returns does not know how it was made, so that it has "
            "no gradient. In operators of tensors it has. Which of its lines makes an array?"
        )
    if isinstance(got, str):
        raise Feedback(
            f"CausalSoftmax()(scores) is the result of {got}. What `compute` returns becomes the "
            "result of your operator by itself: leave __call__ as it is."
        )
    return got


def masked_softmax(scores):
    tokens = scores.shape[-1]
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_gradient(p, adjoint):
    return p * (adjoint - (adjoint * p).sum(axis=-1, keepdims=True))


@check("CausalSoftmax", weight=2)
def each_row_is_a_softmax_of_what_it_sees(student, rng):
    """row i is the softmax of its scores 0 to i, and zero behind them"""
    for shape in ((2, 3, 5, 5), (4, 4)):
        scores = rng.normal(size=shape)
        got, want = softmaxed(student, scores), masked_softmax(scores)
        hint = "Each row adds up to 1."
        if np.shape(got) == shape:
            later = np.triu(np.ones(shape[-2:], bool), 1)
            if np.any(np.asarray(got)[..., later] != 0):
                hint = "A token sees one that comes after it. On which side of the mask is it?"
            elif np.allclose(np.sum(got, axis=-2), 1) and shape[-1] > 1:
                hint = "The columns add up to 1, expected the rows."
            elif np.any(np.diagonal(got, axis1=-2, axis2=-1) == 0):
                hint = "A token sees itself too."
        close(got, want, called=f"CausalSoftmax of scores {shape}", hint=hint)


@check("CausalSoftmax", weight=2)
def the_gradient_is_that_of_the_formula(student, rng):
    """the gradient is p times (adjoint less the sum of adjoint times p), row by row"""
    for shape in ((2, 5, 5), (3, 3)):
        scores, adjoint = rng.normal(size=shape), rng.normal(size=shape)
        p = masked_softmax(scores)
        want = softmax_gradient(p, adjoint)
        got = softmaxed(student, scores, out_grad=adjoint)
        hint = "Which axis does the sum go over, and is it kept?"
        if np.allclose(got, p * adjoint):
            hint = "A softmax's numbers share 1: where one grows, the others shrink."
        elif np.allclose(got, softmax_gradient(masked_softmax(1.0 - 2.0 * scores), adjoint)):
            hint = "That is of the call after it. One operator serves all layers: who holds p?"
        close(got, want, called=f"the gradient of CausalSoftmax {shape}", hint=hint)


@check("CausalSoftmax", requires="the_gradient_is_that_of_the_formula")
def the_gradient_is_made_of_operators(student, rng):
    """the gradient is made of operators of tensors, so that it has a gradient itself"""
    scores, adjoint, towards, way = rng.normal(size=(4, 2, 4, 4))
    got = softmaxed(student, scores, out_grad=adjoint, towards=towards)
    hint = "Is something taken out of the graph, or written over, on the way?"
    want = softmax_gradient(masked_softmax(scores), towards)
    close(got[1], want, called="what a gradient changes by with its adjoint", hint=hint)
    ends = [
        (softmax_gradient(masked_softmax(scores + step * way), adjoint) * towards).sum()
        for step in (1e-5, -1e-5)
    ]
    close(
        0.0 if got[0] is None else float((np.asarray(got[0]) * way).sum()),
        float((ends[0] - ends[1]) / 2e-5),
        called="what a gradient changes by with its scores, in a random direction",
        hint=hint,
        rtol=1e-5,
        atol=1e-7,
    )


@check("CausalSoftmax", requires="each_row_is_a_softmax_of_what_it_sees")
def large_scores_do_not_overflow(student, rng):
    """scores of 1,000 have a softmax too, and float32 stays float32"""
    scores = (1000 * rng.normal(size=(3, 6, 6))).astype(np.float32)
    got = np.asarray(softmaxed(student, scores))
    if not np.all(np.isfinite(got)):
        raise Feedback(
            "CausalSoftmax of scores of about 1,000 is not finite. exp(1000) overflows: which "
            "number can be taken off a row without changing its softmax?"
        )
    close(got, masked_softmax(scores), called="CausalSoftmax of large scores", atol=1e-6)
    if got.dtype != np.float32:
        raise Feedback(f"CausalSoftmax of float32 gave {got.dtype}. Which line converts?")


def scores_after(scores):
    import minitorch as mt

    x = mt.tensor(scores)
    CausalSoftmax()(x)
    return x.numpy()


@check("CausalSoftmax", requires="each_row_is_a_softmax_of_what_it_sees")
def the_scores_are_left_alone(student, rng):
    """the operator does not write into its input"""
    scores = rng.normal(size=(2, 4, 4))
    if not np.array_equal(student.probe(scores_after, scores=scores), scores):
        raise Feedback(
            "CausalSoftmax changed the scores that it was given.",
            hint="xp.where(...) makes an array of its own; scores[...] = writes into the input.",
        )


@check("CausalSoftmax", hidden=True, requires="each_row_is_a_softmax_of_what_it_sees")
def what_comes_later_has_no_say(student, rng):
    """scores that are masked do not change anything, however large, or small the others are"""
    scores = rng.normal(size=(2, 5, 5))
    later = np.triu(np.ones((5, 5), bool), 1)
    other = np.where(later, 1e4 * rng.uniform(1, 2, size=scores.shape), scores)
    close(
        softmaxed(student, other),
        masked_softmax(scores),
        called="CausalSoftmax",
        hint="From which scores is the largest of a row taken?",
    )
    close(
        softmaxed(student, scores - 1e5),
        masked_softmax(scores),
        called="CausalSoftmax of scores of about -100,000",
        hint="Is what stands for a masked score less than any other?",
        rtol=1e-6,
    )


def attend(x, weights, heads, out_grad=None):
    """Return what Attention gives for x; or the gradients of x and of its parameters."""
    import numpy as np

    import minitorch as mt

    attention = Attention(x.shape[-1], heads, np.random.default_rng(0))
    parts = [
        attention.qkv.weight,
        attention.qkv.bias,
        attention.out.weight,
        attention.out.bias,
    ]
    with mt.no_grad():
        for part, array in zip(parts, weights):
            part[...] = mt.tensor(array)
    x = mt.tensor(x).requires_grad_()
    out = attention(x)
    waiting, seen = [out], set()
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen.add(id(value))
            waiting += value.inputs
            if value.op and value.op.name == "scaled_dot_product_attention":
                return value.op.name
    if out_grad is None:
        return out.detach().numpy()
    return [g.numpy() for g in mt.grad(out, [x, *parts], grad_outputs=mt.tensor(out_grad))]


def attended(student, **inputs):
    """Return what the learner's Attention gives; not what the package has ready."""
    got = student.probe(attend, **inputs)
    if isinstance(got, str):
        raise Feedback(
            f"Attention calls {got}, which is all of it. Make it of products, your softmax and "
            "reshapes: section 8 measures them one by one."
        )
    return got


def attention_weights(rng, width):
    shapes = ((3 * width, width), (3 * width,), (width, width), (width,))
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def attending(x, weights, heads, divisor=None, split=0):
    """Return attention by its formula; `split` 1 deals the width out to heads the other way."""
    rows, tokens, width = x.shape
    d = width // heads
    divisor = np.sqrt(d) if divisor is None else divisor
    qkv = x @ weights[0].T + weights[1]
    q, k, v = (qkv[..., part * width : (part + 1) * width] for part in range(3))

    def by_heads(a):
        if split:
            return a.reshape(rows, tokens, d, heads).transpose(0, 3, 1, 2)
        return a.reshape(rows, tokens, heads, d).transpose(0, 2, 1, 3)

    q, k, v = map(by_heads, (q, k, v))
    p = masked_softmax(q @ k.swapaxes(-1, -2) / divisor)
    return (p @ v).transpose(0, 2, 1, 3).reshape(rows, tokens, width) @ weights[2].T + weights[3]


def row(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


CAUSAL = "Row i of the result is made of tokens 0 to i alone."


@check("Attention", weight=3)
def attention_is_that_of_the_formula(student, rng):
    """the result is out(softmax(q k' / sqrt(D)) v), head by head"""
    for shape, heads in (((2, 5, 8), 2), ((1, 3, 6), 3), ((3, 4, 4), 1)):
        x, weights = row(rng, *shape), attention_weights(rng, shape[-1])
        got = attended(student, x=x, weights=weights, heads=heads)
        hint = CAUSAL
        if np.shape(got) == shape:
            divisors = (1, shape[-1] ** 0.5, shape[-1] / heads)
            others = [attending(x, weights, heads, divisor) for divisor in divisors]
            if any(np.allclose(got, other, atol=1e-4) for other in others):
                hint = "By what are the scores divided?"
            elif np.allclose(got, attending(x, weights, 1), atol=1e-4) and heads > 1:
                hint = "That is one head. Each head has a part of the width of its own."
            elif np.allclose(got, attending(x, weights, heads, split=1), atol=1e-4):
                hint = "Head 0 has the first D numbers of a query, not every H-th."
        close(
            got,
            attending(x, weights, heads),
            called=f"Attention of x {shape} with {heads} heads",
            hint=hint,
            rtol=1e-3,
            atol=1e-4,
        )


@check("Attention", weight=2, requires="attention_is_that_of_the_formula")
def gradients_reach_x_and_every_weight(student, rng):
    """x and all four parameters have the gradients of the formula"""
    x, weights, out_grad = row(rng, 2, 4, 6), attention_weights(rng, 6), row(rng, 2, 4, 6)
    got = attended(student, x=x, weights=weights, heads=2, out_grad=out_grad)
    step, inputs = 1e-5, [a.astype(np.float64) for a in (x, *weights)]
    for at, name in enumerate(("x", "qkv.weight", "qkv.bias", "out.weight", "out.bias")):
        towards = rng.normal(size=inputs[at].shape)
        ends = []
        for sign in (1, -1):
            moved = [a + sign * step * towards if k == at else a for k, a in enumerate(inputs)]
            ends.append((attending(moved[0], moved[1:], 2) * out_grad).sum())
        want = (ends[0] - ends[1]) / (2 * step)
        close(
            float((np.asarray(got[at]) * towards).sum()),
            float(want),
            called=f"the gradient of {name} in a random direction",
            rtol=1e-2,
            atol=1e-2,
            hint="Is something made into an array on the way?",
        )


@check("Attention", hidden=True, requires="attention_is_that_of_the_formula")
def no_token_sees_the_future(student, rng):
    """what comes later changes nothing before it, and one token alone is fine"""
    x, weights = row(rng, 2, 6, 8), attention_weights(rng, 8)
    other = x.copy()
    other[:, 3:] = row(rng, 2, 3, 8)
    got = [attended(student, x=rows, weights=weights, heads=4) for rows in (x, other)]
    close(got[0][:, :3], got[1][:, :3], called="Attention before token 3", hint=CAUSAL, atol=1e-5)
    far = 30 * x  # and keys that are the queries turned round: a token's own score is far below 0
    turned = [np.concatenate([part[:8], -part[:8], part[16:]]) for part in weights[:2]]
    got, own = (
        attended(student, x=rows, weights=[*turned, *weights[2:]], heads=4)
        for rows in (far, far[:, :1])
    )
    hint = "The first token sees itself alone. What stands for a masked score, and how small is it?"
    close(got[:, :1], own, called="Attention of large x, token 0", hint=hint, rtol=1e-3, atol=1e-2)
    alone = attended(student, x=x[:, :1], weights=weights, heads=4)
    close(alone, attending(x[:, :1], weights, 4), called="one token", rtol=1e-3, atol=1e-4)


@check("block_costs", weight=2)
def parameters_are_counted(student, rng):
    """all parameters of a block are counted, biases and norms too"""
    for width in (64, int(rng.integers(2, 40)) * 4):
        tokens = int(rng.integers(3, 200))
        got, want = student.call("block_costs", tokens, width)[0], 12 * width**2 + 13 * width
        if got != want:
            hint = {
                12 * width**2: "Biases and norms have parameters too.",
                12 * width**2 + 9 * width: "Two norms have two vectors each.",
                12 * width**2 + 4 * width: "Each linear layer has a bias.",
            }.get(got, "Go through the block line by line: four linear layers, two norms.")
            raise Feedback(f"block_costs({tokens}, {width}): {got} parameters. {hint}")


@check("block_costs", weight=2)
def flops_are_counted(student, rng):
    """the flops of all products of a row are counted, attention's own too"""
    for width in (64, int(rng.integers(2, 40)) * 4):
        tokens = int(rng.integers(3, 200))
        got = student.call("block_costs", tokens, width)[1]
        linear, own = 24 * tokens * width**2, 4 * tokens**2 * width
        if got != linear + own:
            hint = {
                linear: "That is the linear layers. Attention has two products of its own.",
                (linear + own) / 2: "A product and an addition are two flops.",
                linear + own / 2: "Attention's own products are two.",
                (linear + own) / tokens: "That is for a token.",
            }.get(got, "A product of (T, m) by (m, n) takes 2 T m n flops.")
            raise Feedback(f"block_costs({tokens}, {width}): {got} flops. {hint}")


@check("block_costs", hidden=True, requires=("parameters_are_counted", "flops_are_counted"))
def any_number_of_tokens_has_its_costs(student, rng):
    """one token, and very many"""
    for tokens in (1, 4096):
        got = student.call("block_costs", tokens, 8)
        close(
            list(got),
            [12 * 64 + 13 * 8, 24 * tokens * 64 + 32 * tokens**2],
            called=f"block_costs({tokens}, 8)",
            hint="Which of the flops grow with the square of the tokens?",
        )


def one_step(table, bias, x, y, averaged):
    """Return what a step does to a model of a table: loss, parameters, what average and step saw."""
    import minitorch as mt

    class Table(Module):
        """Logits of the next token by the token alone."""

        def __init__(self):
            self.table, self.bias = Parameter(table), Parameter(bias)

        def forward(self, tokens):
            return mt.nn.functional.embedding(tokens, self.table) + self.bias

    model, taken = Table(), []
    parameters = list(model.parameters())

    class Optimizer:
        def __init__(self):
            self.parameters = parameters

        def zero_grad(self):
            for p in parameters:
                p.grad = None

        def step(self):
            taken.append([None if p.grad is None else p.grad.numpy().copy() for p in parameters])
            with mt.no_grad():
                for p in parameters:
                    p += 1.0
                parameters[1][0] += 1.0  # with which no loss stays the same

    def average(grads):
        taken.append([type(g).__name__ for g in grads])
        return [2.0 * g + 1.0 for g in grads]

    for p in parameters:
        p.grad = mt.ones_like(p.detach())
    loss = train_step(model, Optimizer(), x, y, *([average] if averaged else []))
    return loss, taken, [p.detach().numpy().copy() for p in parameters]


def stepped(student, rng, averaged=False):
    """Return what a step did, and the loss and gradients by their formula."""
    table, bias = row(rng, 9, 9), row(rng, 9)
    x, y = rng.integers(9, size=(2, 3, 5))
    loss, taken, after = student.probe(
        one_step, table=table, bias=bias, x=x, y=y, averaged=averaged
    )
    moved = 1.0, 1.0 + (np.arange(9) == 0)  # what the optimizer did
    logits = (table[x] + bias).astype(float)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    slope = (p - np.eye(9)[y]) / y.size
    by_token = np.eye(9)[x].reshape(-1, 9).T @ slope.reshape(-1, 9)
    return {
        "loss": loss,
        "taken": taken,
        "same": all(np.allclose(a - b, m) for a, b, m in zip(after, (table, bias), moved)),
        "right": float(-np.log((p * np.eye(9)[y]).sum(axis=-1)).mean()),
        "wanted": [by_token, slope.sum(axis=(0, 1))],
    }


@check("train_step", weight=2)
def the_optimizer_finds_the_gradients_of_the_loss(student, rng):
    """each .grad is the gradient of the mean loss when optimizer.step() is called, once"""
    found = stepped(student, rng)
    if len(found["taken"]) != 1:
        raise Feedback(f"optimizer.step() was called {len(found['taken'])} times in train_step.")
    got = found["taken"][0]
    hint = "Which tokens are the inputs, and which are wanted?"
    if any(g is None for g in got):
        raise Feedback(f"{sum(g is None for g in got)} parameters had no gradient at the step.")
    if all(np.allclose(g, w + 1, atol=1e-5) for g, w in zip(got, found["wanted"])):
        hint = "There was a gradient from before, and yours was added to it."
    elif all(np.allclose(g, 1) for g in got):
        hint = "The step came before the gradients."
    close(got, found["wanted"], called="gradients", hint=hint, rtol=1e-3, atol=1e-5)
    if not found["same"]:
        raise Feedback("train_step changed parameters itself. That is the optimizer's part.")


@check("train_step", requires="the_optimizer_finds_the_gradients_of_the_loss")
def the_loss_before_the_step_comes_back(student, rng):
    """train_step returns the loss before the step, a float"""
    found = stepped(student, rng)
    if not isinstance(found["loss"], float):
        raise Feedback(f"train_step returned {type(found['loss']).__name__}, expected a float.")
    close(found["loss"], found["right"], called="the loss", hint="Of which batch, and when?",
          rtol=1e-5)  # fmt: skip


@check("train_step", weight=2)
def gradients_are_averaged_where_that_is_asked_for(student, rng):
    """average gets arrays, and what it returns is what the optimizer finds"""
    found = stepped(student, rng, averaged=True)
    if len(found["taken"]) != 2:
        raise Feedback("average is called once, before optimizer.step().")
    kinds, got = found["taken"]
    if {*kinds} != {"ndarray"}:
        raise Feedback(f"average got {sorted({*kinds})}, expected arrays.")
    want = [2 * w + 1 for w in found["wanted"]]
    hint = "Which gradients does the optimizer find: those before, or those after average?"
    close(got, want, called="gradients after average", hint=hint, rtol=1e-3, atol=1e-4)


def small_training(steps):
    """Train a GPT to sort three digits, and leave it there."""
    import numpy as np

    import lessons.language.data as data
    import minitorch as mt

    mt.set_num_threads(1)
    model = GPT(layers=1, width=32, heads=4, context=24, vocabulary=96)
    adam = Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        adam.lr = 0.01 * min(1, (step + 1) / 20) * (1 - 0.9 * step / steps)
        rows = data.problems(np.random.default_rng(step), 96, 3).reshape(32, -1)
        train_step(model, adam, rows[:, :-1], rows[:, 1:])
    globals()["__small__"] = model


def small_logits(rows):
    """Return the logits of the GPT that was left there; the answers are not known here."""
    import minitorch as mt

    with mt.no_grad():
        return globals()["__small__"](mt.tensor(rows)).numpy()


@check("train_step", weight=2, requires="the_optimizer_finds_the_gradients_of_the_loss")
def a_small_model_learns_to_sort(student, rng):
    """a small GPT of yours sorts three digits, with a loss that no table of the last two reaches"""
    from lessons.language.data import answer_loss, exact_share, least_table_loss

    student.probe(small_training, steps=SMALL_STEPS)

    def logits(rows):
        return np.asarray(student.probe(small_logits, rows=rows))

    right = exact_share(lambda rows: logits(rows)[:, -1], 3, 100)
    loss, table = answer_loss(logits, 3, 100), least_table_loss(3, seen=2, n=3000)
    if loss > table / 2 or right < 0.5:
        raise Feedback(
            f"after {SMALL_STEPS} steps {right:.0%} are sorted exactly, with a loss of {loss:.2f}; "
            f"a table of two tokens has {table:.2f}. Does attention see what it should, and does "
            "each step go down?"
        )


SMALL_STEPS = 150


@check("train_step", hidden=True, requires="gradients_are_averaged_where_that_is_asked_for")
def gradients_are_those_of_this_batch(student, rng):
    """without average nothing is averaged"""
    found = stepped(student, rng)
    close(found["taken"][-1], found["wanted"], called="gradients", rtol=1e-3, atol=1e-5,
          hint="What happens where average is None?")  # fmt: skip


# ---- 3. Recomputed


def recompute(seed, rows, out_grad, others=None):
    """Return results and gradients with the operator and without, and how the block was run.

    And whether its parameters kept the `.grad` that they had. Before the gradients the operator is
    called with `others`, if there are any.
    """
    import numpy as np

    import minitorch as mt

    modes, single, found = [], [], []

    class Watched(Block):
        def forward(self, x):
            out = super().forward(x)
            modes.append(out.requires_grad)  # and not what some function says of it
            return out

    block = Watched(8, 2, np.random.default_rng(seed))
    parameters = list(block.parameters())
    for p in parameters:  # left from a step before
        p.grad = mt.ones_like(p.detach())
    operator = Recomputed(block)
    for function in (lambda x: operator(x, *parameters), block):
        x = mt.tensor(rows).requires_grad_()
        out = function(x)
        if others is not None:
            function(mt.tensor(others))
        modes.append("forward")
        one = out.inputs[:1] if isinstance(out, mt.Tensor) else ()
        single.append(bool(one) and one[0] is x and isinstance(out.op, Recomputed))
        again = (out * mt.tensor(out_grad)).sum()
        grads = mt.grad(again, [x, *parameters])
        found.append([out.detach().numpy(), *(g.numpy() for g in grads)])
        modes.append("backward")
    kept = all((p.grad.numpy() == 1).all() for p in parameters)
    return found, modes[: modes.index("backward")], single[0], kept


def recomputing(student, rng, rows=2, **others):
    """Return results and gradients with the operator and without, and how the block was run.

    And whether its parameters kept the `.grad` that they had.
    """
    x, out_grad = row(rng, rows, 3, 8), row(rng, rows, 3, 8)
    found, modes, single, kept = student.probe(
        recompute, seed=int(rng.integers(1000)), rows=x, out_grad=out_grad, **others
    )
    if not single:
        raise Feedback(
            "the result of Recomputed(block)(x, ...) is not that of one operator with x as its "
            "first input: what is inside of the block is held after all. Leave __call__ as it is."
        )
    return found, modes, kept


@check("Recomputed", weight=2)
def the_result_is_the_blocks(student, rng):
    """the result is that of the block, and nothing inside is recorded"""
    (got, want), modes, _ = recomputing(student, rng)
    close(got[0], want[0], called="Recomputed(block)(x, ...)", rtol=1e-4, atol=1e-5)
    if True in modes[: modes.index("forward")]:
        raise Feedback(
            "the block ran forward with recording on: what is inside is held after all. Under "
            "what does nothing get recorded?"
        )


@check("Recomputed", weight=3)
def its_gradients_are_the_blocks(student, rng):
    """x and every parameter have the gradients that they have without it"""
    (got, want), _, kept = recomputing(student, rng)
    if not kept:
        raise Feedback(
            "gradient changed the .grad of the block's parameters, where one from before lay. "
            "Which function returns gradients, and adds them nowhere?"
        )
    hint = (
        "out_grad comes from outside: where does it enter? And is it one gradient for each input?"
    )
    close(
        got[1:], want[1:], called="gradients (x, then parameters)", hint=hint, rtol=1e-3, atol=1e-4
    )


@check("Recomputed", requires=("the_result_is_the_blocks", "its_gradients_are_the_blocks"))
def the_block_runs_once_each_way(student, rng):
    """the block runs once in forward, and once in backward"""
    _, modes, _ = recomputing(student, rng)
    at = modes.index("forward")
    runs = len(modes[:at]), len(modes[at + 1 :])
    if runs != (1, 1):
        raise Feedback(f"the block ran {runs[0]} times in forward and {runs[1]} in backward.")


@check("Recomputed", hidden=True, requires="its_gradients_are_the_blocks")
def any_number_of_rows_is_recomputed(student, rng):
    """one row, and several; and an operator that has been called again in between"""
    for rows in (1, 5):
        (got, want), *_ = recomputing(student, rng, rows)
        close(got, want, called=f"{rows} rows", hint="Which shape is fixed?", rtol=1e-3, atol=1e-4)
    (got, want), *_ = recomputing(student, rng, 2, others=row(rng, 2, 3, 8))
    hint = "Whose x does the block run on again: that of this result, or of the last call?"
    close(got, want, called="after another call", hint=hint, rtol=1e-3, atol=1e-4)


# ---- 4. average


def averaging(comm, grads, buckets):
    """Return the averages, whether what was handed in stayed, and the sizes that went round."""
    import numpy as np

    sizes, before, due = [], [g.copy() for g in grads], [[*bucket] for bucket in buckets]

    class Ranks:
        """A communicator that sends nothing: that is for ring to do."""

        rank, size = comm.rank, comm.size

    def ring(_, flat):
        sizes.append(list(np.shape(flat)))
        return comm.all_reduce(flat, algorithm="ring")

    got = average(Ranks(), grads, buckets, ring)
    same = all(np.array_equal(a, b) for a, b in zip(before, grads))
    return [np.asarray(g) for g in got], [same, buckets == due], sizes


SHAPES = [(3, 2), (5,), (2, 2, 2), (1,), (4, 1)]


def averaged_on(student, rng, n, shapes, buckets, dtype=np.float64):
    grads = [[rng.normal(size=s).astype(dtype) for s in shapes] for _ in range(n)]
    run = student.ranks(averaging, n, [(g, buckets) for g in grads])
    return run.results, [np.mean(parts, axis=0) for parts in zip(*grads)]


@check("average", weight=3)
def every_gradient_is_the_average_over_the_ranks(student, rng):
    """every gradient is the average over the ranks, in its place and shape"""
    for n, buckets in ((2, [[4, 3], [2, 1, 0]]), (3, [[1, 3], [0], [4, 2]])):
        results, want = averaged_on(student, rng, n, SHAPES, buckets)
        for rank, (got, _, _) in enumerate(results):
            hint = "Which gradient of a bucket lies where in the flat array?"
            if len(got) == len(want) and all(
                np.shape(g) == w.shape and np.allclose(g, n * w) for g, w in zip(got, want)
            ):
                hint = "That is the sum over the ranks."
            elif len(got) == len(want) and [np.size(g) for g in got] != [w.size for w in want]:
                hint = "In which order are the averages? Bucket after bucket, or as grads?"
            close(got, want, called=f"average on {n} ranks, rank {rank}", hint=hint)


@check("average", weight=2, requires="every_gradient_is_the_average_over_the_ranks")
def each_bucket_goes_round_once(student, rng):
    """one call of ring a bucket, with a flat array of all that is in it"""
    buckets = [[4], [3, 2], [1, 0]]
    results, _ = averaged_on(student, rng, 2, SHAPES, buckets)
    want = [[sum(int(np.prod(SHAPES[i])) for i in bucket)] for bucket in buckets]
    for _, _, sizes in results:
        if sizes != want:
            raise Feedback(
                f"buckets {buckets} of shapes {SHAPES}: ring got shapes {sizes}, expected {want}. "
                "How often is it called, and with what?"
            )


@check("average", requires="every_gradient_is_the_average_over_the_ranks")
def what_was_handed_in_stays(student, rng):
    """the gradients and buckets that were handed in stay as they are"""
    results, _ = averaged_on(student, rng, 2, SHAPES, [[4, 3, 2, 1, 0]])
    if not all(same for _, (same, _), _ in results):
        raise Feedback("average changed the gradients that it was given. Make a list of new ones.")
    if not all(same for _, (_, same), _ in results):
        raise Feedback("average changed the buckets that it was given. The next step needs them.")


@check("average", hidden=True, requires="every_gradient_is_the_average_over_the_ranks")
def one_rank_and_odd_shapes_are_averaged(student, rng):
    """one rank alone, gradients without an axis, and float32"""
    for n, dtype in ((1, np.float64), (2, np.float32)):
        results, want = averaged_on(student, rng, n, [(), (2, 3), (1, 1)], [[2, 0], [1]], dtype)
        for got, _, _ in results:
            close(got, want, called="average", hint="Which shape has each of them?", rtol=1e-5)


# ---- 5. Run


def go_on(seed, steps, more):
    """Return parameters of a run straight on, and of others that go on from what it saved."""
    import numpy as np

    import minitorch as mt

    small = {"layers": 1, "width": 8, "heads": 2, "context": 6, "vocabulary": 9}

    def go(run, until):
        for step in range(run.step, until):
            x, y = np.random.default_rng([seed, step]).integers(9, size=(2, 3, 6))
            loss = loss_of(run.model(mt.tensor(x)), mt.tensor(y))
            parameters = list(run.model.parameters())
            for p, g in zip(parameters, mt.grad(loss, parameters)):
                p.grad = g
            run.optimizer.step()
            run.step = step + 1
        return [p.detach().numpy().copy() for p in run.model.parameters()]

    first = Run(seed=seed, **small)
    starts = [go(run, 0) for run in (first, Run(seed=seed + 1, **small))]
    moved = [p.copy() for p in go(Run(seed=seed, **small), 1)]
    go(first, steps)
    state = first.state_dict()
    straight = go(first, steps + more)
    first.state_dict()  # the next checkpoint, which leaves the one before as it is
    found = []
    for other in range(2):  # twice from one state: going on must not change it
        run = Run(seed=seed + 1 + other, **small)
        run.load_state_dict(state)
        at = run.step
        found.append([at, go(run, steps + more)])
    return straight, found, [*starts, moved]


def is_trained(beginnings):
    """Raise Feedback unless another seed begins elsewhere, and Adam's steps move parameters."""
    start, other, moved = beginnings
    first = np.concatenate([np.abs(b - a).ravel() for a, b in zip(start, moved)])
    alike = np.isclose(first, np.median(first), rtol=0.1)  # but where the gradient is nothing
    begins_alike = all(np.array_equal(a, b) for a, b in zip(start, other))
    if begins_alike or not np.median(first) or alike.mean() < 0.8:
        raise Feedback(
            "a Run has the model of its own seed and Training's Adam, whose first step moves each "
            "parameter equally far. Only the two methods are yours to write."
        )


@check("Run", weight=3)
def a_run_goes_on_bit_for_bit(student, rng):
    """a run that goes on from a state has the same bits as one that never stopped"""
    steps = int(rng.integers(2, 5))
    straight, found, beginnings = student.probe(
        go_on, seed=int(rng.integers(1000)), steps=steps, more=3
    )
    is_trained(beginnings)
    at, got = found[0]
    if at == steps + 3:
        raise Feedback(
            f"a state of step {steps} says {at}, when another has been saved. Is it a dict of its own?"
        )
    if at != steps:
        raise Feedback(f"after {steps} steps the state says {at}. What is the place in the data?")
    if not all(np.array_equal(a, b) for a, b in zip(got, straight)):
        far = max(np.abs(a - b).max() for a, b in zip(got, straight))
        raise Feedback(
            f"three steps after going on, parameters are {far:.1e} from those without a stop. "
            "What else does a step read that it has not made? And is the state a copy?"
        )


@check("Run", requires="a_run_goes_on_bit_for_bit")
def a_state_can_be_used_twice(student, rng):
    """going on from a state leaves it as it was"""
    straight, found, _ = student.probe(go_on, seed=int(rng.integers(1000)), steps=2, more=2)
    if not all(np.array_equal(a, b) for a, b in zip(found[1][1], straight)):
        raise Feedback(
            "the second run from one state ends elsewhere. Do the parameters share its memory?"
        )


@check("Run", hidden=True, requires="a_run_goes_on_bit_for_bit")
def a_run_goes_on_from_its_very_start(student, rng):
    """a state can be taken before the first step"""
    straight, found, _ = student.probe(go_on, seed=int(rng.integers(1000)), steps=0, more=2)
    close(found[0][1], straight, called="parameters", hint="What is there before the first step?")


# ---- 6. choose, attention_step, iterations


def stretches(logits, temperature, top_k):
    """Return the tokens that can be drawn, and where each one's stretch ends."""
    kept = np.sort(np.argsort(-logits, kind="stable")[:top_k])
    likely = np.exp((logits[kept] - logits.max()) / temperature)
    return kept, np.cumsum(likely) / likely.sum()


@check("choose", weight=1)
def without_temperature_the_largest_is_taken(student, rng):
    """temperature 0 takes the largest, the first of equals"""
    for _ in range(3):
        logits = rng.normal(size=9)
        logits[rng.choice(9, 3, replace=False)] = 5.0
        got = student.call("choose", logits, 0, int(rng.integers(1, 9)), 0.99)
        if got != int(np.argmax(logits)):
            raise Feedback(
                f"choose({logits.round(2)}, temperature 0): got {got!r}, expected "
                f"{int(np.argmax(logits))}, the first of the largest."
            )


@check("choose", weight=3)
def a_token_is_drawn_where_u_falls(student, rng):
    """the token in whose stretch u falls is drawn, by the softmax of logits over temperature"""
    for top_k, temperature in ((None, 1.0), (3, 0.7), (1, 2.0), (5, 1.5), (20, 0.5)):
        logits = rng.normal(size=8)
        kept, ends = stretches(logits, temperature, top_k)
        for k, u in enumerate((np.concatenate([[0], ends[:-1]]) + ends) / 2):
            got = student.call("choose", logits, temperature, top_k, float(u))
            if got == kept[k]:
                continue
            hint = "Lay the tokens side by side, in the order of their numbers."
            if got not in kept:
                hint = f"That token is not among the {top_k} largest."
            elif temperature != 1:
                others, ends_1 = stretches(logits, 1 / temperature, top_k)
                if got == others[min(np.searchsorted(ends_1, u, side="right"), len(kept) - 1)]:
                    hint = "Are the logits divided by the temperature, or multiplied?"
            raise Feedback(
                f"choose({logits.round(2)}, {temperature}, {top_k}, {u:.3f}): got {got}, expected "
                f"{kept[k]}. {hint}"
            )


@check("choose", requires="a_token_is_drawn_where_u_falls")
def of_equals_the_first_are_kept(student, rng):
    """of equal logits the first are kept, and large logits do not overflow"""
    logits = np.array([1.0, 3.0, 3.0, 3.0, 0.0])
    for u, want in ((0.1, 1), (0.9, 2)):
        got = student.call("choose", logits, 1.0, 2, u)
        if got != want:
            raise Feedback(f"choose({logits}, 1.0, top_k 2, {u}): got {got}, expected {want}.")
    large = np.array([2000.0, 8000.0, 4000.0])
    got = student.call("choose", large, 1.0, None, float(rng.uniform()))
    if got != int(np.argmax(large)):
        raise Feedback(f"choose({large}, 1.0): got {got}. exp of 2,000 overflows.")


@check("choose", hidden=True, requires="a_token_is_drawn_where_u_falls")
def the_ends_of_the_line_belong_to_tokens(student, rng):
    """u of 0 is the first token that is kept, u just below 1 the last"""
    logits, least = rng.normal(size=6), float(np.nextafter(1, 0))
    for top_k in (None, 4):
        kept, ends = stretches(logits, 1.0, top_k)
        for u, want in ((0.0, kept[0]), (least, kept[-1]), (float(ends[0]) + 1e-9, kept[1])):
            got = student.call("choose", logits, 1.0, top_k, u)
            if got != want:
                raise Feedback(
                    f"choose with a draw at an end of the line, u = {u}: another token.",
                    hint="Where does the first stretch begin, and the last end?",
                )


def choosing(logits, temperature, top_k):
    """Return whether the logits are what they were before a token was drawn."""
    before = logits.copy()
    choose(logits, temperature, top_k, 0.5)
    return (logits == before).all()


@check("choose", hidden=True, requires="a_token_is_drawn_where_u_falls")
def the_logits_stay_as_they_are(student, rng):
    """the logits stay as they are"""
    logits = rng.normal(size=8)
    if not student.probe(choosing, logits=logits, temperature=0.7, top_k=3):
        hint = "Somebody draws twice from the same logits. Which of your lines writes into them?"
        raise Feedback("choose changed the logits that it was given.", hint=hint)


def stepping(x, weights, heads, starts):
    """Return what attention_step gives, token by token, for rows that begin at different times."""
    import numpy as np

    import minitorch as mt

    rows, tokens, width = x.shape
    attention = Attention(width, heads, np.random.default_rng(0))
    parts = (attention.qkv.weight, attention.qkv.bias, attention.out.weight, attention.out.bias)
    with mt.no_grad():
        for part, array in zip(parts, weights):
            part[...] = mt.tensor(array)
    caches = [Cache(2 * tokens) for _ in range(rows)]
    found = np.zeros_like(x)
    with mt.no_grad():
        for at in range(tokens):
            now = [b for b in range(rows) if starts[b] <= at]
            out = attention_step(attention, mt.tensor(x[now, at]), [caches[b] for b in now])
            found[now, at] = out.numpy()
    return found, [cache.used for cache in caches]


def steps_of(student, rng, shape, heads, starts):
    """Compare attention_step, token by token, with attention over whole rows."""
    x, weights = row(rng, *shape), attention_weights(rng, shape[-1])
    got, used = student.probe(stepping, x=x, weights=weights, heads=heads, starts=starts)
    want = np.zeros_like(x)
    for b, start in enumerate(starts):
        want[b : b + 1, start:] = attending(x[b : b + 1, start:], weights, heads)
    return x, weights, np.asarray(got), want, used


@check("attention_step", weight=3)
def token_by_token_it_is_attention(student, rng):
    """token by token a row gets what attention over the whole row gives"""
    for heads in (2, 4, 1):
        x, weights, got, want, used = steps_of(student, rng, (1, 5, 8), heads, [0])
        if used != [5]:
            raise Feedback(f"after 5 tokens the cache has {used[0]}. How often is add called?")
        hint = "Keys and values of all tokens so far, this one too, are what add returns."
        alone = attending(x.reshape(5, 1, 8), weights, heads).reshape(1, 5, 8)
        if np.allclose(got, alone, atol=1e-4):
            hint = "Each token meets its own key alone. Keys of all are what add returns."
        elif np.allclose(got[:, 0], want[:, 0], atol=1e-4):
            hint = "The first token is right. Which axis does the softmax go over, and by what are scores divided?"
        close(got, want, called=f"attention_step, {heads} heads", hint=hint, rtol=1e-3, atol=1e-4)


@check("attention_step", weight=2, requires="token_by_token_it_is_attention")
def rows_have_caches_of_their_own(student, rng):
    """rows that have seen different numbers of tokens share a step, and do not disturb each other"""
    starts = [0, 2, 1, 3]
    _, _, got, want, _ = steps_of(student, rng, (4, 5, 8), 2, starts)
    hint = "Whose query meets whose cache?"
    close(
        got,
        want,
        called=f"attention_step of rows begun at {starts}",
        hint=hint,
        rtol=1e-3,
        atol=1e-4,
    )


def from_a_cache(x, weights, heads, keys, values):
    """Return what attention_step gives after a cache that was filled by others."""
    import numpy as np

    import minitorch as mt

    attention = Attention(x.shape[1], heads, np.random.default_rng(0))
    parts = (attention.qkv.weight, attention.qkv.bias, attention.out.weight, attention.out.bias)
    cache = Cache(len(keys) + 1)
    with mt.no_grad():
        for part, array in zip(parts, weights):
            part[...] = mt.tensor(array)
        for key, value in zip(keys, values):
            cache.add(key, value)
        return attention_step(attention, mt.tensor(x), [cache]).numpy()


@check("attention_step", weight=2, requires="token_by_token_it_is_attention")
def what_came_before_is_taken_from_the_cache(student, rng):
    """earlier tokens count by the keys and values in the cache, and are not run again"""
    heads, d, seen = 2, 4, int(rng.integers(3, 9))
    x, weights = row(rng, 1, heads * d), attention_weights(rng, heads * d)
    keys, values = row(rng, 2, seen, heads, d)
    got = student.probe(from_a_cache, x=x, weights=weights, heads=heads, keys=keys, values=values)
    query, key, value = (x @ weights[0].T + weights[1]).reshape(3, heads, d)
    keys, values = np.concatenate([keys, [key]]), np.concatenate([values, [value]])
    scores = np.einsum("hd,thd->ht", query, keys) / np.sqrt(d)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    mixed = np.einsum("ht,thd->hd", powers / powers.sum(axis=1, keepdims=True), values)
    close(
        got,
        mixed.reshape(1, -1) @ weights[2].T + weights[3],
        called=f"attention_step after a cache with {seen} keys and values",
        hint="These were put into the cache by add, and no x belongs to them: what add returns is all that there is of earlier tokens.",
        rtol=1e-3,
        atol=1e-4,
    )


@check("attention_step", hidden=True, requires="token_by_token_it_is_attention")
def large_scores_have_a_softmax_too(student, rng):
    """large scores do not overflow"""
    x, weights = 60 * row(rng, 2, 4, 8), attention_weights(rng, 8)
    got, _ = student.probe(stepping, x=x, weights=weights, heads=2, starts=[0, 0])
    close(got, attending(x.astype(float), weights, 2), called="attention_step", rtol=1e-2, atol=0.5,
          hint="Take the largest score off before exp.")  # fmt: skip


def in_batches(lengths, slots):
    return sum(max(lengths[at : at + slots]) for at in range(0, len(lengths), slots))


def in_turn(lengths, slots):
    ends = [0] * slots
    for iterations in lengths:
        ends = sorted([ends[0] + iterations, *ends[1:]])
    return ends[-1]


@check("iterations", weight=2)
def a_static_batch_takes_as_long_as_its_longest(student, rng):
    """static: batches of `slots` in order, each as long as its longest"""
    for n, slots in ((8, 4), (7, 3), (2, 5), (int(rng.integers(9, 20)), 2)):
        lengths = rng.integers(1, 30, size=n).tolist()
        got, want = student.call("static_iterations", lengths, slots), in_batches(lengths, slots)
        if got != want:
            hint = "Do two batches by hand."
            if got == in_turn(lengths, slots):
                hint = "That is continuous."
            elif got == in_batches(lengths[: n - n % slots], slots):
                hint = "The last batch may have fewer requests."
            raise Feedback(
                f"static_iterations({lengths}, {slots}): got {got!r}, expected {want}. {hint}"
            )


@check("iterations", weight=2)
def a_slot_that_is_left_is_taken_at_once(student, rng):
    """continuous: the next request takes the slot that is free first"""
    for n, slots in ((8, 4), (7, 3), (2, 5), (int(rng.integers(9, 20)), 2)):
        lengths = rng.integers(1, 30, size=n).tolist()
        got, want = student.call("continuous_iterations", lengths, slots), in_turn(lengths, slots)
        if got != want:
            hint = "Which slot is free first, and when is the last one free?"
            if got == max(sum(lengths[at::slots]) for at in range(slots)):
                hint = "That deals the requests out in turns. Is the next slot in turn free first?"
            elif got == -(-sum(lengths) // slots):
                hint = "That would be so if requests could be cut."
            raise Feedback(
                f"continuous_iterations({lengths}, {slots}): got {got}, expected {want}. {hint}"
            )


@check("iterations", hidden=True, requires="a_slot_that_is_left_is_taken_at_once")
def one_slot_and_no_request_are_counted(student, rng):
    """one slot takes the sum, no request no iteration"""
    lengths = rng.integers(1, 9, size=5).tolist()
    for name in ("static_iterations", "continuous_iterations"):
        got = [student.call(name, lengths, 1), student.call(name, [], 3)]
        close(got, [sum(lengths), 0], called=name, hint="One slot, and then no request.")


def leaves_lengths(name, lengths):
    before = list(lengths)
    globals()[name](lengths, 2)
    return lengths == before


@check("iterations", hidden=True, requires="one_slot_and_no_request_are_counted")
def the_lengths_stay_as_they_are(student, rng):
    """lengths are as they were afterwards"""
    for name in ("static_iterations", "continuous_iterations"):
        if not student.probe(leaves_lengths, name=name, lengths=rng.integers(1, 9, 5).tolist()):
            hint = "The other of the two is asked about the same list. Which line takes from it?"
            raise Feedback(f"{name} changed the list of lengths.", hint=hint)


# ---- 7. Generator


def generating(weights, order):
    """Return the logits of a Generator over a GPT of these weights, for calls in order."""
    import numpy as np

    import minitorch as mt

    model = GPT(layers=2, width=8, heads=2, context=12, vocabulary=9)
    with mt.no_grad():
        for name, parameter in model.named_parameters():
            parameter[...] = mt.tensor(weights[name])
    generator, found = Generator(model), []
    for what, slots, tokens in order:
        if what == "forget":
            with mt.no_grad():
                model.tokens[tokens] = mt.tensor(np.zeros((len(tokens), 8), np.float32))
        elif what == "free":
            generator.free(slots[0])
        elif what == "start":
            found.append([np.asarray(generator.start(slots[0], list(tokens)))])
        else:
            found.append(np.asarray(generator.step(list(slots), list(tokens))))
    return found


LINEAR = {"attention.qkv": (24, 8), "attention.out": (8, 8), "up": (32, 8), "down": (8, 32)}


def small_gpt(rng):
    """Return weights, by name, of a GPT of two layers, of width 8, for 12 places and 9 tokens."""
    weights = {"tokens": row(rng, 9, 8), "places": row(rng, 12, 8)}
    linear = {f"blocks.{k}.{name}": shape for k in (0, 1) for name, shape in LINEAR.items()}
    for name, shape in (linear | {"head": (9, 8)}).items():
        weights[f"{name}.weight"] = row(rng, *shape) / 3
        weights[f"{name}.bias"] = row(rng, shape[0]) / 3
    for name in ("norm", *(f"blocks.{k}.{at}" for k in (0, 1) for at in ("before", "between"))):
        weights[f"{name}.gain"], weights[f"{name}.bias"] = 1 + row(rng, 8) / 3, row(rng, 8) / 3
    return weights


def logits_by_formula(w, tokens):
    """Return the logits (V,) of a row's next token, by the formulas of the notebook's GPT."""

    def norm(name, h):
        h = (h - h.mean(axis=-1, keepdims=True)) / np.sqrt(h.var(axis=-1, keepdims=True) + 1e-5)
        return h * w[f"{name}.gain"] + w[f"{name}.bias"]

    def linear(name, h):
        return h @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    h = (w["tokens"][tokens] + w["places"][: len(tokens)])[np.newaxis].astype(float)
    for block in ("blocks.0", "blocks.1"):
        parts = [
            w[f"{block}.attention.{p}.{of}"] for p in ("qkv", "out") for of in ("weight", "bias")
        ]
        h = h + attending(norm(f"{block}.before", h), parts, 2)
        up = np.maximum(linear(f"{block}.up", norm(f"{block}.between", h)), 0)
        h = h + linear(f"{block}.down", up)
    return linear("head", norm("norm", h))[0, -1]


def generated(student, rng, order):
    """Yield each call that gives logits, the logits, and those of the formula for whole rows."""
    weights, rows = small_gpt(rng), {}
    results = iter(student.probe(generating, weights=weights, order=order))
    for what, slots, tokens in order:
        if what in ("free", "forget"):
            continue
        for slot, token in zip(slots, [tokens] if what == "start" else tokens):
            rows[slot] = list(token) if what == "start" else [*rows[slot], token]
        want = np.stack([logits_by_formula(weights, rows[slot]) for slot in slots])
        called = f"{what}({slots if what == 'step' else slots[0]}, {tokens})"
        yield called, next(results), want


def drawn(rng, n):
    return rng.integers(9, size=n).tolist()


@check("Generator", weight=2)
def a_prompt_is_run_to_its_end(student, rng):
    """start returns the logits after the last token of the prompt, shape (V,)"""
    order = [["start", [0], drawn(rng, 4)], ["start", [3], drawn(rng, 1)]]
    for called, got, want in generated(student, rng, order):
        hint = "Which of the logits is that after the last token?"
        close(got, want, called=called, hint=hint, rtol=1e-3, atol=1e-4)


@check("Generator", weight=2, requires="a_prompt_is_run_to_its_end")
def steps_go_on_with_each_slots_row(student, rng):
    """step adds a token to the row of each slot, in the order that is asked for"""
    order = [["start", [2], drawn(rng, 3)], ["start", [0], drawn(rng, 5)]]
    order += [["step", slots, drawn(rng, len(slots))] for slots in ([0, 2], [2, 0], [2], [0, 2])]
    for called, got, want in generated(student, rng, order):
        hint = "Which cache belongs to which token?"
        close(got, want, called=called, hint=hint, rtol=1e-3, atol=1e-4)


@check("Generator", weight=2, requires="steps_go_on_with_each_slots_row")
def a_step_runs_the_new_token_alone(student, rng):
    """a step runs the new tokens through the model, and none of those before again"""
    numbers = rng.permutation(9).tolist()
    old, new = numbers[:5], numbers[5:]
    order = [
        ["start", [0], old],
        ["forget", [], old],
        ["step", [0], new[:1]],
        ["step", [0], new[1:2]],
    ]
    for called, got, want in generated(student, rng, order):
        hint = (
            "Between start and step the check took the vectors of the prompt's tokens out of the "
            "model. Which of the rows that you run need them, when their keys and values are kept?"
        )
        close(got, want, called=called, hint=hint, rtol=1e-3, atol=1e-4)


@check("Generator", requires="a_prompt_is_run_to_its_end")
def a_slot_begins_anew(student, rng):
    """a slot that is started again has forgotten the row before, freed or not"""
    order = [["start", [1], drawn(rng, 4)], ["start", [1], drawn(rng, 2)]]
    order += [["step", [1], drawn(rng, 1)], ["free", [1], []], ["start", [1], drawn(rng, 3)]]
    for called, got, want in generated(student, rng, order):
        hint = "What of the row before is still there?"
        close(got, want, called=called, hint=hint, rtol=1e-3, atol=1e-4)


def freed(seed):
    """Return how many slots' rows are held: after three starts, with another generator's, after frees.

    And whether the prompts are what they were.
    """
    import gc
    import weakref

    model = GPT(layers=1, width=8, heads=2, context=6, vocabulary=9, seed=seed)
    generator, held = Generator(model), weakref.WeakSet()
    begin = Cache.__init__

    def noted(self, *arguments, **options):
        begin(self, *arguments, **options)
        held.add(self)

    Cache.__init__ = noted
    try:
        prompts = [[slot, 3] for slot in (0, 1, 2)]
        for slot, prompt in enumerate(prompts):
            generator.start(slot, prompt)
        before, other = len(held), Generator(model)
        other.start(1, [4])
        gc.collect()
        beside = len(held)
        generator.free(1)
        generator.free(7)
        gc.collect()
        return [before, beside, len(held)], prompts == [[0, 3], [1, 3], [2, 3]]
    finally:
        Cache.__init__ = begin


@check("Generator", hidden=True, requires="a_prompt_is_run_to_its_end")
def what_is_freed_is_held_no_more(student, rng):
    """free lets go of its slot's caches and of no others, minds none not there; prompts stay"""
    (before, beside, after), same = student.probe(freed, seed=int(rng.integers(1000)))
    if (before, beside) == (3, 3):
        raise Feedback(
            "Three slots were started, and one of a second Generator: the caches of 3 are held.",
            hint="To whom do the caches belong: to one Generator, or to all of them?",
        )
    if (before, beside, after) != (3, 4, 3):
        raise Feedback(
            "Three slots were started, one of a second Generator, and one of the first was freed: "
            f"the caches of {before}, {beside} and {after} were held.",
            hint="Who still holds the caches of a slot that was freed?"
            if after > 3
            else "Which slots does free forget, and which was it asked to?",
        )
    if not same:
        hint = "The prompt belongs to who asks. Which line takes from it?"
        raise Feedback("start changed the list of tokens that it was given.", hint=hint)


# ---- 8. own_seconds


def nested(rng, depth, begin, end):
    """Return spans inside of (begin, end), with gaps, and spans inside of these."""
    if depth == 0:
        return []
    cuts = np.sort(rng.uniform(begin, end, size=2 * int(rng.integers(1, 4))))
    found = []
    for low, high in cuts.reshape(-1, 2).tolist():
        found.append([f"layer {int(rng.integers(4))}", low, high])
        found += nested(rng, depth - 1, low, high)
    return found


def owned(spans):
    seconds = Counter()
    for k, (layer, begin, end) in enumerate(spans):
        inside = [s for i, s in enumerate(spans) if i != k and begin <= s[1] and s[2] <= end]
        direct = [
            s
            for s in inside
            if not any(o is not s and o[1] <= s[1] and s[2] <= o[2] for o in inside)
        ]
        seconds[layer] += end - begin - sum(s[2] - s[1] for s in direct)
    return dict(seconds)


def measuring(spans):
    return own_seconds([tuple(span) for span in spans])


def leaves_spans(spans):
    given = [tuple(span) for span in spans]
    own_seconds(given)
    return given == [tuple(span) for span in spans]


@check("own_seconds", weight=3)
def what_lies_inside_is_taken_off(student, rng):
    """a layer's seconds are those of its spans, without the spans directly inside of them"""
    for depth in (1, 2, 3):
        spans = nested(rng, depth, 0.0, 10.0)
        spans = [spans[k] for k in rng.permutation(len(spans))]
        got, want = student.probe(measuring, spans=spans), owned(spans)
        hint = "Do three spans by hand, one inside of another."
        twice, whole = Counter(), Counter()  # what two mistakes give
        for layer, begin, end in spans:
            twice[layer] += end - begin
            inside = [t for _, s, t in spans if begin <= s and t <= end]
            starts = [s for _, s, t in spans if begin <= s and t <= end]
            whole[layer] += 2 * (end - begin) - (sum(inside) - sum(starts))
        if depth > 1 and all(np.isclose(got.get(k, np.nan), v) for k, v in twice.items()):
            hint = "That counts what lies inside twice."
        elif set(got) == set(want) and all(np.isclose(got[k], v) for k, v in whole.items()):
            hint = "A span is taken off by all around it. Inside of which one does it lie directly?"
        close(
            got,
            want,
            called=f"own_seconds of {len(spans)} spans, {depth} deep",
            hint=hint,
            atol=1e-9,
        )


@check("own_seconds", weight=2, requires="what_lies_inside_is_taken_off")
def spans_that_touch_lie_apart(student, rng):
    """one that begins where another ends is not inside of it, and two may begin together"""
    spans = [["a", 0.0, 4.0], ["b", 0.0, 1.0], ["c", 1.0, 2.0], ["b", 2.0, 4.0], ["a", 4.0, 5.0]]
    spans = [spans[k] for k in rng.permutation(5)]
    hint = "Which of two spans that begin together is outside?"
    close(student.probe(measuring, spans=spans), {"a": 1.0, "b": 3.0, "c": 1.0},
          called=f"own_seconds of {spans}", hint=hint, atol=1e-9)  # fmt: skip


@check("own_seconds", hidden=True, requires="what_lies_inside_is_taken_off")
def a_layer_may_lie_inside_of_itself(student, rng):
    """a layer that calls itself has its time once, and no span has none; the spans stay"""
    inner = sorted(rng.uniform(1, 9, size=2).tolist())
    got = student.probe(measuring, spans=[["a", 0.0, 10.0], ["a", *inner]])
    close(got, {"a": 10.0}, called="own_seconds", hint="Add and take off by layer.", atol=1e-9)
    close(student.probe(measuring, spans=[]), {}, called="own_seconds", hint="No span, no layer.")
    if not student.probe(leaves_spans, spans=[["b", 2.0, 3.0], ["c", 1.0, 4.0], ["a", 0.0, 5.0]]):
        hint = "They are asked about again. Which line sorts them, or takes from them?"
        raise Feedback("own_seconds changed the list of spans.", hint=hint)
