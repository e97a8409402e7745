"""Checks of lab 09. In grading the judge is the network: it sees every message and its contents."""

from itertools import product

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close, to_number
from autograder.errors import StudentError
from autograder.records import Step

WITHHELD = (
    *("ddp_lab.cost:FORMS", "ddp_lab.cost:all_reduce_time", "ddp_lab.cost:collective_time"),
    "ddp_lab.simulate.collectives:collective",
)
LAB = LabSettings(wall_s=120.0, preload=("numpy", "ddp_lab"), withheld=WITHHELD)

# Ranks that can send and receive, and have no collective at hand: these are the answers here.
MESSAGES = "lessons.ranks.messages_only:MessagesOnly"


def draw_arrays(rng, n, elements, dtype=np.float64):
    """Return one array of whole numbers a rank; no two subsets of ranks have the same sum."""
    return [
        (rng.permutation(elements) + 1 + (elements + 1) * 100.0**rank).astype(dtype)
        for rank in range(n)
    ]


def list_bounds(elements, n):
    """Return what chunk_bounds gives, the items of an iterator as a list."""
    got = chunk_bounds(elements, n)
    return list(got) if hasattr(got, "__next__") else got


def ask_bounds(student, elements, n):
    return student.probe(list_bounds, elements=elements, n=n)


def ask_chunks(student, elements, n):
    """Return where the learner's chunks lie: who has an element more is theirs to choose."""
    got = [(int(lo), int(hi)) for lo, hi in ask_bounds(student, elements, n)]
    edges = [0, *(hi for _, hi in got)]
    sizes = np.diff(edges)
    is_joined = [lo for lo, _ in got] == edges[:-1] and edges[-1] == elements and len(got) == n
    if not is_joined or sizes.min() < 0 or sizes.max() - sizes.min() > 1:
        raise Feedback(
            f"chunk_bounds({elements}, {n}) gave {got}, and the ring goes by it. Mend that first."
        )
    return got


def find_contributors(values, parts):
    """Return the ranks whose `parts` add up to `values`, or None."""
    for mask in product((0, 1), repeat=len(parts)):
        chosen = [part for bit, part in zip(mask, parts, strict=True) if bit]
        if chosen and np.array_equal(values, sum(chosen)):  # whole numbers: exact in any order
            return [rank for rank, bit in enumerate(mask) if bit]
    return None


def describe_difference(got, expected):
    """Return in words what an answer has, and what it should have, where they differ first."""
    if np.shape(got) != np.shape(expected):
        actual = "None" if got is None else f"shape {np.shape(got)}"
        return f"{actual}, expected shape {np.shape(expected)}"
    at = int(np.flatnonzero(got != expected)[0])
    return f"{got[at]:.10g} as element {at}, expected {expected[at]:.10g}"


def require_one_way(run, n, called):
    """Raise Feedback unless every message went to the right neighbour."""
    for m in run.messages:
        if m.dst != (m.src + 1) % n:
            raise Feedback(
                f"{called}: with {n} ranks, rank {m.src} sent a message to rank {m.dst}. "
                f"In the ring it has one neighbour to send to."
            )


def require_messages(run, n, each, called):
    """Raise Feedback unless every rank sent `each` messages."""
    for rank in range(n):
        if run.messages_sent(rank) != each:
            raise Feedback(
                f"{called}: with {n} ranks, rank {rank} sent {run.messages_sent(rank)} messages, "
                f"expected {each}. Count the steps, and the messages of one step."
            )


def require_bytes(run, n, expected, called):
    """Raise Feedback unless rank r sent expected[r] bytes."""
    for rank in range(n):
        if run.bytes_sent(rank) != expected[rank]:
            raise Feedback(
                f"{called}: with {n} ranks, rank {rank} sent {run.bytes_sent(rank)} bytes, "
                f"expected {expected[rank]}. How much of the array is in one message?"
            )


def require_sends_over(run, n, called):
    """Raise Feedback unless each rank waited for the end of all of its sends; needs `steps`."""
    kinds = [(step.rank, step.kind) for step in run.steps]
    for rank in range(n):
        if kinds.count((rank, "over")) < kinds.count((rank, "send")):
            raise Feedback(
                f"{called}: with {n} ranks, rank {rank} returns while a send that it started may "
                "still be going on, of memory that is changed then. Who waits for the send?"
            )


def run_on_ranks(student, name, n, inputs):
    """Run the learner's function on ranks; of ranks that all wait, say what to look for."""
    try:
        return student.ranks(name, n, inputs, MESSAGES)
    except StudentError as error:
        if error.type_name != "Deadlock":
            raise
        raise Feedback(
            f"{name} over {n} ranks: {error}.",
            hint="If every rank receives first, no rank sends. What can each rank send before it "
            "receives?",
        ) from error


# ---- 1. naive_bytes


@check("naive_bytes")
def the_boss_sends_the_array_to_all_others(student, rng):
    """the busiest rank sends the whole array once to each of the others"""
    for n in (3, 2, int(rng.integers(4, 100))):
        n_bytes = 8 * int(rng.integers(100, 10_000))
        got = to_number(student.call("naive_bytes", n, n_bytes))
        hint = "Look at the last rounds of the picture: who sends, and to how many?"
        if got == n * n_bytes:
            hint = "That is one message too many. Does rank 0 send the sum to itself?"
        elif got == 2 * (n - 1) * n_bytes:
            hint = "That is what it sends and receives together. Only what it sends counts here."
        elif got == n_bytes and n > 2:
            hint = "That is what one of the others sends. They are not the busiest."
        if got != (n - 1) * n_bytes:
            raise Feedback(f"naive_bytes({n}, {n_bytes}) gave {got:.10g}. {hint}")


# ---- 2. chunk_bounds


