# Wrong answers that the checks of lab 08 must catch, each with a message of its own.


# %% wrong="trusts_one_read" question="read_exactly" check="as_many_bytes_as_were_asked_for" says="What does one call of read promise"
def read_exactly(read, n):
    return read(n)


# %% wrong="asks_for_n_again" question="read_exactly" check="nothing_beyond_is_read" says="Whose are the bytes after"
def read_exactly(read, n):
    data = b""
    while len(data) < n:
        piece = read(n)
        if not piece:
            raise ConnectionError("the stream ended")
        data += piece
    return data[:n]


# %% wrong="waits_for_a_closed_socket" question="read_exactly" check="the_end_of_the_stream_is_an_error" says="goes on for ever"
def read_exactly(read, n):
    data = b""
    while len(data) < n:
        data += read(n - len(data))
    return data


# %% wrong="returns_what_there_was" question="read_exactly" check="the_end_of_the_stream_is_an_error" says="believes that they are 12"
def read_exactly(read, n):
    data = b""
    while len(data) < n:
        piece = read(n - len(data))
        if not piece:
            break
        data += piece
    return data


# %% wrong="byte_by_byte" question="read_exactly" check="a_read_asks_for_many_bytes" says="how many bytes may you ask for"
def read_exactly(read, n):
    got = b""
    while len(got) < n:
        piece = read(1)
        if not piece:
            raise ConnectionError("read: the stream ended.")
        got += piece
    return got


# %% wrong="always_float64" question="message" check="an_array_arrives_as_it_was" says="Does your header say the dtype"
def send_array(write, x):
    header = json.dumps(x.shape).encode()
    write(len(header).to_bytes(4, "big") + header + x.astype(np.float64).tobytes())


def recv_array(read):
    shape = json.loads(read_exactly(read, int.from_bytes(read_exactly(read, 4), "big")))
    n_bytes = 8 * int(np.prod(shape))
    return np.frombuffer(read_exactly(read, n_bytes), np.float64).reshape(shape).copy()


# %% wrong="forgets_the_order_of_bytes" question="message" check="strides_do_not_matter" says="in which order its bytes"
def send_array(write, x):
    header = json.dumps([x.dtype.name, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


# %% wrong="flat" question="message" check="an_array_arrives_as_it_was" says="Does your header say the shape"
def send_array(write, x):
    header = json.dumps([x.dtype.str, x.size]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


def recv_array(read):
    header = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, size = json.loads(header)
    data = read_exactly(read, size * np.dtype(dtype).itemsize)
    return np.frombuffer(data, dtype).copy()


# %% wrong="borrows_the_bytes" question="message" check="strides_do_not_matter" says="cannot be written to"
def recv_array(read):
    header = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, shape = json.loads(header)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape)


def send_array(write, x):
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


# %% wrong="numbers_as_text" question="message" check="the_elements_travel_as_they_lie" says="turning numbers into text"
def send_array(write, x):
    data = json.dumps([x.dtype.str, x.shape, x.reshape(-1).tolist()]).encode()
    write(len(data).to_bytes(4, "big") + data)


def recv_array(read):
    data = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, shape, values = json.loads(data)
    return np.array(values, dtype).reshape(shape)


# %% wrong="memory_order" question="message" check="strides_do_not_matter" says="In which order do the bytes"
def send_array(write, x):
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes("A"))


def recv_array(read):
    header = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, shape = json.loads(header)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape).copy()


# %% wrong="reads_the_length_at_once" question="message" check="an_array_arrives_as_it_was" says="You have a function for that"
def send_array(write, x):
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


def recv_array(read):
    dtype, shape = json.loads(read_exactly(read, int.from_bytes(read(4), "big")))
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape).copy()


# %% wrong="turns_the_bytes" question="message" check="strides_do_not_matter" says="another dtype"
def send_array(write, x):
    x = x.astype(x.dtype.newbyteorder("="))
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


def recv_array(read):
    dtype, shape = json.loads(read_exactly(read, int.from_bytes(read_exactly(read, 4), "big")))
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape).copy()


