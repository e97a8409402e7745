# ruff: noqa
"""Times are those of the package's virtual clock, and so is the rule of who may pull."""

from ddp_lab.parallel.parameter_server.consistency import Progress
from ddp_lab.simulate.parameter_server import run_on_clock
from ddp_lab.simulate.stragglers import backup_workers


def sync_time(times):
    return run_on_clock(times, Progress("sync", range(len(times)))).makespan


def async_time(times):
    return run_on_clock(times, Progress("async", range(len(times)))).makespan


def may_pull(steps, worker, staleness):
    progress = Progress("ssp", range(len(steps)), staleness)
    progress.steps.update(enumerate(steps))
    return progress.may_pull(steps[worker])


def ssp_time(times, staleness):
    run = run_on_clock(times, Progress("ssp", range(len(times)), staleness))
    return max(span.ended_at for span in run.spans)


def backup_time(times, workers):
    ranks, steps = times.shape
    return backup_workers(workers, ranks - workers, lambda rng, shape: times, steps=steps)


def normalised_speedup(t_0, t_b, workers, backups):
    def late(rng, shape):
        return np.full(shape, t_0 / t_b)

    return backup_workers(workers, backups, late, steps=1) * workers / (workers + backups)