CUTS = ((8, 4), (10, 4), (1003, 8), (3, 8), (0, 3), (7, 1), (5, 3))


@check("chunk_bounds")
def every_element_is_in_one_chunk(student, rng):
    """the chunks follow each other and cover every element once"""
    for elements, n in (*CUTS, (int(rng.integers(50, 500)), int(rng.integers(2, 20)))):
        got = ask_bounds(student, elements, n)
        called = f"chunk_bounds({elements}, {n}) gave {got}"
        if len(got) != n:
            raise Feedback(
                f"{called}: {len(got)} chunks, expected {n}, one a rank, some may be empty."
            )
        if any(np.shape(chunk) != (2,) for chunk in got):
            raise Feedback(f"{called}. Each chunk is a pair: where it begins, and where it ends.")
        if any(not isinstance(edge, int | np.integer) for chunk in got for edge in chunk):
            raise Feedback(f"{called}. What would half an element be? A slice takes whole numbers.")
        at = 0
        for lo, hi in got:
            if lo != at or hi < lo:
                raise Feedback(f"{called}: a chunk starts at {lo}, the one before ended at {at}.")
            at = hi
        if at != elements:
            raise Feedback(
                f"{called}: the last chunk ends at {at}. What became of the elements after?"
            )


@check("chunk_bounds", requires="every_element_is_in_one_chunk")
def sizes_differ_by_at_most_one(student, rng):
    """the sizes of the chunks differ by at most one"""
    for elements, n in (*CUTS, (int(rng.integers(50, 500)), int(rng.integers(2, 20)))):
        sizes = [hi - lo for lo, hi in ask_bounds(student, elements, n)]
        if sizes and max(sizes) - min(sizes) > 1:
            raise Feedback(
                f"chunk_bounds({elements}, {n}) has chunks of {min(sizes)} and of {max(sizes)} "
                "elements. Who else could take some of what is left over?"
            )


def slice_by_bounds(n_elements, n):
    """Return the lengths of the chunks of a range, cut at the learner's bounds."""
    pairs = list(chunk_bounds(n_elements, n))
    return [len(range(n_elements)[lo:hi]) for lo, hi in pairs], [list(pair) for pair in pairs]


@check("chunk_bounds", hidden=True, requires="sizes_differ_by_at_most_one")
def bounds_are_exact_integers_however_large(student, rng):
    """bounds can be used in a slice, and are exact for 10**17 elements over 999 ranks too"""
    hint = "Is a division of yours carried out in floating point? It has 53 bits."
    for elements, n in ((int(rng.integers(10, 99)), 7), (10**17 + int(rng.integers(1, 999)), 999)):
        try:
            sizes, pairs = student.probe(slice_by_bounds, n_elements=elements, n=n)
        except StudentError as error:
            raise Feedback(
                f"{elements} over {n}: {error.type_name} in a slice.", hint=hint
            ) from error
        edges = [0, *(hi for _, hi in pairs)]
        is_whole = [lo for lo, _ in pairs] == edges[:-1] and edges[-1] == elements == sum(sizes)
        if not is_whole or len(pairs) != n or max(sizes) - min(sizes) > 1:
            raise Feedback(f"chunks of {elements} elements over {n} are wrong.", hint=hint)


# ---- 3. ring_reduce_scatter


@check("ring_reduce_scatter", weight=3)
def each_rank_ends_with_its_own_chunk_complete(student, rng):
    """rank r returns chunk r of the sum, with the contributions of all ranks"""
    for n, elements in ((2, 6), (4, 8), (3, 10), (5, 3)):
        inputs = draw_arrays(rng, n, elements)
        run = run_on_ranks(student, "ring_reduce_scatter", n, inputs)
        cuts = ask_chunks(student, elements, n)
        for rank, got in enumerate(run.results):
            lo, hi = cuts[rank]
            if np.array_equal(got, sum(inputs)[lo:hi]):
                continue
            raise Feedback(describe_wrong_chunk(n, elements, rank, got, inputs, cuts))


def describe_wrong_chunk(n, elements, rank, got, inputs, cuts):
    """Return what `got` is instead of chunk `rank` of the sum."""
    called = f"ring_reduce_scatter of {elements} elements over {n} ranks: rank {rank} returned"
    for chunk, (lo, hi) in sorted(enumerate(cuts), key=lambda item: item[0] != rank):
        ranks = find_contributors(got, [x[lo:hi] for x in inputs])
        if ranks is None or lo == hi:
            continue
        if chunk != rank:
            return (
                f"{called} chunk {chunk}. Which chunk should end up here, and where does it start?"
            )
        names = ", ".join(map(str, ranks))
        return (
            f"{called} chunk {rank} with the contributions of ranks {names} only. "
            "What did its left neighbour know of it when it sent it?"
        )
    lo, hi = cuts[rank]
    return (
        f"{called} {got}, expected {sum(inputs)[lo:hi]}. That is no sum of chunk {rank} over any "
        "ranks. Print it for `tiny` and read the digits."
    )


