# %% [markdown] builds="what makes it safe for strangers, and compression" needs="10" audience="gpu optional"
# # Lab 11: Data-parallel training in depth
#
# - **You build** what makes a data-parallel wrapper safe for strangers: a check and a broadcast, an agreed order of buckets, skipped parameters, inputs that run out; three kinds of compression; groups that take turns.
# - **You need** lab 10; what a matrix of low rank is.
# - **It takes** about 105 minutes: introduction 1, sections 10, 16, 20, 9, 25, 10 and 4, discussion 10. The reading note, with its paper, is for another day.
#
# In lab 10 all ranks had equal models, equal graphs and equally many batches. Here each is broken on purpose, and you mend it. Then you send less.

# %% tags="setup"
import os
import platform
from functools import partial
from importlib.metadata import version
from pathlib import Path
from zlib import crc32

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

from autograder import compare, lab
from ddp_lab import Communicator, DistributedDataParallel, Link, launch
from lessons.figures import draw_curves
from lessons.ranks.compressing import Compressor, errors_of_means
from lessons.ranks.misbehaving import CountingNode, diagnosis, train_misbehaving
from lessons.ranks.readiness import LastToFirst, launches, ready_times
from lessons.ranks.step_figures import draw_launches
from lessons.ranks.wires import Alone, own_link, time_groups
from lessons.timing import best_seconds

# %% tags="setup"
q = lab("data_parallel_in_depth")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
CUDA = torch.cuda.is_available()
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
print("CUDA", torch.cuda.get_device_name() if CUDA else "none: everything runs on the CPU")

# %% [markdown]
# The running example: scikit-learn's digits, of which the last 297 are kept for the end, and a small network with a batch normalization. Its running mean is a **buffer**: state that has no gradient.

# %%
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES, SEEN = IMAGES / 16, 1500
loss_of = torch.nn.functional.cross_entropy


def make_model(seed=0):
    """Return a network of two linear layers with a batch normalization between them."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )


def batch(step, size=128):
    """Return the images and labels of one batch: (size, 64) in 0..1, and (size,)."""
    at = np.arange(step * size, (step + 1) * size) % SEEN
    return torch.tensor(IMAGES[at], dtype=torch.float32), torch.tensor(LABELS[at])


# %% [markdown]
# ## 1. Ranks that start apart
#
# A colleague forgot the seed: every rank has its own first weights. The gradients are averaged correctly.


# %%
def average(comm, params):
    """Replace each gradient by its average over the ranks."""
    for param in params:
        param.grad = comm.all_reduce(param.grad) / comm.size


@torch.no_grad()
def descend(params, lr):
    """Take one step of gradient descent; the gradients are used up."""
    for param in params:
        param -= lr * param.grad
        param.grad = None


# %%
def train(comm, steps, prepare=None, seeds=(0, 0)):
    """Return this rank's losses, and its weights and buffers before, between and after."""
    torch.set_num_threads(1)
    model = make_model(seeds[comm.rank])
    if prepare:
        prepare(comm, model)
    params, losses, states = list(model.parameters()), [], []
    for step in range(steps + 1):
        states.append({name: t.clone() for name, t in model.state_dict().items()})
        x, y = batch(step)
        loss = loss_of(model(x[comm.rank :: comm.size]), y[comm.rank :: comm.size])
        loss.backward()
        average(comm, params)
        descend(params, lr=0.1)
        losses.append(loss.item())
    return losses, states


# %%
def distances(ranks, name="0.weight"):
    """Return how far apart the two ranks' tensors of that name are, by step."""
    (_, one), (_, other) = ranks
    return [torch.linalg.norm((a[name] - b[name]).double()).item() for a, b in zip(one, other)]


apart = launch(train, 2, 40, None, (1, 2))
print("loss, first and last:", *(f"{apart[0][0][i]:.2f}" for i in (0, -1)))
print(f"distance of the first layers before training: {distances(apart)[0]:.3f}")

# %% [markdown]
# The loss falls. **Predict.** After 40 steps, by what factor has the distance changed? (Plain gradient descent; the averaged gradient is the same on both ranks.)

# %%
### BEGIN STARTER
# predicted_factor = ...
### END STARTER
### BEGIN SOLUTION
predicted_factor = 1.0  # the same step on both leaves their difference as it was
### END SOLUTION

# %%
compare("distance after / before", predicted_factor, distances(apart)[-1] / distances(apart)[0])

# %% [markdown]
# To average gradients never repairs a difference, and the average of gradients at two points is the gradient of the loss at neither.
#
# **Idea.** Before the first step the constructor **checks** that all ranks have the same names, shapes and dtypes, by comparing a short fingerprint; if not, *every* rank raises. Then all ranks take rank 0's values: **parameters and buffers**, `model.state_dict()`.


# %%
def fingerprint(model):
    """Return one number, (1,) int64, that is the same for the same names, shapes and dtypes."""
    layout = [(name, tuple(t.shape), str(t.dtype)) for name, t in model.state_dict().items()]
    return torch.tensor([crc32(repr(layout).encode())])


# %% question="synchronize" points="6" hint1="comm.all_gather(fingerprint(model)) has everybody's number, in the order of ranks." hint2="Each rank sees the same numbers, so each can come to the same decision: are they all equal?" hint3="The tensors of model.state_dict() share memory with the model: t.copy_(comm.broadcast(t, root=0)) changes the model."
def synchronize(comm, model):
    """Give every rank's model rank 0's parameters and buffers, in place.

    Raises:
        ValueError: on every rank, when fingerprints differ; then nothing has been changed.
    """
    ### BEGIN SOLUTION
    prints = comm.all_gather(fingerprint(model))
    if (prints != prints[0]).any():
        raise ValueError(f"synchronize: ranks have different models: fingerprints {prints}.")
    for tensor in model.state_dict().values():
        tensor.copy_(comm.broadcast(tensor, root=0))
    ### END SOLUTION


# %% tags="check"
q.check("synchronize")

# %% [markdown]
# **Measure.** After your `synchronize`.

# %%
together = launch(train, 2, 40, synchronize, (1, 2))
for name in ("0.weight", "1.running_mean"):
    before, *_, after = distances(together, name)
    print(f"{name:<15} distance before {before:.3f}, after training {after:.3f}")

