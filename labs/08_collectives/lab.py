# %% [markdown] builds="broadcast, reduce, gather and their kin from send and receive; trees" needs="NumPy" audience="gpu"
# # Lab 08: Collectives
#
# - **You build** seven of the eight collectives from messages over a socket, naive and by trees, and count, predict and time what they send.
# - **You need** NumPy.
# - **It takes** about 115 minutes: introduction 1, sections 19, 9, 20, 17, 17, 12 and 9, discussion 11. The reading note, with its paper, is for another day.
#
# A training job is many programs, called **ranks**, that send bytes to each other.
# They train a network together by eight operations, the **collectives**: broadcast, scatter, gather, reduce, all-gather, reduce-scatter, all-reduce, barrier.
# You build all but all-reduce, which lab 09 is about, count what they send, and predict what they cost. At the end a network learns over them.

# %% tags="setup"
import json
import os
import platform
import socket
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread

# %% tags="setup"
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import ddp_lab
from autograder import compare, kept_rate, lab
from ddp_lab import launch, simulate
from ddp_lab.show import CollectivesExplorer, RingPlayer, explore, watch
from lessons.device_note import device_note
from lessons.flat_network import SIZE, first_parameters, loss_and_gradient, network
from lessons.machine import measured_rate
from lessons.ranks.message_figures import draw_messages
from lessons.ranks.rank_timing import broadcast_times
from lessons.timing import best_seconds

# %% tags="setup"
q = lab("collectives")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
GPUS = 0
if find_spec("torch"):  # one measurement of section 6 needs it
    import torch

    GPUS = torch.cuda.device_count()
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")
print(device_note(torch.cuda.get_device_name() if GPUS else "", "section 6 times broadcasts there"))

# %% [markdown]
# `tiny` is the running example: element $i$ of rank $r$ is $(i+1)\cdot 10^r$. So every sum shows which ranks are in it: in `3303` the digit of rank 1 is missing.
#
# `launch(fn, n)` runs `fn(comm)` on `n` ranks, each a process. A rank knows `comm.rank` and `comm.size`, and can `comm.send(x, dst)` and `comm.recv(src)`.

# %%
RANKS = 4
tiny = [np.arange(1.0, 5.0) * 10**rank for rank in range(RANKS)]
COMBINE = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


for rank, x in enumerate(tiny):
    print(f"rank {rank}:", x)

# %% [markdown]
# ## 1. A message
#
# Two processes are connected by a socket, and a socket transports bytes, not arrays.
# Below, rank 0 sends a million numbers, and rank 1 asks for exactly as many bytes.


# %%
def connect(comm):
    """Return {rank: socket} to every other rank; the ports go round by the library's gather."""
    listener = socket.create_server(("127.0.0.1", 0))
    ports = comm.all_gather(np.array([listener.getsockname()[1]]))
    wires = {}
    for peer in range(comm.rank):
        wires[peer] = socket.create_connection(("127.0.0.1", int(ports[peer, 0])))
        wires[peer].sendall(bytes([comm.rank]))
    for _ in range(comm.rank + 1, comm.size):
        wire, _ = listener.accept()
        wires[wire.recv(1)[0]] = wire
    for wire in wires.values():
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wires


# %% [markdown]
# **Predict.** `wire.recv(8_000_000)` is called once, and 8,000,000 bytes are coming. How many does it return?

# %%
### BEGIN STARTER
# predicted_bytes = ...
### END STARTER
### BEGIN SOLUTION
predicted_bytes = 8_000_000  # what everybody thinks the first time
### END SOLUTION


def first_try(comm):
    """Rank 0 sends a million float64; rank 1 returns the bytes of its first recv, and of all."""
    wire = connect(comm)[1 - comm.rank]
    if comm.rank == 0:
        return wire.sendall(np.arange(1e6).tobytes())
    sizes = [len(wire.recv(8_000_000))]
    while sum(sizes) < 8_000_000:
        sizes.append(len(wire.recv(8_000_000)))
    return sizes[0], len(sizes)


# %%
first, calls = launch(first_try, 2, timeout_s=30)[1]
compare("bytes of one recv(8_000_000)", predicted_bytes, float(first))
print("all of them took", calls, "calls")

# %% [markdown]
# `recv(n)` means *at most* `n`: it returns what has arrived by now. Code that forgets this passes every test with small arrays.
#
# **Idea.** A **protocol** is an agreement on what the bytes mean. Before the bytes of an array come a few bytes, the **header**, with its dtype and shape. The receiver reads the header first, then exactly as many bytes as the array has, in as many calls as necessary.
#
# When the other end has closed the socket, `read` returns `b""` at every call.


# %% question="read_exactly" points="3" hint1="What does one call of read return when only some of the bytes have arrived?" hint2="A loop: how many bytes are still missing, and what is asked for next?" hint3="Never ask for more than is missing: the bytes after belong to the next message. And b\"\" will not become more by asking again."
def read_exactly(read, n):
    """Return the next `n` bytes.

    Args:
        read: `read(k)` returns at least one byte and at most k; b"" when the end is closed.

    Raises:
        ConnectionError: the stream ended before.
    """
    ### BEGIN SOLUTION
    pieces, missing = [], n
    while missing:
        piece = read(missing)
        if not piece:
            raise ConnectionError(f"read: the stream ended: got {n - missing} of {n} bytes.")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
    ### END SOLUTION


# %% tags="check"
q.check("read_exactly")

# %% [markdown]
# You choose the form of the header; `json.dumps([x.dtype.str, x.shape]).encode()` makes bytes of dtype and shape, but `recv_array` has to know how many bytes. (Not `pickle`: it would run any code that a stranger puts into the bytes.)


# %% question="message" points="5" defines="send_array recv_array" hint1="The receiver first has to learn how long the header is. How many bytes do you give to that number, so that they are always as many?" hint2="(5).to_bytes(4, \"big\") makes four bytes of a number, int.from_bytes(b, \"big\") the number of bytes." hint3="x.tobytes() gives the elements in C order, whatever x's strides are. np.frombuffer(data, dtype).reshape(shape) is their inverse, but read-only: a copy is not."
def send_array(write, x):
    """Send `x` as one message: a header with dtype and shape, then the bytes of `x` in C order.

    Args:
        write: sends all of the bytes that it is given, as a socket's `sendall` does.
        x: an array of numbers of any shape, () and (0, 3) among them.
    """
    ### BEGIN SOLUTION
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())
    ### END SOLUTION


