# Wrong answers that the checks of lab 12 must catch, each with a message of its own.


# %% wrong="a_rate_of_its_own" question="serve" check="the_result_is_one_process_on_the_mean" says="Do one step by hand"
def serve(comm, w, lr, steps):
    w = w.copy()
    for _ in range(steps):
        for worker in range(1, comm.size):
            comm.send(w, worker)
        w -= 0.1 * sum(comm.recv(worker) for worker in range(1, comm.size)) / (comm.size - 1)
    return w


# %% wrong="follows_every_path" question="ssp_time" check="each_end_is_worked_out_once" says="where is it kept"
def ssp_time(times, staleness):
    workers, steps = times.shape

    def end(i, t):
        if t < 0:
            return 0.0
        slowest = max(end(j, t - 1 - staleness) for j in range(workers))
        return times[i, t] + max(end(i, t - 1), slowest)

    return max(end(i, steps - 1) for i in range(workers))


# %% wrong="sums" question="serve" check="the_result_is_one_process_on_the_mean" says="the sum of the gradients"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    w = w.copy()
    for _ in range(steps):
        for worker in workers:
            comm.send(w, worker)
        w -= lr * sum(comm.recv(worker) for worker in workers)
    return w


# %% wrong="counts_itself" question="serve" check="the_result_is_one_process_on_the_mean" says="Is the server a worker?"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    w = w.copy()
    for _ in range(steps):
        for worker in workers:
            comm.send(w, worker)
        w -= lr * sum(comm.recv(worker) for worker in workers) / comm.size
    return w


# %% wrong="one_after_the_other" question="serve" check="all_workers_of_a_step_pull_the_same_parameters" says="When may w change?"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    w = w.copy()
    for _ in range(steps):
        for worker in workers:
            comm.send(w, worker)
            w -= lr * comm.recv(worker) / len(workers)
    return w


# %% wrong="listens_first" question="serve" check="the_result_is_one_process_on_the_mean" says="What does it hear first?"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    w = w.copy()
    for _ in range(steps):
        total = sum(comm.recv(worker) for worker in workers)
        w -= lr * total / len(workers)
        for worker in workers:
            comm.send(w, worker)
    return w


# %% wrong="works_in_place" question="serve" check="the_callers_parameters_stay_as_they_were" says="What could it change instead"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    for _ in range(steps):
        for worker in workers:
            comm.send(w, worker)
        total = sum(comm.recv(worker) for worker in workers)
        w -= lr * total / len(workers)
    return w


# %% wrong="one_worker_at_a_time" question="serve" check="all_workers_of_a_step_pull_the_same_parameters" says="compute meanwhile"
def serve(comm, w, lr, steps):
    workers = range(1, comm.size)
    w = w.copy()
    for _ in range(steps):
        total = 0.0
        for worker in workers:
            comm.send(w, worker)
            total = total + comm.recv(worker)
        w -= lr * total / len(workers)
    return w


# %% wrong="all_servers" question="server_bytes" check="a_share_to_every_worker" says="all servers send together"
def server_bytes(workers, servers, n_bytes):
    return workers * n_bytes


# %% wrong="one_worker" question="server_bytes" check="a_share_to_every_worker" says="what one worker is sent"
def server_bytes(workers, servers, n_bytes):
    return n_bytes / servers


# %% wrong="both_ways" question="server_bytes" check="a_share_to_every_worker" says="sends and receives"
def server_bytes(workers, servers, n_bytes):
    return 2 * workers * n_bytes / servers


# %% wrong="means" question="run_times" check="a_synchronous_step_lasts_as_long_as_its_slowest_worker" says="average worker"
def sync_time(times):
    return times.mean(axis=0).sum()


def async_time(times):
    return times.sum(axis=1).max()


# %% wrong="exchanged" question="run_times" check="a_synchronous_step_lasts_as_long_as_its_slowest_worker" says="computes alone"
def sync_time(times):
    return times.sum(axis=1).max()


def async_time(times):
    return times.max(axis=0).sum()


# %% wrong="wrong_axis" question="run_times" check="a_synchronous_step_lasts_as_long_as_its_slowest_worker" says="Which axis are the workers"
def sync_time(times):
    return times.max(axis=1).sum()


def async_time(times):
    return times.sum(axis=1).max()


# %% wrong="average_worker" question="run_times" check="without_waiting_the_slowest_worker_decides" says="not the average one"
def sync_time(times):
    return times.max(axis=0).sum()


def async_time(times):
    return times.sum(axis=1).mean()


# %% wrong="adds_up_in_place" question="run_times" check="both_runs_leave_the_times_alone" says="Which line writes into them"
def sync_time(times):
    return times.max(axis=0).sum()


def async_time(times):
    return np.cumsum(times, axis=1, out=times)[:, -1].max()


# %% wrong="strictly_less" question="may_pull" check="ahead_of_the_slowest_by_the_staleness_and_no_more" says="Exactly s ahead is allowed"
def may_pull(steps, worker, staleness):
    return steps[worker] - min(steps) < staleness


# %% wrong="the_fastest" question="may_pull" check="ahead_of_the_slowest_by_the_staleness_and_no_more" says="Whom do you compare it with"
def may_pull(steps, worker, staleness):
    return max(steps) - steps[worker] <= staleness


