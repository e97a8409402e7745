# Wrong answers that the checks of lab 11 must catch, each with a message of its own.


# %% wrong="parameters_only" question="synchronize" check="buffers_become_rank_0s" says="Which tensors make up the state of a model?"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if (prints != prints[0]).any():
        raise ValueError("different models")
    for param in model.parameters():
        param.data.copy_(comm.broadcast(param.data, root=0))


# %% wrong="checks_nothing" question="synchronize" check="different_models_are_an_error_everywhere" says="rank"
def synchronize(comm, model):
    for tensor in model.state_dict().values():
        tensor.copy_(comm.broadcast(tensor, root=0))


# %% wrong="only_the_odd_one_raises" question="synchronize" check="different_models_are_an_error_everywhere" says="Who would wait for whom now?"
def synchronize(comm, model):
    mine = fingerprint(model)
    if (comm.broadcast(mine, root=0) != mine).any():
        raise ValueError("not rank 0's model")
    if comm.rank == 0:
        return


# %% wrong="looks_at_the_first_two" question="synchronize" check="different_models_are_an_error_everywhere" says="look at all fingerprints"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if (prints[:2] != prints[0]).any():
        raise ValueError("different models")
    for tensor in model.state_dict().values():
        tensor.copy_(comm.broadcast(tensor, root=0))


# %% wrong="looks_at_the_ends" question="synchronize" check="layers_of_other_names_are_another_model" says="look at all of them"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if prints[0] != prints[-1]:
        raise ValueError("different models")
    for tensor in model.state_dict().values():
        tensor.copy_(comm.broadcast(tensor, root=0))


