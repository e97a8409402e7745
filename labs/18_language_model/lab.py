# %% [markdown] builds="a GPT over your own operators, trained on two ranks, checkpointed, and served to many readers at once" needs="02, 03, 09, 10, 15, 16"
# # Lab 18: A language model
#
# - **You build** a tokenizer, attention, a GPT and its training over pieces that you wrote before; then a cache, batches that never wait, and a server's generator.
# - **You need** the labs before. A piece of theirs whose checks pass is used; else the course's own stands in. `autograder catch-up language_model` says which.
# - **It takes** about 150 minutes: introduction 2, sections 14, 33, 9, 14, 12, 29, 15 and 12, discussion 10. Take three sittings: sections 1 to 3, 4 and 5, 6 to 8. The reading note, with its paper, is for another day.
#
# Seventeen labs have built pieces. Here all of them are at work together: a model that you train on several ranks over a link, kill, resume, and serve.
#
# Write each prediction down before you measure.

# %% tags="setup"
import math
import os
import platform
import signal
import tempfile
from collections import Counter
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

# %% tags="setup"
import lessons.language.data as data
import lessons.language.modules as course
import minitorch as mt
import minitorch.nn.functional as F
from autograder import compare, earlier, lab
from ddp_lab import Link, RankFailed, launch, simulate
from ddp_lab.data_parallel import Checkpoint
from ddp_lab.simulate import LayerCost, cluster
from lessons.language.figures import draw_batches, draw_growth, draw_profile, own_times
from lessons.language.ranks import share_products, stage_step, train_in_turns
from lessons.language.serving import TypingPage, load_of, serve_load, summary_of
from lessons.language.stack import Watch, lines_of, see_stack
from lessons.language.torch_gpt import torch_loss_and_gradients
from lessons.timing import milliseconds
from minitorch import Op, serve
from minitorch.graph import jit

# %% tags="setup"
q = lab("language_model")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
mt.set_num_threads(1)
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())


# %% [markdown]
# Your pieces: the reverse sweep of lab 02, the modules of lab 03, the ring of lab 09, the buckets of lab 10, the interval of lab 16. (No reading: what stands in for them.)


# %%
def course_gradients(output, inputs):
    return mt.grad(output, list(inputs))


def course_ring(comm, x, op="sum"):
    return comm.all_reduce(x, op, algorithm="ring")


def course_buckets(n_bytes, cap_bytes):
    order = [*range(len(n_bytes))][::-1]
    fills = np.cumsum([n_bytes[i] for i in order]) // cap_bytes
    return [[i for i, fill in zip(order, fills) if fill == b] for b in dict.fromkeys(fills)]


def course_interval(write_s, mtbf_s):
    return simulate.checkpointing(mtbf_s, write_s, 0.0).interval_s


# %%
MODULES = (course.Parameter, course.Module, course.Linear, course.Adam)
gradients = earlier("autodiff", "gradients", reference=course_gradients)
Parameter, Module, Linear, Adam = earlier(
    "modules_and_training", "Parameter", "Module", "Linear", "Adam", reference=MODULES
)
ring = earlier("ring_all_reduce", "ring_all_reduce", reference=course_ring)
assign_buckets = earlier("data_parallel", "assign_buckets", reference=course_buckets)
young_interval = earlier("at_scale", "young_interval", reference=course_interval)

# %% [markdown]
# ## 1. Text, and a task with exact answers
#
# Every Python carries text: the docstrings of its library. They are read here, and nothing is fetched. A model reads numbers, so each character is a **token**, a number below 96.

# %%
TEXT = data.docstrings(60_000)
print(TEXT[200:420])
SAMPLE = data.tokens_of(TEXT[:20_000])
print(len(TEXT), "characters;", SAMPLE[:12], "are the tokens of", repr(TEXT[:12]))

# %% [markdown]
# **Idea.** Characters make long rows. **Byte pairs** shorten them: find the pair of neighbours that occurs most often, give it a token of its own, put that in place of the pair everywhere, and begin again. Frequent words become one token in the end. (Sennrich et al., *Neural Machine Translation of Rare Words with Subword Units*, ACL 2016.)
#
# Pairs are replaced from left to right, and none overlaps another: in `a a a` the first two are a pair.
#
# **Predict.** After 64 merges, how many characters is a token, on average?

# %%
### BEGIN STARTER
# predicted_characters = ...
### END STARTER
### BEGIN SOLUTION
predicted_characters = 1.7
### END SOLUTION


# %% question="pairs" points="6" defines="merge learn_pairs" hint1="merge: walk with an index. Where the two tokens at it are the pair, append the new token and go on by two." hint2="learn_pairs: Counter(pairwise(tokens)) counts the pairs. The next round counts in what merge returned." hint3="Of equally frequent pairs the largest: max(counts, key=lambda pair: (counts[pair], pair)). Where no pair is left, stop."
def merge(tokens, pair, new):
    """Return a new list of the tokens with `new` in place of each `pair`, from left to right."""
    ### BEGIN SOLUTION
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged
    ### END SOLUTION


def learn_pairs(tokens, n, first):
    """Return the pairs of n rounds, in order: each the most frequent, then merged.

    Round k makes token `first + k`. Of equally frequent pairs it takes the largest. The list is
    shorter where no two tokens are left to be merged. `tokens` stays as it is.
    """
    ### BEGIN SOLUTION
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
    return pairs
    ### END SOLUTION


# %%
print(learn_pairs(data.tokens_of("low lower lowest"), 3, 96), merge([5, 5, 5], (5, 5), 96))

# %% tags="check"
q.check("pairs")

# %%
PAIRS = learn_pairs(SAMPLE, 64, 96)
VOCABULARY = 96 + len(PAIRS)
WORDS = list(data.CHARACTERS)
for left, other in PAIRS:
    WORDS.append(WORDS[left] + WORDS[other])


def encode(text):
    tokens = data.tokens_of(text)
    for new, pair in enumerate(PAIRS, start=96):
        tokens = merge(tokens, pair, new)
    return tokens


def decode(tokens):
    return "".join(WORDS[token] for token in tokens)


# %%
TOKENS = encode(TEXT)
compare("characters a token", predicted_characters, len(TEXT) / len(TOKENS))
print("the last ten:", WORDS[-10:], " back again:", decode(TOKENS) == TEXT)

# %% [markdown]
# Text can be admired, not measured. So half of the rows that the model reads are **problems** with exact answers: four digits, then the same digits sorted. And what could a table do that knows how often each digit follows the last three tokens? `data.least_table_loss` gives the least loss of any such table: its mean entropy, in nats a digit.

# %%
CONTEXT, DIGITS, ROWS = 64, 4, 12
SEEN, HELD_OUT = TOKENS[: -20 * 65], np.array(TOKENS[-20 * 65 :]).reshape(20, 65)
batch = data.Batches(SEEN, CONTEXT, DIGITS, ROWS)
print(decode(batch(0)[0][-1][:30]))
TABLE_LOSS = data.least_table_loss(DIGITS, seen=3)
print(f"a table by three tokens: at least {TABLE_LOSS:.2f} nats a digit, chance {math.log(10):.2f}")

# %% [markdown]
# **Reflect.** The first digit of an answer stands behind `>`. What has a model to look at for it, and how far back? Why can no table by the last few tokens do that?
#
# *The real system.* GPT-2 merges bytes, not characters, 50,000 times, and never across words; Llama 2 keeps every digit a token by itself, so that numbers are read digit by digit.

# %% [markdown]
# ## 2. Attention, a block, a GPT
#
# A layer that looks at each token by itself cannot sort. Here is one that gives each token the mean of all tokens up to it.

