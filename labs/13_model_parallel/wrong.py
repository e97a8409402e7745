# Wrong answers that the checks of lab 13 must catch, each with a message of its own.

# %% wrong="sends_the_gradient_of_its_output" question="naive_step" check="gradients_are_those_of_one_process" says="of its output, or its input"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    y.retain_grad()
    loss = None
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(y.grad, comm.rank - 1)
    return loss


# %% wrong="only_the_last_goes_backward" question="naive_step" check="gradients_are_those_of_one_process" says="has no gradient"
def naive_step(comm, stage, x, target):
    if comm.rank:
        x = comm.recv(comm.rank - 1)
    y = stage(x)
    if comm.rank < comm.size - 1:
        comm.send(y, comm.rank + 1)
        return None
    loss = loss_of(y, target)
    loss.backward()
    return loss


# %% wrong="returns_zero_elsewhere" question="naive_step" check="the_loss_is_returned_on_the_last_rank_alone" says="not None"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = 0.0
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(x.grad, comm.rank - 1)
    return loss


# %% wrong="forgets_the_loss" question="naive_step" check="the_loss_is_returned_on_the_last_rank_alone" says="the last rank returned None"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    if last:
        loss_of(y, target).backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(x.grad, comm.rank - 1)


# %% wrong="sends_the_input_back_too" question="naive_step" check="one_array_goes_each_way" says="each pair of neighbours"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = None
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
        comm.recv(comm.rank + 1)
    if not first:
        comm.send(x.grad, comm.rank - 1)
        comm.send(x, comm.rank - 1)
    return loss


# %% wrong="runs_the_stage_again" question="naive_step" check="one_array_goes_each_way" says="not once"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    loss = None
    if last:
        loss = loss_of(stage(x), target)
        loss.backward()
    else:
        comm.send(stage(x), comm.rank + 1)
        stage(x).backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(x.grad, comm.rank - 1)
    return loss


# %% wrong="steps_at_once" question="naive_step" check="one_array_goes_each_way" says="that is for later"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = None
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.send(x.grad, comm.rank - 1)
    for param in stage.parameters():
        param.data -= 0.1 * param.grad
    return loss


# %% wrong="first_or_last" question="naive_step" check="one_rank_is_a_pipeline_too" says="is the last as well"
def naive_step(comm, stage, x, target):
    if comm.rank == 0:
        y = stage(x)
        comm.send(y, 1)
        y.backward(comm.recv(1))
        return None
    x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = None
    if comm.rank == comm.size - 1:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    comm.send(x.grad, comm.rank - 1)
    return loss


# %% wrong="backwards_in_turns" question="gpipe" check="forwards_first_then_backwards" says="before the last forward"
def gpipe(rank, ranks, microbatches):
    return [f"{rank}{kind}{m}" for m in range(microbatches) for kind in "FB"]


# %% wrong="last_in_first_out" question="gpipe" check="forwards_first_then_backwards" says="from 0 up"
def gpipe(rank, ranks, microbatches):
    order = range(microbatches)
    return [f"{rank}F{m}" for m in order] + [f"{rank}B{m}" for m in order[::-1]]


# %% wrong="forwards_alone" question="gpipe" check="gpipe_does_all_work_once" says="0 times, expected once"
def gpipe(rank, ranks, microbatches):
    return [f"{rank}F{m}" for m in range(microbatches)]


# %% wrong="counts_from_one" question="gpipe" check="gpipe_does_all_work_once" says="which is no work of rank"
def gpipe(rank, ranks, microbatches):
    return [f"{rank + 1}{kind}{m}" for kind in "FB" for m in range(microbatches)]


# %% wrong="pairs_for_text" question="gpipe" check="gpipe_does_all_work_once" says="not a list of actions"
def gpipe(rank, ranks, microbatches):
    return [(rank, kind, m) for kind in "FB" for m in range(microbatches)]


# %% wrong="over_the_work" question="bubble" check="the_bubble_is_what_a_clock_shows" says="idle time over working time"
def bubble(stages, microbatches):
    return (stages - 1) / microbatches


