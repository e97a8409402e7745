"""Checks of lab 12. In grading the judge is the network: it sees what the server sends to whom."""

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close, to_number
from autograder.errors import StudentError

WITHHELD = (
    *(
        "ddp_lab.simulate.parameter_server:run_on_clock",
        "ddp_lab.simulate.stragglers:backup_workers",
    ),
    "ddp_lab.parallel.parameter_server.consistency:Progress",
)
LAB = LabSettings(wall_s=120.0, preload=("numpy", "ddp_lab"), withheld=WITHHELD)


def run_rank(comm, w, lr, steps, slope, shift):
    """Rank 0 serves; a worker's gradient is slope * w + shift, and it keeps what it pulled."""
    import numpy as np

    if comm.rank == 0:
        before = w.copy()
        trained = serve(comm, w, lr, steps)
        return trained, bool(np.array_equal(w, before))
    pulled = []
    for step in range(steps):
        pulled.append(comm.recv(0).copy())
        comm.send(slope * pulled[-1] + shift * (step + 1), 0)
    return pulled, True


def ask_serve(student, rng, n, steps, lr=0.1, watched=False):
    """Return the run, and what w is before each step and at the end."""
    w = rng.normal(size=(3, 2))
    inputs = [
        (w, lr, steps, float(rng.uniform(0.2, 0.9)), rng.normal(size=(3, 2))) for _ in range(n)
    ]
    versions = [w]
    for step in range(steps):
        grads = [slope * versions[-1] + shift * (step + 1) for *_, slope, shift in inputs[1:]]
        versions.append(versions[-1] - lr * np.mean(grads, axis=0))
    try:
        return student.ranks(run_rank, n, inputs, steps=watched), versions, inputs
    except StudentError as error:
        if error.type_name != "Deadlock":
            raise
        raise Feedback(
            f"serve with {n - 1} workers: {error}.",
            hint="A worker pulls before it pushes. What does it hear first?",
        ) from error


@check("serve", weight=2)
def the_result_is_one_process_on_the_mean(student, rng):
    """the trained parameters are those of one process on the mean gradient"""
    for n, steps in ((3, 1), (4, 3), (2, 2)):
        lr = float(rng.uniform(0.2, 0.4))
        run, versions, inputs = ask_serve(student, rng, n, steps, lr)
        got = run.results[0][0]
        if np.shape(got) == (3, 2) and np.allclose(got, versions[-1]):
            continue
        hint = "Do one step by hand for two workers."
        if steps == 1 and np.shape(got) == (3, 2):
            w = inputs[0][0]
            total = sum(slope * w + shift for *_, slope, shift in inputs[1:])
            for share, explanation in (
                (
                    1.0,
                    "That is the sum of the gradients. What should twice as many workers change?",
                ),
                (1 / n, "That is the sum over comm.size. Is the server a worker?"),
                (-1 / (n - 1), "That goes up the slope."),
                (0.0, "Nothing has changed. Where does the mean go?"),
            ):
                hint = explanation if np.allclose(got, w - lr * share * total) else hint
        called = f"serve with {n - 1} workers and {steps} steps: the trained w"
        close(got, versions[-1], called=called, hint=hint)


@check("serve", weight=2)
def all_workers_of_a_step_pull_the_same_parameters(student, rng):
    """in each step all workers are sent what the step before left, and then waited for"""
    run, versions, _ = ask_serve(student, rng, 4, 3, watched=True)
    for worker in (1, 2, 3):
        for step, got in enumerate(run.results[worker][0]):
            if np.shape(got) != (3, 2) or not np.allclose(got, versions[step]):
                called = f"what worker {worker} of 3 pulls in step {step}, counted from 0"
                hint = "It is w after all gradients of the steps before. When may w change?"
                close(got, versions[step], called=called, hint=hint)
    kinds = [step.kind for step in run.steps if step.rank == 0]
    n_sent = kinds[: kinds.index("ask")].count("send") if "ask" in kinds else 3
    if n_sent < 3:
        raise Feedback(
            f"serve waits for a gradient when it has sent w to only {n_sent} of 3 workers.",
            hint="What do the other workers compute meanwhile?",
        )