# %% wrong="makes_new_parameters" question="synchronize" check="parameters_become_rank_0s" says="write into a tensor that is there"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if (prints != prints[0]).any():
        raise ValueError("different models")
    state = {name: comm.broadcast(t, root=0) for name, t in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


# %% wrong="result_is_lost" question="synchronize" check="parameters_become_rank_0s" says="still its own"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if (prints != prints[0]).any():
        raise ValueError("different models")
    for tensor in model.state_dict().values():
        tensor = comm.broadcast(tensor, root=0)


# %% wrong="shapes_alone" question="synchronize" check="layers_of_other_names_are_another_model" says="What is in a fingerprint"
def synchronize(comm, model):
    shapes = [tuple(t.shape) for t in model.state_dict().values()]
    prints = comm.all_gather(np.array([hash(tuple(shapes))]))
    if (prints != prints[0]).any():
        raise ValueError("different models")
    for tensor in model.state_dict().values():
        tensor.copy_(comm.broadcast(tensor, root=0))


# %% wrong="only_what_learns" question="synchronize" check="frozen_parameters_are_synchronized_too" says="take part in the forward pass"
def synchronize(comm, model):
    prints = comm.all_gather(fingerprint(model))
    if (prints != prints[0]).any():
        raise ValueError("different models")
    for param in model.parameters():
        if param.requires_grad:
            param.data.copy_(comm.broadcast(param.data, root=0))
    for buffer in model.buffers():
        buffer.copy_(comm.broadcast(buffer, root=0))


# %% wrong="own_order" question="agreed_order" check="everybody_has_rank_0s_order" says="it has its own"
def agreed_order(comm, ready):
    return list(ready)


# %% wrong="last_ranks_order" question="agreed_order" check="everybody_has_rank_0s_order" says="rank 0's"
def agreed_order(comm, ready):
    return comm.broadcast(np.array(ready, dtype=np.int64), root=comm.size - 1).tolist()


# %% wrong="an_array" question="agreed_order" check="everybody_has_rank_0s_order" says="not a list of ints"
def agreed_order(comm, ready):
    return comm.broadcast(np.array(ready, dtype=np.int64), root=0)


# %% wrong="forgets_its_own_order" question="agreed_order" check="everybody_has_rank_0s_order" says="What this rank saw is its own"
def agreed_order(comm, ready):
    ready[:] = comm.broadcast(np.array(ready, dtype=np.int64), root=0).tolist()
    return ready


# %% wrong="a_byte_an_index" question="agreed_order" check="a_thousand_parameters_have_an_order_too" says="Which numbers can your dtype hold"
def agreed_order(comm, ready):
    return comm.broadcast(np.array(ready, dtype=np.uint8), root=0).tolist()


# %% wrong="in_index_order" question="rebuild" check="buckets_follow_the_order" says="In which order do the gradients get ready?"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, full = [], True
    for index in sorted(order):
        if full:
            buckets.append([])
        buckets[-1].append(index)
        cap = first_bytes if len(buckets) == 1 else cap_bytes
        full = sum(n_bytes[i] for i in buckets[-1]) >= cap
    return buckets


# %% wrong="one_cap" question="rebuild" check="the_first_bucket_has_a_cap_of_its_own" says="up to the cap of the others"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, full = [], True
    for index in order:
        if full:
            buckets.append([])
        buckets[-1].append(index)
        full = sum(n_bytes[i] for i in buckets[-1]) >= cap_bytes
    return buckets


# %% wrong="small_cap_for_all" question="rebuild" check="the_first_bucket_has_a_cap_of_its_own" says="For which bucket is that meant?"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, full = [], True
    for index in order:
        if full:
            buckets.append([])
        buckets[-1].append(index)
        full = sum(n_bytes[i] for i in buckets[-1]) >= first_bytes
    return buckets


# %% wrong="no_bytes_is_new" question="rebuild" check="empty_gradients_fill_nothing" says="that a bucket is new"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, held = [], 0
    for index in order:
        if held == 0:
            buckets.append([])
        buckets[-1].append(index)
        held += n_bytes[index]
        if held >= (first_bytes if len(buckets) == 1 else cap_bytes):
            held = 0
    return buckets


# %% wrong="expects_every_index" question="rebuild" check="frozen_parameters_are_in_no_bucket" says="How many indices does"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, full = [], True
    for place in range(len(n_bytes)):
        index = order[place]
        if full:
            buckets.append([])
        buckets[-1].append(index)
        cap = first_bytes if len(buckets) == 1 else cap_bytes
        full = sum(n_bytes[i] for i in buckets[-1]) >= cap
    return buckets


# %% wrong="full_is_not_enough" question="rebuild" check="the_first_bucket_has_a_cap_of_its_own" says="held just its cap"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, full = [], True
    for index in order:
        if full:
            buckets.append([])
        buckets[-1].append(index)
        cap = first_bytes if len(buckets) == 1 else cap_bytes
        full = sum(n_bytes[i] for i in buckets[-1]) > cap
    return buckets


# %% wrong="takes_the_order_away" question="rebuild" check="order_and_sizes_are_only_read" says="Which line changes a list"
def rebuild(n_bytes, order, first_bytes, cap_bytes):
    buckets, cap = [], first_bytes
    while order:
        bucket = [order.pop(0)]
        while order and sum(n_bytes[i] for i in bucket) < cap:
            bucket.append(order.pop(0))
        buckets.append(bucket)
        cap = cap_bytes
    return buckets


# %% wrong="gradients_tell" question="used_parameters" check="what_backward_reaches_is_used" says="can be reached"
def used_parameters(loss, params):
    return [param.grad is not None for param in params]


# %% wrong="recursion" question="used_parameters" check="a_deep_graph_can_be_walked" says="RecursionError"
def used_parameters(loss, params):
    seen, leaves = set(), set()

    def visit(node):
        if node is None or node in seen:
            return
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        for before, _ in node.next_functions:
            visit(before)

    visit(loss.grad_fn)
    return [id(param) in leaves for param in params]


# %% wrong="every_path" question="used_parameters" check="every_node_is_visited_once" says="How does a walk know a node again?"
def used_parameters(loss, params):
    waiting, leaves = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting.extend(before for before, _ in node.next_functions)
    return [id(param) in leaves for param in params]


# %% wrong="equal_numbers" question="used_parameters" check="what_backward_reaches_is_used" says="are not the same parameter"
def used_parameters(loss, params):
    waiting, seen, leaves = [loss.grad_fn], {None}, []
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        waiting.extend(before for before, _ in node.next_functions)
    return [any(torch.equal(param, leaf) for leaf in leaves) for param in params]


# %% wrong="runs_backward" question="used_parameters" check="what_backward_reaches_is_used" says="runs backward"
def used_parameters(loss, params):
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    return [grad is not None for grad in grads]


# %% wrong="makes_gradients" question="used_parameters" check="backward_is_still_to_come" says="had a .grad before"
def used_parameters(loss, params):
    waiting, seen, leaves = [loss.grad_fn], {None}, set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting.extend(before for before, _ in node.next_functions)
    for param in params:
        param.grad = 0 * param.detach() if hasattr(param, "detach") else None
    return [id(param) in leaves for param in params]


# %% wrong="asks_for_names" question="used_parameters" check="every_node_is_visited_once" says="What else does your walk ask for?"
def used_parameters(loss, params):
    waiting, seen, leaves = [loss.grad_fn], {None}, set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name().endswith("AccumulateGrad"):
            leaves.add(id(node.variable))
        waiting.extend(before for before, _ in node.next_functions)
    return [id(param) in leaves for param in params]


# %% wrong="every_loss_has_a_graph" question="used_parameters" check="frozen_parameters_and_constants_are_not_used" says="What is grad_fn"
def used_parameters(loss, params):
    waiting, seen, leaves = [loss.grad_fn], set(), set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting.extend(before for before, _ in node.next_functions if before is not None)
    return [id(param) in leaves for param in params]


# %% wrong="over_those_who_used_it" question="average_used" check="a_rank_without_a_gradient_counts_as_zero" says="here all ranks count"
def average_used(comm, params, used):
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for param, here, count in zip(params, used, counts):
        if count:
            grad = param.grad if here else torch.zeros_like(param)
            param.grad = comm.all_reduce(grad) / int(count)


# %% wrong="stale_gradients" question="average_used" check="a_rank_without_a_gradient_counts_as_zero" says="left over from an earlier step"
def average_used(comm, params, used):
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for param, count in zip(params, counts):
        if count:
            grad = torch.zeros_like(param) if param.grad is None else param.grad
            param.grad = comm.all_reduce(grad) / comm.size


# %% wrong="nothing_to_contribute" question="average_used" check="a_rank_without_a_gradient_counts_as_zero" says="What does such a rank contribute?"
def average_used(comm, params, used):
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for param, count in zip(params, counts):
        if count:
            param.grad = comm.all_reduce(param.grad) / comm.size


# %% wrong="forgets_what_nobody_used" question="average_used" check="what_nobody_used_stays_as_it_was" says="left over from an earlier step"
def average_used(comm, params, used):
    counts = comm.all_reduce(torch.tensor([int(u) for u in used]))
    for param, mine, count in zip(params, used, counts):
        if count == 0:
            param.grad = None
            continue
        grad = param.grad if mine else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / comm.size


# %% wrong="sends_everything" question="average_used" check="what_nobody_used_stays_as_it_was" says="is something else now"
def average_used(comm, params, used):
    comm.all_reduce(np.array(used, dtype=np.int64))
    for param, here in zip(params, used):
        grad = param.grad if here else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / comm.size


# %% wrong="own_knowledge_only" question="average_used" check="a_rank_without_a_gradient_counts_as_zero" says="ranks disagree"
def average_used(comm, params, used):
    for param, here in zip(params, used):
        if here:
            param.grad = comm.all_reduce(param.grad) / comm.size


# %% wrong="sends_everything_by_hand" question="average_used" check="what_nobody_used_is_not_sent" says="What need not be sent?"
def average_used(comm, params, used):
    flags, n = np.array(used, float), comm.size
    others = [((comm.rank + k) % n, (comm.rank - k) % n) for k in range(1, n)]
    counts = flags + sum(comm.sendrecv(flags, *pair) for pair in others)
    for param, count, has in zip(params, counts, used):
        own = param.grad if has else torch.zeros_like(param)
        total = own + sum(comm.sendrecv(own, *pair) for pair in others)
        if count:
            param.grad = total / n


# %% wrong="writes_into_used" question="average_used" check="what_nobody_used_stays_as_it_was" says="The caller may read it afterwards"
def average_used(comm, params, used):
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for i, param in enumerate(params):
        if counts[i]:
            grad = param.grad if used[i] else torch.zeros_like(param)
            param.grad = comm.all_reduce(grad) / comm.size
        used[i] = bool(counts[i])


# %% wrong="counts_one_by_one" question="average_used" check="what_nobody_used_is_not_sent" says="How many counts does one array hold"
def average_used(comm, params, used):
    for param, here in zip(params, used, strict=True):
        if comm.all_reduce(np.array([int(here)]))[0]:
            grad = param.grad if here else torch.zeros_like(param)
            param.grad = comm.all_reduce(grad) / comm.size


# %% wrong="zeros_of_float32" question="average_used" check="zeros_fit_their_parameter" says="What shape and dtype have the zeros"
def average_used(comm, params, used):
    counts = comm.all_reduce(np.array(used, dtype=np.int64))
    for param, here, count in zip(params, used, counts):
        if count:
            grad = param.grad if here else torch.zeros(param.shape)
            param.grad = comm.all_reduce(grad) / comm.size


# %% wrong="divides_by_all" question="average_uneven" check="the_average_is_over_those_with_a_batch" says="number of all ranks"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        grad = param.grad if has_batch else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / comm.size
    return active


# %% wrong="shadows_repeat_themselves" question="average_uneven" check="the_average_is_over_those_with_a_batch" says="old gradients"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        param.grad = comm.all_reduce(param.grad) / active
    return active


# %% wrong="zeroes_what_is_there" question="average_uneven" check="a_shadow_may_never_have_had_a_gradient" says="What has the right shape there?"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        if not has_batch:
            param.grad.zero_()
        param.grad = comm.all_reduce(param.grad) / active
    return active


# %% wrong="averages_over_nobody" question="average_uneven" check="when_nobody_has_a_batch_nothing_changes" says="An average over nobody"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params:
        grad = param.grad if has_batch else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / max(active, 1)
    return active


# %% wrong="returns_its_own" question="average_uneven" check="the_number_of_active_ranks_is_returned" says="When does each of them stop?"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        grad = param.grad if has_batch else torch.zeros_like(param)
        param.grad = comm.all_reduce(grad) / active
    return int(has_batch)


# %% wrong="shadows_of_float32" question="average_uneven" check="shadows_of_four_ranks_fit_their_parameters" says="What shape and dtype have the zeros"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        grad = param.grad if has_batch else torch.zeros(param.shape)
        param.grad = comm.all_reduce(grad) / active
    return active


# %% wrong="multiplies_by_nothing" question="average_uneven" check="a_shadows_old_overflow_is_not_heard" says="an old infinity"
def average_uneven(comm, params, has_batch):
    active = int(comm.all_reduce(np.array([int(has_batch)]))[0])
    for param in params if active else ():
        grad = torch.zeros_like(param) if param.grad is None else param.grad * int(has_batch)
        param.grad = comm.all_reduce(grad) / active
    return active


# %% wrong="divides_too_late" question="fp16_average" check="averages_within_half_precision" says="came back infinite"
def fp16_average(comm, flat):
    return comm.all_reduce(flat.half()).float() / comm.size


# %% wrong="stays_small" question="fp16_average" check="averages_within_half_precision" says="wants float32"
def fp16_average(comm, flat):
    return comm.all_reduce((flat / comm.size).half())


# %% wrong="divides_in_place" question="fp16_average" check="the_flat_gradient_is_left_alone" says="works in place"
def fp16_average(comm, flat):
    return comm.all_reduce(flat.div_(comm.size).half()).float()


# %% wrong="rounds_but_sends_all" question="fp16_average" check="half_the_bytes_are_sent" says="In which dtype did they travel?"
def fp16_average(comm, flat):
    return comm.all_reduce((flat / comm.size).half().float())


# %% wrong="a_quarter_will_do" question="fp16_average" check="many_ranks_do_not_overflow_either" says="For how many ranks"
def fp16_average(comm, flat):
    return comm.all_reduce((flat / 4).half()).float() * 4 / comm.size


# %% wrong="rounds_before_it_divides" question="fp16_average" check="many_ranks_do_not_overflow_either" says="that you make a float16"
def fp16_average(comm, flat):
    return comm.all_reduce(flat.half() / comm.size).float()


# %% wrong="no_memory" question="top_k_average" check="the_largest_entries_are_averaged" says="left out in earlier steps"
def top_k_average(comm, flat, left_out, k):
    picked = flat.abs().topk(k).indices
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(flat[picked]).reshape(-1))
    return total / comm.size


