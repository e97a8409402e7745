# %% [markdown] builds="pipelines by GPipe and 1F1B, products shared out by columns and rows, both at once" needs="09"
# # Lab 13: Model parallelism
#
# - **You build** a step of training over devices that have a part of the model each, the schedules GPipe and 1F1B, and matrix products that are divided by columns and by rows.
# - **You need** torch modules and `backward()`, and what collectives cost (lab 09).
# - **It takes** about 85 minutes: introduction 2, sections 17, 14, 11, 11, 7, 7 and 6, discussion 10. The reading note, with its papers, is for another day.
#
# A model that does not fit on one device has to be cut. It can be cut between its layers: each device has some layers, and activations pass from one device to the next. That is **inter-operator parallelism**; its price is devices that wait. Or it is cut inside its layers: each device has a part of every matrix. That is **intra-operator parallelism**; its price is communication. You build both, predict both prices, and then use both at once.
#
# (The older pair of words is data and model parallelism: who cuts the batch, and who the model. It leaves open how a model is cut, and hides that to cut the batch is to cut every operator along one axis, as columns are another.)
#
# Write each prediction down before you measure.

# %% tags="setup"
import os
import platform
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from autograder import compare, lab
from ddp_lab import Link, launch, simulate
from ddp_lab.parallel import Pipeline
from ddp_lab.simulate.pipeline import PipelineStep
from ddp_lab.transport.sim import SimWorld
from lessons.ranks.pretended_device import OnDevice
from lessons.ranks.wires import Clocked

# %% tags="setup"
q = lab("model_parallel")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")

# %% [markdown]
# The running example: four equal blocks of two matrices each, on scikit-learn's images of digits. Each of four devices has one block.


# %%
class Block(nn.Module):
    """x -> x + relu(x W1) W2, with W1 of shape (64, 256) and W2 of (256, 64)."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(64, 256) / 8)
        self.w2 = nn.Parameter(torch.randn(256, 64) / 32)

    def forward(self, x):
        return x + torch.relu(x @ self.w1) @ self.w2


torch.manual_seed(0)
BLOCKS = [Block() for _ in range(4)]
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES = torch.tensor(IMAGES / 16, dtype=torch.float32)
LABELS = torch.tensor(LABELS)
loss_of = nn.functional.cross_entropy

# %%
K, M = 4, 8  # devices, micro-batches
X, Y = IMAGES[:256], LABELS[:256]
whole = nn.Sequential(*deepcopy(BLOCKS))
loss = loss_of(whole(X), Y)
loss.backward()
print(f"one process: loss {loss.item():.6f}")


# %% [markdown]
# ## 1. One device works, three wait
#
# Rank $r$ has block $r$. Rank 0 has the images, the last rank the labels.
#
# **Idea.** A stage does not need the others to compute its gradients. It needs two arrays: forward its input $x$, which the stage before sends, and backward the gradient of its output $y$, which the stage behind sends. In torch, `y.backward(gradient)` goes on from there, and the gradient for the stage before is then in `x.grad`.
#
# **Predict.** In one training step on four ranks: how many messages are sent in all?

# %%
### BEGIN STARTER
# predicted_messages = ...
### END STARTER
### BEGIN SOLUTION
predicted_messages = 6
### END SOLUTION


# %% question="naive_step" points="5" hint1="Who has nobody before it, and who nobody behind it? These two ranks differ from the others." hint2="What comes from comm.recv has no history. x.requires_grad_() makes torch keep x.grad." hint3="y.backward(g) wants the gradient of y, which is what the rank behind sends; the last rank has a loss, and calls loss.backward()."
def naive_step(comm, stage, x, target):
    """Train one step with a stage of the model on each rank; gradients are in `.grad` then.

    Args:
        stage: this rank's part of the model.
        x: the images on rank 0; elsewhere None.
        target: the labels on the last rank; elsewhere None.
    Returns: the loss (`loss_of`) on the last rank, elsewhere None.
    """
    ### BEGIN SOLUTION
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = None
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(x.grad, comm.rank - 1)
    return loss
    ### END SOLUTION


# %% tags="check"
q.check("naive_step")


# %%
def naive(comm):
    """Return the loss and this rank's gradient of W1."""
    stage = deepcopy(BLOCKS[comm.rank])
    x = X if comm.rank == 0 else None
    loss = naive_step(comm, stage, x, Y if comm.rank == K - 1 else None)
    return None if loss is None else loss.item(), stage.w1.grad


run = launch(naive, K, transport="threads", record=True)
print(f"loss {run[-1][0]:.6f}")
apart = max((run[r][1] - whole[r].w1.grad).abs().max().item() for r in range(K))
print(f"largest difference to one process's gradients: {apart:.1e}")
compare("messages in a step", predicted_messages, sum(t.messages_sent for t in run.traffic))

# %% [markdown]
# Where one process sees all devices, torch does the sending: `.to(device)` is differentiable, and brings the gradient back the same way.