# %%
tiny = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
print((np.tril(np.ones((3, 3))) / [[1], [2], [3]]) @ tiny)

# %% [markdown]
# **Idea.** A mean treats all alike. **Attention** weights them: each token has a **query** (what it looks for), a **key** (what it offers) and a **value** (what it hands over), three products with its vector of $C$ numbers.
#
# $$\text{out} = \text{softmax}\!\left(\frac{q k^T}{\sqrt D} + \text{mask}\right) v, \qquad \text{mask}_{ij} = -\infty \text{ for } j > i .$$
#
# The mask is **causal**: no token sees what comes after it, so a row of $T$ tokens is $T$ exercises at once. $H$ **heads** of $D = C/H$ numbers each do this side by side. (Vaswani et al., *Attention Is All You Need*, 2017.)
#
# First the softmax with its mask, as an operator of lab 02. With $p$ the result and $\bar p$ its adjoint, the adjoint of the scores is $p\,(\bar p - \sum_j \bar p_j\, p_j)$, row by row.
#
# **Predict.** A row of 64 tokens, 4 heads, 64 numbers wide. How many floats are the scores $q k^T$, as a multiple of the floats of the values $v$?

# %%
### BEGIN STARTER
# predicted_scores = ...
### END STARTER
### BEGIN SOLUTION
predicted_scores = 4 * 64 * 64 / (64 * 64)
### END SOLUTION


# %% question="CausalSoftmax" points="5" hint1="xp.tril(xp.ones((T, T), dtype=bool)) is True where a token may look; xp.where(mask, scores, -xp.inf) is the masked scores." hint2="Subtract each row's largest before xp.exp, or large scores overflow; then divide by the row's sum. Rows are the last axis, keepdims=True." hint3="gradient: `node` is the result, a tensor. (out_grad * node).sum(dim=-1, keepdim=True) is the sum of the formula."
class CausalSoftmax(Op):
    """Softmax over the last axis of scores (..., T, T), in their dtype; row i sees columns 0 to i."""

    def compute(self, xp, scores):
        ### BEGIN SOLUTION
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)
        ### END SOLUTION

    def gradient(self, out_grad, node):
        """Return the adjoint of the scores, in operators of tensors."""
        ### BEGIN SOLUTION
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)
        ### END SOLUTION


# %%
causal_softmax = CausalSoftmax()
print(causal_softmax(mt.tensor([[0.0, 9.0, 9.0], [1.0, 1.0, 9.0], [0.0, 0.0, 0.0]])).numpy())

# %% tags="check"
q.check("CausalSoftmax")


# %% [markdown]
# Now attention. `self.qkv` makes queries, keys and values in one product: the first $C$ of its $3C$ outputs are the queries, head by head, then the keys, then the values. `self.out` mixes what the heads found.


# %% question="Attention" points="7" hint1="self.qkv(x) is (B, T, 3C). reshape(B, T, 3, H, C // H) and permute(2, 0, 3, 1, 4) make it (3, B, H, T, D); its three parts are q, k and v." hint2="k.transpose(-1, -2) is (B, H, D, T). The scores are divided by the square root of D, the width of a head." hint3="What comes out is (B, H, T, D). Heads go back beside each other: permute(0, 2, 1, 3), then reshape(B, T, C), then self.out."
class Attention(Module):
    """Causal attention with heads: (B, T, C) to (B, T, C)."""

    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        ### BEGIN SOLUTION
        rows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = causal_softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))
        ### END SOLUTION


# %% tags="check"
q.check("Attention")


# %% [markdown]
# A **block** adds what attention says to what was there, and then what two linear layers make of each token. A norm before each keeps numbers of one size. Of blocks a GPT is made.


# %%
class Norm(Module):
    def __init__(self, width):
        self.gain, self.bias = Parameter(np.ones(width)), Parameter(np.zeros(width))

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.gain, self.bias)


class Block(Module):
    def __init__(self, width, heads, rng):
        self.before, self.attention = Norm(width), Attention(width, heads, rng)
        self.between, self.up = Norm(width), Linear(width, 4 * width, rng)
        self.down = Linear(4 * width, width, rng)
        with mt.no_grad():  # what is added to a sum of many starts small
            self.attention.out.weight *= 0.35
            self.down.weight *= 0.35

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.down(mt.relu(self.up(self.between(x))))


# %%
class GPT(Module):
    def __init__(self, layers=2, width=64, heads=4, context=64, vocabulary=160, seed=0):
        rng = np.random.default_rng(seed)
        self.tokens = Parameter(0.1 * rng.normal(size=(vocabulary, width)))
        self.places = Parameter(0.1 * rng.normal(size=(context, width)))
        self.blocks = [Block(width, heads, rng) for _ in range(layers)]
        self.norm, self.head = Norm(width), Linear(width, vocabulary, rng)
        with mt.no_grad():
            self.head.weight *= 0.5

    def embed(self, tokens):
        return F.embedding(tokens, self.tokens) + self.places[: tokens.shape[-1]]

    def top(self, x):
        return self.head(self.norm(x))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.top(x)


# %%
def loss_of(logits, y):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def tensors(rows):
    return [mt.tensor(part) for part in rows]


def gradients_of(loss, model):
    with mt.no_grad():  # nobody asks for gradients of gradients
        return gradients(loss, list(model.parameters()))


# %%
model, (X, Y) = GPT(vocabulary=VOCABULARY), batch(0)
first_loss = loss_of(model(mt.tensor(X)), mt.tensor(Y))
mine_are = gradients_of(first_loss, model)
weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
torch_loss, theirs_are = torch_loss_and_gradients(weights, X, Y, heads=4)
apart = max(np.abs(g.numpy() - theirs_are[name]).max() for name, g in zip(weights, mine_are))
print(f"loss {first_loss.item():.4f}, torch's {torch_loss:.4f}; gradients apart by {apart:.1e}")

# %% [markdown]
# **Write** what a block costs by hand, for a row of `tokens` tokens. A matrix of $m \times n$ has as many parameters, and takes $2mn$ flops a token; biases and norms count as parameters, and their flops not at all. Do not forget the two products of attention itself.


# %% question="block_costs" points="5" hint1="Linear layers of a block: width to 3 width, width to width, width to 4 width, 4 width to width. Each has a bias as long as its output." hint2="A norm has two vectors of `width`; there are two norms." hint3="q k^T: for each head (T, D) by (D, T), 2 T T D flops; over all heads 2 T T width. The weights times v take as many."
def block_costs(tokens, width):
    """Return (parameters, flops of a forward pass over one row) of a block."""
    ### BEGIN SOLUTION
    parameters = 12 * width**2 + 9 * width + 4 * width
    flops = 2 * tokens * 12 * width**2 + 4 * tokens**2 * width
    return parameters, flops
    ### END SOLUTION


# %% tags="check"
q.check("block_costs")


# %%
def values_of(output):
    """Return all results that a value was computed from, each array once; parameters are none."""
    found, left = {}, [output]
    while left:
        value = left.pop()
        if id(value) not in found and value.op is not None:
            found[id(value)] = value
            left += value.inputs
    return [*found.values()]


def products_in(output):
    """Return the flops of the matrix products that a value was computed by."""
    nodes = [v for v in values_of(output) if "matmul" in v.op.name.lower()]
    return sum(2 * v.numel() * v.inputs[0].shape[-1] for v in nodes)


