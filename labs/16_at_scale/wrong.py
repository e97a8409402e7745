# Wrong answers that the checks of lab 16 must catch, each with a message of its own.

# %% wrong="takes_the_mean" question="fit_line" check="slow_rounds_change_nothing" says="Which round of each size counts"
def fit_line(times):
    sizes = np.array(list(times), float)
    quickest = np.array([np.mean(seconds) for seconds in times.values()])
    rows = np.stack([1 / quickest, sizes / quickest], axis=1)
    lengths = np.linalg.norm(rows, axis=0)
    a, b = np.linalg.lstsq(rows / lengths, np.ones(len(sizes)), rcond=None)[0] / lengths
    return float(a), float(b)


# %% wrong="takes_the_first_round" question="fit_line" check="slow_rounds_change_nothing" says="Which round of each size counts"
def fit_line(times):
    sizes = np.array(list(times), float)
    quickest = np.array([seconds[0] for seconds in times.values()])
    rows = np.stack([1 / quickest, sizes / quickest], axis=1)
    lengths = np.linalg.norm(rows, axis=0)
    a, b = np.linalg.lstsq(rows / lengths, np.ones(len(sizes)), rcond=None)[0] / lengths
    return float(a), float(b)


# %% wrong="plain_least_squares" question="fit_line" check="errors_count_as_shares" says="divided by the time"
def fit_line(times):
    sizes = np.array(list(times), float)
    quickest = np.array([min(seconds) for seconds in times.values()])
    b, a = np.polyfit(sizes, quickest, 1)
    return float(a), float(b)


# %% wrong="slope_first" question="fit_line" check="times_on_a_line_give_that_line" says="is it a, then b"
def fit_line(times):
    sizes = np.array(list(times), float)
    quickest = np.array([min(seconds) for seconds in times.values()])
    return tuple(float(x) for x in np.polyfit(sizes, quickest, 1))


# %% wrong="first_and_last_size" question="fit_line" check="errors_count_as_shares" says="divided by the time"
def fit_line(times):
    sizes = sorted(times)
    t = [min(times[n]) for n in sizes]
    b = (t[-1] - t[0]) / (sizes[-1] - sizes[0])
    return t[0] - b * sizes[0], b


# %% wrong="sorts_the_rounds" question="fit_line" check="the_times_stay_as_they_are" says="sorts, or takes out"
def fit_line(times):
    for seconds in times.values():
        seconds.sort()
    sizes = np.array(list(times), float)
    quickest = np.array([seconds[0] for seconds in times.values()])
    b, a = np.polyfit(sizes, quickest, 1, w=1 / quickest)
    return a, b


# %% wrong="empties_the_dict" question="fit_line" check="the_times_stay_as_they_are" says="took sizes out"
def fit_line(times):
    sizes, quickest = [], []
    while times:
        n, seconds = times.popitem()
        sizes.append(n)
        quickest.append(min(seconds))
    b, a = np.polyfit(sizes, quickest, 1, w=1 / np.array(quickest))
    return a, b


# %% wrong="only_half_the_ring" question="ring_seconds" check="latency_and_bytes_are_those_of_the_closed_form" says="What has to follow"
def ring_seconds(n_bytes, ranks, alpha, beta):
    return (ranks - 1) * (alpha + n_bytes / ranks * beta)


# %% wrong="one_latency_each_way" question="ring_seconds" check="latency_and_bytes_are_those_of_the_closed_form" says="How many are there"
def ring_seconds(n_bytes, ranks, alpha, beta):
    return 2 * (alpha + (ranks - 1) / ranks * n_bytes * beta)


# %% wrong="all_bytes_each_time" question="ring_seconds" check="latency_and_bytes_are_those_of_the_closed_form" says="all bytes, or a part"
def ring_seconds(n_bytes, ranks, alpha, beta):
    return 2 * (ranks - 1) * (alpha + n_bytes * beta)


# %% wrong="sends_to_itself" question="ring_seconds" check="one_rank_sends_nothing" says="To whom would it send"
def ring_seconds(n_bytes, ranks, alpha, beta):
    return 2 * max(1, ranks - 1) * (alpha + n_bytes / ranks * beta)


