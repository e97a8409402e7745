# %% [markdown] builds="a link fitted on a busy machine, steps, memory and days predicted, checkpoints" needs="09, 10"
# # Lab 16: At scale
#
# - **You build** a predictor: the constants of a link from timings on a busy machine, a training step from these constants, the memory of GPT-3, and how often a long run should be saved.
# - **You need** the ring all-reduce (lab 09) and what overlap hides (lab 10).
# - **It takes** about 70 minutes: introduction 1, sections 10, 11, 7, 10, 7 and 14, discussion 10. The reading note, with its paper, is for another day.
#
# Nobody here has 1,024 GPUs. What cannot be run can be predicted, if the prediction first passes where it can be checked: against this machine, and against what others have published.
#
# Write each prediction down before you measure.

# %% tags="setup"
import os
import platform
import signal
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from autograder import compare, kept_rate, lab
from ddp_lab import Link, RankFailed, launch, simulate
from ddp_lab.data_parallel import Checkpoint
from ddp_lab.errors import DoesNotFit
from ddp_lab.simulate import clusters, published, workloads
from lessons.machine import measured_rate

# %% tags="setup"
q = lab("at_scale")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())


# %% [markdown]
# ## 1. Calibrate
#
# Two ranks time a ring all-reduce of a few sizes, 40 times each. Each rank stays on one core.


# %%
def stay_on_one_core(comm):
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})


