# %% [markdown] builds="reduce-scatter and all-gather on a ring, two levels, pipelining" needs="08" audience="gpu"
# # Lab 09: Ring all-reduce
#
# - **You build** the all-reduce that made data-parallel training cheap: chunks, reduce-scatter and all-gather on a ring, two levels for hosts that a slow link joins, and a ring that sends while it adds.
# - **You need** NumPy, and `send` and `recv` between ranks (lab 08).
# - **It takes** about 90 minutes: introduction 1, sections 6, 6, 10, 14, 12, 14 and 17, discussion 10. The reading note, with its paper, is for another day.
#
# Every rank of a training job has a gradient, and needs the sum of all. At the end torch's `DistributedDataParallel` trains over your ring.

# %% tags="setup"
import os
import platform
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.distributed as dist

import ddp_lab
from autograder import compare, lab
from ddp_lab import launch, simulate
from ddp_lab.device_array import DeviceArray
from ddp_lab.errors import DdpLabError
from ddp_lab.show import RingPlayer, watch
from lessons.device_note import device_note
from lessons.ranks.rank_timing import device_ranks, ranks_in_turns

# %% tags="setup"
q = lab("ring_all_reduce")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
for name in ("numpy", "torch", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
GPUS = torch.cuda.device_count()
print(device_note(torch.cuda.get_device_name() if GPUS else "", "section 5 times rings there"))

# %% [markdown]
# `tiny` is the running example: element $i$ of rank $r$ is $(i+1)\cdot 10^r$.
# So every sum shows which ranks are in it: `3303` is element 2, summed over ranks 0, 2 and 3.
#

# %%
RANKS = 4
tiny = [np.arange(1.0, 9.0) * 10**rank for rank in range(RANKS)]
COMBINE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
for rank, x in enumerate(tiny):
    print(f"rank {rank}:", x)

# %% [markdown]
# ## 1. One rank adds for all
#
# Every rank sends its array to rank 0, which adds them and sends the sum back.


# %%
def naive_all_reduce(comm, x, op="sum"):
    """Return the reduction over all ranks; rank 0 does all the work."""
    if comm.rank != 0:
        comm.send(x, 0)
        return comm.recv(0)
    total = x.copy()
    for src in range(1, comm.size):
        total = COMBINE[op](total, comm.recv(src))
    for dst in range(1, comm.size):
        comm.send(total, dst)
    return total


seen = watch(naive_all_reduce, tiny)
print(seen.results[3])
RingPlayer(seen.story("All to rank 0 and back"))

# %% [markdown]
# Play it: in every round one link works.
#
# **Predict.** With `n` ranks and an array of `n_bytes` bytes: how many bytes does the busiest rank *send*? Write your prediction as a function of `n`.


# %% question="naive_bytes" points="2" hint1="Which rank is the busiest? Count the messages that leave it in the picture above." hint2="Each of these messages is the whole array. Nobody sends to itself."
def naive_bytes(n, n_bytes):
    """Return the bytes that the busiest rank of `naive_all_reduce` sends."""
    ### BEGIN SOLUTION
    return (n - 1) * n_bytes
    ### END SOLUTION


# %% tags="check"
q.check("naive_bytes")

# %% [markdown]
# **Measure.** `launch(..., record=True)` counts what every rank really sent.


# %%
def busiest(algorithm, n, elements=840):
    """Return the most bytes that any of n ranks sends for an array of float64 `elements`."""
    run = launch(lambda comm: algorithm(comm, np.ones(elements)), n, record=True)
    return max(rank.bytes_sent for rank in run.traffic)


naive_measured = {n: busiest(naive_all_reduce, n) for n in (2, 4, 8)}
for n, n_bytes in naive_measured.items():
    compare(f"naive, {n} ranks, busiest rank, bytes", naive_bytes(n, 840 * 8), n_bytes)

# %% [markdown]
# **Reflect.** With twice as many ranks, the busiest rank sends about twice as much. Which rank's cable would you replace to go faster?
#
# *The real system.* For *small* arrays the number of messages counts, not the bytes. NCCL reduces them along [two trees](https://developer.nvidia.com/blog/massively-scale-deep-learning-training-nccl-2-4/), and no rank is the root of both.

# %% [markdown]
# ## 2. Cut the array
#
# Cut the array into `n` **chunks**, and make each rank responsible for one.
#
# But `n` may not divide the length of a gradient:

# %%
try:
    np.arange(10).reshape(RANKS, -1)
except ValueError as error:
    print(error)

# %% [markdown]
# **Idea.** The step with the largest chunk takes longest. So sizes differ by at most one. Ten elements over four ranks give chunks of 2, 3, 2 and 3, in some order.
#
# **Predict.** 1,003 elements over 8 ranks: how many has the largest chunk if the last rank gets all left-over elements, and how many if sizes are as equal as possible?

# %%
### BEGIN STARTER
# largest_if_last_takes_the_rest = ...
# largest_if_even = ...
### END STARTER
### BEGIN SOLUTION
largest_if_last_takes_the_rest = 1003 // 8 + 1003 % 8
largest_if_even = -(-1003 // 8)
### END SOLUTION


# %% question="chunk_bounds" points="3" hint1="What are the bounds when n divides n_elements? Write that first." hint2="The sizes must add up to n_elements. Which chunks get one element more?" hint3="Think of chunk i as starting at i/n of the way, rounded down."
def chunk_bounds(n_elements, n):
    """Return n pairs (lo, hi) that cut 0..n_elements into consecutive chunks.

    Sizes differ by at most one; a chunk may be empty.
    """
    ### BEGIN SOLUTION
    return [(i * n_elements // n, (i + 1) * n_elements // n) for i in range(n)]
    ### END SOLUTION


# %% tags="check"
q.check("chunk_bounds")


# %%
def split(array, parts):
    """Return views of the 1-D `array`, cut at your chunk bounds."""
    return [array[lo:hi] for lo, hi in chunk_bounds(len(array), parts)]


print(chunk_bounds(8, 4), chunk_bounds(10, 4))
sizes = [hi - lo for lo, hi in chunk_bounds(1003, 8)]
compare("largest chunk", largest_if_even, max(sizes))
whole = [1003 // 8] * 7  # the others take what divides
compare(
    "largest, if the last rank takes the rest", largest_if_last_takes_the_rest, 1003 - sum(whole)
)

# %% [markdown]
# **Reflect.** What is the ratio of the two largest chunks for 15 elements, for 1,003, and for a gradient of a million?
#
# *The real system.* [gloo](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc) rounds its segments up, so the last ranks may have a short chunk or none.

# %% [markdown]
# ## 3. Reduce-scatter, around the ring
#
# The direct way: every rank sends each chunk straight to its rank, which adds.


# %%
def direct_reduce_scatter(comm, x):
    """Return chunk `comm.rank` of the sum; every rank sends to every other."""
    chunks = split(x, comm.size)
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    for dst in others:
        comm.send(chunks[dst], dst)
    return chunks[comm.rank] + sum(comm.recv(src) for src in others)


for n in (2, 4, 8):
    pairs = {(m.src, m.dst) for m in watch(direct_reduce_scatter, [np.ones(8)] * n).messages}
    print(f"{n} ranks: {len(pairs)} links, one from each rank to each other")

# %% [markdown]
# But with fewer wires than pairs of ranks, several messages need the same wire at once. In a ring each sends only to its right neighbour, `(rank + 1) % n`, and receives only from its left one: $n$ links, one message at a time on each.
#
# **Idea.** The finished sum of chunk $c$ shall end on rank $c$. It has to pass every other rank before, so it starts at rank $c+1$, and every rank adds its own part.
# All $n$ chunks travel at the same time, each one place behind the other. In step $s = 0, 1, \dots, n-2$
#
# - rank $r$ **sends** chunk $(r - 1 - s) \bmod n$ to the right,
# - and **receives** chunk $(r - 2 - s) \bmod n$ from the left, and adds its own part to it.
#
# After $n-1$ steps chunk $r$ is complete on rank $r$. This is **reduce-scatter**: the sum exists, scattered over the ranks. (Patarasuk and Yuan, *J. Parallel Distrib. Comput.* 69(2), 2009.)
#
# **Predict.** With `tiny` on 4 ranks: what is the *first* element of the message that rank 0 sends in step 1? (Which chunk is it, and which ranks are in it?)

# %%
### BEGIN STARTER
# first_element_in_step_1 = ...
### END STARTER
### BEGIN SOLUTION
first_element_in_step_1 = 5005.0  # chunk 2 begins with element 4; ranks 3 and 0 are in it
### END SOLUTION


# %% question="ring_reduce_scatter" points="8" hint1="Cut a copy of x into chunks with split. x belongs to the caller." hint2="In each step: send one chunk to the right, receive another from the left, combine it into your own copy of that chunk." hint3="What you send in step s must contain what you received in step s - 1. Write down, for rank 0 of 4, which chunk it sends in steps 0, 1 and 2."
def ring_reduce_scatter(comm, x, op="sum"):
    """Return chunk `comm.rank` of the reduction of every rank's `x`.

    Every rank sends n-1 messages of one chunk each, all to its right neighbour.

    Args:
        x: this rank's array, 1-D, as long on every rank; not changed.
        op: a key of COMBINE; `COMBINE[op](a, b)` combines two arrays.
    """
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    ### BEGIN SOLUTION
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], right)
        mine = chunks[(rank - 2 - step) % n]
        mine[...] = COMBINE[op](mine, comm.recv(left))
    return chunks[rank]
    ### END SOLUTION


# %%
seen = watch(ring_reduce_scatter, tiny)
for rank, chunk in enumerate(seen.results):
    print(f"rank {rank} has {chunk}")
RingPlayer(seen.story("Your reduce-scatter"))

# %% tags="check"
q.check("ring_reduce_scatter")

# %% [markdown]
# In the player a dashed message with a question mark is not a sum of inputs: look for your mistake there.
#
# **Measure.** The message that you predicted, and the number of messages.

# %%
sent = [m for m in seen.messages if m.src == 0]
compare("rank 0, step 1, first element", first_element_in_step_1, sent[1].values[0], exact=True)
compare("messages of rank 0", RANKS - 1, len(sent))
busy = {n: len(watch(ring_reduce_scatter, [np.ones(8)] * n).story().rounds) for n in (2, 4, 8)}
print("rounds by number of ranks:", busy)

# %% [markdown]
# **Reflect.** Floating-point addition is not associative. Each chunk is added up in another order: chunk 0 starts with rank 1, chunk 1 with rank 2. Can two *ranks* have different sums of one chunk at the end? Why not?
#
# *The real system.* [NCCL's kernel](https://github.com/NVIDIA/nccl/blob/master/src/device/all_reduce.h) does not store the partial sums: one fused `recvReduceSend` takes the neighbour's data, adds, and sends the result on from registers.

# %% [markdown]
# ## 4. All-gather, and the whole
#
# **Idea.** Go round once more, without adding. In step $s$ rank $r$ sends chunk $(r - s) \bmod n$: in step 0 its own, after that *what it has just received*. After $n-1$ steps every rank has every chunk.
#
# **Predict.** In the whole all-reduce each rank sends $2(n-1)$ messages of $1/n$ of the array. How many bytes is that? Write the formula. What happens to it when $n$ grows from 8 to 1,000?


# %% question="ring_bytes" points="2" hint1="How many messages does a rank send in the two halves together, and how large is each?" hint2="Try n = 2 by hand: half the array there, half the array back."
def ring_bytes(n, n_bytes):
    """Return the bytes that each of n ranks sends in a ring all-reduce (n divides the array)."""
    ### BEGIN SOLUTION
    return 2 * (n - 1) * n_bytes / n
    ### END SOLUTION


# %% tags="check"
q.check("ring_bytes")


# %% question="ring_all_gather" points="5" hint1="Keep a list of n places, your own chunk in yours. Which place does the first chunk that you receive belong to?" hint2="Send in step s what you received in step s - 1." hint3="Chunks may have different lengths: np.concatenate takes care of that."
def ring_all_gather(comm, chunk):
    """Return the chunks of all ranks, joined in the order of ranks (1-D).

    Every rank sends n-1 messages of one chunk each, all to its right neighbour.
    """
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    ### BEGIN SOLUTION
    chunks = [chunk] * n
    for step in range(n - 1):
        comm.send(chunks[(rank - step) % n], right)
        chunks[(rank - step - 1) % n] = comm.recv(left)
    return np.concatenate(chunks)
    ### END SOLUTION


# %% tags="check"
q.check("ring_all_gather")


# %% question="ring_all_reduce" points="6" hint1="You have both halves. What does the first give, and what does the second take?" hint2="The halves work on 1-D arrays. x may have any shape." hint3="Do not forget to hand op on."
def ring_all_reduce(comm, x, op="sum"):
    """Return the reduction of `x` over all ranks: x's shape and dtype, the same bits on each."""
    ### BEGIN SOLUTION
    chunk = ring_reduce_scatter(comm, x.reshape(-1), op)
    return ring_all_gather(comm, chunk).reshape(x.shape)
    ### END SOLUTION


# %%
seen = watch(ring_all_reduce, tiny)
print(seen.results[2])
RingPlayer(seen.story("Your ring all-reduce"))

# %% tags="check"
q.check("ring_all_reduce")

# %% [markdown]
# **Measure.** The same count as in section 1, from 2 ranks to 8.

# %%
ring_measured = {n: busiest(ring_all_reduce, n) for n in (2, 3, 4, 5, 6, 7, 8)}
for n, n_bytes in ring_measured.items():
    compare(f"ring, {n} ranks, each rank, bytes", ring_bytes(n, 840 * 8), n_bytes)

# %%
n_line = np.arange(2, 9)
fig, ax = plt.subplots()
ax.plot(n_line, [naive_bytes(int(n), 1) for n in n_line], label="naive, predicted (busiest rank)")
ax.plot(n_line, [ring_bytes(int(n), 1) for n in n_line], label="ring, predicted (every rank)")
ax.plot(naive_measured.keys(), [b / 6720 for b in naive_measured.values()], "o", color="C0")
ax.plot(ring_measured.keys(), [b / 6720 for b in ring_measured.values()], "s", color="C1")
ax.axhline(2, color="C4", linewidth=1)
ax.text(2, 2.15, "twice the array")
ax.set(xlabel="number of ranks", ylabel="bytes sent / array bytes", title="Points are measured")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** The ring never sends more than twice the array, on a thousand ranks as on four. No all-reduce can send less than $2(n-1)/n$ of it (Patarasuk and Yuan). What still grows with $n$? Count the rounds in the player.
#
# *The real system.* NCCL chooses between ring and tree for each call, by size, number of ranks and measured constants of the links ([`tuning`](https://github.com/NVIDIA/nccl/tree/master/src/graph)).

# %% [markdown]
# ## 5. What it costs in time
#
# `ranks_in_turns` times functions of ranks: all take turns, each keeps its best time.

# %%
CLOCK_RANKS = max(2, min(4, CORES))  # each rank needs a core of its own
small, large = ranks_in_turns(CLOCK_RANKS, {"yours": ring_all_reduce}, [64, 6400], repeats=30)[
    "yours"
]
print(f"a hundred times the bytes take {large / small:.1f} times as long")

# %% [markdown]
# **Idea.** The **alpha-beta-gamma model**: a message of $b$ bytes takes $\alpha + b\beta$, with $\alpha$ the **latency** and $\beta$ the seconds a byte; to combine $b$ bytes takes $b\gamma$.
# All ranks work at the same time, so count the steps of one rank: $n-1$ steps of reduce-scatter, each with a message and a combine of $N/n$ bytes, and $n-1$ steps of all-gather, each with a message alone. (Thakur, Rabenseifner, Gropp, *IJHPCA* 19(1), 2005.)


# %% question="ring_time" points="4" hint1="Write down the time of one step of reduce-scatter, then of one step of all-gather." hint2="How many messages one after the other? That many alphas." hint3="Only one of the two halves combines."
def ring_time(n, n_bytes, alpha, beta, gamma=0.0):
    """Return the seconds of a ring all-reduce of `n_bytes` over n ranks, by the model."""
    ### BEGIN SOLUTION
    steps, chunk = n - 1, n_bytes / n
    return 2 * steps * (alpha + chunk * beta) + steps * chunk * gamma
    ### END SOLUTION


# %% tags="check"
q.check("ring_time")

# %% [markdown]
# Now measure the three constants of *this* machine: $\alpha$ and $\beta$ from ring steps in which no rank adds, $\gamma$ from one `np.add`.


# %%
def pass_on(comm, x):
    """Take as many steps around the ring as an all-reduce; nobody adds."""
    for _ in range(2 * (comm.size - 1)):
        comm.send(x, (comm.rank + 1) % comm.size)
        comm.recv((comm.rank - 1) % comm.size)


def constants_of(ranks, n_bytes, **where):
    """Return alpha, beta and gamma: from the smallest message, and from one of `n_bytes`."""
    runs = {"steps": pass_on, "add": lambda comm, x: np.add(x, x)}
    found = ranks_in_turns(ranks, runs, [8, n_bytes], repeats=50, **where)
    alpha, long = found["steps"] / (2 * (ranks - 1))
    return alpha, (long - alpha) / n_bytes, found["add"][1] / n_bytes


BIG = 2**20
alpha, beta, gamma = constants_of(CLOCK_RANKS, BIG)
print(f"a message takes as long as {alpha / beta:,.0f} bytes; beta / gamma = {beta / gamma:.1f}")

# %% [markdown]
# The model counts messages and sums. Your ring also cuts, copies and joins, and each such call takes time, however short the array is. How much? It runs once more, with messages that take none.


# %%
class Silent:
    """A communicator that carries nothing: `recv` returns what this rank has sent last."""

    def __init__(self, comm):
        self.rank, self.size = comm.rank, comm.size

    def isend(self, x, dst):
        self.sent = x
        return self

    def irecv(self, src):
        return self

    def wait(self):
        return self.sent

    def sendrecv(self, x, dst, src):
        return x

    send, recv = isend, lambda self, src: self.sent


def without_messages(comm, x):
    """Do all that your ring does besides messages; the ranks' chunks are equally long."""
    ring_all_reduce(Silent(comm), x[: len(x) // comm.size * comm.size])


# %% [markdown]
# **Measure.** Your ring, the all-reduce of section 1, two algorithms of the library, and gloo, which torch uses on CPUs; beside them your model, and the messages of your model with the rest as measured.


# %%
def library(name):
    """Return the library's all-reduce by that algorithm, as a function of rank and array."""
    return lambda comm, x: comm.all_reduce(getattr(x, "tensor", x), algorithm=name)


runs = {"naive": naive_all_reduce, "yours": ring_all_reduce}
theirs = {f"library {name}": library(name) for name in ("ring", "two_shot")}
sizes = [2**k for k in range(6, 24, 2)]
rest = {"without messages": without_messages}
clock = ranks_in_turns(CLOCK_RANKS, runs | theirs | rest, sizes, gloo=True)
clock["your model"] = np.array([ring_time(CLOCK_RANKS, s, alpha, beta, gamma) for s in sizes])
messages = np.array([ring_time(CLOCK_RANKS, s, alpha, beta) for s in sizes])
clock["messages + rest"] = messages + clock.pop("without messages")
others = [name for name in clock if name != "yours"]
print("times as long as yours:")
print(f"{'bytes':>10}", *(f"{name:>16}" for name in others))
for i, n_bytes in enumerate(sizes):
    print(f"{n_bytes:>10,}", *(f"{clock[name][i] / clock['yours'][i]:>16.2f}" for name in others))

# %%
fig, ax = plt.subplots()
looks = {"yours": {"marker": "o"}, "messages + rest": {"color": "k", "ls": "-", "lw": 1}}
for name, seconds in clock.items():
    ax.plot(sizes, seconds, label=name, **looks.get(name, {}))
ax.set_xscale("log", base=2)
ax.set(xlabel="array, bytes", ylabel="time, seconds", yscale="log")
ax.set_title(f"All-reduce over {CLOCK_RANKS} ranks on this machine")
ax.legend(ncols=2)
plt.show()

# %% [markdown]
# With two ranks both all-reduces send the array once in each direction, so the ring cannot be faster. With more ranks than cores we would measure how the cores are shared.
#
# Unless ranks only wait: `launch(..., hosts=n, link=ddp_lab.Link(alpha, beta))` puts the ranks on `n` **hosts**, joined by a **link**. A message to another host is there when such a link would have delivered it, in real seconds, and waiting takes no core. Each host has one **interface**, which carries one message at a time each way.
#
# **Predict.** On 8 hosts of one rank, for a long array: how many times as long as your ring does the all-reduce of section 1 take? (Compare the bytes of the busiest rank.)

# %%
### BEGIN STARTER
# predicted_slowdown = ...
### END STARTER
### BEGIN SOLUTION
predicted_slowdown = naive_bytes(8, 1) * 2 / ring_bytes(8, 1)  # first in, then out
### END SOLUTION

# %%
LINK = ddp_lab.Link(alpha=2e-4, beta=1 / 10e6)  # 0.2 ms and 10 MB/s
sizes = [2**k for k in (9, 12, 15, 18)]
linked = {n: ranks_in_turns(n, runs, sizes, repeats=3, hosts=n, link=LINK) for n in (4, 8)}
for n, seconds in linked.items():
    model = ring_time(n, sizes[-1], LINK.alpha, LINK.beta)
    compare(f"yours, {n} hosts, 256 KiB, ms", model * 1e3, seconds["yours"][-1] * 1e3)
ratio = linked[8]["naive"][-1] / linked[8]["yours"][-1]
compare("naive / yours, 8 hosts, 256 KiB", predicted_slowdown, ratio)

# %%
fig, ax = plt.subplots()
for (n, seconds), color in zip(linked.items(), ("C0", "C1")):
    model = [ring_time(n, size, LINK.alpha, LINK.beta) for size in sizes]
    ax.loglog(sizes, model, color, label=f"your model, {n} hosts")
    ax.loglog(sizes, seconds["yours"], color + "o", label=f"yours, {n} hosts")
    ax.loglog(sizes, seconds["naive"], color + "x", label=f"naive, {n} hosts")
ax.set(xlabel="array, bytes", ylabel="time, seconds", title="On a link of 10 MB/s, measured")
ax.legend()
plt.show()

# %% [markdown]
# **And on a device?** The gradients of a GPU should stay in its memory. A `DeviceArray` is a torch tensor that behaves as a NumPy array in slices, `COMBINE` and `np.concatenate`. So your function runs there: over NCCL where each rank has a GPU, else on **virtual ranks**, threads on one device, the CPU if need be.

# %%
DEVICE = "cuda" if GPUS else "cpu"
DEVICE_RANKS = min(4, GPUS) if GPUS > 1 else CLOCK_RANKS
PLACE = torch.cuda.get_device_name() if GPUS else "the CPU"
PLACE = f"{GPUS} x {PLACE}, NCCL" if GPUS > 1 else f"{PLACE}, virtual ranks"


def by_torch(comm, x):
    """Return the sum as torch makes it: by NCCL, or by one sum in the memory that all share."""
    if dist.is_initialized():
        return dist.all_reduce(x.tensor.clone())
    return torch.stack([x.tensor] * comm.size).sum(0)


on_device = {"yours": ring_all_reduce, "library ring": library("ring"), "torch": by_torch} | rest
try:  # not every right answer works with a DeviceArray
    few = DeviceArray(torch.ones(5))
    launch(ring_all_reduce, 2, few, transport=device_ranks(2, "cpu"))
except DdpLabError as error:
    if "NotImplementedError" in str(error):
        raise  # it is not written yet
    print("yours does not run on a DeviceArray, so it is not timed:", str(error).splitlines()[0])
    del on_device["yours"], on_device["without messages"]

# %% [markdown]
# **Predict** with your `ring_time`, from the constants of the device, and add what your ring takes there without messages; then **measure**.

# %%
device_sizes = [2**k for k in range(8, 27 if GPUS else 23, 2)]
constants = constants_of(DEVICE_RANKS, device_sizes[-1] // DEVICE_RANKS, device=DEVICE)[:2]
device_clock = ranks_in_turns(DEVICE_RANKS, on_device, device_sizes, repeats=15, device=DEVICE)
model = np.array([ring_time(DEVICE_RANKS, n, *constants) for n in device_sizes])
model += device_clock.pop("without messages", 0.0)
print("timed here:", DEVICE_RANKS, "ranks on", PLACE)
for n_bytes, expected, seen in zip(device_sizes, model, device_clock.get("yours", [])):
    compare(f"yours, {n_bytes:,} bytes on {DEVICE}, µs", expected * 1e6, seen * 1e6)

# %%
fig, ax = plt.subplots()
for name, seconds in device_clock.items():
    ax.plot(device_sizes, seconds * 1e6, marker="o" if name == "yours" else None, label=name)
ax.plot(device_sizes, model * 1e6, "k-", linewidth=1, label="messages + rest")
ax.set_xscale("log", base=2)
ax.set(xlabel="array, bytes", ylabel="time, µs", yscale="log")
ax.set_title(f"All-reduce over {DEVICE_RANKS} ranks on {PLACE}")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** At which size does the curve of your ring begin to rise, and is $\alpha/\beta$ bytes near it? If model and measurement differ at *large* sizes: which copies does `send` make that the model does not count? How does it change your ratio that the naive all-reduce adds while the next array arrives? On a device each slice, sum and copy starts a kernel: how many are in one step of yours?
#
# *The real system.* On shared memory each rank can read the arrays of the others. In a **two-shot** all-reduce every rank reduces its own chunk from all others, then reads the finished chunks.

# %% [markdown]
# ## 6. Two hosts of two ranks
#
# A machine with several GPUs joins them by something fast, and has one cable to the other machines. Here are two hosts with two ranks each, which share memory. Of an array of 6,720 bytes, each host sends across:


# %%
def across(algorithm, *args):
    """Return the bytes that each of two hosts of two ranks sends to the other."""
    run = launch(
        lambda comm: algorithm(comm, np.ones(840), *args), 4, hosts=2, link=LINK, record=True
    )
    far = [m for m in run.trace.messages if m.src // 2 != m.dst // 2]
    return [sum(m.n_bytes for m in far if m.src // 2 == host) for host in (0, 1)]


for name, algorithm in runs.items():
    print(f"{name}: {across(algorithm)}")

# %% [markdown]
# Your ring is at home on equal links; it sends the same over memory as over the cable.
#
# **Idea.** Two **levels**, made of what you have:
#
# 1. a reduce-scatter *inside* each host: its rank at **place** $p$ has chunk $p$ of the host's sum;
# 2. an all-reduce of that chunk *between* the ranks at place $p$ of all hosts;
# 3. an all-gather inside each host.
#
# So no byte crosses twice, and every rank of a host carries its share.
#
# **Predict.** With `width` ranks a host and neighbours on one host, how many bytes does each host send across: in your ring, and in two levels?


# %% question="crossing_bytes" points="3" hint1="In the ring, which of a host's ranks sends to another host? You know what one rank sends." hint2="In step 2 the ranks at one place are a ring of their own. How many ranks has it, and how long is their array?" hint3="A host has as many of these rings as ranks: their bytes add up."
def crossing_bytes(hosts, width, n_bytes):
    """Return (ring, two levels): the bytes that each of two or more hosts sends to others."""
    ### BEGIN SOLUTION
    return ring_bytes(hosts * width, n_bytes), ring_bytes(hosts, n_bytes)
    ### END SOLUTION


# %% tags="check"
q.check("crossing_bytes")

# %% [markdown]
# `Among(comm, ranks)` is a communicator of some ranks, numbered anew: your functions run in it as they are.


# %%
class Among:
    """The `ranks` of `comm`, of which this is one, in this order: it sends and receives as comm."""

    def __init__(self, comm, ranks):
        self.comm, self.ranks = comm, list(ranks)
        self.rank, self.size = self.ranks.index(comm.rank), len(self.ranks)

    def send(self, x, dst):
        self.comm.send(x, self.ranks[dst])

    def isend(self, x, dst):
        return self.comm.isend(x, self.ranks[dst])

    def recv(self, src):
        return self.comm.recv(self.ranks[src])

    def irecv(self, src):
        return self.comm.irecv(self.ranks[src])

    def sendrecv(self, x, dst, src):
        return self.comm.sendrecv(x, self.ranks[dst], self.ranks[src])


# %% question="two_level_all_reduce" points="8" hint1="Find this rank's own host, and its place there. Which ranks are inside, and which have the same place elsewhere?" hint2="The three steps are three functions of yours: one in Among(comm, inside), one in Among(comm, between), one inside again." hint3="The halves of the ring work on 1-D arrays: flat at the beginning, x's shape at the end. Hand op on twice."
def two_level_all_reduce(comm, x, hosts, op="sum"):
    """Return what `ring_all_reduce` does; hosts send each other only sums of their own ranks.

    Every rank carries its share of the array to the ranks at its place of the other hosts.

    Args:
        hosts: the ranks of each host, as many on each: [(0, 1), (2, 3)].
    """
    ### BEGIN SOLUTION
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in hosts])
    chunk = ring_reduce_scatter(inside, x.reshape(-1), op)
    chunk = ring_all_reduce(between, chunk, op)
    return ring_all_gather(inside, chunk).reshape(x.shape)
    ### END SOLUTION


# %%
PAIRS = [(0, 1), (2, 3)]
seen = watch(two_level_all_reduce, tiny, PAIRS)
print(seen.results[3])
RingPlayer(seen.story("Your two levels: ranks 0 and 1 are one host, 2 and 3 the other"))

# %% tags="check"
q.check("two_level_all_reduce")

# %% [markdown]
# **Measure.** The bytes first. Then the seconds, for one, two and four ranks a host: predicted are the bytes at 10 MB/s. `comm.hosts` says which ranks lie where.

# %%
expected = crossing_bytes(2, 2, 6720)
compare("your ring: a host sends across, bytes", expected[0], max(across(ring_all_reduce)))
compare("two levels", expected[1], max(across(two_level_all_reduce, PAIRS)))


# %%
def two_levels(comm, x, op="sum"):
    return two_level_all_reduce(comm, x, comm.hosts, op)


ways = {"ring": ring_all_reduce, "two levels": two_levels, "library": library("hierarchical")}
WIDTHS, n_bytes, timed = (1, 2, 4), 2**19, {}
for width in WIDTHS:
    timed[width] = ranks_in_turns(2 * width, ways, [n_bytes], repeats=5, hosts=2, link=LINK)
    for name, crossing in zip(ways, crossing_bytes(2, width, n_bytes)):
        seconds = timed[width][name][0]
        compare(f"{name}, 2 hosts x {width}, ms", crossing * LINK.beta * 1e3, seconds * 1e3)

# %%
fig, ax = plt.subplots()
model = np.array([crossing_bytes(2, width, n_bytes) for width in WIDTHS]) * LINK.beta * 1e3
for name, line, color in zip(ways, model.T, ("C0", "C1")):
    ax.plot(WIDTHS, line, color, label=f"{name}, predicted")
for name, mark in zip(ways, ("C0o", "C1s", "k+")):
    ax.plot(WIDTHS, [timed[width][name][0] * 1e3 for width in WIDTHS], mark, label=name)
ax.set(xlabel="ranks a host", ylabel="time, ms", ylim=(0, None), xticks=WIDTHS)
ax.set_title("512 KiB over two hosts, on a link of 10 MB/s")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** What do two levels save with eight GPUs a host, and with one? What would your ring send across if its order were 0, 2, 1, 3? And if one rank of each host carried all: would the bytes change, or what else, where every GPU has a network card of its own?
#
# *The real system.* Horovod has this form as `HOROVOD_HIERARCHICAL_ALLREDUCE`: NCCL inside a host, MPI between hosts.

# %% [markdown]
# ## 7. Pipelining
#
# While a chunk arrives, nobody adds; while it is added, the link is idle:

# %%
print(f"in each step of a long array the link is idle for {gamma / (beta + gamma):.0%} of the time")
print(
    f"adding one chunk of 1 MiB takes as long as the latency of {BIG * gamma / alpha:.1f} messages"
)

# %% [markdown]
# On a slow link that is little; on a link as fast as memory ($\beta = \gamma$) it is half of the time.
#
# **Idea.** Cut each chunk into $m$ **pieces**, and send each piece on *as soon as it is combined*, before the next has arrived. Then the link carries piece $k+1$ while piece $k$ is added. With $c = N/n$ bytes a chunk and $m \ge 2$, reduce-scatter takes about
#
# $$(n-1)\,\bigl(m\alpha + c\max(\beta, \gamma)\bigr) + \tfrac{c}{m}\min(\beta, \gamma)
# \qquad\text{instead of}\qquad (n-1)(\alpha + c\beta + c\gamma).$$
#
# More pieces hide more of the adding, and cost more latencies.
#
# **Predict.** With 4 ranks and 3 pieces: how many messages does each rank send in the whole all-reduce?

# %%
### BEGIN STARTER
# predicted_messages = ...
### END STARTER
### BEGIN SOLUTION
predicted_messages = 2 * 3 * 3
### END SOLUTION


# %% question="pipelined_ring" points="8" hint1="First send all the pieces of the chunk that step 0 sends. After that everything you send is something you have just received." hint2="In step s you receive chunk (rank - 2 - s) % n, in the first half to combine, in the second half to keep. One loop over 2(n-1) steps can do both." hint3="Receive a piece, combine or keep it, send it on: all inside the loop over pieces. What arrives in the very last step has been everywhere and stays."
def pipelined_ring(comm, x, op="sum", pieces=4):
    """Return what `ring_all_reduce` does; each chunk travels in `pieces` pieces.

    A piece is passed on as soon as it is combined. Each rank sends 2(n-1) * pieces messages.
    """
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]  # chunks[c][k] is a view of work
    if n == 1:
        return work.reshape(x.shape)
    ### BEGIN SOLUTION
    for piece in chunks[(rank - 1) % n]:
        comm.send(piece, right)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv(left)
            piece[...] = COMBINE[op](piece, arrived) if step < n - 1 else arrived
            if step < 2 * (n - 1) - 1:
                comm.send(piece, right)
    return work.reshape(x.shape)
    ### END SOLUTION


# %%
small = [np.arange(1.0, 7.0) * 10**rank for rank in range(3)]
seen = watch(pipelined_ring, small, "sum", 2)
print(seen.results[0])
RingPlayer(seen.story("Your pipelined ring, two pieces a chunk"))

# %% tags="check"
q.check("pipelined_ring")

# %% [markdown]
# **Measure.** The messages. Then the time over that of your plain ring: 8 MiB on this machine, and 256 MiB on a **virtual clock**, with 4 ranks and links as fast as memory. `simulate.program` sends your messages, and adds up $\alpha + b\beta$ for each and $b\gamma$ for each sum.


# %%
def pipelined_time(n, n_bytes, m, alpha, beta, gamma):
    """Return the model's seconds for m pieces a chunk; one piece hides nothing."""
    if m == 1:
        return ring_time(n, n_bytes, alpha, beta, gamma)
    chunk, slow, fast = n_bytes / n, max(beta, gamma), min(beta, gamma)
    return (n - 1) * (2 * m * alpha + chunk * (slow + beta)) + chunk / m * fast


count = launch(lambda comm: pipelined_ring(comm, np.ones(840), "sum", 3), 4, record=True).traffic
compare("messages of a rank, 4 ranks, 3 pieces", predicted_messages, count[0].messages_sent)

# %%
counts, n_bytes, fast = [1, 2, 4, 8, 16, 32], 2**28, (alpha, gamma, gamma)
plain = {"plain": ring_all_reduce}
ways = plain | {f"{m} pieces": partial(pipelined_ring, pieces=m) for m in counts}
here = list(ranks_in_turns(CLOCK_RANKS, ways, [2**23], repeats=9).values())
there = [simulate.program(way, n_bytes, 4, *fast) for way in ways.values()]
ratios, on_links = np.ravel(here[1:]) / here[0], np.array(there[1:]) / there[0]
model = [pipelined_time(4, n_bytes, m, *fast) for m in counts]
for m, expected, ratio, measured in zip(counts, np.array(model) / model[0], on_links, ratios):
    compare(f"pieces {m} / plain, virtual", expected, simulated=ratio)
    print(f"    on this machine's {CLOCK_RANKS} ranks {measured:.3f}")

# %%
fig, ax = plt.subplots()
ax.plot(counts, np.array(model) / model[0], label="256 MiB, 4 ranks, by the formula")
ax.plot(counts, on_links, "s", color="C0", label="256 MiB, 4 ranks, virtual clock")
ax.plot(counts, ratios, "o", color="C1", label=f"8 MiB, {CLOCK_RANKS} ranks, measured here")
ax.axhline(1, color="C4", linewidth=1)
ax.set_xscale("log", base=2)
ax.set(xlabel="pieces a chunk", ylabel="time / time of the plain ring", ylim=(0, None))
ax.set_title("Chunks in pieces")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Did pieces help on this machine, and as much as on the virtual clock? There a link carries bytes by itself. What carries them between two ranks on one machine?
#
# *The real system.* [gloo's ring](https://github.com/pytorch/gloo/blob/main/gloo/allreduce.cc) keeps two segments in flight: it adds one while the network card carries the other.

# %% [markdown]
# **And torch trains over your rings.** `ddp_lab.torch_backend` is a **backend** of `torch.distributed`, as gloo and NCCL are, and finds its algorithms by name. Named, your two rings average the gradients of torch's own `DistributedDataParallel`.
#
# **Predict.** The network below has 9,610 parameters of 4 bytes. How many bytes does each of `CLOCK_RANKS` ranks send in one training step?

# %%
### BEGIN STARTER
# predicted_step_bytes = ...
### END STARTER
### BEGIN SOLUTION
predicted_step_bytes = ring_bytes(CLOCK_RANKS, 9610 * 4)
### END SOLUTION


# %%
class Counted:
    """A communicator's messages, and the bytes that were sent."""

    sent = 0

    def __init__(self, comm):
        self.rank, self.size, self.comm = comm.rank, comm.size, comm
        self.recv, self.irecv = comm.recv, comm.irecv

    def isend(self, x, dst):
        Counted.sent += x.nbytes
        return self.comm.isend(x, dst)

    def send(self, x, dst):
        self.isend(x, dst).wait()

    def sendrecv(self, x, dst, src):
        Counted.sent += x.nbytes
        return self.comm.sendrecv(x, dst, src)


def my_ring(comm, x, op="sum"):
    return ring_all_reduce(Counted(comm), x, op)


def my_pipeline(comm, x, op="sum"):
    return pipelined_ring(Counted(comm), x, op)


# %%
from sklearn.datasets import load_digits

ddp_lab.register_algorithm("all_reduce", "my_ring", my_ring)
ddp_lab.register_algorithm("all_reduce", "my_pipeline", my_pipeline)
print(ddp_lab.algorithms("all_reduce"))
images, labels = load_digits(return_X_y=True)
X, Y = torch.tensor(images[:1680] / 16, dtype=torch.float32), torch.tensor(labels[:1680])


def network():
    """Return the same small network at every call."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
    return torch.nn.Sequential(*layers)


# %%
def train(model, x, y, steps):
    """Return the losses of `steps` steps of gradient descent on batches taken in order."""
    losses, batch = [], len(x) // 10
    for step in range(steps):
        at = slice(step % 10 * batch, (step % 10 + 1) * batch)
        loss = torch.nn.functional.cross_entropy(model(x[at]), y[at])
        loss.backward()
        with torch.no_grad():
            for param in model.parameters():
                param -= 0.5 * param.grad
                param.grad = None
        losses.append(loss.item())
    return losses


# %%
def train_on_a_rank(comm, algorithms, steps, rendezvous):
    """Return [(losses, bytes that this rank sent)] by algorithm; nothing goes through `comm`."""
    from ddp_lab import torch_backend

    torch.set_num_threads(1)
    where, found = f"file://{rendezvous}", []
    dist.init_process_group("ddp_lab", init_method=where, rank=comm.rank, world_size=comm.size)
    for algorithm in algorithms:
        Counted.sent = 0
        torch_backend.use_algorithm("all_reduce", algorithm)
        model = torch.nn.parallel.DistributedDataParallel(network())
        losses = train(model, X[comm.rank :: comm.size], Y[comm.rank :: comm.size], steps)
        found.append((losses, Counted.sent))
    dist.destroy_process_group()
    return found


# %%
STEPS, names = 50, ("my_ring", "my_pipeline")
with tempfile.TemporaryDirectory() as folder:
    ranks = launch(train_on_a_rank, CLOCK_RANKS, names, STEPS, f"{folder}/rendezvous")
alone, together = train(network(), X, Y, STEPS), {}
for name, found in zip(names, zip(*ranks)):
    together[name] = np.mean([losses for losses, _ in found], axis=0)
    compare(f"{name}: bytes of a rank, one step", predicted_step_bytes, found[0][1] / STEPS)
    print(f"    largest difference of the losses: {np.abs(together[name] - alone).max():.1e}")

# %%
fig, ax = plt.subplots()
ax.plot(alone, linewidth=5, alpha=0.35, linestyle="-", label="one process, the whole batch")
ax.plot(together["my_ring"], "C1-", label=f"{CLOCK_RANKS} ranks, a share each, over your ring")
ax.plot(together["my_pipeline"], "k:", linewidth=1, label="the same, pipelined")
ax.set(xlabel="training step", ylabel="loss (cross-entropy, nats)", title="Digits")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Why is the difference of the losses not exactly zero, although the shares together are the whole batch?
#
# *The real system.* gloo, NCCL and MPI do the same work for torch: its [reducer](https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/reducer.cpp) passes a bucket of gradients on and asks for the sum.

# %% [markdown] question="all_at_once" points="6" manual="true" rubric1="2: Says that every rank needs every other at the same time, since a rank waits in each step for its left neighbour, and so all must be scheduled together (gang scheduling) while Spark starts tasks as slots come free" rubric2="2: Says what Spark can do instead, a tree of reduce tasks to the driver and a broadcast, and that the driver's link then carries bytes that grow with n or log n" rubric3="1: Sees that barriers between stages forbid overlap with backward" rubric4="1: Says what is lost or gained when one rank dies or is slow (recomputed task against a stopped ring), or cites a number measured in this lab"
# ## Discuss
#
# Spark runs a job as stages of independent **tasks**: a task starts when some executor has a free slot, reads what earlier stages left, and is run again elsewhere if it fails. Between two stages there is a barrier.
#
# Your colleague runs the ring all-reduce inside Spark tasks, one rank a task: 64 tasks, 48 free slots. What happens, and why? How else could Spark sum gradients, and what does that cost compared to what you measured? Half a page.
#
# ### BEGIN SOLUTION
# Nothing happens: the 48 tasks that run wait for ever. In every step a rank waits for its left neighbour, so by step $n-1$ each has waited for all; the 16 tasks that have no slot get none before one of the 48 ends. All ranks must be active at once (gang scheduling; Spark has a barrier mode for this now), which gives up what tasks are for: starting when there is room, and being run again alone when they fail. One slow rank slows the whole ring.
#
# Spark's own way is to reduce in a tree of tasks towards the driver and to broadcast the result. Nobody has to be active at the same time, and a lost task is recomputed. But every level of the tree moves whole arrays, the driver's link carries several of them both ways (the naive algorithm of section 1 sent $(n-1)N$ bytes from one rank, the ring $2(n-1)/n \cdot N$ from each), and a stage begins only when the one before has ended: no layer's gradients can travel while the next layer's are computed.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions" rubric4="1: Evaluation (names a figure with its conditions, such as 90 percent scaling for Inception V3 and ResNet-101 on 512 Pascal GPUs over 25 Gb RoCE, and says why VGG-16 keeps less: many parameters for its computation)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Alexander Sergeev and Mike Del Balso, [*Horovod: fast and easy distributed deep learning in TensorFlow*](https://arxiv.org/abs/1802.05799), 2018. One page, in this form.
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
# **Overview.** A library that adds ring all-reduce to TensorFlow programs with a few changed lines. **Problem and challenges.** Distributed TensorFlow needed parameter servers, many new concepts, and lost much of a large cluster to communication. **Methods and contributions.** An MPI-like interface (size, rank, local rank, broadcast of the first weights, an optimizer that averages gradients), NCCL rings underneath, Tensor Fusion to combine small gradients into one all-reduce, a timeline to see what waits. **Evaluation.** Inception V3 and ResNet-101 keep 90 % of perfect scaling on 512 Pascal GPUs over 25 Gb RoCE, VGG-16 68 %: it has many parameters for the computation it does. **Trade-offs.** Synchronous: the slowest worker sets the pace, and a lost one ends the job; every model replica must fit one GPU. **Open questions.** Models larger than one device; elastic membership; when hierarchies of rings pay.
# ### END SOLUTION

# %%
q.status()