@check("serve", requires="the_result_is_one_process_on_the_mean")
def the_callers_parameters_stay_as_they_were(student, rng):
    """w is the same after the call"""
    run, _, _ = ask_serve(student, rng, 3, 2)
    if not run.results[0][1]:
        raise Feedback("serve changed the array w that it was given. What could it change instead?")


@check("serve", hidden=True)
def one_message_to_each_worker_and_step(student, rng):
    """the server sends each worker its parameters once a step, and no byte more"""
    run, _, _ = ask_serve(student, rng, 4, 3)
    to = [sum(m.src == 0 and m.dst == worker for m in run.messages) for worker in (1, 2, 3)]
    if to != [3, 3, 3] or run.bytes_sent(0) != 9 * 48:
        raise Feedback(
            f"serve sent {to} messages to three workers in 3 steps, {run.bytes_sent(0)} bytes.",
            hint="Count the sends of one step; in which dtype does w travel?",
        )


@check("server_bytes")
def a_share_to_every_worker(student, rng):
    """one server sends its share to every worker"""
    for workers, servers in ((3, 1), (4, 2), (int(rng.integers(5, 50)), int(rng.integers(2, 9)))):
        n_bytes = 8 * servers * int(rng.integers(10, 1000))
        got = to_number(student.call("server_bytes", workers, servers, n_bytes))
        right = workers * n_bytes / servers
        hint = "What does it keep, and how many want it?"
        if got == workers * n_bytes and servers > 1:
            hint = "That is what all servers send together."
        elif got == n_bytes / servers and workers > 1:
            hint = "That is what one worker is sent by it."
        elif got == 2 * right:
            hint = "That is what it sends and receives. Only what it sends counts here."
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(f"server_bytes({workers}, {servers}, {n_bytes}) gave {got:g}. {hint}")


def draw_times(rng, workers, steps):
    return rng.uniform(0.25, 5.0, size=(workers, steps))


def is_near(got, other, right):
    """Return whether `got` is this other number, which is not the right one."""
    return abs(got - other) <= 1e-9 * right < abs(other - right)


@check("run_times")
def a_synchronous_step_lasts_as_long_as_its_slowest_worker(student, rng):
    """every synchronous step lasts as long as its slowest worker"""
    for workers, steps in ((3, 5), (5, 3), (1, 4)):
        times = draw_times(rng, workers, steps)
        got = to_number(student.call("sync_time", times))
        right = times.max(axis=0).sum()
        hint = "Write down when step 1 can begin, for 2 workers and 2 steps."
        if is_near(got, times.sum(axis=1).max(), right):
            hint = "So long the slowest worker computes alone. Who waits for whom after each step?"
        elif is_near(got, times.mean(axis=0).sum(), right):
            hint = "Does a step end when the average worker has ended it?"
        elif is_near(got, times.sum(), right):
            hint = "The workers compute at the same time."
        elif is_near(got, times.max(axis=1).sum(), right):
            hint = "Which axis are the workers?"
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(f"sync_time of {workers} workers and {steps} steps gave {got:g}. {hint}")


@check("run_times")
def without_waiting_the_slowest_worker_decides(student, rng):
    """an asynchronous run lasts as long as the worker with the longest sum"""
    for workers, steps in ((3, 5), (5, 3), (1, 4)):
        times = draw_times(rng, workers, steps)
        got = to_number(student.call("async_time", times))
        right = times.sum(axis=1).max()
        hint = "When is each worker done, if it never waits?"
        if is_near(got, times.sum(axis=1).mean(), right):
            hint = "The run is over when the last worker is done, not the average one."
        elif is_near(got, times.max(axis=0).sum(), right):
            hint = "That waits for the slowest after each step."
        elif is_near(got, times.sum(axis=0).max(), right):
            hint = "Which axis are the steps?"
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(
                f"async_time of {workers} workers and {steps} steps gave {got:g}. {hint}"
            )