# %% wrong="the_share_that_works" question="bubble" check="the_bubble_is_what_a_clock_shows" says="for which a stage works"
def bubble(stages, microbatches):
    return microbatches / (microbatches + stages - 1)


# %% wrong="one_slot_too_many" question="bubble" check="the_bubble_is_what_a_clock_shows" says="the whole step"
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages)


# %% wrong="slots_of_two" question="bubble" check="one_stage_never_waits" says="single stage wait for"
def bubble(stages, microbatches):
    if stages == 1:
        return 1 / (microbatches + 1)
    return (stages - 1) / (microbatches + stages - 1)


# %% wrong="gpipe_again" question="one_f_one_b" check="each_rank_is_as_far_ahead_as_it_must_be" says="this one included"
def one_f_one_b(rank, ranks, microbatches):
    return [f"{rank}{kind}{m}" for kind in "FB" for m in range(microbatches)]


# %% wrong="one_ahead_too_few" question="one_f_one_b" check="each_rank_is_as_far_ahead_as_it_must_be" says="held at once: 3, expected 4"
def one_f_one_b(rank, ranks, microbatches):
    ahead = max(1, min(ranks - rank - 1, microbatches))
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(microbatches):
        order.append(f"{rank}B{m}")
        if m + ahead < microbatches:
            order.append(f"{rank}F{m + ahead}")
    return order


# %% wrong="forgets_the_cooldown" question="one_f_one_b" check="one_f_one_b_does_all_work_once" says="0 times, expected once"
def one_f_one_b(rank, ranks, microbatches):
    ahead = min(ranks - rank, microbatches)
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(ahead, microbatches):
        order += [f"{rank}B{m - ahead}", f"{rank}F{m}"]
    return order


# %% wrong="forwards_beyond_the_end" question="one_f_one_b" check="one_f_one_b_does_all_work_once" says="which is no work of rank"
def one_f_one_b(rank, ranks, microbatches):
    ahead = min(ranks - rank, microbatches)
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(microbatches):
        order += [f"{rank}B{m}", f"{rank}F{m + ahead}"]
    return order


# %% wrong="latest_first" question="one_f_one_b" check="backward_and_forward_take_turns" says="do not go from 0 up"
def one_f_one_b(rank, ranks, microbatches):
    ahead = min(ranks - rank, microbatches)
    order = [f"{rank}F{m}" for m in range(ahead)]
    waiting = list(range(ahead))
    for m in range(ahead, microbatches + ahead):
        order.append(f"{rank}B{waiting.pop()}")
        if m < microbatches:
            order.append(f"{rank}F{m}")
            waiting.append(m)
    return order


# %% wrong="two_by_two" question="one_f_one_b" check="backward_and_forward_take_turns" says="two of a kind in a row"
def one_f_one_b(rank, ranks, microbatches):
    ahead = min(ranks - rank, microbatches)
    forwards = [f"{rank}F{m}" for m in range(microbatches)]
    backwards = [f"{rank}B{m}" for m in range(microbatches)]
    order, forwards = forwards[:ahead], forwards[ahead:]
    step = min(2, ahead)
    while backwards:
        order += backwards[:step] + forwards[:step]
        backwards, forwards = backwards[step:], forwards[step:]
    return order


# %% wrong="as_if_there_were_enough" question="one_f_one_b" check="fewer_micro_batches_than_stages" says="which is no work of rank"
def one_f_one_b(rank, ranks, microbatches):
    ahead = ranks - rank
    order = [f"{rank}F{m}" for m in range(ahead)]
    for m in range(microbatches):
        order.append(f"{rank}B{m}")
        if m + ahead < microbatches:
            order.append(f"{rank}F{m + ahead}")
    return order


# %% wrong="no_sum_behind" question="column_row" check="column_row_gives_z" says="by hand"
def column_row(comm, x, a, b):
    return np.maximum(x @ a, 0) @ b


# %% wrong="without_relu" question="column_row" check="column_row_gives_z" says="where is the relu"
def column_row(comm, x, a, b):
    return comm.all_reduce(x @ a @ b)