# %% wrong="step_over_compute" question="efficiency_bounds" check="without_overlap_the_times_add_up" says="which share of it is compute"
def efficiency_bounds(compute_s, communication_s):
    best = max(compute_s, compute_s / 3 + communication_s)
    return (compute_s + communication_s) / compute_s, best / compute_s


# %% wrong="sends_before_there_is_a_gradient" question="efficiency_bounds" check="at_best_communication_begins_after_forward" says="nothing to send"
def efficiency_bounds(compute_s, communication_s):
    return compute_s / (compute_s + communication_s), compute_s / max(compute_s, communication_s)


# %% wrong="forward_takes_two_thirds" question="efficiency_bounds" check="at_best_communication_begins_after_forward" says="the longer one"
def efficiency_bounds(compute_s, communication_s):
    best = max(compute_s, 2 * compute_s / 3 + communication_s)
    return compute_s / (compute_s + communication_s), compute_s / best


# %% wrong="steps_without_compute" question="efficiency_bounds" check="no_step_is_shorter_than_its_compute" says="What ends the step"
def efficiency_bounds(compute_s, communication_s):
    best = compute_s / 3 + communication_s
    return compute_s / (compute_s + communication_s), compute_s / best


# %% wrong="no_embedding" question="transformer_params" check="layers_and_embedding_are_counted" says="Who turns a token into a vector"
def transformer_params(layers, width, vocabulary):
    return 12 * layers * width**2


# %% wrong="attention_alone" question="transformer_params" check="layers_and_embedding_are_counted" says="a net of two matrices"
def transformer_params(layers, width, vocabulary):
    return 4 * layers * width**2 + vocabulary * width


# %% wrong="one_layer" question="transformer_params" check="layers_and_embedding_are_counted" says="How many layers"
def transformer_params(layers, width, vocabulary):
    return 12 * width**2 + vocabulary * width


# %% wrong="two_moments_of_two_bytes" question="zero_bytes" check="at_stage_0_everything_is_whole" says="What do 2, 2 and 12 make"
def zero_bytes(params, replicas, stage):
    parts = [4, 2, 2]
    return params * sum(n / replicas if stage > i else n for i, n in enumerate(parts))


# %% wrong="a_stage_too_far" question="zero_bytes" check="each_stage_cuts_one_part_more" says="one stage further"
def zero_bytes(params, replicas, stage):
    parts = [12, 2, 2]
    return params * sum(n / replicas if stage and stage >= i else n for i, n in enumerate(parts))


# %% wrong="a_stage_too_late" question="zero_bytes" check="each_stage_cuts_one_part_more" says="the stage before"
def zero_bytes(params, replicas, stage):
    parts = [12, 2, 2]
    return params * sum(n / replicas if stage > i + 1 else n for i, n in enumerate(parts))


# %% wrong="parameters_first" question="zero_bytes" check="each_stage_cuts_one_part_more" says="Which parts does this stage divide"
def zero_bytes(params, replicas, stage):
    parts = [2, 2, 12]
    return params * sum(n / replicas if stage > i else n for i, n in enumerate(parts))


# %% wrong="seconds" question="training_days" check="forward_backward_and_forward_again" says="Those are seconds"
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    return (8 if recompute else 6) * params * tokens / (devices * flops_per_s)


# %% wrong="hours" question="training_days" check="forward_backward_and_forward_again" says="Those are hours"
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    return (8 if recompute else 6) * params * tokens / (devices * flops_per_s) / 3600


# %% wrong="never_again" question="training_days" check="forward_backward_and_forward_again" says="forward is done again before backward"
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    return 6 * params * tokens / (devices * flops_per_s) / 86_400


# %% wrong="always_again" question="training_days" check="what_is_kept_is_not_done_again" says="Which flops are saved"
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    return 8 * params * tokens / (devices * flops_per_s) / 86_400


# %% wrong="one_device" question="training_days" check="forward_backward_and_forward_again" says="at the same time"
def training_days(params, tokens, devices, flops_per_s, recompute=True):
    return (8 if recompute else 6) * params * tokens / flops_per_s / 86_400


