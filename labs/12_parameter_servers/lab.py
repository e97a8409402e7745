# %% [markdown] builds="servers that average, wait, or let workers run ahead; backup workers; servers against the ring, and Spark's stages" needs="09"
# # Lab 12: Parameter servers
#
# - **You build** a parameter server that averages gradients, the rule that lets fast workers run ahead of slow ones, and the arithmetic of backup workers.
# - **You need** NumPy, `send` and `recv` between ranks (lab 08), and what a ring costs (lab 09).
# - **It takes** about 75 minutes: introduction 1, sections 13, 7, 13, 5, 9, 12 and 5, discussion 10. The reading note, with its papers, is for another day.
#
# A **parameter server** keeps the parameters; **workers** pull them, compute gradients and push these back. An all-reduce needs everybody in every step. A server can decide for whom it waits, and this lab is about that decision: what it saves when a worker is slow, and what it does to the training.
#
# Write each prediction down before you measure.

# %% tags="setup"
import os
import platform
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, sleep

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

# %% tags="setup"
from autograder import compare, lab
from ddp_lab import Link, launch
from ddp_lab.cost import all_reduce_time
from ddp_lab.parallel import (
    SGD,
    ParameterServer,
    Stragglers,
    spark_all_reduce,
    tree_aggregate,
)
from ddp_lab.parallel.parameter_server.consistency import Progress
from ddp_lab.parallel.stragglers import late
from ddp_lab.simulate.parameter_server import run_on_clock
from ddp_lab.simulate.stragglers import osdi16

# %% tags="setup"
q = lab("parameter_servers")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
for name in ("numpy", "matplotlib", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine(), "with", CORES, "cores")


# %% [markdown]
# The running example: softmax regression on scikit-learn's images of digits. The parameters are one matrix `w` of 64 pixels by 10 classes.

# %%
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES, TARGETS = IMAGES / 16, np.eye(10)[LABELS]
START = np.zeros((64, 10))


