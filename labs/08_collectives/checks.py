"""Checks of lab 08. The judge is the network: bytes, messages, order and peers are facts."""

import pickletools
from itertools import product

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close, to_number
from autograder.errors import StudentError
from autograder.records import Step

WITHHELD = (
    *("ddp_lab.cost:FORMS", "ddp_lab.cost:all_reduce_time", "ddp_lab.cost:collective_time"),
    "ddp_lab.simulate.collectives:collective",
)
LAB = LabSettings(wall_s=240.0, preload=("numpy", "ddp_lab"), withheld=WITHHELD)

# Ranks that can send and receive, and have no collective at hand: these are the answers here.
MESSAGES = "lessons.ranks.messages_only:MessagesOnly"


def draw_arrays(rng, n, shape=(5,), dtype=np.float64):
    """Return one array of whole numbers a rank; no two subsets of ranks have the same sum.

    Those of a higher rank need not be larger.
    """
    count = int(np.prod(shape))
    return [
        (rng.permutation(count).reshape(shape) + 1 + (count + 1) * 50.0**power).astype(dtype)
        for power in rng.permutation(n)
    ]


def find_contributors(values, inputs):
    """Return the ranks whose inputs add up to `values`, or None."""
    for mask in product((0, 1), repeat=len(inputs)):
        chosen = [x for bit, x in zip(mask, inputs, strict=True) if bit]
        if chosen and np.array_equal(values, sum(chosen)):  # whole numbers: exact in any order
            return [rank for rank, bit in enumerate(mask) if bit]
    return None


def count_rounds(messages):
    """Return how many rounds the messages need: a rank sends one a round, after what it has heard.

    `messages` are in order of sending. A rank that sends has received everything that was sent to
    it before, which is the most that it can have known.
    """
    out, received, into = {}, {}, {}
    last = 0
    for m in messages:
        at = max(out.get(m.src, 0), received.get(m.src, 0))
        while at in into.setdefault(m.dst, set()):
            at += 1
        into[m.dst].add(at)
        out[m.src] = at + 1
        received[m.dst] = max(received.get(m.dst, 0), at + 1)
        last = max(last, at + 1)
    return last


def count_chain(steps):
    """Return how many messages follow each other: each sent by a rank that waited for the one before."""
    todo = {rank: [s for s in steps if s.rank == rank] for rank in {s.rank for s in steps}}
    on_the_way, heard = {}, dict.fromkeys(todo, 0)
    moved = True
    while moved:
        moved = False
        for rank, own in todo.items():
            while own and (own[0].kind != "ask" or on_the_way.get((own[0].peer, rank))):
                step, moved = own.pop(0), True
                if step.kind == "send":
                    on_the_way.setdefault((rank, step.peer), []).append(heard[rank] + 1)
                elif step.kind == "ask":
                    heard[rank] = max(heard[rank], on_the_way[step.peer, rank].pop(0))
    return max(heard.values(), default=0)


def is_same(got, expected):
    """Return whether a copy, or a sum of whole numbers, is the one expected: no bit differs."""
    return np.array_equal(got, expected)


def is_near(got, expected):
    """Return whether the two are equal but for rounding."""
    return np.shape(got) == np.shape(expected) and np.allclose(got, expected)


def require_array(got, who):
    """Raise Feedback if `got` is None, holds several arrays, or is something else."""
    if got is None:
        raise Feedback(f"{who} returned None, expected an array. Is the last line a return?")
    if not isinstance(got, np.ndarray | np.generic):
        what = type(got).__name__
        raise Feedback(f"{who} returned a {what}, expected one array, as send takes it.")


def require_sends(run, rank, messages, n_bytes, called):
    """Raise Feedback unless `rank` sent so many messages and bytes."""
    if run.messages_sent(rank) != messages:
        raise Feedback(
            f"{called}: rank {rank} sent {run.messages_sent(rank)} messages, expected {messages}. "
            "Who has to talk to whom, and how often?"
        )
    if run.bytes_sent(rank) != n_bytes:
        raise Feedback(
            f"{called}: rank {rank} sent {run.bytes_sent(rank)} bytes, expected {n_bytes}. "
            "What does the receiver need of the array?"
        )


def require_sends_over(run, called):
    """Raise Feedback unless each rank waited for the end of all of its sends; needs `steps`."""
    kinds = [(step.rank, step.kind) for step in run.steps]
    for rank in range(len(run.results)):
        if kinds.count((rank, "over")) < kinds.count((rank, "send")):
            raise Feedback(
                f"{called}: rank {rank} returns while a send that it started may still be going "
                "on: the caller may change x, and the other rank would get a mixture. Who waits "
                "for the send?"
            )


def require_dtype(got, dtype, name):
    """Raise Feedback unless `got` has the dtype of what went in."""
    if np.asarray(got).dtype != dtype:
        raise Feedback(
            f"{name} of {dtype} returned {np.asarray(got).dtype}. Which of your steps makes floats "
            "of whatever it gets?"
        )


# ---- 1. read_exactly, message


def read_trickle(comm, data, most, n):
    """Read `n` bytes by the learner's function on rank 0; the stream lies on rank 1."""
    import numpy

    if comm.rank == 1:
        at = 0
        while len(request := comm.recv(0)):
            piece = data[at : at + max(0, min(int(request[0]), most))]
            at += len(piece)
            comm.send(numpy.frombuffer(piece, numpy.uint8), 0)
        return None
    ends = [0]

    def read(k):
        comm.send(numpy.array([min(k, 1 << 40)]), 1)
        piece = comm.recv(1).tobytes()
        ends[0] += not piece and k > 0
        if ends[0] > 200:
            raise RuntimeError("read was called 200 times after the end of the stream")
        return piece

    try:
        got = bytes(read_exactly(read, n))
    except ConnectionError:
        got = "ConnectionError"
    comm.send(numpy.empty(0), 1)
    return got


def ask_read_exactly(student, data, most, n):
    """Return what read_exactly returned, how many bytes it took, and what it asked for."""
    run = student.ranks(read_trickle, 2, [(b"", most, n), (data, most, n)], MESSAGES)
    calls = [int(m.array[0]) for m in run.messages if m.src == 0 and m.array.size]
    return run.results[0], run.bytes_sent(1), calls


