# %% [markdown] builds="adaptive batches, a cache, a choice among models, an answer at the deadline, behind a real server" needs="03"
# # Lab 15: Serving predictions
#
# - **You build** the parts of a prediction server that decide: how large a batch may be, which answers are kept, which model is trusted, what is answered at the deadline.
# - **You need** NumPy, and a trained model: the network of lab 03, which is trained again here.
# - **It takes** about 90 minutes: introduction 2, sections 8, 11, 7, 9, 20, 10 and 13, discussion 10. The reading note, with its paper, is for another day.
#
# People who ask a trained model do not wait for a batch to fill, and do not notice the average: they notice the slowest of their hundred queries. You write what Clipper (Crankshaw et al. 2017) puts between people and model.
#
# Nearly everything here runs on a **virtual clock**: `minitorch.serve.simulate` has the queue and the rules of the real server, and a container that costs what you say. So a minute of traffic takes a second. At the end the real server runs.
#
# Write each prediction down before you measure.

# %% tags="setup"
import asyncio
import platform
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

import minitorch as mt
import minitorch.nn.functional as F
from autograder import compare, lab
from minitorch import serve
from minitorch.data import digits

# %% tags="setup"
q = lab("serving")
style = Path("../style.mplstyle")
plt.style.use([style] if style.exists() else [])
for name in ("numpy", "mlsys-labs"):
    print(name, version(name))
print("Python", platform.python_version(), "on", platform.machine())

# %% [markdown]
# Two things serve the whole lab. A container costs a fixed time for each batch and a time for each query in it, in milliseconds; `GOAL_MS` is the time in which a query should be answered.


# %%
FIXED_MS, PER_ITEM_MS, GOAL_MS = 1.0, 0.1, 20.0
container = (FIXED_MS, PER_ITEM_MS)