# %% wrong="mean_for_sum" question="column_row" check="column_row_gives_z" says="number of ranks"
def column_row(comm, x, a, b):
    return comm.all_reduce(np.maximum(x @ a, 0) @ b, op="avg")


# %% wrong="gathers_the_hidden_layer" question="column_row" check="column_row_needs_one_collective" says="One all-reduce"
def column_row(comm, x, a, b):
    hidden = np.concatenate(comm.all_gather(np.maximum(x @ a, 0)), axis=1)
    w2 = np.concatenate(comm.all_gather(b), axis=0)
    return hidden @ w2


# %% wrong="changes_its_input" question="column_row" check="column_row_gives_z" says="the inputs were changed"
def column_row(comm, x, a, b):
    hidden = x @ a
    a[:] = 0
    return comm.all_reduce(np.maximum(hidden, 0) @ b)


# %% wrong="for_two_ranks" question="column_row" check="column_row_on_one_rank_and_other_sizes" says=": z at"
def column_row(comm, x, a, b):
    z = np.maximum(x @ a, 0) @ b
    return z if comm.size == 1 and len(x) > 2 else comm.all_reduce(z) * (1 + (comm.size == 3))


# %% wrong="relu_of_addends" question="row_column" check="row_column_gives_z" says="relu of each addend is not relu of their sum"
def row_column(comm, x, a, b):
    n = len(a)
    own = x[:, comm.rank * n : (comm.rank + 1) * n]
    hidden = comm.all_reduce(np.maximum(own @ a, 0))
    return np.concatenate(comm.all_gather(hidden @ b), axis=1)


# %% wrong="own_columns_only" question="row_column" check="row_column_gives_z" says="expected that of z"
def row_column(comm, x, a, b):
    n = len(a)
    own = x[:, comm.rank * n : (comm.rank + 1) * n]
    return np.maximum(comm.all_reduce(own @ a), 0) @ b


# %% wrong="stacks_along_rows" question="row_column" check="row_column_gives_z" says="expected that of z"
def row_column(comm, x, a, b):
    n = len(a)
    own = x[:, comm.rank * n : (comm.rank + 1) * n]
    hidden = np.maximum(comm.all_reduce(own @ a), 0)
    return np.concatenate(comm.all_gather(hidden @ b), axis=0)


# %% wrong="gathers_weights_instead" question="row_column" check="row_column_sums_before_relu_and_gathers_behind" says="which lies side by side"
def row_column(comm, x, a, b):
    w1 = np.concatenate(comm.all_gather(a), axis=0)
    w2 = np.concatenate(comm.all_gather(b), axis=1)
    return np.maximum(x @ w1, 0) @ w2


# %% wrong="slices_for_two_ranks" question="row_column" check="row_column_on_one_rank_and_other_sizes" says=": z at"
def row_column(comm, x, a, b):
    n = len(a)
    own = x[:, comm.rank * n : (comm.rank + 1) * n]
    hidden = np.maximum(comm.all_reduce(own @ a) * (2 if len(x) == 1 else 1), 0)
    return np.concatenate(comm.all_gather(hidden @ b), axis=1)


# %% wrong="copy_keeps_its_own_gradient" question="conjugate" check="copy_passes_x_and_sums_gradients" says="It is the rank's own"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


# %% wrong="reduce_sums_both_ways" question="conjugate" check="reduce_sums_x_and_passes_gradients" says="by one addend"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad), None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad), None


# %% wrong="both_hand_on" question="conjugate" check="reduce_sums_x_and_passes_gradients" says="did not return the sum"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad), None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


# %% wrong="one_gradient_short" question="conjugate" check="copy_passes_x_and_sums_gradients" says="sent a gradient back"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad)


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


# %% wrong="copy_sums_forward_too" question="conjugate" check="copy_passes_x_and_sums_gradients" says="something else than x"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad), None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return comm.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