# %% wrong="saves_all" question="saved" check="what_is_made_again_is_not_saved" says="what is written first"
saved = ["parameters", "gradients", "activations", "momentum", "position in the data"]

# %% wrong="saves_gradients" question="saved" check="what_is_made_again_is_not_saved" says="what is written first"
saved = ["parameters", "gradients", "momentum", "position in the data"]

# %% wrong="saves_parameters_alone" question="saved" check="what_the_next_step_reads_is_saved" says="2 are missing"
saved = ["parameters"]

# %% wrong="forgets_the_data" question="saved" check="what_the_next_step_reads_is_saved" says="1 is missing"
saved = ["parameters", "momentum"]

# %% wrong="one_text" question="saved" check="what_is_made_again_is_not_saved" says="a list of some of the names"
saved = "parameters"

# %% wrong="a_name_of_its_own" question="saved" check="what_is_made_again_is_not_saved" says="none of the names in THINGS"
saved = ["parameters", "weights"]


# %% wrong="a_whole_interval_lost" question="young_interval" check="the_loss_is_least_there" says="or a half"
def young_interval(write_s, mtbf_s):
    return (write_s * mtbf_s) ** 0.5


# %% wrong="half_of_it" question="young_interval" check="the_loss_is_least_there" says="the derivative"
def young_interval(write_s, mtbf_s):
    return mtbf_s / 2


# %% wrong="in_minutes" question="young_interval" check="the_loss_is_least_there" says="the derivative"
def young_interval(write_s, mtbf_s):
    return (2 * write_s * mtbf_s) ** 0.5 / 60


# %% wrong="starts_at_once" question="goodput" check="only_what_was_written_lasts" says="go on at once"
def goodput(gaps, interval_s, write_s, restart_s):
    intervals = np.floor(np.asarray(gaps) / (interval_s + write_s))
    return float(interval_s * intervals.sum() / np.sum(gaps))


# %% wrong="everything_lasts" question="goodput" check="only_what_was_written_lasts" says="is lost"
def goodput(gaps, interval_s, write_s, restart_s):
    return float(np.maximum(0, np.asarray(gaps) - restart_s).sum() / np.sum(gaps))


# %% wrong="writes_count_as_work" question="goodput" check="only_what_was_written_lasts" says="no work that lasts"
def goodput(gaps, interval_s, write_s, restart_s):
    left = np.maximum(0, np.asarray(gaps) - restart_s)
    intervals = np.floor(left / (interval_s + write_s))
    return float((interval_s + write_s) * intervals.sum() / np.sum(gaps))


# %% wrong="writes_take_no_time" question="goodput" check="only_what_was_written_lasts" says="which takes time too"
def goodput(gaps, interval_s, write_s, restart_s):
    left = np.maximum(0, np.asarray(gaps) - restart_s)
    return float(interval_s * np.floor(left / interval_s).sum() / np.sum(gaps))


# %% wrong="the_mean_of_the_shares" question="goodput" check="only_what_was_written_lasts" says="mean of the gaps' shares"
def goodput(gaps, interval_s, write_s, restart_s):
    gaps = np.asarray(gaps)
    intervals = np.floor(np.maximum(gaps - restart_s, 0) / (interval_s + write_s))
    return np.mean(intervals * interval_s / gaps)


# %% wrong="the_last_write_may_be_missing" question="goodput" check="only_what_was_written_lasts" says="once its write has ended"
def goodput(gaps, interval_s, write_s, restart_s):
    gaps = np.asarray(gaps)
    intervals = np.maximum(gaps - restart_s + write_s, 0) // (interval_s + write_s)
    return interval_s * intervals.sum() / gaps.sum()


# %% wrong="parts_of_intervals" question="goodput" check="only_what_was_written_lasts" says="not finished when the failure came"
def goodput(gaps, interval_s, write_s, restart_s):
    gaps = np.asarray(gaps)
    intervals = np.maximum(gaps - restart_s, 0) / (interval_s + write_s)
    return interval_s * intervals.sum() / gaps.sum()