# %%
block, h = model.blocks[0], mt.tensor(np.ones((ROWS, CONTEXT, 64), np.float32))
numbers, flops = block_costs(CONTEXT, 64)
compare("parameters of a block", numbers, sum(p.numel() for p in block.parameters()))
compare("flops of a block, forward", ROWS * flops, products_in(block(h)))
scores = next(v for v in values_of(block(h)) if isinstance(v.op, CausalSoftmax))
compare("scores / values", predicted_scores, scores.numel() / h.numel())

# %% [markdown]
# **Predict** seconds. A backward pass has twice the products of a forward pass. How long would a training step take if it did nothing but its products, at the rate of one large product here; and how many times as long does it take? And how many floats does one block hold until backward, as a multiple of its input?

# %%
### BEGIN STARTER
# predicted_over_products, predicted_held = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_over_products, predicted_held = 2.0, 28 + 3 * 4
### END SOLUTION


# %%
def held_floats(output):
    """Return the floats that the graph below a value holds; memory that is shared counts once."""
    return data.distinct_bytes(v.detach().numpy() for v in values_of(output)) / 4


def forward_backward():
    return gradients_of(loss_of(model(mt.tensor(X)), mt.tensor(Y)), model)


square = mt.ones(512, 512)
product_ms, step_ms = milliseconds(lambda: square @ square, forward_backward)
STEP_FLOPS = 3 * (ROWS * 2 * flops + 2 * ROWS * CONTEXT * 64 * VOCABULARY)
at_best_ms = STEP_FLOPS / (2 * 512**3 / product_ms)
compare("step over its products alone", predicted_over_products, step_ms / at_best_ms)
compare("floats held by a block / its input", predicted_held, held_floats(block(h)) / h.numel())


# %% [markdown]
# And it learns. One step: loss, gradients by your sweep, the average over ranks if there are several, the optimizer.


# %% question="train_step" points="6" hint1="loss_of(model(x), y) with tensors of x and y; gradients(loss, parameters), under mt.no_grad(), gives one tensor a parameter, in order." hint2="average takes and gives a list of arrays: grad.numpy() makes one, mt.tensor(array) goes back. Without average the gradients stay as they are." hint3="Each parameter's .grad is what optimizer.step() reads. Set it, do not add to it. Return loss.item()."
def train_step(model, optimizer, x, y, average=None):
    """Take one step of training on rows x with next tokens y; return the loss before it, a float.

    Args:
        x, y: arrays of tokens, (B, T).
        average: where it is given, average(list of arrays) returns what to use as gradients.
    """
    ### BEGIN SOLUTION
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        grads = [mt.tensor(g) for g in average([g.numpy() for g in grads])]
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %%
adam = Adam(model.parameters(), lr=0.003)
print([round(train_step(model, adam, *batch(at)), 2) for at in range(8)])

# %% tags="check"
q.check("train_step")

# %% [markdown]
# **Reflect.** Which of the costs of a block grow with the square of the tokens, and from how many tokens on are they the larger part at this width? What would FlashAttention (Dao 2022) change: flops, or the floats held?
#
# *The real system.* GPT-2's smallest model is yours with 12 blocks, 12 heads and a width of 768. [`scaled_dot_product_attention`](https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html) computes scores, softmax and sum in one kernel, and holds no scores.

# %% [markdown]
# ## 3. Where the time goes
#
# A step takes longer than its products. Where is the rest? A profiler counts the time that each function spends by itself, and calls.

# %%
draw_profile(own_times(forward_backward))

# %% [markdown]
# **Idea.** Three ways out. Run the loss as a **graph** (lab 04): what is planned once need not be decided again at each step. **Compile** it (labs 06 and 07): passes rewrite the graph, elementwise chains become loops in one kernel. And where memory is short, **recompute**: forward forgets what is inside a block, and backward runs the block again.
#
# **Predict.** Backward costs twice a forward pass. How many times as long does a step take with every block recomputed? And with both blocks, what share of the floats is held?

# %%
### BEGIN STARTER
# predicted_longer, predicted_share = ..., ...
### END STARTER
### BEGIN SOLUTION
# A block's input in place of the 40 times as much of above; and some 8 for what is outside blocks.
predicted_longer, predicted_share = 4 / 3, (2 * 1 + 8) / (2 * 40 + 8)
### END SOLUTION


# %% question="Recomputed" points="6" hint1="compute gets arrays. Under mt.no_grad() nothing inside the block is recorded: self.block(mt.tensor(x)).numpy()." hint2="gradient: node.inputs[0].detach().requires_grad_() is x again, without its past. Under mt.enable_grad() run the block on it." hint3="mt.grad(out, [x, *parameters], grad_outputs=out_grad) gives a list of gradients; an operator returns a tuple, one for each of node.inputs."
class Recomputed(Op):
    """A block as one operator: called with x and the block's parameters, it holds x alone."""

    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        """Return the block's result; nothing of its inside is recorded."""
        ### BEGIN SOLUTION
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()
        ### END SOLUTION

    def gradient(self, out_grad, node):
        """Run the block again, recorded; return the gradients of x and of each parameter."""
        ### BEGIN SOLUTION
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        return tuple(mt.grad(out, [x, *node.inputs[1:]], grad_outputs=out_grad))
        ### END SOLUTION


# %% tags="check"
q.check("Recomputed")


# %%
def recomputed_loss(x, y):
    h = model.embed(x)
    for block in model.blocks:
        h = Recomputed(block)(h, *block.parameters())
    return loss_of(model.top(h), y)


def plain_loss(x, y):
    return loss_of(model(x), y)


# %%
ways = {"eager": plain_loss, "recomputed": recomputed_loss}
ways["graph"] = jit(plain_loss, optimize=False)
ways["compiled"] = jit(plain_loss)
losses = {name: way(*tensors((X, Y))).item() for name, way in ways.items()}
print("one loss:", {name: round(loss, 4) for name, loss in losses.items()})
inputs = list(model.parameters())
runs = [lambda way=way: mt.grad(way(*tensors((X, Y))), inputs) for way in ways.values()]
times_ms = dict(zip(ways, milliseconds(*runs, repeats=5)))
compare("recomputed / eager", predicted_longer, times_ms["recomputed"] / times_ms["eager"])
held = {name: held_floats(ways[name](*tensors((X, Y)))) for name in ("recomputed", "eager")}
compare("floats held, recomputed / eager", predicted_share, held["recomputed"] / held["eager"])
for name in ("graph", "compiled"):
    print(f"{name} / eager: {times_ms[name] / times_ms['eager']:.2f}")

# %% [markdown]
# **Reflect.** In the profile, which share belongs to matrix products, and which to reading and writing numbers? By Amdahl: how much faster does a step get if everything but products takes no time? Compare with what the compiler reached.
#
# *The real system.* `torch.utils.checkpoint` is your operator. Megatron recomputes attention's scores alone: many floats, few flops.

# %% [markdown]
# ## 4. Many ranks
#
# The second sitting. Two ranks lie on two **hosts**, which a link joins in real seconds (lab 09); each has half of the rows.

# %%
LINK = Link(20e-6, 1 / 1e9)
GRAD_BYTES = [p.nbytes for p in model.parameters()]
BUCKETS = assign_buckets(GRAD_BYTES, sum(GRAD_BYTES) / 4)
print(f"{len(GRAD_BYTES)} gradients, {sum(GRAD_BYTES):,} bytes, in {len(BUCKETS)} buckets")

# %% [markdown]
# **Idea.** Your ring under your buckets: of the gradients of each bucket one flat array, one all-reduce by `ring(comm, flat)`, divided by the number of ranks, and cut up again.
#
# **Predict.** By $2 (\alpha + \beta \cdot \text{bytes} / 2)$ for each all-reduce of two ranks: how many ms do all buckets take together?