# %%
class TwoDevices(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.devices = first, second
        self.net1, self.net2 = nn.Linear(64, 256).to(first), nn.Linear(256, 10).to(second)

    def forward(self, x):
        hidden = torch.relu(self.net1(x.to(self.devices[0])))
        return self.net2(hidden.to(self.devices[1]))


two = ("cuda:0", "cuda:1") if torch.cuda.device_count() > 1 else ("cpu", "cpu")
net = TwoDevices(*two)
loss = loss_of(net(X), Y.to(two[1]))
loss.backward()
print("devices:", *two, "- the first layer's gradient lies on", net.net1.weight.grad.device)

# %% [markdown]
# So the result is right. But on a clock?
#
# Two cores cannot show four devices at work. So at first time is *virtual*: the ranks are real, messages, gradients and losses too, but a forward of a block is said to take 1 ms for each micro-batch, a backward 2 ms, and a message nothing. `Pipeline` is the course's own: it does what a **table** says. A table has a list for each rank of actions such as `"2F0"`: stage 2, forward, micro-batch 0; `B` is backward.


# %%
def on_the_clock(table, blocks=BLOCKS, link=None, forward=1e-3):
    """Run one step by a table; return it with its times, each rank's peak, and the gradients."""
    batches = 1 + max(int(a.split("F")[1]) for a in table[0] if "F" in a)

    def rank(comm):
        stage = deepcopy(blocks[comm.rank])
        seconds = {"F": forward, "B": 2 * forward}
        pipeline = Pipeline(
            comm, stage, schedule=table, microbatches=batches, loss_fn=loss_of, seconds=seconds
        )
        pipeline.step(X, Y)
        return pipeline.timeline, pipeline.peak_activations, stage.w1.grad

    run = launch(rank, len(table), transport=SimWorld(len(table), link or Link(0.0, 0.0)))
    timelines, peaks, grads = zip(*run)
    return PipelineStep(timelines), list(peaks), grads


# %%
def draw(steps):
    """Draw each step {title: step}: time to the right, a row a rank."""
    _, axes = plt.subplots(len(steps), sharex=True, figsize=(7, 1.9 * len(steps)), squeeze=False)
    for ax, (title, step) in zip(axes[:, 0], steps.items()):
        for rank, spans in enumerate(step.spans):
            for action, begin, end in spans:
                color = {"F": "C0", "B": "C1"}[action.strip("0123456789")]
                bar = ax.barh(rank, 1e3 * (end - begin), 0.8, 1e3 * begin, color=color, ec="w")
                if end - begin > step.makespan / 40:
                    ax.bar_label(bar, [action[2:]], label_type="center", fontsize=7, color="w")
        ax.set(title=f"{title}: idle {step.bubble_fraction:.0%}", ylabel="rank")
        ax.set_yticks(range(len(step.spans)))
        ax.invert_yaxis()
    axes[-1, 0].set_xlabel("ms; blue is forward, orange backward, the number the micro-batch")
    plt.show()


one_at_a_time, _, _ = on_the_clock([[f"{r}F0", f"{r}B0"] for r in range(K)])
draw({"naive": one_at_a_time})

# %% [markdown]
# **Reflect.** With four devices a step is as long as on one. What do three more devices give you, and for which model is that worth their price?
#
# *The real system.* This is what `model.to` with a map of layers to devices gives you (Hugging Face's `device_map="auto"`), and often all that inference needs.

# %% [markdown]
# ## 2. GPipe: cut the batch
#
# **Idea.** Cut the batch into $M$ **micro-batches**. While stage 1 works on the first, stage 0 can work on the second. All forwards go through, then all backwards; the gradients add up, and the weights stay as they were until the step's end. So the result is that of one process, apart from rounding.
#
# What is left of the waiting is the **bubble**: the last stage waits until the first micro-batch has come through $K-1$ stages, and the first until the gradients have come back.
#
# **Predict** by the picture above, before you write the formula: what share of the time is idle with 4 stages and 8 micro-batches?

# %%
### BEGIN STARTER
# predicted_idle = ...
### END STARTER
### BEGIN SOLUTION
predicted_idle = 3 / 11
### END SOLUTION


# %% question="gpipe" points="4" hint1="All forwards first: f\"{rank}F{m}\" for m in order." hint2="Then the backwards, in the same order of micro-batches. The same for every rank but for the number in front."
def gpipe(rank, ranks, microbatches):
    """Return what a rank does, in order: all forwards, then all backwards, each from 0 up.

    gpipe(1, 4, 2) -> ["1F0", "1F1", "1B0", "1B1"]
    """
    ### BEGIN SOLUTION
    return [f"{rank}{kind}{m}" for kind in "FB" for m in range(microbatches)]
    ### END SOLUTION


# %% question="bubble" points="3" hint1="Count in slots of one forward and one backward. How many slots does a stage work?" hint2="How many slots pass from the first begin to the last end?" hint3="A stage works M slots; the last micro-batch begins M - 1 slots late and needs K more."
def bubble(stages, microbatches):
    """Return the share of its time for which a stage is idle: GPipe, stages that take equally long."""
    ### BEGIN SOLUTION
    return (stages - 1) / (microbatches + stages - 1)
    ### END SOLUTION


# %% tags="check"
q.check("gpipe")
q.check("bubble")


# %%
def table_of(order, microbatches):
    """Return the table of K ranks, of which each follows `order`."""
    return [order(rank, K, microbatches) for rank in range(K)]


steps = {f"GPipe, {m} micro-batches": on_the_clock(table_of(gpipe, m)) for m in (4, M)}
draw({title: step for title, (step, _, _) in steps.items()})
step, peaks, grads = steps[f"GPipe, {M} micro-batches"]
apart = max((grads[r] - whole[r].w1.grad).abs().max().item() for r in range(K))
print(f"largest difference to one process's gradients: {apart:.1e}")

# %%
compare("idle share, my guess", predicted_idle, simulated=step.bubble_fraction)
counts = (1, 2, 4, 8, 16, 32)
idle = [on_the_clock(table_of(gpipe, m))[0].bubble_fraction for m in counts]
for m, seen in zip(counts, idle):
    compare(f"idle share, M = {m}", bubble(K, m), simulated=seen, exact=True)

# %% [markdown]
# Then why not a thousand micro-batches? Because every action costs something besides: kernels to start, an activation to copy. `simulate.pipeline` takes such an `overhead`. The batch stays the same, so a forward takes $8/M$ ms.

# %%
for mark, overhead in zip("os^", (0.0, 0.2e-3, 0.5e-3)):
    took = [
        simulate.pipeline("gpipe", K, m, 8e-3 / m, 16e-3 / m, overhead).makespan for m in counts
    ]
    best = counts[int(np.argmin(took))]
    plt.semilogx(counts, 1e3 * np.array(took), f"{mark}-", base=2, label=f"{1e3 * overhead:g} ms")
    print(f"overhead {1e3 * overhead:g} ms an action: best with M = {best}")
plt.legend(title="overhead")
plt.gca().set(xlabel="micro-batches", ylabel="step, ms", title="Small micro-batches cost, too")
plt.show()

# %% [markdown]
# **On a real clock.** Now four ranks on four hosts, each with a device that a forward keeps busy for 8 ms and a backward for 16 (a pretended one: its rank sleeps meanwhile, as one that waits for a GPU). On the link a micro-batch's activations travel for another 8 ms. Meanwhile their sender computes the next micro-batch. So a message costs time only where its receiver has nothing else to do.
#
# **Predict.** How long is a step of GPipe then?


# %% question="step_seconds" points="4" hint1="Without messages: how many slots of a forward and a backward are there, by your bubble?" hint2="Follow the first micro-batch forward, then the last one backward. Which messages does somebody wait for?" hint3="Over each of the K - 1 boundaries one message forward and one backward is waited for; the others travel while both sides compute."
def step_seconds(stages, microbatches, forward, backward, message):
    """Return the seconds of a GPipe step on equal stages.

    Args:
        forward, backward: seconds of one micro-batch on one stage.
        message: seconds from one stage to the next, either way; no longer than `forward`.
    """
    ### BEGIN SOLUTION
    return (microbatches + stages - 1) * (forward + backward) + 2 * (stages - 1) * message
    ### END SOLUTION


# %% tags="check"
q.check("step_seconds")

# %%
FORWARD, BACKWARD, MESSAGE = 8e-3, 16e-3, 8e-3
SLOW = Link(0.0, MESSAGE / (X.nbytes / M))


def on_the_wall(comm, order, rounds=5):
    """Return this rank's timeline of each of some steps, in seconds of this machine's clock."""
    torch.set_num_threads(1)
    stage = OnDevice(deepcopy(BLOCKS[comm.rank]), FORWARD, BACKWARD)
    table, timelines = table_of(order, M), []
    pipeline = Pipeline(comm, stage, schedule=table, microbatches=M, loss_fn=loss_of)
    for _turn in range(rounds):
        pipeline.step(X, Y)
        timelines.append(pipeline.timeline)
    return timelines


def quickest_step(order, **where):
    """Return the quickest of some steps of K ranks that follow `order`."""
    taken = map(PipelineStep, zip(*launch(on_the_wall, K, order, **where)))
    return min(taken, key=lambda one: one.makespan)


# %%
walls = {}
for name, message, where in (("memory", 0.0, {}), ("link", MESSAGE, {"hosts": K, "link": SLOW})):
    walls[f"GPipe over {name}"] = wall = quickest_step(gpipe, **where)
    expected = step_seconds(K, M, FORWARD, BACKWARD, message)
    compare(f"over {name}, ms", 1e3 * expected, 1e3 * wall.makespan)
    idle = 1 - M * (FORWARD + BACKWARD) / expected
    compare(f"over {name}, idle share", idle, wall.bubble_fraction)
draw(walls)

# %% [markdown]
# **Reflect.** Huang et al. call the bubble negligible when $M \ge 4K$. What is it then, by your formula, and which of the curves above would make you stop earlier?
#
# *The real system.* torchgpipe measured ResNet-101 on 2, 4 and 8 GPUs: 1.350, 2.291 and 3.114 times one GPU, with 16, 64 and 64 micro-batches ([its paper](https://arxiv.org/abs/2004.09910)). The bubble alone would allow 7.2 on 8; unequal stages and overhead take the rest.

# %% [markdown]
# ## 3. 1F1B: give memory back
#
# A forward leaves activations behind, which wait for the backward of their micro-batch.
#
# **Predict.** With GPipe, 4 stages and 8 micro-batches: how many micro-batches' activations does rank 0 hold at most? And how many would it have to hold if backwards began as early as they can?

# %%
### BEGIN STARTER
# predicted_gpipe_peak = ...
# predicted_least_peak = ...
### END STARTER
### BEGIN SOLUTION
predicted_gpipe_peak = 8
predicted_least_peak = 4
### END SOLUTION

# %% [markdown]
# **Idea.** Let a stage do a backward as soon as one can be done. The last stage can at once: F0 B0 F1 B1 and so on. The one before it has to be one micro-batch ahead, the one before that two. So stage $r$ of $K$ begins with $K-r$ forwards (or $M$, if that is less), and then goes on in turns: **one backward, one forward**. When no forward is left, the remaining backwards follow.


# %% question="one_f_one_b" points="6" hint1="Begin with ahead = min(ranks - rank, microbatches) forwards." hint2="Then for each micro-batch m: its backward, and the forward of micro-batch m + ahead, if there is one."
def one_f_one_b(rank, ranks, microbatches):
    """Return what a rank does, in order: as many forwards as needed, then B and F in turns.

    one_f_one_b(2, 4, 3) -> ["2F0", "2F1", "2B0", "2F2", "2B1", "2B2"]
    """
    ### BEGIN SOLUTION
    ahead = min(ranks - rank, microbatches)
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(microbatches):
        order.append(f"{rank}B{m}")
        if m + ahead < microbatches:
            order.append(f"{rank}F{m + ahead}")
    return order
    ### END SOLUTION


# %% tags="check"
q.check("one_f_one_b")

# %%
both = {"GPipe": on_the_clock(table_of(gpipe, M)), "1F1B": on_the_clock(table_of(one_f_one_b, M))}
draw({title: step for title, (step, _, _) in both.items()})
compare("GPipe, held by rank 0", predicted_gpipe_peak, both["GPipe"][1][0])
compare("1F1B, held by rank 0", predicted_least_peak, both["1F1B"][1][0])
for title, (step, peaks, _) in both.items():
    print(f"{title:<6} held by each rank {peaks}, idle {step.bubble_fraction:.1%}")

# %% [markdown]
# The same idle time, less memory. Two later schedules reduce the idle time, at another price: **interleaved 1F1B** gives each rank several smaller stages, and pays with messages; **zero bubble** computes the gradient of the input first, for which others wait, and those of the weights later, when nobody waits. (A forward takes 1 here, and a backward 2.)

# %%
for name, chunks in (("1f1b", 1), ("interleaved_1f1b", 2), ("zero_bubble", 1)):
    step = simulate.pipeline(name, K, M, 1 / chunks, 2 / chunks, chunks=chunks)
    print(f"{name:<18} step {step.makespan:5.1f}  idle {step.bubble_fraction:5.1%}")

# %% [markdown]
# And **PipeDream** never drains the pipeline: it changes the weights right after each backward. For a backward to use its forward's weights, a stage keeps a copy of them for each micro-batch under way. The gradients are exact for those copies, but rank 0's are three changes old when they are applied. What does that do to training?


# %%
def pipedream(comm, lr, batches=10):
    """Return the losses of training by PipeDream, and how many versions of weights a rank kept."""
    blocks = BLOCKS if comm.size == 1 else [BLOCKS[comm.rank]]
    stage = nn.Sequential(*deepcopy(blocks))
    optimizer = torch.optim.SGD(stage.parameters(), lr)
    pipeline = Pipeline(
        comm,
        stage,
        schedule="pipedream",
        microbatches=M,
        loss_fn=loss_of,
        optimizer=optimizer,
    )
    return [pipeline.step(X, Y).item() for _ in range(batches)], pipeline.weight_versions


# %%
for k, lr in enumerate((0.01, 0.05)):
    fresh = launch(pipedream, 1, lr, transport="threads")
    stale = launch(pipedream, K, lr, transport="threads")
    plt.plot(fresh[0][0], "--", color=f"C{k}", label=f"one device, lr {lr}")
    plt.plot(stale[0][0], "-", color=f"C{k}", label=f"PipeDream, lr {lr}")
print("versions of the weights kept by each rank:", [versions for _, versions in stale])
plt.gca().set(xlabel="batch", ylabel="loss", yscale="log", title="Old gradients")
plt.legend(ncols=2)
plt.show()

# %% [markdown]
# **Reflect.** Rank 0 holds four micro-batches and rank 3 one. If memory is what you lack, where would you put a larger stage, and what would that do to the time?
#
# *The real system.* Megatron-LM and `torch.distributed.pipelining` use 1F1B with one change of the weights a step, as you did: exact, and without copies of the weights.

# %% [markdown]
# ## 4. Inside a layer: columns and rows
#
# Now $n$ ranks share each product. Take $Z = \mathrm{relu}(X W_1)\, W_2$; all ranks have $X$, and all are to have $Z$.
#
# **Idea.** A matrix can be cut in two ways:
#
# $$X\,[A_0\; A_1] = [X A_0\;\; X A_1], \qquad [X_0\; X_1] \begin{bmatrix} A_0 \\ A_1 \end{bmatrix} = X_0 A_0 + X_1 A_1.$$
#
# By **columns** every rank needs all of $X$ and gets some columns of the result; by **rows** it needs some columns of $X$ and gets one term of a sum. The relu needs the sum, not the terms.
#
# **Predict.** How many collectives does $Z$ need with $W_1$ by columns and $W_2$ by rows? And with $W_1$ by rows and $W_2$ by columns?

# %%
### BEGIN STARTER
# predicted_column_row = ...
# predicted_row_column = ...
### END STARTER
### BEGIN SOLUTION
predicted_column_row = 1
predicted_row_column = 2
### END SOLUTION


# %% question="column_row" points="4" hint1="x @ a gives this rank's columns of the hidden layer. May relu be applied to them?" hint2="What has this rank after the second product: columns of z, or an addend?"
def column_row(comm, x, a, b):
    """Return z = relu(x W1) W2 on every rank; `a` are this rank's columns of W1, `b` rows of W2."""
    ### BEGIN SOLUTION
    return comm.all_reduce(np.maximum(x @ a, 0) @ b)
    ### END SOLUTION


# %% question="row_column" points="5" hint1="`a` has as many rows as this rank uses columns of x. Which ones are they on rank r?" hint2="Before relu the addends of all ranks have to be summed; comm.all_reduce." hint3="comm.all_gather(y) returns the arrays of all ranks, stacked along a new first axis. They are columns of z: np.concatenate(..., axis=1) puts them side by side."
def row_column(comm, x, a, b):
    """Return z = relu(x W1) W2 on every rank; `a` are this rank's rows of W1, `b` columns of W2."""
    ### BEGIN SOLUTION
    n = len(a)
    own = x[:, comm.rank * n : (comm.rank + 1) * n]
    hidden = np.maximum(comm.all_reduce(own @ a), 0)
    return np.concatenate(comm.all_gather(hidden @ b), axis=1)
    ### END SOLUTION


# %% tags="check"
q.check("column_row")
q.check("row_column")


# %%
def both_ways(comm, way):
    """Return what one of the two functions gives on this rank."""
    x = X.numpy()
    w1, w2 = BLOCKS[0].w1.detach().numpy(), BLOCKS[0].w2.detach().numpy()
    cut = 1 if way is column_row else 0
    own = [np.split(w, comm.size, axis)[comm.rank] for w, axis in ((w1, cut), (w2, 1 - cut))]
    return way(comm, x, *own)


z = (torch.relu(X @ BLOCKS[0].w1) @ BLOCKS[0].w2).detach().numpy()
for way, predicted in ((column_row, predicted_column_row), (row_column, predicted_row_column)):
    run = launch(both_ways, 2, way, transport=SimWorld(2, Link(0.0, 0.0)), record=True)
    calls = len([span for span in run.trace.spans if span.rank == 0])
    compare(f"{way.__name__}, collectives", predicted, calls)
    sent, apart = run.traffic[0].bytes_sent, np.abs(run[0] - z).max()
    print(f"  {sent:,} bytes sent by rank 0; largest difference to one process {apart:.1e}")

# %% [markdown]
# **AlexNet** (Krizhevsky et al., 2012) was too large for one GPU of its time, and was cut into two halves of the channels: by columns, but most layers read only the half of their own GPU. Such a layer is a **grouped convolution**, and needs no message. The third convolution and the dense layers read both halves.
#
# **Predict.** What each layer reads, as numbers a picture, stands below. Which share of it do the two GPUs send each other?

# %%
READS = {"conv2": 27 * 27 * 96, "conv3": 13 * 13 * 256, "conv4": 13 * 13 * 384}
READS |= {"conv5": 13 * 13 * 384, "fc6": 6 * 6 * 256, "fc7": 4096, "fc8": 4096}

# %%
### BEGIN STARTER
# predicted_sent = ...
### END STARTER
### BEGIN SOLUTION
predicted_sent = (43_264 + 9_216 + 2 * 4_096) / 260_448  # of four layers each GPU needs a half
### END SOLUTION

# %%
TALK = ("conv3", "fc6", "fc7", "fc8")  # each GPU has half of what they read, and needs the other
share = sum(READS[layer] for layer in TALK) / sum(READS.values())
compare("sent, of all that is read", predicted_sent, computed=share)


def apart_by(conv, x):
    """Return how far two halves, each computed alone, are from a grouped convolution."""
    halves = zip(x.chunk(2, 1), conv.weight.chunk(2), conv.bias.chunk(2))
    alone = [nn.functional.conv2d(*half, padding=2) for half in halves]
    return (torch.cat(alone, 1) - conv(x)).abs().max().item()


conv2 = nn.Conv2d(96, 256, 5, padding=2, groups=2)
print(f"conv2, two halves alone: off by {apart_by(conv2, torch.randn(1, 96, 27, 27)):.1e}")

# %% [markdown]
# **Reflect.** The hidden layer is four times as wide as the input. Which of the byte counts above depends on that? And what would happen to `column_row` if the relu came after the second product only?
#
# *The real system.* Column, then row, is Megatron-LM's MLP; its attention does the same with heads for columns. In the package: `ddp_lab.parallel.parallelize(module, comm, {"fc1": "column", "fc2": "row"})`.

# %% [markdown]
# ## 5. And backward
#
# torch cannot differentiate `comm.all_reduce`. So the two places where ranks meet become functions with a backward of their own.
#
# **Idea.** In front of the column product every rank uses *all* of $x$: forward nothing has to be sent, but the gradient of $x$ is the sum of what all ranks have. Behind the row product it is the opposite: forward the terms are summed, and the gradient of the sum is that of each term. The two are **conjugate**: the forward of one is the backward of the other.
#
# **Predict.** How many all-reduces does a block need, forward and backward together?

# %%
### BEGIN STARTER
# predicted_sums = ...
### END STARTER
### BEGIN SOLUTION
predicted_sums = 2
### END SOLUTION


# %% question="conjugate" points="5" defines="Copy Reduce" hint1="backward gets the gradient of what forward returned, and returns one gradient for each argument of forward: for comm that is None." hint2="Copy.backward sums over the ranks; Reduce.forward does."
class Copy(torch.autograd.Function):
    """In front of a column product: all ranks have x, and all of it is used on each."""

    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        return ctx.comm.all_reduce(grad), None
        ### END SOLUTION


class Reduce(torch.autograd.Function):
    """Behind a row product: each rank has an addend, and all get the sum."""

    @staticmethod
    def forward(ctx, x, comm):
        ### BEGIN SOLUTION
        return comm.all_reduce(x)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad):
        ### BEGIN SOLUTION
        return grad, None
        ### END SOLUTION