def poisson(rate, until_ms, seed=0):
    """Return random arrival times in ms: `rate` queries a ms, independent of each other."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.uniform(0, until_ms, rng.poisson(rate * until_ms)))


# %% [markdown]
# ## 1. What does a batch cost?
#
# Here is the network of lab 03, trained as there. It answers one picture at a time.


# %%
def network():
    nn = mt.nn
    first = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
    second = [nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*first, *second, nn.Linear(256, 10))


def trained(epochs=4):
    mt.manual_seed(0)
    net, (images, labels) = network(), digits().tensors
    adam = mt.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(epochs):
        for start in range(0, len(labels), 64):
            adam.zero_grad()
            F.cross_entropy(net(images[start : start + 64]), labels[start : start + 64]).backward()
            adam.step()
    return net


# %%
def answers(net, batch):
    """Return the digit in each picture of a batch, an array (N, 1, 8, 8)."""
    with mt.no_grad():
        return net(mt.tensor(batch)).numpy().argmax(axis=1)


net = trained()
test_images, test_labels = (part.numpy() for part in digits(train=False).tensors)
print(f"right: {np.mean(answers(net, test_images) == test_labels):.1%}")
began = perf_counter()
for picture in test_images[:100]:
    answers(net, picture[None])
print(f"one by one: {100 / (perf_counter() - began):,.0f} pictures a second")

# %% [markdown]
# Most of that time is spent on starting a call, not on the picture.
#
# **Idea.** A batch of $n$ takes about $f + p\,n$: something **fixed**, and something **per item**. So $n$ queries a batch are served at the rate $n / (f + p\,n)$, which grows with $n$ towards $1/p$. But the first of the batch waits for the last. If a batch may take at most the goal $g$, then
#
# $$n_\text{max} = \left\lfloor \frac{g - f}{p} \right\rfloor .$$
#
# *(Crankshaw et al. 2017, section 4.3 and figure 3.)*
#
# **Predict.** For `container`, with $f = 1$ ms and $p = 0.1$ ms: the largest batch within 20 ms, and how many times as many queries a second it serves as batches of one.

# %%
### BEGIN STARTER
# predicted_largest = ...
# predicted_gain = ...
### END STARTER
### BEGIN SOLUTION
predicted_largest = 190
predicted_gain = (190 / 20) / (1 / 1.1)
### END SOLUTION


# %% question="largest_batch" points="4" hint1="np.polyfit(sizes, times_ms, 1) gives the line through the points: slope first, then the value at 0." hint2="Solve fixed + per_item * n <= goal_ms for n. Which way is it rounded?" hint3="A single query has to be served, however slow: never less than 1."
def largest_batch(sizes, times_ms, goal_ms):
    """Return the largest batch, an int, that the line through the measurements puts within the goal.

    The line is fixed + per_item * size by least squares; per_item is positive. At least 1.
    """
    ### BEGIN SOLUTION
    per_item_ms, fixed_ms = np.polyfit(sizes, times_ms, 1)
    return max(1, int(np.floor((goal_ms - fixed_ms) / per_item_ms)))
    ### END SOLUTION


# %%
sizes = np.array([1, 4, 16, 64])
# times of `container` with a little noise
print(largest_batch(sizes, FIXED_MS + PER_ITEM_MS * sizes + [0.1, -0.1, -0.1, 0.1], GOAL_MS))

# %% tags="check"
q.check("largest_batch")


# %% [markdown]
# **Measure** the network, and say what it can do.


# %%
def profile(sizes, repeats=7):
    """Return the least ms of a batch of each size, all taking turns: what nothing has disturbed."""
    times = [[] for _ in sizes]
    for _ in range(repeats):
        for size, kept in zip(sizes, times):
            began = perf_counter()
            answers(net, test_images[:size])
            kept.append((perf_counter() - began) * 1e3)
    return np.min(times, axis=1)


sizes = np.array([1, 2, 4, 8, 16, 32, 64, 128])
times_ms = profile(sizes)
per_item_ms, fixed_ms = np.polyfit(sizes, times_ms, 1)
print(f"the network: {fixed_ms:.2f} ms a batch and {per_item_ms:.3f} ms a picture")
print("largest batch within 20 ms:", largest_batch(sizes, times_ms, GOAL_MS))

# %%
largest = round((GOAL_MS - FIXED_MS) / PER_ITEM_MS)  # of `container`
full, single = FIXED_MS + PER_ITEM_MS * largest, FIXED_MS + PER_ITEM_MS
compare("container: largest batch", predicted_largest, computed=largest)
compare("gain of the largest batch", predicted_gain, computed=(largest / full) / (1 / single))
fig, ax = plt.subplots()
ax.loglog(sizes, times_ms, "o", ls="", label="measured")
ax.loglog(sizes, fixed_ms + per_item_ms * sizes, ":", label="the line")
ax.axhline(GOAL_MS, color="C3", lw=1, label="goal")
ax.set(xlabel="pictures a batch", ylabel="ms", title="What a batch of the network takes")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Where do the points leave the line, at small sizes or at large ones, and what in a processor could make them? At $n_\text{max}$ the rate is within a few per cent of $1/p$: who would gain from a goal twice as long?
#
# *The real system.* In Clipper's measurements a linear SVM served about 30,000 queries a second within 20 ms, and a kernel SVM about 200: the best batch of one is wrong for the other. So Clipper finds batch sizes by itself.

# %% [markdown]
# ## 2. Find the size while serving
#
# The profile was taken on a quiet machine. Tomorrow another program needs half of the memory's bandwidth, and the batch that you configured takes 30 ms:

# %%
for slowdown in (1.0, 1.5):
    took_ms = slowdown * (FIXED_MS + PER_ITEM_MS * largest)
    print(f"{largest} queries, {slowdown} times as slow: {took_ms:.1f} ms, goal {GOAL_MS:.0f} ms")

# %% [markdown]
# **Idea.** Do not configure it: **AIMD**, additive increase, multiplicative decrease, as TCP finds its share of a wire. After each batch: if it met the goal *and was full*, allow one more; if it missed the goal, allow a tenth less. A batch that was not full says nothing about larger ones.
#
# The decrease is gentle (TCP halves) because the best size hardly moves.
# *(Chiu & Jain 1989; Crankshaw et al. 2017, section 4.3.1.)*
#
# **Predict.** The limit climbs one by one to the first batch that misses the goal, and falls to 0.9 of that. How many batches lie between two misses, counting one of the two?

# %%
### BEGIN STARTER
# predicted_period = ...
### END STARTER
### BEGIN SOLUTION
predicted_period = 191 - int(0.9 * 191) + 1
### END SOLUTION


# %% question="AIMD" points="6" hint1="Keep the limit as a float: 0.9 of 3 and then one more is not 3. `limit` gives its whole part." hint2="Two cases in observe: took_ms > goal_ms, and otherwise a batch that was full, size >= limit. Everything else changes nothing." hint3="After a miss the limit is 0.9 of what it was, and never below 1."
class AIMD:
    """Says how large the next batch may be; made with the goal in ms. Starts at 1.

    It keeps fractions: 15 becomes 13.5, then 12.15, and one more makes 13.15. It never keeps
    less than 1.
    """

    def __init__(self, goal_ms):
        ### BEGIN SOLUTION
        self.goal_ms = goal_ms
        self.exact = 1.0
        ### END SOLUTION

    @property
    def limit(self):
        """The most queries that the next batch may have: an int, what is kept rounded down."""
        ### BEGIN SOLUTION
        return int(self.exact)
        ### END SOLUTION

    def observe(self, size, took_ms):
        """Learn that a batch of `size` took `took_ms`; exactly the goal is still met."""
        ### BEGIN SOLUTION
        if took_ms > self.goal_ms:
            self.exact = max(1.0, 0.9 * self.exact)
        elif size >= self.limit:
            self.exact += 1.0
        ### END SOLUTION


# %%
controller = AIMD(GOAL_MS)
for size, took_ms in ((1, 1.0), (2, 2.0), (1, 1.0), (3, 25.0)):
    controller.observe(size, took_ms)
    print(f"a batch of {size} took {took_ms} ms: the next may have {controller.limit}")

# %% tags="check"
q.check("AIMD")

# %% [markdown]
# **Simulate.** 11 queries a ms, more than the container can do. `simulate` takes any controller.

# %%
flood = poisson(11, 3500)
runs = serve.simulate([container], flood, AIMD, GOAL_MS).batches
missed = np.flatnonzero(np.array(runs) > largest)
compare("largest batch", largest + 1, simulated=max(runs))
compare("batches between two misses", predicted_period, simulated=int(np.diff(missed)[0]))

# %%
fig, ax = plt.subplots()
ax.plot(runs, label="yours")
ax.plot(
    serve.simulate([container], flood, "quantile", GOAL_MS).batches, label="quantile regression"
)
ax.axhline(largest, color="C4", lw=1, label="the largest within the goal")
ax.set(xlabel="batch", ylabel="queries in it", title="Finding the batch size while serving")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Which share of the batches misses the goal in the long run, and by how much? The other curve fits a line to the slowest one per cent of the batches and never misses: what does it do on the day when a container becomes faster?
#
# *The real system.* Clipper has both, found them equally good, and made AIMD the default, since it is the simpler one. A query waits in the queue too: our server leaves half of the goal to that.

# %% [markdown]
# ## 3. Waiting on purpose
#
# When few queries come, batches are small. Should the container wait for more?
#
# **Idea.** First see what happens by itself. Let $\lambda$ queries come each ms. While a batch of $n$ is computed, $\lambda (f + p\,n)$ more arrive, and they are the next batch. In the steady state both are equal:
#
# $$n = \lambda (f + p\,n) \quad\Rightarrow\quad n = \frac{\lambda f}{1 - \lambda p},$$
#
# and at least 1. If $\lambda p \ge 1$ no batch is large enough. **Delayed batching** holds a batch that is not full back for a while, in the hope of a larger $n$.
# *(Crankshaw et al. 2017, section 4.3.2.)*
#
# **Predict.** 5 queries a ms come to `container`. How large are its batches, without any delay?

# %%
### BEGIN STARTER
# predicted_steady = ...
### END STARTER
### BEGIN SOLUTION
predicted_steady = 10.0
### END SOLUTION


# %% question="steady_batch" points="3" hint1="Solve the equation for n by hand first. What becomes of the denominator when queries come faster than 1/p?" hint2="Three cases: the formula; at least 1.0; and where rate * per_item_ms is 1 or more, float('inf')."
def steady_batch(rate, fixed_ms, per_item_ms):
    """Return the size of batches in the steady state, a float, for `rate` queries a ms.

    At least 1; infinity where no batch is large enough.
    """
    ### BEGIN SOLUTION
    if rate * per_item_ms >= 1:
        return float("inf")
    return max(1.0, rate * fixed_ms / (1 - rate * per_item_ms))
    ### END SOLUTION


# %%
print([round(steady_batch(rate, FIXED_MS, PER_ITEM_MS), 2) for rate in (0.1, 1, 5, 9, 11)])

# %% tags="check"
q.check("steady_batch")

# %% [markdown]
# **Measure**, then sweep the delay for two containers: one with a large fixed cost, one with hardly any.

# %%
steady = serve.simulate([container], np.arange(0, 2000, 0.2), AIMD, GOAL_MS).batches[20:-1]
compare("queries a batch at 5 a ms", predicted_steady, simulated=float(np.mean(steady)))
delays = [0, 0.5, 1, 2, 4, 8]
kinds = {"fixed 5 ms, 0.02 ms a query": (5.0, 0.02), "fixed 0.02 ms, 0.2 ms a query": (0.02, 0.2)}
arrivals = poisson(2, 1500)
swept = {
    name: [serve.simulate([cost], arrivals, AIMD, GOAL_MS, delay_ms=d) for d in delays]
    for name, cost in kinds.items()
}

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for mark, (name, found) in zip("os", swept.items()):
    axes[0].plot(delays, [np.mean(run.batches) for run in found], f"{mark}-", label=name)
    axes[1].plot(delays, [np.median(run.latency_ms) for run in found], f"{mark}-", label=name)
    busy = [sum(run.ended_ms - run.began_ms for run in each.runs) for each in found]
    print(f"{name}: busy for {busy[0]:,.0f} ms without delay, {busy[-1]:,.0f} ms with 8 ms")
axes[0].set(xlabel="delay, ms", ylabel="queries a batch")
axes[1].set(xlabel="delay, ms", ylabel="median latency, ms")
axes[0].legend(fontsize="small")
fig.suptitle("Two queries a ms, held back")
plt.show()

# %% [markdown]
# **Reflect.** For which of the two does the delay save anything, and what: latency, or time of the container? Who gains that time, and who waits for it?
#
# *The real system.* In Clipper 2 ms of delay brought 3.3 times the throughput for one container, and nothing for another. BentoML, Triton and Ray Serve have the same setting; its right value is 0 more often than their examples suggest.

# %% [markdown]
# ## 4. A load test that misleads
#
# A server answers each query in 1 ms. Once in ten seconds it collects garbage for half a second. A colleague has tested it: a client asks, waits for the answer, asks again. Of 9,501 queries all but one took 1 ms. The 99th percentile is 1 ms!

# %%
service_ms = np.ones(9501)
service_ms[4000] = 500.0
print(f"closed loop: p99 {np.quantile(service_ms, 0.99):.1f} ms, largest {service_ms.max():.0f} ms")

# %% [markdown]
# **Idea.** The client of a **closed loop** waits with the server: in the half second it sent nothing. Real callers do not know of each other and keep coming, an **open loop**. Each query is served when it has come *and* the one before is done:
#
# $$\text{end}_i = \max(\text{arrival}_i,\ \text{end}_{i-1}) + \text{service}_i, \qquad \text{latency}_i = \text{end}_i - \text{arrival}_i .$$
#
# *(Lindley 1952; Schroeder, Wierman & Harchol-Balter 2006. Gil Tene calls the mistake coordinated omission.)*
#
# **Predict.** Queries come every 2 ms to the same server. After the pause of 500 ms, how many queries have a latency above 100 ms? (A query that comes $t$ ms after the pause began waits for the rest of the pause, and for the queries that came before it. That queue shrinks by half a query each ms.)

# %%
### BEGIN STARTER
# predicted_slow = ...
### END STARTER
### BEGIN SOLUTION
predicted_slow = 400
### END SOLUTION


# %% question="open_loop" points="4" hint1="Go through the queries in order, and remember when the one before was done." hint2="A query that finds the server idle begins when it arrives; otherwise when the one before ends. That is the max." hint3="Latency counts from the arrival, not from the moment when service began."
def open_loop(arrivals_ms, service_ms):
    """Return the latency of each query, an array, at a server that takes one after the other.

    Args:
        arrivals_ms: when each query is due, in order; an array or a list.
        service_ms: how long each takes once it is begun. Both stay as they are.
    """
    ### BEGIN SOLUTION
    end, latency = 0.0, []
    for arrival, service in zip(arrivals_ms, service_ms):
        end = max(arrival, end) + service
        latency.append(end - arrival)
    return np.array(latency)
    ### END SOLUTION


# %%
print(open_loop([0, 1, 2, 10], [3, 1, 1, 1]))

# %% tags="check"
q.check("open_loop")

# %% [markdown]
# **Measure.**

# %%
latency = np.array(open_loop(2.0 * np.arange(len(service_ms)), service_ms))
compare("queries slower than 100 ms", predicted_slow, computed=int(np.sum(latency > 100)))
print(f"open loop: p99 {np.quantile(latency, 0.99):.0f} ms; closed: 1 ms")
fig, ax = plt.subplots()
for found, name in ((service_ms, "closed loop"), (latency, "open loop")):
    ax.semilogy(np.linspace(90, 100, 500), np.quantile(found, np.linspace(0.9, 1, 500)), label=name)
ax.set(xlabel="percentile", ylabel="latency, ms", title="The same server, asked in two ways")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** The server was busy for half of the time only. Let the queries come every 1.05 ms: what happens to your count, and why by so much? Of ten web pages with fifty predictions each, how many meet a query of the slowest one per cent?
#
# *The real system.* `serve.load` draws all times beforehand, as wrk2 does, and counts latency from when a query was *due*, so that a client which is itself late says so.

# %% [markdown]
# ## 5. Do not compute it twice
#
# The same picture is asked for again and again; not all pictures, a few of them. In many services popularity follows **Zipf's law**: the $k$-th most popular thing is asked for $1/k$ times as often as the first.

# %%
rng = np.random.default_rng(0)
chances = 1 / np.arange(1, 5001)
stream = rng.choice(5000, size=20_000, p=chances / chances.sum()).tolist()
print("the ten most popular of 5,000 get", f"{np.mean(np.array(stream) < 10):.0%} of the queries")

# %% [markdown]
# **Idea.** Keep answers, as many as there is room for. To give a new one room, throw out the one that was not used for longest (LRU). But LRU moves an entry at each hit. **CLOCK** comes near it without moving: entries stand in a circle, a hit sets the entry's **used bit**. When room is needed, a pointer goes round: it clears each bit that is set, and the first entry without a bit is removed.
# *(Corbató 1968; Crankshaw et al. 2017, section 4.2.)*
#
# **Predict.** Room for 500 of 5,000: a tenth. Which share of the queries is answered from the cache? (The 500 most popular have the share $H_{500}/H_{5000}$, with $H_n \approx \ln n + 0.58$.)

# %%
### BEGIN STARTER
# predicted_hits = ...
### END STARTER
### BEGIN SOLUTION
predicted_hits = 0.68
### END SOLUTION


# %% question="Clock" points="6" hint1="Three lists of the length of the room: keys, values, used bits; and a dict from key to place. The hand is a place." hint2="put: where there is room, append with the bit clear. Else turn the hand: while the bit under it is set, clear it and go one on. Then replace what lies there." hint3="After replacing, the hand goes one on, so that the new entry is looked at last. get returns None for what is not there, and sets the bit of what is."
class Clock:
    """A cache of at most `room` values, which evicts by CLOCK."""

    def __init__(self, room):
        self.room, self.hand = room, 0
        self.keys, self.values, self.used = [], [], []
        self.place = {}  # key -> its index in the lists

    def get(self, key):
        """Return the value of a key, or None; note that it was used."""
        ### BEGIN SOLUTION
        at = self.place.get(key)
        if at is None:
            return None
        self.used[at] = True
        return self.values[at]
        ### END SOLUTION

    def put(self, key, value):
        """Keep the value of a key that is not there; its used bit is clear."""
        ### BEGIN SOLUTION
        if len(self.keys) < self.room:
            self.place[key] = len(self.keys)
            self.keys.append(key)
            self.values.append(value)
            self.used.append(False)
            return
        while self.used[self.hand]:
            self.used[self.hand] = False
            self.hand = (self.hand + 1) % self.room
        at = self.hand
        del self.place[self.keys[at]]
        self.place[key] = at
        self.keys[at], self.values[at], self.used[at] = key, value, False
        self.hand = (at + 1) % self.room
        ### END SOLUTION


# %%
small = Clock(3)
for key in "abc":
    small.put(key, key.upper())
print(small.get("a"), small.get("x"))
small.put("d", "D")
print({key: small.get(key) for key in "abcd"})

# %% tags="check"
q.check("Clock")


# %% [markdown]
# **Measure.**


# %%
def share_of_hits(cache, stream):
    hits = 0
    for key in stream:
        if cache.get(key) is None:
            cache.put(key, key + 1)
        else:
            hits += 1
    return hits / len(stream)


compare("share answered from the cache", predicted_hits, share_of_hits(Clock(500), stream))
rooms = [10, 30, 100, 300, 1000, 3000]
found = [share_of_hits(Clock(room), stream) for room in rooms]
harmonic = np.cumsum(chances)

# %%
fig, ax = plt.subplots()
ax.semilogx(rooms, found, "o", ls="", label="yours")
ax.semilogx(
    rooms, harmonic[np.array(rooms) - 1] / harmonic[-1], ":", label="the most popular, known"
)
ax.set(xlabel="answers kept, of 5,000", ylabel="share of hits", title="A cache under a Zipf load")
ax.legend()
plt.show()

# %% [markdown]
# **Reflect.** Your points lie below the dotted line. Which entries are in the cache that should not be, and how did they get in? A camera sends 30 pictures a second, each a little different: what is its share of hits, and what would you take as the key?
#
# *The real system.* Clipper's cache also holds *promises*: a query that is being computed is there already, and equal ones wait for it. And it is what joins feedback to the prediction it is about, minutes later.

# %% [markdown]
# ## 6. Which model is right today?
#
# Two teams have trained models. Team B's is better: wrong in 20 % of the cases, team A's in 40 %. It is deployed, and nobody looks at it again. At noon its input pipeline breaks, for six hours.


# %%
def error_rates(step):
    """Return how often models A and B are wrong; B breaks in the second quarter."""
    return np.array([0.4, 0.9 if 1000 <= step < 2000 else 0.2])


always_b = np.mean([error_rates(step)[1] for step in range(4000)])
best = np.mean([error_rates(step).min() for step in range(4000)])
print(f"always B: {always_b:.3f} wrong; the better one at each moment: {best:.3f}")

# %% [markdown]
# **Idea.** **Exp3** asks one model at a time, drawn by weight, and hears afterwards whether it was wrong. Let $w$ be the weights, summing to 1, over $K$ models:
#
# $$p_i = (1 - \gamma)\, w_i + \gamma / K, \qquad w_\text{asked} \leftarrow w_\text{asked} \cdot e^{-\eta\, \ell / p_\text{asked}}, \quad \text{then } w \leftarrow w / \textstyle\sum w .$$
#
# The loss $\ell$ is divided by the chance that the model had: a model that is rarely asked pays more for each loss, so that on average each pays what it would have lost. With the share $\gamma$ any model is asked, to explore; and no weight may fall below a floor, or a model that recovers would need hours to come back.
# *(Auer, Cesa-Bianchi, Freund & Schapire 2002; Crankshaw et al. 2017, section 5.1.)*
#
# **Predict.** Weights 0.5 and 0.5, $\gamma = 0$, $\eta = 0.1$; B is asked and wrong, $\ell = 1$. What is B's weight afterwards?

# %%
### BEGIN STARTER
# predicted_weight = ...
### END STARTER
### BEGIN SOLUTION
predicted_weight = 0.5 * np.exp(-0.2) / (0.5 + 0.5 * np.exp(-0.2))
### END SOLUTION


# %% question="Exp3" defines="chances_of learn" points="6" hint1="chances_of is the first formula, for all models at once; K is len(weights)." hint2="learn: work on a copy. Divide the loss by the chance that the asked model had *before* the update." hint3="Then, in this order: divide by the sum, np.maximum with the floor, divide by the sum again."
def chances_of(weights, gamma):
    """Return the probability with which each model is asked, an array like `weights`."""
    ### BEGIN SOLUTION
    return (1 - gamma) * weights + gamma / len(weights)
    ### END SOLUTION


def learn(weights, asked, loss, eta, gamma, floor=0.01):
    """Return the weights after model number `asked` had this loss: summing to 1.

    The sum is brought to 1, weights below `floor` are raised to it, and the sum to 1 again.
    """
    ### BEGIN SOLUTION
    new = weights.copy()
    new[asked] *= np.exp(-eta * loss / chances_of(weights, gamma)[asked])
    new = np.maximum(new / new.sum(), floor)
    return new / new.sum()
    ### END SOLUTION


# %%
half = np.array([0.5, 0.5])
print(chances_of(np.array([0.9, 0.1]), 0.2), learn(half, 1, 1.0, 0.1, 0.0))

# %% tags="check"
q.check("Exp3")


# %% [markdown]
# **Measure** the prediction, then 4,000 queries.


# %%
def day(eta, gamma, seed=0):
    """Return the losses, and B's weight after each query."""
    rng, weights, losses, path = np.random.default_rng(seed), np.array([0.5, 0.5]), [], []
    for step in range(4000):
        wrong = rng.random(2) < error_rates(step)
        asked = int(rng.random() < chances_of(weights, gamma)[1])
        weights = learn(weights, asked, float(wrong[asked]), eta, gamma)
        losses.append(wrong[asked])
        path.append(weights[1])
    return np.array(losses), np.array(path)