def recv_array(read):
    """Return the array of the next message: same dtype, same shape, and it can be written to.

    Nothing beyond the message is read. `read` is as in `read_exactly`.
    """
    ### BEGIN SOLUTION
    header = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, shape = json.loads(header)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape).copy()
    ### END SOLUTION


# %% tags="check"
q.check("message")


# %% [markdown]
# **Try it.** `Wired` is a communicator made of sockets and your two functions. (Read `Wired`; the other cells need no reading.)


# %%
class Started:
    """A call that goes on in the background; `wait` returns what it gives."""

    def __init__(self, call, *args):
        self.gave = []
        self.thread = Thread(target=lambda: self.gave.append(call(*args)), daemon=True)
        self.thread.start()

    def wait(self):
        self.thread.join()
        return self.gave[0]


# %%
class Wired:
    """A rank with a socket to every other one; counts the array bytes and messages it sends."""

    def __init__(self, comm):
        self.rank, self.size, self.wires = comm.rank, comm.size, connect(comm)
        self.bytes_sent = self.messages_sent = 0

    def send(self, x, dst):
        self.bytes_sent, self.messages_sent = self.bytes_sent + x.nbytes, self.messages_sent + 1
        send_array(self.wires[dst].sendall, x)

    def recv(self, src):
        return recv_array(self.wires[src].recv)

    def isend(self, x, dst):
        return Started(self.send, x, dst)

    def irecv(self, src):
        return Started(self.recv, src)

    def sendrecv(self, x, dst, src):
        work = self.isend(x, dst)
        return [self.recv(src), work.wait()][0]


# %%
def ping_pong(comm, sizes, repeats=15):
    """Return the best seconds of one message of each size: half of a round trip."""
    wired, best = Wired(comm), []
    for n_bytes in [8] * 7 + sizes:  # a hundred messages warm up
        x, times = np.ones(n_bytes, np.uint8), []
        for _ in range(repeats):
            began = time.perf_counter()
            if comm.rank == 0:
                wired.send(x, 1)
            x = wired.recv(1 - comm.rank)
            if comm.rank == 1:
                wired.send(x, 0)
            times.append((time.perf_counter() - began) / 2)
        best.append(min(times))
    return best[7:]


# %%
sizes = [2**k for k in range(3, 22, 3)]
seconds = np.array(launch(ping_pong, 2, sizes)[0])
alpha = seconds[0]
beta = (seconds[-1] - alpha) / sizes[-1]
print(f"a message costs as much as {alpha / beta:,.0f} bytes")
by_lab_00 = 1 / kept_rate("messages", measured_rate)
compare("8 bytes, by the rate of lab 00: microseconds", by_lab_00 * 1e6, alpha * 1e6)

# %% [markdown]
# **Measure.** Two numbers describe a link: $\alpha$, the **latency** of a message, and $\beta$, the seconds a byte. A message of $b$ bytes takes about $\alpha + b\beta$. The line goes through the first and the last point.

# %%
line = alpha + np.array(sizes) * beta
fine = np.geomspace(sizes[0], sizes[-1], 60)
fig, ax = plt.subplots()
ax.loglog(sizes, seconds, "o", label="your messages, measured")
ax.loglog(fine, alpha + fine * beta, color="C1", label=r"$\alpha + b\beta$")
ax.axvline(alpha / beta, color="C4", linewidth=1)
ax.text(alpha / beta * 1.2, 0.93, r"$\alpha = b\beta$", transform=ax.get_xaxis_transform())
ax.set(xlabel="message, bytes", ylabel="seconds", title="One message between two processes")
ax.legend()
plt.show()
for i in (0, 2, 4, 5, 6):
    compare(f"{sizes[i]:,} bytes, µs", line[i] * 1e6, seconds[i] * 1e6)

# %% [markdown]
# **Reflect.** Left of the grey line all messages cost about the same. If a rank has a thousand gradients of 100 bytes to send, what should it do, and what would that gain, by your $\alpha$ and $\beta$?
#
# *The real system.* [gloo's TCP pair](https://github.com/pytorch/gloo/blob/main/gloo/transport/tcp/pair.cc) sends a fixed header before each buffer, and counts what is missing, as yours does. NCCL sends no header: a rank that makes another call hangs, or adds wrong numbers.

# %% [markdown]
# ## 2. Who sends first?
#
# Two ranks want each other's array. Both receive first:


# %%
def both_receive_first(comm, x):
    theirs = comm.recv(1 - comm.rank)
    comm.send(x, 1 - comm.rank)
    return theirs


try:
    launch(both_receive_first, 2, tiny[0], timeout_s=1)
except ddp_lab.DdpLabError as error:
    print(error)

# %% [markdown]
# Each waits for the other: a **deadlock**. So let both send first, larger and larger arrays over sockets, until half a second brings no progress.
#
# **Predict.** Of the arrays of $10^2, 10^3, \dots, 10^8$ bytes, how many arrive when both send first?

# %%
### BEGIN STARTER
# predicted_through = ...
### END STARTER
### BEGIN SOLUTION
predicted_through = 5  # a guess: the kernel buffers some megabytes a socket
### END SOLUTION


# %%
def both_send_first(comm, powers):
    """Return the sizes that arrived; ends at the first that hangs."""
    wired, through = Wired(comm), []
    other = 1 - comm.rank
    wired.wires[other].settimeout(0.5)
    for power in powers:
        try:
            wired.send(np.zeros(10**power, np.uint8), other)
            wired.recv(other)
        except OSError:  # a timeout here, or the other side has given up
            break
        through.append(10**power)
    return through


through = launch(both_send_first, 2, range(2, 9))[0]
compare("sizes that arrived, of 7", predicted_through, float(len(through)))
print("the largest:", f"{max(through):,} bytes")

# %% [markdown]
# **Idea.** `send` returns when the bytes are *somewhere*: a small array fits into the kernel's buffers, a large one has to wait until the other side reads. So this program works with small arrays and hangs when the model grows. MPI calls such a program **unsafe**.
#
# If the lower rank sends first and the higher receives first, one direction of the link waits for the other. Better: **start** the send, receive meanwhile, and wait for the send at the end. `comm.isend(x, dst)` starts a send and returns at once; its `wait()` returns when the send is done.