@check("run_times", hidden=True, requires="without_waiting_the_slowest_worker_decides")
def both_runs_leave_the_times_alone(student, rng):
    """times is the same after either call"""

    def keep(times):
        before = times.copy()
        sync_time(times), async_time(times)
        return bool((times == before).all())

    if not student.probe(keep, times=draw_times(rng, 3, 5)):
        hint = "Real workers sleep for the same times afterwards. Which line writes into them?"
        raise Feedback("sync_time or async_time changed its argument.", hint=hint)


@check("may_pull")
def ahead_of_the_slowest_by_the_staleness_and_no_more(student, rng):
    """a worker may pull while it is at most `staleness` steps ahead of the slowest"""
    for staleness in (0, 1, int(rng.integers(2, 6))):
        for ahead in range(staleness + 3):
            base = int(rng.integers(0, 9))
            steps = [base + ahead, base, base + 1, base + ahead + 4]
            got = student.call("may_pull", steps, 0, staleness)
            if bool(got) != (ahead <= staleness):
                edge = " Exactly s ahead is allowed." if ahead == staleness else ""
                raise Feedback(
                    f"may_pull({steps}, 0, {staleness}) gave {got}: worker 0 is {ahead} ahead of "
                    f"the slowest.{edge} Whom do you compare it with?"
                )


@check("may_pull", requires="ahead_of_the_slowest_by_the_staleness_and_no_more")
def any_worker_and_the_slowest_too(student, rng):
    """the slowest may always pull, whichever worker it is, and so may one alone"""
    steps = [5, 2, 9, 3]
    for worker, staleness, right in ((1, 0, True), (3, 0, False), (3, 1, True), (2, 6, False)):
        got = student.call("may_pull", steps, worker, staleness)
        if bool(got) != right:
            raise Feedback(
                f"may_pull({steps}, {worker}, {staleness}) gave {got}, expected {right}."
            )
    if not student.call("may_pull", [7], 0, 0):
        raise Feedback("may_pull([7], 0, 0) is False. For whom should the only worker wait?")


@check("may_pull", hidden=True, requires="any_worker_and_the_slowest_too")
def the_steps_are_only_read(student, rng):
    """steps is the same after the call"""

    def keep(steps, worker):
        before = list(steps)
        may_pull(steps, worker, 2)
        return steps == before

    steps = [int(n) for n in 5 + rng.permutation(6)]
    if not student.probe(keep, steps=steps, worker=int(np.argmin(steps))):
        hint = "The server asks about the next worker with the same list. Which line changes it?"
        raise Feedback("may_pull changed steps.", hint=hint)


def compute_ends(times, staleness):
    ends = np.zeros_like(times)
    for t in range(times.shape[1]):
        limit = ends[:, t - 1 - staleness].max() if t - 1 - staleness >= 0 else 0.0
        ends[:, t] = times[:, t] + np.maximum(ends[:, t - 1] if t else 0.0, limit)
    return ends


@check("ssp_time", weight=2)
def no_staleness_is_synchronous_and_no_bound_asynchronous(student, rng):
    """staleness 0 gives the synchronous time, and one of all steps the asynchronous"""
    for workers, steps in ((3, 6), (4, 5)):
        times = draw_times(rng, workers, steps)
        for staleness, right, kind in (
            (0, times.max(axis=0).sum(), "synchronous"),
            (steps, times.sum(axis=1).max(), "asynchronous"),
        ):
            got = to_number(student.call("ssp_time", times, staleness))
            if not abs(got - right) <= 1e-9 * right:
                raise Feedback(
                    f"ssp_time of {steps} steps with staleness {staleness} gave {got:g}; the "
                    f"{kind} run takes {right:g}. For which step of the others does step t wait?"
                )