@check("read_exactly", weight=2)
def as_many_bytes_as_were_asked_for(student, rng):
    """n bytes come back, in order, however few each read returns"""
    for n, most in ((10, 3), (1, 1), (64, 64), (1000, 7), (0, 5)):
        data = rng.bytes(n + 20)
        got, _, _ = ask_read_exactly(student, data, most, n)
        called = f"read_exactly(read, {n}), where read gives {most} bytes at most,"
        if got == "ConnectionError":
            raise Feedback(f"{called} raised ConnectionError, but the stream had not ended.")
        if len(got) != n:
            raise Feedback(
                f"{called} returned {len(got)} bytes. What does one call of read promise?"
            )
        if got != data[:n]:
            raise Feedback(f"{called} returned {n} bytes, but not those of the stream in order.")


@check("read_exactly", requires="as_many_bytes_as_were_asked_for")
def nothing_beyond_is_read(student, rng):
    """not a byte of the next message is asked for"""
    data = rng.bytes(50)
    _, n_taken, calls = ask_read_exactly(student, data, 8, 21)
    if n_taken != 21:
        raise Feedback(
            f"read_exactly(read, 21) took {n_taken} bytes out of the stream; its calls asked for "
            f"{calls}. Whose are the bytes after the 21st?"
        )


@check("read_exactly", requires="as_many_bytes_as_were_asked_for")
def a_read_asks_for_many_bytes(student, rng):
    """where many bytes are there, few calls of read take them"""
    _, _, calls = ask_read_exactly(student, rng.bytes(2000), 2000, 2000)
    if len(calls) > 200:
        raise Feedback(
            f"read_exactly(read, 2000) called read {len(calls)} times, where all bytes were there. "
            "Each call asks the operating system: how many bytes may you ask for at once?"
        )


@check("read_exactly", requires="as_many_bytes_as_were_asked_for")
def the_end_of_the_stream_is_an_error(student, rng):
    """a stream that ends too soon raises ConnectionError"""
    for n_data in (0, 9):
        try:
            got, _, _ = ask_read_exactly(student, rng.bytes(n_data), 4, 12)
        except StudentError as error:
            if "200 times" in str(error):
                raise Feedback(
                    f"read_exactly(read, 12) of a stream of {n_data} bytes goes on for ever. What "
                    "does read return when the other end has closed, and what then?"
                ) from error
            raise
        if got != "ConnectionError":
            raise Feedback(
                f"read_exactly(read, 12) of a stream that ends after {n_data} bytes returned "
                f"{len(got)} bytes. The caller believes that they are 12: raise ConnectionError."
            )


def send_and_read(comm, messages, most, turn):
    """Send arrays one after another on rank 0, and read them again on rank 1."""
    import numpy

    def write(data):
        if len(data):
            comm.send(numpy.frombuffer(bytes(data), numpy.uint8), 1)

    if comm.rank == 0:
        first = messages[0]
        for x in [first.T, first[::2], first.astype(">f8")] if turn else messages:
            send_array(write, x)
            comm.send(numpy.empty(0, numpy.uint8), 1)  # where a message ends
        return None
    stream, at, results = b"", [0], []
    for _ in range(messages):
        while len(piece := comm.recv(0)):
            stream += piece.tobytes()

    def read(k):
        piece = stream[at[0] : at[0] + min(k, most)]
        at[0] += len(piece)
        return piece

    for _ in range(messages):
        y = recv_array(read)
        results.append([y, str(getattr(y, "dtype", None)), bool(y.flags.writeable), at[0]])
    return results


def ask_round_trip(student, messages, most, turn=False):
    """Return what arrived of each array, where each message ended, all that travelled, and how often.

    A message that has ended is followed by an empty one.
    """
    count = 3 if turn else len(messages)
    run = student.ranks(send_and_read, 2, [(messages, most, turn), (count, most, turn)], MESSAGES)
    marks, stream, writes = [], b"", 0
    for m in run.messages:
        stream += m.array.tobytes()
        if not m.array.size:
            marks.append(len(stream))
        writes += m.array.size > 0
    return run.results[1], marks, stream, writes


def draw_samples(rng):
    """Return arrays of several kinds."""
    return [
        rng.normal(size=(2, 3)),
        rng.normal(size=(2, 3)),
        rng.normal(size=7).astype(np.float32),
        rng.integers(-9, 9, size=(1, 2, 2)),
        np.array(rng.normal()),
        rng.integers(0, 255, size=int(rng.integers(300, 400))).astype(np.uint8),
        np.zeros((0, 3)),
    ]


@check("message", weight=3)
def an_array_arrives_as_it_was(student, rng):
    """dtype, shape and elements arrive, message by message, however few bytes at a time"""
    for most in (10_000, 5, 1):
        messages = draw_samples(rng)
        try:
            results, marks, *_ = ask_round_trip(student, messages, most)
        except StudentError as error:
            if most > 1:
                raise
            raise Feedback(
                f"where read gives one byte at a time, recv_array raised {error.type_name}. Does "
                "each read of yours go on until it has all that it needs? You have a function "
                "for that."
            ) from error
        for x, (y, dtype, _, at), mark in zip(messages, results, marks, strict=True):
            what = f"an array of {x.dtype} and shape {x.shape}"
            if dtype != str(x.dtype):
                raise Feedback(f"{what} arrived as {dtype}. Does your header say the dtype?")
            if np.shape(y) != x.shape:
                raise Feedback(
                    f"{what} arrived with shape {np.shape(y)}. Does your header say the shape?"
                )
            close(y, x, called=f"{what}, as it arrived,", hint="Are the bytes those of x?")
            if at != mark:
                raise Feedback(
                    f"{what} was a message of {mark} bytes so far, but {at} were read. "
                    "Where does a message end?"
                )


@check("message", requires="an_array_arrives_as_it_was")
def strides_do_not_matter(student, rng):
    """a transposed or sliced array, or one of turned bytes, arrives as what it shows, writable"""
    x = rng.normal(size=(4, 3))
    results = ask_round_trip(student, [x], 1 << 16, turn=True)[0]
    (a, _, first, _), (b, _, second, _), (c, dtype, *_) = results
    close(a, x.T, called="x.T after a trip", hint="In which order do the bytes of x lie in memory?")
    close(b, x[::2], called="x[::2] after a trip", hint="x[::2] is not all of x's memory.")
    hint = "dtype.name says how long a number is. Who says in which order its bytes stand?"
    close(c, x, called='x.astype(">f8") after a trip', hint=hint)
    if dtype != ">f8":
        raise Feedback(f'x.astype(">f8") arrived as {dtype}, which is another dtype. {hint}')
    if not (first and second):
        raise Feedback(
            "the array that recv_array returns cannot be written to: its memory belongs to the "
            "bytes. Whose memory should it have?"
        )