# %% question="exchange" points="3" hint1="Three things happen: a send begins, an array is received, the send is over. In which order can neither rank block the other?" hint2="work = comm.isend(...) begins the send. When do you have to call work.wait(), and when must you not yet?"
def exchange(comm, x, partner):
    """Return the array that `partner` passes to its own `exchange` with this rank.

    Both directions travel at the same time, and it ends even if a send is over only when it has
    been received. `x` may be changed as soon as this returns.
    """
    ### BEGIN SOLUTION
    work = comm.isend(x, partner)
    theirs = comm.recv(partner)
    work.wait()
    return theirs
    ### END SOLUTION


# %% tags="check"
q.check("exchange")

# %% [markdown]
# **Try and measure.** `Slow` makes a slow network: a rank sleeps $\alpha + b\beta$ seconds for each message that it sends. A sleeping rank needs no core, so eight of them on two cores behave like eight machines. You time an exchange of a megabyte, both ways. (The cells need no reading.)

# %%
SLOW_ALPHA, SLOW_BETA = 5e-3, 5e-8  # 5 ms a message, 20 MB a second


class Slow(Wired):
    """A rank on a slow network, with your messages underneath: it sends one at a time."""

    def __init__(self, comm):
        super().__init__(comm)
        self.cable = Lock()

    def send(self, x, dst):
        with self.cable:
            time.sleep(SLOW_ALPHA + x.nbytes * SLOW_BETA)
        super().send(x, dst)


def lower_rank_first(comm, x, partner):
    if comm.rank < partner:
        comm.send(x, partner)
    theirs = comm.recv(partner)
    if comm.rank > partner:
        comm.send(x, partner)
    return theirs


# %%
def two_ways(comm, x):
    """Return the best seconds of each way on this rank."""
    slow, other = Slow(comm), 1 - comm.rank
    ways = exchange, lower_rank_first
    turns = [(lambda way=way: way(slow, x, other)) for way in ways] * 3
    times = [best_seconds(turn, 1, before=comm.barrier) for turn in turns]
    return [min(times[0::2]), min(times[1::2])]


yours, ordered = np.max(launch(two_ways, 2, np.zeros(10**6, np.uint8)), axis=0)
compare("your exchange of 1 MB, ms", (SLOW_ALPHA + 1e6 * SLOW_BETA) * 1e3, yours * 1e3)
compare("lower rank first / yours", 2, ordered / yours)

# %% [markdown]
# **Reflect.** 1,000 ranks form a circle. Each sends a large array to the right, with a blocking send, and then receives from the left. This hangs. Now rank 0 alone receives first, and it ends: after how many messages, one after the other?
#
# *The real system.* MPI has `MPI_Sendrecv` for this. Its `MPI_Send` may return early, up to an **eager limit** (Open MPI's for TCP is in [`btl_tcp_component.c`](https://github.com/open-mpi/ompi/blob/main/opal/mca/btl/tcp/btl_tcp_component.c)).

# %% [markdown]
# ## 3. One rank and all others
#
# Rank 0 has read the weights from disk, and every rank needs them: **broadcast**. It has read the data, and every rank needs a share: **scatter**. In the other direction, rank 0 needs the results of all ranks: side by side is **gather**, combined is **reduce**. The rank in the middle is the **root**, and any rank can be it.
#
# **Idea.** The simplest programs have one loop: the root sends to, or receives from, each other rank in turn.
#
# **Predict.** 8 ranks. An array of 8,000 bytes is broadcast; one of 8,000 bytes is scattered (1,000 for each rank); 8,000 bytes on every rank are reduced. How many bytes does the *root* send, or receive for reduce?

# %%
### BEGIN STARTER
# root_bytes = {"broadcast": ..., "scatter": ..., "reduce": ...}
### END STARTER
### BEGIN SOLUTION
root_bytes = {"broadcast": 7 * 8000, "scatter": 7 * 1000, "reduce": 7 * 8000}
### END SOLUTION


# %% question="from_one" points="4" defines="naive_broadcast naive_scatter" hint1="Every rank runs the same function. What does the root do, and what does each of the others do?" hint2="The root must not send to itself, and it may be any rank: range(comm.size) without root."
def naive_broadcast(comm, x, root=0):
    """Return the root's `x` on every rank; elsewhere x is None. Only the root sends."""
    if comm.rank != root:
        return comm.recv(root)
    ### BEGIN SOLUTION
    for dst in range(comm.size):
        if dst != root:
            comm.send(x, dst)
    return x
    ### END SOLUTION


def naive_scatter(comm, parts, root=0):
    """Return `parts[comm.rank]` of the root's list; elsewhere parts is None. Only the root sends."""
    ### BEGIN SOLUTION
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(parts[dst], dst)
    return parts[root]
    ### END SOLUTION


# %% tags="check"
q.check("from_one")


# %% question="to_one" points="5" defines="naive_gather naive_reduce" hint1="The root receives in the order of ranks. What does it put where its own x belongs?" hint2="What do the other ranks return? Look at the docstring." hint3="For reduce: start from a copy, or from the first array; COMBINE[op](a, b) gives a new one. x belongs to the caller."
def naive_gather(comm, x, root=0):
    """Return at the root an array of x's dtype whose row r is rank r's `x`, None elsewhere."""
    if comm.rank != root:
        return comm.send(x, root)
    ### BEGIN SOLUTION
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])
    ### END SOLUTION


def naive_reduce(comm, x, root=0, op="sum"):
    """Return the reduction of `x` over all ranks at the root, None elsewhere; x is not changed.

    `op` is a key of COMBINE: `COMBINE[op](a, b)` combines two arrays.
    """
    ### BEGIN SOLUTION
    if comm.rank != root:
        return comm.send(x, root)
    total = x
    for src in range(comm.size):
        if src != root:
            total = COMBINE[op](total, comm.recv(src))
    return total
    ### END SOLUTION


# %% tags="check"
q.check("to_one")

# %% [markdown]
# **Try it.** `draw_messages` draws what you sent: a line for each rank, time to the right, an arrow for each message. A rank sends and receives at most one message a round.

