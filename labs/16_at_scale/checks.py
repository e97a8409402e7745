"""Checks of lab 16. Timings are made up here: no check depends on how fast a machine is."""

import math
from dataclasses import replace

import numpy as np

from autograder.checks import RANK_SETTINGS, Feedback, check, to_number

WITHHELD = (
    *("ddp_lab.cost:FORMS", "ddp_lab.cost:all_reduce_time", "ddp_lab.cost:collective_time"),
    *("ddp_lab.simulate.collectives:collective", "ddp_lab.simulate.checkpointing:checkpointing"),
    *("ddp_lab.costs.fit:fit", "ddp_lab.costs.fit:_fit_linear"),
)
LAB = replace(RANK_SETTINGS, preload=("numpy", "ddp_lab"), withheld=WITHHELD)


def is_near(got, expected, rel=1e-6):
    """Return whether a number is another, but for rounding; NaN is near nothing."""
    return abs(to_number(got) - expected) <= rel * abs(expected) + 1e-15


def ask_pair(student, name, *arguments):
    """Return the two numbers that a function of the learner's gave."""
    got = student.call(name, *arguments)
    if not isinstance(got, list | tuple | np.ndarray) or len(got) != 2:
        raise Feedback(f"{name} should return two numbers: got {got!r}.")
    return float(got[0]), float(got[1])


# ---- 1. fit_line


def draw_line(rng):
    """Return a, b and the sizes of a link."""
    a, b = float(rng.uniform(1e-5, 1e-4)), float(rng.uniform(1e-10, 1e-9))
    return a, b, [1 << 10, 1 << 14, 1 << 17, 1 << 20]


def compare_line(got, a, b, called, hint):
    if not (is_near(got[0], a, 1e-4) and is_near(got[1], b, 1e-4)):
        raise Feedback(
            f"{called}: got a = {got[0]:.4g} and b = {got[1]:.4g}, expected {a:.4g} and {b:.4g}. "
            f"{hint}"
        )


@check("fit_line")
def times_on_a_line_give_that_line(student, rng):
    """times that lie on a line give its a and b"""
    a, b, sizes = draw_line(rng)
    times = {n: [a + b * n] * 3 for n in sizes}
    hint = "The rounds are all alike here; is it a, then b, in seconds and seconds a byte?"
    compare_line(ask_pair(student, "fit_line", times), a, b, "times of a + b * bytes", hint)


@check("fit_line", weight=2, requires="times_on_a_line_give_that_line")
def slow_rounds_change_nothing(student, rng):
    """rounds that were disturbed change nothing, wherever they stand in the list"""
    a, b, sizes = draw_line(rng)
    times = {}
    for n in sizes:
        rounds = (a + b * n) * rng.uniform(1.2, 20, size=7)
        rounds[rng.integers(7)] = a + b * n
        times[n] = rounds.tolist()
    hint = "Six of seven rounds were made longer. Which round of each size counts?"
    compare_line(ask_pair(student, "fit_line", times), a, b, "with disturbed rounds", hint)


@check("fit_line", weight=2, requires="times_on_a_line_give_that_line")
def errors_count_as_shares(student, rng):
    """an error of some per cent at the largest size does not spoil a"""
    a, b, sizes = draw_line(rng)
    off = float(rng.choice([0.94, 1.06]))
    times = {n: [(a + b * n) * (off if n == sizes[-1] else 1.0)] for n in sizes}
    got, _ = ask_pair(student, "fit_line", times)
    t = np.array([min(seconds) for seconds in times.values()])
    rows = np.stack([1 / t, np.array(sizes) / t], axis=1)
    lengths = np.linalg.norm(rows, axis=0)
    expected = np.linalg.lstsq(rows / lengths, np.ones(len(t)), rcond=None)[0][0] / lengths[0]
    if not is_near(got, expected, 1e-3):
        raise Feedback(
            f"the largest size was made {off - 1:+.0%} off: got a = {got:.4g}, expected {expected:.4g}."
            " Is an error divided by the time that it is an error of?"
        )


def run_fit_line(times):
    """Return the caller's times after a call."""
    fit_line(times)
    return [[n, list(seconds)] for n, seconds in times.items()]


@check("fit_line", requires="times_on_a_line_give_that_line")
def the_times_stay_as_they_are(student, rng):
    """the measured times are the same afterwards, in their order"""
    a, b, sizes = draw_line(rng)
    times = {n: [3 * (a + b * n), a + b * n, 2 * (a + b * n)] for n in sizes}
    after = student.probe(run_fit_line, times=times)
    if [n for n, _ in after] != sizes:
        raise Feedback("fit_line took sizes out of the dict that it was given. Whose is it?")
    if dict(after) != times:
        raise Feedback(
            "fit_line changed a list of seconds. Which step sorts, or takes out, in place?"
        )