# %% tags="check"
q.check("conjugate")


# %%
class SharedBlock(nn.Module):
    """A block of which each rank has columns of W1 and rows of W2."""

    def __init__(self, block, comm):
        super().__init__()
        self.comm = comm
        self.w1 = nn.Parameter(block.w1.detach().chunk(comm.size, 1)[comm.rank].clone())
        self.w2 = nn.Parameter(block.w2.detach().chunk(comm.size, 0)[comm.rank].clone())

    def forward(self, x):
        hidden = torch.relu(Copy.apply(x, self.comm) @ self.w1)
        return x + Reduce.apply(hidden @ self.w2, self.comm)


# %%
def tensor_step(comm):
    """Train one step with all blocks shared out; return the loss and a gradient."""
    model = nn.Sequential(*[SharedBlock(block, comm) for block in BLOCKS])
    x = X.clone().requires_grad_()  # as if there were blocks before the first
    loss = loss_of(model(x), Y)
    loss.backward()
    return loss.item(), model[0].w1.grad


run = launch(tensor_step, K, transport=SimWorld(K, Link(0.0, 0.0)), record=True)
print(f"loss {run[0][0]:.6f}")
apart = (torch.cat([grad for _, grad in run], 1) - whole[0].w1.grad).abs().max().item()
print(f"largest difference to one process's gradients: {apart:.1e}")
sums = len([s for s in run.trace.spans if s.rank == 0 and s.op.startswith("all_reduce")])
compare("all-reduces a block", predicted_sums, sums / len(BLOCKS), exact=True)