# %% wrong="one_more" question="may_pull" check="ahead_of_the_slowest_by_the_staleness_and_no_more" says="ahead of the slowest"
def may_pull(steps, worker, staleness):
    return steps[worker] - min(steps) <= staleness + 1


# %% wrong="takes_its_own_away" question="may_pull" check="the_steps_are_only_read" says="Which line changes it"
def may_pull(steps, worker, staleness):
    own = steps.pop(worker)
    return own - min(steps, default=own) <= staleness


# %% wrong="sorts_the_steps" question="may_pull" check="the_steps_are_only_read" says="Which line changes it"
def may_pull(steps, worker, staleness):
    own = steps[worker]
    steps.sort()
    return own - steps[0] <= staleness


# %% wrong="never_waits" question="ssp_time" check="no_staleness_is_synchronous_and_no_bound_asynchronous" says="the synchronous run takes"
def ssp_time(times, staleness):
    return times.sum(axis=1).max()


# %% wrong="a_step_too_far" question="ssp_time" check="no_staleness_is_synchronous_and_no_bound_asynchronous" says="For which step of the others"
def ssp_time(times, staleness):
    ends = np.zeros(times.shape)
    for t in range(times.shape[1]):
        own = ends[:, t - 1] if t > 0 else 0.0
        last = t - 2 - staleness
        slowest = ends[:, last].max() if last >= 0 else 0.0
        ends[:, t] = times[:, t] + np.maximum(own, slowest)
    return ends.max()


# %% wrong="wraps_round" question="ssp_time" check="each_step_waits_for_the_step_that_the_bound_names" says="staleness 1 gave"
def ssp_time(times, staleness):
    if staleness == 0:
        return times.max(axis=0).sum()
    if staleness >= times.shape[1]:
        return times.sum(axis=1).max()
    return (times.max(axis=0).sum() + times.sum(axis=1).max()) / 2


# %% wrong="one_too_late" question="backups" check="a_step_ends_with_the_nth_gradient" says="one gradient too late"
def backup_time(times, workers):
    return np.sort(times, axis=0)[min(workers, len(times) - 1)].mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_0 / t_b * workers / (workers + backups)


# %% wrong="waits_for_all" question="backups" check="a_step_ends_with_the_nth_gradient" says="waits for all of them"
def backup_time(times, workers):
    return times.max(axis=0).mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_0 / t_b * workers / (workers + backups)


# %% wrong="does_not_sort" question="backups" check="a_step_ends_with_the_nth_gradient" says="one worker's own time"
def backup_time(times, workers):
    return times[workers - 1].mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_0 / t_b * workers / (workers + backups)


# %% wrong="as_the_slides_print_it" question="backups" check="the_speedup_is_shared_among_all_who_are_paid" says="Shorter steps must give a larger number"
def backup_time(times, workers):
    return np.sort(times, axis=0)[workers - 1].mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_b / t_0 * workers / (workers + backups)


# %% wrong="free_machines" question="backups" check="the_speedup_is_shared_among_all_who_are_paid" says="What did the backups cost"
def backup_time(times, workers):
    return np.sort(times, axis=0)[workers - 1].mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_0 / t_b


# %% wrong="sorts_the_callers_times" question="backups" check="backups_leave_the_times_alone" says="Which sort makes a copy"
def backup_time(times, workers):
    times.sort(axis=0)
    return times[workers - 1].mean()


def normalised_speedup(t_0, t_b, workers, backups):
    return t_0 / t_b * workers / (workers + backups)


# %% wrong="pulls_only" question="server_time" check="bytes_of_the_busiest_rank" says="the pull or the push alone"
def server_time(n_bytes, workers, servers, alpha, beta):
    return max(workers, servers) * (alpha + n_bytes / servers * beta)


# %% wrong="whole_messages" question="server_time" check="bytes_of_the_busiest_rank" says="a share of the bytes only"
def server_time(n_bytes, workers, servers, alpha, beta):
    return 2 * max(workers, servers) * (alpha + n_bytes * beta)


# %% wrong="servers_are_busiest" question="server_time" check="bytes_of_the_busiest_rank" says="who is the busiest"
def server_time(n_bytes, workers, servers, alpha, beta):
    return 2 * workers * (alpha + n_bytes / servers * beta)


# %% wrong="one_latency" question="server_time" check="latencies_of_the_busiest_rank" says="How many messages"
def server_time(n_bytes, workers, servers, alpha, beta):
    return 2 * (alpha + max(workers, servers) * n_bytes / servers * beta)


# %% wrong="inverse" question="crossover" check="equal_times_at_the_crossover" says="is it the inverse"
def crossover(workers, servers):
    return workers**2 / (servers * (workers - 1))


# %% wrong="forgets_the_last_part" question="crossover" check="equal_times_at_the_crossover" says="does not take quite"
def crossover(workers, servers):
    return servers / workers


# %% wrong="halves" question="crossover" check="equal_times_at_the_crossover" says="travel twice"
def crossover(workers, servers):
    return servers * (workers - 1) / workers**2 / 2