@check("fit_line", hidden=True, requires="slow_rounds_change_nothing")
def two_sizes_and_arrays_will_do(student, rng):
    """two sizes suffice, and the rounds may be arrays"""
    a, b, _ = draw_line(rng)
    got = ask_pair(
        student, "fit_line", {8: np.array([a + 8 * b, 1.0]), 4096: np.array([2.0, a + 4096 * b])}
    )
    if not (is_near(got[0], a, 1e-3) and is_near(got[1], b, 1e-3)):
        raise Feedback("two sizes: wrong.", hint="Through two points goes exactly one line.")


# ---- 2. ring_seconds


@check("ring_seconds")
def latency_and_bytes_are_those_of_the_closed_form(student, rng):
    """2 (p - 1) messages of a p-th of the bytes, one after another"""
    for ranks in (2, 3, int(rng.integers(4, 2000))):
        n = float(rng.uniform(1e6, 1e9))
        alpha, beta = float(rng.uniform(1e-6, 1e-4)), float(rng.uniform(1e-10, 1e-9))
        expected = 2 * (ranks - 1) * (alpha + n / ranks * beta)
        got = to_number(student.call("ring_seconds", n, ranks, alpha, beta))
        if is_near(got, expected):
            continue
        hint = "How many messages does a rank send, one after another, and how large is each?"
        if is_near(got, expected / 2):
            hint = "That is the reduce-scatter. What has to follow?"
        elif is_near(got, 2 * (alpha + (ranks - 1) / ranks * n * beta)):
            hint = "Each message pays alpha. How many are there?"
        elif is_near(got, 2 * (ranks - 1) * (alpha + n * beta)):
            hint = "What travels in one message: all bytes, or a part?"
        raise Feedback(
            f"ring_seconds({n:.3g}, {ranks}, {alpha:.3g}, {beta:.3g}) gave {got:.4g}. {hint}"
        )


@check("ring_seconds", requires="latency_and_bytes_are_those_of_the_closed_form")
def one_rank_sends_nothing(student, rng):
    """one rank alone takes no time"""
    if to_number(student.call("ring_seconds", 1e6, 1, 1e-5, 1e-9)) != 0:
        raise Feedback("ring_seconds for one rank is not 0. To whom would it send?")


def time_two_levels(n, hosts, width, inside, between):
    """Return the seconds inside hosts and between them, by the closed form."""
    (a, b), (far_a, far_b) = inside, between
    near_s = 2 * (width - 1) * (a + n / width * b)
    return near_s, 2 * (hosts - 1) * (far_a + n / hosts * far_b)


def draw_links(rng):
    """Return (alpha, beta) inside a host and between hosts."""
    inside = float(rng.uniform(1e-6, 1e-5)), float(rng.uniform(1e-11, 1e-10))
    return inside, (float(rng.uniform(1e-4, 1e-3)), float(rng.uniform(1e-9, 1e-8)))


@check("two_level_seconds")
def one_rank_a_host_is_a_ring_of_hosts(student, rng):
    """with one rank a host it is a ring of hosts, over the link between them"""
    inside, between = draw_links(rng)
    for hosts in (2, 3, int(rng.integers(4, 40))):
        n = float(rng.integers(1, 90)) * 1e5
        got = to_number(student.call("two_level_seconds", n, hosts, 1, inside, between))
        _, expected = time_two_levels(n, hosts, 1, inside, between)
        if not is_near(got, expected):
            hint = "Over which link does a ring of hosts go, and how many are in it?"
            if is_near(got, time_two_levels(n, hosts, 1, inside, inside)[1]):
                hint = "Those are the constants of the links inside a host."
            raise Feedback(f"two_level_seconds on {hosts} hosts of 1 rank gave {got:.4g} s. {hint}")