def holds_pickle(data):
    """Return whether a pickle lies in these bytes, from its first to its last."""
    for at in range(len(data) - 1):
        if data[at] == 0x80 and 2 <= data[at + 1] <= 5:
            try:
                return bool(list(pickletools.genops(data[at:])))
            except ValueError:
                continue
    return False


@check("message", requires="an_array_arrives_as_it_was")
def the_elements_travel_as_they_lie(student, rng):
    """a message holds the array's own bytes and a header of at most 200, and no pickle"""
    x = rng.normal(size=1000)
    _, marks, stream, writes = ask_round_trip(student, [x], 4096)
    if x.tobytes() not in stream:
        raise Feedback(
            "the bytes of x are not in the message as they lie in memory: turning numbers into "
            "text and back costs far more than sending them. What does x.tobytes() give?"
        )
    if marks[0] > x.nbytes + 200:
        raise Feedback(
            f"a message with {x.nbytes} bytes of elements is {marks[0]} bytes long. "
            "Dtype and shape need less."
        )
    if writes > 50:
        raise Feedback(
            f"send_array of 1,000 numbers called write {writes} times. Each call asks the operating "
            "system: how many bytes may one of them have?"
        )
    if holds_pickle(stream):
        raise Feedback(
            "the message holds a pickle, which is a program: whoever reads it runs whatever a "
            "stranger has written there. Which bytes say dtype and shape, and nothing else?"
        )


@check("message", requires="an_array_arrives_as_it_was")
def long_shapes_and_odd_dtypes_arrive(student, rng):
    """many axes, long axes, complex numbers and booleans arrive too"""
    messages = [
        rng.normal(size=(1,) * 20 + (3,)),
        rng.normal(size=(70_000,)).astype(np.float32),
        rng.normal(size=(2, 2)) + 1j,
        rng.normal(size=(3, 1)) > 0,
    ]
    results, *_ = ask_round_trip(student, messages, 1 << 16)
    for x, (y, dtype, _, _) in zip(messages, results, strict=True):
        if dtype != str(x.dtype) or np.shape(y) != x.shape or not np.array_equal(x, y):
            raise Feedback(
                "an array of another shape or dtype did not arrive.",
                hint="How many bytes does your header have room for? Which dtypes does it know?",
            )


# ---- 2. exchange


def exchange_in_pairs(comm, x, apart=1):
    """Exchange with the other rank of a pair: 0 and 1, 2 and 3; with 2 as `apart`, 0 and 2, ..."""
    before = x.copy()
    theirs = exchange(comm, x, comm.rank ^ apart)
    return theirs, bool((x == before).all())


@check("exchange", weight=2)
def each_has_the_others_array(student, rng):
    """both ranks return what the other one passed, and keep their own"""
    inputs = draw_arrays(rng, 4)
    for apart in (1, 2):
        run = student.ranks(exchange_in_pairs, 4, [(x, apart) for x in inputs], MESSAGES)
        for rank, (got, unchanged) in enumerate(run.results):
            partner = rank ^ apart
            if not is_same(got, inputs[partner]):
                mine = " That is its own." if is_same(got, inputs[rank]) else ""
                raise Feedback(
                    f"exchange between ranks {rank} and {partner}: rank {rank} returned {got}, "
                    f"expected {inputs[partner]}, the other's.{mine} What does recv give you?"
                )
            require_array(got, f"exchange between ranks {rank} and {partner}: rank {rank}")
            if not unchanged:
                raise Feedback(
                    f"exchange changed the x of rank {rank}. It belongs to the caller, who may need "
                    "it again: what does exchange return?"
                )
            require_sends(run, rank, 1, inputs[rank].nbytes, "exchange")


@check("exchange", weight=2, requires="each_has_the_others_array")
def the_send_goes_on_while_receiving(student, rng):
    """the send is started, not waited for, before the array is received"""
    run = student.ranks(exchange_in_pairs, 2, draw_arrays(rng, 2), MESSAGES, steps=True)
    for rank in range(2):
        steps = [step.kind for step in run.steps if step.rank == rank]
        if steps.index("ask") < steps.index("send"):
            raise Feedback(
                f"exchange: on rank {rank} the first thing that happens is a recv. If the partner "
                "does the same, who ever sends?"
            )
        if "over" in steps[: steps.index("post")]:
            raise Feedback(
                f"exchange: rank {rank} waits for the end of its send before it receives anything: "
                "comm.send does so, and so does wait() on what isend returned. A send may end only "
                "when the partner receives, and the partner waits, too. When does yours have to be "
                "over?"
            )


@check("exchange", requires="each_has_the_others_array")
def the_send_is_over_at_the_end(student, rng):
    """when exchange returns, its send is over and x may be changed"""
    run = student.ranks(exchange_in_pairs, 2, draw_arrays(rng, 2), MESSAGES, steps=True)
    if any(Step(rank, "over", 1 - rank) not in run.steps for rank in range(2)):
        raise Feedback(
            "exchange returns while its send may still be going on: the caller may change x, "
            "and the partner would get a mixture. Who waits for the send?"
        )


# ---- 3. from_one, to_one


SIZES = ((4, 0), (3, 2), (5, 1), (1, 0), (2, 1))


@check("from_one", weight=2)
def everybody_has_the_roots_array(student, rng):
    """naive_broadcast returns the root's array on every rank, whichever rank is the root"""
    for n, root in SIZES:
        (x,) = draw_arrays(rng, 1, (2, 3), (np.float64, np.int32)[n % 2])
        inputs = [(x if rank == root else None, root) for rank in range(n)]
        run = student.ranks("naive_broadcast", n, inputs, MESSAGES, steps=True)
        for rank, got in enumerate(run.results):
            if not is_same(got, x):
                raise Feedback(
                    f"naive_broadcast over {n} ranks from root {root}: rank {rank} returned "
                    f"{got}, expected {x}. Who has x at the beginning, and who needs it?"
                )
            require_dtype(got, x.dtype, "naive_broadcast")
        for rank in range(n):
            many = n - 1 if rank == root else 0
            require_sends(
                run, rank, many, many * x.nbytes, f"naive_broadcast from root {root} of {n}"
            )
        require_sends_over(run, f"naive_broadcast from root {root} of {n}")