@check("ssp_time", weight=3)
def each_step_waits_for_the_step_that_the_bound_names(student, rng):
    """step t begins when all have ended step t - 1 - staleness"""
    for staleness in (1, 2, int(rng.integers(3, 6))):
        times = draw_times(rng, 4, 12)
        times[1, ::3] += 6.0
        got = to_number(student.call("ssp_time", times, staleness))
        right = compute_ends(times, staleness).max()
        if not abs(got - right) <= 1e-9 * right:
            near = {s: compute_ends(times, s).max() for s in (staleness - 1, staleness + 1)}
            hint = "Fill a table of 2 workers and 4 steps by hand."
            for other, value in near.items():
                if abs(got - value) < 1e-9 and value != right:
                    hint = f"That is a staleness of {other}. Look at the index of the column."
            raise Feedback(f"ssp_time with staleness {staleness} gave {got:g}. {hint}")


def reads_of(times, staleness, most):
    """Return how many numbers of `times` were read one by one, or -1: more than `most`."""
    import numpy as np

    count = 0

    class Counted(np.ndarray):
        def __getitem__(self, key):
            nonlocal count
            item = super().__getitem__(key)
            count += not isinstance(item, np.ndarray)
            if count > most:
                raise RuntimeError("too many reads")
            return item

    try:
        ssp_time(times.view(Counted), staleness)
    except RuntimeError:
        if count <= most:
            raise
        return -1
    return count


@check("ssp_time", requires="each_step_waits_for_the_step_that_the_bound_names")
def each_end_is_worked_out_once(student, rng):
    """the end of each step is worked out once, not along every path"""
    for steps in (10, 40):
        times = draw_times(rng, 3, steps)
        if student.probe(reads_of, times=times, staleness=1, most=20 * times.size) < 0:
            raise Feedback(
                f"ssp_time of 3 workers and {steps} steps read its {times.size} times more than "
                f"{20 * times.size} times.",
                hint="How often is the end of one worker's step worked out? Once known, where is "
                "it kept?",
            )


@check("ssp_time", hidden=True, requires="each_step_waits_for_the_step_that_the_bound_names")
def times_are_left_alone(student, rng):
    """times is the same after the call, and one worker never waits"""

    def keep(times):
        before = times.copy()
        seconds = ssp_time(times, 1)
        return float(seconds), bool((times == before).all())

    times = draw_times(rng, 1, 7)
    seconds, unchanged = student.probe(keep, times=times)
    close(seconds, times.sum(), called="ssp_time of one worker", hint="For whom does it wait?")
    if not unchanged:
        raise Feedback("ssp_time changed its argument.", hint="Which array do you fill?")


@check("backups", weight=2)
def a_step_ends_with_the_nth_gradient(student, rng):
    """the step ends with the n-th gradient to come, and the mean is over the steps"""
    for workers, backups in ((3, 2), (2, 0), (1, 3), (5, 1)):
        times = draw_times(rng, workers + backups, 6) + np.arange(6) / 64
        got = to_number(student.call("backup_time", times, workers))
        ordered = np.sort(times, axis=0)
        right = ordered[workers - 1].mean()
        hint = "Sort one column: which of its times ends the step?"
        if backups and abs(got - ordered[workers].mean()) < 1e-9:
            hint = "That is one gradient too late: the first to come has index 0."
        elif backups and abs(got - ordered[-1].mean()) < 1e-9:
            hint = "That waits for all of them, backups too."
        elif abs(got - times[workers - 1].mean()) < 1e-9:
            hint = "That is one worker's own time. Who is first differs from step to step."
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(
                f"backup_time of {workers + backups} workers of whom {workers} count gave "
                f"{got:g}. {hint}"
            )


@check("backups", hidden=True, requires="a_step_ends_with_the_nth_gradient")
def backups_leave_the_times_alone(student, rng):
    """times is the same after the call"""

    def keep(times):
        before = times.copy()
        backup_time(times, 2)
        return bool((times == before).all())

    if not student.probe(keep, times=draw_times(rng, 4, 6)):
        hint = "Others are asked about the same times, worker by worker. Which sort makes a copy?"
        raise Feedback("backup_time changed its argument.", hint=hint)


