# Wrong answers that the checks of lab 10 must catch, each with a message of its own.
# ruff: noqa: SIM105 - fragments that run among the names of the lab

# %% wrong="forgets_to_divide" question="average_gradients" check="gradients_become_the_average" says="the sum over the ranks"
def average_gradients(comm, params):
    for param in params:
        param.grad.copy_(comm.all_reduce(param.grad))


# %% wrong="averages_the_weights" question="average_gradients" check="weights_are_left_alone" says="changed the weights"
def average_gradients(comm, params):
    for grad in params:
        grad.data.copy_(comm.all_reduce(grad.data) / comm.size)


# %% wrong="divides_what_it_has" question="average_gradients" check="gradients_become_the_average" says="nothing of the others is in it"
def average_gradients(comm, params):
    for param in params:
        param.grad /= comm.size


# %% wrong="result_is_lost" question="average_gradients" check="gradients_become_the_average" says="has not reached .grad"
def average_gradients(comm, params):
    for param in params:
        grad = param.grad
        grad = comm.all_reduce(grad) / comm.size


# %% wrong="divides_twice" question="average_gradients" check="gradients_become_the_average" says="once more"
def average_gradients(comm, params):
    for param in params:
        param.grad.copy_(comm.all_reduce(param.grad, op="avg") / comm.size)


# %% wrong="all_at_once_already" question="average_gradients" check="one_all_reduce_a_parameter" says="How many should there be"
def average_gradients(comm, params):
    flat_all_reduce(comm, params)


# %% wrong="slices_what_has_no_axis" question="average_gradients" check="any_shape_in_double_precision_is_averaged" says="no axis"
def average_gradients(comm, params):
    for param in params:
        param.grad[:] = comm.all_reduce(param.grad) / comm.size


# %% wrong="rounds_on_the_way" question="average_gradients" check="any_shape_in_double_precision_is_averaged" says="Which dtype has each tensor"
def average_gradients(comm, params):
    for param in params:
        param.grad.copy_(comm.all_reduce(param.grad.float()) / comm.size)


# %% wrong="gathers_and_adds" question="average_gradients" check="one_all_reduce_a_parameter" says="How many should there be"
def average_gradients(comm, params):
    for param in params:
        param.grad.copy_(comm.all_gather(param.grad).sum(0) / comm.size)


# %% wrong="hook_gets_the_parameter" question="attach_hooks" check="the_hook_leaves_weights_alone" says="which of the two is your variable?"
def attach_hooks(comm, params):
    def average(grad):
        grad.data.copy_(comm.all_reduce(grad.data) / comm.size)

    for param in params:
        param.register_post_accumulate_grad_hook(average)


# %% wrong="hook_forgets_to_divide" question="attach_hooks" check="gradients_are_averaged_when_backward_returns" says="the sum over the ranks"
def attach_hooks(comm, params):
    def average(param):
        param.grad.copy_(comm.all_reduce(param.grad))

    for param in params:
        param.register_post_accumulate_grad_hook(average)


# %% wrong="only_the_matrices" question="attach_hooks" check="gradients_are_averaged_when_backward_returns" says="still its own"
def attach_hooks(comm, params):
    def average(param):
        param.grad.copy_(comm.all_reduce(param.grad) / comm.size)

    for param in params:
        if param.dim() > 1:
            param.register_post_accumulate_grad_hook(average)


# %% wrong="once_only" question="attach_hooks" check="every_backward_is_averaged" says="The first backward is not the last"
def attach_hooks(comm, params):
    for param in params:
        handles = []

        def average(param, handles=handles):
            param.grad.copy_(comm.all_reduce(param.grad) / comm.size)
            handles[0].remove()

        handles.append(param.register_post_accumulate_grad_hook(average))


# %% wrong="all_when_the_first_is_there" question="attach_hooks" check="each_gradient_goes_by_itself" says="count on another gradient"
def attach_hooks(comm, params):
    params[0].register_post_accumulate_grad_hook(lambda _: average_gradients(comm, params))


# %% wrong="never_copied_back" question="flat_all_reduce" check="each_average_reaches_its_own_gradient" says="has not reached .grad"
def flat_all_reduce(comm, params):
    flat = torch.cat([param.grad.reshape(-1) for param in params])
    flat.copy_(comm.all_reduce(flat) / comm.size)


# %% wrong="flat_sum" question="flat_all_reduce" check="each_average_reaches_its_own_gradient" says="the sum over the ranks"
def flat_all_reduce(comm, params):
    grads = [param.grad for param in params]
    flat = comm.all_reduce(torch.cat([grad.reshape(-1) for grad in grads]))
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.reshape(grad.shape))