@check("from_one", weight=2)
def everybody_has_its_own_part(student, rng):
    """naive_scatter returns part r on rank r, and no part travels that is not needed there"""

    def keep(comm, parts, root):
        count = parts and len(parts)
        return naive_scatter(comm, parts, root), count == (parts and len(parts))

    for n, root in SIZES:
        parts = draw_arrays(rng, n, (3,))
        inputs = [(parts if rank == root else None, root) for rank in range(n)]
        run = student.ranks(keep, n, inputs, MESSAGES, steps=True)
        for rank, (got, unchanged) in enumerate(run.results):
            if not unchanged:
                raise Feedback(
                    "naive_scatter took parts out of the list that it was given. It belongs to the "
                    "caller, who may scatter it again: which way to a part leaves it there?"
                )
            if not is_same(got, parts[rank]):
                matches = [r for r, part in enumerate(parts) if is_same(got, part)]
                what = f"part {matches[0]}" if matches else f"{got}"
                raise Feedback(
                    f"naive_scatter over {n} ranks from root {root}: rank {rank} returned {what}. "
                    "Which part is meant for it?"
                )
        for rank in range(n):
            many = n - 1 if rank == root else 0
            require_sends(
                run, rank, many, many * parts[0].nbytes, f"naive_scatter from root {root} of {n}"
            )
        require_sends_over(run, f"naive_scatter from root {root} of {n}")


@check("from_one", hidden=True)
def parts_may_differ_in_shape(student, rng):
    """scatter's parts may have different shapes and dtypes"""
    parts = [rng.normal(size=k + 1).astype(("f4", "f8")[k % 2]) for k in range(4)]
    run = student.ranks(
        "naive_scatter", 4, [(parts if r == 3 else None, 3) for r in range(4)], MESSAGES
    )
    for got, part in zip(run.results, parts, strict=True):
        if not is_same(got, part) or np.asarray(got).dtype != part.dtype:
            raise Feedback("a part did not arrive as it was.", hint="Send parts[dst] itself.")


@check("to_one", weight=2)
def the_root_has_every_row(student, rng):
    """naive_gather returns rank r's array as row r at the root, and None elsewhere"""
    for k, (n, root) in enumerate(SIZES):
        inputs = draw_arrays(rng, n, (2, 2), (np.float64, np.int64)[k % 2])
        run = student.ranks("naive_gather", n, [(x, root) for x in inputs], MESSAGES, steps=True)
        require_sends_over(run, f"naive_gather at root {root} of {n}")
        for rank, got in enumerate(run.results):
            if rank != root and got is not None:
                raise Feedback(
                    f"naive_gather at root {root} of {n}: rank {rank} returned {got}, expected "
                    "None. Only the root has a result."
                )
        got = run.results[root]
        require_array(got, f"naive_gather at root {root} of {n}: the root")
        if np.shape(got) != (n, 2, 2):
            raise Feedback(
                f"naive_gather at root {root} of {n}: the root returned shape {np.shape(got)}, "
                f"expected {(n, 2, 2)}: one row a rank."
            )
        if got.dtype != inputs[0].dtype:
            raise Feedback(
                f"naive_gather of {inputs[0].dtype} returned {got.dtype}. Which dtype has an array "
                "that is made before anything is put into it?"
            )
        for rank, row in enumerate(got):
            if not is_same(row, inputs[rank]):
                matches = [r for r, x in enumerate(inputs) if is_same(row, x)]
                what = f"rank {matches[0]}'s array" if matches else "nobody's array"
                raise Feedback(
                    f"naive_gather at root {root} of {n}: row {rank} is {what}. "
                    "In which order does the root put its own x and what arrives?"
                )
            many = 0 if rank == root else 1
            require_sends(
                run, rank, many, many * inputs[0].nbytes, f"naive_gather at root {root} of {n}"
            )


@check("to_one", weight=2)
def the_root_has_the_sum(student, rng):
    """naive_reduce returns the sum over all ranks at the root, and None elsewhere"""
    for n, root in SIZES:
        inputs = draw_arrays(rng, n, dtype=(np.float64, np.int64)[n % 2])
        run = student.ranks("naive_reduce", n, [(x, root) for x in inputs], MESSAGES, steps=True)
        require_sum_at_root("naive_reduce", run, inputs, root)
        for rank in range(n):
            many = 0 if rank == root else 1
            require_sends(
                run, rank, many, many * inputs[0].nbytes, f"naive_reduce at root {root} of {n}"
            )


def require_sum_at_root(name, run, inputs, root):
    """Raise Feedback unless the root has the sum of all inputs, and nobody else anything."""
    n = len(inputs)
    for rank, got in enumerate(run.results):
        if rank != root and got is not None:
            raise Feedback(
                f"{name} at root {root} of {n}: rank {rank} returned {got}, expected "
                "None. Only the root has a result."
            )
    got = run.results[root]
    if is_same(got, sum(inputs)):
        require_array(got, f"{name} at root {root} of {n}: the root")
        require_dtype(got, inputs[0].dtype, name)
        require_sends_over(run, f"{name} at root {root} of {n}")
        return
    ranks = find_contributors(got, inputs)
    if ranks is None:
        complaint = f"returned {got}, which is no sum of the inputs of some ranks, each once"
    else:
        complaint = f"has the contributions of ranks {', '.join(map(str, ranks))} only"
    raise Feedback(
        f"{name} at root {root} of {n}: rank {root} {complaint}. Follow the digits of `tiny`: "
        "who was lost, or counted twice?"
    )


@check("to_one")
def any_operation_and_x_is_kept(student, rng):
    """op may be any key of COMBINE, and x is the same after the call"""

    def keep(comm, x, root, op):
        before = x.copy()
        return naive_reduce(comm, x, root, op), bool((x == before).all())

    compare_operations("naive_reduce", student, rng, keep, 3)


