# %% [markdown] builds="gradient averaging, from hooks to overlapped buckets" needs="03, 09" audience="gpu"
# # Lab 10: Data-parallel training
#
# - **You build** `DistributedDataParallel` (DDP) in the order of its invention: one all-reduce for each gradient, one for all, buckets, and communication hidden behind computation.
# - **You need** torch modules and `backward()`, and what an all-reduce costs (lab 09).
# - **It takes** about 95 minutes: introduction 1, sections 9, 15, 11, 23, 9, 9 and 8, discussion 10. The reading note, with its paper, is for another day.
#
# Every rank has a copy of the model and a part of the batch. After each backward pass the gradients are averaged, every copy takes the same step, and the copies stay equal. That is **data parallelism**.

# %% tags="setup"
import os
import platform
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from threading import Lock
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

# %% tags="setup"
from autograder import compare, earlier, lab
from ddp_lab import DdpLabError, Link, launch
from ddp_lab.data_parallel.measurement.backward_profile import BackwardProfile
from ddp_lab.device_array import synchronize
from ddp_lab.show import DdpTimeline
from ddp_lab.simulate import workloads
from lessons.figures import draw_curves
from lessons.ranks.distribution import (
    COPIES,
    EVERY_STEP,
    IN_PARTS,
    share_tensor,
    shared_tensor,
    try_options,
)
from lessons.ranks.rank_timing import device_ranks
from lessons.ranks.readiness import ready_times
from lessons.ranks.step_figures import draw_steps
from lessons.ranks.steps import descend, length, recorded_step, slower_of, step_contest
from lessons.ranks.wires import Clocked, Noted

# %% tags="setup"
q = lab("data_parallel")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
CUDA = torch.cuda.is_available()
from lessons.device_note import device_note

print(device_note(torch.cuda.get_device_name() if CUDA else "", "section 4 times overlap there"))

# %% [markdown]
# The running example: a small network on scikit-learn's images of digits. Its four linear layers have eight parameters: a weight and a bias each.


# %%
def make_model(width=64, depth=4):
    """Return a network of `depth` linear layers; the same weights at every call."""
    torch.manual_seed(0)
    sizes = [64] + [width] * (depth - 1) + [10]
    layers = []
    for n_in, n_out in pairwise(sizes):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


# %%
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES = IMAGES / 16
loss_of = torch.nn.functional.cross_entropy


def batch(step, size=192):
    """Return the images and labels of one batch: (size, 64) in 0..1, and (size,)."""
    at = np.arange(step * size, (step + 1) * size) % len(LABELS)
    return torch.tensor(IMAGES[at], dtype=torch.float32), torch.tensor(LABELS[at])


for name, param in make_model().named_parameters():
    print(f"{name:10} {tuple(param.shape)!s:10} {param.numel() * 4:>6} bytes")


# %% [markdown]
# ## 1. Options for distribution
#
# Several computers can share a training in ways that differ in what each must hold, and in what they tell each other. The simplest first; here with as many ranks as this machine has cores, from 2 to 4:
#
# - **Copies** of the whole data set: each rank tries another learning rate, or leaves out another **fold** for validation. No messages, nothing to program; but all data must fit everywhere, and no single training gets faster.
# - **Parts** of the data: each rank trains on its own part, and the weights are averaged once, at the end. Hardly any messages; but each goes to the optimum of its part. How good is their average, and how good if the data lies sorted?

# %%
RANKS = max(2, min(4, CORES))
SEEN = 1500  # the other 297 digits are the test
X, Y = torch.tensor(IMAGES, dtype=torch.float32), torch.tensor(LABELS)
TASK = (RANKS, make_model, (X[:SEEN], Y[:SEEN]), (X[SEEN:], Y[SEEN:]))
try_options((*COPIES, *IN_PARTS), *TASK)

# %% [markdown]
# To start a rank is to send it the function and what the function uses, by **pickle**. Not everything can be sent. And what can is a copy, unless it lies in memory that processes share, and only its name is sent (`torch.multiprocessing` does so for tensors in its queues):

# %%
lock, numbers = Lock(), torch.zeros(2)
try:
    launch(lambda comm: lock.locked(), 2)
except DdpLabError as error:
    print(error)
print("made by the rank itself:", launch(lambda comm: Lock().locked(), 2))


def write(comm, tensor):
    tensor[comm.rank] = comm.rank + 1


launch(write, 2, numbers)
print("after ranks wrote to a copy:", numbers)
handle = share_tensor(numbers)
launch(lambda comm: write(comm, shared_tensor(handle)), 2)
print("to the shared tensor:      ", numbers)

# %% [markdown]
# Or every rank trains on its share of every **batch**. Without messages the copies drift apart:


# %%
def start(kind, comm, params, cap_bytes=None):
    """Set one way of averaging up; return what is to be called after each backward."""
    if kind == "each":
        return lambda: average_gradients(comm, params)
    if kind == "flat":
        return lambda: flat_all_reduce(comm, params)
    if kind == "overlap":
        return Overlapped(comm, params, cap_bytes).finish
    if kind == "hooks":
        attach_hooks(comm, params)
    return lambda: None  # alone, or the hooks have done it