# %%
compare("B's weight", predicted_weight, computed=learn(half, 1, 1.0, 0.1, 0.0)[1])
fig, ax = plt.subplots()
for eta in (0.01, 0.05, 0.5):
    losses, path = day(eta, 0.05)
    print(f"eta {eta}: {losses.mean():.3f} wrong")
    ax.plot(path, label=f"eta {eta}", zorder=3 - 2 * eta, linewidth=2 - 3 * eta)
ax.axvspan(1000, 2000, color="C4", alpha=0.15, label="B is broken")
ax.set(xlabel="query", ylabel="weight of B", title="Exp3 through a failure")
ax.legend(fontsize="small")
plt.show()

# %% [markdown]
# **Reflect.** Which $\eta$ is best depends on something that you do not know beforehand: what? Exp3 never hears what the other model would have said. What would it cost to ask both, and what would be gained?
#
# *The real system.* Clipper's other policy, Exp4, asks all models and lets them vote by weight. Our server has both (`policy="exp3"`, `"exp4"`), with weights for each *context*: what is best for one user need not be for another.

# %% [markdown]
# ## 7. At the deadline
#
# Five models vote on each picture. A vote of five is better than one model, and slower: it waits for the slowest.

# %%
rng = np.random.default_rng(0)
arrive_ms = rng.lognormal(np.log(6), 0.8, size=(10_000, 5))  # when each model's answer comes
print(f"one model late: {np.mean(arrive_ms > GOAL_MS):.1%} of the queries")