# %% wrong="one_array_for_all_messages" question="message" check="an_array_arrives_as_it_was" says="Are the bytes those of x"
rooms = {}


def send_array(write, x):
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header + x.tobytes())


def recv_array(read):
    header = read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))
    dtype, shape = json.loads(header)
    room = rooms.setdefault(header, np.empty(shape, dtype))
    room[...] = np.frombuffer(read_exactly(read, room.nbytes), dtype).reshape(shape)
    return room


# %% wrong="a_pickle" question="message" check="the_elements_travel_as_they_lie" says="which is a program"
def send_array(write, x):
    import pickle

    data = pickle.dumps(np.ascontiguousarray(x).reshape(x.shape))
    write(len(data).to_bytes(4, "big") + data)


def recv_array(read):
    import pickle

    return pickle.loads(read_exactly(read, int.from_bytes(read_exactly(read, 4), "big"))).copy()


# %% wrong="writes_number_by_number" question="message" check="the_elements_travel_as_they_lie" says="called write"
def send_array(write, x):
    header = json.dumps([x.dtype.str, x.shape]).encode()
    write(len(header).to_bytes(4, "big") + header)
    for number in x.flat:
        write(number.tobytes())


def recv_array(read):
    dtype, shape = json.loads(read_exactly(read, int.from_bytes(read_exactly(read, 4), "big")))
    n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(read_exactly(read, n_bytes), dtype).reshape(shape).copy()


# %% wrong="sends_first" question="exchange" check="the_send_goes_on_while_receiving" says="When does yours have to be over"
def exchange(comm, x, partner):
    comm.send(x, partner)
    return comm.recv(partner)


# %% wrong="lower_rank_goes_first" question="exchange" check="the_send_goes_on_while_receiving" says="When does yours have to be over"
def exchange(comm, x, partner):
    if comm.rank < partner:
        comm.send(x, partner)
        return comm.recv(partner)
    theirs = comm.recv(partner)
    comm.send(x, partner)
    return theirs


# %% wrong="waits_too_soon" question="exchange" check="the_send_goes_on_while_receiving" says="When does yours have to be over"
def exchange(comm, x, partner):
    comm.isend(x, partner).wait()
    return comm.recv(partner)


# %% wrong="never_waits" question="exchange" check="the_send_is_over_at_the_end" says="Who waits for the send"
def exchange(comm, x, partner):
    comm.isend(x, partner)
    return comm.recv(partner)


# %% wrong="keeps_its_own" question="exchange" check="each_has_the_others_array" says="That is its own"
def exchange(comm, x, partner):
    work = comm.isend(x, partner)
    comm.recv(partner)
    work.wait()
    return x


# %% wrong="swaps_into_x" question="exchange" check="each_has_the_others_array" says="exchange changed the x"
def exchange(comm, x, partner):
    work = comm.isend(x, partner)
    theirs = comm.recv(partner)
    work.wait()
    x[...] = theirs
    return x


# %% wrong="the_neighbour_whoever_is_asked_for" question="exchange" check="each_has_the_others_array" says="waits for rank"
def exchange(comm, x, partner):
    work = comm.isend(x, partner)
    theirs = comm.recv(comm.rank ^ 1)
    work.wait()
    return theirs


# %% wrong="a_list_of_numbers" question="exchange" check="each_has_the_others_array" says="expected one array"
def exchange(comm, x, partner):
    work = comm.isend(x, partner)
    theirs = comm.recv(partner).tolist()
    work.wait()
    return theirs


# %% wrong="root_is_always_zero" question="from_one" check="everybody_has_the_roots_array" says="Who has x at the beginning"
def naive_broadcast(comm, x, root=0):
    if comm.rank == 0:
        x = x if root == 0 else np.zeros((2, 3))
        for dst in range(1, comm.size):
            comm.send(x, dst)
        return x
    return comm.recv(0)