# %%
def train(comm, steps, kind, cap_bytes=None):
    """Return this rank's losses, and the weights after each step: (steps, n_weights)."""
    torch.set_num_threads(1)
    model = make_model()
    params = list(model.parameters())
    finish = start(kind, comm, params, cap_bytes)
    losses, weights = [], []
    for step in range(steps):
        x, y = batch(step)
        loss = loss_of(model(x[comm.rank :: comm.size]), y[comm.rank :: comm.size])
        loss.backward()
        finish()
        descend(params, lr=0.2)
        losses.append(loss.item())
        weights.append(torch.nn.utils.parameters_to_vector(params).detach().numpy().copy())
    return losses, np.stack(weights)


# %%
def apart(ranks):
    """Return the largest distance of any rank's weights from rank 0's, by step."""
    return np.max([np.linalg.norm(w - ranks[0][1], axis=1) for _, w in ranks], axis=0)


STEPS = 40
alone = launch(train, RANKS, STEPS, "alone")
print("distance after 1, 10, 40 steps:", *(f"{apart(alone)[i]:.3f}" for i in (0, 9, 39)))

# %% [markdown]
# **Idea.** The loss of the whole batch is the mean over its examples, and a gradient is linear. So if all $n$ shards are equally large,
#
# $$\nabla L_{\text{batch}} = \frac1n \sum_{r=0}^{n-1} \nabla L_{\text{shard } r}.$$
#
# If every rank replaces its own gradient by this average, all take the step that one process would take with the whole batch.
#
# **Predict.** With one all-reduce a parameter: how many all-reduces does a training step of our model need?

# %%
### BEGIN STARTER
# predicted_calls = ...
### END STARTER
### BEGIN SOLUTION
predicted_calls = 8
### END SOLUTION


# %% question="average_gradients" points="5" hint1="Each parameter p has its gradient in p.grad, a tensor. comm.all_reduce(tensor) returns the sum over the ranks." hint2="A sum over n ranks is not yet the average." hint3="p.grad[...] = ... or p.grad.copy_(...) puts values into the gradient. Nothing may happen to p itself: that is the optimizer's."
def average_gradients(comm, params):
    """Replace each gradient by its average over the ranks: one all-reduce a parameter.

    Args:
        params: parameters after backward, in the same order on all ranks; each has a `.grad`,
            of any shape and dtype; it may be a transposed view.
    """
    ### BEGIN SOLUTION
    for param in params:
        param.grad.copy_(comm.all_reduce(param.grad) / comm.size)
    ### END SOLUTION


# %% tags="check"
q.check("average_gradients")

# %%
averaged = launch(train, RANKS, STEPS, "each")
one = launch(train, 1, STEPS, "alone")
print("distance after 40 steps:", apart(averaged)[-1])
together = np.mean([losses for losses, _ in averaged], axis=0)
print(f"largest difference to the losses of one process: {np.abs(together - one[0][0]).max():.1e}")

# %%
run = launch(train, RANKS, 1, "each", record=True)
calls = len({m.op for m in run.trace.messages if m.op.startswith("all_reduce")})
compare("all-reduces in a step", predicted_calls, calls)
try_options([EVERY_STEP], *TASK, average_gradients)

# %% [markdown]
# `comm.all_reduce` may be any function that returns the sums, such as your own. If lab 09's checks pass, `earlier` brings it here; if not, the course's own ring takes its place.


# %%
def course_ring(comm, x, op="sum"):
    return comm.all_reduce(x, op, algorithm="ring")


ring = earlier("ring_all_reduce", "ring_all_reduce", reference=course_ring)


# %%
class OverRing(Clocked):
    """`comm`, with all-reduces that go over `ring`."""

    def start(self, x, op, algorithm):
        total = ring(self.comm, np.asarray(x), "sum" if op == "avg" else op)
        total = total / self.size if op == "avg" else total
        return lambda: torch.as_tensor(total) if isinstance(x, torch.Tensor) else total


over_ring = launch(lambda comm: train(OverRing(comm), STEPS, "each"), RANKS)
print("distance after 40 steps, over the ring:", apart(over_ring)[-1])
apart_by = np.abs(over_ring[0][1][-1] - averaged[0][1][-1]).max()
print(f"largest difference to the weights above: {apart_by:.1e}")

# %% [markdown]
# **Reflect.** The replicas' distance is exactly zero, and the difference to one process is not: why? And of the five options, which would you take for a model that trains in a minute, and which for one that trains for a month?
#
# *The real system.* DDP's constructor [broadcasts rank 0's parameters and buffers](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/distributed.py), so that the models are equal at the start.

# %% [markdown]
# ## 2. A link with known constants
#
# Cores that share memory have no network between them. `launch(..., hosts=2, link=Link(alpha, beta))` lends them one: the ranks lie on two pretended hosts, and a message of $n$ bytes arrives when such a link would have brought it, $\alpha + n\beta$ seconds later. In real seconds; whoever waits is asleep, so that the core is free, as with a network card. On two ranks an all-reduce is one message each way: its price is $\alpha + n\beta$ too.
#
# The constants follow from *this* machine's speed: to carry all gradients of a larger model takes as long as its backward pass, and a latency is a sixtieth of that.


# %%
def big_model():
    return make_model(width=256, depth=17)


big_batch = partial(batch, size=640)


def backward(comm):
    """Return when each gradient is ready in the fastest of 15 backward passes, and when it ends."""
    torch.set_num_threads(1)
    model, (x, y) = big_model(), big_batch(0)
    params = list(model.parameters())
    return ready_times(params, lambda: loss_of(model(x), y), 15, before=comm.barrier)