# %%
steps = np.arange(41)
curves = {
    "weights, apart": (steps, distances(apart), "C1--"),
    "means, synchronized": (steps, distances(together, "1.running_mean"), "C3:"),
}
draw_curves(curves, x="training step", y="distance between the ranks", title="Distances", log="y")

# %% [markdown]
# **Reflect.** The weights stay equal, to the last bit, but the running means do not. What did each rank compute them from? If each rank now tested its model on the same picture, would all say the same?
#
# *The real system.* DDP's constructor [verifies and broadcasts](https://github.com/pytorch/pytorch/blob/main/torch/distributed/utils.py). Since buffers drift, it broadcasts rank 0's again before each forward pass, unless `broadcast_buffers=False`.

# %% [markdown]
# ## 2. Ranks that disagree about the order
#
# A model has two branches, and the code decides which comes first. Here each gradient is all-reduced when it is ready, as by the hooks of lab 10. Rank 0 has the gradients `a` = 1, `b` = 10, and rank 1 `a` = 3, `b` = 30.


# %%
def two_branches(comm, shape_of_b=(4,), on_ready=None):
    """Average gradients as they get ready; rank 1 runs its branches the other way round."""
    params = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((4,), shape_of_b)]
    on_ready = on_ready or (lambda index: average(comm, [params[index]]))
    for index, param in enumerate(params):
        param.register_post_accumulate_grad_hook(lambda _, index=index: on_ready(index))
    scale, loss = (3.0 if comm.rank else 1.0), 0.0
    for index in (1, 0) if comm.rank == 0 else (0, 1):
        loss = loss + ((1, 10)[index] * scale * params[index]).sum()
    loss.backward()
    return params


def first_entries(params):
    return tuple(param.grad.flatten()[0].item() for param in params)


# %% [markdown]
# **Predict.** The right averages are `a` = 2 and `b` = 20. Autograd first runs the branch that was built last: rank 0 has `a` ready first, rank 1 has `b`. What will be in `a.grad` on rank 0?

# %%
### BEGIN STARTER
# predicted_a = ...
### END STARTER
### BEGIN SOLUTION
predicted_a = (1 + 30) / 2  # its first all-reduce meets rank 1's first, which is b
### END SOLUTION

# %%
wrong_averages = launch(lambda comm: first_entries(two_branches(comm)), 2)
print("(a, b) on each rank:", *wrong_averages)
compare("a.grad on rank 0", predicted_a, wrong_averages[0][0], exact=True)
diagnosis(lambda comm: two_branches(comm, shape_of_b=(2, 2)))

# %% [markdown]
# With equal shapes no rank complained; with (4,) and (2, 2) the headers of the messages showed it.
#
# **Idea.** So the ranks must *agree* on the order. Lab 10's, the reverse of registration, is a guess. After the first step one knows the order in which gradients **were** ready. All ranks take rank 0's order, and fill new buckets in it: this is DDP's **rebuild**. The first bucket has a smaller cap, so that sending starts early. (Li et al., *PyTorch Distributed*, VLDB 2020, "gradient order prediction".)


# %% question="agreed_order" points="3" hint1="A broadcast carries an array: np.array(ready), of dtype int64." hint2="Whose order arrives depends on root."
def agreed_order(comm, ready):
    """Return rank 0's `ready`, as a list of ints: the same list on every rank.

    Args:
        ready: parameter indices in the order in which this rank saw their gradients.
    """
    ### BEGIN SOLUTION
    return comm.broadcast(np.array(ready, dtype=np.int64), root=0).tolist()
    ### END SOLUTION


# %% tags="check"
q.check("agreed_order")