def compare_operations(name, student, rng, keep, n):
    """Raise Feedback unless each operation is that of NumPy, and x is kept."""
    signs = np.array([1.0, -1.0, -1.0, 1.0])  # of some elements all ranks have a negative one
    inputs = [signs * rng.uniform(0.5, 2.0, size=4) for _ in range(n)]
    for op, combine in (("max", np.maximum), ("min", np.minimum), ("prod", np.multiply)):
        run = student.ranks(keep, n, [(x, 1, op) for x in inputs], MESSAGES)
        if not all(unchanged for _, unchanged in run.results):
            raise Feedback(
                f"{name} changed an x that it was given. It belongs to the caller, who may need it "
                "again. Which operations work in place?"
            )
        got, expected = run.results[1][0], combine.reduce(inputs)
        if not is_near(got, expected):
            raise Feedback(
                f'{name}(comm, x, op="{op}"): the root returned {got}, expected the "{op}" over all '
                f"ranks, {expected}. Where does op count, and is nobody left out?"
            )


# ---- 4. tree_broadcast, tree_reduce


TREES = ((8, 0), (4, 1), (5, 3), (7, 6), (3, 0), (2, 1), (1, 0), (6, 2))


@check("tree_broadcast", weight=3)
def the_tree_reaches_everybody(student, rng):
    """every rank returns the root's array, for any number of ranks and any root"""
    for n, root in TREES:
        (x,) = draw_arrays(rng, 1, (4,))
        run = student.ranks(
            "tree_broadcast",
            n,
            [(x if rank == root else None, root) for rank in range(n)],
            MESSAGES,
            steps=True,
        )
        require_sends_over(run, f"tree_broadcast over {n} ranks from root {root}")
        for rank, got in enumerate(run.results):
            if not is_same(got, x):
                raise Feedback(
                    f"tree_broadcast over {n} ranks from root {root}: rank {rank} returned {got}. "
                    "Who should have sent it to this place, and in which round?"
                )
        for rank in range(n):
            received = sum(m.dst == rank for m in run.messages)
            if received != (rank != root):
                raise Feedback(
                    f"tree_broadcast over {n} ranks from root {root}: rank {rank} received "
                    f"{received} messages. The root receives none, each other rank exactly one."
                )


@check("tree_broadcast", weight=3, requires="the_tree_reaches_everybody")
def it_takes_lg_n_rounds(student, rng):
    """everybody has it after ceil(lg n) rounds"""
    for n, root in TREES:
        (x,) = draw_arrays(rng, 1, (4,))
        run = student.ranks(
            "tree_broadcast",
            n,
            [(x if rank == root else None, root) for rank in range(n)],
            MESSAGES,
        )
        least, n_rounds = (n - 1).bit_length(), count_rounds(run.messages)
        if n_rounds > least:
            raise Feedback(
                f"tree_broadcast over {n} ranks from root {root} takes {n_rounds} rounds, {least} are "
                "enough. In each round, do all ranks that have the array send it to somebody new?"
            )


@check("tree_broadcast", hidden=True, requires="the_tree_reaches_everybody")
def the_whole_array_travels(student, rng):
    """n - 1 messages of the whole array, of any shape and dtype"""
    n, root = 6, int(rng.integers(6))
    x = rng.integers(0, 99, size=(2, 1, 3)).astype(np.int32)
    run = student.ranks(
        "tree_broadcast", n, [(x if r == root else None, root) for r in range(n)], MESSAGES
    )
    for m in run.messages:
        if m.array.shape != x.shape or m.array.dtype != x.dtype or not np.array_equal(m.array, x):
            raise Feedback(
                "a message of the tree was not the root's array.",
                hint="Look at the messages in the player.",
            )


@check("tree_reduce", weight=3)
def the_root_of_the_tree_has_the_sum(student, rng):
    """the root returns the sum over all ranks, the others None, for any n and any root"""
    for n, root in TREES:
        inputs = draw_arrays(rng, n, dtype=(np.float64, np.int64)[n % 2])
        run = student.ranks("tree_reduce", n, [(x, root) for x in inputs], MESSAGES, steps=True)
        require_sum_at_root("tree_reduce", run, inputs, root)
        for rank in range(n):
            many = 0 if rank == root else 1
            require_sends(
                run, rank, many, many * inputs[0].nbytes, f"tree_reduce at root {root} of {n}"
            )


@check("tree_reduce", weight=3, requires="the_root_of_the_tree_has_the_sum")
def partial_sums_meet_in_pairs(student, rng):
    """no rank receives more than ceil(lg n) messages, and partial sums meet level by level"""
    for n, root in TREES:
        inputs = draw_arrays(rng, n)
        run = student.ranks("tree_reduce", n, [(x, root) for x in inputs], MESSAGES)
        least, n_rounds = (n - 1).bit_length(), count_levels(run.messages, inputs)
        if n_rounds > least:
            raise Feedback(
                f"tree_reduce at root {root} of {n} takes {n_rounds} rounds, {least} are enough. "
                "How many messages does the busiest rank receive, and what could others add up "
                "meanwhile?"
            )


def count_levels(messages, inputs):
    """Return how many rounds a reduction needs, each rank receiving one message a round."""
    ends = {}

    def ready(rank):
        if rank not in ends:
            at = 0
            for arrival in sorted(ready(m.src) for m in messages if m.dst == rank):
                at = max(at, arrival) + 1
            ends[rank] = at
        return ends[rank]

    return max(ready(rank) for rank in range(len(inputs)))


@check("tree_reduce", requires="the_root_of_the_tree_has_the_sum")
def any_operation_in_the_tree(student, rng):
    """op may be any key of COMBINE, and x is the same after the call"""

    def keep(comm, x, root, op):
        before = x.copy()
        return tree_reduce(comm, x, root, op), bool((x == before).all())

    compare_operations("tree_reduce", student, rng, keep, 4)


# ---- 5. all_gather, reduce_scatter, barrier


POWERS = (4, 2, 8, 1)