# %%
sizes = [p.numel() * 4 for p in big_model().parameters()]
B, N = sum(sizes), len(sizes)
*READY, BACKWARD = np.max(list(launch(backward, 2)), axis=0)
ALPHA, BETA = BACKWARD / 60, BACKWARD / B
LINK = Link(ALPHA, BETA)
print(f"{N} parameters, {B:,} bytes, in {BACKWARD * 1e3:.1f} ms: {1e-6 / BETA:,.0f} MB/s")
print(f"a latency of {ALPHA * 1e3:.2f} ms, as long as {ALPHA / BETA:,.0f} bytes take")

# %% [markdown]
# **Idea.** First: **hooks** can do the averaging. `param.register_post_accumulate_grad_hook(f)` has torch call `f` each time a gradient of `param` is complete.
#
# Second: thirty-four messages pay thirty-four latencies. One **flat** tensor of all gradients pays one.
#
# **Predict.** By $\alpha + \beta \cdot \text{bytes}$: how many times as long does one all-reduce a parameter take as one flat one?

# %%
### BEGIN STARTER
# predicted_ratio = ...
### END STARTER
### BEGIN SOLUTION
predicted_ratio = (N * ALPHA + BETA * B) / (ALPHA + BETA * B)
### END SOLUTION


# %% question="attach_hooks" points="5" hint1="Write an inner function with one argument, and register it with every parameter." hint2="What is the argument that torch hands to the hook? Print type(argument) and whether it is one of the params." hint3="The hook gets the parameter. Its gradient is in .grad."
def attach_hooks(comm, params):
    """Have every gradient averaged over the ranks as soon as it is complete, in backward."""

    ### BEGIN SOLUTION
    def average(param):
        param.grad.copy_(comm.all_reduce(param.grad) / comm.size)

    for param in params:
        param.register_post_accumulate_grad_hook(average)
    ### END SOLUTION


# %% tags="check"
q.check("attach_hooks")


# %% question="flat_all_reduce" points="5" hint1="torch.cat joins 1-D tensors; grad.reshape(-1) makes one." hint2="After the all-reduce go through the gradients again, and take from the flat tensor as many elements as each has." hint3="torch.cat has copied. What you do to the flat tensor does not reach the gradients by itself."
def flat_all_reduce(comm, params):
    """Replace each gradient by its average over the ranks: one all-reduce for all of them."""
    ### BEGIN SOLUTION
    grads = [param.grad for param in params]
    flat = comm.all_reduce(torch.cat([grad.reshape(-1) for grad in grads])) / comm.size
    at = 0
    for grad in grads:
        grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
        at += grad.numel()
    ### END SOLUTION


# %% [markdown]
# **Try both**: the same training as in section 1.

# %%
for kind in ("hooks", "flat"):
    ranks = launch(train, RANKS, 10, kind)
    beside = np.abs(ranks[0][1][-1] - one[0][1][9]).max()
    print(f"{kind}: replicas apart by {apart(ranks)[-1]}, from one process by {beside:.1e}")

# %% tags="check"
q.check("flat_all_reduce")

# %% [markdown]
# **Measure.** Two ranks and the big model. `step_contest` takes training steps apart: what the link did, and what the computing thread did meanwhile. Communication is **exposed** while that thread waits for it, and **hidden** otherwise.


# %%
def set_up(comm, kind, cap_bytes=None):
    """Return the big model with one way of averaging; what the link carries is noted."""
    noted, model = Noted(comm), big_model()
    return noted, model, start(kind, noted, list(model.parameters()), cap_bytes)


def measure(*plans):
    """Return the milliseconds of each part of each plan's step, on the slower of two ranks."""
    return slower_of(launch(step_contest, 2, set_up, plans, big_batch, hosts=2, link=LINK), 1e-3)


each, hooks, flat = (p["exposed communication"] for p in measure(["each"], ["hooks"], ["flat"]))
compare("time on the link, each / flat", predicted_ratio, each / flat)
compare("time on the link, hooks / flat", predicted_ratio, hooks / flat)

# %% [markdown]
# **Reflect.** The hooks run *during* backward. Why is nothing hidden? What does the computing thread do between the moment when a gradient is ready and the start of the next layer's backward?
#
# *The real system.* Horovod's *tensor fusion* is the flat tensor, with limits of size and time. torch gives the hook the parameter: published teaching code takes it for the gradient, and averages the *weights*.

# %% [markdown]
# ## 3. Buckets
#
# One message for all has to wait for the last gradient, until backward is over.
#
# **Idea.** Between the two: **buckets** of some gradients each, sent when they are full. Backward finishes the *last* layer first, so the first bucket is filled from the last parameter towards the first. A bucket is closed as soon as it holds at least `cap` bytes. (Li et al., *PyTorch Distributed*, VLDB 2020, section 3.2.2.)
#
# **Predict.** Parameters of 100, 10, 100, 10, 100 and 10 bytes, and a cap of 120. How many buckets?

# %%
### BEGIN STARTER
# predicted_buckets = ...
### END STARTER
### BEGIN SOLUTION
predicted_buckets = 2  # 10 + 100 + 10 closes the first, 100 + 10 + 100 the second
### END SOLUTION