# %% question="rebuild" points="5" hint1="As assign_buckets in lab 10, but going through `order`, and with a cap that depends on how many buckets are closed already." hint2="Which cap is it for the first bucket, and which for all others?"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    """Return buckets, lists of parameter indices, filled in the given order.

    The first bucket is closed once it holds `first_bytes` or more, each later one once it holds
    `cap_bytes` or more; the last may hold less.

    Args:
        n_bytes: the size of each parameter's gradient, by parameter index.
        order: parameter indices, each once.
    """
    ### BEGIN SOLUTION
    buckets, full = [], True
    for index in order:
        if full:
            buckets.append([])
        buckets[-1].append(index)
        cap = first_bytes if len(buckets) == 1 else cap_bytes
        full = sum(n_bytes[i] for i in buckets[-1]) >= cap
    return buckets
    ### END SOLUTION


# %% [markdown]
# **Try both**: six gradients of 4 bytes; then the two branches again, averaged after backward in the agreed order.


# %%
def mended(comm):
    """The two branches again; each rank notes what is ready, all average as rank 0 noted it."""
    ready = []
    params = two_branches(comm, on_ready=ready.append)
    for index in agreed_order(comm, ready):
        average(comm, [params[index]])
    return first_entries(params)


print(rebuild([4] * 6, [5, 3, 4, 0, 2, 1], first_bytes=4, cap_bytes=10))
print("(a, b) on each rank:", *launch(mended, 2))

# %% tags="check"
q.check("rebuild")

# %% [markdown]
# **Measure.** `LastToFirst` is a model of twelve equal layers, registered from the output to the input. A bucket may be launched when its last gradient is there *and* the buckets before it have been launched.
#
# **Predict.** The first bucket holds one layer. At which fraction of backward is it launched, when buckets are filled in the reverse of registration, and when they are rebuilt?

# %%
### BEGIN STARTER
# predicted_guess = ...
# predicted_rebuilt = ...
### END STARTER
### BEGIN SOLUTION
predicted_guess = 12 / 12  # it waits for the layer whose gradient is the last
predicted_rebuilt = 1 / 12
### END SOLUTION


# %%
model, x = LastToFirst(), torch.randn(64, 256)
params = list(model.parameters())
*at, whole = ready_times(params, lambda: model(x), repeats=9)
at, n_bytes = np.array(at) / whole, [p.numel() * p.itemsize for p in params]
seen = [int(i) for i in np.argsort(at)]
layer = 256 * 256 * 4
guess = rebuild(n_bytes, list(range(len(n_bytes)))[::-1], layer, 3 * layer)
after = rebuild(n_bytes, seen, layer, 3 * layer)
compare("first launch, reverse of registration", predicted_guess, launches(guess, at)[0])
compare("first launch, rebuilt", predicted_rebuilt, launches(after, at)[0])
orders = {"reverse of\nregistration": guess, "rebuilt": after}
draw_launches(orders, at, "Buckets in the order seen start early (circles: equal layers)")

# %% [markdown]
# **Reflect.** If your first launch is later than at 1/12: what else happens in backward before the first gradient is ready? The rebuilt buckets follow what *one* rank saw in *one* step. If another rank's order differs, is anything wrong, or only slow?
#
# *The real system.* [The reducer](https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp) rebuilds once, after the first step, but not with `find_unused_parameters`, where steps may differ.

# %% [markdown]
# ## 3. Layers that are skipped
#
# After an `if` in `forward`, a parameter that is not used has no gradient, its hook is never called, and whoever waits for it waits for ever. Here rank 1 skips a layer.


# %%
def skips(comm, prepare=None):
    """Average the gradients that are there, or as `prepare` has it; rank 1 has one less."""
    layers = [torch.nn.Linear(8, 8, bias=False) for _ in range(3)]
    params = [layer.weight for layer in layers]
    x = torch.ones(1, 8)
    for index, layer in enumerate(layers):
        if not (comm.rank == 1 and index == 1):
            x = layer(x)
    loss = x.sum()
    finish = prepare and prepare(comm, loss, params)  # before backward
    loss.backward()
    there = [param for param in params if param.grad is not None]
    return finish() if finish else average(comm, there)


diagnosis(skips)

# %% [markdown]
# **Read** the message: which rank is reported, and which behaved differently? All three shapes are equal: what was added to rank 0's second all-reduce before that?
#
# **Idea.** Which parameters will get a gradient is known *before* backward: those that can be reached from the loss. Autograd's graph can be walked, as in lab 02: `t.grad_fn` made the tensor `t`; `node.next_functions` are pairs `(node, index)` of what it was made from, with `None` for what needs no gradient; each leaf is a node whose `.variable` is the parameter.
#
# **Predict.** For `y = x`, then `y = y + y` thirty times: how often does a good walk have to ask a node for its `next_functions`, the leaf included? (There are $2^{30}$ paths.)

# %%
### BEGIN STARTER
# predicted_nodes = ...
### END STARTER
### BEGIN SOLUTION
predicted_nodes = 31  # thirty additions and the leaf, each once
### END SOLUTION


# %% question="used_parameters" points="6" hint1="Keep a list of nodes still to visit, and a set of nodes seen. Start with loss.grad_fn." hint2="A node with the attribute variable is a leaf. Compare with `is`, or by id(): == compares the numbers in it." hint3="A network may be deeper than Python's recursion limit, and has more paths than nodes. Does your walk return to a node that it knows?"
def used_parameters(loss, params):
    """Return for each of `params` whether backward from `loss` will reach it: a list of bools.

    Walks the graph and computes nothing: `loss.backward()` is still to come.
    """
    ### BEGIN SOLUTION
    waiting, seen, leaves = [loss.grad_fn], {None}, set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting.extend(before for before, _ in node.next_functions)
    return [id(param) in leaves for param in params]
    ### END SOLUTION


# %% [markdown]
# **Try it** on the thirty doublings. These nodes look like autograd's, and count how often they are asked.


# %%
class Result:
    """A tensor, as far as its graph is concerned: made by `grad_fn`."""


here, elsewhere, loss = torch.ones(3), torch.ones(3), Result()
loss.grad_fn = CountingNode(variable=here)
for _ in range(30):
    loss.grad_fn = CountingNode(before=(loss.grad_fn, loss.grad_fn))
CountingNode.asked = 0
print("used:", used_parameters(loss, [here, elsewhere]))
compare("nodes asked", predicted_nodes, CountingNode.asked)

# %% tags="check"
q.check("used_parameters")

# %% [markdown]
# **Idea.** If *any* rank used a parameter, all must take part in its all-reduce, with zeros if need be. So the ranks first add up who used what: one more, small, all-reduce. A parameter that *no* rank used keeps what it has; for an optimizer with momentum, no gradient and a gradient of zero are different.


# %% question="average_used" points="7" hint1="The number of ranks that used each parameter is the sum of np.array(used, dtype=np.int64) over the ranks." hint2="Whether a parameter is sent must depend only on what all ranks know: the counts." hint3="A rank that did not use it contributes torch.zeros_like(param), whatever lies in .grad from an earlier step. The average is over all ranks."
def average_used(comm, params, used):
    """Average the gradients of all parameters that some rank used; over all ranks.

    Args:
        used: for each parameter, whether this rank has a gradient for it. Where it has not,
            it contributes zeros, and `.grad` is None or left over from an earlier step.
            A parameter that no rank used is not sent, and keeps its `.grad`.
    """
    ### BEGIN SOLUTION
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for param, here, count in zip(params, used, counts):
        if count:
            grad = param.grad if here else torch.zeros_like(param)
            param.grad = comm.all_reduce(grad) / comm.size
    ### END SOLUTION


# %% [markdown]
# **Try both** on the ranks that failed above.


# %%
def by_your_walk(comm, loss, params):
    """Ask what is used; return what is to be done after backward."""
    used = used_parameters(loss, params)

    def finish():
        average_used(comm, params, used)
        return used, [round(param.grad.abs().sum().item(), 3) for param in params]

    return finish


for used, sums in launch(lambda comm: skips(comm, by_your_walk), 2):
    print("used:", used, "  sums of the averages:", sums)

# %% tags="check"
q.check("average_used")

# %% [markdown]
# **Measure.** Does layer dropping save communication? Each rank drops each layer with probability $p$, by a coin of its own or by one that all ranks share. A bucket need not be sent only if *every* rank dropped *every* layer in it: with $n$ coins and $k$ layers a bucket this has probability $p^{\,nk}$.


# %%
def saved(layers, per_bucket, coins, p, steps=4000, seed=0):
    """Return the fraction of buckets that nobody needed, over many steps."""
    dropped = np.random.default_rng(seed).random((steps, coins, layers)) < p
    nobody = dropped.all(axis=1)
    return nobody.reshape(steps, layers // per_bucket, per_bucket).all(axis=2).mean()


sizes_k, p, curves = np.array([1, 2, 3, 4, 6]), 0.5, {}
for coins, mark in ((1, "C0o"), (2, "C1s"), (4, "C2^")):
    drawn = [saved(24, k, coins, p) for k in sizes_k]
    label = "one coin for all" if coins == 1 else f"{coins} ranks, a coin each"
    curves[label] = sizes_k, drawn, mark
    curves[f"$p^{{{coins}k}}$"] = sizes_k, p ** (coins * sizes_k), mark[:2] + "-"
    compare(f"{label}, 3 layers a bucket", p ** (coins * 3), simulated=drawn[2])
axes = {"x": "layers a bucket", "y": "communication saved", "log": "y", "low": 1e-7}
draw_curves(curves, **axes, title="Half of the layers dropped", marks={"computation saved": p})

# %% [markdown]
# **Reflect.** Half of the computation is saved. With twelve layers a bucket and eight ranks, how much of the communication is?
#
# *The real system.* This walk is `find_unused_parameters=True`. [It costs](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html) a traversal and an all-reduce of the counts in each step, so it is off by default.

# %% [markdown]
# ## 4. Inputs that run out
#
# Rank 0 has five batches, and rank 1 three.


# %%
def runs_out(comm):
    """Train until this rank has no more batches."""
    for _ in range(3 if comm.rank else 5):
        grad = torch.ones(8)
        comm.all_reduce(grad)


diagnosis(runs_out)

# %% [markdown]
# **Idea.** The ranks stop together. Before each step they add up how many have a batch. While any has, all take part: a rank without one is a **shadow**, which sends zeros to every all-reduce. The average is over the ranks that have a batch.
#
# **Predict.** With five and three batches: how often does rank 1 take part in the counting?

# %%
### BEGIN STARTER
# predicted_counts = ...
### END STARTER
### BEGIN SOLUTION
predicted_counts = 6  # five steps, and once more to learn that nobody has a batch left
### END SOLUTION


# %% question="average_uneven" points="6" hint1="The number of ranks with a batch: the sum of np.array([int(has_batch)]) over the ranks." hint2="While that is more than 0, everybody all-reduces every gradient: its own, or zeros." hint3="Divide by the number of ranks that had a batch. With nobody left, send nothing and leave .grad alone."
def average_uneven(comm, params, has_batch):
    """Average gradients over the ranks that have a batch; return how many those are.

    A rank without one contributes zeros and has the average all the same. When no rank has a
    batch, nothing more is sent and no gradient changes.
    """
    ### BEGIN SOLUTION
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        grad = param.grad if has_batch else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / active
    return active
    ### END SOLUTION


# %% tags="check"
q.check("average_uneven")


# %% [markdown]
# **Measure.** Five batches against three, with a shadow.


# %%
def train_uneven(comm):
    """Train until no rank has a batch; return the rounds, and the weights at the end."""
    model = make_model()
    params, batches, rounds = list(model.parameters()), 3 if comm.rank else 5, 0
    while True:
        has_batch = rounds < batches
        if has_batch:
            x, y = batch(2 * rounds + comm.rank)
            loss_of(model(x), y).backward()
        rounds += 1
        if average_uneven(comm, params, has_batch) == 0:
            return rounds, torch.nn.utils.parameters_to_vector(params).detach()
        descend(params, lr=0.1)


uneven = launch(train_uneven, 2)
compare("rounds of rank 1", predicted_counts, uneven[1][0])
print("weights are the same:", torch.equal(uneven[0][1], uneven[1][1]))

# %% [markdown]
# **Reflect.** torch's `join` divides by the *initial* number of ranks unless told otherwise. What does that do to the length of the steps at the end of an epoch, compared to yours? Which would you choose if the long inputs are all on one rank?
#
# *The real system.* [`Join`](https://pytorch.org/docs/stable/distributed.algorithms.join.html) is a context manager; shadows repeat the collectives of forward and backward.

# %% [markdown]
# ## 5. Fewer bytes
#
# What cannot be hidden must become smaller. The cheapest way: 16-bit floats.

# %%
gradient = torch.tensor([1e-8, 0.1, 300.0, 40_000.0])
print("as float16:", gradient.half())
print("three of them added up:", gradient.half() + gradient.half() + gradient.half())

# %% [markdown]
# **Idea 1, half-precision.** 11 bits of mantissa, so three digits; nothing above 65,504, and nothing below $6 \cdot 10^{-8}$. A sum over several ranks overflows where its average would not.


# %% question="fp16_average" points="4" hint1="tensor.half() and tensor.float() convert." hint2="Three ranks with 40,000 each: what is the sum in half-precision, and what the average? Divide early."
def fp16_average(comm, flat):
    """Return the average of `flat` over the ranks as float32, sent as float16.

    An average that float16 can hold must not overflow on the way. `flat` is not modified.
    """
    ### BEGIN SOLUTION
    return comm.all_reduce((flat / comm.size).half()).float()
    ### END SOLUTION


# %% tags="check"
q.check("fp16_average")

# %%
print("your average:", launch(lambda comm: fp16_average(comm, gradient), 3)[0])

# %% [markdown]
# **Idea 2, the largest entries.** Send the $k$ entries that are largest in absolute value, with their positions. The others are kept in a **memory** and added to the next gradient, until they are large enough. Without this **error feedback** small entries would never count. (Stich, Cordonnier, Jaggi, *Sparsified SGD with Memory*, NeurIPS 2018.)
#
# Every rank picks other positions, so the ranks cannot add; they gather.
#
# **Predict.** A gradient of $N$ = 100,000 floats, $k$ = 1,000, two ranks. For each entry a rank sends a value of 4 bytes and a position of 4 bytes. What fraction is that of its bytes in a ring all-reduce of the whole gradient?

# %%
### BEGIN STARTER
# predicted_fraction = ...
### END STARTER
### BEGIN SOLUTION
predicted_fraction = 1000 * 8 / (100_000 * 4)  # a ring of two sends 2 (n-1)/n N = N floats
### END SOLUTION


# %% question="top_k_average" points="7" hint1="First add flat to left_out, in place: that is what this rank would like to say. What it says is taken out of it." hint2="left_out.abs().topk(k).indices are the positions. comm.all_gather(positions.int()) has a row for each rank." hint3="Two ranks may pick the same position. total[positions] += values counts it once; total.index_add_(0, positions, values) counts each."
def top_k_average(comm, flat, left_out, k):
    """Return an average of which each rank has sent only its `k` largest entries.

    Args:
        flat: this rank's gradient, (N,) float32; not modified.
        left_out: this rank's memory, (N,) float32, of what it has not sent so far. Modified:
            afterwards it is memory plus gradient, less what was sent.
    """
    ### BEGIN SOLUTION
    left_out += flat
    picked = left_out.abs().topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size
    ### END SOLUTION


# %% [markdown]
# **Try it** with $k = 1$ on five numbers, the same in every step. When are the small ones sent?


# %%
def five_numbers(comm, steps):
    """Return [(average, memory)] of each step."""
    gradient = torch.tensor([[4.0, 0, 0, 0, 1], [4.0, 0, 3, 0, 0]][comm.rank])
    left_out, seen = torch.zeros(5), []
    for _ in range(steps):
        average = top_k_average(comm, gradient, left_out, 1)
        seen.append((average.tolist(), left_out.tolist()))
    return seen


for step, ((average, left_out), (_, other)) in enumerate(zip(*launch(five_numbers, 2, 4))):
    print(f"step {step}: average {average}, left out {left_out} and {other}")

# %% tags="check"
q.check("top_k_average")


# %%
def sparse_bytes(comm, k):
    gradient = torch.randn(100_000, generator=torch.Generator().manual_seed(comm.rank))
    if k:
        return top_k_average(comm, gradient, torch.zeros_like(gradient), k)
    return comm.all_reduce(gradient, algorithm="ring")


sent = [launch(sparse_bytes, 2, k, record=True).traffic[0].bytes_sent for k in (1000, 0)]
compare("bytes, 1,000 of 100,000 entries / all", predicted_fraction, sent[0] / sent[1], exact=True)

# %% [markdown]
# **Idea 3, low rank.** A gradient $M$ of shape $(m, n)$ is close to a product of two thin matrices, $P Q^\top$ with $r$ columns each. One step of **power iteration** finds good ones. Its two products are linear in $M$, so the ranks can add them, and gather nothing. (Vogels, Karimireddy, Jaggi, *PowerSGD*, NeurIPS 2019.)
#
# 1. $P \leftarrow \sum M Q$ over the ranks, with $Q$ from the last step; make its columns orthonormal: `torch.linalg.qr(P).Q`;
# 2. $Q \leftarrow$ the average of $M^\top P$ over the ranks;
# 3. the average gradient is about $P Q^\top$; the part of this rank's own $M$ that $P (M^\top P)^\top$ lacks goes into its memory.


# %% question="low_rank_average" points="8" hint1="Start from full = matrix + left_out; it takes matrix's place in all three lines." hint2="P is the same on all ranks once it has been all-reduced. The sum will do, since its columns get length 1 anyway." hint3="Keep this rank's own full.T @ P for the memory, before it is averaged. left_out.copy_(...) changes the memory in place."
def low_rank_average(comm, matrix, q, left_out):
    """Return (an average gradient of low rank, the q for the next step); the same on all ranks.

    Args:
        matrix: this rank's gradient, (m, n); not modified.
        q: (n, r), the same on all ranks.
        left_out: this rank's memory, (m, n). Modified: afterwards it is memory plus gradient,
            less this rank's own share of what was sent.
    """
    ### BEGIN SOLUTION
    full = matrix + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q)).Q
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q
    ### END SOLUTION


# %% [markdown]
# **Try it.** A matrix of rank 1 is found at once. Of a matrix of rank 2 each step sends only a part; but the mean of all averages so far comes closer and closer.

# %%
one = torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0, 1.0]))
two = one + torch.outer(torch.tensor([2.0, -1.0]), torch.tensor([0.0, 1.0, 0.0]))
for name, matrix in (("one", one), ("two", two)):
    off = launch(errors_of_means, 2, low_rank_average, matrix)[0]
    print(f"rank {name}, after 1, 10, 100 steps off by", *(f"{off[i]:.2f}" for i in (0, 9, 99)))

# %% tags="check"
q.check("low_rank_average")

# %% [markdown]
# **Measure.** The same training with each: 1 % of the entries, and rank 1. "Forgets" is top-k whose memory is cleared in each step.

# %%
Yours = partial(Compressor, fp16_average, top_k_average, low_rank_average)


def two_layers():
    """Return the same small network at every call."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