# %% [markdown]
# **Idea.** Do not wait. At the deadline, combine the answers that **have arrived**, and say how sure this is: **confidence** is the share of the models *asked* that agree with what is answered. With no answer at all, a **default**, with confidence 0. The caller may treat an unsure answer as none.
# *(Crankshaw et al. 2017, section 5.2.2.)*
#
# **Predict.** A model is late with the chance that was printed, 6.6 %, independently of the others. How many of 10,000 queries would be late if all five were waited for? And how many have no answer at all at the deadline?

# %%
### BEGIN STARTER
# predicted_waiting = ...
# predicted_nothing = ...
### END STARTER
### BEGIN SOLUTION
predicted_waiting = 10_000 * (1 - (1 - 0.066) ** 5)
predicted_nothing = 0
### END SOLUTION


# %% question="at_deadline" points="5" hint1="First: which answers have arrived? A pair (answer, ms) counts if its ms is at most the deadline." hint2="Count how often each answer is there; of equally frequent ones the one that arrived first wins." hint3="Confidence is a share of all that were asked, also of those that are late: len(replies), not the number that arrived."
def at_deadline(replies, deadline_ms, default):
    """Return (answer, confidence) at the deadline: the answer that most models have given.

    A reply that comes exactly at the deadline counts. Of answers that equally many have given it
    is the one that arrived first.

    Args:
        replies: for each model asked (answer, ms): what it says, and when that arrives.
        default: the answer where nothing has arrived, with confidence 0.0.
    """
    ### BEGIN SOLUTION
    arrived = [answer for answer, ms in sorted(replies, key=lambda r: r[1]) if ms <= deadline_ms]
    if not arrived:
        return default, 0.0
    answer = max(arrived, key=arrived.count)
    return answer, arrived.count(answer) / len(replies)
    ### END SOLUTION