# %% question="assign_buckets" points="6" hint1="Go through the indices from the last to the first, and keep a bucket that is being filled and its bytes." hint2="Add the parameter first, then ask whether the bucket is full." hint3="What is left in the last, half-full bucket when all parameters are dealt out?"
def assign_buckets(n_bytes, cap_bytes):
    """Return buckets, each a list of parameter indices, in the order in which they fill.

    Parameters are taken from the last to the first. A bucket is closed once it holds
    `cap_bytes` or more; the last may hold less. Every index is in one bucket.

    Args:
        n_bytes: the size of each parameter's gradient, in order of registration.
    """
    ### BEGIN SOLUTION
    buckets, filled = [], cap_bytes
    for index in reversed(range(len(n_bytes))):
        if filled >= cap_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(index)
        filled += n_bytes[index]
    return buckets
    ### END SOLUTION


# %% tags="check"
q.check("assign_buckets")

# %%
tiny = [100, 10, 100, 10, 100, 10]
print(assign_buckets(tiny, 120))
compare("buckets", predicted_buckets, len(assign_buckets(tiny, 120)))
for share in (0, 1 / 8, 1 / 2, 1):
    print(f"cap {share:5.3f} of all bytes: {len(assign_buckets(sizes, share * B)):>2} buckets")

# %% [markdown]
# **Reflect.** A bucket may be much larger than the cap. Which parameter would make it so? What would change if a bucket were closed *before* it gets larger than the cap?
#
# *The real system.* torch's default cap is 25 MiB, and 1 MiB for the first bucket, so that the link starts early. The reverse of registration is a guess; after the first step torch [rebuilds the buckets](https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp) in the order that it saw.

# %% [markdown]
# ## 4. Overlap
#
# **Idea.** Two rules. First: a full bucket is **launched** and not waited for: `comm.all_reduce(x, async_op=True)` returns a handle at once, and `handle.wait()` the result later. Second: **buckets are launched in their fixed order**. Ranks may finish gradients in different orders, but the $k$-th all-reduce of one rank always meets the $k$-th of the others. So a bucket that is full early has to wait for those before it.
#
# **Predict.** Of four buckets, numbers 1, 2 and 3 are full, and number 0 lacks a gradient. How many are launched now, and how many when that gradient comes? Then the step. Say that forward takes half as long as backward, and that the link needs as long as backward for all gradients. Which share of the step with one flat message does overlap with eight buckets save?

# %%
### BEGIN STARTER
# predicted_now = ...
# predicted_then = ...
# predicted_saving = ...
### END STARTER
### BEGIN SOLUTION
predicted_now = 0
predicted_then = 4
shown = 1 / 8 + 7 / 60  # of the link: the last bucket, and the latencies of the seven before it
predicted_saving = 1 - (0.5 + 1 + shown) / (0.5 + 1 + 1)
### END SOLUTION


# %% question="launchable" points="4" hint1="Start at next_bucket. How long may you go on?" hint2="A bucket is full when waiting[b] == 0. A full one behind one that is not has to wait."
def launchable(waiting, next_bucket):
    """Return the numbers of the buckets to launch now, in order.

    Args:
        waiting: for each bucket, how many of its gradients are still to come.
        next_bucket: the first that has not been launched.
    """
    ### BEGIN SOLUTION
    stop = next_bucket
    while stop < len(waiting) and waiting[stop] == 0:
        stop += 1
    return list(range(next_bucket, stop))
    ### END SOLUTION


# %% tags="check"
q.check("launchable")

# %%
for what, predicted, waiting in (
    ("while bucket 0 lacks a gradient", predicted_now, [1, 0, 0, 0]),
    ("when it comes", predicted_then, [0, 0, 0, 0]),
):
    now = launchable(waiting, 0)
    compare(f"launched {what}", predicted, len(now))

# %% [markdown]
# `Reducer` knows which parameters are in which bucket, and which gradients have not come yet. You write what happens when a gradient is ready, and at the end.


# %%
class Reducer:
    """Averages gradients by buckets; `on_gradient` is called as each gradient is complete."""

    def __init__(self, comm, params, cap_bytes):
        self.comm, self.params, self.sync = comm, list(params), True
        self.buckets = assign_buckets([p.numel() * p.itemsize for p in self.params], cap_bytes)
        self.bucket_of = {i: b for b, bucket in enumerate(self.buckets) for i in bucket}
        self.start_afresh()
        for index, param in enumerate(self.params):
            param.register_post_accumulate_grad_hook(lambda _, index=index: self.on_gradient(index))

    def start_afresh(self):
        """Begin an iteration: every gradient is still to come."""
        self.waiting = [len(bucket) for bucket in self.buckets]
        self.next_bucket = 0
        self.works = []  # (bucket, handle) of what is under way


# %% question="Overlapped" points="10" hint1="on_gradient: count down the waiting of the gradient's bucket, then launch whatever launchable says, and move next_bucket on." hint2="To launch: join the gradients of the bucket with torch.cat, start the all-reduce with async_op=True, remember the handle. Do not wait for it there." hint3="finish: wait for each handle in turn, divide, and copy the parts back in the order in which you joined them. At the end start_afresh()."
class Overlapped(Reducer):
    def on_gradient(self, index):
        """Note that gradient `index` is complete; launch the buckets that may go now.

        Does nothing while `self.sync` is False.
        """
        if not self.sync:
            return
        ### BEGIN SOLUTION
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
            self.next_bucket = b + 1
        ### END SOLUTION

    def finish(self):
        """Wait for all buckets, put the averages into the gradients, and start afresh."""
        ### BEGIN SOLUTION
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()
        ### END SOLUTION


# %% tags="check"
q.check("Overlapped")