# %% wrong="counts_a_position_once" question="top_k_average" check="the_largest_entries_are_averaged" says="the same position"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    picked = left_out.abs().topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1).long()
    total = torch.zeros_like(flat)
    total[positions] += comm.all_gather(values).reshape(-1)
    return total / comm.size


# %% wrong="largest_not_by_size" question="top_k_average" check="the_largest_entries_are_averaged" says="first average at"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    picked = left_out.topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="says_it_again" question="top_k_average" check="nothing_is_lost_only_late" says="will be said again"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    picked = left_out.abs().topk(k).indices
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(left_out[picked]).reshape(-1))
    return total / comm.size


# %% wrong="a_memory_of_its_own" question="top_k_average" check="nothing_is_lost_only_late" says="changes it in place"
def top_k_average(comm, flat, left_out, k):
    left_out = left_out + flat
    picked = left_out.abs().topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="long_positions" question="top_k_average" check="only_k_entries_travel" says="how many has a position"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    picked = left_out.abs().topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="two_bytes_a_position" question="top_k_average" check="positions_far_back_arrive" says="the largest position"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    picked = left_out.abs().topk(k).indices
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.short()).reshape(-1).long()
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="above_the_next" question="top_k_average" check="all_entries_are_the_plain_average" says="takes k for less than N"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    smallest = left_out.abs().sort(descending=True).values[k]
    picked = (left_out.abs() > smallest).nonzero().reshape(-1)
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="all_that_are_as_large" question="top_k_average" check="a_gradient_of_few_entries_sends_k_too" says="How many positions"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    least = left_out.abs().sort(descending=True).values[k - 1]
    picked = torch.nonzero(left_out.abs() >= least).reshape(-1)
    values = left_out[picked]
    left_out[picked] = 0.0
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(values).reshape(-1))
    return total / comm.size