# %%
one = np.arange(1.0, 5.0)
broadcast, gather = watch(naive_broadcast, [one] * 8), watch(naive_gather, [one] * 8)
draw_messages({"broadcast": broadcast, "gather": gather})
print("reduce of tiny:", watch(naive_reduce, tiny).results[0])

# %% [markdown]
# **Measure.** `launch(..., record=True)` counts what every rank really sent.


# %%
def sent_by(fn, n):
    """Return for each rank the (bytes, messages) that it sends in `fn(comm)`."""
    run = launch(fn, n, record=True)
    return [(rank.bytes_sent, rank.messages_sent) for rank in run.traffic]


array, parts = np.ones(1000), [np.ones(125)] * 8
sent = sent_by(lambda comm: naive_broadcast(comm, array), 8)
compare("broadcast, bytes from the root", root_bytes["broadcast"], sent[0][0])
sent = sent_by(lambda comm: naive_scatter(comm, parts), 8)
compare("scatter, bytes from the root", root_bytes["scatter"], sent[0][0])
sent = sent_by(lambda comm: naive_reduce(comm, array) is None, 8)
compare("reduce, bytes to the root", root_bytes["reduce"], sum(b for b, _ in sent))

# %% [markdown]
# **Reflect.** In the picture of broadcast, how many ranks have the array after round 3, and what do they do with it? In scatter the root sends as many messages: why can other ranks help less there?
#
# *The real system.* gloo has the same loops ([`gather.cc`](https://github.com/pytorch/gloo/blob/main/gloo/gather.cc), [`scatter.cc`](https://github.com/pytorch/gloo/blob/main/gloo/scatter.cc)), but starts all receives at once.

# %% [markdown]
# ## 4. The tree
#
# A rank that has the array can send it on: in round 1 one rank sends, in round 2 two, in round 3 four.
#
# **Idea.** The **binomial tree**. Count ranks from the root: rank $r$'s place is $(r - \text{root}) \bmod n$. Let the distance $d$ be the largest power of two below $n$, then half of it, and so on to 1. In the round of distance $d$, a rank whose place is divisible by $2d$ has the array. It sends it to the rank $d$ places further on, if there is one.
#
#     distance 4   0 -> 4
#     distance 2   0 -> 2   4 -> 6
#     distance 1   0 -> 1   2 -> 3   4 -> 5   6 -> 7
#
# After $\lceil \log_2 n \rceil$ rounds every rank has it. With the order of rounds and all arrows reversed, and every rank adding what it receives, it is **reduce**. (Thakur, Rabenseifner, Gropp, *IJHPCA* 19(1), 2005.)
#
# **Predict.** How many rounds does the tree need for 200 ranks, and how many messages are sent in all?

# %%
### BEGIN STARTER
# predicted_rounds = ...
# predicted_messages = ...
### END STARTER
### BEGIN SOLUTION
predicted_rounds = 8
predicted_messages = 199
### END SOLUTION


# %%
def lg(n):
    """Return ceil(log2 n): how often 1 has to be doubled to reach n."""
    return (n - 1).bit_length()


print({n: lg(n) for n in (1, 2, 3, 4, 5, 8, 9)})


# %% question="tree_broadcast" points="6" hint1="What is this rank's place, counted from the root? And which rank is at place p?" hint2="In the round of distance d: who sends, who receives, who does nothing? Places 0 and d, modulo 2d." hint3="n need not be a power of two. A rank whose partner's place would be n or more has nobody to send to."
def tree_broadcast(comm, x, root=0):
    """Return the root's `x` on every rank, after ceil(lg n) rounds; elsewhere x is None.

    n - 1 messages in all; every rank but the root receives exactly one.
    """
    ### BEGIN SOLUTION
    n, place = comm.size, (comm.rank - root) % comm.size
    distance = 2 ** lg(n)
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == distance:
            x = comm.recv((comm.rank - distance) % n)
        elif place % (2 * distance) == 0 and place + distance < n:
            comm.send(x, (comm.rank + distance) % n)
    return x
    ### END SOLUTION


# %% tags="check"
q.check("tree_broadcast")


# %% question="tree_reduce" points="6" hint1="Broadcast played backwards: in each round a rank receives where it sent, and sends where it received." hint2="A rank that has sent its partial result is done. What does it return?" hint3="A rank of place p and distance d: if p is no multiple of 2d it sends to p - d and is done; else it receives from p + d, if there is such a rank, and combines."
def tree_reduce(comm, x, root=0, op="sum"):
    """Return the reduction of `x` over all ranks at the root, None elsewhere; x is not changed.

    ceil(lg n) rounds; every rank but the root sends exactly one message.
    """
    n, place = comm.size, (comm.rank - root) % comm.size
    distance = 1
    while distance < n:
        ### BEGIN SOLUTION
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            x = COMBINE[op](x, comm.recv((comm.rank + distance) % n))
        ### END SOLUTION
        distance *= 2
    return x


# %% tags="check"
q.check("tree_reduce")

# %% [markdown]
# **Try it.** The eight ranks of section 3; then your reduce of `tiny`, where each message shows whose parts are in it.

# %%
draw_messages(
    {
        "naive": broadcast,
        "tree broadcast": watch(tree_broadcast, [one] * 8),
        "tree reduce": watch(tree_reduce, [one] * 8),
    }
)
seen = watch(tree_reduce, tiny)
print(seen.results[0])
RingPlayer(seen.story("Your reduce, a tree"))

# %% [markdown]
# **Measure.** Give your function a name, and `simulate.collective` runs it on any number of ranks: real messages on a virtual clock. With $\alpha = 1$ and $\beta = 0$ the clock counts rounds.


# %%
def my_tree(comm, x, *, root):
    return tree_broadcast(comm, x, root)


ddp_lab.register_algorithm("broadcast", "my_tree", my_tree)
rounds = {n: simulate.collective("broadcast", "my_tree", 8, n, 1.0, 0.0) for n in (2, 4, 8, 64)}
print("rounds by number of ranks:", {n: int(r) for n, r in rounds.items()})
many = simulate.collective("broadcast", "my_tree", 8, 200, 1.0, 0.0)
compare("rounds, 200 ranks", predicted_rounds, many, exact=True)
sent = launch(lambda comm: tree_broadcast(comm, one), 200, transport="threads", record=True)
compare("messages, 200 ranks", predicted_messages, sum(r.messages_sent for r in sent.traffic))