# %%
def train_compressed(comm, kind, steps):
    """Return this rank's losses."""
    torch.set_num_threads(1)
    model, losses = two_layers(), []
    params = list(model.parameters())
    compressor = Yours(kind, params)
    for step in range(steps):
        x, y = batch(step)
        loss = loss_of(model(x[comm.rank :: comm.size]), y[comm.rank :: comm.size])
        loss.backward()
        averages = compressor.average_all(comm, [param.grad for param in params])
        for param, average in zip(params, averages):
            param.grad = average
        descend(params, lr=0.3)
        losses.append(loss.item())
    return losses


# %%
STEPS, LINES = 150, {"plain": "-", "fp16": "--", "top 1 %": "-", "forgets": ":", "rank 1": "-."}
sent, curves = {}, {}
for kind, line in LINES.items():
    run = launch(train_compressed, 2, kind, STEPS, record=True)
    sent[kind], losses = run.traffic[0].bytes_sent / STEPS, np.mean(list(run), axis=0)
    curves[kind] = range(12, STEPS + 1), np.convolve(losses, np.ones(12) / 12, "valid"), line
    print(f"{kind:<8} bytes {sent[kind] / sent['plain']:6.1%}", end="")
    print(f"   last losses {losses[-12:].mean():.3f}")
draw_curves(
    curves, x="training step", y="loss, mean of 12 steps", title="Digits, two ranks", log="y"
)