# %%
### BEGIN STARTER
# predicted_ms = ...
### END STARTER
### BEGIN SOLUTION
predicted_ms = 1e3 * 2 * (len(BUCKETS) * 20e-6 + sum(GRAD_BYTES) / 1e9 / 2)
### END SOLUTION


# %% question="average" points="6" hint1="For each bucket np.concatenate of grads[i].reshape(-1), for i in the bucket." hint2="ring returns the sum over the ranks: divide by comm.size. Then walk with an offset: as many elements as each gradient has, in its shape." hint3="The result is a list in the order of grads: make it first, then fill averages[i]. What was handed in stays as it is."
def average(comm, grads, buckets, ring):
    """Return the average of each gradient over all ranks, one `ring(comm, flat)` a bucket.

    Args:
        grads: arrays, in the same order on all ranks; they stay as they are.
        buckets: lists of indices; each index is in one.
    """
    ### BEGIN SOLUTION
    averages = [None] * len(grads)
    for bucket in buckets:
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size] / comm.size
            averages[i] = part.reshape(grads[i].shape)
            at += grads[i].size
    return averages
    ### END SOLUTION


# %% tags="check"
q.check("average")


# %%
def mine(comm, rows):
    """Return this rank's rows of a batch."""
    return [part[comm.rank :: comm.size] for part in rows]


def by_data(comm, averages=True):
    """Return what takes a step on this rank's rows: of data parallel training, if it averages."""
    model = GPT(vocabulary=VOCABULARY)
    adam = Adam(model.parameters(), lr=0.003)
    averaged = partial(average, comm, buckets=BUCKETS, ring=ring) if averages else None
    return lambda step: train_step(model, adam, *mine(comm, batch(step)), averaged)


def ring_ms(comm, ring):
    """Return the least ms of averaging all gradients."""
    grads = [p.detach().numpy() for p in GPT(vocabulary=VOCABULARY).parameters()]
    return min(milliseconds(lambda: average(comm, grads, BUCKETS, ring), repeats=9))


# %% [markdown]
# The formula has the link alone. Ranks join, cut, add, send and wake up besides: what the same buckets take over a link that takes no time. Both are measured in turns.

# %%
two_hosts = partial(launch, hosts=2, link=LINK)
no_link = partial(launch, hosts=2, link=Link(0.0, 0.0))
turns_ms = [[max(over(ring_ms, 2, ring)) for over in (no_link, two_hosts)] for _ in range(3)]
BESIDES_MS, buckets_ms = np.median(turns_ms, axis=0)
compare(f"{len(BUCKETS)} buckets, ms", predicted_ms + BESIDES_MS, buckets_ms)

# %% [markdown]
# Data is one plan. Another shares the **products** out: each rank has half of the outputs of each linear layer. A third makes two **stages**, and the batch goes through them in micro-batches (lab 13). All should have the same loss. (No reading: both are set up here.)


# %%
def by_products(comm):
    model = GPT(vocabulary=VOCABULARY)
    share_products(comm, model, Parameter)
    adam = Adam(model.parameters(), lr=0.003)
    return lambda step: train_step(model, adam, *batch(step))


def by_stages(comm):
    model = GPT(vocabulary=VOCABULARY)
    adam = Adam(model.parameters(), lr=0.003)

    def take(step):
        loss, grads = stage_step(comm, model, *batch(step), loss_of, microbatches=3)
        for parameter, grad in zip(model.parameters(), grads):
            parameter.grad = grad
        adam.step()
        return loss

    return take


# %% [markdown]
# The cost model of lab 14 needs each layer's flops, parameter bytes and output bytes, and the link. Of the machine it gets two numbers. One is the flops a second of a step in which both ranks compute, each with its half of the rows, and send nothing: half of the rows take more than half of the time, and two ranks share the machine. The other is what a message takes besides the link.
#
# **Predict.** Of the three plans, which one is fastest here, and which slowest?

# %%
### BEGIN STARTER
# predicted_fastest, predicted_slowest = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_fastest, predicted_slowest = "data", "products"
### END SOLUTION

# %%
MICRO, OUT = 3, 4 * CONTEXT * ROWS / 3  # of a micro-batch, bytes a column
shapes = [(64, 192), (64, 64), (64, 256), (256, 64)] * 2
costs = [
    LayerCost(flops * ROWS / MICRO / 4, 4 * n_in * n_out, OUT * n_out) for n_in, n_out in shapes
]
message_s = 20e-6 + BESIDES_MS / 1e3 / (2 * len(BUCKETS))
PLANS = {
    "data": (by_data, [(0, 8, 2, 1, 2, 1)]),
    "products": (by_products, [(0, 8, 2, 1, 1, 2)]),
    "stages": (by_stages, [(0, 4, 1, 1, 1, 1), (4, 8, 1, 1, 1, 1)]),
}

# %%
whole, _ = launch(train_in_turns, 1, [by_data], 6)[0]
ways = [partial(by_data, averages=False), *(way for way, _ in PLANS.values())]
losses, seconds = zip(*two_hosts(train_in_turns, 2, ways, 6))  # medians of six steps
apart, (compute_s, *seconds) = np.mean(losses, axis=0) - whole, np.max(seconds, axis=0)
devices = cluster(2, 1, STEP_FLOPS / 2 / compute_s, (0, 1e-12), (message_s, 1e-9))
rates = {name: ROWS * CONTEXT / own_s for name, own_s in zip(PLANS, seconds)}
for (name, (_, plan)), own_apart in zip(PLANS.items(), apart[1:]):
    predicted = ROWS * CONTEXT / simulate.plan_cost(plan, costs, devices, MICRO)
    compare(f"{name}: tokens a second", predicted, rates[name])
    print(f"   losses differ from one rank's by at most {np.abs(own_apart).max():.1e}")
print("fastest, slowest:", max(rates, key=rates.get), min(rates, key=rates.get))
print("the planner:", simulate.best_plan(costs, devices, MICRO).why())

# %% [markdown]
# **Reflect.** By which term does the model rank products last? And which plan would you take for a model that does not fit on one rank?
#
# *The real system.* Large models take all three at once: products inside a machine, stages between machines, data around them (Megatron-LM; Llama 3 adds a fourth, the tokens of a row).

# %% [markdown]
# ## 5. Keeping it
#
# A training of a month meets failures. So it is saved every now and then, and goes on from there, as if nothing had happened.
#
# **Idea.** What does a step read that it has not made itself (lab 16)? The parameters, what the optimizer carries, and its place in the data: here the number of the step. `course.state_of(optimizer)` returns what an optimizer carries besides the parameters, and `course.set_state(optimizer, state)` puts it back.
#
# **Predict.** How many times the bytes of the parameters does a checkpoint have, with Adam?

# %%
### BEGIN STARTER
# predicted_copies = ...
### END STARTER
### BEGIN SOLUTION
predicted_copies = 3
### END SOLUTION


# %%
class Training:
    """What a run has: a model, its optimizer, and the number of the step that comes next."""

    def __init__(self, **options):
        self.model = GPT(**options)
        self.optimizer = Adam(self.model.parameters(), lr=0.006)
        self.step = 0