# %%
replies = [(3, 5.0), (8, 7.0), (3, 9.0), (8, 30.0), (8, 40.0)]
print([at_deadline(replies, ms, default=-1) for ms in (4, 6, 20, 50)])

# %% tags="check"
q.check("at_deadline")

# %% [markdown]
# **Measure** on virtual answers: each model is right in 80 % of the cases.

# %%
says = np.where(rng.random((10_000, 5)) < 0.8, 1, rng.integers(2, 10, (10_000, 5)))
found = [
    at_deadline(list(zip(*pair)), GOAL_MS, -1) for pair in zip(says.tolist(), arrive_ms.tolist())
]
compare(
    "late if all are waited for",
    predicted_waiting,
    simulated=float(np.sum(arrive_ms.max(1) > GOAL_MS)),
)
compare(
    "no answer at the deadline", predicted_nothing, simulated=sum(conf == 0 for _, conf in found)
)
right = np.array([answer == 1 for answer, _ in found])
confidence = np.array([conf for _, conf in found])
print(f"right: {right.mean():.1%}; one model alone 80 %")
for share in np.unique(confidence):
    chosen = confidence == share
    print(f"confidence {share:.1f}: {chosen.sum():5} queries, {right[chosen].mean():.1%} right")

# %% [markdown]
# Now all of it at once, for real: the network in a process of its own, behind a queue, under an open load. A query that has no answer by the deadline gets the default, -1.