# %% [markdown]
# On two ranks a step's averaging takes about
#
# $$\text{work} + \text{bytes sent} / \text{bandwidth},$$
#
# so a method pays on links slower than *bytes saved per second of extra work*. Between two ranks that share memory bytes cost almost nothing: there we measure the work. Then the ranks lie on two hosts, and their messages arrive when a slow link would have brought them.


# %%
def averaging(comm, turns=12):
    """Return the best seconds of averaging all gradients once, by kind; all take turns."""
    torch.set_num_threads(1)
    grads = [torch.randn(param.shape) for param in two_layers().parameters()]
    ways, best = {kind: Yours(kind, grads) for kind in COSTLY}, dict.fromkeys(COSTLY, np.inf)
    for _ in range(turns):
        for kind, way in ways.items():
            every = partial(way.average_all, comm, grads)
            best[kind] = min(best[kind], best_seconds(every, 1, before=comm.barrier))
    return best


COSTLY = ("plain", "fp16", "top 1 %", "rank 1")
LINKS = (5e5, 2e6, 8e6)  # bytes a second
work = launch(averaging, 2, 60)[0]
on_link = [launch(averaging, 2, hosts=2, link=Link(0.0, 1 / speed))[0] for speed in LINKS]

# %%
bandwidths, curves = np.geomspace(1e5, 1e10, 100), {}
for kind, style in zip(COSTLY, ("C0o-", "C1s--", "C2^-.", "C3D:")):
    curves[kind] = bandwidths, work[kind] + sent[kind] / bandwidths, style[:2] + style[3:]
    curves[f"{kind}, measured"] = LINKS, [seconds[kind] for seconds in on_link], style[:3]