# %% [markdown]
# **Reflect.** What happens to the gradients if `Copy` is left out, and does the loss of the first step tell? "All-reduce does not work with model parallelism," some say. What has just been all-reduced in a divided model, and what would be in data parallelism?
#
# *The real system.* In Megatron-LM the pair is called $f$ and $g$. Cutting each all-reduce into a reduce-scatter and an all-gather costs the same bytes, and lets the ranks share the rows of what lies between: sequence parallelism.

# %% [markdown]
# ## 6. The two prices, side by side
#
# **Idea.** Let a boundary between blocks carry an activation of $A$ bytes for the whole batch. A pipeline of $K$ ranks sends it forward and its gradient back over each of $K-1$ boundaries, whatever the number of micro-batches. Tensor parallelism does two all-reduces of $A$ bytes a block; a ring all-reduce has each of $K$ ranks send $2\,\frac{K-1}{K} A$.


# %% question="communication" points="4" hint1="How many boundaries, and how often does one carry A bytes in a step?" hint2="All ranks together send 2 (K - 1) A in one ring all-reduce."
def communication(ranks, blocks, activation_bytes):
    """Return (bytes all ranks send in a step: pipeline, tensor parallel with ring all-reduces)."""
    ### BEGIN SOLUTION
    pipeline = 2 * (ranks - 1) * activation_bytes
    return pipeline, blocks * 2 * 2 * (ranks - 1) * activation_bytes
    ### END SOLUTION