# %% [markdown]
# **Reflect.** The tree sends as many messages as the loop, of the same size. What became smaller? And which rank is still the busiest, by how much?
#
# *The real system.* [gloo's broadcast](https://github.com/pytorch/gloo/blob/main/gloo/broadcast.cc) is this tree, from near ranks to far ones. Tree and loop add floats in different orders, so they differ in the last bits.

# %% [markdown]
# ## 5. All ranks at once
#
# In the tree half of the ranks only receive. **All-gather** gives every rank all arrays; **reduce-scatter** gives each rank one row of the sum. What does the first cost by gather and then broadcast?


# %%
def root_all_gather(comm, x):
    """Gather at rank 0, then broadcast: right, but look at the bytes."""
    return tree_broadcast(comm, naive_gather(comm, x))


root_sent = sent_by(lambda comm: root_all_gather(comm, np.ones(125)), 8)
print("bytes from each rank:", [b for b, _ in root_sent])

# %% [markdown]
# **Idea.** Let the ranks exchange in pairs: in the round of distance $d$ = 1, 2, 4, ... rank $r$ exchanges *all rows that it has so far* with rank $r \oplus d$ (`rank ^ d`: the number that differs in that one bit). What each rank has doubles every round. This is **recursive doubling**, for $n$ a power of two.
#
# Reduce-scatter goes the other way, by **recursive halving**: from distance $n/2$ down to 1, send your partner the half of the rows on *its* side, keep your own half, and combine it with what arrives.
#
# **Predict.** With 8 ranks and 1,000 bytes on each: how many bytes does each rank send in an all-gather by recursive doubling?

# %%
### BEGIN STARTER
# predicted_all_gather = ...
### END STARTER
### BEGIN SOLUTION
predicted_all_gather = (1 + 2 + 4) * 1000
### END SOLUTION


# %% question="all_gather" points="6" hint1="It starts with an array of one row. In each round exchange all of it with the partner of that round." hint2="The two halves have to be joined in the order of ranks. Who has the lower rows, the lower rank or the higher?" hint3="np.concatenate([first, second]); the distances are 1, 2, 4, ... below n."
def all_gather(comm, x):
    """Return an array whose row r is rank r's `x`, on every rank; n is a power of two.

    Recursive doubling: lg n rounds, with `exchange`; each rank sends (n-1) times x's bytes.
    """
    rows, distance = x[np.newaxis], 1
    ### BEGIN SOLUTION
    while distance < comm.size:
        partner = comm.rank ^ distance
        theirs = exchange(comm, rows, partner)
        rows = np.concatenate([theirs, rows] if comm.rank & distance else [rows, theirs])
        distance *= 2
    ### END SOLUTION
    return rows


# %% tags="check"
q.check("all_gather")


# %% question="reduce_scatter" points="6" hint1="In the first round, with distance n/2: which rows does the partner's half of the ranks need at the end?" hint2="Rows that you hold always belong to 2d ranks in a row. Those of the lower d ranks are rows[:d]." hint3="Give one half, keep the other, and combine what you keep with what arrives. At the end one row is left."
def reduce_scatter(comm, x, op="sum"):
    """Return row `comm.rank` of the reduction of `x` over all ranks; n is a power of two.

    Recursive halving: lg n rounds, with `exchange`; each rank sends (n-1)/n of x's bytes.

    Args:
        x: shape (n, ...); not changed.
    """
    rows, distance = x, comm.size // 2
    while distance:
        ### BEGIN SOLUTION
        keep, give = rows[:distance], rows[distance:]
        if comm.rank & distance:
            keep, give = give, keep
        rows = COMBINE[op](keep, exchange(comm, give, comm.rank ^ distance))
        ### END SOLUTION
        distance //= 2
    return rows[0]


# %% tags="check"
q.check("reduce_scatter")

# %% [markdown]
# The last one moves no data. No rank leaves a **barrier** before every rank has entered it. In the round of distance $d$ = 1, 2, 4, ... each rank sends an empty message to the rank $d$ places to the right, and waits for one from $d$ places to the left. (Hensgen, Finkel, Manber, *Int. J. Parallel Program.* 17(1), 1988.)


# %% question="barrier" points="4" hint1="After the first round, of whom does rank 0 know that they have arrived? And after the second?" hint2="np.empty(0) is an array without bytes. The right neighbour at distance d is (comm.rank + d) % comm.size." hint3="An empty message always fits the buffers, so all ranks may send first here."
def barrier(comm):
    """Return once every rank has called it: ceil(lg n) rounds of empty messages, any n."""
    distance = 1
    while distance < comm.size:
        ### BEGIN SOLUTION
        comm.send(np.empty(0), (comm.rank + distance) % comm.size)
        comm.recv((comm.rank - distance) % comm.size)
        ### END SOLUTION
        distance *= 2


# %% tags="check"
q.check("barrier")

# %% [markdown]
# **Try it.** No rank is idle in any round; the distances double.

# %%
rows = [np.outer(np.arange(1.0, 5.0), [10.0**rank]) for rank in range(RANKS)]
print("reduce-scatter:", [x.tolist() for x in watch(reduce_scatter, rows).results])
draw_messages(
    {
        "all-gather": watch(all_gather, [one] * 8),
        "reduce-scatter": watch(reduce_scatter, [np.ones((8, 1))] * 8),
        "barrier, 6 ranks": watch(lambda comm, x: barrier(comm), [one] * 6),
    }
)

# %% [markdown]
# **Measure.** The bytes of the busiest rank.

# %%
doubling = sent_by(lambda comm: all_gather(comm, np.ones(125)), 8)
compare("all-gather, bytes of each rank", predicted_all_gather, doubling[0][0])
ratio = max(root_sent)[0] / max(doubling)[0]
compare("gather + broadcast, busiest / yours", 3 * 8 / 7, ratio, exact=True)
halving = sent_by(lambda comm: reduce_scatter(comm, np.ones((8, 125))), 8)
compare("reduce-scatter of 8,000 bytes, each rank", 7000, halving[3][0])
print("messages of each rank:", doubling[3][1], "and", halving[3][1])