axes = {"x": "bandwidth, bytes a second", "y": "seconds of averaging in a step", "log": "xy"}
draw_curves(curves, **axes, title="Lines: work + bytes / bandwidth; points: on the link")

# %%
predicted = {kind: work[kind] + sent[kind] / LINKS[0] for kind in COSTLY}
for kind in COSTLY[1:]:
    expected, seen = (row["plain"] - row[kind] for row in (predicted, on_link[0]))
    compare(f"{kind}: saved at {LINKS[0] / 1e6:g} MB/s, ms", expected * 1e3, seen * 1e3)
    extra = work[kind] - work["plain"]
    pays = (
        f"below {(sent['plain'] - sent[kind]) / extra / 1e6:,.0f} MB/s" if extra > 0 else "always"
    )
    print(
        f"    costs {extra * 1e3:.2f} ms of work, all that counts between ranks that share memory; pays {pays}"
    )


# %% [markdown]
# **And on a device?** The work alone needs no second rank: `Alone` sends nothing. It is timed on the GPU where there is one, else on the CPU.
#
# **Predict.** For large gradients memory decides. A copy reads 4 bytes an element and writes 4. Follow your `fp16_average` through its three operations: how many times as long as a copy should it take?

# %%
### BEGIN STARTER
# predicted_copies = ...
### END STARTER
### BEGIN SOLUTION
predicted_copies = (4 + 4 + 4 + 2 + 2 + 4) / 8  # divide, round, widen: what each reads and writes
### END SOLUTION


# %%
DEVICE = "cuda" if CUDA else "cpu"
PLACE = torch.cuda.get_device_name() if CUDA else f"the CPU, threads: {torch.get_num_threads()}"


def works(width, turns=12):
    """Return {what: seconds} of compressing a gradient of (width, width), and of copying it."""
    torch.ones(7 * 2**20)  # freed at once; after that the C library keeps what smaller ones free
    grad = torch.randn(width, width, device=DEVICE)
    runs = {"copy": grad.clone}
    for kind in COSTLY[1:]:
        runs[kind] = partial(Yours(kind, [grad]).average, Alone(), 0, grad)
    times = [{what: best_seconds(run, 1, device=DEVICE) for what, run in runs.items()}
             for _ in range(turns)]  # fmt: skip
    return {what: min(turn[what] for turn in times) for what in runs}