# %% question="Run" points="6" hint1="np.array(parameter.detach().numpy()) is a copy; without it you save an array that the next step changes." hint2="A model's parameters can be a list, in order; their names are not needed." hint3="load_state_dict: the optimizer and the model hold the same objects, so write into them: under mt.no_grad(), parameter[...] = mt.tensor(array)."
class Run(Training):
    """A training that can be saved, and go on from what was saved."""

    def state_dict(self):
        """Return a dict of all that the next step reads: copies, which no later step changes."""
        ### BEGIN SOLUTION
        arrays = [np.array(p.detach().numpy()) for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        return {"step": self.step, "parameters": arrays, "optimizer": state}
        ### END SOLUTION

    def load_state_dict(self, state):
        """Go on from a state: of the same model, in place."""
        ### BEGIN SOLUTION
        self.step = state["step"]
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter[...] = mt.tensor(array)
        course.set_state(self.optimizer, state["optimizer"])
        ### END SOLUTION


# %% tags="check"
q.check("Run")


# %%
def run_until(comm, path, steps, every, dies_at=-1):
    """Train on this rank's rows, from the checkpoint if there is one; rank 1 dies at a step."""
    mt.set_num_threads(1)
    run, losses, writes = Run(vocabulary=VOCABULARY), [], []
    checkpoint = Checkpoint(path, comm, run=run)
    averaged = partial(average, comm, buckets=BUCKETS, ring=ring)
    for step in range(checkpoint.resume(), steps):
        if step == dies_at and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        run.optimizer.lr = 0.006 * min(1, (step + 1) / 40) * (1 - 0.9 * step / STEPS)
        rows = mine(comm, batch(step))
        losses.append(train_step(run.model, run.optimizer, *rows, averaged))
        run.step = step + 1
        if run.step % every == 0:
            began = perf_counter()
            checkpoint.save(run.step)
            writes.append(perf_counter() - began)
    return run.state_dict(), losses, writes


# %%
STEPS = 450


def killed_and_resumed(path, steps, every, dies_at):
    """Return the state in the end of a run whose rank 1 is killed, and then starts again."""
    try:
        two_hosts(run_until, 2, path, steps, every, dies_at)
    except RankFailed as error:
        print(f"rank {error.rank} was killed before step {dies_at}")
    return two_hosts(run_until, 2, path, steps, every)[0]


# %%
with tempfile.TemporaryDirectory() as folder:
    whole, _, writes = two_hosts(run_until, 2, f"{folder}/whole.npz", 12, 4)[0]
    again, *_ = killed_and_resumed(f"{folder}/killed.npz", 12, 4, dies_at=10)
    saved = Path(folder, "whole.npz").stat().st_size
ends = zip(whole["parameters"], again["parameters"])
print("the same bits as without the kill:", all(np.array_equal(*both) for both in ends))
compare("checkpoint / parameters, bytes", predicted_copies, saved / sum(GRAD_BYTES))
every_s = young_interval(min(writes), 20.0)
EVERY = max(1, round(every_s * rates["data"] / (ROWS * CONTEXT)))
print(f"a failure every 20 s: save every {every_s:.2f} s, which is {EVERY} steps")

# %% [markdown]
# Now in earnest: 450 steps on two ranks, saved at your interval, and rank 1 is killed in the middle.

# %%
began = perf_counter()
with tempfile.TemporaryDirectory() as folder:
    state, losses, _ = killed_and_resumed(f"{folder}/run.npz", STEPS, EVERY, dies_at=STEPS // 2)
print(f"{perf_counter() - began:.0f} s, loss {losses[-1]:.2f}")
TRAINED = Run(vocabulary=VOCABULARY)
TRAINED.load_state_dict(state)


# %%
def logits_of(rows):
    with mt.no_grad():
        return TRAINED.model(mt.tensor(rows)).numpy()


exact = data.exact_share(lambda rows: logits_of(rows)[:, -1], DIGITS, 300)
sort_loss = data.answer_loss(logits_of, DIGITS, 300)
print(f"sorted exactly: {exact:.0%} of 300 problems that it never saw")
compare("loss of an answer: a table's least, and yours", TABLE_LOSS, sort_loss)
text_loss = loss_of(*tensors((logits_of(HELD_OUT[:, :-1]), HELD_OUT[:, 1:]))).item()
pair_loss = data.pair_table_loss(SEEN, HELD_OUT.ravel(), VOCABULARY)
print(f"text held out: {text_loss:.2f} nats a token, a table of pairs {pair_loss:.2f}")

# %% [markdown]
# **Reflect.** Your model sorts, which no table can; of text a table of pairs still knows more. How many tokens of text has it read, and how many has the table? What would help first: more steps, more layers, or more text?
#
# *The real system.* GPT-3 read 300 billion tokens, each about once. By Hoffmann et al. (2022) a model of $N$ parameters wants about $20 N$ tokens.

# %% [markdown]
# ## 6. Generation
#
# The third sitting. A model gives a score for each token that may come next, a **logit**. To take the largest each time is safe, and dull.
#
# **Idea.** Divide the logits by a **temperature**: below 1 likely tokens become likelier. Keep the `top_k` largest only, so that none of a hundred unlikely tokens is drawn by chance. Then draw: lay the tokens that are kept side by side, in the order of their numbers, each as long as it is likely; take the one in whose stretch $u$ lies, a number from 0 to below 1.


# %% question="choose" points="5" hint1="temperature 0: int(np.argmax(logits)), the first of the largest, and nothing else." hint2="np.sort(np.argsort(-logits, kind='stable')[:top_k]) are the numbers of the tokens that are kept; [:None] keeps all." hint3="Subtract the largest before np.exp. np.searchsorted(ends[:-1], u, side='right') says in whose stretch u lies, ends being np.cumsum of what is likely, with sum 1."
def choose(logits, temperature, top_k, u):
    """Return the next token, an int.

    Args:
        logits: (V,), real; they stay as they are.
        temperature: 0 takes the largest, the first of equals.
        top_k: how many can be drawn, of equals the first; None for all.
        u: where the draw falls, from 0 to below 1.
    """
    ### BEGIN SOLUTION
    if temperature == 0:
        return int(np.argmax(logits))
    kept = np.sort(np.argsort(-logits, kind="stable")[:top_k])
    likely = np.exp((logits[kept] - logits[kept].max()) / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])
    ### END SOLUTION


# %% tags="check"
q.check("choose")


# %%
def whole_row(prompt, n, temperature=0.0, top_k=None, seed=0):
    """Return n new tokens; each time the whole row runs through the model."""
    rng, row = np.random.default_rng(seed), list(prompt)
    while len(row) < len(prompt) + n:
        logits = logits_of(np.array([row[-CONTEXT:]]))[0, -1]
        row.append(choose(logits, temperature, top_k, rng.random()))
    return row[len(prompt) :]


print("3141>" + decode(whole_row(encode("3141>"), 5)))
print(decode(whole_row(encode("Return the "), 40, temperature=0.8, top_k=10)))

# %% [markdown]
# **Idea.** The token before has run through the model a moment ago, and so have all before it. Of them attention needs keys and values only, which never change, for no token sees what comes after it. Keep them: a **cache**. Then a new token takes one product with each weight, and attention over what is kept.
#
# **Predict.** 60 tokens from a prompt of one. How many times as many tokens run through the model without a cache? And one token more, after 500: how many times as long does it take without a cache?

# %%
### BEGIN STARTER
# predicted_more, predicted_at_500 = ..., ...
### END STARTER
### BEGIN SOLUTION
predicted_more, predicted_at_500 = (60 + 1) / 2, 500.0
### END SOLUTION


# %%
class Cache:
    """Keys and values of one row in one layer, for so many tokens at most."""

    def __init__(self, tokens=CONTEXT):
        self.tokens, self.used, self.kept = tokens, 0, None

    def add(self, key, value):
        """Append a token's key and value, each (H, D); return all so far, two of (t, H, D)."""
        if self.kept is None:
            self.kept = np.zeros((2, self.tokens, *key.shape), np.float32)
        if self.used == self.tokens:
            raise ValueError(f"a row has {self.tokens} tokens at most: ask for fewer.")
        self.kept[:, self.used] = key, value
        self.used += 1
        return self.kept[:, : self.used]


# %% question="attention_step" points="7" hint1="attention.qkv(x).numpy().reshape(B, 3, H, D): one product for all rows. Its row b holds the query, key and value of row b." hint2="Row by row: keys, values = cache.add(key, value). Scores (H, t): np.einsum('hd,thd->ht', query, keys) / D**0.5; softmax over t; no mask, all of t is past." hint3="np.einsum('ht,thd->hd', weights, values).reshape(-1) is what a row gets. Stack the rows, and attention.out(mt.tensor(...)) is the result."
def attention_step(attention, x, caches):
    """Return what `attention` gives for one more token of each row, a tensor (B, C).

    Args:
        attention: an Attention: `qkv`, `out` and `heads` as above.
        x: a tensor (B, C), the new token of each row.
        caches: a Cache for each row; rows may have seen different numbers of tokens.
    """
    ### BEGIN SOLUTION
    rows, width = x.shape
    qkv = attention.qkv(x).numpy().reshape(rows, 3, attention.heads, -1)
    mixed = []
    for (query, key, value), cache in zip(qkv, caches):
        keys, values = cache.add(key, value)
        scores = np.einsum("hd,thd->ht", query, keys) / (width // attention.heads) ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        mixed.append(np.einsum("ht,thd->hd", weights, values).reshape(-1))
    return attention.out(mt.tensor(np.stack(mixed)))
    ### END SOLUTION


# %% tags="check"
q.check("attention_step")


# %%
def next_logits(model, tokens, caches):
    """Return logits (B, V) after one more token of each row; caches[b] has one a layer."""
    with mt.no_grad():
        places = np.array([row[0].used for row in caches])
        h = F.embedding(mt.tensor(np.array(tokens)), model.tokens)
        h = h + F.embedding(mt.tensor(places), model.places)
        for layer, block in enumerate(model.blocks):
            kept = [row[layer] for row in caches]
            h = h + attention_step(block.attention, block.before(h), kept)
            h = h + block.down(mt.relu(block.up(block.between(h))))
        return model.top(h).numpy()


def cached(prompt, n):
    """Return n new tokens, the largest each time; every token runs through the model once."""
    row, cache = list(prompt), [Cache() for _ in TRAINED.model.blocks]
    for at in range(len(prompt) + n - 1):
        logits = next_logits(TRAINED.model, [row[at]], [cache])
        if at == len(row) - 1:
            row.append(int(logits[0].argmax()))
    return row[len(prompt) :]


# %%
print("the same tokens:", cached(encode("Return the "), 40) == whole_row(encode("Return the "), 40))
compare("tokens run, without a cache / with it", predicted_more, sum(range(1, 61)) / 60)


def step_ms(model, caches, long):
    """Return the ms of a step of rows of which each has seen so many tokens."""

    def step():
        for kept in (kept for row in caches for kept in row):
            kept.used = long
        next_logits(model, [5] * len(caches), caches)

    return milliseconds(step)[0]


def row_ms(model, long):
    """Return the ms in which a whole row runs through the model."""
    rows = mt.tensor(np.full((1, long), 5))
    with mt.no_grad():
        return milliseconds(lambda: model(rows), repeats=3)[0]


# %%
LONG = (10, 50, 100, 250, 500)
large = GPT(context=501)  # knows nothing; it takes as long as one that does
without_ms = [row_ms(large, long + 1) for long in LONG]
with_ms = [step_ms(large, [[Cache(501), Cache(501)]], long) for long in LONG]
draw_growth(LONG, without_ms, with_ms)
compare("one more token, without / with", predicted_at_500, without_ms[-1] / with_ms[-1])
print(f"with a cache, {with_ms[0] / with_ms[-1]:.0%} of the time after 500 is taken after 10, too")

# %%
COSTS = {}  # ms of a step, by rows
for rows in (1, 4, 8):
    caches = [[Cache() for _ in range(2)] for _ in range(rows)]
    COSTS[rows] = step_ms(TRAINED.model, caches, 30)
    print(f"a step of {rows} rows: {COSTS[rows] / COSTS[1]:.2f} times a step of one")

# %% [markdown]
# A step of eight rows takes less than eight steps of one, so requests share steps. In a **static** batch they start together, and the next batch starts when the longest has ended. In **continuous** batches a slot that is left is taken in the next iteration, whoever else is in the middle. (Yu et al., *Orca*, OSDI 2022.)


# %% question="iterations" points="5" defines="static_iterations continuous_iterations" hint1="Static: the requests in runs of `slots`; each run takes as long as its longest." hint2="Continuous: keep a list of when each slot is free. The next request, in order, takes the slot that is free first." hint3="The last slot to be free says how many iterations there were. No request: none."
def static_iterations(lengths, slots):
    """Return how many iterations requests of so many tokens take, in batches of `slots`."""
    ### BEGIN SOLUTION
    batches = [lengths[at : at + slots] for at in range(0, len(lengths), slots)]
    return sum(max(batch) for batch in batches)
    ### END SOLUTION


def continuous_iterations(lengths, slots):
    """Return the same where a slot that is left is taken in the next iteration."""
    ### BEGIN SOLUTION
    free = [0] * slots
    for length in lengths:
        first = free.index(min(free))
        free[first] += length
    return max(free)
    ### END SOLUTION


# %% tags="check"
q.check("iterations")

# %% [markdown]
# **Predict.** Replies of 5 to 60 tokens, all as likely, in 8 slots: how many times as many tokens an iteration do continuous batches give?

# %%
### BEGIN STARTER
# predicted_gain = ...
### END STARTER
### BEGIN SOLUTION
predicted_gain = 54 / 32.5  # the longest of eight over the mean
### END SOLUTION

# %%
LENGTHS = np.random.default_rng(0).integers(5, 61, 64).tolist()
gain = static_iterations(LENGTHS, 8) / continuous_iterations(LENGTHS, 8)
compare("tokens an iteration, continuous / static", predicted_gain, computed=gain)
at_once = {"step_ms": 1.0, "per_slot_ms": 0.0, "prompt_ms_per_token": 0.0, "slots": 8}
requests = [(0.0, 1, length + 1) for length in LENGTHS]
runs = {
    name: serve.simulate_generation(requests, batching=name, **at_once)
    for name in ("static", "continuous")
}
draw_batches(runs)

# %% [markdown]
# A reply may also be a search. **Beam search** follows the best few texts at once; which of them go on is known after each step. Here is one over a table of twelve words.


# %%
def beam_search(logs, width, steps=10):
    """Return the best text's log p, and how often a text's cache moved to another slot."""
    words, scores, moved = np.zeros(1, int), np.zeros(1), 0
    for _ in range(steps):
        longer = scores[:, np.newaxis] + logs[words]  # each text with each word behind it
        texts, words = np.unravel_index(np.argsort(-longer, axis=None)[:width], longer.shape)
        scores, moved = longer[texts, words], moved + sum(texts != np.arange(len(texts)))
    return scores[0], moved


for width in (1, 2, 4, 8):
    best, moved = beam_search(np.log(np.random.default_rng(0).dirichlet([0.3] * 12, 12)), width)
    print(f"{width} texts at once: the best has log p {best:6.2f}; {moved:2} times a cache moved")

# %% [markdown]
# **Reflect.** Whose reply comes later with continuous batches than with static ones, and by how much at most? In the simulation the server starts prompts in iterations of their own: where do you see them?
#
# *The real system.* vLLM keeps the cache in blocks that are given out one by one, as an operating system gives out pages, so that a slot does not reserve the longest reply (Kwon et al. 2023).

# %% [markdown]
# ## 7. Serving
#
# The server of lab 15 generates too: `deploy_generator` runs a model in a process of its own, with slots, a scheduler and a stream for each reader. It needs three things of a model.


# %% question="Generator" points="6" hint1="Keep a dict from slot to its caches. start makes new ones: Cache(), one for each of self.model.blocks." hint2="start: run the prompt's tokens through next_logits one by one; what the last one gives, its row 0, is the result." hint3="step: next_logits(self.model, tokens, [the caches of each slot in `slots`]). free: forget the slot; it may not be there."
class Generator:
    """A model for the server: what it generates is chosen there."""

    def __init__(self, model):
        self.model, self.caches = model, {}

    def start(self, slot, tokens):
        """Begin a row in this slot, which may have had another; return logits (V,) after it."""
        ### BEGIN SOLUTION
        self.caches[slot] = [Cache() for _ in self.model.blocks]
        for token in tokens:
            logits = next_logits(self.model, [token], [self.caches[slot]])
        return logits[0]
        ### END SOLUTION

    def step(self, slots, tokens):
        """Add a token to the row of each slot, and run these alone; return logits (len(slots), V)."""
        ### BEGIN SOLUTION
        return next_logits(self.model, tokens, [self.caches[slot] for slot in slots])
        ### END SOLUTION

    def free(self, slot):
        """Forget the row of a slot, if it has one."""
        ### BEGIN SOLUTION
        self.caches.pop(slot, None)
        ### END SOLUTION


# %% tags="check"
q.check("Generator")

# %% [markdown]
# Readers come at random, an **open load**: whether the server keeps up or not. Each has a stream of its own. What readers notice is the **time to first token**, and the time between tokens.
#
# A step is not all: each token goes from the model's process to the server's, and on to its reader. What a step takes *served*, readers say who ask at once:

# %%
PROMPT, N, make = encode("Return the "), 40, partial(Generator, TRAINED.model)
between_ms = {1: [], 8: []}  # from a token to the next, by readers at once; in turns
for readers in (1, 8) * 3:
    crowd = [(0.0, len(PROMPT), 40)] * readers
    summary = summary_of(serve_load(make, crowd, PROMPT, slots=8))
    between_ms[readers].append(summary["between, p50, ms"])
SERVED = {readers: float(np.median(ms)) for readers, ms in between_ms.items()}
for readers in SERVED:
    print(
        f"{readers} at once: {SERVED[readers] / COSTS[readers]:.1f} times your step of as many rows"
    )
PER_SLOT = min(max(SERVED[8] - SERVED[1], 0.0) / 7, SERVED[1])  # not below nothing

# %% [markdown]
# **Predict.** Readers come at half of the rate that 8 slots can serve. How many ms lie between two tokens, at the median?

# %%
### BEGIN STARTER
# predicted_between = ...
### END STARTER
### BEGIN SOLUTION
predicted_between = SERVED[1] + 3 * PER_SLOT  # half of the slots
### END SOLUTION

# %%
PER_S = 0.5 * 1e3 * 8 / (SERVED[8] * 30)  # readers a second, of 30 tokens each
load = load_of(N, PER_S, len(PROMPT), CONTEXT - len(PROMPT))
prices = {"step_ms": SERVED[1] - PER_SLOT, "per_slot_ms": PER_SLOT, "slots": 8}
expected = serve.simulate_generation(load, prompt_ms_per_token=COSTS[1], **prices)
found = serve_load(make, load, PROMPT, slots=8)
for name, value in summary_of(found).items():
    print(f"{name}: measured {value:.1f}, simulated {summary_of(expected)[name]:.1f}")
compare("ms between tokens, median", predicted_between, summary_of(found)["between, p50, ms"])

# %% [markdown]
# **Count shapes.** A static graph is planned for one shape of what goes in. Training has one. A step of the served load has a cache for each row, as long as that reader's text has become.
#
# **Predict.** What share of the steps in this load has a shape that came before? And if every step is made equal, with 8 slots of 64 places: what share of the places is used?

# %%
### BEGIN STARTER
# predicted_again, predicted_used = ..., ...
### END STARTER
### BEGIN SOLUTION
# Half of the slots; and of a slot the prompt, and half of a reply of 30 tokens.
predicted_again, predicted_used = 0.15, 0.5 * (len(PROMPT) + 30 / 2) / CONTEXT
### END SOLUTION


# %%
def step_shapes(run):
    """Return how long the caches of its rows are, in order, for each step of a simulated load."""
    seen, shapes = Counter(), []
    for iteration in run.iterations:
        seen.update(dict.fromkeys(iteration.starts, len(PROMPT)))
        if iteration.steps:
            shapes.append(tuple(sorted(seen[request] for request in iteration.steps)))
        seen.update(iteration.steps)
    return shapes


shapes = step_shapes(expected)
print("shapes in 20 steps of training:", {batch(step)[0].shape for step in range(20)})
print(f"in {len(shapes)} steps of the load: {len(set(shapes))}, such as {shapes[len(shapes) // 2]}")
again = 1 - len(set(shapes)) / len(shapes)
compare("served steps of a shape that came before", predicted_again, computed=again)
used = sum(map(sum, shapes)) / (8 * CONTEXT * len(shapes))
compare("places used, if all steps are equal", predicted_used, computed=used)

# %% [markdown]
# And one request's tokens must not depend on who shares its steps. Here eight readers ask at once, and one asks alone; then somebody asks for what cannot be.

# %%
together = serve_load(make, [(0.0, len(PROMPT), 30)] * 8, PROMPT, slots=8, temperature=0.8)
by_itself = serve_load(make, [(0.0, len(PROMPT), 30)], PROMPT, slots=8, temperature=0.8)
print("the same tokens:", together.replies[0] == by_itself.replies[0])
print(decode(by_itself.replies[0]))
for prompt, options in (
    ([], {}),
    ([VOCABULARY], {}),
    (PROMPT * 20, {}),
    (PROMPT, {"temperature": -1.0}),
):
    refused = serve_load(make, [(0.0, 1, 4)], prompt, slots=2, cache_tokens=CONTEXT, **options)
    print(f"   {refused.errors[0]}")

# %% [markdown]
# And over HTTP, with a page: open its address in a browser and type, before the cell after it ends the server.

# %%
page = TypingPage(make, WORDS)
print(page.url, decode(page.ask(encode("4071>"), 5)))

# %%
page.close()

# %% [markdown]
# **Reflect.** A reader with a prompt of 50 tokens comes while seven others are in the middle of theirs. What do the seven notice, and what would you change in `start`?
#
# *The real system.* Servers run a prompt in one pass, in pieces between steps (chunked prefill), or on other machines than steps.

# %% [markdown]
# ## 8. What did we build?
#
# From an operator to a reply there are layers on layers. Which of them are yours, how long are they, and where does the time go? A stopwatch notes **spans**: (layer, begin, end), and spans lie inside of others. A layer's own time is that of its spans without what lies inside of them.
#
# **Predict.** In training on two ranks, what share of the time is the reverse sweep's own, with the operators' gradients inside it?

# %%
### BEGIN STARTER
# predicted_sweep = ...
### END STARTER
### BEGIN SOLUTION
predicted_sweep = 0.5
### END SOLUTION


# %% question="own_seconds" points="5" hint1="Sort by begin; of spans that begin together the longer one is outside: key=lambda span: (span[1], -span[2])." hint2="Keep a stack of the spans that are open. When the next begins, those that have ended by then are closed: pop them." hint3="A span adds its whole length to its layer, and takes it off the layer of the span on top of the stack."
def own_seconds(spans):
    """Return {layer: seconds of its spans without those of spans directly inside of them}.

    Args:
        spans: (layer, begin, end) in any order; two lie apart, or one lies inside of the other.
    """
    ### BEGIN SOLUTION
    seconds, outside = Counter(), []
    for layer, begin, end in sorted(spans, key=lambda span: (span[1], -span[2])):
        while outside and outside[-1][1] <= begin:
            outside.pop()
        seconds[layer] += end - begin
        if outside:
            seconds[outside[-1][0]] -= end - begin
        outside.append((layer, end))
    return dict(seconds)
    ### END SOLUTION


# %% tags="check"
q.check("own_seconds")

# %%
LAYERS = {  # from an operator to a reply: what it is, and where it was written
    "CausalSoftmax": (CausalSoftmax, "softmax with a mask", None),
    "gradients": (gradients, "the reverse sweep, lab 02", course_gradients),
    "Linear": (Linear, "linear layers, lab 03", course.Linear),
    "Attention": (Attention, "attention", None),
    "GPT": (GPT, "the model", None),
    "Adam": (Adam, "the optimizer, lab 03", course.Adam),
    "train_step": (train_step, "a step of training", None),
    "ring": (ring, "the ring, lab 09", course_ring),
    "average": (average, "buckets of gradients", None),
    "Run": (Run, "what is saved", None),
    "attention_step": (attention_step, "attention with a cache", None),
    "Generator": (Generator, "what the server asks", None),
}


# %%
def watched(comm):
    """Return this rank's spans of three steps; and with a checkpoint and a reply of 20 tokens."""
    mt.set_num_threads(1)
    run, watch = Run(vocabulary=VOCABULARY), Watch()
    averaged = watch.timed("average", average)
    buckets = {"buckets": BUCKETS, "ring": watch.timed("ring", ring)}
    train_step(run.model, run.optimizer, *mine(comm, batch(0)))  # warms up
    with watch.methods(globals(), LAYERS):
        for step in range(3):
            rows = mine(comm, batch(step))
            train_step(run.model, run.optimizer, *rows, partial(averaged, comm, **buckets))
        training = [*watch.spans]
        run.state_dict()
        server = Generator(run.model)
        server.start(0, PROMPT)
        for _ in range(20):
            server.step([0], [5])
    return training, watch.spans


# %%
in_training, seconds = map(own_seconds, two_hosts(watched, 2)[0])
rows = [
    (name, words, piece is not other, lines_of(piece), seconds.get(name, 0.0))
    for name, (piece, words, other) in LAYERS.items()
]
compare(
    "the sweep's own share", predicted_sweep, in_training["gradients"] / sum(in_training.values())
)
stack = see_stack(rows, title=f"My language model sorts {exact:.0%} exactly")
print(f"{stack.save('my_stack.html')}: a page by itself, to be shown to anybody")
stack

# %% [markdown]
# **Reflect.** Which layer takes the most time for its lines, and which lines saved most? Which layer would you write again first, and in what?
#
# *The real system.* PyTorch is some millions of lines of which a step runs a few thousand. The layers are these.

# %% [markdown] question="static_or_dynamic" points="6" manual="true" rubric1="2: Training: one shape, structure known before the data (rows packed to one length), so a static graph can be planned and compiled; with a figure of section 3" rubric2="2: Serving: lengths and arrivals known only as they happen, so a scheduler between steps, a cache that grows; with a figure of sections 6 or 7. Inference of one request lies between: each step is static but for the length of its cache" rubric3="1: A model that fits nowhere: which plan for training (products inside a machine, stages between, data around), what must be saved, and what of it serving needs" rubric4="1: Names what would change the answer: mixture of experts, speculative decoding, early exit, tools that the model calls"
# ## Discuss
#
# Is a GPT static or dynamic: in training, in inference for one reader, in serving many? For each: what is known before it runs, and what do compilers and schedulers make of that? Then: how would you train and serve a model that fits on no device that you have? Use figures of this notebook. Half a page.
#
# ### BEGIN SOLUTION
# Training is static. Every row has 64 tokens, text and problems packed end to end, and the mask makes each row 64 exercises at once; so the graph of a step is known before the first number, and could be traced once and run as a graph, with its products and elementwise chains planned. The same holds for the buckets: their order and sizes were fixed before the first step.
#
# Inference for one reader repeats a step whose only change is the length of the cache. With a block of memory for the longest row it is nearly static, and a graph can be captured for it; without a cache the shape changes each time, and the time is quadratic: the ratio that I measured with 60 tokens.
#
# Serving is batched-dynamic. When readers come and how long their replies get is known when it happens; static batches make all wait for the longest, and in section 6 that cost a factor of 1.5 in tokens an iteration. So a scheduler decides between any two steps who is in the batch, and memory is given out by request. What is inside of a step stays static.
#
# A model that fits nowhere: share its products among the devices of a machine, where the link is fast (my plan by products was last on the slow link), put stages on machines in a row, and replicas around that. Each rank saves its own part of parameters, the optimizer's state and the step; serving needs the parameters alone, a third of it, and a cache. A mixture of experts or a draft model whose guesses are checked would make training, or each step, depend on values.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions (attention: heads, positions, no recurrence; Orca: iteration-level scheduling, selective batching; vLLM: paged cache, copy on write; FlashAttention: tiles, online softmax, recomputation in backward)" rubric4="1: Evaluation (names a figure with its conditions)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Choose one: Ashish Vaswani et al., [*Attention Is All You Need*](https://arxiv.org/abs/1706.03762), NeurIPS 2017; Gyeong-In Yu et al., [*Orca*](https://www.usenix.org/conference/osdi22/presentation/yu), OSDI 2022; Woosuk Kwon et al., [*Efficient Memory Management for Large Language Model Serving with PagedAttention*](https://arxiv.org/abs/2309.06180), SOSP 2023; Tri Dao et al., [*FlashAttention*](https://arxiv.org/abs/2205.14135), NeurIPS 2022. One page, in the form below.
#
# ### BEGIN STARTER
# **Overview** (two sentences of your own):
#
# **Problem and challenges:**
#
# **Methods and contributions:**
#
# **Evaluation and discussion** (a figure with its conditions; what was not measured?):
#
# **Trade-offs:**
#
# **Open questions** (one at least that the paper does not answer):
# ### END STARTER
# ### BEGIN SOLUTION
# **Overview.** (Yu 2022) Orca serves generative models by scheduling iterations instead of requests. A request joins the batch when it comes and leaves it when it ends. **Problem and challenges.** Servers formed batches of requests: those that ended early waited for the longest, and new ones for the whole batch; requests in the middle have caches of different lengths, so that attention cannot be batched as one product. **Methods and contributions.** Iteration-level scheduling, first come first served; selective batching, in which all operators but attention work on the tokens of all requests together and attention goes request by request; room in the cache is reserved for the longest reply when a request is admitted. **Evaluation and discussion.** On GPT-3 175B with A100s, 36.9 times the throughput of FasterTransformer at the same median latency; the load is drawn, not recorded from users. **Trade-offs.** Room that is reserved and not used limits the batch, which vLLM takes up two years later; prompts and steps share iterations and disturb each other. **Open questions.** Fairness among users of very different lengths; what to do when the machine is overloaded for long.
# ### END SOLUTION

# %%
q.status()