def naive_scatter(comm, parts, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(parts[dst], dst)
    return parts[root]


# %% wrong="sends_all_parts_to_all" question="from_one" check="everybody_has_its_own_part" says="What does the receiver need"
def naive_broadcast(comm, x, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(x, dst)
    return x


def naive_scatter(comm, parts, root=0):
    whole = naive_broadcast(comm, None if parts is None else np.stack(parts), root)
    return whole[comm.rank]


# %% wrong="sends_to_itself_too" question="from_one" check="everybody_has_the_roots_array" says="Who has to talk to whom"
def naive_broadcast(comm, x, root=0):
    if comm.rank == root:
        for dst in range(comm.size):
            comm.send(x, dst)
    return comm.recv(root)


def naive_scatter(comm, parts, root=0):
    if comm.rank == root:
        for dst in range(comm.size):
            comm.send(parts[dst], dst)
    return comm.recv(root)


# %% wrong="parts_in_order_of_talking" question="from_one" check="everybody_has_its_own_part" says="Which part is meant for it"
def naive_broadcast(comm, x, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(x, dst)
    return x


def naive_scatter(comm, parts, root=0):
    if comm.rank != root:
        return comm.recv(root)
    others = [dst for dst in range(comm.size) if dst != root]
    for dst, part in zip(others, parts[1:]):
        comm.send(part, dst)
    return parts[0]


# %% wrong="takes_parts_out_of_the_list" question="from_one" check="everybody_has_its_own_part" says="took parts out of the list"
def naive_broadcast(comm, x, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(x, dst)
    return x


def naive_scatter(comm, parts, root=0):
    if comm.rank != root:
        return comm.recv(root)
    mine = parts.pop(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(parts.pop(0), dst)
    return mine


# %% wrong="starts_sends_and_leaves" question="from_one" check="everybody_has_the_roots_array" says="Who waits for the send"
def naive_broadcast(comm, x, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.isend(x, dst)
    return x


def naive_scatter(comm, parts, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(parts[dst], dst)
    return parts[root]


# %% wrong="broadcasts_floats" question="from_one" check="everybody_has_the_roots_array" says="makes floats"
def naive_broadcast(comm, x, root=0):
    if comm.rank != root:
        return comm.recv(root)
    x = np.asarray(x, dtype=float)
    for dst in range(comm.size):
        if dst != root:
            comm.send(x, dst)
    return x


def naive_scatter(comm, parts, root=0):
    if comm.rank != root:
        return comm.recv(root)
    for dst in range(comm.size):
        if dst != root:
            comm.send(parts[dst], dst)
    return parts[root]


# %% wrong="own_row_first" question="to_one" check="the_root_has_every_row" says="In which order does the root put"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return np.stack([x] + [comm.recv(src) for src in range(comm.size) if src != root])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    return COMBINE[op].reduce([x] + [comm.recv(r) for r in range(comm.size) if r != root])


# %% wrong="rows_of_float64" question="to_one" check="the_root_has_every_row" says="Which dtype has an array"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    rows = np.zeros((comm.size, *x.shape))
    for src in range(comm.size):
        rows[src] = x if src == root else comm.recv(src)
    return rows


# %% wrong="a_list_of_rows" question="to_one" check="the_root_has_every_row" says="expected one array"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return [x if src == root else comm.recv(src) for src in range(comm.size)]


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    rows = [x if src == root else comm.recv(src) for src in range(comm.size)]
    return COMBINE[op].reduce(rows)


# %% wrong="adds_in_place" question="to_one" check="any_operation_and_x_is_kept" says="Which operations work in place"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    for src in range(comm.size):
        if src != root:
            COMBINE[op](x, comm.recv(src), out=x)
    return x


# %% wrong="forgets_itself" question="to_one" check="the_root_has_the_sum" says="who was lost"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    total = None
    for src in range(comm.size):
        if src != root:
            arrived = comm.recv(src)
            total = arrived if total is None else COMBINE[op](total, arrived)
    return total if total is not None else x


# %% wrong="others_keep_theirs" question="to_one" check="the_root_has_every_row" says="Only the root has a result"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        comm.send(x, root)
        return x
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        comm.send(x, root)
        return x
    total = x
    for src in range(comm.size):
        if src != root:
            total = COMBINE[op](total, comm.recv(src))
    return total


# %% wrong="begins_with_zeros" question="to_one" check="any_operation_and_x_is_kept" says="is nobody left out"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    total = np.ones_like(x) if op == "prod" else np.zeros_like(x)
    for src in range(comm.size):
        total = COMBINE[op](total, x if src == root else comm.recv(src))
    return total


# %% wrong="sums_of_floats" question="to_one" check="the_root_has_the_sum" says="makes floats"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    return np.stack([x if src == root else comm.recv(src) for src in range(comm.size)])


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    total = x * 1.0
    for src in range(comm.size):
        if src != root:
            total = COMBINE[op](total, comm.recv(src))
    return total


# %% wrong="in_order_of_size" question="to_one" check="the_root_has_every_row" says="In which order does the root put"
def naive_gather(comm, x, root=0):
    if comm.rank != root:
        return comm.send(x, root)
    rows = [x if src == root else comm.recv(src) for src in range(comm.size)]
    return np.stack(sorted(rows, key=np.sum))


def naive_reduce(comm, x, root=0, op="sum"):
    if comm.rank != root:
        return comm.send(x, root)
    total = x
    for src in range(comm.size):
        if src != root:
            total = COMBINE[op](total, comm.recv(src))
    return total


# %% wrong="still_a_loop" question="tree_broadcast" check="it_takes_lg_n_rounds" says="send it to somebody new"
def tree_broadcast(comm, x, root=0):
    return naive_broadcast(comm, x, root)


# %% wrong="a_chain" question="tree_broadcast" check="it_takes_lg_n_rounds" says="send it to somebody new"
def tree_broadcast(comm, x, root=0):
    place = (comm.rank - root) % comm.size
    if place:
        x = comm.recv((comm.rank - 1) % comm.size)
    if place < comm.size - 1:
        comm.send(x, (comm.rank + 1) % comm.size)
    return x


# %% wrong="counts_from_rank_zero" question="tree_broadcast" check="the_tree_reaches_everybody" says="Who should have sent it"
def tree_broadcast(comm, x, root=0):
    n, place = comm.size, comm.rank
    x = np.zeros(4) if x is None else x
    distance = 1 << (n - 1).bit_length()
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == distance:
            x = comm.recv(comm.rank - distance)
        elif place % (2 * distance) == 0 and place + distance < n:
            comm.send(x, comm.rank + distance)
    return x


# %% wrong="wraps_around" question="tree_broadcast" check="the_tree_reaches_everybody" says="each other rank exactly one"
def tree_broadcast(comm, x, root=0):
    n, place = comm.size, (comm.rank - root) % comm.size
    distance = 1 << (n - 1).bit_length()
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == distance:
            x = comm.recv((comm.rank - distance) % n)
        elif place % (2 * distance) == 0:
            comm.send(x, (comm.rank + distance) % n)
    return x


# %% wrong="starts_and_goes_on" question="tree_broadcast" check="the_tree_reaches_everybody" says="Who waits for the send"
def tree_broadcast(comm, x, root=0):
    n, place = comm.size, (comm.rank - root) % comm.size
    for k in reversed(range(lg(n))):
        if place % 2 ** (k + 1) == 2**k:
            x = comm.recv((comm.rank - 2**k) % n)
        elif place % 2 ** (k + 1) == 0 and place + 2**k < n:
            comm.isend(x, (comm.rank + 2**k) % n)
    return x


# %% wrong="still_one_adder" question="tree_reduce" check="partial_sums_meet_in_pairs" says="what could others add up"
def tree_reduce(comm, x, root=0, op="sum"):
    return naive_reduce(comm, x, root, op)


# %% wrong="sends_its_own_x" question="tree_reduce" check="the_root_of_the_tree_has_the_sum" says="who was lost"
def tree_reduce(comm, x, root=0, op="sum"):
    n, place = comm.size, (comm.rank - root) % comm.size
    total, distance = x, 1
    while distance < n:
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            total = COMBINE[op](total, comm.recv((comm.rank + distance) % n))
        distance *= 2
    return total


# %% wrong="sums_whatever_op" question="tree_reduce" check="any_operation_in_the_tree" says="Where does op count"
def tree_reduce(comm, x, root=0, op="sum"):
    n, place = comm.size, (comm.rank - root) % comm.size
    distance = 1
    while distance < n:
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            x = x + comm.recv((comm.rank + distance) % n)
        distance *= 2
    return x


# %% wrong="reduces_in_place" question="tree_reduce" check="any_operation_in_the_tree" says="belongs to the caller"
def tree_reduce(comm, x, root=0, op="sum"):
    n, place = comm.size, (comm.rank - root) % comm.size
    distance = 1
    while distance < n:
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            x[...] = COMBINE[op](x, comm.recv((comm.rank + distance) % n))
        distance *= 2
    return x


# %% wrong="adds_floats" question="tree_reduce" check="the_root_of_the_tree_has_the_sum" says="makes floats"
def tree_reduce(comm, x, root=0, op="sum"):
    n, place, x, distance = comm.size, (comm.rank - root) % comm.size, x.astype(float), 1
    while distance < n:
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            x = COMBINE[op](x, comm.recv((comm.rank + distance) % n))
        distance *= 2
    return x


# %% wrong="returns_a_list" question="tree_reduce" check="the_root_of_the_tree_has_the_sum" says="expected one array"
def tree_reduce(comm, x, root=0, op="sum"):
    n, place, distance = comm.size, (comm.rank - root) % comm.size, 1
    while distance < n:
        if place % (2 * distance):
            return comm.send(x, (comm.rank - distance) % n)
        if place + distance < n:
            x = COMBINE[op](x, comm.recv((comm.rank + distance) % n))
        distance *= 2
    return x.tolist()


# %% wrong="own_rows_first" question="all_gather" check="every_rank_has_every_row" says="whose rows come first"
def all_gather(comm, x):
    rows, distance = x[np.newaxis], 1
    while distance < comm.size:
        rows = np.concatenate([rows, exchange(comm, rows, comm.rank ^ distance)])
        distance *= 2
    return rows


# %% wrong="shows_itself_to_each" question="all_gather" check="the_rows_double_each_round" says="Who has to talk to whom"
def all_gather(comm, x):
    rows = [x] * comm.size
    for k in range(1, comm.size):
        partner = comm.rank ^ k
        rows[partner] = exchange(comm, x, partner)
    return np.stack(rows)


# %% wrong="through_the_root" question="all_gather" check="the_rows_double_each_round" says="What does the receiver need"
def all_gather(comm, x):
    return tree_broadcast(comm, naive_gather(comm, x))


# %% wrong="forgets_the_axis" question="all_gather" check="every_rank_has_every_row" says="one row a rank"
def all_gather(comm, x):
    rows, distance = x, 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        theirs = exchange(comm, rows, partner)
        rows = np.concatenate([theirs, rows] if comm.rank & distance else [rows, theirs])
        distance *= 2
    return rows


# %% wrong="gives_away_its_own_half" question="reduce_scatter" check="each_rank_has_its_row_of_the_sum" says="Which half of the rows did it keep"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x, comm.size // 2
    while distance:
        keep, give = rows[distance:], rows[:distance]
        if comm.rank & distance:
            keep, give = give, keep
        rows = COMBINE[op](keep, exchange(comm, give, comm.rank ^ distance))
        distance //= 2
    return rows[0]


# %% wrong="sends_everything" question="reduce_scatter" check="half_the_rows_are_given_away_each_round" says="What does the receiver need of the array"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x, 1
    while distance < comm.size:
        rows = COMBINE[op](rows, exchange(comm, rows, comm.rank ^ distance))
        distance *= 2
    return rows[comm.rank]


# %% wrong="keeps_without_combining" question="reduce_scatter" check="each_rank_has_its_row_of_the_sum" says="What was combined with what arrived"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x, comm.size // 2
    while distance:
        keep, give = rows[:distance], rows[distance:]
        if comm.rank & distance:
            keep, give = give, keep
        arrived = exchange(comm, give, comm.rank ^ distance)
        rows = COMBINE[op](keep, arrived) if distance == 1 else keep
        distance //= 2
    return rows[0]


# %% wrong="adds_into_the_view" question="reduce_scatter" check="any_operation_in_halves" says="is a view"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x, comm.size // 2
    while distance:
        keep, give = rows[:distance], rows[distance:]
        if comm.rank & distance:
            keep, give = give, keep
        keep[...] = COMBINE[op](keep, exchange(comm, give, comm.rank ^ distance))
        rows = keep
        distance //= 2
    return rows[0]


# %% wrong="flattens_its_row" question="reduce_scatter" check="rows_of_any_shape_and_dtype" says="rows of one axis"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x, comm.size // 2
    while distance:
        keep, give = rows[:distance], rows[distance:]
        if comm.rank & distance:
            keep, give = give, keep
        rows = COMBINE[op](keep, exchange(comm, give, comm.rank ^ distance))
        distance //= 2
    return rows.reshape(-1)


# %% wrong="gives_rows_of_floats" question="reduce_scatter" check="rows_of_any_shape_and_dtype" says="makes floats"
def reduce_scatter(comm, x, op="sum"):
    rows, distance = x.astype(float), comm.size // 2
    while distance:
        keep, give = rows[:distance], rows[distance:]
        if comm.rank & distance:
            keep, give = give, keep
        rows = COMBINE[op](keep, exchange(comm, give, comm.rank ^ distance))
        distance //= 2
    return rows[0]


# %% wrong="tells_the_neighbour_only" question="barrier" check="nobody_leaves_before_all_have_come" says="not even through others"
def barrier(comm):
    if comm.size > 1:
        comm.send(np.empty(0), (comm.rank + 1) % comm.size)
        comm.recv((comm.rank - 1) % comm.size)


# %% wrong="reports_and_leaves" question="barrier" check="nobody_leaves_before_all_have_come" says="That rank may not have come"
def barrier(comm):
    naive_gather(comm, np.empty(0))


# %% wrong="once_around" question="barrier" check="lg_n_rounds_of_empty_messages" says="By how much does the distance grow"
def barrier(comm):
    for distance in range(1, comm.size):
        comm.send(np.empty(0), (comm.rank + distance) % comm.size)
        comm.recv((comm.rank - distance) % comm.size)


# %% wrong="sends_a_number" question="barrier" check="lg_n_rounds_of_empty_messages" says="what needs to be in it"
def barrier(comm):
    distance = 1
    while distance < comm.size:
        comm.send(np.ones(1), (comm.rank + distance) % comm.size)
        comm.recv((comm.rank - distance) % comm.size)
        distance *= 2


# %% wrong="up_the_tree_and_down_again" question="barrier" check="lg_n_rounds_of_empty_messages" says="only then hear"
def barrier(comm):
    tree_reduce(comm, np.empty(0))
    tree_broadcast(comm, np.empty(0) if comm.rank == 0 else None)


# %% wrong="counts_all_messages_of_the_tree" question="broadcast_time" check="latencies_are_counted" says="follow each other"
def broadcast_time(algorithm, n, n_bytes, alpha, beta):
    rounds = (n - 1).bit_length()
    messages = {"naive": n - 1, "tree": n - 1, "scatter_all_gather": n - 1 + rounds}
    arrays = {"naive": n - 1, "tree": n - 1, "scatter_all_gather": 2 * (n - 1) / n}
    return messages[algorithm] * alpha + arrays[algorithm] * n_bytes * beta


# %% wrong="only_the_scatter" question="broadcast_time" check="bytes_on_the_way_are_counted" says="one of its two halves"
def broadcast_time(algorithm, n, n_bytes, alpha, beta):
    rounds = (n - 1).bit_length()
    messages = {"naive": n - 1, "tree": rounds, "scatter_all_gather": n - 1 + rounds}
    arrays = {"naive": n - 1, "tree": rounds, "scatter_all_gather": (n - 1) / n}
    return messages[algorithm] * alpha + arrays[algorithm] * n_bytes * beta


# %% wrong="share_of_the_root_travels" question="broadcast_time" check="bytes_on_the_way_are_counted" says="does the root send its own share"
def broadcast_time(algorithm, n, n_bytes, alpha, beta):
    rounds = (n - 1).bit_length()
    messages = {"naive": n - 1, "tree": rounds, "scatter_all_gather": n - 1 + rounds}
    arrays = {"naive": n - 1, "tree": rounds, "scatter_all_gather": 2}
    return messages[algorithm] * alpha + arrays[algorithm] * n_bytes * beta


# %% wrong="parallel_messages_are_free" question="broadcast_time" check="latencies_are_counted" says="How many messages follow each other"
def broadcast_time(algorithm, n, n_bytes, alpha, beta):
    rounds = (n - 1).bit_length()
    arrays = {"naive": n - 1, "tree": rounds, "scatter_all_gather": 2 * (n - 1) / n}
    return alpha + arrays[algorithm] * n_bytes * beta


# %% wrong="divides_by_zero" question="crossover_bytes" check="between_two_ranks_the_tree_never_loses" says="equally steep"
def crossover_bytes(n, alpha, beta):
    return (n - 1) * alpha / (((n - 1).bit_length() - 2 * (n - 1) / n) * beta)


# %% wrong="where_alpha_equals_bytes" question="crossover_bytes" check="the_two_times_are_equal_there" says="these should be equal"
def crossover_bytes(n, alpha, beta):
    return alpha / beta if n > 2 else float("inf")


# %% wrong="zero_means_never" question="crossover_bytes" check="between_two_ranks_the_tree_never_loses" says="does the tree ever lose"
def crossover_bytes(n, alpha, beta):
    gain = (n - 1).bit_length() - 2 * (n - 1) / n
    return (n - 1) * alpha / (gain * beta) if gain else 0.0


# %% wrong="sum_instead_of_mean" question="sharded_step" check="the_step_is_that_of_one_process" says="What is the sum of n means"
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    mine = reduce_scatter(comm, grad.reshape(comm.size, -1))
    momentum = decay * momentum + mine
    row = params.reshape(comm.size, -1)[comm.rank] - lr * momentum
    return all_gather(comm, row).reshape(-1), momentum


# %% wrong="own_gradient_only" question="sharded_step" check="the_step_is_that_of_one_process" says="what about the others'"
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    momentum = decay * momentum + grad.reshape(comm.size, -1)[comm.rank]
    row = params.reshape(comm.size, -1)[comm.rank] - lr * momentum
    return all_gather(comm, row).reshape(-1), momentum


# %% wrong="uphill" question="sharded_step" check="the_step_is_that_of_one_process" says="In which direction does the loss fall"
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    mine = reduce_scatter(comm, grad.reshape(comm.size, -1)) / comm.size
    momentum = decay * momentum + mine
    row = params.reshape(comm.size, -1)[comm.rank] + lr * momentum
    return all_gather(comm, row).reshape(-1), momentum


# %% wrong="averages_the_weights" question="sharded_step" check="each_rank_keeps_its_own_momentum" says="The point was not to keep all of it"
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    n = comm.size
    whole = all_gather(comm, momentum).reshape(-1)
    mine = all_gather(comm, reduce_scatter(comm, grad.reshape(n, -1)) / n).reshape(-1)
    momentum = decay * whole + mine
    return params - lr * momentum, momentum


# %% wrong="steps_in_float64" question="sharded_step" check="no_more_travels_than_rows" says="float32 parameters"
def sharded_step(comm, params, grad, momentum, lr=0.05, decay=0.9):
    mine = reduce_scatter(comm, grad.reshape(comm.size, -1)).astype(float) / comm.size
    momentum = decay * momentum + mine
    row = params.reshape(comm.size, -1)[comm.rank] - lr * momentum
    return all_gather(comm, row).reshape(-1), momentum