# %% wrong="negative_work" question="goodput" check="a_failure_during_a_restart_costs_the_gap" says="finished in such a gap"
def goodput(gaps, interval_s, write_s, restart_s):
    left = np.asarray(gaps) - restart_s
    intervals = np.floor(left / (interval_s + write_s))
    return float(interval_s * intervals.sum() / np.sum(gaps))


# %% wrong="counts_whole_seconds" question="goodput" check="only_what_was_written_lasts" says="Take one gap"
def goodput(gaps, interval_s, write_s, restart_s):
    work = 0.0
    for gap in gaps:
        work += max(0, int(gap - restart_s)) // int(interval_s + write_s) * interval_s
    return work / sum(gaps)


# %% wrong="takes_the_gaps_away" question="goodput" check="lists_will_do_and_stay_as_they_were" says="changed the list"
def goodput(gaps, interval_s, write_s, restart_s):
    whole, work = sum(gaps), 0.0
    gaps = gaps if isinstance(gaps, list) else gaps.tolist()
    while gaps:
        work += max(0, (gaps.pop() - restart_s) // (interval_s + write_s)) * interval_s
    return work / whole


# %% wrong="takes_the_restart_off_in_place" question="goodput" check="lists_will_do_and_stay_as_they_were" says="changed the array"
def goodput(gaps, interval_s, write_s, restart_s):
    whole = sum(gaps)
    if isinstance(gaps, list):
        gaps = np.array(gaps)
    gaps -= restart_s
    intervals = np.floor(np.maximum(gaps, 0) / (interval_s + write_s))
    return interval_s * intervals.sum() / whole


# %% wrong="arrays_only" question="goodput" check="lists_will_do_and_stay_as_they_were" says="np.asarray"
def goodput(gaps, interval_s, write_s, restart_s):
    left = np.maximum(0, gaps - restart_s) if hasattr(gaps, "sum") else np.zeros(1)
    intervals = np.floor(left / (interval_s + write_s))
    return float(interval_s * intervals.sum() / np.sum(gaps))


# %% wrong="rounds_towards_zero" question="goodput" check="a_failure_during_a_restart_costs_the_gap" says="finished in such a gap"
def goodput(gaps, interval_s, write_s, restart_s):
    done = [int((gap - restart_s) / (interval_s + write_s)) for gap in gaps]
    return interval_s * sum(done) / sum(gaps)


# %% wrong="work_in_whole_seconds" question="goodput" check="lists_will_do_and_stay_as_they_were" says="whole numbers"
def goodput(gaps, interval_s, write_s, restart_s):
    gaps = np.asarray(gaps)
    work = np.zeros_like(gaps)
    for i, gap in enumerate(gaps):
        work[i] = interval_s * (max(0.0, gap - restart_s) // (interval_s + write_s))
    return work.sum() / gaps.sum()


# %% wrong="one_link_for_all" question="two_level_seconds" check="one_rank_a_host_is_a_ring_of_hosts" says="inside a host"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    return ring_seconds(n_bytes, width, *inside) + ring_seconds(n_bytes, hosts, *inside)


# %% wrong="a_ring_of_all_ranks" question="two_level_seconds" check="the_ranks_of_a_host_share_its_link" says="three steps"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    return ring_seconds(n_bytes, hosts * width, *between)


# %% wrong="a_link_for_each_rank" question="two_level_seconds" check="the_ranks_of_a_host_share_its_link" says="Who else sends"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    return ring_seconds(n_bytes, width, *inside) + ring_seconds(n_bytes / width, hosts, *between)


# %% wrong="hosts_alone" question="two_level_seconds" check="the_ranks_of_a_host_share_its_link" says="before and after"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    return ring_seconds(n_bytes, hosts, *between)


# %% wrong="no_gather" question="two_level_seconds" check="the_ranks_of_a_host_share_its_link" says="And at the end"
def two_level_seconds(n_bytes, hosts, width, inside, between):
    return ring_seconds(n_bytes, width, *inside) / 2 + ring_seconds(n_bytes, hosts, *between)