# %% wrong="back_in_another_order" question="flat_all_reduce" check="each_average_reaches_its_own_gradient" says="the average of the ranks' is"
def flat_all_reduce(comm, params):
    grads = [param.grad for param in params]
    flat = comm.all_reduce(torch.cat([grad.reshape(-1) for grad in grads])) / comm.size
    at = 0
    for grad in reversed(grads):
        grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
        at += grad.numel()


# %% wrong="one_by_one_after_all" question="flat_all_reduce" check="all_gradients_in_one_message" says="How many latencies"
def flat_all_reduce(comm, params):
    for param in params:
        param.grad.copy_(comm.all_reduce(param.grad) / comm.size)


# %% wrong="a_flat_tensor_of_float32" question="flat_all_reduce" check="views_and_double_precision_fit_in_one_message" says="Which dtype has each tensor"
def flat_all_reduce(comm, params):
    flat, at = torch.zeros(sum(param.numel() for param in params)), 0
    for param in params:
        flat[at : at + param.numel()] = param.grad.reshape(-1)
        at += param.numel()
    flat = comm.all_reduce(flat) / comm.size
    for param, part in zip(params, flat.split([param.numel() for param in params]), strict=True):
        param.grad.copy_(part.reshape(param.shape))


# %% wrong="views_of_what_is_no_view" question="flat_all_reduce" check="views_and_double_precision_fit_in_one_message" says="transposed views"
def flat_all_reduce(comm, params):
    grads = [param.grad for param in params]
    flat = comm.all_reduce(torch.cat([grad.view(-1) for grad in grads])) / comm.size
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view(grad.shape))


# %% wrong="bytes_for_indices" question="assign_buckets" check="every_gradient_is_in_one_bucket" says="By what does one know whose they are?"
def assign_buckets(n_bytes, cap_bytes):
    buckets, filled = [], cap_bytes
    for size in reversed(n_bytes):
        if filled >= cap_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(size)
        filled += size
    return buckets


# %% wrong="first_to_last" question="assign_buckets" check="the_last_parameter_comes_first" says="Whose gradient does backward finish"
def assign_buckets(n_bytes, cap_bytes):
    buckets, filled = [], cap_bytes
    for index in range(len(n_bytes)):
        if filled >= cap_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(index)
        filled += n_bytes[index]
    return buckets


# %% wrong="closes_too_early" question="assign_buckets" check="a_bucket_is_closed_once_it_is_full" says="closed before it was full"
def assign_buckets(n_bytes, cap_bytes):
    buckets, filled = [], 0
    for index in reversed(range(len(n_bytes))):
        if not buckets or filled + n_bytes[index] > cap_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(index)
        filled += n_bytes[index]
    return buckets


# %% wrong="forgets_the_rest" question="assign_buckets" check="every_gradient_is_in_one_bucket" says="in no bucket"
def assign_buckets(n_bytes, cap_bytes):
    buckets, bucket, filled = [], [], 0
    for index in reversed(range(len(n_bytes))):
        bucket.append(index)
        filled += n_bytes[index]
        if filled >= cap_bytes:
            buckets.append(bucket)
            bucket, filled = [], 0
    return buckets


# %% wrong="one_bucket" question="assign_buckets" check="a_bucket_is_closed_once_it_is_full" says="was full before its last"
def assign_buckets(n_bytes, cap_bytes):
    return [list(reversed(range(len(n_bytes))))] if n_bytes else []


# %% wrong="no_bytes_is_new" question="assign_buckets" check="a_gradient_of_no_bytes_fills_nothing" says="that a bucket is new"
def assign_buckets(n_bytes, cap_bytes):
    buckets, filled = [], 0
    for index in reversed(range(len(n_bytes))):
        if filled == 0:
            buckets.append([])
        buckets[-1].append(index)
        filled += n_bytes[index]
        if filled >= cap_bytes:
            filled = 0
    return buckets


# %% wrong="a_call_a_parameter" question="assign_buckets" check="thousands_of_parameters_are_dealt_out" says="How deep do your calls go"
def assign_buckets(n_bytes, cap_bytes):
    def fill(index, bucket, filled):
        if index < 0:
            return [bucket] if bucket else []
        if bucket and filled >= cap_bytes:
            return [bucket, *fill(index, [], 0)]
        return fill(index - 1, [*bucket, index], filled + n_bytes[index])

    return fill(len(n_bytes) - 1, [], 0)