def probabilities(w, x):
    """Return softmax(x w), shape (images, 10)."""
    scores = np.exp(x @ w - (x @ w).max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


# %%
def gradient(w, worker, step, size=32):
    """Return the gradient of the mean loss of a worker's batch in a step."""
    at = np.random.default_rng([worker, step]).integers(len(LABELS), size=size)
    return IMAGES[at].T @ (probabilities(w, IMAGES[at]) - TARGETS[at]) / size


def loss(w):
    """Return the mean cross-entropy, in nats, over every fourth image."""
    likely = (probabilities(w, IMAGES[::4]) * TARGETS[::4]).sum(axis=1)
    return -np.log(likely + 1e-12).mean()


print(f"loss before training: {loss(START):.4f}, which is log 10 = {np.log(10):.4f}")

# %% [markdown]
# ## 1. Pull and push
#
# Here is a worker. In each step it pulls the parameters from rank 0, computes, and pushes its gradient.


# %%
def work(comm, steps, gradient=gradient):
    """Be a worker of the server at rank 0."""
    for step in range(steps):
        w = comm.recv(0)  # pull
        comm.send(gradient(w, comm.rank, step), 0)  # push


try:
    launch(lambda comm: work(comm, 1) if comm.rank else None, 3, transport="threads")
except Exception as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# Nobody serves yet. **Idea.** In step $t$ a synchronous server gives the same $w_t$ to all $n$ workers, waits for all their gradients, and takes one step of their **mean**:
#
# $$w_{t+1} = w_t - \eta\,\frac{1}{n}\sum_{i=1}^{n} g_i(w_t)$$
#
# So $n$ workers with batches of 32 do exactly what one process does with a batch of $32n$. (Li et al., *Scaling Distributed Machine Learning with the Parameter Server*, OSDI 2014.)


# %% question="serve" points="6" hint1="Which ranks are workers, and how many are there? The server is none of them." hint2="In each step there are two loops over the workers: one sends w, the other receives gradients." hint3="All gradients of a step are of the same w. So w changes once a step, after the last gradient."
def serve(comm, w, lr, steps):
    """Serve ranks 1 to comm.size - 1 for some steps; return the trained parameters.

    In each step send the parameters to every worker, receive a gradient from each, and go
    against the mean of the gradients by `lr`. `w` is the caller's: it stays as it is.
    """
    workers = range(1, comm.size)
    ### BEGIN SOLUTION
    w = w.copy()
    for _ in range(steps):
        for worker in workers:
            comm.send(w, worker)
        total = sum(comm.recv(worker) for worker in workers)
        w -= lr * total / len(workers)
    return w
    ### END SOLUTION


# %%
def train(comm, steps, lr=0.5):
    """Train over ranks: rank 0 serves."""
    return serve(comm, START, lr, steps) if comm.rank == 0 else work(comm, steps)


run = launch(train, 4, 20, record=True)
print(f"loss after 20 steps: {loss(run[0]):.4f}")

# %% tags="check"
q.check("serve")

# %%
w = START.copy()
for step in range(20):
    w -= 0.5 * np.mean([gradient(w, worker, step) for worker in (1, 2, 3)], axis=0)
print(f"one process on the mean gradient differs by {np.abs(w - run[0]).max():.1e}")

# %% [markdown]
# **Predict.** The server sends its parameters to everybody in every step. Real ones divide the parameters: each of $s$ servers keeps $1/s$ of the bytes, and every worker talks to every server. How many bytes does *one server* send in a step?


# %% question="server_bytes" points="2" hint1="How much does one server keep?" hint2="To how many workers does it send what it keeps?"
def server_bytes(workers, servers, n_bytes):
    """Return the bytes that one of the servers sends in a step; n_bytes are all parameters'."""
    ### BEGIN SOLUTION
    return workers * n_bytes / servers
    ### END SOLUTION


# %% tags="check"
q.check("server_bytes")

# %% [markdown]
# **Measure.** Yours first; then `ddp_lab.parallel.ParameterServer`, which cuts arrays into pieces and divides them among servers.


# %%
def train_shared(comm, servers, steps=10, **options):
    """Train over ranks by the package's server; return the parameters and the report."""
    ps = ParameterServer(comm, {"w": START}, optimizer=SGD(0.5), servers=servers, **options)
    if ps.is_server:
        ps.serve()
    else:
        for step in range(steps):
            w = ps.pull()["w"]
            ps.push({"w": gradient(w, comm.rank - servers + 1, step)})
        ps.done()
    return ps.final()["w"], ps.report


# %%
def name_of(servers):
    return "1 server" if servers == 1 else f"{servers} servers"


compare("yours: bytes of a step", server_bytes(3, 1, START.nbytes), run.traffic[0].bytes_sent / 20)
for servers in (1, 2):
    _, report = launch(train_shared, servers + 3, servers)[0]
    steps = 10 + 1  # the final parameters go out once more, to the other servers too
    compare(
        f"{name_of(servers)}: bytes of a step",
        server_bytes(3, servers, START.nbytes),
        report.bytes_sent / steps,
    )

# %% [markdown]
# **Reflect.** Why is the measured number a little above yours? What is in a message besides the array?
#
# *The real system.* Li's servers keep ranges of *keys*, and a worker pushes and pulls only the keys that its batch touches: of a table of words that may be one row in ten thousand.

# %% [markdown]
# ## 2. One slow worker
#
# On a shared machine a step takes a few milliseconds, and now and then ten times as long: another job, a disk, a page fault. Such a worker is a **straggler**. `times[i, t]` are the seconds that worker $i$ needs for step $t$:

# %%
WORKERS, STEPS = 4, 25
stragglers = Stragglers(late(0.005, share=0.1, late_s=0.035), WORKERS, STEPS, seed=1)
times = stragglers.times
print(times[:, :8])
print(f"a worker alone needs {times.mean() * 1e3:.1f} ms a step on average")

# %% [markdown]
# **Synchronous**: step $t+1$ begins when the slowest has ended step $t$. **Asynchronous**: the server applies each gradient when it comes, and no worker ever waits for another.
#
# **Predict.** How long do all the steps take, each way? Messages cost nothing here.


# %% question="run_times" points="4" defines="sync_time async_time" hint1="times has a row a worker and a column a step. What is the time of one synchronous step?" hint2="Without waiting, when is worker i done? And when are all?"
def sync_time(times):
    """Return the seconds of a synchronous run; times has shape (workers, steps)."""
    ### BEGIN SOLUTION
    return times.max(axis=0).sum()
    ### END SOLUTION


def async_time(times):
    """Return the seconds until the last worker of an asynchronous run is done."""
    ### BEGIN SOLUTION
    return times.sum(axis=1).max()
    ### END SOLUTION


# %% tags="check"
q.check("run_times")

# %% [markdown]
# **Measure.** Real ranks, which sleep for as long as `times` says before they push. They also compute and send messages: how long, a run says in which nobody sleeps. That is added to your prediction.


# %%
def train_late(comm, consistency, staleness=0, sleeps=True):
    """Train with stragglers; return the seconds from the first pull to the last push."""
    options = {"consistency": consistency, "staleness": staleness}
    ps = ParameterServer(comm, {"w": START}, optimizer=SGD(0.5), **options)
    began = perf_counter()
    if ps.is_server:
        ps.serve()
    else:
        for step in range(STEPS):
            w = ps.pull()["w"]
            if sleeps:
                stragglers.sleep(comm.rank - 1, step)
            ps.push({"w": gradient(w, comm.rank, step)})
        ps.done()
    return perf_counter() - began


# %%
def seconds_of(consistency, staleness=0, sleeps=True):
    """Return the seconds of a run, the better of two, by the rank that takes longest."""
    args = train_late, WORKERS + 1, consistency, staleness, sleeps
    return min(max(launch(*args)) for _ in range(2))


for consistency, predicted in (("sync", sync_time(times)), ("async", async_time(times))):
    besides = seconds_of(consistency, sleeps=False)
    compare(f"{consistency}: seconds", predicted + besides, seconds_of(consistency))

# %% [markdown]
# **Reflect.** Each worker is late in one step of ten on average. In what share of the steps is *somebody* late? What becomes of that share with 50 workers?
#
# *The real system.* Dean and Barroso call this the tail at scale (*Commun. ACM* 56(2), 2013): the more machines must all answer, the more the slowest answer is the normal one.

# %% [markdown]
# ## 3. Run ahead, but not too far
#
# Asynchronous workers never wait, and one of them may compute on parameters that are long out of date. **Stale synchronous parallel** (SSP) lies between the two: a worker may be at most $s$ steps ahead of the slowest. (Ho et al., NIPS 2013.)
#
# A worker's **step** is the number of gradients that it has pushed. It may pull if, after that, it is no more than $s$ ahead:
#
# $$\text{step of this worker} - \text{least step of all} \le s$$


# %% question="may_pull" points="3" hint1="Who is the slowest? Is this worker itself among those that you look at?" hint2="Exactly s ahead is allowed."
def may_pull(steps, worker, staleness):
    """Return whether the worker may pull; steps[i] is how many gradients worker i has pushed."""
    ### BEGIN SOLUTION
    return steps[worker] - min(steps) <= staleness
    ### END SOLUTION


# %% tags="check"
q.check("may_pull")

# %% [markdown]
# **Idea.** This one rule has all three: with $s = 0$ nobody begins a step before all have ended the last one, and with $s = \infty$ nobody waits. So the time of an SSP run lies between your two. Worker $i$ ends step $t$ at
#
# $$e_{i,t} = \text{times}_{i,t} + \max\bigl(e_{i,t-1},\ \max_j e_{j,\,t-1-s}\bigr),$$
#
# its own time after the later of two moments: it has ended its last step, and everybody has ended step $t-1-s$. (A step before the first counts as ended at time 0.)
#
# **Predict.** What part of the time between your two results does a staleness of 1 save: a tenth, a half, nearly all?


# %% question="ssp_time" points="5" hint1="Keep an array of when each worker ended each step, and fill it column by column." hint2="In column t, which column decides for the slowest? There is none as long as t - 1 - staleness is below 0." hint3="np.maximum(own, slowest) takes one number for all, too."
def ssp_time(times, staleness):
    """Return the seconds until all workers have ended their last step."""
    workers, steps = times.shape
    ### BEGIN SOLUTION
    ends = np.zeros((workers, steps))
    for t in range(steps):
        own = ends[:, t - 1] if t > 0 else 0.0
        last = t - 1 - staleness
        slowest = ends[:, last].max() if last >= 0 else 0.0
        ends[:, t] = times[:, t] + np.maximum(own, slowest)
    return ends.max()
    ### END SOLUTION


# %% tags="check"
q.check("ssp_time")

# %% [markdown]
# **Measure.** Twice: on a virtual clock, where *your* rule decides who may pull; and by the package's server with real ranks. On the virtual clock nothing but waiting is left; to real ranks' predictions a run without sleep is added, as above.


# %%
class YourRule(Progress):
    """The package's asynchronous server, with your `may_pull` in the place of its own."""

    def __init__(self, staleness):
        super().__init__("async", range(WORKERS))
        self.limit = staleness

    def may_pull(self, step):
        others = list(self.steps.values())
        return may_pull([step, *others], 0, self.limit)


for staleness in (0, 1, 3, STEPS):
    end = run_on_clock(times, YourRule(staleness)).makespan
    compare(f"staleness {staleness}, clock: seconds", ssp_time(times, staleness), simulated=end)
for staleness in (0, 1, 3):
    predicted = ssp_time(times, staleness) + seconds_of("ssp", staleness, sleeps=False)
    measured = seconds_of("ssp", staleness)
    compare(f"staleness {staleness}, real ranks: seconds", predicted, measured)

# %%
fig, axes = plt.subplots(3, 1, sharex=True, figsize=(8, 5))
for ax, staleness in zip(axes, (0, 2, STEPS)):
    for span in run_on_clock(times, YourRule(staleness)).spans:
        if span.step < 16:
            bar = [(span.began_at * 1e3, (span.ended_at - span.began_at) * 1e3)]
            ax.broken_barh(bar, (span.worker - 0.4, 0.8), color=f"C{span.step % 4}")
    ax.set(ylabel="worker", yticks=range(WORKERS))
    ax.set_title(f"staleness {staleness if staleness < STEPS else 'without bound'}: 16 steps")
axes[-1].set_xlabel("time (ms)")
plt.show()

# %% [markdown]
# **Reflect.** White is waiting. Where does it go as the staleness grows? Could any bound help against a worker that is *always* slower than the others?
#
# *The real system.* Ho's servers let a worker read from a cache of its own that is at most $s$ steps old, so most pulls need no message at all.

# %% [markdown]
# ## 4. Faster steps, worse steps
#
# A run with fewer waits takes more steps a second. But a gradient of old parameters is the slope at an older point.
#
# **Predict.** Eight workers, small steps ($\eta = 0.2$ for each gradient). Which run has the lowest loss after the same *time*: `"sync"`, `"ssp"` or `"async"`? And how many updates old may gradients be until the loss after 320 of them is twice what fresh ones reach: 5, 15, 50?

# %%
### BEGIN STARTER
# lowest_after_as_much_time = ...
# harmful_delay = ...
### END STARTER
### BEGIN SOLUTION
lowest_after_as_much_time = "async"
harmful_delay = 15
### END SOLUTION


# %%
def train_on_clock(times, progress, lr):
    """Train on a virtual clock; return after each update: gradients, seconds and loss."""
    w, pulled, seen, history = START.copy(), {}, [0], []
    counts = dict.fromkeys(range(len(times)), 0)

    def on_pull(worker):
        pulled[worker] = gradient(w, worker, counts[worker])
        counts[worker] += 1

    def on_apply(workers, now):
        w[...] -= lr * np.mean([pulled[worker] for worker in workers], axis=0)
        seen[0] += len(workers)
        history.append((seen[0], now, loss(w)))

    run_on_clock(times, progress, on_pull, on_apply)
    return np.array(history)


# %%
MANY, LR = 8, 0.2
slow = Stragglers(late(0.1, share=0.06, late_s=1.5), MANY, 40, seed=2).times
slow[0] *= 1.5  # and one worker is always slower
curves = {"sync": train_on_clock(slow, Progress("sync", range(MANY)), LR * MANY)}
curves["ssp"] = train_on_clock(slow, Progress("ssp", range(MANY), staleness=3), LR)
curves["async"] = train_on_clock(slow, Progress("async", range(MANY)), LR)
end = min(curve[-1, 1] for curve in curves.values())
at_end = {name: curve[curve[:, 1] <= end][-1, 2] for name, curve in curves.items()}
losses = ", ".join(f"{name} {at:.3f}" for name, at in at_end.items())
print(f"you said {lowest_after_as_much_time}; after {end:.1f} s the losses are: {losses}")

# %% [markdown]
# A synchronous step goes against the mean of 8 gradients, so it is made 8 times as long: after as many gradients all three have moved about as far.

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for name, curve in curves.items():
    gradients, seconds, losses = curve.T
    left.plot(gradients, losses, label=name)
    right.plot(seconds, losses, label=name)
left.set(xlabel="gradients applied", ylabel="loss (nats)", title="Against gradients")
right.set(xlabel="virtual time (s)", title="Against time")
left.legend()
plt.show()

# %% [markdown]
# Drawn over the number of gradients, the three curves are equal: here staleness does no harm, and the bounds only cost time. Now let every gradient be `delay` updates old.


# %%
def after_delays(lr, delay, updates=320):
    """Return the loss after so many updates, each by a gradient that is `delay` updates old."""
    history = [START]
    for step in range(updates):
        old = history[max(0, step - delay)]
        history.append(history[-1] - lr * gradient(old, 0, step))
    return loss(history[-1])


DELAYS = [0, 4, 8, 12, 16, 24, 32, 64]
damage = {lr: [after_delays(lr, d) for d in DELAYS] for lr in (0.1, 0.2, 1.6)}
doubled = next(d for d, x in zip(DELAYS, damage[0.2]) if x > 2 * damage[0.2][0])
compare("the delay that doubles the loss", harmful_delay, float(doubled))

# %%
fig, ax = plt.subplots()
for mark, (lr, losses) in zip("os^", damage.items()):
    ax.plot(DELAYS, losses, f"{mark}-", label=f"steps of {lr}")
ax.axhline(np.log(10), color="k", linewidth=1, linestyle=":", label="before training")
ax.set(
    xlabel="age of each gradient (updates)", ylabel="loss after 320 updates (nats)", yscale="log"
)
ax.set_title("What staleness does to the training")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Eight asynchronous workers make gradients that are about 7 updates old. From how many workers on would you want a bound, or shorter steps? Why does a longer step suffer from a smaller delay?
#
# *The real system.* Ho et al. prove that SSP converges for convex losses with a bound that grows with $s$; for asynchronous training there is none without one on the delay. TensorFlow's authors found that for large image models synchronous training with *backup workers* beat asynchronous training in accuracy and in time.

# %% [markdown]
# ## 5. Backup workers
#
# **Idea.** Wait for $n$ gradients and start $n + b$ workers. The last ones are not waited for, and their gradients are dropped. The step lasts until the $n$-th of $n+b$ has come: an **order statistic**. (Abadi et al., *TensorFlow*, OSDI 2016, section 6.3.)
#
# The backups cost machines. So divide the speed-up by what was paid for it. With $t_b$ the mean step with $b$ backups, the **normalised speed-up** is
#
# $$\frac{t_0}{t_b} \cdot \frac{n}{n+b}.$$
#
# **Predict.** 50 workers, each late in 4 % of its steps. How many backups make the shortest step?

# %%
### BEGIN STARTER
# predicted_backups = ...
### END STARTER
### BEGIN SOLUTION
predicted_backups = 4  # two are late on average, and it varies
### END SOLUTION


# %% question="backups" points="5" defines="backup_time normalised_speedup" hint1="Sort each step's times. Which of them ends the step?" hint2="Sorted ascending, the first to come has index 0. Which index has the n-th?" hint3="Twice as fast with twice the workers is no gain: what has the formula for that?"
def backup_time(times, workers):
    """Return the mean step that ends with the first `workers` gradients.

    times has shape (all workers, steps): the backups are among its rows.
    """
    ### BEGIN SOLUTION
    return np.sort(times, axis=0)[workers - 1].mean()
    ### END SOLUTION


def normalised_speedup(t_0, t_b, workers, backups):
    """Return how much faster steps of t_b are than steps of t_0, for each worker that is paid."""
    ### BEGIN SOLUTION
    return t_0 / t_b * workers / (workers + backups)
    ### END SOLUTION


# %% tags="check"
q.check("backups")

# %% [markdown]
# **Simulate.** `osdi16` draws step times as in that paper's Figure 8: Inception on 50 workers, whose servers get slower the more workers load them. It is fitted to the very figure that it is compared with: that it is near says little, but the shape, with its best number of backups, came from one distribution of stragglers.

# %%
BACKUPS = range(9)
step_times = [backup_time(osdi16(np.random.default_rng(0), (50 + b, 4000)), 50) for b in BACKUPS]
speedups = [normalised_speedup(step_times[0], t, 50, b) for b, t in enumerate(step_times)]
best = int(np.argmin(step_times))
compare("backups with the shortest step", predicted_backups, simulated=best)
print(f"shortest step, at 4 backups: published 1.93 s, simulated {step_times[4]:.2f} s")
print(f"best normalised speed-up, at 3: published 1.095, simulated {speedups[3]:.3f}")

# %%
fig, ax = plt.subplots()
ax.plot(BACKUPS, step_times, "o-", label="mean step")
ax.plot(4, 1.93, "k*", markersize=12, label="the paper's: 1.93 s at 4 backups")
ax.set(
    xlabel="backup workers", ylabel="mean step (s)", ylim=(1.8, 2.4), title="50 workers and some"
)
other = ax.twinx()
other.plot(BACKUPS, speedups, "C1s--", label="normalised speed-up")
other.set(ylabel="normalised speed-up", ylim=(0.9, 1.2))
fig.legend(loc="upper right", bbox_to_anchor=(0.88, 0.88))
plt.show()

# %% [markdown]
# And with real ranks: three workers, one of them a backup, each as fast as it can. Every gradient is applied or dropped.

# %%
_, report = launch(lambda comm: train_shared(comm, 1, 30, backups=1), 4)[0]
print(f"pushed {report.pushed}, applied {report.applied}, dropped {report.dropped}")

# %% [markdown]
# Does it harm the training to drop gradients? SGD draws its batches at random; who drops at random draws once more. But let the data lie on the workers sorted: each of five has two of the ten digits.
#
# **Predict.** One gradient of five is dropped in each step. How many of a hundred digits are right in the end if each step drops another worker's, and how many if it is always the last worker's?

# %%
### BEGIN STARTER
# predicted_right = {"at random": ..., "always the last": ...}
### END STARTER
### BEGIN SOLUTION
predicted_right = {"at random": 93, "always the last": 75}  # two digits are never learnt
### END SOLUTION


# %%
def train_dropping(dropped, steps=300):
    """Train on sorted parts, without worker `dropped(step)`; return how many of 100 are right."""
    parts, w = np.array_split(np.argsort(LABELS, kind="stable"), 5), START.copy()
    for step in range(steps):
        rng, grads = np.random.default_rng(step), []
        for part in (part for i, part in enumerate(parts) if i != dropped(step)):
            at = rng.choice(part, 32)
            grads.append(IMAGES[at].T @ (probabilities(w, IMAGES[at]) - TARGETS[at]) / 32)
        w -= 0.5 * np.mean(grads, axis=0)
    return 100 * (probabilities(w, IMAGES).argmax(axis=1) == LABELS).mean()


# %%
late_one = np.random.default_rng(0).integers(5, size=300)
compare("all applied, of 100", ..., train_dropping(lambda step: None))
compare("at random", predicted_right["at random"], train_dropping(lambda step: late_one[step]))
compare("always the last", predicted_right["always the last"], train_dropping(lambda step: 4))

# %% [markdown]
# **Reflect.** The step is shortest with 4 backups, the normalised speed-up greatest with 3. Which of the two would you choose if the machines were idle anyway? Why does the step get *longer* again with more backups? And which workers are late in a cluster: others in each step, or always the same?
#
# *The real system.* MapReduce starts **backup tasks** near the end of a job for the same reason, and takes whichever copy ends first (Dean and Ghemawat, OSDI 2004): its sort of a terabyte took 891 s, and 1,283 s without them: 44 % more.

# %% [markdown]
# ## 6. Servers or a ring?
#
# When nobody is late, which is faster: $s$ servers, or a ring among the $n$ workers?
#
# **Idea.** Pull: each server sends its $1/s$ of the $N$ bytes to $n$ workers, one after the other; a worker receives from $s$ servers, one after the other. The side with more messages decides, so a pull lasts $\max(n, s)$ messages of $N/s$ bytes. The push is the same the other way. A message of $m$ bytes takes $\alpha + m\beta$.


# %% question="server_time" points="4" hint1="How large is one message, and what does it cost?" hint2="How many messages does the busiest rank have in one direction? There are two directions, one after the other."
def server_time(n_bytes, workers, servers, alpha, beta):
    """Return the seconds of one synchronous step, a pull and a push, on equal links."""
    ### BEGIN SOLUTION
    return 2 * max(workers, servers) * (alpha + n_bytes / servers * beta)
    ### END SOLUTION


# %% tags="check"
q.check("server_time")

# %% [markdown]
# **Measure** in real seconds: every rank is a host of its own, on links of 1 MB/s each way. A pull is a request and its answer; a push is acknowledged; both begin at another partner on each rank, and nobody pushes before all have pulled.

# %%
ALPHA, BETA, SIZE, N = 0.1e-3, 1e-6, 40_000, 8
NOTHING = np.zeros(0, np.uint8)


def partners(rank, servers):
    """Return whom a rank talks to: N workers behind the servers; as they come, for a server."""
    if rank < servers:
        return [servers + i for i in sorted(range(N), key=lambda i: (i - rank) % servers)]
    return [(rank - servers - i) % servers for i in range(servers)]


# %%
def one_step(comm, servers, piece, compute_s):
    """Pull `piece` bytes from each server to each worker; compute; push as many back."""
    serves = comm.rank < servers
    for other in partners(comm.rank, servers):
        pull(comm, serves, piece, other)
    comm.barrier()
    sleep(compute_s)
    for other in partners(comm.rank, servers):
        pull(comm, not serves, piece, other)


def pull(comm, gives, piece, other):
    """Give a piece to a rank that asks for it, or ask for one; a push is the same, turned round."""
    if gives:
        comm.recv(other)
    comm.send(piece if gives else NOTHING, other)
    if not gives:
        comm.recv(other)


# %%
def step_times(comm, servers, sizes, compute_s):
    """Return the seconds of a step for each size in bytes; of a ring where `servers` is 0."""
    took = []
    for n_bytes in sizes:
        x = np.zeros(int(n_bytes / max(servers, 1)), np.uint8)
        comm.barrier()
        began = perf_counter()
        if servers:
            one_step(comm, servers, x, compute_s)
        else:
            sleep(compute_s)
            comm.all_reduce(x, algorithm="ring")
        took.append(perf_counter() - began)
    return took


# %%
def on_links(servers, sizes=(SIZE,) * 3, compute_s=0.0):
    """Return what N workers and their servers take for each size, by the slowest rank."""
    hosts, link = N + servers, Link(ALPHA, BETA)
    ranks = launch(
        step_times, hosts, servers, sizes, compute_s, transport="threads", hosts=hosts, link=link
    )
    return np.max(ranks, axis=0)


# %%
ring_s = on_links(0).min()
compare("a ring of 8: ms", 1e3 * all_reduce_time("ring", SIZE, N, ALPHA, BETA), 1e3 * ring_s)
alone = {servers: on_links(servers).min() for servers in (1, 2, 4, 8)}
for servers, seconds in alone.items():
    predicted = server_time(SIZE, N, servers, ALPHA, BETA)
    compare(f"{name_of(servers)}, 8 workers: ms", 1e3 * predicted, 1e3 * seconds)

# %% [markdown]
# The more a worker computes, the less all this matters. **Predict** with your `server_time`: how many times as fast are eight servers as one, if a worker computes for 40 ms a step, and if for 1,000 ms?

# %%
### BEGIN STARTER
# predicted_gain = {0.04: ..., 1.0: ...}
### END STARTER
### BEGIN SOLUTION
one, eight = (server_time(SIZE, N, servers, ALPHA, BETA) for servers in (1, 8))
predicted_gain = {c: (c + one) / (c + eight) for c in (0.04, 1.0)}
### END SOLUTION

# %%
for compute_s, predicted in predicted_gain.items():
    few, many = (on_links(servers, (SIZE,) * 2, compute_s).min() for servers in (1, 8))
    compare(f"computing {1e3 * compute_s:,.0f} ms: 8 servers / 1, speed", predicted, few / many)

# %% [markdown]
# More servers pay where communication is the bottleneck. Dense gradients over equal links: the ring wins, even against as many servers as workers. But a ring has to carry *all* rows of a table of words, and a worker pushes to a server only the rows that its batch had.
#
# **Predict.** At which fraction $f$ of the rows do $s \le n$ servers and the ring take the same time? Count bytes alone ($\alpha = 0$): the ring takes $2\frac{n-1}{n} N\beta$.


# %% question="crossover" points="3" hint1="With a fraction f of the bytes the servers' time is f times what server_time says without latency." hint2="Set the two times equal and solve for f. With s <= n the busiest rank is a server."
def crossover(workers, servers):
    """Return the fraction of the rows below which the servers are faster; servers <= workers."""
    ### BEGIN SOLUTION
    return servers * (workers - 1) / workers**2
    ### END SOLUTION


# %% tags="check"
q.check("crossover")

# %%
fractions = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])
fig, ax = plt.subplots()
ax.axhline(ring_s * 1e3, color="k", label="a ring: all rows")
for style, servers in zip(("C0o-", "C1s-", "C2^-"), (1, 2, 4)):
    seconds = np.min([on_links(servers, fractions * SIZE) for _ in range(2)], axis=0)
    ax.plot(fractions, seconds * 1e3, style, label=name_of(servers))
    ax.axvline(crossover(N, servers), color=style[:2], linestyle=":")
    met = np.interp(ring_s, seconds, fractions)
    compare(f"{name_of(servers)}: meeting the ring at", crossover(N, servers), met)
