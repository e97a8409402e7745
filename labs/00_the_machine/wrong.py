# Wrong answers that the checks of lab 00 must catch, each with a message of its own.


# %% wrong="there_or_not" question="counts" check="every_sentence_is_counted_at_its_three_words" says="counts twice"
def counts(sentences, subjects, verbs, objects):
    c = np.zeros((len(subjects), len(verbs), len(objects)), int)
    for subject, verb, thing in sentences:
        c[subjects.index(subject), verbs.index(verb), objects.index(thing)] = 1
    return c


# %% wrong="verbs_first" question="counts" check="every_sentence_is_counted_at_its_three_words" says="in which order"
def counts(sentences, subjects, verbs, objects):
    c = np.zeros((len(verbs), len(subjects), len(objects)), int)
    for subject, verb, thing in sentences:
        c[verbs.index(verb), subjects.index(subject), objects.index(thing)] += 1
    return c


# %% wrong="whole_planes" question="counts" check="every_sentence_is_counted_at_its_three_words" says="all counts together are"
def counts(sentences, subjects, verbs, objects):
    c = np.zeros((len(subjects), len(verbs), len(objects)), int)
    for subject, verb, _ in sentences:
        c[subjects.index(subject), verbs.index(verb)] += 1
    return c


# %% wrong="from_the_last" question="strides" check="the_last_axis_is_the_fastest" says="from the last axis to the first"
def strides_of(shape, item_bytes):
    strides, step = [], item_bytes
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return strides


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))


# %% wrong="counts_numbers" question="strides" check="the_last_axis_is_the_fastest" says="That counts numbers"
def strides_of(shape, item_bytes):
    strides, step = [], 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    return strides


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))


# %% wrong="adds_index_and_stride" question="strides" check="an_element_lies_at_the_sum_of_its_steps" says="does each index move"
def strides_of(shape, item_bytes):
    strides, step = [], item_bytes
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    return strides


def position(index, strides):
    return sum(index) + sum(strides)


# %% wrong="makes_an_array_to_look_at" question="strides" check="the_last_axis_is_the_fastest" says="more than any memory"
def strides_of(shape, item_bytes):
    return list(np.empty(shape, f"V{item_bytes}").strides)


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))


# %% wrong="mean_of_the_turns" question="best_rate" check="the_best_turn_counts" says="mean of all turns"
def best_rate(work, turns=5, clock=perf_counter):
    rates = []
    for _ in range(turns):
        began = clock()
        amount = work()
        rates.append(amount / (clock() - began))
    return sum(rates) / turns


# %% wrong="last_turn" question="best_rate" check="the_best_turn_counts" says="That is the last turn"
def best_rate(work, turns=5, clock=perf_counter):
    for _ in range(turns):
        began = clock()
        amount = work()
        seconds = clock() - began
    return amount / seconds


# %% wrong="fewest_seconds" question="best_rate" check="each_turn_has_its_own_amount" says="not always the one"
def best_rate(work, turns=5, clock=perf_counter):
    best, most = float("inf"), 0.0
    for _ in range(turns):
        began = clock()
        amount = work()
        seconds = clock() - began
        if seconds < best:
            best, most = seconds, amount
    return most / best


# %% wrong="one_after_the_other" question="time_of" check="the_slowest_kind_decides" says="They go on at the same time"
def time_of(task, rates):
    seconds = {kind: amount / rates[kind] for kind, amount in task.items()}
    return sum(seconds.values()), max(seconds, key=seconds.get)


# %% wrong="largest_amount" question="time_of" check="the_slowest_kind_decides" says="which one is the last to end"
def time_of(task, rates):
    kind = max(task, key=task.get)
    return task[kind] / rates[kind], kind


# %% wrong="first_to_end" question="time_of" check="the_slowest_kind_decides" says="when the first kind is done"
def time_of(task, rates):
    seconds = {kind: amount / rates[kind] for kind, amount in task.items()}
    quickest = min(seconds, key=seconds.get)
    return seconds[quickest], quickest


# %% wrong="no_number" question="time_of" check="the_slowest_kind_decides" says="How long does each kind take"
def time_of(task, rates):
    return float("nan"), max(task, key=lambda kind: task[kind] / rates[kind])