# %% [markdown]
# **Reflect.** Reduce-scatter and then all-gather make an all-reduce. How many messages and bytes does each rank send for an array of $N$ bytes? The ring of the next lab sends as many bytes and $2(n-1)$ messages. Why would anybody use the ring? (Look at how long the arrows are.)
#
# *The real system.* gloo's [`barrier.cc`](https://github.com/pytorch/gloo/blob/main/gloo/barrier.cc) is this one. Sharded training (DeepSpeed's ZeRO, torch's [FSDP](https://github.com/pytorch/pytorch/tree/main/torch/distributed/fsdp)) uses reduce-scatter and all-gather, and no all-reduce.

# %% [markdown]
# ## 6. When is the tree faster?
#
# To broadcast a *large* array, the root of the tree sends all of it $\log_2 n$ times, while others wait. A third way: **scatter** the array, then **all-gather** the shares. Every rank helps, and none sends more than twice the array.


# %%
def scatter_all_gather(comm, x, root=0):
    """Broadcast a 1-D array, whose length n divides, by your scatter and your all-gather."""
    parts = None if x is None else np.split(x, comm.size)
    return all_gather(comm, naive_scatter(comm, parts, root)).reshape(-1)


# %% [markdown]
# **Idea.** Follow one rank that finishes last, and add up the messages that follow each other, each $\alpha + b\beta$. A rank sends one message at a time. For $n$ a power of two and an array of $N$ bytes:
#
# - naive: the root sends $n-1$ messages of $N$ bytes;
# - tree: the chain to the last rank has $\log_2 n$ of $N$ bytes;
# - scatter and all-gather: $n-1$ messages of $N/n$ bytes, then $\log_2 n$ rounds of $N/n, 2N/n, 4N/n, \dots$ bytes.
#
# **Predict.** Write these as formulas. From which $N$ on are scatter and all-gather faster than the tree?


# %% question="broadcast_time" points="5" hint1="How many messages follow each other, and how many bytes do they have together? Count both for each of the three." hint2="The rounds of the all-gather carry 1 + 2 + 4 + ... + n/2 shares. What is that sum?" hint3="lg(n) is the function of section 4. For scatter_all_gather: n - 1 + lg(n) messages, and two halves of (n - 1)/n of the array."
def broadcast_time(algorithm, n, n_bytes, alpha, beta):
    """Return the seconds of a broadcast of `n_bytes` over n ranks, n a power of two.

    `algorithm` is "naive", "tree" or "scatter_all_gather".
    """
    ### BEGIN SOLUTION
    messages = {"naive": n - 1, "tree": lg(n), "scatter_all_gather": n - 1 + lg(n)}
    arrays = {"naive": n - 1, "tree": lg(n), "scatter_all_gather": 2 * (n - 1) / n}
    return messages[algorithm] * alpha + arrays[algorithm] * n_bytes * beta
    ### END SOLUTION


# %% tags="check"
q.check("broadcast_time")


# %% question="crossover_bytes" points="4" hint1="Where are the two times equal? Both are straight lines in the number of bytes." hint2="The difference of the latencies, divided by the difference of the slopes." hint3="For n = 2 the slopes are the same, and the tree has the smaller latency: it never loses."
def crossover_bytes(n, alpha, beta):
    """Return the array's bytes from which scatter and all-gather beat the tree; inf for never."""
    ### BEGIN SOLUTION
    gain = lg(n) - 2 * (n - 1) / n
    return (n - 1) * alpha / (gain * beta) if gain else float("inf")
    ### END SOLUTION


# %% tags="check"
q.check("crossover_bytes")

# %% [markdown]
# **Try and measure** on the slow network, with eight ranks, all three in turns. (The cells need no reading.)

# %%
WAYS = {"naive": naive_broadcast, "tree": tree_broadcast, "scatter_all_gather": scatter_all_gather}


def contest(comm, sizes, repeats=3):
    """Return {name: [best seconds by size]} on the slow network."""
    slow, best = Slow(comm), {name: [np.inf] * len(sizes) for name in WAYS}
    for turn in range(repeats * len(sizes)):
        at = turn % len(sizes)
        x = np.zeros(sizes[at], np.uint8) if comm.rank == 0 else None
        for name, way in WAYS.items():
            took = best_seconds(lambda way=way, x=x: way(slow, x), 1, before=comm.barrier)
            best[name][at] = min(best[name][at], took)
    return best


# %%
sizes = [2**k for k in (10, 14, 17, 19, 20, 21)]
ranks = launch(contest, 8, sizes)
clock = {name: np.max([rank[name] for rank in ranks], axis=0) for name in WAYS}
for name in WAYS:
    for i in (0, 3, 5):
        predicted = broadcast_time(name, 8, sizes[i], SLOW_ALPHA, SLOW_BETA)
        compare(f"{name}, {sizes[i]:,} bytes, ms", predicted * 1e3, clock[name][i] * 1e3)
here = crossover_bytes(8, SLOW_ALPHA, SLOW_BETA)
print(f"your formula: the tree loses from {here:,.0f} bytes on")

# %%
fig, ax = plt.subplots()
fine = np.geomspace(sizes[0], sizes[-1], 60)
for i, (name, marker) in enumerate(zip(WAYS, "os^")):
    line = [broadcast_time(name, 8, b, SLOW_ALPHA, SLOW_BETA) for b in fine]
    ax.loglog(fine, line, color=f"C{i}", label=name)
    ax.loglog(sizes, clock[name], marker, color=f"C{i}")
ax.axvline(here, color="C4", linewidth=1)
ax.text(here * 1.1, clock["tree"][0], "your crossover")
ax.set(xlabel="array, bytes", ylabel="seconds")
ax.set_title("Broadcast to 8 ranks: lines predicted, points measured")
ax.legend()
plt.show()

# %% [markdown]
# **And on a device?** `launch(fn, n, transport="cuda")` puts ranks on GPUs: over NCCL if each rank can have one, else as **virtual ranks**, threads that share one. Without a GPU they share the CPU.
#
# If each rank has a device, your formula holds. Ranks that share a device share its memory, which makes one copy at a time: all $n - 1$ messages follow each other, **tree or not**.

# %%
device_sizes = [2**k for k in range(10, 29 if GPUS else 23, 2)]
alone, there, expected = GPUS >= RANKS, {}, {}
PLACE = (torch.cuda.get_device_name() if GPUS else "the CPU") if find_spec("torch") else ""
if PLACE:
    ways = {"naive": naive_broadcast, "tree": tree_broadcast}
    there, *link = broadcast_times(ways, RANKS, device_sizes, "cuda" if GPUS else "cpu")