@check("all_gather", weight=3)
def every_rank_has_every_row(student, rng):
    """every rank returns all arrays, row r being rank r's"""
    for n in POWERS:
        inputs = draw_arrays(rng, n, (2,))
        run = student.ranks("all_gather", n, inputs, MESSAGES)
        for rank, got in enumerate(run.results):
            require_array(got, f"all_gather over {n} ranks: rank {rank}")
            if np.shape(got) != (n, 2):
                raise Feedback(
                    f"all_gather of shape (2,) over {n} ranks: rank {rank} returned shape "
                    f"{np.shape(got)}, expected {(n, 2)}: one row a rank."
                )
            order = [
                next((str(r) for r, x in enumerate(inputs) if is_same(row, x)), "?") for row in got
            ]
            if order != [str(r) for r in range(n)]:
                raise Feedback(
                    f"all_gather over {n} ranks: rank {rank} has the rows of ranks "
                    f"{', '.join(order)}, in this order. When two halves are joined, whose rows "
                    "come first?"
                )


@check("all_gather", weight=3, requires="every_rank_has_every_row")
def the_rows_double_each_round(student, rng):
    """lg n messages a rank, to rank ^ 1, rank ^ 2, rank ^ 4, ..., with 1, 2, 4, ... rows"""
    for n in (8, 4):
        inputs = draw_arrays(rng, n, (3,))
        run = student.ranks("all_gather", n, inputs, MESSAGES, steps=True)
        require_sends_over(run, f"all_gather over {n}")
        for rank in range(n):
            messages = [m for m in run.messages if m.src == rank]
            require_sends(
                run, rank, n.bit_length() - 1, (n - 1) * inputs[0].nbytes, f"all_gather over {n}"
            )
            for k, m in enumerate(messages):
                if m.dst != rank ^ (1 << k) or m.n_bytes != inputs[0].nbytes << k:
                    raise Feedback(
                        f"all_gather over {n}: message {k + 1} of rank {rank} has {m.n_bytes} "
                        f"bytes and goes to rank {m.dst}. With whom does rank {rank} meet in round "
                        f"{k + 1}, and how many rows does it have by then?"
                    )


@check("all_gather", requires="every_rank_has_every_row")
def shape_and_dtype_are_kept(student, rng):
    """arrays of any shape and dtype are gathered, and x is kept"""

    def keep(comm, x):
        before = x.copy()
        return all_gather(comm, x), bool((x == before).all())

    for shape, dtype in (((), np.float32), ((2, 3), np.int64), ((0,), np.float64)):
        inputs = [rng.integers(0, 99, size=shape).astype(dtype).reshape(shape) for _ in range(4)]
        run = student.ranks(keep, 4, inputs, MESSAGES)
        for got, unchanged in run.results:
            if (
                not unchanged
                or not is_same(got, np.stack(inputs))
                or np.asarray(got).dtype != dtype
            ):
                raise Feedback(
                    f"all_gather of {np.dtype(dtype)} of shape {shape} over 4 ranks returned "
                    f"{np.asarray(got).dtype} of shape {np.shape(got)}, or other rows, or changed x.",
                    hint="What do you do with x that needs it to have one axis?",
                )


@check("reduce_scatter", weight=3)
def each_rank_has_its_row_of_the_sum(student, rng):
    """rank r returns row r of the sum over all ranks"""
    for n in POWERS:
        inputs = draw_arrays(rng, n, (n, 2))
        run = student.ranks("reduce_scatter", n, inputs, MESSAGES)
        for rank, got in enumerate(run.results):
            if not is_same(got, sum(inputs)[rank]):
                raise Feedback(describe_wrong_row(n, rank, got, inputs))


def describe_wrong_row(n, rank, got, inputs):
    """Return what `got` is instead of row `rank` of the sum."""
    called = f"reduce_scatter over {n} ranks: rank {rank} returned"
    require_array(got, called.removesuffix(" returned"))
    if np.shape(got) != (2,):
        return f"{called} shape {np.shape(got)}, expected (2,): one row of x."
    for row in sorted(range(n), key=lambda r: r != rank):
        ranks = find_contributors(got, [x[row] for x in inputs])
        if ranks is not None and row != rank:
            return f"{called} row {row}. Which half of the rows did it keep in each round?"
        if ranks is not None:
            names = ", ".join(map(str, ranks))
            return (
                f"{called} row {rank} with the contributions of ranks {names} only. What was "
                "combined with what arrived, and in which rounds?"
            )
    total = sum(inputs)[rank]
    return (
        f"{called} {got}, expected {total}. That is no sum of one row over any ranks. Read the "
        "digits of `tiny`: what was counted twice, or put beside another row?"
    )


@check("reduce_scatter", weight=3, requires="each_rank_has_its_row_of_the_sum")
def half_the_rows_are_given_away_each_round(student, rng):
    """lg n messages a rank, to the farthest partner first, with n/2, n/4, ..., 1 rows"""
    for n in (8, 4):
        inputs = draw_arrays(rng, n, (n, 2))
        run = student.ranks("reduce_scatter", n, inputs, MESSAGES, steps=True)
        require_sends_over(run, f"reduce_scatter over {n}")
        row = inputs[0][0].nbytes
        for rank in range(n):
            require_sends(run, rank, n.bit_length() - 1, (n - 1) * row, f"reduce_scatter over {n}")
            for k, m in enumerate(m for m in run.messages if m.src == rank):
                distance = n >> (k + 1)
                if m.dst != rank ^ distance or m.n_bytes != distance * row:
                    raise Feedback(
                        f"reduce_scatter over {n}: message {k + 1} of rank {rank} has "
                        f"{m.n_bytes // row} rows and goes to rank {m.dst}. Which half does whom "
                        "concern?"
                    )


@check("reduce_scatter", requires="each_rank_has_its_row_of_the_sum")
def any_operation_in_halves(student, rng):
    """op may be any key of COMBINE, and x is the same after the call"""

    def keep(comm, x, op):
        before = x.copy()
        return reduce_scatter(comm, x, op), bool((x == before).all())

    inputs = [rng.uniform(0.5, 2.0, size=(4, 3)) for _ in range(4)]
    for op, combine in (("max", np.maximum), ("min", np.minimum), ("prod", np.multiply)):
        run = student.ranks(keep, 4, [(x, op) for x in inputs], MESSAGES)
        for rank, (got, unchanged) in enumerate(run.results):
            if not unchanged:
                raise Feedback(
                    "reduce_scatter changed an x that it was given. rows[:d] is a view: what works "
                    "in place?"
                )
            expected = combine.reduce(inputs)[rank]
            if not is_near(got, expected):
                raise Feedback(
                    f'reduce_scatter(comm, x, "{op}"): rank {rank} returned {got}, expected '
                    f'{expected}, the "{op}" over all ranks. Where does op count, and is nobody '
                    "left out?"
                )