# %% [markdown]
# **Measure.** First: is it still the same training? Then the step of section 2, with about eight buckets. Predicted are a message a gradient, and one for all. With overlap the link begins when the first bucket is full. From then on it is busy for as long as the flat message was waited for (what ranks copy and add is part of that), and for one latency more for each further bucket. What has not been carried when backward ends is waited for. That is at least the last bucket: nothing is left behind which it could hide.

# %%
overlapped = launch(train, RANKS, STEPS, "overlap", 10_000)
together = np.mean([losses for losses, _ in overlapped], axis=0)
print(f"largest difference to the losses of one process: {np.abs(together - one[0][0]).max():.1e}")


# %% [markdown]
# Li et al. want an interface that is **non-intrusive**: of the loop in `train` two lines know of your reducer, `start` and `finish()`. And it is **interceptive**: hooks call it in the middle of `loss.backward()`, which knows nothing of it.


# %%
def interceptions(comm):
    """Return what the reducer has been told and has launched by the end of one backward pass."""
    model, told = make_model(), []

    class Noted(Overlapped):
        def on_gradient(self, index):
            told.append(index)
            super().on_gradient(index)

    reducer = Noted(comm, model.parameters(), 10_000)
    x, y = batch(0)
    loss_of(model(x), y).backward()
    n_launched = reducer.next_bucket
    reducer.finish()
    return told, n_launched, len(reducer.buckets)


told, n_launched, n_buckets = launch(interceptions, RANKS)[0]
print(f"called {len(told)} times, for parameters {told}")
print(f"launched before backward returned: {n_launched} of {n_buckets} buckets")


# %%
def waits_at(alpha, beta, carried=0.0, backward=BACKWARD):
    """Return the seconds of waiting that a price of alpha + beta x bytes predicts, by kind.

    Args:
        carried: how long one message with all gradients is carried, in this step.
        backward: how long its backward pass takes, with overlap.
    """
    buckets = assign_buckets(sizes, B / 8)
    begins = backward / BACKWARD * max(READY[i] for i in buckets[0])
    left = begins + carried + (len(buckets) - 1) * alpha - backward
    last = alpha + sum(sizes[i] for i in buckets[-1]) * beta
    one_by_one, at_once = N * alpha + B * beta, alpha + B * beta
    return np.array([one_by_one, one_by_one, at_once, max(last, left)])


# %%
kinds = ("each", "hooks", "flat", "overlap")
plans = tuple((kind, B / 8) for kind in kinds)
on_link = dict(zip(kinds, measure(*plans)))
carried = on_link["flat"]["exposed communication"] / 1e3
waits = waits_at(ALPHA, BETA, carried, on_link["overlap"]["backward compute"] / 1e3) * 1e3
for kind, expected in zip(kinds, waits):
    compare(f"{kind}: waited for, ms", expected, on_link[kind]["exposed communication"])
saving = 1 - length(on_link["overlap"]) / length(on_link["flat"])
compare("overlap saves, of the step with one message", predicted_saving, saving)
draw_steps(on_link, "One step over the link", "ms", waits)

# %% [markdown]
# **And on a device?** Here no link is lent. Two ranks train on GPUs, by NCCL where each can have one; else as **virtual ranks**, threads that share one device. Without a GPU the same cells run on the CPU.

# %%
GPUS = torch.cuda.device_count()
DEVICE = torch.device("cuda" if CUDA else "cpu")
PLACE = torch.cuda.get_device_name() if CUDA else "the CPU"
PLACE += ", NCCL" if GPUS > 1 else ", virtual ranks"
BIG_MODEL = big_model()  # made here: virtual ranks would draw from one generator at once


def on_device(fn, *args):
    """Return what `fn` gives on two ranks of the device."""
    return launch(fn, 2, *args, transport=device_ranks(2, DEVICE.type))


def now():
    """Return the time when all is done that this rank has given the device to do."""
    synchronize(DEVICE)
    return perf_counter()


# %%
def set_up_there(comm, kind, cap_bytes=None):
    """Return a copy of the big model on the device, with one way of averaging."""
    clocked, model = Clocked(comm, now), deepcopy(BIG_MODEL).to(DEVICE)
    return clocked, model, start(kind, clocked, list(model.parameters()), cap_bytes)