for name, seconds in there.items():
    counted = name if alone else "naive"
    expected[name] = [broadcast_time(counted, RANKS, b, *link) for b in device_sizes]
    for i in (0, len(device_sizes) // 2, -1):
        what = f"{name}, {device_sizes[i]:,} bytes, µs"
        compare(what, expected[name][i] * 1e6, seconds[i] * 1e6)
print(RANKS, "ranks on", PLACE or "no device: there is no torch here")

# %%
fig, ax = plt.subplots()
for i, (name, seconds) in enumerate(there.items()):
    ax.loglog(device_sizes, seconds, "os"[i], color=f"C{i}", label=f"{name}, measured")
    label = f"{name}, predicted" if alone else "n - 1 copies, predicted"
    if alone or i == 0:
        ax.loglog(device_sizes, expected[name], color=f"C{i if alone else 4}", label=label)
ax.set(xlabel="array, bytes", ylabel="seconds", title=f"Broadcast to {RANKS} ranks on {PLACE}")
if there:
    ax.legend()
    plt.show()

# %% [markdown]
# And on larger networks: the same functions on the virtual clock, with up to 256 ranks and the constants of a fast network ($\alpha$ = 5 µs, 10 GB/s).


# %%
def my_scatter_all_gather(comm, x, *, root):
    return scatter_all_gather(comm, x, root)


ddp_lab.register_algorithm("broadcast", "my_scatter_all_gather", my_scatter_all_gather)
FAST = 5e-6, 1e-10
for n in (4, 16, 64, 256):
    at = int(crossover_bytes(n, *FAST)) // n * n
    names = "my_tree", "my_scatter_all_gather"
    tree, other = (simulate.collective("broadcast", name, at, n, *FAST) for name in names)
    compare(f"{n} ranks, {at:,} bytes: tree / other", 1, simulated=tree / other)

# %% [markdown]
# Your two broadcasts, the naive one, and the library's all-reduces. Move latency and bandwidth: where do your lines cross? What happens to the crossing when both are doubled?

# %%
compared = {
    "broadcast": ("my_tree", "my_scatter_all_gather", "reference"),
    "all_reduce": ("ring", "halving_doubling", "tree", "reference"),
}
CollectivesExplorer(explore([2, 4, 8, 16], compared), ranks=8, latency_us=5.0, bandwidth_gb_s=10.0)

# %% [markdown]
# **Reflect.** With more ranks the crossover moves to larger arrays. Which term of your formula does that, and what could be changed about the scatter? (Section 4 has the idea.)
#
# *The real system.* MPICH takes the tree for broadcasts of less than 12,288 bytes or fewer than 8 ranks, then scatter with recursive doubling, then scatter with a ring ([`bcast`](https://github.com/pmodels/mpich/tree/main/src/mpi/coll/bcast)). NCCL computes such limits from measured latencies and bandwidths: [`tuning`](https://github.com/NVIDIA/nccl/tree/master/src/graph).

# %% [markdown]
# ## 7. A network learns over your collectives
#
# Each rank has its own share of the data and the whole model. Must each of eight ranks keep the momentum of *every* parameter, and update all of them?
#
# **Idea.** Let rank $r$ be responsible for row $r$ of the parameters:
#
# - **scatter** the data, **broadcast** the first weights;
# - each step: **reduce-scatter** the gradients, update the own row, **all-gather** the rows;
# - **reduce** the losses to rank 0 for the curve; a **barrier** before the first step, so that all start together.
#
# Large models are trained so (ZeRO, Rajbhandari et al., SC 2020): each rank keeps $1/n$ of the optimizer's state, and sends as many bytes as in an all-reduce.
#
# **Predict.** The network has 2,410 parameters of 4 bytes, padded to 2,412 so that 4 divides them. How many bytes does each of 4 ranks send in one step, for gradients and parameters? And how many numbers of momentum does it keep?

# %%
### BEGIN STARTER
# predicted_step_bytes = ...
# predicted_momentum = ...
### END STARTER
### BEGIN SOLUTION
predicted_step_bytes = 2 * 3 * 2412 // 4 * 4
predicted_momentum = 2412 // 4
### END SOLUTION

# %% [markdown]
# You write the step.


# %% question="sharded_step" points="5" hint1="What does reduce_scatter return when each rank gives it its gradient as n rows?" hint2="The batch of all ranks together is n times as large. The sum of n gradients, each a mean over its own share, is how many times the gradient of the whole?" hint3="Row comm.rank of the parameters is params.reshape(comm.size, -1)[comm.rank]. All-gather brings the new rows together."
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    """Return (new parameters, new momentum) after one step; the parameters agree on all ranks.

    With g the mean of all ranks' gradients: momentum = decay * momentum + g, then
    params - lr * momentum. Each rank computes its own row alone.

    Args:
        params: shape (P,), the same on all ranks, n divides P; not changed.
        grad: shape (P,), the gradient on this rank's share of the batch.
        momentum: shape (P/n,), of row `comm.rank` of the parameters; not changed.
    """
    ### BEGIN SOLUTION
    mine = reduce_scatter(comm, grad.reshape(comm.size, -1)) / comm.size
    momentum = decay * momentum + mine
    row = params.reshape(comm.size, -1)[comm.rank] - lr * momentum
    return all_gather(comm, row).reshape(-1), momentum
    ### END SOLUTION


# %% tags="check"
q.check("sharded_step")


# %%
def shares(array, n):
    """Return every n-th row from row r on, for each rank r; None for None."""
    return None if array is None else [array[r::n].copy() for r in range(n)]


def train(comm, images=None, labels=None, start=None, epochs=6, batch=32):
    """Return (losses at rank 0, parameters, bytes of a step, numbers of momentum)."""
    x = naive_scatter(comm, shares(images, comm.size))
    y = naive_scatter(comm, shares(labels, comm.size))
    params = tree_broadcast(comm, start)
    momentum = np.zeros(len(params) // comm.size, params.dtype)
    share, losses, before = batch // comm.size, [], comm.bytes_sent
    barrier(comm)
    for _ in range(epochs):
        for lo in range(0, len(x) - share + 1, share):
            loss, grad = loss_and_gradient(params, x[lo : lo + share], y[lo : lo + share])
            params, momentum = sharded_step(comm, params, grad, momentum)
            total = tree_reduce(comm, np.array([loss]))
            losses.append(None if total is None else float(total[0]) / comm.size)
    return losses, params, (comm.bytes_sent - before) / len(losses), len(momentum)


# %% [markdown]
# **Try and measure.** Once in one process (a communicator of one rank), once on four ranks over your own messages.

# %%
pixels, labels = load_digits(return_X_y=True)
pixels = (pixels / 16).astype(np.float32)
data = pixels[:1536], labels[:1536], first_parameters(-(-SIZE // RANKS) * RANKS)


class Alone:
    rank, size, bytes_sent = 0, 1, 0


def on_a_rank(comm):
    return train(Wired(comm), *(data if comm.rank == 0 else ()))


# %%
ranks = launch(on_a_rank, RANKS, timeout_s=120)
alone, alone_params, *_ = train(Alone(), *data)
together, params, _, kept = ranks[0]

# %%
fig, ax = plt.subplots()
ax.plot(alone, linewidth=5, alpha=0.35, linestyle="-", label="one process, the whole batch")
ax.plot(together, color="C1", linestyle="-", label=f"{RANKS} ranks over your collectives")
ax.set(xlabel="training step", ylabel="loss (cross-entropy, nats)", title="Digits", yscale="log")
ax.legend()
plt.show()
guesses = network(params, pixels[1536:])[1].argmax(axis=1)
print(f"right on {np.mean(guesses == labels[1536:]):.1%} of {len(guesses)} images never seen")
print(f"largest difference of the losses: {np.abs(np.subtract(alone, together)).max():.1e}")
compare("bytes of rank 1, one step (and its loss)", predicted_step_bytes, ranks[1][2])
compare("numbers of momentum on a rank", predicted_momentum, kept)
same = all(np.array_equal(params, other[1]) for other in ranks)
print("the same parameters on all ranks, to the last bit:", same)

# %% [markdown]
# **Reflect.** All ranks have the same bits although no rank compared. Which of your functions makes sure of it? Would it hold if every rank ran `naive_reduce` for itself, adding in its own order?
#
# *The real system.* DeepSpeed's [`stage_1_and_2.py`](https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/zero/stage_1_and_2.py) is this step with buckets, as in lab 10.

# %% [markdown] question="tree_wins" points="6" manual="true" rubric1="2: Gives both times with alpha and beta and says that the tree trades bytes for rounds: lg n latencies, but lg n times the whole array on the critical path" rubric2="1: Names the crossover with a number of this lab (formula or figure) and its dependence on n and alpha/beta" rubric3="1: Against the naive loop the tree never loses in the model, and says where they are equal (n of 2 or 3)" rubric4="1: Sees that for scatter and gather the tree saves messages only, since the root's bytes stay" rubric5="1: A case that the model does not see, such as a root with several links, ranks that arrive late, switches with multicast, or far and near neighbours"
# ## Discuss
#
# When does the tree win against the loop, and when against scatter and all-gather: for one number, for a gradient of 10 KB, for weights of 1 GB; with 2, 8 and 1,000 ranks? Use your $\alpha$, your $\beta$ and a ratio that you measured. What does your model leave out that could turn the choice round? Half a page.
#
# ### BEGIN SOLUTION
# The tree needs $\lceil \log_2 n \rceil (\alpha + N\beta)$, the loop $(n-1)(\alpha + N\beta)$: they are equal for 2 and 3 ranks, and from 4 on the tree wins for every size, by 7/3 with 8 ranks (the figure shows it) and by 100 with 1,000. Scatter and all-gather need $(n-1+\log_2 n)\alpha + 2\frac{n-1}{n}N\beta$: more messages, but the array travels less than twice instead of $\log_2 n$ times. So one number and 10 KB go by the tree wherever $\alpha/\beta$ is tens of kilobytes; with 8 ranks on the slow network the crossover lies at $7\alpha/(1.25\beta)$, half a megabyte, and the measured curves cross there. 1 GB goes by scatter and all-gather on 8 and on 1,000 ranks; on 2 ranks the tree never loses.
#
# Scatter and gather themselves gain only latency from a tree: all shares have to pass the root's link in any case.
#
# The model leaves out that ranks arrive at different times (a late rank holds up its whole subtree), that links differ (a tree should cross the slow ones once), that a root may have several links at once, and that the array can be cut into pieces which follow each other down the tree; then the bytes count about once and the depth only in latency.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions (map, reduce, the shuffle by key, the master, re-execution, locality, backup tasks)" rubric4="1: Evaluation (a figure with its conditions, such as the sort of a terabyte in 891 s, 1283 s without backup tasks, on about 1,800 machines)" rubric5="1: Trade-offs against collectives" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Jeffrey Dean and Sanjay Ghemawat, [*MapReduce: Simplified Data Processing on Large Clusters*](https://research.google/pubs/mapreduce-simplified-data-processing-on-large-clusters/), OSDI 2004. It has a gather, a reduce and an all-to-all, and no rank waits for another in person. One page, in this form.
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
# **Overview.** A programmer writes two functions, map and reduce, and a library runs them on thousands of machines. **Problem and challenges.** Hundreds of special programs at Google each solved distribution, failures and load balance again. **Methods and contributions.** Map tasks write pairs to local disk, cut by key into as many parts as there are reduce tasks; reduce tasks fetch their parts (an all-to-all, by pulling), sort and reduce them. A master hands out tasks, prefers machines that hold the data, runs lost ones again (the functions are deterministic, the outputs are renamed atomically), and near the end starts backup copies of the slowest. **Evaluation.** On about 1,800 machines a sort of $10^{10}$ records of 100 bytes takes 891 s, 1,283 s without backup tasks, 933 s when 200 workers are killed: 5 % more. **Trade-offs.** Everything between the phases goes through disks, and there is a barrier between map and reduce; in return a lost machine costs its tasks and not the job. A collective keeps data in memory and takes microseconds, and stops when one rank stops. **Open questions.** Jobs that iterate, as training does, pay for the disks at every step; Spark and parameter servers are answers to that.
# ### END SOLUTION

# %%
q.status()