@check("two_level_seconds", weight=2, requires="one_rank_a_host_is_a_ring_of_hosts")
def the_ranks_of_a_host_share_its_link(student, rng):
    """inside hosts a ring of their ranks; between them as many bytes as with one rank a host"""
    inside, between = draw_links(rng)
    for hosts, width in ((2, 2), (3, 8), (1, 4)):
        n = float(rng.integers(1, 90)) * 1e5
        got = to_number(student.call("two_level_seconds", n, hosts, width, inside, between))
        near_s, far_s = time_two_levels(n, hosts, width, inside, between)
        if is_near(got, near_s + far_s):
            continue
        hint = "Write the three steps down, and what each link carries in each."
        if is_near(got, far_s):
            hint = "That is between hosts. What do the ranks of a host do before and after?"
        elif is_near(got, near_s + time_two_levels(n / width, hosts, 1, inside, between)[1]):
            hint = "So long one rank's chunk takes alone. Who else sends over this link?"
        elif is_near(got, near_s / 2 + far_s):
            hint = "That is the reduce-scatter. And at the end?"
        raise Feedback(f"two_level_seconds on {hosts} hosts of {width} gave {got:.4g} s. {hint}")


# ---- 3. efficiency_bounds


@check("efficiency_bounds")
def without_overlap_the_times_add_up(student, rng):
    """the first bound has compute and communication one after the other"""
    compute, talk = (float(x) for x in rng.uniform(0.05, 1, size=2))
    worst, _ = ask_pair(student, "efficiency_bounds", compute, talk)
    if not is_near(worst, compute / (compute + talk)):
        raise Feedback(
            f"efficiency_bounds({compute:.3f}, {talk:.3f}): the first is {worst:.4f}. With nothing "
            "hidden, how long is the step, and which share of it is compute?"
        )


@check("efficiency_bounds", weight=2, requires="without_overlap_the_times_add_up")
def at_best_communication_begins_after_forward(student, rng):
    """at best communication runs from the end of forward, a third of compute, without a pause"""
    compute = float(rng.uniform(0.2, 1))
    for talk in compute * rng.uniform(0.75, 3, size=4):
        _, best = ask_pair(student, "efficiency_bounds", compute, float(talk))
        if is_near(best, compute / (compute / 3 + talk)):
            continue
        hint = "When does it begin, when does it end?"
        if is_near(best, compute / max(compute, talk)):
            hint = "Before the first gradient there is nothing to send: forward takes a third."
        elif is_near(best, compute / (2 * compute / 3 + talk)):
            hint = "Which of forward and backward is the longer one?"
        raise Feedback(
            f"efficiency_bounds({compute:.3f}, {talk:.3f}): the second is {best:.4f}. {hint}"
        )


@check("efficiency_bounds", weight=2, requires="at_best_communication_begins_after_forward")
def no_step_is_shorter_than_its_compute(student, rng):
    """communication that fits beside backward costs nothing at best"""
    compute = float(rng.uniform(0.2, 1))
    for talk in (0.0, compute * float(rng.uniform(0.05, 0.6))):
        _, best = ask_pair(student, "efficiency_bounds", compute, talk)
        if not is_near(best, 1.0):
            raise Feedback(
                f"efficiency_bounds({compute:.3f}, {talk:.3f}): the second is {best:.4f}. Backward "
                "takes two thirds of compute, longer than communication. What ends the step?"
            )


# ---- 4. memory


@check("transformer_params")
def layers_and_embedding_are_counted(student, rng):
    """twelve width squared a layer, and a row for each token of the vocabulary"""
    for _ in range(3):
        layers, width, words = (int(k) for k in rng.integers((2, 8, 100), (99, 9000, 60_000)))
        expected = 12 * layers * width**2 + words * width
        got = to_number(student.call("transformer_params", layers, width, words))
        if is_near(got, expected, 1e-12):
            continue
        hint = "Count one layer's matrices, then the embedding."
        if is_near(got, expected - words * width):
            hint = "Who turns a token into a vector?"
        elif is_near(got, expected - 8 * layers * width**2):
            hint = "That is attention. A layer has a net of two matrices, too."
        elif is_near(got, 12 * width**2 + words * width):
            hint = "How many layers are there?"
        raise Feedback(f"transformer_params({layers}, {width}, {words}) gave {got:.6g}. {hint}")


def count_zero_bytes(params, replicas, stage):
    """Return the bytes by the table of the paper."""
    unsplit = {0: 16, 1: 4, 2: 2, 3: 0}[stage]
    return params * (unsplit + (16 - unsplit) / replicas)


@check("zero_bytes")
def at_stage_0_everything_is_whole(student, rng):
    """at stage 0 a parameter takes 16 bytes however many replicas there are"""
    params, replicas = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 999))
    got = to_number(student.call("zero_bytes", params, replicas, 0))
    if not is_near(got, 16 * params):
        raise Feedback(
            f"zero_bytes({params}, {replicas}, 0) gave {got:.6g}: {got / params:.4g} bytes a "
            "parameter. What do 2, 2 and 12 make?"
        )