# %% wrong="gathers_to_sum" question="conjugate" check="each_function_communicates_once" says="one is enough"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_gather(grad).sum(0), None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        return comm.all_gather(x).sum(0)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


# %% wrong="forward_only" question="communication" check="a_pipeline_sends_activations_and_gradients" says="what crosses one"
def communication(ranks, blocks, activation_bytes):
    return (ranks - 1) * activation_bytes, blocks * 4 * (ranks - 1) * activation_bytes


# %% wrong="bytes_of_a_rank" question="communication" check="tensor_parallelism_sums_twice_a_block" says="what one rank sends"
def communication(ranks, blocks, activation_bytes):
    a = activation_bytes
    return 2 * (ranks - 1) * a, blocks * 4 * (ranks - 1) / ranks * a


# %% wrong="one_sum_a_block" question="communication" check="tensor_parallelism_sums_twice_a_block" says="in the backward pass too"
def communication(ranks, blocks, activation_bytes):
    return 2 * (ranks - 1) * activation_bytes, blocks * 2 * (ranks - 1) * activation_bytes


# %% wrong="a_constant_ring" question="communication" check="one_rank_sends_nothing" says="Whom could it send to"
def communication(ranks, blocks, activation_bytes):
    a = activation_bytes
    return 2 * (ranks - 1) * a, 4 * blocks * max(1, ranks - 1) * a


# %% wrong="only_working_time" question="step_seconds" check="without_messages_it_is_slots_of_both" says="When does it wait"
def step_seconds(stages, microbatches, forward, backward, message):
    return microbatches * (forward + backward) + 2 * (stages - 1) * message


# %% wrong="every_message" question="step_seconds" check="a_message_is_waited_for_at_each_boundary_both_ways" says="while it computes the first"
def step_seconds(stages, microbatches, forward, backward, message):
    slots = microbatches + stages - 1
    return slots * (forward + backward) + 2 * (stages - 1) * microbatches * message


# %% wrong="forward_messages" question="step_seconds" check="a_message_is_waited_for_at_each_boundary_both_ways" says="And backward"
def step_seconds(stages, microbatches, forward, backward, message):
    slots = microbatches + stages - 1
    return slots * (forward + backward) + (stages - 1) * message


# %% wrong="a_message_a_stage" question="step_seconds" check="one_stage_waits_for_no_message" says="one stage"
def step_seconds(stages, microbatches, forward, backward, message):
    slots = microbatches + stages - 1
    return slots * (forward + backward) + 2 * max(stages - 1, 1) * message


# %% wrong="the_older_words" question="views" check="what_cuts_operators_is_told_from_what_cuts_between" says="by several together"
views = dict(zip(METHODS, ("neither", "inter", "inter", "neither", "neither")))

# %% wrong="storage_is_a_cut" question="views" check="what_cuts_neither_is_known" says="Is that another device"
views = dict(zip(METHODS, ("intra", "inter", "intra", "neither", "intra")))

# %% wrong="all_inside" question="views" check="what_cuts_operators_is_told_from_what_cuts_between" says="by one device there"
views = dict(zip(METHODS, ("intra", "intra", "intra", "neither", "neither")))


# %% wrong="leaves_while_sending" question="naive_step" check="one_array_goes_each_way" says="Who waits for what isend"
def naive_step(comm, stage, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(comm.rank - 1).requires_grad_()
    y = stage(x)
    loss = None
    if last:
        loss = loss_of(y, target)
        loss.backward()
    else:
        comm.send(y, comm.rank + 1)
        y.backward(comm.recv(comm.rank + 1))
    if not first:
        comm.isend(x.grad, comm.rank - 1)
    return loss


# %% wrong="sums_into_the_gradient" question="conjugate" check="copy_passes_x_and_sums_gradients" says="wrote into the gradient"
class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.comm.all_reduce(grad, out=grad), None


# %% wrong="sums_into_x" question="conjugate" check="reduce_sums_x_and_passes_gradients" says="wrote into x"
class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, comm):
        addend = x.detach()
        comm.all_reduce(addend, out=addend)
        return addend.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None