def time_all_reduce(comm, sizes, rounds):
    """Return {bytes: seconds of each round}; the sizes take turns."""
    stay_on_one_core(comm)
    arrays = {n: comm.empty((n // 4,), np.float32) for n in sizes}
    times = {n: [] for n in sizes}
    for _ in range(rounds):
        for n, x in arrays.items():
            x[...] = 0
            comm.barrier()
            began = perf_counter()
            comm.all_reduce(x, algorithm="ring", out=x)
            times[n].append(perf_counter() - began)
    return times


# %%
SIZES, HELD_OUT = (1 << 10, 1 << 14, 1 << 17, 1 << 20), (1 << 12, 1 << 16, 1 << 19)
timed = launch(time_all_reduce, 2, (*SIZES, *HELD_OUT), 40)[0]
for n in SIZES:
    quick, middle, slow = np.quantile(timed[n], [0, 0.5, 1]) * 1e6
    print(f"{n:>8} bytes: {quick:7.0f} µs at best, {middle:7.0f} typically, {slow:9.0f} at worst")

# %% [markdown]
# The same call, and yet the times differ by large factors. Other programs share this machine, and they can only ever make a call slower.
#
# **Idea.** Of each size, take the **quickest** round: the one that nothing disturbed. Then fit a straight line, $t = a + b \cdot \text{bytes}$. Errors must count as **shares** of what was measured: with plain least squares a megabyte's error of 1 % outweighs any error at a kilobyte. Divide each equation by its $t$ and solve $a / t_i + b\, n_i / t_i = 1$.
#
# **Predict.** Times of 1, 9 and 2 ms for one size, 3, 3 and 8 ms for a size that is three times as large. What is $a$, in ms?

# %%
### BEGIN STARTER
# predicted_a_ms = ...
### END STARTER
### BEGIN SOLUTION
predicted_a_ms = 0.0
### END SOLUTION


# %% question="fit_line" points="6" hint1="First reduce each list to one number: which round was not disturbed?" hint2="np.linalg.lstsq(rows, ones)[0] solves for a and b. A row is (1, n) divided by the time t of that size." hint3="Scale the columns if you like: rows of (1/t, n/t), and ones on the right."
def fit_line(times):
    """Return (a, b) of t = a + b * bytes, fitted to the quickest time of each size.

    Errors count relative to the time.

    Args:
        times: {bytes: list of seconds}, two sizes or more.
    """
    ### BEGIN SOLUTION
    sizes = np.array(list(times), float)
    quickest = np.array([min(seconds) for seconds in times.values()])
    rows = np.stack([1 / quickest, sizes / quickest], axis=1)
    lengths = np.linalg.norm(rows, axis=0)
    a, b = np.linalg.lstsq(rows / lengths, np.ones(len(sizes)), rcond=None)[0] / lengths
    return float(a), float(b)
    ### END SOLUTION


# %% tags="check"
q.check("fit_line")

# %%
a_s, _ = fit_line({1: [1e-3, 9e-3, 2e-3], 3: [3e-3, 3e-3, 8e-3]})
compare("a of the two points, ms", predicted_a_ms, computed=abs(a_s) * 1e3)
A, B = fit_line({n: timed[n] for n in SIZES})
print(f"here: {A * 1e6:.0f} µs a call, {1e-9 / B:.2g} GB/s")
compare("GB/s, by lab 00's memory", kept_rate("memory bytes", measured_rate) / 1e9, 1e-9 / B)
for n in HELD_OUT:
    compare(f"{n} bytes, held out, µs", (A + B * n) * 1e6, min(timed[n]) * 1e6)

# %% [markdown]
# **Reflect.** Why is your rate not that of lab 00's memory, and where does a megabyte lie while it is summed 40 times? Where are the held-out points missed most? What would a fit to the *mean* times predict, and for which machine would that be right?
#
# *The real system.* `python -m ddp_lab calibrate` does this for five collectives. It asks the operating system whether a rank was taken off its core during a block of calls, throws such blocks away, and makes no claim where launches disagree.

# %% [markdown]
# ## 2. From two ranks to many
#
# With two ranks a ring takes $2\alpha + n\beta$. So $\alpha = a/2$ and $\beta = b$, and the closed form of lab 09 says what $p$ ranks would pay on such links:
#
# $$t_p = 2(p-1)\,\alpha + 2\,\frac{p-1}{p}\, n\,\beta.$$
#
# **Predict.** 1,024 ranks instead of 2, with arrays so large that $\alpha$ does not matter. How many times as long?

# %%
### BEGIN STARTER
# predicted_growth = ...
### END STARTER
### BEGIN SOLUTION
predicted_growth = 2 * 1023 / 1024
### END SOLUTION


# %% question="ring_seconds" points="3" hint1="How many messages does each rank send one after another, and of what size?" hint2="One rank alone sends nothing: does your formula give 0?"
def ring_seconds(n_bytes, ranks, alpha, beta):
    """Return the seconds of a ring all-reduce: reduce-scatter, then all-gather."""
    ### BEGIN SOLUTION
    return 2 * (ranks - 1) * (alpha + n_bytes / ranks * beta)
    ### END SOLUTION


# %% tags="check"
q.check("ring_seconds")

# %%
ALPHA, BETA = A / 2, B
growth = ring_seconds(1e12, 1024, ALPHA, BETA) / ring_seconds(1e12, 2, ALPHA, BETA)
compare("1,024 ranks over 2", predicted_growth, computed=growth)
virtual = simulate.collective("all_reduce", "ring", 1e6, 1024, ALPHA, BETA)
compare("1 MB on 1,024 ranks, s", ring_seconds(1e6, 1024, ALPHA, BETA), simulated=virtual)

# %% [markdown]
# The last line ran the real ring code on a virtual clock. Now a step of training, here: a small network on images of digits, its gradients by hand as in lab 01, averaged by one all-reduce.


# %%
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES, TARGETS = (IMAGES / 16).astype(np.float32), 2 * np.eye(10, dtype=np.float32)[LABELS] - 1


def make_weights(width=256):
    rng = np.random.default_rng(0)
    pairs = ((64, width), (width, width), (width, width), (width, 10))
    return [(rng.normal(size=pair) / pair[0] ** 0.5).astype(np.float32) for pair in pairs]


# %%
def gradients(weights, x, y):
    """Return the loss, and all gradients of tanh layers with squared error in one flat array."""
    outputs = [x]
    for w in weights:
        outputs.append(np.tanh(outputs[-1] @ w))
    delta, grads = outputs[-1] - y, []
    loss = float((delta**2).mean())
    for w, below, above in zip(weights[::-1], outputs[-2::-1], outputs[:0:-1]):
        delta = delta * (1 - above**2)
        grads.append((below.T @ delta / len(x)).ravel())
        delta = delta @ w.T
    return loss, np.concatenate(grads[::-1])


# %%
def time_steps(comm, algorithm="ring", rounds=40, each=16):
    """Return the seconds of the quickest compute, and of the quickest whole step."""
    stay_on_one_core(comm)
    weights, took = make_weights(), []
    for turn in range(rounds):
        rows = (np.arange(each) + each * (comm.size * turn + comm.rank)) % len(IMAGES)
        comm.barrier()
        at = [perf_counter()]
        flat = gradients(weights, IMAGES[rows], TARGETS[rows])[1]
        at.append(perf_counter())
        comm.all_reduce(flat, algorithm=algorithm, out=flat)
        took.append([at[1] - at[0], perf_counter() - at[0]])
    return np.min(took, axis=0)


compute_s, step_s = np.max(list(launch(time_steps, 2)), axis=0)
GRADIENT_BYTES = 4 * sum(w.size for w in make_weights())
predicted = compute_s + ring_seconds(GRADIENT_BYTES, 2, ALPHA, BETA)
compare("a step of two ranks here, ms", 1e3 * predicted, 1e3 * step_s)
compare("efficiency of two ranks here", compute_s / predicted, compute_s / step_s)

# %% [markdown]
# **Two hosts.** Of a cluster you know what its links do with a few messages, and want to know what a training will do. Here are two hosts (pretended ones, as in lab 09, in real seconds) on a link that you calibrate as before.

# %%
FAR = {"hosts": 2, "link": Link(1e-3, 1 / 1e7)}  # 1 ms and 10 MB/s: your fit shall find them
SHORT = (1 << 12, 1 << 15, 1 << 18)
A_FAR, B_FAR = fit_line(launch(time_all_reduce, 2, SHORT, 12, **FAR)[0])
BETWEEN = A_FAR / 2, B_FAR
compare("the link, ms a message", FAR["link"].alpha * 1e3, BETWEEN[0] * 1e3)
compare("the link, MB/s", 1e-6 / FAR["link"].beta, 1e-6 / BETWEEN[1])

# %% [markdown]
# With several ranks a host the all-reduce has two **levels** (lab 09): a reduce-scatter inside each host, an all-reduce of each rank's chunk between the hosts, an all-gather inside. The ranks of a host share its link, so that together they send what a ring of hosts would.
#
# **Predict** by two of your `ring_seconds`.


# %% question="two_level_seconds" points="4" hint1="Reduce-scatter and all-gather inside a host are the two halves of a ring of its ranks." hint2="Between hosts each of the ranks sends a chunk of n / width bytes, and there are width of them on one link." hint3="So between hosts it is as if one rank a host sent all of the bytes: a ring of how many?"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    """Return the seconds of an all-reduce over hosts of `width` ranks each, in two levels.

    Args:
        inside, between: (alpha, beta) of the links inside a host, and of a host's link to others.
    """
    ### BEGIN SOLUTION
    return ring_seconds(n_bytes, width, *inside) + ring_seconds(n_bytes, hosts, *between)
    ### END SOLUTION


# %% tags="check"
q.check("two_level_seconds")

# %% [markdown]
# **Measure.** A step of training on two hosts, predicted from one rank's compute above and from four constants; with one rank a host, and with two.

# %%
for width, algorithm in ((1, "ring"), (2, "hierarchical")):
    talk_s = two_level_seconds(GRADIENT_BYTES, 2, width, (ALPHA, BETA), BETWEEN)
    _, step_s = np.max(list(launch(time_steps, 2 * width, algorithm, 12, **FAR)), axis=0)
    compare(f"a step, 2 hosts x {width}, ms", 1e3 * (compute_s + talk_s), 1e3 * step_s)

# %% [markdown]
# **Reflect.** The prediction knew one rank's compute and two constants, and nothing of this step. What is in the measured step that it left out, and why is it nearer on two hosts? Which of the four constants would you improve first?
#
# *The real system.* Frameworks that search for plans, such as Alpa and FlexFlow, rest on such a cost model: profiles of compute, closed forms for communication.

# %% [markdown]
# ## 3. 512 GPUs
#
# With overlap a step is somewhere between two bounds. At worst nothing is hidden. At best communication begins when forward ends, after a third of the compute (backward takes twice as long as forward), and then runs without a pause beside backward.
#
# **Idea.** **Efficiency** is throughput over that of as many devices alone: compute over step. A published figure has to lie between the efficiencies of the two bounds; if not, an assumption is wrong.
#
# **Predict.** Compute takes 300 ms, communication 240 ms. What is the efficiency at best?

# %%
### BEGIN STARTER
# predicted_best = ...
### END STARTER
### BEGIN SOLUTION
predicted_best = 300 / 340
### END SOLUTION


# %% question="efficiency_bounds" points="6" hint1="Worst: the step is compute, then communication." hint2="Best: compute / 3, then whatever takes longer: the other two thirds, or communication." hint3="No step is shorter than its compute: max(compute, compute / 3 + communication)."
def efficiency_bounds(compute_s, communication_s):
    """Return the efficiency without overlap, and with the best that there can be."""
    ### BEGIN SOLUTION
    best = max(compute_s, compute_s / 3 + communication_s)
    return compute_s / (compute_s + communication_s), compute_s / best
    ### END SOLUTION


# %% tags="check"
q.check("efficiency_bounds")

# %% [markdown]
# Horovod, 2018: 512 Pascal GPUs, 25 Gb/s between servers, 64 pictures each. What a GPU does alone is from TensorFlow's benchmarks of 2017.

# %%
compare("efficiency at best", predicted_best, computed=efficiency_bounds(0.3, 0.24)[1])
alpha, beta = clusters.P100S_ROCE.inter
for name, layers, images_per_s, measured in published.HOROVOD:
    n_bytes = sum(layer.param_bytes for layer in layers)
    seconds = ring_seconds(n_bytes, 512, alpha, beta)
    worst, best = efficiency_bounds(64 / images_per_s, seconds)
    print(f"{name:13} {n_bytes / 1e6:4.0f} MB: {worst:.0%} to {best:.0%}, published {measured} %")

# %% [markdown]
# `simulate.training` has the same two ingredients, and buckets, tensor parallelism, pipelines and memory besides. It predicts what nobody here can run:

# %%
RANKS = [1, 4, 8, 64, 256, 512, 1024]
fig, ax = plt.subplots()
for (name, layers, images_per_s, measured), mark in zip(published.HOROVOD, "osD"):
    hosts = replace(clusters.with_pace(clusters.P100S_ROCE, layers, images_per_s), hosts=256)
    at = {p: published.step(layers, hosts, p, 64).efficiency for p in RANKS}
    (drawn,) = ax.plot(RANKS, at.values(), label=f"{name}, predicted")
    size = 12 if mark == "o" else 6  # two have the same efficiency
    ax.plot(512, measured / 100, mark, ms=size, color=drawn.get_color(), label=f"{name}, published")
    print(f"{name:13}", *(f"{p} GPUs {at[p]:.0%} " for p in (8, 256, 1024)))
ax.set(xscale="log", xlabel="GPUs", ylabel="efficiency", ylim=(0, 1.05), title="25 Gb/s, overlap")
ax.legend(ncols=2, fontsize="small", loc="lower left")
plt.show()

# %% [markdown]
# **Reflect.** Why does VGG-16 keep least? All predictions are too good: name two things that the simulator takes for granted and Horovod's run did not have.
#
# *The real system.* `docs/predictions.md` holds some forty published figures against the simulator, the gaps with them.

# %% [markdown]
# ## 4. The memory of a GPT-3 step, by hand
#
# GPT-3: 96 layers of width 12,288. In 16 bits each parameter takes 2 bytes, its gradient 2, and Adam keeps 12 more: a 32-bit copy and two moments.
#
# **Idea.** **ZeRO** (Rajbhandari et al., SC 2020) divides among the $d$ replicas what each of them would keep whole. Stage 1 cuts the optimizer's 12 bytes, stage 2 the gradients' 2 as well, stage 3 also the parameters' 2. At stage 0 nothing is cut.
#
# **Predict.** 175 billion parameters at stage 0: how many GPUs of 80 GB hold that once?

# %%
### BEGIN STARTER
# predicted_gpus = ...
### END STARTER
### BEGIN SOLUTION
predicted_gpus = 35
### END SOLUTION


# %% question="transformer_params" points="3" hint1="A layer has four matrices of width by width in its attention, and two of width by 4 width in its net." hint2="That makes 12 width² a layer. The embedding has a row of width numbers for each token of the vocabulary."
def transformer_params(layers, width, vocabulary):
    """Return the number of parameters: layers and embedding; biases and norms left out."""
    ### BEGIN SOLUTION
    return 12 * layers * width**2 + vocabulary * width
    ### END SOLUTION


# %% question="zero_bytes" points="5" hint1="Which of the three parts (2, 2 and 12 bytes) does each stage divide by the replicas?" hint2="Stage 1: 4 + 12 / replicas. Go on from there."
def zero_bytes(params, replicas, stage):
    """Return the bytes of parameters, gradients and optimizer on a device, at a ZeRO stage."""
    ### BEGIN SOLUTION
    optimizer = 12 / replicas if stage >= 1 else 12
    grads = 2 / replicas if stage >= 2 else 2
    weights = 2 / replicas if stage >= 3 else 2
    return params * (optimizer + grads + weights)
    ### END SOLUTION


# %% tags="check"
q.check("transformer_params")
q.check("zero_bytes")

# %%
GPT3 = transformer_params(96, 12_288, 50_257)
print(f"GPT-3: {GPT3 / 1e9:.1f} billion parameters")
compare("GPUs of 80 GB, for states alone", predicted_gpus, computed=zero_bytes(GPT3, 1, 0) / 80e9)
for stage in range(4):
    print(f"stage {stage}, 1,024 replicas: {zero_bytes(GPT3, 1024, stage) / 1e9:7,.1f} GB each")

# %% [markdown]
# The simulator counts activations too, and says which stage of a pipeline does not fit. (`states=9.0`: Megatron-LM keeps gradients in 32 bits, so a parameter of 2 bytes needs 18 in all, 9 times as many.)

# %%
for how in ({"tp": 8}, {"tp": 8, "pp": 4}, {"tp": 8, "pp": 8}):
    try:
        step = simulate.training(
            workloads.GPT3, clusters.A100S, microbatches=96, batch=96, states=9.0, **how
        )
        print(how, f"fits: {step.memory_bytes / 1e9:.0f} GB")
    except DoesNotFit as error:
        print(how, f"stage {error.stage}: {error.over_bytes / 1e9:.0f} GB over")

# %% [markdown]
# **Reflect.** At stage 3 nobody has the whole model any more. What does a replica have to do before each layer, in forward and in backward, and how many bytes does it send beside an all-reduce of the gradients?
#
# *The real system.* Stage 3 is PyTorch's `fully_shard` (FSDP) and DeepSpeed's ZeRO-3: half as many bytes again, hidden where layers are large enough.

# %% [markdown]
# ## 5. Days
#
# **Idea.** A token costs 2 flops a parameter in forward, 4 in backward. A run that keeps only each layer's output computes forward again before backward: 8 in all (Narayanan et al., SC 2021).
#
# **Predict.** GPT-3, 300 billion tokens, 1,024 A100s that each get 140 Tflop/s done. How many days?

# %%
### BEGIN STARTER
# predicted_days = ...
### END STARTER
### BEGIN SOLUTION
predicted_days = 34
### END SOLUTION


# %% question="training_days" points="4" hint1="Flops of the whole run over flops of all devices a second gives seconds." hint2="6 or 8 flops for each parameter and each token."
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    """Return the days of a run on devices that each do so many flops a second."""
    ### BEGIN SOLUTION
    flops = (8 if recompute else 6) * params * tokens
    return flops / (devices * flops_per_s) / 86_400
    ### END SOLUTION


# %% tags="check"
q.check("training_days")

# %% [markdown]
# Beside it the simulator, with 8-way tensor parallelism, 8 stages and 1,536 sequences a step, on more and more GPUs:

# %%
compare("days on 1,024 A100s", predicted_days, computed=training_days(GPT3, 300e9, 1024, 140e12))
print("  GPUs   days  efficiency  bubble")
for replicas in (2, 16, 48):
    step = published.megatron_step(workloads.GPT3, 8, 64 * replicas, 1536)
    days = 300e9 / (1536 * 2048) * step.step_time / 86_400
    idle = step.breakdown["bubble"] / step.step_time
    print(f"{64 * replicas:>6} {days:>6.0f} {step.efficiency:>10.0%} {idle:>8.0%}")

# %% [markdown]
# The same formula for two other runs. **OPT-175B** (Zhang et al., 2022) is GPT-3's shape trained again, with its [log](https://github.com/facebookresearch/metaseq/tree/main/projects/OPT/chronicles) in the open: up to 147 Tflop/s on each of 992 A100s. Google trains on **TPUs**, chips of its own around a large unit for products of matrices: a TPU v4 peaks at 275 Tflop/s (an A100 at 312) and has 32 GB (Jouppi et al., 2023). PaLM got 46.2 % of that from 6,144 of them, recomputation not counted (Chowdhery et al., 2022).

# %%
for run, days in (
    ("OPT-175B, 992 A100s", training_days(GPT3, 300e9, 992, 147e12)),
    ("GPT-3 on 1,024 TPU v4", training_days(GPT3, 300e9, 1024, 0.462 * 275e12, recompute=False)),
):
    print(f"{run:<22} {days:4.0f} days by your formula")
print("OPT-175B took 56 days: 33 without failures, but 2 of its 124 machines failed a day")
print(f"states of GPT-3, in TPUs of 32 GB: {zero_bytes(GPT3, 1, 0) / 32e9:.0f}")

# %% [markdown]
# **Reflect.** 24 times the GPUs are less than 24 times as fast. Which term grows, and why? What would have to change in the step to get the efficiency back, and how would that change the training?
#
# *The real system.* Megatron's interleaved schedule gives each device several smaller stages, so that the bubble shrinks; batches are as large as training bears.

# %% [markdown]
# ## 6. Failures
#
# Machines fail. If one fails every five years and a run needs 1,024 of them at once, the run fails every 43 hours. A run of a month has to be saved.
#
# **Predict.** What has to be saved so that the run goes on *as if nothing had happened*? Our run has the five things below. Name those that the next step needs and cannot make again.

# %%
THINGS = ("parameters", "gradients", "activations", "momentum", "position in the data")


# %% question="saved" points="3" hint1="Begin a step in your mind: what is read before it is written?" hint2="Two of the five are made anew in every step."
### BEGIN STARTER
# saved = []
### END STARTER
### BEGIN SOLUTION
saved = ["parameters", "momentum", "position in the data"]
### END SOLUTION

# %% tags="check"
q.check("saved")


# %%
class State:
    """What a training run has; of its THINGS a checkpoint holds those that `saved` names."""

    def __init__(self, saved):
        self.saved, self.weights = saved, make_weights(width=32)
        size = sum(w.size for w in self.weights)
        zeros = {"gradients": size, "momentum": size, "activations": 1, "position in the data": 1}
        self.state = {name: np.zeros(n, np.float32) for name, n in zeros.items()}
        self.state["parameters"] = np.concatenate([w.ravel() for w in self.weights])

    def state_dict(self):
        return {name: self.state[name] for name in self.saved}

    def load_state_dict(self, state):
        self.state |= {name: np.array(value) for name, value in state.items()}


# %%
class Run(State):
    """A training run on all ranks, one step at a time."""

    def step(self, comm, each=16):
        at, state = 0, self.state
        for i, w in enumerate(self.weights):
            self.weights[i] = state["parameters"][at : at + w.size].reshape(w.shape)
            at += w.size
        first = int(state["position in the data"][0]) + each * comm.rank
        rows = np.arange(first, first + each) % len(IMAGES)
        loss, flat = gradients(self.weights, IMAGES[rows], TARGETS[rows])
        state["gradients"] = comm.all_reduce(flat) / comm.size
        state["momentum"] = 0.9 * state["momentum"] + state["gradients"]
        state["parameters"] = state["parameters"] - 0.02 * state["momentum"]
        state["position in the data"] += each * comm.size
        return loss


# %%
def train(comm, path, saved, steps, every, dies_at=-1):
    """Train, resuming from `path`; rank 1 is killed before step `dies_at`."""
    run, times = Run(saved), []
    checkpoint = Checkpoint(path, comm, run=run)
    for step in range(checkpoint.resume(), steps):
        if step == dies_at and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        run.step(comm)
        if (step + 1) % every == 0:
            began = perf_counter()
            checkpoint.save(step + 1)
            times.append(perf_counter() - began)
    return run.state["parameters"], times


# %%
def killed_and_resumed(saved, steps=40, every=8, deaths=(13, 30)):
    """Return the parameters in the end of a run that is killed at each of `deaths`."""
    with tempfile.TemporaryDirectory() as folder:
        for dies_at in deaths:
            try:
                launch(train, 2, f"{folder}/run.npz", saved, steps, every, dies_at)
            except RankFailed as error:
                print(f"rank {error.rank} was killed before step {dies_at}")
        return launch(train, 2, f"{folder}/run.npz", saved, steps, every)[0][0]


# %%
with tempfile.TemporaryDirectory() as folder:
    whole, write_times = launch(train, 2, f"{folder}/run.npz", THINGS, 40, 8)[0]
for names in (saved, ["parameters"]):
    apart = np.linalg.norm(killed_and_resumed(names) - whole)
    print("saved", ", ".join(names), "- distance from the run without failures:", apart)

# %% [markdown]
# **Idea.** How often? Each write costs $w$ seconds. Each failure costs the work since the last one, half an interval $t$ on average. With failures every $m$ seconds on average the loss a second is $w/t + t/2m$, least at **Young's interval** $t = \sqrt{2wm}$.
#
# To see more than the average, draw the times between failures. After each failure the run restarts, and then works and writes in turns until the next one. What lasts of that is whole intervals that were written.
#
# **Predict.** A write takes 2 minutes and the run fails every 4 hours. What is Young's interval, in minutes?

# %%
### BEGIN STARTER
# predicted_minutes = ...
### END STARTER
### BEGIN SOLUTION
predicted_minutes = np.sqrt(2 * 2 * 240)
### END SOLUTION


# %% question="young_interval" points="2" hint1="Set the derivative of w/t + t/2m to zero."
def young_interval(write_s, mtbf_s):
    """Return the seconds of work between two checkpoints that lose least."""
    ### BEGIN SOLUTION
    return (2 * write_s * mtbf_s) ** 0.5
    ### END SOLUTION


# %% question="goodput" points="6" hint1="Of one gap: take the restart off. How many times do interval + write fit into what is left?" hint2="np.floor, and no gap counts below zero." hint3="Lasting work is interval times that number. Add up over all gaps, and divide by the time of all gaps."
def goodput(gaps, interval_s, write_s, restart_s):
    """Return the share of its time for which a run does work that lasts.

    Args:
        gaps: seconds from each failure to the next, an array or a list, which stays as it is; each
            begins with a restart.
    """
    ### BEGIN SOLUTION
    left = np.maximum(0, np.asarray(gaps) - restart_s)
    intervals = np.floor(left / (interval_s + write_s))
    return float(interval_s * intervals.sum() / np.sum(gaps))
    ### END SOLUTION


# %% tags="check"
q.check("young_interval")
q.check("goodput")

# %%
WRITE, RESTART, MTBF = 120.0, 600.0, 4 * 3600.0
compare("Young's interval, min", predicted_minutes, computed=young_interval(WRITE, MTBF) / 60)
gaps = np.random.default_rng(0).exponential(MTBF, 20_000)
minutes = np.geomspace(3, 400, 40)
kept = [goodput(gaps, 60 * t, WRITE, RESTART) for t in minutes]
run = simulate.checkpointing(MTBF, WRITE, RESTART)
fig, ax = plt.subplots()
ax.plot(minutes, kept, label="failures drawn")
ax.plot(minutes, [run.expected_goodput(60 * t) for t in minutes], "--", label="closed form")
ax.axvline(run.interval_s / 60, color="0.5", label="Young")
ax.set(xscale="log", xlabel="minutes between checkpoints", ylabel="goodput", ylim=(0, 1))
ax.set_title("A failure every 4 hours, 2 minutes a write, 10 a restart")
ax.legend()
plt.show()
print(f"at Young's interval {run.goodput:.1%}, at Daly's {run.simulated_goodput(run.daly_s):.1%}")

# %% [markdown]
# **And backup workers?** What helps against slow workers (lab 12) helps against dead ones too: with $b$ of $n + b$ workers to spare a step never waits for the $b$ slowest, dead ones among them. It costs $b/(n+b)$ of the machines all the time; checkpoints cost the distance from the curve above to 1.

# %%
for backups in (0, 2, 4):
    step_s = simulate.backup_workers(50, backups, "osdi16")
    print(
        f"{backups} backups: {step_s:.2f} s a step, {backups / (50 + backups):.0%} of the machines"
    )
print(
    f"the quickest write here: {min(write_times) * 1e3:.1f} ms, {4 * whole.size / 1e3:.0f} kB of parameters"
)

# %% [markdown]
# **Reflect.** The run with parameters alone ended somewhere else, and no error said so. How would you notice in a run of a month?
#
# *The real system.* Meta's Llama 3 was interrupted 419 times in 54 days on 16,384 GPUs, a failure every three hours, and still kept more than 90 % of its time. Checkpoints are written by all ranks at once, each its part, while training goes on from a copy.

# %% [markdown] question="days_of_gpt3" points="6" manual="true" rubric1="2: Sees what the 147 days rest on (BERT-Large's time scaled by the number of parameters, BERT-Large's data, one K80's speed and no limit of memory) and that GPT-3 saw far more data" rubric2="2: Says why more devices do not divide them (memory, bubble, communication, batch) with numbers of this notebook" rubric3="1: What must be saved and what not, with the reason" rubric4="1: An interval for a run of its own assumptions, and what failure rate they come from"
# ## Discuss
#
# BERT-Large took 399 minutes on one K80, 61 on eight. GPT-3 has some 530 times as many parameters, so by the same measure it would take 147 days on one K80. A colleague concludes: "on 1,024 K80s, an afternoon." What does the figure of 147 days say, and what not? With your functions: what keeps 1,024 devices from an afternoon? What would you save, how often? Half a page.
#
# ### BEGIN SOLUTION
# The 147 days scale a time by parameters alone: for BERT-Large's data and batch, at a K80's speed, and as if GPT-3 fitted into one K80. Its states take 2.8 TB, so that 12 GB are too few by more than two hundred times: on one device the figure describes no run at all. And GPT-3 was trained on 300 billion tokens, which makes 6 x 175e9 x 300e9 flops: at a Tflop/s a K80 that is some ten thousand years of one of them, ten of a thousand.
#
# Eight K80s kept 82 %. With more, the batch is cut into ever fewer samples a device while each still sends all its gradients, so that communication takes over; a pipeline instead idles, in section 5 for a fifth of the step on 3,072 GPUs. A larger batch would help both and does not train better for ever.
#
# I would save parameters, the optimizer's state and the position in the data (and random states), for these are read before they are written; not gradients or activations, which every step makes again. With a failure of a machine every five years, 1,024 machines fail every 43 hours; with two minutes a write Young says every 100 minutes.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (models that do not fit a device; model parallelism is hard to use and slow across nodes)" rubric3="1: Methods and contributions (ZeRO's partitioning of states, few changes to the code, kernels and tooling)" rubric4="1: Evaluation and discussion (names a figure with its conditions)" rubric5="1: Trade-offs (communication against memory)" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Jeff Rasley et al., [*DeepSpeed: System Optimizations Enable Training Deep Learning Models with Over 100 Billion Parameters*](https://doi.org/10.1145/3394486.3406703), KDD 2020. One page, in the form below.
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
# **Overview.** A library that lets PyTorch programs train models of more than 100 billion parameters with few changed lines. Its core is ZeRO, which cuts what data-parallel replicas keep redundantly. **Problem and challenges.** Replicas hold all states and run out of memory at a billion parameters or so; tensor parallelism needs rewritten models and loses efficiency once it leaves a node. **Methods and contributions.** Partitioned optimizer states, gradients and parameters; a configuration file instead of code; fused kernels, checkpointed activations that are partitioned too. **Evaluation and discussion.** Models of 100 billion parameters on 400 V100s at more than 30 % of the peak, up to ten times faster than the best before; convergence beyond what was trained is not shown. **Trade-offs.** Stage 3 sends half as many bytes again as an all-reduce; memory that is saved can go into larger batches. **Open questions.** When pipelines beat ZeRO; how it behaves on slow links; failures.
# ### END SOLUTION

# %%
q.status()