@check("zero_bytes", weight=3, requires="at_stage_0_everything_is_whole")
def each_stage_cuts_one_part_more(student, rng):
    """stage 1 cuts the optimizer, 2 the gradients too, 3 the parameters too"""
    for stage in (1, 2, 3):
        params, replicas = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 999))
        expected, got = (
            count_zero_bytes(params, replicas, stage),
            to_number(student.call("zero_bytes", params, replicas, stage)),
        )
        if abs(got - expected) <= 3:  # a byte has no parts: each of the three may be rounded
            continue
        hint = "Which parts does this stage divide by the number of replicas?"
        if stage < 3 and is_near(got, count_zero_bytes(params, replicas, stage + 1)):
            hint = "That is one stage further."
        elif is_near(got, count_zero_bytes(params, replicas, stage - 1)):
            hint = "That is the stage before."
        raise Feedback(f"zero_bytes({params}, {replicas}, {stage}) gave {got:.6g}. {hint}")


# ---- 5. training_days


@check("training_days")
def forward_backward_and_forward_again(student, rng):
    """eight flops a parameter and token, as forward is done twice"""
    params, tokens = float(rng.uniform(1e9, 1e12)), float(rng.uniform(1e9, 1e12))
    devices, speed = int(rng.integers(2, 5000)), float(rng.uniform(1e13, 3e14))
    expected = 8 * params * tokens / devices / speed / 86_400
    got = to_number(student.call("training_days", params, tokens, devices, speed))
    if not is_near(got, expected):
        hint = "How many flops has the run, and how many a second do all devices get done?"
        for factor, explanation in (
            (86_400, "Those are seconds."),
            (24, "Those are hours."),
            (6 / 8, "Without being told, forward is done again before backward."),
            (devices, "That is one device. How many work at the same time?"),
        ):
            hint = explanation if is_near(got, expected * factor) else hint
        raise Feedback(
            f"training_days({params:.3g}, {tokens:.3g}, {devices}, {speed:.3g}) gave {got:.5g}. "
            f"{hint}"
        )


@check("training_days", requires="forward_backward_and_forward_again")
def what_is_kept_is_not_done_again(student, rng):
    """with recompute=False it is six"""
    speed = float(rng.uniform(1e13, 3e14))
    with_it, without = (
        to_number(student.call("training_days", 1e11, 1e11, 64, speed, recompute))
        for recompute in (True, False)
    )
    if not is_near(without, 0.75 * with_it):
        raise Feedback(
            f"recompute=False took {without / with_it:.3f} of the days of recompute=True. Which "
            "flops are saved?"
        )


# ---- 6. failures

MADE_AGAIN = {"gradients", "activations"}
NEEDED = {"parameters", "momentum", "position in the data"}


@check("saved")
def what_is_made_again_is_not_saved(student, rng):
    """nothing is saved that every step makes anew; and something is saved"""
    names = ask_saved(student)
    if names & MADE_AGAIN:
        raise Feedback(
            "saved: something in it is made anew by every step before it is read. Go through a "
            "step line by line: what is written first?"
        )


@check("saved", weight=2, requires="what_is_made_again_is_not_saved")
def what_the_next_step_reads_is_saved(student, rng):
    """all that the next step reads before it writes it is saved"""
    missing = len(NEEDED - ask_saved(student))
    if missing:
        raise Feedback(
            f"saved: of the things that a step reads before it writes them, {missing} "
            f"{'is' if missing == 1 else 'are'} missing. "
            "What would a new process not know?"
        )


def list_saved():
    return list(saved) if isinstance(saved, (set, frozenset)) else saved


def ask_saved(student):
    """Return the names in `saved`."""
    names = student.probe(list_saved)
    if not isinstance(names, list | tuple) or not names:
        raise Feedback("saved should be a list of some of the names in THINGS.")
    unknown = set(names) - MADE_AGAIN - NEEDED
    if unknown:
        raise Feedback(f"saved: {sorted(unknown)[0]!r} is none of the names in THINGS.")
    return set(names)


@check("young_interval")
def the_loss_is_least_there(student, rng):
    """at this interval writes and lost work together cost least"""
    write, mtbf = float(rng.uniform(1, 300)), float(rng.uniform(3600, 90_000))
    got, expected = (
        to_number(student.call("young_interval", write, mtbf)),
        math.sqrt(2 * write * mtbf),
    )
    if not is_near(got, expected):
        hint = "Where is the derivative of w/t + t/2m zero?"
        if is_near(got, expected / math.sqrt(2)):
            hint = "Is the work lost a whole interval on average, or a half?"
        raise Feedback(f"young_interval({write:.4g}, {mtbf:.6g}) gave {got:.6g}. {hint}")