@check("reduce_scatter", requires="each_rank_has_its_row_of_the_sum")
def rows_of_any_shape_and_dtype(student, rng):
    """a row may have any shape and dtype, and comes back as it is"""
    for shape, dtype in (((), np.float64), ((2, 3), np.int64), ((0,), np.float32)):
        inputs = draw_arrays(rng, 4, (4, *shape), dtype)
        run = student.ranks("reduce_scatter", 4, inputs, MESSAGES)
        for rank, got in enumerate(run.results):
            called = f"reduce_scatter of {np.dtype(dtype)} of shape {(4, *shape)}: rank {rank}"
            if np.shape(got) != shape or not is_same(got, sum(inputs)[rank]):
                raise Feedback(
                    f"{called} returned shape {np.shape(got)}, or another row than its own of the "
                    f"sum, expected shape {shape}. Which step needs rows of one axis?"
                )
            require_array(got, called)
            require_dtype(got, np.dtype(dtype), "reduce_scatter")


def run_barrier(comm, nothing):
    """Return whose arrival this rank has heard of when its barrier ends, as bits."""
    import numpy

    class Heard:
        def __init__(self, work):
            self.work = work

        def wait(self, timeout_s=None):
            Gossip.known |= int(self.work.wait()[0])
            return numpy.empty(0)

        def test(self):
            return self.work.test()

    class Gossip:
        rank, size = comm.rank, comm.size
        known = 1 << comm.rank

        def send(self, x, dst):
            comm.send(numpy.array([Gossip.known]), dst)

        def isend(self, x, dst):
            return comm.isend(numpy.array([Gossip.known]), dst)

        def recv(self, src):
            return Heard(comm.irecv(src)).wait()

        def irecv(self, src):
            return Heard(comm.irecv(src))

        def sendrecv(self, x, dst, src):
            self.send(x, dst)
            return self.recv(src)

    barrier(Gossip())
    return Gossip.known


def compute_possible_news(messages, n):
    """Return of whom each rank can have heard by these messages, in order of sending, as bits."""
    news = [1 << rank for rank in range(n)]
    for m in messages:
        news[m.dst] |= news[m.src]
    return news


@check("barrier", weight=3)
def nobody_leaves_before_all_have_come(student, rng):
    """a rank that leaves has heard, directly or through others, that every rank has come"""
    for n in (4, 2, 3, 5, 8, 7):
        run = student.ranks(run_barrier, n, [0] * n, MESSAGES)
        possible_news = compute_possible_news(run.messages, n)
        for rank, news in enumerate(run.results):
            news &= possible_news[rank]  # what a rank says, as far as the network can have told it
            missing = [str(r) for r in range(n) if not news >> r & 1]
            if missing:
                raise Feedback(
                    f"barrier over {n} ranks: rank {rank} leaves and has not heard of rank "
                    f"{', '.join(missing)}, not even through others. That rank may not have come "
                    "yet. Whom does it hear from in each round, and what do those know?"
                )


@check("barrier", weight=2, requires="nobody_leaves_before_all_have_come")
def lg_n_rounds_of_empty_messages(student, rng):
    """ceil(lg n) messages a rank, without a byte of array"""

    def call_barrier(comm, nothing):
        barrier(comm)

    for n in (8, 5, 2, 1):
        run = student.ranks(call_barrier, n, [0] * n, MESSAGES, steps=True)
        for rank in range(n):
            least = (n - 1).bit_length()
            if run.messages_sent(rank) > least:
                raise Feedback(
                    f"barrier over {n} ranks: rank {rank} sent {run.messages_sent(rank)} messages, "
                    f"{least} are enough. By how much does the distance grow?"
                )
            if run.bytes_sent(rank):
                raise Feedback(
                    f"barrier over {n} ranks: rank {rank} sent {run.bytes_sent(rank)} bytes. The "
                    "message itself is the news: what needs to be in it?"
                )
        if (chain := count_chain(run.steps)) > least:
            raise Feedback(
                f"barrier over {n} ranks: {chain} messages follow each other, {least} are enough. "
                "Do some ranks report first, and only then hear? What can all of them do at once?"
            )


# ---- 6. broadcast_time, crossover_bytes


ALGORITHMS = ("naive", "tree", "scatter_all_gather")


@check("broadcast_time")
def latencies_are_counted(student, rng):
    """n-1, lg n, and n-1 + lg n messages follow each other"""
    for n in (8, 2, 64):
        lg = n.bit_length() - 1
        alpha = float(rng.uniform(1e-6, 1e-3))
        for name, due in zip(ALGORITHMS, (n - 1, lg, n - 1 + lg), strict=True):
            got = to_number(student.call("broadcast_time", name, n, 0, alpha, 1e-9)) / alpha
            if not abs(got - due) <= 1e-6:
                raise Feedback(
                    f'broadcast_time("{name}", {n}, 0, alpha, beta): empty messages take {got:g} '
                    "latencies. How many messages follow each other, up to the last rank?"
                )


@check("broadcast_time")
def bytes_on_the_way_are_counted(student, rng):
    """n-1, lg n, and 2(n-1)/n times the array pass one after the other"""
    for n in (8, 2, 64):
        lg = n.bit_length() - 1
        size = float(rng.integers(10**5, 10**6))
        for name, due in zip(ALGORITHMS, (n - 1, lg, 2 * (n - 1) / n), strict=True):
            got = to_number(student.call("broadcast_time", name, n, size, 0.0, 1e-9)) / size / 1e-9
            hint = "How often does the whole array, or a share of it, pass on the way?"
            if name == "scatter_all_gather" and abs(got - 2) <= 1e-6:
                hint = "Nearly: does the root send its own share?"
            elif name == "scatter_all_gather" and abs(got - (n - 1) / n) <= 1e-6:
                hint = "That is one of its two halves."
            if not abs(got - due) <= 1e-6:
                raise Feedback(
                    f'broadcast_time("{name}", {n}, n_bytes, 0, beta) is {got:.4g} times '
                    f"n_bytes * beta. {hint}"
                )


def compute_crossover(n, alpha, beta):
    """Return the closed form."""
    return (n - 1) * alpha / beta / (n.bit_length() - 1 - 2 * (n - 1) / n)