# %% wrong="sums" question="by_tensors" check="each_class_has_the_mean_of_its_rows" says="These are sums"
def by_tensors(x, labels, classes):
    return np.eye(classes)[labels].T @ x


# %% wrong="divides_by_all" question="by_tensors" check="each_class_has_the_mean_of_its_rows" says="not by all"
def by_tensors(x, labels, classes):
    return np.eye(classes)[labels].T @ x / len(x)


# %% wrong="a_loop_over_rows" question="by_tensors" check="no_line_runs_once_a_row" says="for all rows at once"
def by_tensors(x, labels, classes):
    sums, n = np.zeros((classes, x.shape[1])), np.zeros((classes, 1))
    for row, label in zip(x, labels):
        sums[label] += row
        n[label] += 1
    return sums / n


# %% wrong="loops_out_of_sight" question="by_tensors" check="no_line_runs_once_a_row" says="for all rows at once"
def by_tensors(x, labels, classes):
    import threading

    sums, counts = np.zeros((classes, x.shape[1])), np.zeros((classes, 1))

    def add(row, label):
        sums[label] += row
        counts[label] += 1

    thread = threading.Thread(target=lambda: [*map(add, x, labels)])
    thread.start()
    thread.join()
    return sums / counts


# %% wrong="same_data_each_step" question="train" check="each_step_is_the_equation" says="asked for the data"
def train(theta, gradient, data, f, steps):
    d = data(0)
    for _ in range(steps):
        theta = f(theta, gradient(theta, d))
    return theta


# %% wrong="gradient_of_the_first_theta" question="train" check="each_step_is_the_equation" says="Which theta is the second gradient of"
def train(theta, gradient, data, f, steps):
    first = theta
    for t in range(steps):
        theta = f(theta, gradient(first, data(t)))
    return theta


# %% wrong="counts_from_one" question="train" check="each_step_is_the_equation" says="asked for the data"
def train(theta, gradient, data, f, steps):
    for t in range(1, steps + 1):
        theta = f(theta, gradient(theta, data(t)))
    return theta


# %% wrong="takes_the_sentences_away" question="counts" check="no_sentences_make_zeros" says="needs it again"
def counts(sentences, subjects, verbs, objects):
    c = np.zeros((len(subjects), len(verbs), len(objects)), int)
    while sentences:
        subject, verb, thing = sentences.pop()
        c[subjects.index(subject), verbs.index(verb), objects.index(thing)] += 1
    return c


# %% wrong="counts_in_bytes" question="counts" check="every_sentence_is_counted_at_its_three_words" says="all counts together are"
def counts(sentences, subjects, verbs, objects):
    c = np.zeros((len(subjects), len(verbs), len(objects)), np.uint8)
    for subject, verb, thing in sentences:
        c[subjects.index(subject), verbs.index(verb), objects.index(thing)] += 1
    return c


# %% wrong="goes_on_counting" question="counts" check="no_sentences_make_zeros" says="from the call before"
def counts(sentences, subjects, verbs, objects, tables={}):  # noqa: B006
    shape = len(subjects), len(verbs), len(objects)
    c = tables.setdefault(shape, np.zeros(shape, int))
    for subject, verb, thing in sentences:
        c[subjects.index(subject), verbs.index(verb), objects.index(thing)] += 1
    return c


# %% wrong="strides_of_floats" question="strides" check="the_last_axis_is_the_fastest" says="whole numbers"
def strides_of(shape, item_bytes):
    strides, step = [], item_bytes * float(np.prod(shape))
    for length in shape:
        step /= length
        strides.append(step)
    return strides


def position(index, strides):
    return sum(i * stride for i, stride in zip(index, strides))


# %% wrong="writes_into_the_task" question="time_of" check="other_kinds_may_come" says="needs it again"
def time_of(task, rates):
    for kind in rates:
        task.setdefault(kind, 0)
    slowest = max(task, key=lambda kind: task[kind] / rates[kind])
    return task[slowest] / rates[slowest], slowest


# %% wrong="divides_the_rows_in_place" question="by_tensors" check="one_class_is_the_mean_of_all" says="needs it again"
def by_tensors(x, labels, classes):
    x /= np.bincount(labels, minlength=classes)[labels][:, np.newaxis]
    return np.eye(classes)[labels].T @ x