def compute_goodput(gaps, interval, write, restart):
    """Return the goodput, one gap after the other."""
    work = 0.0
    for gap in gaps:
        rest = gap - restart
        while rest >= interval + write:
            rest -= interval + write
            work += interval
    return work / sum(gaps)


@check("goodput", weight=2)
def only_what_was_written_lasts(student, rng):
    """after each failure a restart, then whole intervals, each with its write"""
    interval, write, restart = (float(k) for k in rng.uniform((20, 3, 5), (60, 15, 40)))
    gaps = restart + (interval + write) * rng.uniform(1.1, 9.9, size=30)
    expected = compute_goodput(gaps, interval, write, restart)
    got = to_number(student.call("goodput", gaps, interval, write, restart))
    if is_near(got, expected):
        return
    hint = "Take one gap: a restart, then how many times interval and write?"
    if is_near(got, compute_goodput(gaps, interval, write, 0.0)):
        hint = "Does work go on at once after a failure?"
    elif is_near(got, float(np.sum(gaps - restart) / np.sum(gaps))):
        hint = "Work that was not written when the failure came is lost."
    elif is_near(got, expected * (interval + write) / interval):
        hint = "A write is no work that lasts."
    elif is_near(got, interval * np.sum((gaps - restart) // interval) / np.sum(gaps)):
        hint = "After each interval comes a write, which takes time too."
    fit = np.floor((gaps - restart) / (interval + write))
    if is_near(got, float(np.mean(fit * interval / gaps))):
        hint = "That is the mean of the gaps' shares. A long gap counts for more than a short one."
    elif is_near(
        got, interval * np.sum((gaps - restart + write) // (interval + write)) / sum(gaps)
    ):
        hint = "Work lasts once its write has ended, that of a gap's last interval too."
    elif is_near(got, interval / (interval + write) * np.sum(gaps - restart) / np.sum(gaps)):
        hint = "An interval that was not finished when the failure came is lost."
    raise Feedback(
        f"goodput of 30 gaps, interval {interval:g}, write {write:g}, restart {restart:g}: got "
        f"{got:.5f}, expected {expected:.5f}. {hint}"
    )


@check("goodput", requires="only_what_was_written_lasts")
def a_failure_during_a_restart_costs_the_gap(student, rng):
    """a gap that is shorter than the restart adds no work, and takes none away"""
    gaps = np.array([500.0, float(rng.uniform(1, 30)), 700.0, float(rng.uniform(1, 30))])
    expected = compute_goodput(gaps, 50.0, 5.0, 160.0)
    got = to_number(student.call("goodput", gaps, 50.0, 5.0, 160.0))
    if not is_near(got, expected):
        raise Feedback(
            f"goodput of gaps of which two are shorter than the restart: got {got:.5f}, expected "
            f"{expected:.5f}. How many intervals are finished in such a gap?"
        )


def run_goodput(gaps):
    """Return the caller's gaps after a call."""
    goodput(gaps, 30.0, 4.0, 20.0)
    return gaps


@check("goodput", hidden=True, requires="only_what_was_written_lasts")
def lists_will_do_and_stay_as_they_were(student, rng):
    """gaps may be a list, and belong to the caller"""
    gaps = [float(gap) for gap in rng.uniform(100, 900, size=int(rng.integers(3, 9)))]
    expected = compute_goodput(gaps, 30.0, 4.0, 20.0)
    if not is_near(student.call("goodput", gaps, 30.0, 4.0, 20.0), expected):
        raise Feedback(
            "goodput of a list: wrong.", hint="np.asarray makes an array of whatever comes."
        )
    if not np.array_equal(student.probe(run_goodput, gaps=np.array(gaps)), gaps):
        raise Feedback(
            "goodput changed the array that it was given.",
            hint="gaps -= ... writes into it; gaps - ... makes a new one.",
        )
    if student.probe(run_goodput, gaps=list(gaps)) != gaps:
        raise Feedback(
            "goodput changed the list that it was given.",
            hint="pop takes an item away from the caller, too.",
        )
    whole = np.array(gaps, int)
    expected = compute_goodput(whole, 30.25, 4.25, 20.3)
    if not is_near(student.call("goodput", whole, 30.25, 4.25, 20.3), expected):
        raise Feedback(
            "goodput of gaps that are whole numbers: wrong.",
            hint="np.zeros_like makes an array of whole numbers of one. What do you write into it?",
        )