axes = {"xscale": "log", "yscale": "log", "ylabel": "a step, measured (ms)"}
ax.set(xlabel="fraction of the rows pushed and pulled", **axes)
ax.set_title("8 workers on links of 1 MB/s; dotted: your crossover")
ax.legend()
plt.show()

# %% [markdown]
# A link carries bytes in both directions at once, and so far only one was in use. Let eight servers and eight workers push one piece while they pull another.
#
# **Predict.** How many times as fast as the ring of eight are they then?

# %%
### BEGIN STARTER
# predicted_both_ways = ...
### END STARTER
### BEGIN SOLUTION
predicted_both_ways = 2 * 7 / 8  # N beta against 2 (n-1)/n N beta
### END SOLUTION


# %%
def both_ways(comm):
    """Exchange a piece of SIZE / N bytes with each on the other side; return the seconds."""
    piece = np.zeros(SIZE // N, np.uint8)
    comm.barrier()
    began = perf_counter()
    for other in partners(comm.rank, N):
        comm.send(piece, other)
        comm.recv(other)
    return perf_counter() - began


where = {"transport": "threads", "hosts": 2 * N, "link": Link(ALPHA, BETA)}
seconds = min(max(launch(both_ways, 2 * N, **where)) for _ in range(3))
compare("8 servers both ways at once / ring, speed", predicted_both_ways, ring_s / seconds)

# %% [markdown]
# **Reflect.** On which of your numbers would a second network card in each *server* have an effect, and up to which number of servers? Servers keep parameters in the memory of hosts: which copies are added to a step if the workers are GPUs, and could they be hidden?
#
# *The real system.* BytePS (Jiang et al., OSDI 2020) puts servers on the spare CPU machines of a GPU cluster, and uses both directions of each link as you did. GeePS (Cui et al., EuroSys 2016) keeps a cache of the parameters in the GPU's memory, and copies between there and the host's in the background, while the GPU computes.

# %% [markdown]
# ## 7. Where a ring cannot run
#
# In every step of a ring each rank waits for its neighbour, so all ranks must run at the same time. Spark gives no such promise: a **task** starts when a machine has a free slot. With 8 tasks and 6 slots, six tasks wait for the other two, and keep the slots which these two need. The ring never ends.
#
# **Idea.** Tasks do not talk to each other. A task leaves its result and ends. When all tasks of a **stage** have ended (a **barrier**), those of the next stage fetch the results. MapReduce is the older form of this: each map task writes its output to a disk, cut into one part for each reduce task. Then the **shuffle** carries all the parts to their reduce tasks. Spark sums arrays in such stages: 8 partitions become 2, and the **driver** adds these and broadcasts the sum. (Dean and Ghemawat, OSDI 2004; Zaharia et al., NSDI 2012.)
#
# Here ranks play the tasks, and rank 0 is the driver too. With 2 partitions, ranks 2, 4 and 6 send their arrays to rank 0, and ranks 3, 5 and 7 to rank 1. Then rank 1 sends its sum to rank 0. The broadcast is a binary tree (lab 08).
#
# **Predict.** How many arrays does rank 0 receive and send, both together? In a ring each rank receives $2\frac{n-1}{n}$ arrays and sends as many.

# %%
### BEGIN STARTER
# driver_arrays = ...
### END STARTER
### BEGIN SOLUTION
driver_arrays = (3 + 1) + 3  # received in two stages, and sent to ranks 1, 2 and 4
### END SOLUTION

# %% [markdown]
# **Measure** on the same 8 ranks, each with an array of 1 MiB. `tree_aggregate` leaves the sum at the driver. A message without any bytes belongs to a barrier, in which each rank sends one to each other.

# %%
X = np.ones(2**17)
WAYS = {
    "ring": lambda comm: comm.all_reduce(X, algorithm="ring"),
    "tree_aggregate": lambda comm: tree_aggregate(comm, X),
    "spark_all_reduce, 2": lambda comm: spark_all_reduce(comm, X, 2),
    "spark_all_reduce, 8": lambda comm: spark_all_reduce(comm, X, 8),
}
busiest = {}  # way -> bytes that the busiest rank receives and sends
print(f"{'':<20}{'busiest rank':>16}{'messages':>10}{'barriers':>10}{'time':>12}")
for name, way in WAYS.items():
    trace = launch(way, N, record=True).trace
    messages = [m for m in trace.messages if "reduce" in m.op]  # without checks of arguments
    data = [m for m in messages if m.n_bytes]
    both = [sum(m.n_bytes for m in data if rank in (m.src, m.dst)) for rank in range(N)]
    busiest[name] = max(both)
    barriers = (len(messages) - len(data)) // (N * (N - 1))
    ms = max(span.ended_at - span.began_at for span in trace.spans if "reduce" in span.op) * 1e3
    print(f"{name:<20}{max(both):>10,} bytes{len(data):>10}{barriers:>10}{ms:>9.1f} ms")

# %%
compare("ring: arrays through a rank", 4 * (N - 1) / N, busiest["ring"] / X.nbytes)
compare("2 partitions: through rank 0", driver_arrays, busiest["spark_all_reduce, 2"] // X.nbytes)

# %% [markdown]
# Here memory carries the messages, so the times say nothing about a network; the bytes and the barriers do.
#
# **Reflect.** With 64 ranks and 8 partitions, how many arrays does the driver receive? And a rank of a ring? Then one rank dies in the middle: what has to be done again, here and there?
#
# *The real system.* Spark runs a lost task again, alone, from what earlier stages left. Since version 2.4 it also has a **barrier mode**, which starts all tasks of a stage together or none, so that they can run a ring; when one fails, all start again. With the extra `spark` and a Java, `ddp_lab.parallel.on_spark` sums arrays on the real Spark.

# %% [markdown] question="relaxed" points="6" manual="true" rubric1="2: Says for each of the three what a worker may see (sync: the mean of all gradients of the step before; ssp: all gradients older than s steps; async: anything) and what it waits for" rubric2="2: Names the case for each with a number measured in this lab (occasional stragglers: ssp or backups; one machine that is always slower: no bound helps, only async or giving it less work; none late: sync, or the ring)" rubric3="1: Backups pay with machines and drop data, unevenly if the same worker is always late" rubric4="1: Says what happens when a worker or a server dies in each"
# ## Discuss
#
# Your cluster has 32 machines. Of these 2 are older and always half as fast, and any machine is now and then late by ten steps. You train one model with dense gradients, and one with a table of a million words.
#
# For each model: servers or a ring; synchronous, stale-synchronous, asynchronous, or backup workers? Half a page, with numbers of this lab. What happens in each case when a worker dies?
#
# ### BEGIN SOLUTION
# Dense model: the ring is faster than any number of servers up to the workers' (section 6), but every step waits for the slowest: with 32 machines somebody is late in most steps, and the two old ones double each step anyway. So synchronous with servers and backups: 30 of 32 gradients a step leave out the two old machines, and with them what they know of the data; better to give them smaller batches and have two or three backups against the occasional delay (section 5: the gain was largest at 3 of 50). Staleness hides a delay of up to s steps (section 3), so s of about 10 for delays of ten steps, if the loss allows it (section 4); against a machine that is always slower no bound helps, since the others reach it sooner or later and then go at its pace.
#
# Table of words: a batch touches far less than the crossover's fraction of the rows, so servers, and SSP or asynchronous pushes: two workers seldom touch the same row, and stale rows are rare.
#
# A worker that dies ends a synchronous or SSP run, for its gradient never comes; asynchronous runs and those with a backup left go on without it. A server that dies takes its parameters along: all end, and start again from a checkpoint.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges" rubric3="1: Methods and contributions (range push and pull, consistency as the user's choice, vector clocks, replication by consistent hashing; or SSP's bound and its proof)" rubric4="1: Evaluation (names a figure with its conditions)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Choose one: Mu Li et al., [*Scaling Distributed Machine Learning with the Parameter Server*](https://www.usenix.org/conference/osdi14/technical-sessions/presentation/li_mu), OSDI 2014; or Qirong Ho et al., [*More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server*](https://papers.nips.cc/paper/2013/hash/b7bb35b9c6ca2aee2df08cf09d7016c2-Abstract.html), NIPS 2013. One page, in the form below.
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
# **Overview.** (Li 2014) A framework in which servers share the parameters of a model by ranges of keys, and many workers pull and push them asynchronously; it is fast, goes on when machines fail, and lets the user choose how consistent the parameters are. **Problem and challenges.** Models and data of industry size fit no machine; sequential consistency costs waiting; at a thousand machines some fail in every job. **Methods and contributions.** Push and pull of ranges with user-defined filters that leave out what hardly changes; tasks with dependencies, from which sequential, bounded-delay and eventual consistency all follow; one vector clock a range instead of a key; replicas along a ring of consistent hashing. **Evaluation.** Sparse logistic regression on 636 TB of advertising data with 1,000 machines: it reaches the same objective sooner than two earlier systems, and its workers spend less of their time waiting. No deep network was measured. **Trade-offs.** Replication multiplies traffic; a larger delay hides waiting and slows each step's progress, with an optimum between that has to be found by trying. **Open questions.** How to choose the delay automatically; what bounded delay does to losses that are not convex; whether servers pay for dense models on fast networks.
# ### END SOLUTION

# %%
q.status()