# %% wrong="zeros_are_not_sent" question="top_k_average" check="a_gradient_of_few_entries_sends_k_too" says="How many positions"
def top_k_average(comm, flat, left_out, k):
    left_out += flat
    largest = torch.zeros_like(left_out)
    at = left_out.abs().topk(k).indices
    largest[at] = left_out[at]
    picked = largest.nonzero().reshape(-1)
    left_out -= largest
    positions = comm.all_gather(picked.int()).reshape(-1)
    total = torch.zeros_like(flat)
    total.index_add_(0, positions, comm.all_gather(largest[picked]).reshape(-1))
    return total / comm.size


# %% wrong="no_orthonormal_columns" question="low_rank_average" check="the_average_is_a_power_step" says="average at"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = comm.all_reduce(full @ q)
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q


# %% wrong="sum_of_q" question="low_rank_average" check="the_average_is_a_power_step" says="Which of the two all-reduces is an average?"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q)).Q
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    q = comm.all_reduce(own)
    return p @ q.T, q


# %% wrong="no_error_feedback" question="low_rank_average" check="the_average_is_a_power_step" says="What was left out before"
def low_rank_average(comm, matrix, q, left_out):
    p = torch.linalg.qr(comm.all_reduce(matrix @ q)).Q
    own = matrix.T @ p
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q