# %%
widths = np.array([2**k for k in range(6, 14 if CUDA else 11)])
elements, there = widths**2, [works(int(width)) for width in widths]
there = {what: np.array([row[what] for row in there]) for what in there[0]}
saved = {"fp16": 2 * elements, "top 1 %": 4 * elements - 8 * (elements // 100)}
saved["rank 1"] = 4 * elements - 8 * widths  # bytes that a rank of two need not send
pays = {kind: saved[kind] / there[kind] for kind in saved}
print("timed here:", PLACE)
compare("fp16 / copy, time", predicted_copies, there["fp16"][-1] / there["copy"][-1])
for kind, below in pays.items():
    print(f"{kind:<8} of {4 * elements[-1] / 2**20:.0f} MiB pays below {below[-1] / 1e9:,.2f} GB/s")

# %%
n_bytes, curves = 4 * elements, {}
for kind, color in zip(saved, ("C1", "C2", "C3")):
    curves[kind] = n_bytes, pays[kind] / 1e9, color + "o-"
if predicted_copies is not ...:
    model = saved["fp16"] / (predicted_copies * there["copy"])
    curves["fp16, predicted by the copy"] = n_bytes, model / 1e9, "k-"
axes = {"x": "gradient, bytes", "y": "pays on wires below, GB/s", "log": "xy", "low": 0.01}
wires = {"1 Gbit/s": 1 / 8, "400 Gbit/s": 50}
draw_curves(curves, **axes, title=f"Bytes saved for a second of work on {PLACE}", marks=wires)

# %% [markdown]
# **Reflect.** Which method would you take on a network of 1 Gbit/s (125 MB/s), which on one of 400 Gbit/s, with the device that you have timed? Where points lie above their line, count the messages. Top-k's messages are gathered, low rank's all-reduced: how do the bytes that a rank *receives* grow with the number of ranks?
#
# *The real system.* These are [comm hooks](https://github.com/pytorch/pytorch/tree/main/torch/distributed/algorithms/ddp_comm_hooks): `model.register_comm_hook(state, hook)`. torch's PowerSGD hook begins after 1,000 plain steps unless told otherwise.

# %% [markdown]
# ## 6. Groups that take turns
#
# One group runs its collectives one after the other: while one waits for a latency, the link is idle. Eight buckets of 40,000 bytes, of which the link carries one in 2 ms, at a latency of 8 ms:

# %%
ALPHA, BETA, BUCKET = 8.0, 2.0, 40_000  # milliseconds of a bucket
FAR = {"hosts": 2, "link": Link(ALPHA / 1e3, BETA / 1e3 / BUCKET)}
(took,) = np.max(launch(time_groups, 2, BUCKET, [1], lambda groups: groups[0], **FAR), axis=0)
print(f"{took * 1e3:.0f} ms; the link was in use for {8 * BETA / 1e3 / took:.0%} of them")

# %% [markdown]
# **Idea.** With $g$ groups over the same ranks, bucket $i$ goes to group $i \bmod g$. Each group has $m/g$ of the $m$ buckets, and the link all of them: the time is about
#
# $$\max\Big(\frac{m}{g}(\alpha+\beta),\; \alpha + m\beta\Big).$$
#
# **Predict.** With two groups instead of one, how many times as fast?

# %%
### BEGIN STARTER
# predicted_speedup = ...
### END STARTER
### BEGIN SOLUTION
predicted_speedup = (8 * 10) / max(4 * 10, 8 + 8 * 2)
### END SOLUTION


# %% question="RoundRobin" points="4" hint1="Remember how many all-reduces there were." hint2="Every rank makes the same calls in the same order; so counting is enough for all to agree."
class RoundRobin:
    """Several groups as one: the k-th all-reduce goes to group k modulo their number.

    Has `rank` and `size`, and `all_reduce(x, op="sum", async_op=False)`. That of the groups has
    `algorithm`, which stays "auto", between `op` and `async_op`.
    """

    def __init__(self, groups):
        ### BEGIN SOLUTION
        self.groups, self.calls = list(groups), 0
        self.rank, self.size = self.groups[0].rank, self.groups[0].size
        ### END SOLUTION

    def all_reduce(self, x, op="sum", async_op=False):
        ### BEGIN SOLUTION
        group = self.groups[self.calls % len(self.groups)]
        self.calls += 1
        return group.all_reduce(x, op, async_op=async_op)
        ### END SOLUTION


# %% tags="check"
q.check("RoundRobin")

# %% [markdown]
# **Measure.** One group, two, four, and eight.


# %%
COUNTS = (1, 2, 4, 8)
rounds = [launch(time_groups, 2, BUCKET, COUNTS, RoundRobin, **FAR) for _ in range(4)]
seconds = np.max(np.min(rounds, axis=0), axis=0)
formula = np.array([max(8 / g * (ALPHA + BETA), ALPHA + 8 * BETA) for g in COUNTS])
compare("speed-up of two groups", predicted_speedup, seconds[0] / seconds[1])

# %%
curves = {
    "predicted": (COUNTS, formula[0] / formula, "C0-"),
    "measured": (COUNTS, seconds[0] / seconds, "C1o"),
}
axes = {"x": "number of groups", "y": "times as fast as one group"}
draw_curves(curves, **axes, title="More groups, until the link is busy")

# %% [markdown]
# **Unlike links.** Two GPUs of a server may be joined by NVLink *and* by PCIe. A group over each, in turns: each group has half of the buckets, and the slower one ends last.
#
# `own_link(ms, n_bytes)` is a link of `launch`'s kind for one group alone: it carries so many bytes in `ms`, whatever the other links do. A `Communicator` stands on any transport, so also on a rank's end of such a link.
#
# **Predict.** Eight buckets, 4 ms each on the fast link. How many times as fast as the fast link alone are both in turns, if the slow link takes 6 ms, and if it takes 24?

# %%
### BEGIN STARTER
# predicted_with = {6: ..., 24: ...}
### END STARTER
### BEGIN SOLUTION
predicted_with = {6: 8 * 4 / (4 * 6), 24: 8 * 4 / (4 * 24)}
### END SOLUTION


# %%
def over_both(comm, links):
    """Return the seconds of eight buckets on the first link alone, and on both in turns."""
    groups = [Communicator(link.transport(comm.rank)) for link in links]
    return time_groups(comm, BUCKET, (1, 2), RoundRobin, groups)


for slow_ms, expected in predicted_with.items():
    links = [own_link(4, BUCKET), own_link(slow_ms, BUCKET)]
    rounds = [launch(over_both, 2, links, transport="threads") for _ in range(4)]
    one_link, both = np.max(np.min(rounds, axis=0), axis=0)
    compare(f"4 ms and {slow_ms} ms in turns / 4 ms alone, speed", expected, one_link / both)

# %% [markdown]
# **Reflect.** Which term of the formula limits four groups, and which eight? From which ratio of two links on do turns do harm, and how would you deal the buckets out instead?
#
# *The real system.* Li et al. ([section 5.4](https://arxiv.org/abs/2006.15704)) measured one, three and five such groups: the gain depends on model and backend. Several NCCL communicators at once [have to be used with care](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html).

# %% [markdown]
# ## 7. All of it
#
# Now your functions inside a real wrapper: `ddp_lab.DistributedDataParallel` calls a **comm hook** with each bucket, and expects a future of the bucket's average. `comm.split(0)` is a second group over the same ranks, so that your messages do not mix with the wrapper's.
#
# First without a memory: 1 % of each bucket's entries are sent, the others dropped.


# %%
def your_hook(state, bucket):
    """Average one bucket by your top-k; with a memory a bucket, or with none."""
    comm, share, memory, keep = state
    flat = bucket.buffer()
    left_out = memory.setdefault(bucket.index(), torch.zeros_like(flat))
    if not keep:
        left_out.zero_()
    future = torch.futures.Future()
    future.set_result(top_k_average(comm, flat, left_out, max(1, int(share * flat.numel()))))
    return future


def right_share(model):
    """Return the share that is right of the digits that were kept for the end."""
    images = torch.tensor(IMAGES[SEEN:], dtype=torch.float32)
    return (model(images).argmax(1).numpy() == LABELS[SEEN:]).mean()


# %%
def train_wrapped(comm, share, keep, steps=150):
    """Return the accuracy on the digits that were kept for the end."""
    torch.set_num_threads(1)
    model = two_layers()
    synchronize(comm, model)
    ddp = DistributedDataParallel(model, process_group=comm)
    ddp.register_comm_hook((comm.split(0), share, {}, keep), your_hook)
    for step in range(steps):
        x, y = batch(step)
        loss_of(ddp(x[comm.rank :: comm.size]), y[comm.rank :: comm.size]).backward()
        descend(model.parameters(), lr=0.3)
    return right_share(model)


# %%
plainly = launch(train_wrapped, 2, 1.0, True)[0]
forgetful = launch(train_wrapped, 2, 0.01, False)[0]
print(f"right on {plainly:.1%} of {len(LABELS) - SEEN} digits never seen, when all is sent")
print(f"right on {forgetful:.1%} with 1 % of the entries and no memory")

# %% [markdown]
# **Predict.** The share that is right with 1 % of the entries *and* the memory?

# %%
### BEGIN STARTER
# predicted_accuracy = ...
### END STARTER
### BEGIN SOLUTION
predicted_accuracy = 0.9
### END SOLUTION


# %%
shares = (1.0, 0.1, 0.01, 0.001)
accuracy = {(1.0, True): plainly, (1.0, False): plainly, (0.01, False): forgetful}
for share in shares[1:]:
    for keep in (True, False):
        if (share, keep) not in accuracy:
            accuracy[share, keep] = launch(train_wrapped, 2, share, keep)[0]
compare("accuracy with 1 % and memory", predicted_accuracy, accuracy[0.01, True])

# %%
curves = {
    "what is left out is remembered": (shares, [accuracy[share, True] for share in shares], "C0o-"),
    "and forgotten": (shares, [accuracy[share, False] for share in shares], "C1s--"),
}
axes = {"x": "share of the entries that is sent", "y": "right on digits never seen", "log": "x"}
draw_curves(curves, **axes, title="150 steps inside DistributedDataParallel")

# %% [markdown]
# **And on ranks that misbehave.** Everything goes wrong at once: each rank has its own first weights and drops layers by its own coin; rank 0 has nine batches, rank 1 six. Your functions keep the ranks equal.

# %%
functions = synchronize, agreed_order, rebuild, used_parameters, average_used, average_uneven
yours = {piece.__name__: piece for piece in (*functions, RoundRobin)}
(model, weights), (_, others) = launch(train_misbehaving, 2, yours, batch)
print(f"right on {right_share(model):.1%} of {len(LABELS) - SEEN} digits never seen")
print("weights are the same:", torch.equal(weights, others))

# %% [markdown]
# **Reflect.** From which share on does the memory matter, and where does it no longer help? It holds what has not been sent yet. Must it be saved with a model?
#
# *The real system.* [`PowerSGDState`](https://github.com/pytorch/pytorch/blob/main/torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py) can be pickled with its memories, and leaves the process group out.

# %% [markdown] question="layer_dropping" points="6" manual="true" rubric1="2: Why a fixed parameter-to-bucket map sends a bucket as soon as one rank used one of its parameters, and that coins of ranks differ" rubric2="1: Uses the measured or predicted numbers (p to the power nk)" rubric3="1: A shared coin (equal seed) alone does not suffice, because buckets mix layers" rubric4="1: A proposal that would save (a bucket a layer or bucket boundaries at what is dropped together, plus a shared coin or an agreed mask; or a map built anew each step)" rubric5="1: The price of that proposal (latency of small buckets, an agreement each step, loss of randomness between ranks)"
# ## Discuss
#
# A team trains with layer dropping: each step computes about half of the layers, but its time hardly changes. From your measurements: why? What would you change so that communication falls too, and what does that cost? Half a page.
#
# ### BEGIN SOLUTION
# Parameters are assigned to buckets once, by size. A bucket has to be sent if any rank used any parameter in it. Each rank drops by its own coin, so a layer is dropped by everybody with probability p to the n; and a bucket of k layers is free only with p to the nk: in our figure 12.5 % with one coin and three layers, 1.6 % with two ranks, practically nothing with four. The wire was the bottleneck, so the step stays as long as it was.
#
# First all ranks must use the same coin (the same seed for the dropping): then the exponent n is gone. That alone saves p to the k, still little for large buckets. Second, the boundaries of buckets must follow what is dropped together: a bucket a layer, or a bucket a group of layers that share a coin. Then half of the buckets need not be sent.
#
# The price: small buckets pay more latencies; the ranks must agree on the mask before backward (by the shared seed for nothing, otherwise by an all-reduce of the map of used parameters); and ranks that all drop the same layers see less variety in a step than ranks with coins of their own, which may cost accuracy.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (bursts of gradients after backward, limited bandwidth between GPU machines)" rubric3="1: Methods and contributions (wait-free backpropagation; hybrid communication that sends a fully connected layer as factors when that is smaller; bulk-synchronous consistency)" rubric4="1: Evaluation and discussion (names a figure and its conditions, such as 31.5 times on 32 machines for Inception-V3 where TensorFlow reached 20)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Hao Zhang et al., [*Poseidon: An Efficient Communication Architecture for Distributed Deep Learning on GPU Clusters*](https://arxiv.org/abs/1706.03292), USENIX ATC 2017. One page, in this form.
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
# **Overview.** A communication layer for data-parallel training on clusters of GPU machines, put under Caffe and TensorFlow. **Problem and challenges.** GPUs finish a step so fast that sending all gradients at its end leaves them idle; commodity Ethernet is the bottleneck, most of all for the large fully connected layers. **Methods and contributions.** Wait-free backpropagation sends a layer's gradient while the layers below it are still computing. Hybrid communication chooses for each layer between a parameter server and sending sufficient factors: the gradient of a fully connected layer over a batch of K examples is a sum of K outer products, so two thin matrices say the same exactly, and are smaller when K is. A consistency manager keeps training synchronous. **Evaluation and discussion.** On 32 single-GPU machines Inception-V3 trains 31.5 times as fast as on one, with TensorFlow's own parameter servers 20 times; on 16 machines with 10 Gbit Ethernet VGG19-22K, whose last layer is huge, 15.5 times. **Trade-offs.** Factors go from each worker to all others, so their bytes grow with the square of the number of workers, and with the batch; the choice must be made anew for each layer and cluster. **Open questions.** Larger batches make factors useless; how do lossy low-rank methods compare, and how does it carry over to networks of attention layers?
# ### END SOLUTION

# %%
q.status()