# %%
def in_a_thread(coroutine):
    """Run a coroutine to its end, beside the notebook's own event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def real_load(batching, rate, seconds=1.0):
    """Return a load on the trained network, served with this batching."""
    async with serve.Server(slo_ms=50.0, batching=batching, cache_mib=0) as server:
        await server.deploy("cnn", lambda batch: answers(net, batch))
        await server.link("digits", ["cnn"], default=-1)
        return await serve.load(server, "digits", test_images, rate, seconds)


# %%
rate = 2.5 * 1000 / times_ms[0]  # two and a half times what batches of one could do
for name, batching in (("none", "none"), ("yours", AIMD)):
    found = in_a_thread(real_load(batching, rate))
    late = found.defaults / found.sent
    print(
        f"batching {name:5}: {found.sent} queries, {late:.0%} by default, p99 {found.p99_ms:.1f} ms"
    )

# %% [markdown]
# **One interface over frameworks.** To the server a model is a function from a batch to results, in a process of its own: whatever made it. Here are three frameworks side by side, with the vote of all.
#
# **Predict.** Two of the three are linear, one is your network of convolutions. Is the vote of three right more often than the best of them alone? Write down its share of right answers.

# %%
### BEGIN STARTER
# predicted_vote = ...
### END STARTER
### BEGIN SOLUTION
predicted_vote = 0.96
### END SOLUTION

# %%
images, labels = (part.numpy() for part in digits().tensors)
flat, test_flat = images.reshape(-1, 64), test_images.reshape(-1, 64)
regression = LogisticRegression(max_iter=300).fit(flat, labels)
torch.manual_seed(0)
linear = torch.nn.Linear(64, 10)
descent = torch.optim.Adam(linear.parameters(), lr=0.02)
for _ in range(150):
    descent.zero_grad()
    torch.nn.functional.cross_entropy(linear(torch.tensor(flat)), torch.tensor(labels)).backward()
    descent.step()


def by_torch(batch):
    with torch.no_grad():
        return linear(torch.tensor(batch)).argmax(dim=1).numpy()


MODELS = {"scikit-learn": regression.predict, "torch": by_torch}
MODELS["minitorch"] = lambda batch: answers(net, batch.reshape(-1, 1, 8, 8))


# %%
async def side_by_side(apps):
    """Return {app: the share of test pictures that it gets right}."""
    async with serve.Server(slo_ms=2000.0) as server:
        for name, model in MODELS.items():
            await server.deploy(name, model)
        for app, names in apps.items():
            await server.link(app, names, policy="ensemble", default=-1)
        found = {a: await asyncio.gather(*(server.predict(a, x) for x in test_flat)) for a in apps}
    return {a: np.mean([p.value for p in each] == test_labels) for a, each in found.items()}


apps = {name: [name] for name in MODELS} | {"the vote": list(MODELS)}
right = in_a_thread(side_by_side(apps))
print({name: f"{share:.1%}" for name, share in right.items()})
compare("share right by vote", predicted_vote, right["the vote"])

# %% [markdown]
# **Reflect.** The answers with confidence 0.2 are right far less often. What would you do with them in a shop, and what in a hospital? In the real run the default counts as an answer: why is the 99th percentile no measure of which of the two is better?
#
# *The real system.* Clipper found that an ensemble of more models is more accurate, and its tail longer; with the deadline the tail is cut, and the accuracy falls by less than it had risen.

# %% [markdown] question="what_batching_costs_whom" points="6" manual="true" rubric1="2: Throughput against latency: with batches the operator serves more on the same machine, each query waits for its batch, and at low load a single query gains nothing (numbers of sections 1 to 3)" rubric2="2: Whose latency: the tail under an open load, p99 without batching collapses beyond its rate while with it all pay some ms; the early ones in a batch wait for the late ones" rubric3="1: At overload somebody is told the default, and it matters who" rubric4="1: Takes a position on when not to batch, or how to divide the goal, with a measured number"
# ## Discuss
#
# What does batching cost, and whom? Think of the operator who pays for machines, of the caller at three in the morning, of the caller at the peak, of the one whose query is the last into a batch and the one whose is the first. When would you turn it off? Use numbers that you measured. Half a page.
#
# ### BEGIN SOLUTION
# The operator gains: with batches of 190 the container serves 9.5 queries a ms, with batches of one 0.9, on the same machine. At three in the morning nobody gains and nobody loses, since the steady batch is 1: the queue is empty, and a batch is what has come, not what is waited for. (With a delay the night caller pays it for nothing.)
#
# At the peak it is the other way round. Up to the rate that batches of one can serve, each caller is faster without batching; beyond it, the queue grows without end and every caller is late, whereas with batching all pay at most the goal. Within a batch, the first to come waits longest, and all wait for the per-item time of the others: the mean rises so that the tail stays.
#
# Beyond the rate of the largest batch somebody has to be told the default. Earliest deadline first and dropping the hopeless means that it is those who came at the worst moment; fairness among callers would need more. I would turn batching off where the fixed cost is small against the per-item cost (0.02 and 0.2 ms in section 3: hardly any gain), and where a deadline is so short that half of it is less than the fixed cost.
# ### END SOLUTION

# %% [markdown] question="reading_note" points="6" manual="true" rubric1="1: Overview" rubric2="1: Problem and challenges (many frameworks, latency and throughput, choice of models)" rubric3="1: Methods and contributions (two layers, containers, adaptive batching by AIMD, cache with promises, Exp3 and Exp4, straggler mitigation)" rubric4="1: Evaluation (a figure with its conditions, such as up to 26 times the throughput by batching within 20 ms, or the comparison with TensorFlow Serving)" rubric5="1: Trade-offs" rubric6="1: An open question that the paper does not answer"
# ## Reading note
#
# Daniel Crankshaw, Xin Wang, Giulio Zhou, Michael Franklin, Joseph Gonzalez and Ion Stoica, [*Clipper: A Low-Latency Online Prediction Serving System*](https://www.usenix.org/conference/nsdi17/technical-sessions/presentation/crankshaw), NSDI 2017. One page, in the form below.
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
# **Overview.** A layer between applications and models of any framework that answers queries within a latency goal. It treats models as black boxes in containers and improves latency, throughput and accuracy from outside. **Problem and challenges.** Frameworks are made for training; each has its own way of serving; queries need answers in tens of ms at high rates; which model is best is not known when it is deployed, and changes. **Methods and contributions.** A model abstraction layer (cache with promises, a queue for each container, batch sizes by AIMD or quantile regression, delayed batching) and a model selection layer (Exp3, Exp4, state for each context, combining what has arrived at the deadline, confidence). **Evaluation.** Adaptive batching serves up to 26 times the queries of no batching within 20 ms; linear SVM about 30,000 a second against 200 for a kernel SVM; throughput and latency comparable to TensorFlow Serving on three models, although the models are black boxes. Not measured: what the deadline costs in accuracy on real stragglers of many tenants. **Trade-offs.** Black boxes cannot be optimised inside; ensembles multiply the work; the cache assumes that models are functions. **Open questions.** How to divide one goal among the stages of a pipeline of models; batching for models whose cost depends on the input, such as language models; who is dropped first.
# ### END SOLUTION

# %%
q.status()