# %% wrong="remembers_nothing" question="low_rank_average" check="memory_and_q_go_on_to_the_next_step" says="changes it in place"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q)).Q
    own = full.T @ p
    left_out = full - p @ own.T
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q


# %% wrong="keeps_q_to_itself" question="low_rank_average" check="the_average_is_a_power_step" says="returns two"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q)).Q
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    return p @ (comm.all_reduce(own) / comm.size).T


# %% wrong="memory_of_the_average" question="low_rank_average" check="memory_and_q_go_on_to_the_next_step" says="Whose factor was taken off?"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q)).Q
    q = comm.all_reduce(full.T @ p) / comm.size
    left_out.copy_(full - p @ q.T)
    return p @ q.T, q


# %% wrong="divides_by_a_length" question="low_rank_average" check="a_gradient_of_zeros_is_no_division" says="divide by a length"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix + left_out
    p = comm.all_reduce(full @ q)
    for column in range(p.shape[1]):
        for before in range(column):
            p[:, column] -= (p[:, before] @ p[:, column]) * p[:, before]
        p[:, column] /= p[:, column].norm()
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q


# %% wrong="sends_the_gradient_itself" question="low_rank_average" check="only_the_factors_travel" says="Which two matrices"
def low_rank_average(comm, matrix, q, left_out):
    full, n = matrix + left_out, comm.size
    pairs = [((comm.rank + k) % n, (comm.rank - k) % n) for k in range(1, n)]
    total = full + sum(comm.sendrecv(full, *pair) for pair in pairs)
    p = torch.linalg.qr(total @ q).Q
    left_out[...] = full - p @ (full.T @ p).T
    mean = total.T @ p / n
    return p @ mean.T, mean