# %% tags="check"
q.check("communication")

# %% [markdown]
# **Predict.** On two ranks and with four blocks: how many times the pipeline's bytes does tensor parallelism send?

# %%
### BEGIN STARTER
# predicted_times = ...
### END STARTER
### BEGIN SOLUTION
predicted_times = 8
### END SOLUTION

# %% [markdown]
# Both train the same four blocks on two hosts, in real seconds, over a link of 4 MB/s each way. The all-reduces of a block cannot be hidden: what reads their sum is the next thing to compute.

# %%
FAR = {"hosts": 2, "link": Link(0.0, 1 / 4e6)}


def tensor_way(comm):
    """Return a step with all blocks shared out, which returns the seconds that it waited."""

    def train():
        clocked = Clocked(comm)
        tensor_step(clocked)
        return clocked.blocked

    return train


def pipeline_way(comm):
    """Return a step with two blocks a rank, which returns the seconds that it waited."""
    stage = nn.Sequential(*deepcopy(BLOCKS[2 * comm.rank :][:2]))
    table = [one_f_one_b(rank, 2, M) for rank in range(2)]
    pipeline = Pipeline(comm, stage, schedule=table, microbatches=M, loss_fn=loss_of)
    return lambda: (pipeline.step(X, Y), pipeline.idle_s)[1]