# %% wrong="takes_the_sizes_away" question="assign_buckets" check="the_sizes_are_only_read" says="Which line changes the list"
def assign_buckets(n_bytes, cap_bytes):
    buckets, bucket, filled = [], [], 0
    while n_bytes:
        filled += n_bytes.pop()
        bucket.append(len(n_bytes))
        if filled >= cap_bytes:
            buckets.append(bucket)
            bucket, filled = [], 0
    return [*buckets, bucket] if bucket else buckets


# %% wrong="whatever_is_full" question="launchable" check="full_buckets_go_in_their_order" says="which does it send first?"
def launchable(waiting, next_bucket):
    return [b for b in range(next_bucket, len(waiting)) if waiting[b] == 0]


# %% wrong="one_at_a_time" question="launchable" check="full_buckets_go_in_their_order" says="who launches the others"
def launchable(waiting, next_bucket):
    if next_bucket < len(waiting) and waiting[next_bucket] == 0:
        return [next_bucket]
    return []


# %% wrong="from_the_start" question="launchable" check="full_buckets_go_in_their_order" says="launched already"
def launchable(waiting, next_bucket):
    stop = 0
    while stop < len(waiting) and waiting[stop] == 0:
        stop += 1
    return list(range(stop))


# %% wrong="marks_what_is_launched" question="launchable" check="the_books_are_only_read" says="This one only looks"
def launchable(waiting, next_bucket):
    due = []
    while next_bucket < len(waiting) and waiting[next_bucket] == 0:
        waiting[next_bucket] = -1
        due.append(next_bucket)
        next_bucket += 1
    return due


# %% wrong="launches_when_full" question="Overlapped" check="ranks_may_finish_in_different_orders" says="In which order must buckets be launched?"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        b = self.bucket_of[index]
        self.waiting[b] -= 1
        if self.waiting[b] == 0:
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="forgets_what_has_gone" question="Overlapped" check="backward_goes_on_while_buckets_travel" says="know which have gone?"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="results_are_waited_for_and_lost" question="Overlapped" check="ranks_may_finish_in_different_orders" says="What becomes of the results"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append(self.comm.all_reduce(flat, async_op=True))
            self.next_bucket = b + 1

    def finish(self):
        for work in self.works:
            work.wait()
        self.start_afresh()


# %% wrong="waits_in_the_hook" question="Overlapped" check="backward_goes_on_while_buckets_travel" says="Which argument of all_reduce"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat)))
            self.next_bucket = b + 1

    def finish(self):
        for b, flat in self.works:
            flat, at = flat / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="launches_in_finish" question="Overlapped" check="backward_goes_on_while_buckets_travel" says="When could the first have been launched?"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if self.sync:
            self.waiting[self.bucket_of[index]] -= 1

    def finish(self):
        for bucket in self.buckets:
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in bucket])
            flat, at = self.comm.all_reduce(flat, async_op=True).wait() / self.comm.size, 0
            for i in bucket:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="old_books" question="Overlapped" check="the_second_iteration_is_like_the_first" says="still in the books"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.works = []