# %% wrong="factors_in_double_precision" question="low_rank_average" check="single_precision_and_wide_matrices" says="Training is in float32"
def low_rank_average(comm, matrix, q, left_out):
    full = matrix.double() + left_out
    p = torch.linalg.qr(comm.all_reduce(full @ q.double())).Q
    own = full.T @ p
    left_out.copy_(full - p @ own.T)
    q = comm.all_reduce(own) / comm.size
    return p @ q.T, q


# %% wrong="always_the_first" question="RoundRobin" check="the_groups_take_turns" says="Whose turn was it?"
class RoundRobin:
    def __init__(self, groups):
        self.groups = list(groups)
        self.rank, self.size = self.groups[0].rank, self.groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        return self.groups[0].all_reduce(x, op, async_op=async_op)


# %% wrong="starts_with_the_second" question="RoundRobin" check="the_groups_take_turns" says="Count from 0"
class RoundRobin:
    def __init__(self, groups):
        self.groups, self.calls = list(groups), 0
        self.rank, self.size = self.groups[0].rank, self.groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        self.calls += 1
        group = self.groups[self.calls % len(self.groups)]
        return group.all_reduce(x, op, async_op=async_op)


# %% wrong="waits_for_each" question="RoundRobin" check="an_asynchronous_call_stays_one" says="What is gained"
class RoundRobin:
    def __init__(self, groups):
        self.groups, self.calls = list(groups), 0
        self.rank, self.size = self.groups[0].rank, self.groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        group = self.groups[self.calls % len(self.groups)]
        self.calls += 1
        return group.all_reduce(x, op)


# %% wrong="one_count_for_all" question="RoundRobin" check="two_of_them_count_apart" says="Whose calls"
class RoundRobin:
    calls = 0

    def __init__(self, groups):
        self.groups, RoundRobin.calls = list(groups), 0
        self.rank, self.size = self.groups[0].rank, self.groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        group = self.groups[RoundRobin.calls % len(self.groups)]
        RoundRobin.calls += 1
        return group.all_reduce(x, op, async_op=async_op)


# %% wrong="turns_the_callers_list_round" question="RoundRobin" check="two_of_them_count_apart" says="Whose list do you turn round"
class RoundRobin:
    def __init__(self, groups):
        self.groups = groups
        self.rank, self.size = groups[0].rank, groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        group = self.groups.pop(0)
        self.groups.append(group)
        return group.all_reduce(x, op, async_op=async_op)


# %% wrong="async_op_for_an_algorithm" question="RoundRobin" check="the_groups_take_turns" says="by its name"
class RoundRobin:
    def __init__(self, groups):
        self.groups, self.calls = list(groups), 0
        self.rank, self.size = self.groups[0].rank, self.groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        group = self.groups[self.calls % len(self.groups)]
        self.calls += 1
        return group.all_reduce(x, op, async_op)


# %% wrong="begins_at_its_rank" question="RoundRobin" check="the_groups_take_turns" says="Count from 0"
class RoundRobin:
    def __init__(self, groups):
        self.groups, self.calls = list(groups), groups[0].rank
        self.rank, self.size = groups[0].rank, groups[0].size

    def all_reduce(self, x, op="sum", async_op=False):
        group = self.groups[self.calls % len(self.groups)]
        self.calls += 1
        return group.all_reduce(x, op, async_op=async_op)
