# Wrong answers that the checks of lab 09 must catch, each with a message of its own.


# %% wrong="boss_sends_to_itself" question="naive_bytes" check="the_boss_sends_the_array_to_all_others" says="send the sum to itself"
def naive_bytes(n, n_bytes):
    return n * n_bytes


# %% wrong="counts_both_ways" question="naive_bytes" check="the_boss_sends_the_array_to_all_others" says="sends and receives together"
def naive_bytes(n, n_bytes):
    return 2 * (n - 1) * n_bytes


# %% wrong="thinks_of_a_worker" question="naive_bytes" check="the_boss_sends_the_array_to_all_others" says="one of the others"
def naive_bytes(n, n_bytes):
    return n_bytes


# %% wrong="drops_the_tail" question="chunk_bounds" check="every_element_is_in_one_chunk" says="What became of the elements after?"
def chunk_bounds(n_elements, n):
    size = n_elements // n
    return [(i * size, (i + 1) * size) for i in range(n)]


# %% wrong="last_takes_the_rest" question="chunk_bounds" check="sizes_differ_by_at_most_one" says="what is left over"
def chunk_bounds(n_elements, n):
    size = n_elements // n
    return [(i * size, n_elements if i == n - 1 else (i + 1) * size) for i in range(n)]


# %% wrong="too_few_chunks" question="chunk_bounds" check="every_element_is_in_one_chunk" says="one a rank"
def chunk_bounds(n_elements, n):
    size = max(1, -(-n_elements // n))
    return [(lo, min(lo + size, n_elements)) for lo in range(0, n_elements, size)]


# %% wrong="first_chunks_take_two" question="chunk_bounds" check="sizes_differ_by_at_most_one" says="what is left over"
def chunk_bounds(n_elements, n):
    size = -(-n_elements // n)
    return [(min(i * size, n_elements), min((i + 1) * size, n_elements)) for i in range(n)]


# %% wrong="floating_bounds" question="chunk_bounds" check="bounds_are_exact_integers_however_large" says="in floating point"
def chunk_bounds(n_elements, n):
    return [(int(i * n_elements / n), int((i + 1) * n_elements / n)) for i in range(n)]


# %% wrong="half_an_element" question="chunk_bounds" check="every_element_is_in_one_chunk" says="What would half an element be?"
def chunk_bounds(n_elements, n):
    size = n_elements / n
    return [(i * size, (i + 1) * size) for i in range(n)]


# %% wrong="sizes_alone" question="chunk_bounds" check="every_element_is_in_one_chunk" says="where it begins, and where it ends"
def chunk_bounds(n_elements, n):
    return [n_elements // n + (i < n_elements % n) for i in range(n)]


# %% wrong="never_accumulates" question="ring_reduce_scatter" check="each_rank_ends_with_its_own_chunk_complete" says="What did its left neighbour know"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x.copy(), n)
    result = chunks[rank]
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], right)
        received = comm.recv(left)
        if step == n - 2:
            result = COMBINE[op](result, received)
    return result


# %% wrong="listens_first" question="ring_reduce_scatter" check="each_rank_ends_with_its_own_chunk_complete" says="no rank sends"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        arrived = comm.recv(left)
        mine = chunks[(rank - 2 - step) % n]
        mine[...] = COMBINE[op](mine, arrived)
        comm.send(chunks[(rank - 1 - step) % n], right)
    return chunks[rank]


# %% wrong="ends_one_place_too_far" question="ring_reduce_scatter" check="each_rank_ends_with_its_own_chunk_complete" says="Which chunk should end up here"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        comm.send(chunks[(rank - step) % n], right)
        mine = chunks[(rank - 1 - step) % n]
        mine[...] = COMBINE[op](mine, comm.recv(left))
    return chunks[(rank + 1) % n]


# %% wrong="works_in_place" question="ring_reduce_scatter" check="the_callers_array_is_left_alone" says="belongs to the caller"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x, n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], right)
        mine = chunks[(rank - 2 - step) % n]
        mine[...] = COMBINE[op](mine, comm.recv(left))
    return chunks[rank]


# %% wrong="sends_everything" question="ring_reduce_scatter" check="one_chunk_a_step_to_the_right_neighbour" says="How much of the array is in one message?"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    total, passing = x.copy(), x
    for _ in range(n - 1):
        comm.send(passing, (rank + 1) % n)
        passing = comm.recv((rank - 1) % n)
        total = COMBINE[op](total, passing)
    return split(total, n)[rank]


# %% wrong="straight_to_the_owner" question="ring_reduce_scatter" check="one_chunk_a_step_to_the_right_neighbour" says="one neighbour to send to"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    chunks = split(x.copy(), n)
    for other in range(n):
        if other != rank:
            comm.send(chunks[other], other)
    for other in range(n):
        if other != rank:
            chunks[rank][...] = COMBINE[op](chunks[rank], comm.recv(other))
    return chunks[rank]


# %% wrong="a_new_name_for_the_sum" question="ring_reduce_scatter" check="any_operation_and_one_rank" says="Where does what has been combined go?"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], (rank + 1) % n)
        mine = chunks[(rank - 2 - step) % n]
        mine = COMBINE[op](mine, comm.recv((rank - 1) % n))
    return chunks[rank]


# %% wrong="always_sums" question="ring_reduce_scatter" check="any_operation_and_one_rank" says="Where in your code does op count?"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], right)
        chunks[(rank - 2 - step) % n] += comm.recv(left)
    return chunks[rank]


# %% wrong="works_in_float64" question="ring_reduce_scatter" check="the_dtype_stays_what_it_was" says="get its dtype"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(np.array(x, dtype=float), n)
    for step in range(n - 1):
        comm.send(chunks[(rank - 1 - step) % n], right)
        mine = chunks[(rank - 2 - step) % n]
        mine[...] = COMBINE[op](mine, comm.recv(left))
    return chunks[rank]


# %% wrong="carries_them_backwards" question="ring_reduce_scatter" check="every_message_is_the_right_partial_sum" says="contents of your messages"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = split(x.copy(), n)
    carried = chunks[(rank - 1) % n]
    for step in range(n - 1):
        comm.send(carried[::-1].copy(), right)
        carried = COMBINE[op](comm.recv(left)[::-1], chunks[(rank - 2 - step) % n])
    return carried if n > 1 else chunks[rank]


# %% wrong="waits_for_no_send" question="ring_reduce_scatter" check="one_chunk_a_step_to_the_right_neighbour" says="Who waits for the send"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    chunks = split(x.copy(), n)
    for step in range(n - 1):
        comm.isend(chunks[(rank - 1 - step) % n], (rank + 1) % n)
        mine = chunks[(rank - 2 - step) % n]
        mine[...] = COMBINE[op](mine, comm.recv((rank - 1) % n))
    return chunks[rank]


# %% wrong="begins_with_zeros" question="ring_reduce_scatter" check="any_operation_and_one_rank" says="Where in your code does op count"
def ring_reduce_scatter(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    if n == 1:
        return x.copy()
    parts = split(x, n)
    passing = COMBINE[op](np.full(len(parts[rank - 1]), op == "prod", x.dtype), parts[rank - 1])
    for step in range(n - 1):
        comm.send(passing, (rank + 1) % n)
        passing = COMBINE[op](comm.recv((rank - 1) % n), parts[(rank - 2 - step) % n])
    return passing


# %% wrong="one_half_only" question="ring_bytes" check="bytes_of_both_halves" says="one of the two halves"
def ring_bytes(n, n_bytes):
    return (n - 1) * n_bytes / n


# %% wrong="twice_the_array" question="ring_bytes" check="bytes_of_both_halves" says="the chunk that it keeps"
def ring_bytes(n, n_bytes):
    return 2 * n_bytes


# %% wrong="whole_array_each_time" question="ring_bytes" check="bytes_of_both_halves" says="is each of them the whole array?"
def ring_bytes(n, n_bytes):
    return 2 * (n - 1) * n_bytes


# %% wrong="order_of_arrival" question="ring_all_gather" check="all_chunks_in_the_order_of_ranks" says="Whose chunk is it that arrives"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = [chunk]
    for _ in range(n - 1):
        comm.send(chunks[-1], right)
        chunks.append(comm.recv(left))
    return np.concatenate(chunks)


# %% wrong="repeats_itself" question="ring_all_gather" check="all_chunks_in_the_order_of_ranks" says="Whose chunk is it that arrives"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = [chunk] * n
    for step in range(n - 1):
        comm.send(chunk, right)
        chunks[(rank - step - 1) % n] = comm.recv(left)
    return np.concatenate(chunks)


# %% wrong="a_list_of_chunks" question="ring_all_gather" check="all_chunks_in_the_order_of_ranks" says="Join them to one"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    chunks = [chunk] * n
    for step in range(n - 1):
        comm.send(chunks[(rank - step) % n], (rank + 1) % n)
        chunks[(rank - step - 1) % n] = comm.recv((rank - 1) % n)
    return chunks


# %% wrong="tells_everybody" question="ring_all_gather" check="each_chunk_passes_each_link_once" says="one neighbour to send to"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    for other in range(n):
        if other != rank:
            comm.send(chunk, other)
    return np.concatenate([chunk if r == rank else comm.recv(r) for r in range(n)])


# %% wrong="own_chunk_first" question="ring_all_gather" check="chunks_may_differ_in_length" says="right numbers in another order"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    chunks = [chunk]
    for _ in range(n - 1):
        comm.send(chunks[-1], (rank + 1) % n)
        chunks.append(comm.recv((rank - 1) % n))
    return np.concatenate(chunks)


# %% wrong="equal_lengths" question="ring_all_gather" check="chunks_may_differ_in_length" says="as long as its own"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    whole = np.zeros((n, len(chunk)), chunk.dtype)
    whole[rank] = chunk
    for step in range(n - 1):
        comm.send(whole[(rank - step) % n], right)
        arrived = comm.recv(left)[: len(chunk)]
        whole[(rank - step - 1) % n, : len(arrived)] = arrived
    return whole.reshape(-1)


# %% wrong="starts_from_zeros" question="ring_all_gather" check="what_rank_r_gave_may_be_empty_or_of_integers" says="which dtype has what you join"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks = [np.zeros(0)] * n
    chunks[rank] = passing = chunk
    for step in range(n - 1):
        comm.send(passing, right)
        passing = comm.recv(left)
        chunks[(rank - step - 1) % n] = passing
    return np.concatenate([np.zeros(0), *chunks])


# %% wrong="passes_them_on_backwards" question="ring_all_gather" check="what_arrived_is_passed_on" says="what it has just received"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    chunks, passing = [chunk] * n, chunk[::-1].copy()
    for step in range(n - 1):
        comm.send(passing, right)
        passing = comm.recv(left)
        chunks[(rank - step - 1) % n] = passing[::-1]
    return np.concatenate(chunks)


# %% wrong="starts_its_sends_and_leaves" question="ring_all_gather" check="each_chunk_passes_each_link_once" says="Who waits for the send"
def ring_all_gather(comm, chunk):
    n, rank = comm.size, comm.rank
    chunks = [chunk] * n
    for step in range(n - 1):
        comm.isend(chunks[(rank - step) % n], (rank + 1) % n)
        chunks[(rank - step - 1) % n] = comm.recv((rank - 1) % n)
    return np.concatenate(chunks)


# %% wrong="loses_the_shape" question="ring_all_reduce" check="every_rank_has_the_sum" says="x had shape"
def ring_all_reduce(comm, x, op="sum"):
    return ring_all_gather(comm, ring_reduce_scatter(comm, x.reshape(-1), op))


# %% wrong="forgets_to_return" question="ring_all_reduce" check="every_rank_has_the_sum" says="Is the last line a return?"
def ring_all_reduce(comm, x, op="sum"):
    ring_all_gather(comm, ring_reduce_scatter(comm, x.reshape(-1), op)).reshape(x.shape)


# %% wrong="averages" question="ring_all_reduce" check="every_rank_has_the_sum" says="returned the average"
def ring_all_reduce(comm, x, op="sum"):
    chunk = ring_reduce_scatter(comm, x.reshape(-1), op) / comm.size
    return ring_all_gather(comm, chunk).reshape(x.shape)


# %% wrong="forgets_op" question="ring_all_reduce" check="other_operations_too" says="Follow op through"
def ring_all_reduce(comm, x, op="sum"):
    chunk = ring_reduce_scatter(comm, x.reshape(-1))
    return ring_all_gather(comm, chunk).reshape(x.shape)


# %% wrong="still_has_a_boss" question="ring_all_reduce" check="two_n_minus_one_over_n_of_the_bytes" says="How much of the array is in one message?"
def ring_all_reduce(comm, x, op="sum"):
    return naive_all_reduce(comm, x, op)


# %% wrong="everybody_adds_everything" question="ring_all_reduce" check="the_same_bits_on_every_rank" says="Who adds up a chunk"
def ring_all_reduce(comm, x, op="sum"):
    n, rank = comm.size, comm.rank
    total, passing = x.copy(), x
    for _ in range(n - 1):
        comm.send(passing, (rank + 1) % n)
        passing = comm.recv((rank - 1) % n)
        total = COMBINE[op](total, passing)
    return total


# %% wrong="pads_to_a_multiple" question="ring_all_reduce" check="uneven_arrays_cost_no_byte_more" says="besides the array itself"
def ring_all_reduce(comm, x, op="sum"):
    rest = -x.size % comm.size
    flat = np.concatenate([x.reshape(-1), np.zeros(rest, x.dtype)])
    chunk = ring_reduce_scatter(comm, flat, op)
    return ring_all_gather(comm, chunk)[: x.size].reshape(x.shape)


# %% wrong="flat_by_force" question="ring_all_reduce" check="views_are_reduced_and_x_is_kept" says="without a copy"
def ring_all_reduce(comm, x, op="sum"):
    flat = x.view()
    flat.shape = (x.size,)
    chunk = ring_reduce_scatter(comm, flat, op)
    return ring_all_gather(comm, chunk).reshape(x.shape)


# %% wrong="alone_it_is_x_itself" question="ring_all_reduce" check="views_are_reduced_and_x_is_kept" says="belongs to the caller"
def ring_all_reduce(comm, x, op="sum"):
    if comm.size == 1:
        return x
    chunk = ring_reduce_scatter(comm, x.reshape(-1), op)
    return ring_all_gather(comm, chunk).reshape(x.shape)


# %% wrong="one_latency_a_half" question="ring_time" check="latency_counts_once_a_step" says="one after the other"
def ring_time(n, n_bytes, alpha, beta, gamma=0.0):
    steps, chunk = n - 1, n_bytes / n
    return 2 * (alpha + steps * chunk * beta) + steps * chunk * gamma


# %% wrong="whole_array_a_step" question="ring_time" check="bytes_travel_twice" says="You have counted these bytes before"
def ring_time(n, n_bytes, alpha, beta, gamma=0.0):
    steps = n - 1
    return 2 * steps * (alpha + n_bytes * beta) + steps * n_bytes / n * gamma


# %% wrong="combines_twice" question="ring_time" check="only_one_half_combines" says="In which of the two halves"
def ring_time(n, n_bytes, alpha, beta, gamma=0.0):
    steps, chunk = n - 1, n_bytes / n
    return 2 * steps * (alpha + chunk * beta + chunk * gamma)


# %% wrong="the_dearest_alone" question="ring_time" check="the_three_prices_add_up" says="then its bytes are combined"
def ring_time(n, n_bytes, alpha, beta, gamma=0.0):
    steps, chunk = n - 1, n_bytes / n
    return max(2 * steps * (alpha + chunk * beta), steps * chunk * gamma)


# %% wrong="all_ranks_send_across" question="crossing_bytes" check="one_rank_of_each_host_sends_the_rings_bytes" says="what all ranks of a host send"
def crossing_bytes(hosts, width, n_bytes):
    return width * ring_bytes(hosts * width, n_bytes), ring_bytes(hosts, n_bytes)


# %% wrong="a_ring_of_hosts" question="crossing_bytes" check="one_rank_of_each_host_sends_the_rings_bytes" says="Over how many ranks"
def crossing_bytes(hosts, width, n_bytes):
    return ring_bytes(hosts, n_bytes), ring_bytes(hosts, n_bytes)


# %% wrong="one_share_of_many" question="crossing_bytes" check="two_levels_cross_as_a_ring_of_hosts" says="carry their shares"
def crossing_bytes(hosts, width, n_bytes):
    return ring_bytes(hosts * width, n_bytes), ring_bytes(hosts, n_bytes / width)


# %% wrong="whole_arrays_across" question="crossing_bytes" check="two_levels_cross_as_a_ring_of_hosts" says="which part of the array"
def crossing_bytes(hosts, width, n_bytes):
    return ring_bytes(hosts * width, n_bytes), width * ring_bytes(hosts, n_bytes)


# %% wrong="still_the_ring" question="two_level_all_reduce" check="no_byte_crosses_twice" says="know together"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    return ring_all_reduce(comm, x, op)


# %% wrong="between_before_inside" question="two_level_all_reduce" check="no_byte_crosses_twice" says="know together"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    total = ring_all_reduce(Among(comm, [host[place] for host in hosts]), x, op)
    return ring_all_reduce(Among(comm, home), total, op)


# %% wrong="heads_carry_all" question="two_level_all_reduce" check="all_ranks_carry_a_share" says="Who is idle"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    total = ring_all_reduce(Among(comm, home), x, op)
    if comm.rank == home[0]:
        total = ring_all_reduce(Among(comm, [host[0] for host in hosts]), total, op)
        for rank in home[1:]:
            comm.send(total, rank)
        return total
    return comm.recv(home[0])


# %% wrong="stays_at_home" question="two_level_all_reduce" check="every_rank_of_every_host_has_the_sum" says="what the other hosts have"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    return ring_all_reduce(Among(comm, home), x, op)


# %% wrong="two_levels_of_one_dimension" question="two_level_all_reduce" check="every_rank_of_every_host_has_the_sum" says="x had shape"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in hosts])
    chunk = ring_reduce_scatter(inside, x.reshape(-1), op)
    return ring_all_gather(inside, ring_all_reduce(between, chunk, op))


# %% wrong="always_sums_between" question="two_level_all_reduce" check="both_levels_take_op_and_leave_x_alone" says="At which of the two levels"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in hosts])
    chunk = ring_reduce_scatter(inside, x.reshape(-1), op)
    return ring_all_gather(inside, ring_all_reduce(between, chunk)).reshape(x.shape)


# %% wrong="neighbours_by_number" question="two_level_all_reduce" check="hosts_are_where_they_are_said_to_be" says="Go by hosts"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    width = len(hosts[0])
    place, first = comm.rank % width, comm.rank // width * width
    inside = Among(comm, range(first, first + width))
    between = Among(comm, range(place, comm.size, width))
    chunk = ring_reduce_scatter(inside, x.reshape(-1), op)
    chunk = ring_all_reduce(between, chunk, op)
    return ring_all_gather(inside, chunk).reshape(x.shape)


# %% wrong="whole_sums_at_home" question="two_level_all_reduce" check="all_ranks_carry_a_share" says="whole arrays where chunks would do"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in hosts])
    chunk = split(naive_all_reduce(inside, x.reshape(-1), op), inside.size)[place]
    return ring_all_gather(inside, ring_all_reduce(between, chunk, op)).reshape(x.shape)


# %% wrong="sorts_the_hosts" question="two_level_all_reduce" check="both_levels_take_op_and_leave_x_alone" says="sorts, or takes out, in place"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    hosts.sort()
    (home,) = (host for host in hosts if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in hosts])
    chunk = ring_all_reduce(between, ring_reduce_scatter(inside, x.reshape(-1), op), op)
    return ring_all_gather(inside, chunk).reshape(x.shape)


# %% wrong="places_by_number" question="two_level_all_reduce" check="hosts_are_where_they_are_said_to_be" says="Go by hosts"
def two_level_all_reduce(comm, x, hosts, op="sum"):
    ordered = [sorted(host) for host in hosts]
    (home,) = (host for host in ordered if comm.rank in host)
    place = home.index(comm.rank)
    inside, between = Among(comm, home), Among(comm, [host[place] for host in ordered])
    chunk = ring_all_reduce(between, ring_reduce_scatter(inside, x.reshape(-1), op), op)
    return ring_all_gather(inside, chunk).reshape(x.shape)


# %% wrong="waits_for_the_whole_chunk" question="pipelined_ring" check="a_piece_is_passed_on_before_the_next_is_awaited" says="as soon as it is there"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 1 - step) % n]:
            comm.send(piece, right)
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv(left)
            piece[...] = COMBINE[op](piece, arrived) if step < n - 1 else arrived
    return work.reshape(x.shape)


# %% wrong="combines_to_the_end" question="pipelined_ring" check="the_result_is_that_of_the_plain_ring" says="in which kept"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    if n == 1:
        return work.reshape(x.shape)
    for piece in chunks[(rank - 1) % n]:
        comm.send(piece, right)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            piece[...] = COMBINE[op](piece, comm.recv(left))
            if step < 2 * (n - 1) - 1:
                comm.send(piece, right)
    return work.reshape(x.shape)


# %% wrong="never_stops_sending" question="pipelined_ring" check="the_same_bytes_in_more_messages" says="Count the steps"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    if n == 1:
        return work.reshape(x.shape)
    for piece in chunks[(rank - 1) % n]:
        comm.send(piece, right)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv(left)
            piece[...] = COMBINE[op](piece, arrived) if step < n - 1 else arrived
            comm.send(piece, right)
    return work.reshape(x.shape)


# %% wrong="one_piece_after_all" question="pipelined_ring" check="the_same_bytes_in_more_messages" says="Count the steps"
def pipelined_ring(comm, x, op="sum", pieces=4):
    return ring_all_reduce(comm, x, op)


# %% wrong="sums_whatever_op" question="pipelined_ring" check="shape_operation_and_input_are_kept" says="Where is op used?"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    if n == 1:
        return work.reshape(x.shape)
    for piece in chunks[(rank - 1) % n]:
        comm.send(piece, right)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv(left)
            piece[...] = piece + arrived if step < n - 1 else arrived
            if step < 2 * (n - 1) - 1:
                comm.send(piece, right)
    return work.reshape(x.shape)


# %% wrong="pieces_of_float64" question="pipelined_ring" check="pieces_carry_the_array_and_nothing_else" says="Which dtype has your copy"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    right, left = (rank + 1) % n, (rank - 1) % n
    work = np.array(x, dtype=float).reshape(-1)
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    if n == 1:
        return work.reshape(x.shape)
    for piece in chunks[(rank - 1) % n]:
        comm.send(piece, right)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv(left)
            piece[...] = COMBINE[op](piece, arrived) if step < n - 1 else arrived
            if step < 2 * (n - 1) - 1:
                comm.send(piece, right)
    return work.reshape(x.shape)


# %% wrong="overwrites_what_is_on_its_way" question="pipelined_ring" check="a_piece_is_passed_on_before_the_next_is_awaited" says="Who waits for the send"
def pipelined_ring(comm, x, op="sum", pieces=4):
    n, rank = comm.size, comm.rank
    work = x.reshape(-1).copy()
    chunks = [split(chunk, pieces) for chunk in split(work, n)]
    if n == 1:
        return work.reshape(x.shape)
    for piece in chunks[rank - 1]:
        comm.isend(piece, (rank + 1) % n)
    for step in range(2 * (n - 1)):
        for piece in chunks[(rank - 2 - step) % n]:
            arrived = comm.recv((rank - 1) % n)
            piece[...] = COMBINE[op](piece, arrived) if step < n - 1 else arrived
            if step < 2 * (n - 1) - 1:
                comm.isend(piece, (rank + 1) % n)
    return work.reshape(x.shape)