@check("crossover_bytes", weight=2)
def the_two_times_are_equal_there(student, rng):
    """at this size the tree and scatter with all-gather take the same time"""
    for n in (8, 4, 256):
        alpha, beta = float(rng.uniform(1e-6, 1e-3)), float(rng.uniform(1e-10, 1e-8))
        got = to_number(student.call("crossover_bytes", n, alpha, beta))
        due = compute_crossover(n, alpha, beta)
        if not abs(got - due) <= 1e-6 * due:
            lg = n.bit_length() - 1
            tree = lg * (alpha + got * beta)
            other = (n - 1 + lg) * alpha + 2 * (n - 1) / n * got * beta
            raise Feedback(
                f"crossover_bytes({n}, {alpha:.3g}, {beta:.3g}) gave {got:.6g}. There the tree "
                f"takes {tree:.4g} s, scatter and all-gather {other:.4g} s: these should be equal."
            )


@check("crossover_bytes", requires="the_two_times_are_equal_there")
def between_two_ranks_the_tree_never_loses(student, rng):
    """for 2 ranks the answer is infinity"""
    alpha, beta = float(rng.uniform(1e-6, 1e-3)), float(rng.uniform(1e-10, 1e-8))
    try:
        got = to_number(student.call("crossover_bytes", 2, alpha, beta))
    except StudentError as error:
        if error.type_name != "ZeroDivisionError":
            raise
        raise Feedback(
            "crossover_bytes(2, alpha, beta) divides by zero: for 2 ranks both lines are equally "
            "steep. Where do they meet, then?"
        ) from error
    if got != float("inf"):
        raise Feedback(
            f"crossover_bytes(2, alpha, beta) gave {got:g}. Write the two times for n = 2 side by "
            "side: does the tree ever lose?"
        )


# ---- 7. sharded_step


def draw_training(rng, n, size):
    """Return parameters, a gradient and a momentum row for each rank, and what one step gives."""
    params, grads = rng.normal(size=size), [rng.normal(size=size) for _ in range(n)]
    momentum = rng.normal(size=size)
    new_momentum = 0.9 * momentum + sum(grads) / n
    return params, grads, momentum, params - 0.05 * new_momentum, new_momentum


@check("sharded_step", weight=3)
def the_step_is_that_of_one_process(student, rng):
    """the new parameters are those of momentum with the mean of all gradients"""
    for n, size in ((4, 12), (2, 6), (1, 5)):
        params, grads, momentum, due, _ = draw_training(rng, n, size)
        rows = momentum.reshape(n, -1)
        run = student.ranks("sharded_step", n, [(params, grads[r], rows[r]) for r in range(n)])
        for result in run.results:
            got = result[0]
            hint = "Follow one row: its gradient, its momentum, its parameters."
            summed = params - 0.05 * (0.9 * momentum + sum(grads))
            rows_of_own = [grad.reshape(n, -1)[r] for r, grad in enumerate(grads)]
            own = params - 0.05 * (0.9 * momentum + np.concatenate(rows_of_own))
            if n > 1 and is_near(got, summed):
                hint = "Each gradient is a mean over its own share. What is the sum of n means?"
            elif n > 1 and is_near(got, own):
                hint = "That is a step with each rank's own gradient: what about the others'?"
            elif n > 1 and is_near(got, 2 * params - due):
                hint = "In which direction does the loss fall?"
            close(got, due, called=f"the parameters after a step over {n} ranks", hint=hint)


@check("sharded_step", weight=2)
def each_rank_keeps_its_own_momentum(student, rng):
    """the new momentum is that of this rank's row alone"""
    n, size = 4, 12
    params, grads, momentum, _, due = draw_training(rng, n, size)
    rows = momentum.reshape(n, -1)
    run = student.ranks("sharded_step", n, [(params, grads[r], rows[r]) for r in range(n)])
    for rank, result in enumerate(run.results):
        got = result[1]
        if np.shape(got) != (size // n,):
            raise Feedback(
                f"sharded_step: the momentum of rank {rank} has shape {np.shape(got)}, expected "
                f"{(size // n,)}. The point was not to keep all of it."
            )
        close(
            got,
            due.reshape(n, -1)[rank],
            called=f"the momentum of rank {rank}",
            hint="momentum = decay * momentum + mean gradient, for one row.",
        )


@check("sharded_step", weight=2, requires="the_step_is_that_of_one_process")
def no_more_travels_than_rows(student, rng):
    """each rank sends 2(n-1)/n of the parameters' bytes: gradients there, parameters back"""
    n, size = 4, 16
    params, grads, momentum, _, _ = draw_training(rng, n, size)
    params, *grads, momentum = (x.astype(np.float32) for x in (params, *grads, momentum))
    rows = momentum.reshape(n, -1)
    run = student.ranks("sharded_step", n, [(params, grads[r], rows[r]) for r in range(n)])
    for rank in range(n):
        if run.bytes_sent(rank) > 2 * (n - 1) * size * 4 // n:
            raise Feedback(
                f"sharded_step: rank {rank} sent {run.bytes_sent(rank)} bytes for {size * 4} bytes "
                "of float32 parameters. Which rows of the gradients does a rank need, and which rows of "
                "the parameters does it have to tell the others?"
            )


@check("sharded_step", requires="the_step_is_that_of_one_process")
def rate_and_decay_count_and_nothing_is_changed(student, rng):
    """lr and decay are used, and the arrays that were passed are kept"""

    def keep(comm, params, grad, momentum):
        before = params.copy(), grad.copy(), momentum.copy()
        new, _ = sharded_step(comm, params, grad, momentum, lr=0.5, decay=0.25)
        after = params, grad, momentum
        return new, all(bool((a == b).all()) for a, b in zip(before, after))

    n, size = 2, 8
    params, grads, momentum, _, _ = draw_training(rng, n, size)
    rows = momentum.reshape(n, -1)
    run = student.ranks(keep, n, [(params, grads[r], rows[r]) for r in range(n)])
    due = params - 0.5 * (0.25 * momentum + sum(grads) / n)
    for got, unchanged in run.results:
        if not unchanged or not is_near(got, due):
            raise Feedback(
                "with another lr and decay the step was wrong, or an argument was changed.",
                hint="Are lr and decay used? Is anything updated in place?",
            )