# %%
def timed(comm, way, rounds=5):
    """Return (seconds, of which waiting) of the quickest of some steps."""
    torch.set_num_threads(1)
    train, times = way(comm), []
    for _turn in range(rounds):
        comm.barrier()
        began = perf_counter()
        waited = train()
        times.append((perf_counter() - began, waited))
    return min(times)


predicted = communication(2, len(BLOCKS), X.nbytes)
ways = {"inter-operator": pipeline_way, "intra-operator": tensor_way}
rows, sent = {}, []
for (name, way), expected in zip(ways.items(), predicted):
    once = launch(timed, 2, way, 1, record=True)
    sent.append(float(sum(m.n_bytes for m in once.trace.messages if m.op != "barrier")))
    compare(f"{name}, bytes sent", expected, sent[-1])
    rows[name] = 1e3 * np.max(launch(timed, 2, way, **FAR), axis=0)

# %%
compare("intra over inter, bytes", predicted_times, sent[1] / sent[0])
on_link = 1e3 * predicted[1] / 2 * FAR["link"].beta  # both ranks send at once
compare("intra-operator, waits, ms", on_link, rows["intra-operator"][1])
for name, (took, waits) in rows.items():
    print(f"{name}: step {took:.1f} ms, of which {waits:.1f} ms a rank waits, {waits / took:.0%}")