@check("backups")
def the_speedup_is_shared_among_all_who_are_paid(student, rng):
    """normalised speed-up is t_0 / t_b, times the share of the workers that are no backups"""
    for workers, backups in ((50, 3), (4, 0), (int(rng.integers(5, 30)), int(rng.integers(1, 9)))):
        t_0, t_b = (float(x) for x in rng.uniform(1, 2, size=2))
        got = to_number(student.call("normalised_speedup", t_0, t_b, workers, backups))
        right = t_0 / t_b * workers / (workers + backups)
        hint = "What are you paid for, and what do you pay?"
        if abs(got - t_b / t_0 * workers / (workers + backups)) < 1e-9:
            hint = "Shorter steps must give a larger number."
        elif abs(got - t_0 / t_b) < 1e-9:
            hint = "What did the backups cost?"
        elif abs(got - t_0 / t_b * (workers + backups) / workers) < 1e-9:
            hint = "With more backups, and the same steps, it must be less."
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(
                f"normalised_speedup({t_0:.3f}, {t_b:.3f}, {workers}, {backups}) gave {got:g}. {hint}"
            )


def ask_server_time(student, rng, workers, servers, alpha, beta):
    n_bytes = 4 * servers * int(rng.integers(100, 999))
    got = to_number(student.call("server_time", n_bytes, workers, servers, alpha, beta))
    return got, n_bytes


@check("server_time")
def bytes_of_the_busiest_rank(student, rng):
    """without latency, the busiest rank's bytes travel twice: a pull and a push"""
    for workers, servers in ((8, 1), (8, 4), (3, 3), (2, 6)):
        beta = float(rng.uniform(0.5, 1.5))
        got, n_bytes = ask_server_time(student, rng, workers, servers, 0.0, beta)
        right = 2 * max(workers, servers) * n_bytes / servers * beta
        hint = "How many messages does the busiest rank have, and how many bytes has each?"
        if abs(got - right / 2) < 1e-9 * right:
            hint = "That is the pull or the push alone."
        elif abs(got - right * servers) < 1e-9 * right * servers and servers > 1:
            hint = "A server has a share of the bytes only."
        elif servers > workers and abs(got - 2 * workers * n_bytes / servers * beta) < 1e-9 * right:
            hint = "With more servers than workers, who is the busiest?"
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(
                f"server_time({n_bytes}, {workers}, {servers}, 0, beta) gave {got / beta:g} beta. {hint}"
            )


@check("server_time")
def latencies_of_the_busiest_rank(student, rng):
    """every message of the busiest rank pays its latency too"""
    for workers, servers in ((8, 1), (8, 4), (2, 6), (1, 1)):
        alpha, beta = (float(x) for x in rng.uniform(0.5, 1.5, size=2))
        got, n_bytes = ask_server_time(student, rng, workers, servers, alpha, beta)
        right = 2 * max(workers, servers) * (alpha + n_bytes / servers * beta)
        if not abs(got - right) <= 1e-9 * right:
            spent = got - 2 * max(workers, servers) * n_bytes / servers * beta
            raise Feedback(
                f"server_time with {workers} workers and {servers} servers pays {spent / alpha:g} "
                "latencies. How many messages does the busiest rank have, both ways?"
            )


@check("crossover")
def equal_times_at_the_crossover(student, rng):
    """at this fraction of the bytes, servers and ring take the same time"""
    for workers, servers in ((8, 1), (8, 4), (4, 4), (int(rng.integers(5, 40)), 3)):
        got = to_number(student.call("crossover", workers, servers))
        ring = 2 * (workers - 1) / workers
        busiest = 2 * workers / servers
        hint = "Put your fraction into both formulas."
        if abs(got - busiest / ring) < 1e-9 or abs(got - 1 / (ring / busiest)) < 1e-9:
            hint = "That is more than all rows: is it the inverse?"
        elif abs(got - servers / workers) < 1e-9:
            hint = "Nearly: but the ring does not take quite 2 N beta."
        elif abs(got - ring / busiest / 2) < 1e-9:
            hint = "The servers' bytes travel twice, and so do the ring's."
        if not abs(got * busiest - ring) <= 1e-9 * ring:
            raise Feedback(
                f"crossover({workers}, {servers}) gave {got:g}: the servers take {got * busiest:g} "
                f"N beta there, the ring {ring:g}. {hint}"
            )