def prices(comm, repeats=30):
    """Return alpha and beta of an all-reduce on the device, from one float and from B bytes."""
    torch.set_num_threads(1)
    clocked, seconds = Clocked(comm, now), np.zeros((repeats, 2))
    for turn in np.ndindex(repeats, 2):
        x = torch.ones((1, B // 4)[turn[1]], device=DEVICE)
        comm.barrier()
        clocked.forget()
        clocked.all_reduce(x)
        seconds[turn] = clocked.blocked
    alpha, whole = np.median(seconds, axis=0)
    return alpha, (whole - alpha) / B


# %% [markdown]
# **Predict** the waits as before, with the device's own $\alpha$ and $\beta$.

# %%
waits = 1e3 * waits_at(*np.max(list(on_device(prices)), axis=0))
there = slower_of(on_device(step_contest, set_up_there, plans, big_batch, 9, now), 1e-3)
there = dict(zip(kinds, there))
print("timed here: two ranks on", PLACE)
for (kind, step), expected in zip(there.items(), waits):
    compare(f"{kind}: waited for, ms", expected, step["exposed communication"])
draw_steps(there, f"One step, two ranks on {PLACE}", "ms", waits)

# %% [markdown]
# **Reflect.** How much of the communication is hidden, and which part cannot be, for any cut into buckets? What do eight latencies cost, and who adds up on your cores what the link brings? On the device, a ratio above 1 says that ranks wait for more than bytes: for what? What would happen in `finish` if one parameter got no gradient in this step? Which line of `Reducer` makes it interceptive, and what would the loop look like without it?
#
# *The real system.* DDP is three layers: a Python class around the model, which broadcasts at the start and prepares each forward; the **reducer**, which does in C++ what yours does; and under it the **process group**, one interface over NCCL, gloo and MPI, as your `comm`. With `gradient_as_bucket_view=True` the reducer does without your two copies: gradients then *are* views into the buckets. Li et al. report a speed-up by overlap of 38.0 % for ResNet-50 and 35.2 % for BERT on NCCL (section 5.1): a step without it takes 1.38 times as long.

# %% [markdown]
# ## 5. Not every step
#
# A batch that does not fit into memory is taken in **micro-batches**: several backward passes add up in `.grad`, then one optimizer step. To average after each would send everything several times.
#
# **Idea.** `with no_sync(reducer):` switches the averaging off; gradients add up locally, and the first backward outside sends the sum of all.
#
# **Predict.** Four micro-batches, of which three are inside `no_sync`. Compared to averaging each time, what fraction of the bytes is sent?

# %%
### BEGIN STARTER
# predicted_fraction = ...
### END STARTER
### BEGIN SOLUTION
predicted_fraction = 1 / 4
### END SOLUTION


# %% question="no_sync" points="5" hint1="Before the yield: switch reducer.sync off. After it: back." hint2="What if the code inside raises an exception? Is the line after yield reached?" hint3="What if no_sync is used inside no_sync? What should sync be after the inner one?"
@contextmanager
def no_sync(reducer):
    """Leave gradients local inside the block; afterwards `reducer.sync` is as it was before."""
    ### BEGIN SOLUTION
    before = reducer.sync
    reducer.sync = False
    try:
        yield
    finally:
        reducer.sync = before
    ### END SOLUTION


# %% tags="check"
q.check("no_sync")


# %%
def accumulate(comm, use_no_sync):
    """Return the gradient of the first layer after four micro-batches."""
    model = make_model()
    reducer = Overlapped(comm, model.parameters(), 10_000)
    x, y = (part[comm.rank :: comm.size] for part in batch(0))
    for micro in range(4):
        loss = loss_of(model(x[micro::4]), y[micro::4]) / 4
        if use_no_sync and micro < 3:
            with no_sync(reducer):
                loss.backward()
        else:
            loss.backward()
            reducer.finish()
    return model[0].weight.grad.numpy()


once, always = (launch(accumulate, 2, flag, record=True) for flag in (True, False))
fraction = once.traffic[0].bytes_sent / always.traffic[0].bytes_sent
compare("bytes with no_sync / without", predicted_fraction, fraction, exact=True)
print(f"largest difference of the gradients: {np.abs(once[0] - always[0]).max():.1e}")

# %% [markdown]
# **Reflect.** To average each time gave the *same* gradient here. Why does it do no harm to average an average again?
#
# *The real system.* In torch the [forward pass has to be inside `no_sync` too](https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html): DDP decides there whether the coming backward will be synchronised. Without `finally`, one exception would switch averaging off for good.

# %% [markdown]
# ## 6. How large a bucket?
#
# Small buckets start early and pay many latencies. Large buckets pay few and start late.
#
# **Idea.** One link, buckets in order: bucket $i$ starts when it is full *and* the one before has been carried,
#
# $$\text{end}_i = \max(\text{ready}_i, \text{end}_{i-1}) + \text{duration}_i .$$
#
# What is still on the link when backward ends is exposed.


# %% question="finish_time" points="5" hint1="Go through the buckets with one variable: when the link is free again." hint2="A bucket starts when both are true: it is ready, and the link is free."
def finish_time(ready, duration):
    """Return when the last bucket has been carried, or 0.0 if there are none.

    Args:
        ready: when each bucket is full, in launch order; ascending.
        duration: how long the link takes for each.
    """
    ### BEGIN SOLUTION
    free = 0.0
    for bucket, takes in enumerate(duration):
        free = max(free, ready[bucket]) + takes
    return free
    ### END SOLUTION


# %% tags="check"
q.check("finish_time")

# %% [markdown]
# **Predict.** `READY` says when each gradient is ready in a backward pass without communication. From that, $\alpha$ and $\beta$, your `finish_time` predicts the step for every cap.


# %%
def predicted_backward(cap_bytes, slower=1.0):
    """Return the milliseconds of backward with its exposed communication."""
    buckets, ready = assign_buckets(sizes, cap_bytes), np.multiply(READY, slower)
    full = np.maximum.accumulate([max(ready[i] for i in bucket) for bucket in buckets])
    takes = [ALPHA + BETA * sum(sizes[i] for i in bucket) for bucket in buckets]
    return max(finish_time(full, takes), max(ready)) * 1e3


# %%
caps = [B / share for share in (10_000, 16, 8, 5, 3, 2, 1)]
model_says = [predicted_backward(cap) for cap in caps]
best = caps[int(np.argmin(model_says))]
print(f"predicted optimum: cap = B / {B / best:.0f}, {len(assign_buckets(sizes, best))} buckets")

# %% [markdown]
# **Measure.** The same caps on the link, in real seconds. Among them runs a step that sends nothing: it says how long a backward pass takes in these minutes, and your model takes `READY` as much longer.

# %%
alone, *rows = measure(("alone",), *(("overlap", cap) for cap in caps))
slower = alone["backward compute"] / 1e3 / BACKWARD  # than when READY was measured
model_says = [predicted_backward(cap, slower) for cap in caps]
measured = [row["backward compute"] + row["exposed communication"] for row in rows]
for cap, expected, seen in zip(caps, model_says, measured):
    compare(
        f"cap B/{B / cap:<6.0f} ({len(assign_buckets(sizes, cap)):>2} buckets), ms", expected, seen
    )

# %%
kib = np.array(caps) / 2**10
curves = {
    "predicted by your finish_time": (kib, model_says, "C0-"),
    "measured": (kib, measured, "C1o"),
    "predicted optimum": ([best / 2**10], [model_says[caps.index(best)]], "kD"),
}
axes = {"x": "bucket cap, KiB", "y": "backward + exposed, ms", "log": "x"}
draw_curves(curves, **axes, title="Too large hides nothing; too small pays latencies")

# %% [markdown]
# One step of yours, at the predicted optimum, below a simulation of the same layers on the same link. Move the bucket size: when does a bucket turn orange?

# %%
steps = launch(recorded_step, 2, set_up, ("overlap", best), big_batch, hosts=2, link=LINK)
recorded = max(steps, key=lambda step: step.end_ns - step.start_ns)
forward_s = (recorded.forward_end_ns - recorded.start_ns) / 1e9
pieces = np.diff(np.maximum.accumulate(READY[::-1]), prepend=0.0).tolist()
names = [name for name, _ in big_model().named_parameters()]
DdpTimeline.of(
    BackwardProfile(forward_s, pieces, sizes[::-1], names[::-1]),
    ranks=2,
    recorded=recorded,
    title="A step of your DDP, predicted and recorded",
    bucket_mib=best / 2**20,
    latency_us=ALPHA / 2 * 1e6,  # its ring pays two latencies a bucket, your link one
    bandwidth_gb_s=1e-9 / BETA,
)

# %% [markdown]
# torch's default cap is 25 MiB. What does it make of your model, and of the two that Li et al. measured?

# %%
default = 25 * 2**20
print(f"yours: {len(assign_buckets(sizes, default))} bucket, {predicted_backward(default):.1f} ms")
for name, layers in (("ResNet-50", workloads.RESNET_50), ("BERT", workloads.BERT_LARGE)):
    held = [layer.param_bytes for layer in layers]
    print(f"{name:<9} {sum(held) / 2**20:>6,.0f} MiB, {len(assign_buckets(held, default))} buckets")

# %% [markdown]
# **Reflect.** Is the measured optimum where you predicted it, and how much is lost one place beside it? On a link with a tenth of the latency, would the optimum move left or right? With the figures just printed: why is BERT's step in Li's figures so much longer than ResNet-50's, and why does a larger cap than 25 MiB suit it?
#
# *The real system.* Li et al. find the best cap for ResNet-50 between 10 and 25 MB on NCCL; it depends on model and backend. So torch lets you set `bucket_cap_mb`.

# %% [markdown]
# ## 7. Before DDP: DataParallel
#
# In torch's older `DataParallel`, rank 0 is in the middle. In each step it (1) sends its weights to all others, (2) scatters the batch, and (3) collects the gradients; it alone runs the optimizer.
#
# **Predict.** How many bytes does rank 0 send in a step, and how many each other rank? (`torch.nn.DataParallel` gathers the outputs too; here each rank computes the loss of its own shard.)


# %% question="data_parallel_bytes" points="4" hint1="Rank 0 sends twice: the weights to all others, and their parts of the batch." hint2="What does a worker have that rank 0 needs? One message of what size?"
def data_parallel_bytes(n, model_bytes, batch_bytes):
    """Return (bytes that rank 0 sends, bytes that each other rank sends) in one step."""
    ### BEGIN SOLUTION
    return (n - 1) * (model_bytes + batch_bytes / n), model_bytes
    ### END SOLUTION


# %% tags="check"
q.check("data_parallel_bytes")


# %%
def data_parallel_step(comm):
    """One step in DataParallel's way: three transfers, all through rank 0."""
    model = make_model()
    params = list(model.parameters())
    x, y = batch(0)
    for param in params:
        param.data.copy_(comm.broadcast(param.data, root=0, algorithm="reference"))
    shards = [x[rank :: comm.size].contiguous() for rank in range(comm.size)]
    mine = comm.scatter(shards if comm.rank == 0 else None, root=0, algorithm="reference")
    loss_of(model(mine), y[comm.rank :: comm.size]).backward()
    for param in params:
        comm.reduce(param.grad, root=0, op="avg", algorithm="reference")


# %%
def ddp_step(comm):
    """One step in DDP's way."""
    model = make_model()
    reducer = Overlapped(comm, model.parameters(), 10_000)
    x, y = batch(0)
    loss_of(model(x[comm.rank :: comm.size]), y[comm.rank :: comm.size]).backward()
    reducer.finish()


model_bytes = sum(p.numel() * 4 for p in make_model().parameters())
batch_bytes = batch(0)[0].nbytes

# %%
busiest = {"DataParallel": [], "DDP": []}
for n in (2, 4, 8):
    boss, worker = data_parallel_bytes(n, model_bytes, batch_bytes)
    traffic = launch(data_parallel_step, n, record=True).traffic
    compare(f"DataParallel, {n} ranks, rank 0", boss, traffic[0].bytes_sent)
    compare(f"DataParallel, {n} ranks, another rank", worker, traffic[1].bytes_sent)
    busiest["DataParallel"].append(traffic[0].bytes_sent / model_bytes)
    busiest["DDP"].append(
        max(t.bytes_sent for t in launch(ddp_step, n, record=True).traffic) / model_bytes
    )

# %%
curves = {
    "DataParallel": ((2, 4, 8), busiest["DataParallel"], "C0o-"),
    "DDP": ((2, 4, 8), busiest["DDP"], "C1s-"),
}
axes = {"x": "number of ranks", "y": "busiest rank, bytes sent / model"}
draw_curves(curves, **axes, title="In DataParallel one rank sends for all", marks={"two models": 2})

# %% [markdown]
# **Reflect.** Rank 0 of DataParallel sends a little more than $n-1$ models. What else does it send, and for which models and data would that be the larger part?
#
# *The real system.* [`torch.nn.DataParallel`](https://github.com/pytorch/pytorch/blob/main/torch/nn/parallel/data_parallel.py) is one process with a thread a GPU, so its ranks share Python's interpreter lock too.

# %% [markdown]
# **And train, with all of it**: your buckets with the cap of section 6, launched by your `Overlapped`, and two micro-batches a step, of which `no_sync` keeps the first local. The last 297 digits are the test.


# %%
def train_in_earnest(comm, steps=250):
    """Return the share that is right on digits never seen, and the weights."""
    torch.set_num_threads(1)
    model = make_model()
    reducer = Overlapped(comm, model.parameters(), best / B * model_bytes)
    for step in range(steps):
        rows = np.arange(step * 192, (step + 1) * 192)[comm.rank :: comm.size] % SEEN
        x, y = X[rows], Y[rows]
        with no_sync(reducer):
            (loss_of(model(x[::2]), y[::2]) / 2).backward()
        (loss_of(model(x[1::2]), y[1::2]) / 2).backward()
        reducer.finish()
        descend(model.parameters(), lr=0.5)
    guesses = model(X[SEEN:]).argmax(1)
    weights = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    return (guesses == Y[SEEN:]).double().mean().item(), weights


# %%
trained = launch(train_in_earnest, RANKS)
(right, weights), *others = trained
print(f"{RANKS} ranks, right on {right:.1%} of {len(LABELS) - SEEN} digits never seen")
print("all replicas equal:", all(torch.equal(weights, w) for _, w in others))

# %% [markdown] question="bucket_size" points="6" manual="true" rubric1="2: Says both extremes with the reason (one bucket is launched when backward is over and nothing is hidden; a bucket a gradient pays a latency each)" rubric2="2: Uses numbers measured in this notebook" rubric3="1: Predicts the direction right for both changes (lower latency: smaller buckets; faster computation with the same link: less to hide behind, exposed communication grows, and the cap matters less or larger buckets win)" rubric4="1: Names something the model leaves out (copying, communication that takes cores or SMs from backward, several links, other jobs)"
# ## Discuss
#
# Your training moves to GPUs ten times as fast, over a network of the same bandwidth and a tenth of the latency. From the model of section 6 and your measurements: which way do you move `bucket_cap_mb`, and why? What does the model leave out that you would measure first? Half a page.
#
# ### BEGIN SOLUTION
# With one bucket everything is sent after backward: the step is compute plus all of the communication, about twice a backward pass on our link. With a bucket a gradient the link pays thirty-four latencies, and is still busy long after backward has ended. The best cap lay between.
#
# A tenth of the latency makes small buckets cheap, so they can start earlier: the optimum moves to smaller caps. Ten times the computing speed does the opposite of helping: backward is over in a tenth of the time, there is little left to hide behind, and most of the communication is exposed whatever the cap; then the total time on the link counts, which many buckets only lengthen. So: a smaller cap by the latency, but expect little from it; the link is now the bottleneck, and compression or a faster network would do more. First measure what the model leaves out: the copies into buckets, whether the collective takes cores or SMs away from backward, how far bandwidth falls for small messages, and how equal the ranks are.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (mathematical equivalence, non-intrusive API, high performance)" rubric3="1: Methods and contributions (bucketing, overlap, fixed order and unused parameters, no_sync)" rubric4="1: Evaluation and discussion (names a figure and its conditions)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Shen Li et al., [*PyTorch Distributed: Experiences on Accelerating Data Parallel Training*](https://arxiv.org/abs/2006.15704), VLDB 2020. One page, in this form.
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
# **Overview.** The design of DistributedDataParallel in PyTorch 1.5 and what was learnt from its use. **Problem and challenges.** Replicas must end up where local training would have (mathematical equivalence); the wrapper must not ask users to change their code and must be able to intercept what it needs; and it must be fast, though gradients come in hundreds of small tensors. **Methods and contributions.** Gradient bucketing; overlap of all-reduce with backward by autograd hooks; a fixed launch order, since ranks may finish in other orders; a walk through the graph for parameters that are not used; no_sync to skip synchronisation; round-robin process groups. **Evaluation and discussion.** Overlap speeds ResNet-50 and BERT on NCCL up by 38.0 % and 35.2 %; bucket size has an optimum that depends on model and backend; near-linear scaling to 256 GPUs when configured well. **Trade-offs.** Memory for buckets against speed; a fixed parameter-to-bucket map against models that skip layers; finding unused parameters costs a walk and an extra all-reduce. **Open questions.** Choosing the bucket size without a sweep; layer dropping that also saves communication; compression.
# ### END SOLUTION

# %%
q.status()