took, waits = np.array(list(rows.values())).T
fig, ax = plt.subplots(figsize=(6, 2))
ax.barh(list(rows), took - waits, label="computes")
ax.barh(list(rows), waits, left=took - waits, label="waits")
ax.set(
    xlabel="ms a rank", title="Two hosts, 4 MB/s: one waits for its turn, the other for the link"
)
ax.legend()
plt.show()

# %% [markdown]
# (The pipeline sends a few bytes more than the formula: at the end of a step the ranks tell each other the loss.)
#
# **Reflect.** Which of the two bars grows with a tenth of the bandwidth? Which one shrinks with four times the micro-batches? Which way would you take within a machine, and which between machines?
#
# *The real system.* Megatron-LM's answer (Narayanan et al., SC 2021): tensor parallel up to the number of GPUs in a machine, pipeline between machines.

# %% [markdown]
# ## 7. Both at once
#
# Four ranks as a grid of two by two: two stages of two blocks each, and each stage on two ranks that share its matrices by your `Copy` and `Reduce`; the micro-batches follow your `one_f_one_b`.
#
# **Predict.** How many of the model's numbers does a rank have, as a share of all?

# %%
### BEGIN STARTER
# predicted_share = ...
### END STARTER
### BEGIN SOLUTION
predicted_share = 1 / 4
### END SOLUTION


# %%
def hybrid(comm, steps):
    """Train on a grid of 2 x 2 ranks; return the losses and this rank's number of weights."""
    grid = comm.grid(stage=2, share=2)
    mine = BLOCKS[2 * grid["stage"].rank :][:2]
    stage = nn.Sequential(*[SharedBlock(block, grid["share"]) for block in mine])
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.05)
    table = [one_f_one_b(rank, 2, 4) for rank in range(2)]
    pipeline = Pipeline(grid["stage"], stage, schedule=table, microbatches=4, loss_fn=loss_of)
    losses = []
    for step in range(steps):
        at = slice(256 * (step % 6), 256 * (step % 6) + 256)
        optimizer.zero_grad()
        losses.append(pipeline.step(IMAGES[at], LABELS[at]).item())
        optimizer.step()
    return losses, sum(p.numel() for p in stage.parameters())


# %%
def alone(steps):
    """Train in one process; return the losses."""
    model, losses = nn.Sequential(*deepcopy(BLOCKS)), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        at = slice(256 * (step % 6), 256 * (step % 6) + 256)
        optimizer.zero_grad()
        loss = loss_of(model(IMAGES[at]), LABELS[at])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %%
STEPS = 10
run = launch(hybrid, 4, STEPS, transport="threads")
reference = alone(STEPS)
compare(
    "share of the model on a rank",
    predicted_share,
    run[0][1] / sum(p.numel() for p in whole.parameters()),
)
print(f"loss {run[0][0][0]:.4f} at first, {run[0][0][-1]:.4f} after {STEPS} steps")
print(f"largest difference to one process: {np.abs(np.subtract(run[0][0], reference)).max():.1e}")

# %% [markdown]
# **What is cut?** With your two words: do these cut *between* operators (`"inter"`), *inside* them (`"intra"`), or neither, since every operator stays whole and where it was?

# %%
METHODS = (
    "replicas with a part of the batch each",
    "a device for each run of layers",
    "heads of attention on different devices",
    "activations computed again in backward",
    "parameters stored in shares, gathered for each layer",
)