# %% wrong="counts_while_sync_is_off" question="Overlapped" check="nothing_is_counted_while_sync_is_off" says="is it reached while sync is off"
class Overlapped(Reducer):
    def on_gradient(self, index):
        self.waiting[self.bucket_of[index]] -= 1
        if not self.sync:
            return
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="overlapped_sum" question="Overlapped" check="every_gradient_becomes_the_average" says="the sum over the ranks"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait(), 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="a_message_a_gradient" question="Overlapped" check="one_all_reduce_a_bucket" says="What is a bucket for?"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            for i in self.buckets[b]:
                self.works.append((i, self.comm.all_reduce(self.params[i].grad, async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for i, work in self.works:
            self.params[i].grad.copy_(work.wait() / self.comm.size)
        self.start_afresh()


# %% wrong="buckets_of_float32" question="Overlapped" check="any_shape_in_double_precision_is_bucketed" says="Which dtype has each tensor"
class Overlapped(Reducer):
    def on_gradient(self, index):
        if not self.sync:
            return
        self.waiting[self.bucket_of[index]] -= 1
        for b in launchable(self.waiting, self.next_bucket):
            flat = torch.cat([self.params[i].grad.reshape(-1).float() for i in self.buckets[b]])
            self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
            self.next_bucket = b + 1

    def finish(self):
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="the_rest_in_finish" question="Overlapped" check="full_buckets_do_not_wait_for_the_end_of_backward" says="which may go in that moment"
class Overlapped(Reducer):
    def start(self, b):
        flat = torch.cat([self.params[i].grad.reshape(-1) for i in self.buckets[b]])
        self.works.append((b, self.comm.all_reduce(flat, async_op=True)))
        self.next_bucket = b + 1

    def on_gradient(self, index):
        if not self.sync:
            return
        b = self.bucket_of[index]
        self.waiting[b] -= 1
        if self.waiting[b] == 0 and b == self.next_bucket:
            self.start(b)

    def finish(self):
        for b in range(self.next_bucket, len(self.buckets)):
            self.start(b)
        for b, work in self.works:
            flat, at = work.wait() / self.comm.size, 0
            for i in self.buckets[b]:
                grad = self.params[i].grad
                grad.copy_(flat[at : at + grad.numel()].reshape(grad.shape))
                at += grad.numel()
        self.start_afresh()


# %% wrong="without_finally" question="no_sync" check="an_exception_switches_sync_on_again" says="Which statement runs on every way out?"
@contextmanager
def no_sync(reducer):
    before = reducer.sync
    reducer.sync = False
    yield
    reducer.sync = before


# %% wrong="always_on_after" question="no_sync" check="a_block_in_a_block_stays_off" says="*before* the inner block"
@contextmanager
def no_sync(reducer):
    reducer.sync = False
    try:
        yield
    finally:
        reducer.sync = True


# %% wrong="does_nothing" question="no_sync" check="sync_is_off_inside_and_on_after" says="What should it be in each place?"
@contextmanager
def no_sync(reducer):
    yield


# %% wrong="swallows_exceptions" question="no_sync" check="an_exception_switches_sync_on_again" says="swallowed"
@contextmanager
def no_sync(reducer):
    before, reducer.sync = reducer.sync, False
    try:
        yield
    except Exception:
        pass
    reducer.sync = before


# %% wrong="exceptions_only" question="no_sync" check="an_interrupt_is_a_way_out_too" says="presses stop"
@contextmanager
def no_sync(reducer):
    before, reducer.sync = reducer.sync, False
    try:
        yield
    except Exception:
        reducer.sync = before
        raise
    reducer.sync = before


# %% wrong="counts_how_deep" question="no_sync" check="each_reducer_has_its_own_before" says="Where is it kept"
@contextmanager
def no_sync(reducer):
    no_sync.depth = getattr(no_sync, "depth", 0) + 1
    reducer.sync = False
    try:
        yield
    finally:
        no_sync.depth -= 1
        reducer.sync = no_sync.depth == 0


# %% wrong="wire_never_waits" question="finish_time" check="one_wire_in_order" says="a wire that never waits"
def finish_time(ready, duration):
    return float(sum(duration))


# %% wrong="sent_at_the_end" question="finish_time" check="one_wire_in_order" says="no overlap"
def finish_time(ready, duration):
    return max(ready, default=0.0) + sum(duration)


# %% wrong="a_wire_each" question="finish_time" check="one_wire_in_order" says="may still be busy"
def finish_time(ready, duration):
    return max((r + d for r, d in zip(ready, duration)), default=0.0)


# %% wrong="never_idle" question="finish_time" check="one_wire_in_order" says="fall idle between"
def finish_time(ready, duration):
    return ready[0] + sum(duration) if ready else 0.0


# %% wrong="asks_whether_a_list_is_empty" question="finish_time" check="arrays_will_do_too" says="an array not"
def finish_time(ready, duration):
    if not ready:
        return 0.0
    free = ready[0] + duration[0]
    for at, takes in zip(ready[1:], duration[1:], strict=True):
        free = max(free, at) + takes
    return free


# %% wrong="writes_the_ends_into_ready" question="finish_time" check="the_times_are_only_read" says="writes into it"
def finish_time(ready, duration):
    for i in range(len(ready)):
        ready[i] = max(ready[i], ready[i - 1] if i else 0.0) + duration[i]
    return ready[-1] if len(ready) else 0.0


# %% wrong="forgets_the_batch" question="data_parallel_bytes" check="three_transfers_a_step" says="What else do the others need"
def data_parallel_bytes(n, model_bytes, batch_bytes):
    return (n - 1) * model_bytes, model_bytes


# %% wrong="whole_batch_to_all" question="data_parallel_bytes" check="three_transfers_a_step" says="need the whole batch"
def data_parallel_bytes(n, model_bytes, batch_bytes):
    return (n - 1) * (model_bytes + batch_bytes), model_bytes


# %% wrong="boss_sends_to_itself" question="data_parallel_bytes" check="three_transfers_a_step" says="send anything to itself"
def data_parallel_bytes(n, model_bytes, batch_bytes):
    return n * model_bytes + batch_bytes, model_bytes


# %% wrong="workers_talk_to_all" question="data_parallel_bytes" check="three_transfers_a_step" says="one message goes back"
def data_parallel_bytes(n, model_bytes, batch_bytes):
    return (n - 1) * (model_bytes + batch_bytes / n), (n - 1) * model_bytes