@check("ring_reduce_scatter", weight=2)
def one_chunk_a_step_to_the_right_neighbour(student, rng):
    """every rank sends n-1 messages of one chunk each, all to its right neighbour"""
    for n, elements in ((4, 8), (3, 12)):
        inputs = draw_arrays(rng, n, elements)
        run = student.ranks("ring_reduce_scatter", n, inputs, MESSAGES, steps=True)
        require_sends_over(run, n, "ring_reduce_scatter")
        require_one_way(run, n, "ring_reduce_scatter")
        require_messages(run, n, n - 1, "ring_reduce_scatter")
        require_bytes(run, n, [(n - 1) * elements // n * 8] * n, "ring_reduce_scatter")


@check("ring_reduce_scatter", requires="each_rank_ends_with_its_own_chunk_complete")
def the_callers_array_is_left_alone(student, rng):
    """x is the same after the call"""

    def keep(comm, x):
        before = x.copy()
        ring_reduce_scatter(comm, x)
        return bool((x == before).all())

    run = student.ranks(keep, 4, draw_arrays(rng, 4, 8), MESSAGES)
    if not all(run.results):
        raise Feedback(
            "ring_reduce_scatter changed the array x that it was given. "
            "x belongs to the caller, who may need it again: what could you work on instead?"
        )


@check("ring_reduce_scatter")
def any_operation_and_one_rank(student, rng):
    """op may be any key of COMBINE, and one rank alone has nothing to do"""
    inputs = [np.tile((-1.0, 1.0, -1.0), 3) * rng.uniform(0.5, 2.0, size=9) for _ in range(3)]
    for op, combine in (("max", np.maximum), ("min", np.minimum), ("prod", np.multiply)):
        run = student.ranks("ring_reduce_scatter", 3, [(x, op) for x in inputs], MESSAGES)
        expected = combine.reduce(inputs)
        for rank, got in enumerate(run.results):
            mine = slice(3 * rank, 3 * rank + 3)
            if np.shape(got) == (3,) and np.allclose(got, expected[mine]):
                continue
            if np.shape(got) == (3,) and np.allclose(got, inputs[rank][mine]):
                raise Feedback(
                    f'ring_reduce_scatter(comm, x, "{op}"): rank {rank} returned its own chunk as '
                    "it was. Where does what has been combined go?"
                )
            raise Feedback(
                f'ring_reduce_scatter(comm, x, "{op}"): rank {rank} returned {got}, expected '
                f"{expected[mine]}. Where in your code does op count?"
            )
    run = student.ranks("ring_reduce_scatter", 1, [inputs[0]], MESSAGES)
    close(run.results[0], inputs[0], called="ring_reduce_scatter on 1 rank")
    require_messages(run, 1, 0, "ring_reduce_scatter")


@check("ring_reduce_scatter", weight=2, hidden=True)
def every_message_is_the_right_partial_sum(student, rng):
    """in step s rank r sends chunk r-1-s, summed over the ranks that it has passed"""
    n, elements = 4, 14
    inputs = draw_arrays(rng, n, elements)
    run = student.ranks("ring_reduce_scatter", n, inputs, MESSAGES)
    cuts = ask_chunks(student, elements, n)
    for rank in range(n):
        messages = [m for m in run.messages if m.src == rank]
        require_messages(run, n, n - 1, "ring_reduce_scatter")
        for step, m in enumerate(messages):
            lo, hi = cuts[(rank - 1 - step) % n]
            partial_sum = sum(inputs[(rank - back) % n][lo:hi] for back in range(step + 1))
            if not np.array_equal(m.array, partial_sum):
                raise Feedback(
                    f"rank {rank}, step {step}: the message is not the partial sum due there.",
                    hint="Look at the contents of your messages in the player.",
                )


@check("ring_reduce_scatter", hidden=True, requires="each_rank_ends_with_its_own_chunk_complete")
def the_dtype_stays_what_it_was(student, rng):
    """integers and float32 are summed, and sent, as what they are"""
    for dtype in (np.int64, np.float32):
        inputs = [rng.integers(0, 99, size=8).astype(dtype) for _ in range(4)]
        run = student.ranks("ring_reduce_scatter", 4, inputs, MESSAGES)
        sent_dtypes = {str(m.array.dtype) for m in run.messages}
        returned_dtypes = {str(np.asarray(got).dtype) for got in run.results}
        if sent_dtypes != {str(np.dtype(dtype))} or returned_dtypes != sent_dtypes:
            raise Feedback(
                f"ring_reduce_scatter of {np.dtype(dtype)}: sent {sent_dtypes}, returned {returned_dtypes}.",
                hint="In which line does your working copy get its dtype?",
            )
        result = np.concatenate([np.reshape(got, -1) for got in run.results])
        if result.shape != inputs[0].shape or not np.allclose(result, sum(inputs)):
            raise Feedback(
                f"ring_reduce_scatter of {np.dtype(dtype)} is no sum.",
                hint="Read the digits of `tiny` first.",
            )


# ---- 4. ring_bytes, ring_all_gather, ring_all_reduce


@check("ring_bytes")
def bytes_of_both_halves(student, rng):
    """both halves, n-1 messages each, of 1/n of the array"""
    for n in (4, 2, 8, int(rng.integers(9, 200))):
        n_bytes = 8 * n * int(rng.integers(10, 1000))
        got = to_number(student.call("ring_bytes", n, n_bytes))
        right = 2 * (n - 1) * n_bytes / n
        hint = "How many messages does a rank send in all, and how large is one?"
        if got == right / 2:
            hint = "That is one of the two halves."
        elif got == 2 * n_bytes:
            hint = "Nearly: for large n. But a rank never sends the chunk that it keeps."
        elif got == right * n:
            hint = "That many messages, but is each of them the whole array?"
        if not abs(got - right) <= 1e-9 * right:  # so that NaN is wrong
            raise Feedback(f"ring_bytes({n}, {n_bytes}) gave {got:.10g}. {hint}")


def draw_chunks(rng, n, sizes):
    return [rng.normal(size=sizes[rank % len(sizes)]) + 10 * rank for rank in range(n)]


@check("ring_all_gather", weight=2)
def all_chunks_in_the_order_of_ranks(student, rng):
    """every rank returns all chunks, joined in the order of ranks"""
    for n in (2, 3, 4):
        inputs = draw_chunks(rng, n, (2,))
        run = run_on_ranks(student, "ring_all_gather", n, inputs)
        for rank, got in enumerate(run.results):
            expected = np.concatenate(inputs)
            if np.shape(got) == expected.shape and np.allclose(got, expected):
                continue
            raise Feedback(f"ring_all_gather over {n} ranks: {describe_order(rank, got, inputs)}")


def describe_order(rank, got, inputs):
    """Return in words what rank `rank` got, a chunk at a time, if it is made of chunks."""
    flat = np.reshape(got, -1)
    expected = np.concatenate(inputs)
    if flat.shape == expected.shape and np.allclose(flat, expected):
        return f"rank {rank} returned the right chunks in shape {np.shape(got)}. Join them to one."
    order = []
    for at in range(0, len(flat) - 1, 2):
        matches = [r for r, chunk in enumerate(inputs) if np.allclose(flat[at : at + 2], chunk)]
        order.append(str(matches[0]) if matches else "?")
    return (
        f"rank {rank} returned the chunks of ranks {', '.join(order)}, in this order. "
        "Whose chunk is it that arrives in step s?"
    )


@check("ring_all_gather", weight=2)
def each_chunk_passes_each_link_once(student, rng):
    """every rank sends n-1 messages of one chunk each, all to its right neighbour"""
    for n in (3, 4):
        inputs = draw_chunks(rng, n, (2,))
        run = student.ranks("ring_all_gather", n, inputs, MESSAGES, steps=True)
        require_sends_over(run, n, "ring_all_gather")
        require_one_way(run, n, "ring_all_gather")
        require_messages(run, n, n - 1, "ring_all_gather")
        require_bytes(run, n, [(n - 1) * 16] * n, "ring_all_gather")


@check("ring_all_gather")
def chunks_may_differ_in_length(student, rng):
    """chunks of different lengths are joined too, and one rank alone keeps its own"""
    for n, sizes in ((4, (2, 3, 0, 1)), (1, (5,))):
        inputs = draw_chunks(rng, n, sizes)
        run = student.ranks("ring_all_gather", n, inputs, MESSAGES)
        for rank, got in enumerate(run.results):
            expected = np.concatenate(inputs)
            where = f"ring_all_gather of chunks of lengths {[len(x) for x in inputs]}: rank {rank}"
            if np.shape(got) != expected.shape:
                raise Feedback(
                    f"{where} returned shape {np.shape(got)}, expected {expected.shape}. "
                    "Does your code take all chunks to be as long as its own?"
                )
            if not np.allclose(got, expected):
                same = np.allclose(np.sort(got), np.sort(expected))
                raise Feedback(
                    f"{where} returned the right numbers in another order."
                    if same
                    else f"{where} returned other numbers than the chunks hold.",
                    hint="Chunk r is rank r's and comes r-th, whoever sent it to you.",
                )


@check("ring_all_gather", hidden=True)
def what_arrived_is_passed_on(student, rng):
    """in step s rank r sends chunk r-s"""
    n = 5
    inputs = draw_chunks(rng, n, (3,))
    run = student.ranks("ring_all_gather", n, inputs, MESSAGES)
    require_messages(run, n, n - 1, "ring_all_gather")
    for rank in range(n):
        for step, m in enumerate(m for m in run.messages if m.src == rank):
            due = inputs[(rank - step) % n]
            if np.shape(m.array) != due.shape or not np.allclose(m.array, due):
                raise Feedback(
                    f"rank {rank}, step {step}: not chunk {(rank - step) % n}.",
                    hint="What a rank sends is what it has just received.",
                )


@check("ring_all_gather", hidden=True, requires="all_chunks_in_the_order_of_ranks")
def what_rank_r_gave_may_be_empty_or_of_integers(student, rng):
    """whole numbers, empty chunks everywhere but on one rank, and more ranks are gathered too"""
    for n, dtype in ((6, np.int64), (3, np.float32)):
        full = int(rng.integers(0, n))
        inputs = [rng.integers(1, 99, size=5 * (r == full)).astype(dtype) for r in range(n)]
        hint = "Does a chunk without elements travel too? And which dtype has what you join?"
        try:
            run = student.ranks("ring_all_gather", n, inputs, MESSAGES)
        except StudentError as error:
            raise Feedback(f"ring_all_gather: {error.type_name}.", hint=hint) from error
        for got in run.results:
            if not np.array_equal(got, inputs[full]) or np.asarray(got).dtype != dtype:
                raise Feedback(f"ring_all_gather, one chunk of {dtype.__name__}.", hint=hint)


@check("ring_all_reduce", weight=2)
def every_rank_has_the_sum(student, rng):
    """every rank returns the sum over all ranks, in x's shape and dtype"""
    for n, shape, dtype in ((4, (8,), np.float64), (3, (2, 5), np.float32), (2, (), np.int64)):
        inputs = [rng.integers(0, 100, size=shape).astype(dtype).reshape(shape) for _ in range(n)]
        run = student.ranks("ring_all_reduce", n, inputs, MESSAGES)
        for rank, got in enumerate(run.results):
            where = f"ring_all_reduce over {n} ranks of {np.dtype(dtype)} {shape}: rank {rank}"
            if got is None:
                raise Feedback(f"{where} returned None. Is the last line a return?")
            if np.shape(got) == shape and np.allclose(np.multiply(got, n), sum(inputs)):
                raise Feedback(f"{where} returned the average. What is asked for is the sum.")
            if np.shape(got) != shape:
                raise Feedback(f"{where} returned shape {np.shape(got)}. x had shape {shape}.")
            if np.asarray(got).dtype != dtype:
                raise Feedback(
                    f"{where} returned {np.asarray(got).dtype}. x was {np.dtype(dtype)}."
                )
            close(got, sum(inputs), called=f"{where}, its result", hint="Check both halves first.")


@check("ring_all_reduce")
def other_operations_too(student, rng):
    """op is handed on"""
    inputs = [rng.uniform(0.5, 2.0, size=(2, 3)) for _ in range(3)]
    for op, combine in (("max", np.maximum), ("prod", np.multiply)):
        run = student.ranks("ring_all_reduce", 3, [(x, op) for x in inputs], MESSAGES)
        if not np.allclose(run.results[1], combine.reduce(inputs)):
            raise Feedback(
                f'ring_all_reduce(comm, x, "{op}") is not the "{op}" over the ranks. '
                "Follow op through your code."
            )


@check("ring_all_reduce", weight=2)
def two_n_minus_one_over_n_of_the_bytes(student, rng):
    """each rank sends 2(n-1)/n of the array in 2(n-1) messages to its right neighbour"""
    for n in (4, 5, 2):
        run = student.ranks("ring_all_reduce", n, draw_arrays(rng, n, 4 * n), MESSAGES)
        require_bytes(run, n, [2 * (n - 1) * 4 * 8] * n, "ring_all_reduce")
        require_messages(run, n, 2 * (n - 1), "ring_all_reduce")
        require_one_way(run, n, "ring_all_reduce")


@check("ring_all_reduce")
def the_same_bits_on_every_rank(student, rng):
    """all ranks return exactly the same bits"""
    inputs = [
        (rng.normal(size=500) * 10.0 ** rng.integers(-4, 4, 500)).astype(np.float32)
        for _ in range(4)
    ]
    run = student.ranks("ring_all_reduce", 4, inputs, MESSAGES)
    close(run.results[0], sum(inputs), called="ring_all_reduce, rank 0", atol=1e-2, rtol=1e-3)
    for rank in (1, 2, 3):
        if np.asarray(run.results[rank]).tobytes() != np.asarray(run.results[0]).tobytes():
            raise Feedback(
                f"ring_all_reduce: ranks 0 and {rank} differ in the last bits. Replicas of a model "
                "that differ a little drift apart. Who adds up a chunk, and how many do so?"
            )


@check("ring_all_reduce", weight=2, hidden=True, requires="every_rank_has_the_sum")
def uneven_arrays_cost_no_byte_more(student, rng):
    """an array that n does not divide is not made longer: 2(n-1) times its bytes in all"""
    for n, shape in ((4, (3, 7)), (5, (3,))):
        inputs = [rng.integers(0, 99, size=shape).astype(np.float32) for _ in range(n)]
        run = student.ranks("ring_all_reduce", n, inputs, MESSAGES)
        for got in run.results:
            close(got, sum(inputs), called="ring_all_reduce", hint="Does n divide the elements?")
        if sum(run.bytes_sent(rank) for rank in range(n)) != 2 * (n - 1) * inputs[0].nbytes:
            raise Feedback(
                f"ring_all_reduce of {shape} over {n} ranks sends more bytes than there are.",
                hint="Chunks may differ in length. What travels besides the array itself?",
            )


@check("ring_all_reduce", hidden=True, requires="every_rank_has_the_sum")
def views_are_reduced_and_x_is_kept(student, rng):
    """x may be a transposed view, and keeps its values; a rank alone has a result of its own"""

    def on_a_view(comm, x):
        view = x.T
        before = view.copy()
        got = ring_all_reduce(comm, view)
        total = got.copy()
        got[...] = 7  # a result may be written to
        return total, bool((view == before).all())

    hint = "Not every array can be made flat without a copy, and x belongs to the caller."
    for n in (3, 1):
        inputs = [rng.normal(size=(4, 5)) for _ in range(n)]
        try:
            run = student.ranks(on_a_view, n, inputs, MESSAGES)
        except StudentError as error:
            raise Feedback(f"ring_all_reduce of a view: {error.type_name}.", hint=hint) from error
        for total, unchanged in run.results:
            if not unchanged or np.shape(total) != (5, 4) or not np.allclose(total, sum(inputs).T):
                raise Feedback("ring_all_reduce of a transposed view is wrong.", hint=hint)


# ---- 5. ring_time


@check("ring_time")
def latency_counts_once_a_step(student, rng):
    """2(n-1) steps, each with one latency"""
    for n in (2, 4, int(rng.integers(5, 50))):
        alpha = float(rng.uniform(1e-6, 1e-3))
        got = to_number(student.call("ring_time", n, 0, alpha, 0.0))
        if not abs(got - 2 * (n - 1) * alpha) <= 1e-9 * alpha:  # so that NaN is wrong
            raise Feedback(
                f"ring_time({n}, 0, alpha, 0): empty messages take {got / alpha:g} latencies. "
                "How many messages does a rank send, one after the other?"
            )


@check("ring_time")
def bytes_travel_twice(student, rng):
    """2(n-1) messages of 1/n of the array"""
    for n in (2, 4, int(rng.integers(5, 50))):
        got = to_number(student.call("ring_time", n, 10**6, 0.0, 1e-9)) / 1e-3
        if not abs(got - 2 * (n - 1) / n) <= 1e-6:  # so that NaN is wrong
            raise Feedback(
                f"ring_time({n}, n_bytes, 0, beta): sending takes {got:.4g} times n_bytes * beta. "
                "You have counted these bytes before: which function says how many they are?"
            )


@check("ring_time")
def only_one_half_combines(student, rng):
    """n-1 combines of 1/n of the array, and gamma may be left out"""
    for n in (2, 4, int(rng.integers(5, 50))):
        got = to_number(student.call("ring_time", n, 10**6, 0.0, 0.0, 1e-9)) / 1e-3
        if not abs(got - (n - 1) / n) <= 1e-6:  # so that NaN is wrong
            raise Feedback(
                f"ring_time({n}, n_bytes, 0, 0, gamma): combining takes {got:.4g} times "
                "n_bytes * gamma. In which of the two halves does a rank combine, and how much?"
            )


@check("ring_time", hidden=True, requires="bytes_travel_twice")
def the_three_prices_add_up(student, rng):
    """latency, bytes and combining are paid one after the other, and one rank pays nothing"""
    for n in (1, 2, int(rng.integers(3, 50))):
        alpha, beta, gamma = (float(x) for x in rng.uniform(0.5, 1.5, size=3))
        right = 2 * (n - 1) * (alpha + 60 / n * beta) + (n - 1) * 60 / n * gamma
        hint = "A message pays for being one and for its bytes; then its bytes are combined."
        try:
            got = to_number(student.call("ring_time", n, 60, alpha, beta, gamma))
        except StudentError as error:
            raise Feedback(f"ring_time of {n} ranks: {error.type_name}.", hint=hint) from error
        if not abs(got - right) <= 1e-9 * (1 + right):
            raise Feedback(f"ring_time of {n} ranks with three prices is wrong.", hint=hint)


# ---- 6. crossing_bytes, two_level_all_reduce


@check("crossing_bytes")
def one_rank_of_each_host_sends_the_rings_bytes(student, rng):
    """in the ring one rank of each host sends to the next host, 2(n-1)/n of the array"""
    for hosts, width in ((2, 2), (4, 3), (2, 1), (int(rng.integers(3, 30)), 8)):
        n, n_bytes = hosts * width, 8 * hosts * width * int(rng.integers(10, 1000))
        got, _ = ask_crossing_bytes(student, hosts, width, n_bytes)
        right = 2 * (n - 1) * n_bytes / n
        hint = "Which ranks of a host have their right neighbour on another one?"
        if abs(got - right * width) <= 1e-9 * got and width > 1:
            hint = "That is what all ranks of a host send. Which of them send to another host?"
        elif abs(got - 2 * (hosts - 1) * n_bytes / hosts) <= 1e-9 * right:
            hint = "Over how many ranks does the ring go?"
        if not abs(got - right) <= 1e-9 * right:  # so that NaN is wrong
            raise Feedback(
                f"crossing_bytes({hosts}, {width}, {n_bytes}) gave {got:g} for the ring. {hint}"
            )


@check("crossing_bytes")
def two_levels_cross_as_a_ring_of_hosts(student, rng):
    """in two levels each host sends 2(hosts-1)/hosts of the array, whatever its width"""
    for hosts, width in ((2, 2), (4, 3), (2, 1), (int(rng.integers(3, 30)), 8)):
        n_bytes = 8 * hosts * width * int(rng.integers(10, 1000))
        _, got = ask_crossing_bytes(student, hosts, width, n_bytes)
        right = 2 * (hosts - 1) * n_bytes / hosts
        hint = "How long is the array at one place, and how many ranks reduce it between hosts?"
        if abs(got * width - right) <= 1e-9 * right and width > 1:
            hint = "That is what one rank sends. Its neighbours carry their shares as well."
        elif abs(got - right * width) <= 1e-9 * got and width > 1:
            hint = "After step 1, which part of the array has each rank?"
        if not abs(got - right) <= 1e-9 * right:
            raise Feedback(
                f"crossing_bytes({hosts}, {width}, {n_bytes}) gave {got:g} for two levels. {hint}"
            )


def ask_crossing_bytes(student, hosts, width, n_bytes):
    """Return the two numbers of crossing_bytes."""
    got = student.call("crossing_bytes", hosts, width, n_bytes)
    if np.shape(got) != (2,):
        raise Feedback(
            f"crossing_bytes({hosts}, {width}, {n_bytes}) gave {got}. Two numbers are asked for: "
            "what a host sends in the ring, and what in two levels."
        )
    return float(got[0]), float(got[1])


def list_hosts(hosts, width):
    """Return the ranks of each host, equal runs of neighbours."""
    return [tuple(range(h * width, (h + 1) * width)) for h in range(hosts)]


def ask_two_levels(student, hosts, inputs, *more):
    """Run the learner's two levels; `hosts` are the ranks of each."""
    return run_on_ranks(
        student, "two_level_all_reduce", len(inputs), [(x, hosts, *more) for x in inputs]
    )


def count_crossing_bytes(run, hosts):
    """Return the bytes that each rank sent to another host."""
    home = {rank: index for index, host in enumerate(hosts) for rank in host}
    return {
        rank: sum(m.n_bytes for m in run.messages if m.src == rank and home[m.dst] != home[rank])
        for rank in home
    }


@check("two_level_all_reduce", weight=2)
def every_rank_of_every_host_has_the_sum(student, rng):
    """every rank returns the sum over all ranks of all hosts, in x's shape and dtype"""
    for hosts, width, shape in ((2, 2, (8,)), (3, 2, (2, 6)), (2, 3, (12,))):
        inputs = [x.reshape(shape) for x in draw_arrays(rng, hosts * width, int(np.prod(shape)))]
        places = list_hosts(hosts, width)
        run = ask_two_levels(student, places, inputs)
        for rank, got in enumerate(run.results):
            where = f"two_level_all_reduce on hosts {places} of {shape}: rank {rank} returned"
            if got is None:
                raise Feedback(f"{where} None. Is the last line a return?")
            ranks = find_contributors(np.reshape(got, -1), [x.reshape(-1) for x in inputs])
            if ranks is not None and len(ranks) < len(inputs):
                raise Feedback(
                    f"{where} the sum of ranks {', '.join(map(str, ranks))} alone. "
                    "Which of the three steps adds what the other hosts have?"
                )
            if np.shape(got) != shape:
                raise Feedback(f"{where} shape {np.shape(got)}. x had shape {shape}.")
            if not np.array_equal(got, sum(inputs)):
                raise Feedback(
                    f"{where} something else than the sum. Follow a chunk: who has it after each "
                    "of the three steps, and with whose contributions?"
                )


@check("two_level_all_reduce", weight=2)
def no_byte_crosses_twice(student, rng):
    """each host sends 2(hosts-1)/hosts of the array to others"""
    for hosts, width in ((2, 2), (3, 2), (2, 4)):
        inputs = draw_arrays(rng, hosts * width, 2 * hosts * width)
        places = list_hosts(hosts, width)
        sent_bytes = count_crossing_bytes(ask_two_levels(student, places, inputs), places)
        due = 2 * (hosts - 1) * inputs[0].nbytes // hosts
        for host in places:
            total = sum(sent_bytes[rank] for rank in host)
            if total != due:
                raise Feedback(
                    f"two_level_all_reduce on hosts {places}: host {host} sent {total} bytes to "
                    f"others, expected {due}. What do its ranks know together before they send?"
                )


@check("two_level_all_reduce", requires="every_rank_of_every_host_has_the_sum")
def all_ranks_carry_a_share(student, rng):
    """all ranks of a host send equally many bytes across, to one place, and at home no more than chunks"""
    for hosts, width in ((2, 2), (2, 4)):
        inputs = draw_arrays(rng, hosts * width, 2 * hosts * width)
        places = list_hosts(hosts, width)
        run = ask_two_levels(student, places, inputs)
        sent_bytes = count_crossing_bytes(run, places)
        if len(set(sent_bytes.values())) != 1:
            raise Feedback(
                f"two_level_all_reduce on hosts {places}: the ranks sent {list(sent_bytes.values())} "
                "bytes to other hosts. Who is idle meanwhile?"
            )
        for m in run.messages:
            if m.src // width != m.dst // width and m.src % width != m.dst % width:
                raise Feedback(
                    f"two_level_all_reduce on hosts {places}: rank {m.src} sent to rank {m.dst}. "
                    "Which ranks of other hosts have its place?"
                )
        due = 2 * (width - 1) * inputs[0].nbytes // width
        for rank in range(hosts * width):
            at_home = run.bytes_sent(rank) - sent_bytes[rank]
            if at_home > due:
                raise Feedback(
                    f"two_level_all_reduce on hosts {places}: rank {rank} sent {at_home} bytes to "
                    f"its own host, {due} are enough. Which of the three steps carries whole arrays "
                    "where chunks would do?"
                )


@check("two_level_all_reduce", requires="every_rank_of_every_host_has_the_sum")
def both_levels_take_op_and_leave_x_alone(student, rng):
    """op counts inside hosts and between them, and x keeps its values"""

    def keep(comm, x, hosts, op):
        before, listed = x.copy(), [tuple(host) for host in hosts]
        got = two_level_all_reduce(comm, x, hosts, op)
        return got, bool((x == before).all()), [tuple(host) for host in hosts] == listed

    for op, combine in (("max", np.maximum), ("prod", np.multiply)):
        inputs = [rng.uniform(0.5, 2.0, size=(3, 4)) for _ in range(4)]
        run = student.ranks(keep, 4, [(x, [(2, 3), (0, 1)], op) for x in inputs], MESSAGES)
        for got, unchanged, as_listed in run.results:
            if not as_listed:
                raise Feedback(
                    "two_level_all_reduce changed `hosts`, which belongs to the caller, as x does. "
                    "Which of your steps sorts, or takes out, in place?"
                )
            if not np.allclose(got, combine.reduce(inputs)):
                raise Feedback(
                    f'two_level_all_reduce(comm, x, hosts, "{op}") is not the "{op}" over all '
                    "ranks. At which of the two levels is something combined?"
                )
            if not unchanged:
                raise Feedback("two_level_all_reduce changed its x, which belongs to the caller.")


@check("two_level_all_reduce", hidden=True, requires="every_rank_of_every_host_has_the_sum")
def hosts_are_where_they_are_said_to_be(student, rng):
    """hosts may hold any ranks in any order; one host alone, or one rank a host, will do"""
    hint = "Go by hosts: a rank's number does not say where it lies."
    for hosts in ([(0, 2), (3, 1)], [(0, 1, 2)], [(1,), (0,), (2,)]):
        n = sum(map(len, hosts))
        inputs = [rng.integers(1, 99, size=7).astype(np.float32) for _ in range(n)]
        try:
            run = ask_two_levels(student, hosts, inputs)
        except StudentError as error:
            raise Feedback(f"hosts {hosts}: {error.type_name}.", hint=hint) from error
        for got in run.results:
            if not np.array_equal(got, sum(inputs)) or np.asarray(got).dtype != np.float32:
                raise Feedback(f"hosts {hosts}: not the sum in float32.", hint=hint)
        sent_bytes = count_crossing_bytes(run, hosts)
        due = 2 * (len(hosts) - 1) * inputs[0].nbytes
        if sum(sent_bytes.values()) != due:
            raise Feedback(f"hosts {hosts}: other bytes across than {due} in all.", hint=hint)
        places = {
            rank: (index, at) for index, host in enumerate(hosts) for at, rank in enumerate(host)
        }
        for m in run.messages:
            (home, place), (other, there) = places[m.src], places[m.dst]
            if home != other and place != there:
                raise Feedback(f"hosts {hosts}: a message between two places.", hint=hint)


# ---- 7. pipelined_ring


@check("pipelined_ring", weight=2)
def the_result_is_that_of_the_plain_ring(student, rng):
    """every rank returns the reduction over all ranks, however many pieces"""
    for n, elements, pieces in ((4, 24, 3), (3, 10, 2), (2, 3, 4), (1, 4, 2), (2, 8, 1)):
        inputs = draw_arrays(rng, n, elements)
        run = student.ranks("pipelined_ring", n, [(x, "sum", pieces) for x in inputs], MESSAGES)
        for rank, got in enumerate(run.results):
            if not np.array_equal(got, sum(inputs)):
                raise Feedback(
                    f"pipelined_ring over {n} ranks in {pieces} pieces: rank {rank} returned "
                    f"{describe_difference(got, sum(inputs))}. In which steps is a piece combined, and "
                    "in which kept?"
                )


@check("pipelined_ring")
def shape_operation_and_input_are_kept(student, rng):
    """x keeps its values, the result has its shape, and op counts"""

    def keep(comm, x):
        before = x.copy()
        y = pipelined_ring(comm, x, "max", 2)
        return y, bool((x == before).all())

    inputs = [rng.normal(size=(3, 4)) for _ in range(3)]
    run = student.ranks(keep, 3, inputs, MESSAGES)
    for got, unchanged in run.results:
        if not unchanged:
            raise Feedback("pipelined_ring changed its x. `work` is a copy made for you to change.")
        if np.shape(got) != (3, 4):
            raise Feedback(f"pipelined_ring of shape (3, 4) returned shape {np.shape(got)}.")
        if not np.allclose(got, np.maximum.reduce(inputs)):
            raise Feedback(
                'pipelined_ring(comm, x, "max", 2) is not the maximum. Where is op used?'
            )


@check("pipelined_ring", weight=2)
def the_same_bytes_in_more_messages(student, rng):
    """2(n-1) messages a piece, all to the right neighbour, and no byte more"""
    for n, pieces in ((4, 3), (3, 2)):
        inputs = draw_arrays(rng, n, n * pieces * 2)
        run = student.ranks("pipelined_ring", n, [(x, "sum", pieces) for x in inputs], MESSAGES)
        require_one_way(run, n, "pipelined_ring")
        require_messages(run, n, 2 * (n - 1) * pieces, f"pipelined_ring in {pieces} pieces")
        require_bytes(run, n, [2 * (n - 1) * pieces * 2 * 8] * n, "pipelined_ring")


@check("pipelined_ring", hidden=True, requires="the_result_is_that_of_the_plain_ring")
def pieces_carry_the_array_and_nothing_else(student, rng):
    """uneven float32 and whole numbers: the right dtype, and 2(n-1) times the bytes in all"""
    for n, shape, pieces, dtype in ((3, (11,), 4, np.float32), (4, (3, 5), 3, np.int64)):
        inputs = [rng.integers(0, 99, size=shape).astype(dtype) for _ in range(n)]
        run = student.ranks("pipelined_ring", n, [(x, "sum", pieces) for x in inputs], MESSAGES)
        due = 2 * (n - 1) * inputs[0].nbytes
        for got in run.results:
            if not np.array_equal(got, sum(inputs)) or np.asarray(got).dtype != dtype:
                raise Feedback(
                    f"pipelined_ring of {np.dtype(dtype)} {shape}: wrong result or dtype.",
                    hint="Pieces may be empty and differ in length. Which dtype has your copy?",
                )
        if sum(run.bytes_sent(rank) for rank in range(n)) != due:
            raise Feedback(
                f"pipelined_ring of {np.dtype(dtype)} {shape}: other bytes than {due} in all.",
                hint="In which dtype, and how long, does each piece travel?",
            )


@check("pipelined_ring", weight=3)
def a_piece_is_passed_on_before_the_next_is_awaited(student, rng):
    """each piece is sent on before the next one is waited for"""

    n, pieces = 3, int(rng.integers(3, 6))
    total, own = 2 * (n - 1) * pieces, rng.normal(size=(n, n * pieces, 2))
    inputs = [(x.reshape(-1), "sum", pieces) for x in own]
    run = student.ranks("pipelined_ring", n, inputs, MESSAGES, steps=True)
    require_sends_over(run, n, "pipelined_ring")
    sent_pieces = [[m.array for m in run.messages if m.src == rank] for rank in range(n)]
    for rank in range(n):
        require_no_delay(
            f"pipelined_ring over {n} ranks in {pieces} pieces", run, rank, total, pieces
        )
        require_relay(sent_pieces[rank], own[rank], sent_pieces[rank - 1], pieces, rank)


def require_no_delay(called, run, rank, total, pieces):
    """Raise Feedback unless `rank` has sent all that it can before it waits for another piece."""
    n_sent = n_awaited = 0
    for step in run.steps:
        n_sent += step == Step(rank, "send", step.peer)
        if step != Step(rank, "ask", step.peer):
            continue
        could = min(total, pieces + n_awaited)
        n_awaited += 1
        if n_sent < could:
            raise Feedback(
                f"{called}: rank {rank} waits for piece {n_awaited} and has sent only {n_sent} of "
                f"the {could} that it could have. What can be done with a piece as soon as it is "
                "there?"
            )
    if n_awaited != total:
        raise Feedback(f"{called}: rank {rank} received {n_awaited} pieces, expected {total}.")


def require_relay(sent_pieces, own, arrivals, pieces, rank):
    """Raise Feedback unless each piece sent is one of the rank's own, or made of the one that came.

    The first `pieces` are its own; after them the k-th is what came `pieces` before it, with one of
    its own added in the first half of the way.
    """
    for k, piece in enumerate(sent_pieces):
        arrival = arrivals[k - pieces] if k >= pieces else np.zeros(2)
        candidates = own if k < pieces else np.vstack([np.zeros((1, 2)), own])
        if np.shape(piece) != (2,) or not np.isclose(piece - arrival, candidates).all(axis=1).any():
            raise Feedback(
                f"pipelined_ring: piece {k + 1} that rank {rank} sends is not made of what it had. "
                "Which piece has just come, and what is added to it?"
            )