# %% question="views" points="3" hint1="Take one matrix product. Which of its loops does each method divide among devices?" hint2="To cut the batch is to cut rows of every product. And who computes what, if only the storage is divided?"
### BEGIN STARTER
# views = dict.fromkeys(METHODS, "")
### END STARTER
### BEGIN SOLUTION
views = dict(zip(METHODS, ("intra", "inter", "intra", "neither", "neither")))
### END SOLUTION

# %% tags="check"
q.check("views")

# %% [markdown]
# **Reflect.** A third axis, of replicas that average their gradients (lab 10), would make this the 3D parallelism that large models are trained with. Which of the three would you give the slowest wires, and why?
#
# *The real system.* Models of GPT-3's size and larger: [Megatron-LM](https://arxiv.org/abs/2104.04473) trains them with tensor, pipeline and data parallelism at once, and `torch.distributed.device_mesh` names the axes as `comm.grid` does.

# %% [markdown] question="which_cut" points="6" manual="true" rubric1="2: Says what each pays with (inter-operator: idle devices, the bubble, unequal stages; intra-operator: two all-reduces a block that nothing hides), with numbers measured in this notebook" rubric2="2: Places tensor parallelism within machines and the pipeline between them by the bytes of section 6" rubric3="1: Says what the batch does (more micro-batches shrink the bubble, and small batches make it large)" rubric4="1: Names something that the model leaves out (unequal layers, overlap of communication and computation, recomputation, memory for optimizer state, memory held by early stages)"
# ## Discuss
#
# You are to train a model of 96 equal blocks on 4 machines of 8 devices. Within a machine devices exchange 300 GB/s, between machines 12. How do you cut it, inter- and intra-operator, and what do you expect to pay for each? Use what you measured here. What do you want to know of the batch before you decide? Half a page.
#
# ### BEGIN SOLUTION
# Tensor parallel on the 8 devices of a machine, a pipeline of 4 stages of 24 blocks over the machines. In section 6 tensor parallelism sent eight times the bytes of the pipeline for four blocks, and with 24 blocks on a stage the ratio grows: two all-reduces a block, nothing of which is hidden, against one activation at each of three boundaries. On links that are 25 times slower between machines that decides it. The pipeline pays with idle time: with 4 stages and 8 micro-batches 27 %, with 32 it is 9 %. So I have to know whether the batch can be cut into 32 micro-batches that still keep a device busy; if the batch is small, fewer stages and replicas instead. 1F1B, as GPipe would hold 32 micro-batches' activations on each stage and 1F1B holds 4.
#
# Left out: the first and last stage have the embedding and the loss, so they are not equal; the sends can overlap with computing; recomputation of activations costs a third more compute; the first stage holds more activations than the last; the optimizer's state.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (models larger than a device; idle devices; for PipeDream also stale weights)" rubric3="1: Methods and contributions (GPipe: micro-batches, recomputation, synchronous updates; PipeDream: 1F1B, weight stashing, profile and partitioning with replicated stages)" rubric4="1: Evaluation and discussion (names a figure and its conditions)" rubric5="1: Trade-offs (bubble against staleness and copies of weights; memory)" rubric6="1: An open question that the papers do not answer"
# ## Reading note
#
# Yanping Huang et al., [*GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism*](https://arxiv.org/abs/1811.06965), NeurIPS 2019, and Deepak Narayanan et al., [*PipeDream: Generalized Pipeline Parallelism for DNN Training*](https://doi.org/10.1145/3341301.3359646), SOSP 2019. One page on both:
# overview · problem and challenges · methods and contributions · evaluation and discussion · trade-offs · open questions.
#
# ### BEGIN STARTER
# **Overview** (two sentences of your own for each paper):
#
# **Problem and challenges:**
#
# **Methods and contributions** (where do the two differ?):
#
# **Evaluation and discussion** (a figure of each with its conditions; what was not measured?):
#
# **Trade-offs:**
#
# **Open questions** (one at least that the papers do not answer):
# ### END STARTER
# ### BEGIN SOLUTION
# **Overview.** GPipe cuts a sequence of layers over accelerators and a batch into micro-batches, and changes the weights once a batch. PipeDream keeps a pipeline full without ever draining it, and changes the weights after each micro-batch. **Problem and challenges.** Models outgrow a device; naive cutting leaves all devices but one idle; filling the pipeline for ever means that a backward meets weights other than its forward's. **Methods and contributions.** GPipe: micro-batches, recomputation of activations at stage boundaries, synchronous gradients. PipeDream: 1F1B, weight stashing so that a micro-batch's backward uses its forward's weights, and a partitioner that works from a short profile and may replicate stages. **Evaluation and discussion.** GPipe trains AmoebaNet with 557 million parameters to 84.4 % on ImageNet, and a 6-billion-parameter Transformer for 103 languages; PipeDream reaches a target accuracy up to 5.3 times faster than data parallelism on its clusters. GPipe does not compare with tensor parallelism; PipeDream's baselines are data parallel. **Trade-offs.** Bubble and exactness against a full pipeline, stale weights and copies of them; recomputation saves memory for a third more computing. **Open questions.** What staleness does to large language models; how to cut models that are no sequence; how to combine with tensor parallelism (later answered by Megatron-LM).
# ### END SOLUTION

# %%
q.status()
