"""Checks of lab 07. The judge keeps the landscapes; a search is asked for one batch at a time."""

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

LAB = LabSettings(wall_s=90.0, preload=("numpy",), withheld=("sklearn:", "torch:"))


def require_number(got, called):
    """Raise Feedback unless `got` is one finite number."""
    if isinstance(got, bool) or not isinstance(got, int | float | np.number):
        raise Feedback(f"{called} gave {got!r}, which is not a number.")
    return float(got)


# ---- 1. traffic


def count_bytes(m, n, k, rows, columns, item=4):
    return item * (m * k * -(-n // columns) + k * n * -(-m // rows) + m * n)


def compare_traffic(student, sizes, block, item, hint):
    called = f"traffic({', '.join(map(str, (*sizes, *block)))}, item_bytes={item})"
    got = require_number(student.call("traffic", *sizes, *block, item_bytes=item), called)
    m, n, k = sizes
    rows, columns = block
    if got == count_bytes(*sizes, *block, item):
        return
    if got == item * (m * k * -(-n // columns) + k * n * -(-m // rows)):
        hint = "What of C itself, which has to be written once?"
    elif got == item * (m * k * -(-m // rows) + k * n * -(-n // columns) + m * n):
        hint = "Which of the two is read again for each block of columns: A, whose rows they need?"
    elif got * item == count_bytes(*sizes, *block, item):
        hint = "These are numbers. How many bytes has each?"
    raise Feedback(f"{called} gave {got:g}. {hint}")


@check("traffic")
def three_plain_loops_load_two_numbers_a_term(student, rng):
    """a block of 1 by 1 loads two numbers a term, and stores each element of C once"""
    few = tuple(int(s) for s in rng.permutation([3, 5, 7]) + rng.integers(0, 20))
    for sizes in (few, (2048, 4096, 1024)):
        hint = "Count for one element of C: k numbers of A, k of B."
        compare_traffic(student, sizes, (1, 1), 4, hint)


@check("traffic")
def a_larger_block_loads_less(student, rng):
    """A is loaded once for each block of columns, and B once for each block of rows"""
    for block in ((2, 8), (8, 2), (4, 4)):
        sizes = tuple(8 * int(s) for s in rng.permutation([2, 3, 5]) + rng.integers(0, 9))
        compare_traffic(student, sizes, block, 4, "Into how many blocks of columns does n fall?")


@check("traffic", hidden=True)
def an_edge_is_a_block_too(student, rng):
    """a block that is not whole needs its rows and columns just as well"""
    for _ in range(3):
        sizes = tuple(int(s) for s in rng.permutation([101, 127, 33]))
        compare_traffic(student, sizes, (8, 32), 4, "What of the columns that are left over?")


@check("traffic", hidden=True, requires="a_larger_block_loads_less")
def the_size_of_a_number_counts(student, rng):
    """float64 moves twice the bytes of float32"""
    compare_traffic(student, (16, 24, 40), (4, 8), 8, "Is item_bytes used?")


# ---- roofline


@check("roofline")
def arithmetic_bounds_what_has_few_bytes(student, rng):
    """with few bytes it is the arithmetic that takes the time"""
    peak, bandwidth = rng.uniform(1e9, 1e11), rng.uniform(1e9, 1e11)
    got = student.call("roofline", 1e10, 8.0, peak, bandwidth)
    hint = "Operations over operations a second are seconds."
    close(got, 1e10 / peak, called="roofline(flops=1e10, n_bytes=8, ...)", hint=hint)


@check("roofline")
def bytes_bound_what_has_little_arithmetic(student, rng):
    """with little arithmetic it is the bytes"""
    peak, bandwidth = rng.uniform(1e9, 1e11), rng.uniform(1e9, 1e11)
    got = student.call("roofline", 8.0, 1e10, peak, bandwidth)
    hint = "Bytes over bytes a second are seconds."
    close(got, 1e10 / bandwidth, called="roofline(flops=8, n_bytes=1e10, ...)", hint=hint)


@check("roofline")
def the_two_overlap(student, rng):
    """both go on at the same time, so the longer one counts and not their sum"""
    peak, ratio = rng.uniform(1e9, 1e11), rng.uniform(0.5, 0.9)
    got = require_number(student.call("roofline", 1e9, 1e9, peak, peak * ratio), "roofline")
    a, b = 1e9 / peak, 1e9 / (peak * ratio)
    if abs(got - (a + b)) < 1e-6 * b:
        raise Feedback(
            f"roofline gave {got:g} s, which is {a:g} and {b:g} one after the other. "
            "Does a processor load while it multiplies?"
        )
    hint = f"Arithmetic alone takes {a:g} s, bytes alone {b:g}: when are both done?"
    close(got, b, called="roofline", hint=hint)
    got = student.call("roofline", 4e9, 1e9, peak, peak / 8)
    hint = "Compare seconds: what takes longer is not what there is more of."
    close(got, 8e9 / peak, called="roofline(4e9, 1e9, peak, peak / 8)", hint=hint)


# ---- 2. tiled


def compare_tiled(student, rng, shape, tiles, hint, dtype=np.float64):
    m, n, k = shape
    a = rng.integers(-4, 5, size=(m, k)).astype(dtype)
    b = rng.integers(-4, 5, size=(k, n)).astype(dtype)
    called = f"tiled(a, b, {', '.join(map(str, tiles))}) of ({m}, {k}) by ({k}, {n})"
    got = student.call("tiled", a, b, *tiles)
    close(got, a @ b, called=called, hint=hint)
    if np.asarray(got).dtype != dtype:
        raise Feedback(f"{called} gave {np.asarray(got).dtype}, and a is {np.dtype(dtype)}.")


def record_products(m, n, k, tiles):
    """Return the sizes of both factors of all products that tiled makes, and how many terms.

    Numbers of a and b that it reads one by one are products of two numbers. Then how often it
    went from one tile of a to another, and of b; and whether both are what they were.
    """
    sizes, keys_read, at = [], [], {"a": [], "b": []}

    def note(x):
        """Note the tile that an array begins in, where it shows a or b; return whether it shows b."""
        tile_m, tile_n, tile_k = tiles
        for name, whole, tall, wide in (("a", a, tile_m, tile_k), ("b", b, tile_k, tile_n)):
            place = x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            if 0 <= place < whole.nbytes:
                row, column = divmod(place // whole.itemsize, whole.shape[1])
                tile = row // tall, column // wide
                if at[name][-1:] != [tile]:
                    at[name].append(tile)
                return name == "b"
        return False

    def note_product(x, y, terms):
        """Note a product of two arrays; b may stand first, as in (b.T @ a.T).T."""
        exchanged, _ = note(x), note(y)
        sizes.append([*((y.size, x.size) if exchanged else (x.size, y.size)), terms])

    class Watched(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, out=None, **more):
            arrays = [np.asarray(x) for x in inputs]
            into = {"out": tuple(np.asarray(x) for x in out)} if out else {}
            result = getattr(ufunc, method)(*arrays, **into, **more)
            both = sum(isinstance(x, Watched) for x in inputs) == 2
            if ufunc is np.matmul or (ufunc is np.multiply and both):
                terms = arrays[0].shape[-1] if ufunc is np.matmul else 1
                note_product(*arrays, np.size(result) * terms)
            return result

        def __array_function__(self, function, types, args, kwargs):
            if function in (np.dot, np.inner, np.vdot, np.outer, np.tensordot, np.einsum):
                x, y = [np.asarray(a) for a in args if isinstance(a, np.ndarray)][:2]
                shared = 1 if function is np.outer else x.shape[-1]
                note_product(x, y, x.size * y.size // max(1, shared))
                arrays = [np.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
                return function(*arrays, **kwargs)
            result = super().__array_function__(function, types, args, kwargs)
            return result.view(Watched) if isinstance(result, np.ndarray) else result

        def __getitem__(self, key):
            item = super().__getitem__(key)
            if not isinstance(item, np.ndarray):
                keys_read.append(key)
                note(np.asarray(self)[(*key, ...) if isinstance(key, tuple) else (key, ...)])
            return item

        def __iter__(self):
            return (self[i] for i in range(len(self)))

        def dot(self, other, out=None):
            return np.dot(self, other, out)

    a, b = np.ones((m, k)).view(Watched), np.ones((k, n)).view(Watched)
    tiled(a, b, *tiles)
    terms = int(sum(terms for *_, terms in sizes)) + len(keys_read) // 2
    untouched = bool((np.asarray(a) == 1).all() and (np.asarray(b) == 1).all())
    return [[x, y] for x, y, _ in sizes], terms, [len(at["a"]), len(at["b"])], untouched


@check("tiled")
def products_are_of_tiles_only(student, rng):
    """it multiplies tiles of a and b, none larger than was asked for"""
    whole = [size * int(rng.integers(1, 3)) for size in (6, 10, 8)]
    for m, n, k in (whole, [size + 1 for size in whole]):
        require_tiles(student, m, n, k)


def require_tiles(student, m, n, k):
    """Raise Feedback where the learner multiplies anything but pairs of tiles."""
    got = student.probe(record_products, m=m, n=n, k=k, tiles=[3, 5, 2])
    sizes, terms, moves, untouched = got
    called = f"tiled(a, b, 3, 5, 2) of ({m}, {k}) by ({k}, {n})"
    if any(left > 6 or right > 10 for left, right in sizes):
        left, right = max(sizes)
        raise Feedback(
            f"{called} multiplied {left} numbers of a by {right} of b at once, more than tiles of "
            "3 by 2 and 2 by 5 have.",
            hint="Cut a along both of its axes, and b along both of its own.",
        )
    if 2 * terms < m * n * k:
        raise Feedback(
            f"{called} needs {m * n * k} multiplications of a and b; {terms} were seen.",
            hint="Which two slices does each turn multiply? Take them from a and b as they came: "
            "np.asarray, np.array or tolist make others, on which nothing is counted.",
        )
    most = -(-m // 3) * -(-n // 5) * -(-k // 2)
    if max(moves) > most:
        raise Feedback(
            f"{called} went from one tile of a or b to another {max(moves)} times; there are {most} "
            "pairs of tiles to be multiplied.",
            hint="All that is done with a pair of tiles is done before the next pair. By which "
            "steps do your three outer loops go?",
        )
    if not untouched:
        raise Feedback(f"{called} changed a or b.", hint="Both are the caller's.")


@check("tiled", weight=2, requires="products_are_of_tiles_only")
def tiles_that_fit_give_the_product(student, rng):
    """sizes that are multiples of the tile"""
    hint = "A tile of C belongs to rows i and columns j. What is added to it for each tile of k?"
    compare_tiled(student, rng, (4, 6, 8), (2, 3, 8), hint)
    compare_tiled(student, rng, (4, 6, 8), (2, 3, 2), hint)


@check("tiled", requires="products_are_of_tiles_only")
def sizes_need_not_be_multiples(student, rng):
    """tiles at the edges are smaller"""
    hint = "What becomes of the rows, columns and terms after the last whole tile?"
    compare_tiled(student, rng, (7, 5, 9), (3, 2, 4), hint)
    compare_tiled(student, rng, (3, 3, 3), (8, 16, 32), hint)


@check("tiled", hidden=True, requires="products_are_of_tiles_only")
def the_three_tiles_are_apart(student, rng):
    """tile_m cuts rows, tile_n columns, tile_k terms, and the dtype stays"""
    hint = "Which tile belongs to which axis?"
    compare_tiled(student, rng, (11, 3, 2), (1, 3, 2), hint, np.float32)
    compare_tiled(student, rng, (2, 11, 5), (2, 4, 1), hint)


# ---- 3. best_block


def find_best_block(registers):
    pairs = ((r, v) for r in range(1, registers) for v in range(1, registers))
    fitting = [(r, v) for r, v in pairs if r * v + v + 1 <= registers]
    return max(fitting, key=lambda b: (b[0] * b[1] / sum(b), -b[1]))


def compare_block(student, registers):
    called = f"best_block({registers})"
    got = student.call("best_block", registers)
    if np.shape(got) != (2,) or not all(isinstance(x, int | np.integer) for x in got):
        raise Feedback(f"{called} gave {got!r}, expected two whole numbers, rows and vectors.")
    rows, vectors = (int(x) for x in got)
    best = find_best_block(registers)
    if (rows, vectors) == best:
        return
    need = rows * vectors + vectors + 1
    answer = f"{called} gave {rows} rows by {vectors} vectors"
    if need > registers:
        hint = "Rows come first." if (vectors, rows) == best else "Sums, a row of B, and one of A."
        raise Feedback(f"{answer}, which needs {need} registers. {hint}")
    work, most = rows * vectors / (rows + vectors), best[0] * best[1] / sum(best)
    if abs(work - most) < 1e-12:
        raise Feedback(f"{answer}. A block with as much work a load has fewer vectors.")
    raise Feedback(f"{answer}: {work:.3f} multiplications a load. There is a block with more.")


@check("best_block")
def of_sixteen_and_thirty_two(student, rng):
    """the best blocks of 16 and of 32 registers"""
    for registers in (32, 16):
        compare_block(student, registers)


@check("best_block", hidden=True)
def of_any_number(student, rng):
    """the best block of any number of registers; of equals the one with fewer vectors"""
    for registers in (3, 4, 8, 13, 64, 400, *(int(r) for r in rng.integers(5, 60, size=3))):
        compare_block(student, registers)


# ---- pack


def cut_panels(b, columns):
    k, n = b.shape
    panels = np.zeros((-(-n // columns), k, columns), b.dtype)
    for j in range(n):
        panels[j // columns, :, j % columns] = b[:, j]
    return panels


def pack_in_used_memory(b, columns):
    """Return the learner's panels; what is not written in them is what was in memory before."""
    size = -(-b.shape[1] // columns) * columns * len(b)
    used = [np.full(size, 7, b.dtype) for _ in range(16)]
    del used  # NumPy keeps such small blocks, and gives them out again
    return pack(b, columns)


def compare_panels(student, b, columns, hint):
    called = f"pack(b, {columns}) of {b.shape}"
    got = np.asarray(student.probe(pack_in_used_memory, b=b, columns=columns))
    right = cut_panels(b, columns)
    if got.shape != right.shape:
        raise Feedback(
            f"{called} has shape {got.shape}, expected {right.shape}.",
            hint="How many panels does it take for all columns? Each has k rows.",
        )
    if got.dtype != b.dtype:
        raise Feedback(
            f"{called} is {got.dtype}, and b is {b.dtype}.",
            hint="np.zeros makes float64 unless it is given a dtype.",
        )
    close(got, right, called=called, hint=hint)


@check("pack", weight=2)
def panels_hold_columns_side_by_side(student, rng):
    """panel p holds the columns from p * columns on, row after row"""
    b = rng.normal(size=(3, 8)).astype(np.float32)
    compare_panels(student, b, 4, "Look at panel 0: it is the first columns of b, as they stand.")
    compare_panels(student, b, 2, "Look at panel 1: where in b does it begin?")


def lay_panels(b, columns):
    """Return the strides of the learner's panels, in numbers, and whether they share b's memory."""
    panels = pack(b, columns)
    return [s // panels.itemsize for s in panels.strides], bool(np.shares_memory(panels, b))


@check("pack", requires="panels_hold_columns_side_by_side")
def panels_lie_in_memory_as_they_are_read(student, rng):
    """the panels are a copy, in which row follows row and panel follows panel"""
    for n in (8, 7):
        b = rng.normal(size=(3, n)).astype(np.float32)
        strides, shared = student.probe(lay_panels, b=b, columns=4)
        called = f"pack(b, 4) of {b.shape}"
        if shared:
            raise Feedback(
                f"{called} shows b's own memory.",
                hint="In memory nothing has moved: rows of a panel are as far apart as before.",
            )
        if strides != [12, 4, 1]:
            raise Feedback(
                f"{called}: in memory a panel begins {strides[0]} numbers behind the one before, a "
                f"row {strides[1]} and a number {strides[2]}; a loop that reads on and on expects "
                "12, 4 and 1.",
                hint="Axes that are exchanged move no number. Which array is written to, in which "
                "order?",
            )


@check("pack")
def the_last_panel_is_filled_with_zeros(student, rng):
    """where n is no multiple, the last panel ends in zeros"""
    b = rng.normal(size=(4, 7))
    compare_panels(student, b, 3, "Which columns of the last panel does b have?")
    compare_panels(student, b, 16, "One panel is wider than b.")


# ---- 4. features


KNOBS = {
    "rows": (1, 2, 4, 8, 12, 16, 32), "vectors": (1, 2, 4), "lanes": (1, 2, 4, 8, 16),
    "unroll": (1, 4), "tile_k": (2, 8, 32, 256), "pack_a": (False, True), "pack_b": (False, True),
}  # fmt: skip
COLUMNS = (
    *(f"log2 of {knob}" for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")),
    "pack_a", "pack_b", "work a load", "registers too many",
)  # fmt: skip


def draw_points(rng, count):
    """Return random points, their knobs in any order, beside one that no feature is made of."""
    points = [{k: v[rng.integers(len(v))] for k, v in KNOBS.items()} for _ in range(count)]
    points = [point | {"order": "nkm"} for point in points]
    return [{k: point[k] for k in rng.permutation(list(point)).tolist()} for point in points]


def compute_features(points):
    logs = np.log2([[p[knob] for knob in list(KNOBS)[:5]] for p in points])
    flags = np.array([[p["pack_a"], p["pack_b"]] for p in points], float)
    block = np.array([[p["rows"], p["vectors"]] for p in points], float)
    many = block.prod(axis=1)
    excess = np.clip(many + block[:, 1] - 31, 0, None)
    return np.column_stack([logs, flags, many / block.sum(axis=1), excess])


@check("features")
def nine_numbers_a_point(student, rng):
    """an array of floats, a row of nine for each point"""
    for count in (5, 1):
        got = np.asarray(student.call("features", draw_points(rng, count)))
        if got.shape != (count, 9):
            raise Feedback(
                f"features of {count} points has shape {got.shape}, expected ({count}, 9)."
            )
        if got.dtype.kind != "f":
            raise Feedback(f"features gave {got.dtype}, expected floats.")


@check("features", weight=3)
def each_column_is_what_it_says(student, rng):
    """logarithms of five knobs, two flags, work a load, registers too many"""
    points = draw_points(rng, 12)
    points += [p | {"rows": 32, "vectors": 4} for p in points[:2]]
    points += [p | {"rows": 15, "vectors": 2} for p in points[:1]]
    got, right = np.asarray(student.call("features", points), float), compute_features(points)
    if got.shape != right.shape:
        raise Feedback(f"features of {len(points)} points has shape {got.shape}.")
    for j, name in enumerate(COLUMNS):
        wrong = np.flatnonzero(~np.isclose(got[:, j], right[:, j], 1e-5, 1e-6))  # float32 will do
        if len(wrong):
            i = wrong[0]
            raise Feedback(
                f"features: column {j}, {name}, is {got[i, j]:g} for {points[i]}. "
                "Work that one out by hand."
            )


def leaves_points_alone(points):
    """Ask for features; return whether the points are what they were before."""
    before = [dict(p) for p in points]
    features(points)
    return points == before


@check("features", hidden=True, requires="each_column_is_what_it_says")
def the_points_are_only_read(student, rng):
    """the dicts of knobs are as they were afterwards"""
    points = draw_points(rng, 4)
    if not student.probe(leaves_points_alone, points=points):
        hint = "The same schedules are compiled next. Which line takes something out?"
        raise Feedback("features changed the points that it was given.", hint=hint)


# ---- fit_ridge


def solve_ridge(x, y, penalty):
    c = x - x.mean(0)
    w = np.linalg.solve(c.T @ c + penalty * np.eye(x.shape[1]), c.T @ (y - y.mean()))
    return w, y.mean() - x.mean(0) @ w


def compare_fit(student, x, y, penalty, hint):
    called = f"fit_ridge of {len(x)} points, penalty {penalty:g}"
    got = student.call("fit_ridge", x, y, penalty)
    if not isinstance(got, tuple | list) or len(got) != 2:
        raise Feedback(f"{called} gave {type(got).__name__}, expected weights and start.")
    w, start = solve_ridge(x, y, penalty)
    if np.shape(got[0]) != w.shape:
        raise Feedback(f"{called}: weights of shape {np.shape(got[0])}, expected {w.shape}.")
    close(got[0], w, called=f"the weights of {called}", hint=hint)
    close(got[1], start, called=f"the start of {called}", hint="Where X w + s is on average right.")


@check("fit_ridge")
def without_penalty_a_plane_is_found_again(student, rng):
    """with next to no penalty, what is linear is found exactly"""
    x, w = rng.normal(size=(20, 3)), rng.normal(size=3)
    hint = "The y here are exactly x @ w + 5, and x has means of its own."
    compare_fit(student, x + 2, (x + 2) @ w + 5, 1e-9, hint)


@check("fit_ridge", weight=2)
def the_penalty_keeps_weights_small(student, rng):
    """the formula, with few points and a penalty"""
    x, y = rng.normal(size=(6, 9)) + 1, rng.normal(size=6) + 3
    compare_fit(student, x, y, 1.0, "The penalty is added to the square, not to y; means go first.")
    compare_fit(student, x, y, 7.5, "Is the penalty used as it is given?")


def run_fit(x, y):
    """Return the caller's arrays after a fit."""
    fit_ridge(x, y)
    return x, y


@check("fit_ridge", requires="the_penalty_keeps_weights_small")
def the_callers_arrays_are_left_alone(student, rng):
    """x and y stay as they are"""
    x, y = rng.normal(size=(6, 3)) + 1, rng.normal(size=6)
    if not all(map(np.array_equal, student.probe(run_fit, x=x, y=y), (x, y))):
        raise Feedback(
            "fit_ridge changed an array that it was given.",
            hint="x -= ... writes into x; x - ... makes a new array.",
        )


@check("fit_ridge", hidden=True, requires="the_penalty_keeps_weights_small")
def the_start_is_not_kept_small(student, rng):
    """a constant added to all y changes the start and no weight"""
    x, y = rng.normal(size=(10, 2)) * 3 + 10, rng.normal(size=10)
    compare_fit(student, x, y + 1000, 5.0, "Take the means off before you solve.")
    default, explicit = student.call("fit_ridge", x, y), student.call("fit_ridge", x, y, 1.0)
    close(default[0], explicit[0], called="fit_ridge without a penalty", hint="It is 1 by default.")


# ---- 5. propose


class Landscape:
    """Seconds of points by their features: a slope, a valley across two of them, some noise."""

    def __init__(self, rng, count=1500, width=8):
        x = rng.integers(0, 5, size=(count, width)) / 2.0
        self.x = x - x.mean(0)
        w = rng.permutation([0.9, -0.7, 0.6, -0.5, 0.4, 0.1, 0.05, 0.0])[:width]
        bend = 0.15 * np.abs(x[:, 0] - x[:, 1])
        self.seconds = np.exp(x @ w + bend + 0.03 * rng.normal(size=count)) * 1e-3
        self.least = self.seconds.min()


def read_numbers(got, called):
    """Return what a learner gave as numbers of points, whole ones."""
    flat = np.ravel(got)
    if len(flat) and flat.dtype.kind not in "iu":
        raise Feedback(f"{called} gave {flat.dtype}. Points have whole numbers.")
    return [int(i) for i in flat]


def ask_batch(student, land, tried, count, surprises, seed, lists=False):
    """Return a batch that the learner proposes, once it is known to be one."""
    known = np.array(tried, int), land.seconds[tried]
    if lists:
        known = tuple(values.tolist() for values in known)
    called = f"propose with {len(tried)} tried, count={count}, surprises={surprises}"
    try:
        got = student.call("propose", land.x, *known, count, surprises, int(seed))
    except StudentError as error:
        if not lists:
            raise
        hint = "A search keeps what it has tried in lists. Which of your lines knows arrays alone?"
        raise Feedback(f"{called}, lists: {error}", hint=hint) from error
    batch = read_numbers(got, called)
    if len(batch) != count:
        raise Feedback(f"{called} gave {len(batch)} points, expected {count}.")
    if min(batch) < 0 or max(batch) >= len(land.x):
        raise Feedback(f"{called} gave a number outside 0 to {len(land.x) - 1}.")
    if len(set(batch)) < count:
        raise Feedback(f"{called} gave a point twice. A trial of it teaches nothing new.")
    if set(batch) & set(tried):
        raise Feedback(f"{called} gave a point that was tried already. Which are still open?")
    return batch


RIGHT_BUT_UNSORTED = (
    "The rows are right and their order is not: is the model fitted to logarithms, and is all that "
    "it finds sorted?"
)


@check("propose")
def a_batch_is_new_points(student, rng):
    """a batch has `count` points, no two the same, none of which was tried"""
    land = Landscape(rng, 40)
    for n_tried, count, surprises in ((0, 30, 1), (4, 5, 0), (30, 10, 2), (39, 1, 0)):
        tried = [int(i) for i in rng.permutation(40)[:n_tried]]
        ask_batch(student, land, tried, count, surprises, rng.integers(1000), n_tried in (4, 30))


@check("propose", weight=2)
def the_models_best_come_first(student, rng):
    """with 8 trials or more, all but the surprises are the model's fastest, best first"""
    land = Landscape(rng, 2000)  # NumPy sorts what it has only to part where there are few
    for n_tried, count, surprises in ((8, 6, 0), (9, 12, 2), (40, 8, 2), (90, 900, 2)):
        tried = [int(i) for i in rng.permutation(2000)[:n_tried]]
        w, _ = solve_ridge(land.x[tried], np.log(land.seconds[tried]), 1.0)
        open_ = np.setdiff1d(np.arange(2000), tried)
        guess = (land.x @ w)[open_]
        batch = ask_batch(student, land, tried, count, surprises, 1)
        guesses = np.array([land.x[i] @ w for i in batch[: count - surprises]])
        slow, fast = np.sort(guess)[::-1], np.sort(guess)
        if np.allclose(guesses, slow[: len(guesses)]):
            raise Feedback("propose gave what the model finds slowest. Lower seconds are better.")
        if not np.allclose(guesses, fast[: len(guesses)]):
            hint = "Fit to the logarithms of seconds with penalty 1, guess for all, sort the open ones."
            raise Feedback(
                f"propose with {n_tried} tried did not give the model's {len(guesses)} fastest, in "
                "their order.",
                hint=RIGHT_BUT_UNSORTED
                if np.allclose(np.sort(guesses), fast[: len(guesses)])
                else hint,
            )


@check("propose", requires="a_batch_is_new_points")
def surprises_are_drawn(student, rng):
    """surprises, and all points before there are 8 trials, are drawn with the seed"""
    land = Landscape(rng, 400)
    tried = [int(i) for i in rng.permutation(400)[:40]]
    for n_tried, surprises, what in ((40, 4, "surprises"), (7, 0, "points before 8 trials")):
        n_drawn = surprises or 8
        batches = [
            ask_batch(student, land, tried[:n_tried], 8, surprises, seed)[-n_drawn:]
            for seed in (1, 1, 2, 3, 4)
        ]
        if batches[0] != batches[1]:
            raise Feedback(f"The {what} differ between two calls with one seed.")
        if set.intersection(*map(set, batches[1:])):
            raise Feedback(f"The {what} are the same with another seed: they are not drawn.")
        if surprises:
            w, _ = solve_ridge(land.x[tried], np.log(land.seconds[tried]), 1.0)
            drawn = (land.x @ w)[np.ravel(batches)]
            if drawn.max() < np.quantile(land.x @ w, 0.5):
                raise Feedback(
                    f"The {what} of five calls are all among the faster half, by the model.",
                    hint="They are there to show where the model is wrong. Among which points are "
                    "they drawn?",
                )


@check("propose", hidden=True, weight=3)
def a_search_is_near_the_best_after_32_trials(student, rng):
    """on landscapes that you have not seen, 32 trials lead within 1.10 of the best"""
    ends = []
    for run in range(5):
        land, tried = Landscape(rng), []
        while len(tried) < 32:
            tried += ask_batch(student, land, tried, 8, 1, 10 * run + len(tried))
        ends.append(land.seconds[tried].min() / land.least)
    if np.median(ends) > 1.10:
        raise Feedback(
            f"After 32 trials the best was {np.median(ends):.2f} times the best of all.",
            hint="Does each batch learn from all trials so far, with all of the features?",
        )


def leaves_trials_alone(x, tried, seconds):
    """Ask for a batch; return whether x, trials, and NumPy's common generator are as before."""
    before, rows, state = (list(tried), list(seconds)), x.copy(), str(np.random.get_state())
    propose(x, tried, seconds, 5, 1, 3)
    same = (tried, seconds) == before and np.array_equal(x, rows)
    return same, str(np.random.get_state()) == state


@check("propose", hidden=True, requires="the_models_best_come_first")
def the_trials_are_only_read(student, rng):
    """x, tried, seconds and the generator that all programs share are as they were afterwards"""
    land = Landscape(rng, 60)
    tried = [int(i) for i in rng.permutation(60)[:20]]
    seconds = land.seconds[tried].tolist()
    same, unseeded = student.probe(leaves_trials_alone, x=land.x, tried=tried, seconds=seconds)
    if not unseeded:
        hint = "Whoever else draws from np.random gets other numbers now. Which generator is yours?"
        raise Feedback("propose draws from the generator that all programs share.", hint=hint)
    if not same:
        hint = "The search adds the batch to its lists itself. Which line writes into an argument?"
        raise Feedback("propose changed x, tried or seconds.", hint=hint)


# ---- 6. first_batch


@check("first_batch", weight=2)
def ranks_by_what_the_small_shape_taught(student, rng):
    """the rows that a model of the small shape finds fastest, the fastest first"""
    for count in (8, 30, 900):  # NumPy sorts what it has only to part where there are few
        small, large = Landscape(rng, 60), Landscape(rng, 2000)
        w, _ = solve_ridge(small.x, np.log(small.seconds), 1.0)
        guess = large.x @ w
        answer = student.call("first_batch", small.x, small.seconds, large.x, count)
        got = read_numbers(answer, "first_batch")
        if len(got) != count or len(set(got)) != count:
            raise Feedback(f"first_batch gave {len(got)} points, expected {count} that differ.")
        if min(got) < 0 or max(got) >= 2000:
            raise Feedback("first_batch gave a number that is no row of x_large.")
        if np.allclose(guess[got], np.sort(guess)[::-1][:count]):
            raise Feedback("first_batch gave the slowest by the model. Lower is better.")
        fast = np.sort(guess)[:count]
        if not np.allclose(guess[got], fast):
            hint = "Fit to logarithms, with penalty 1. What is ranked?"
            raise Feedback(
                f"first_batch did not give the {count} rows of x_large that a model of the small "
                "shape finds fastest, in order.",
                hint=RIGHT_BUT_UNSORTED if np.allclose(np.sort(guess[got]), fast) else hint,
            )


def leave_arguments(x, seconds):
    """Ask for a first batch; return its arguments afterwards."""
    large = x + 1.0
    first_batch(x, seconds, large, 3)
    return x, seconds, large


@check("first_batch", requires="ranks_by_what_the_small_shape_taught")
def the_arguments_are_only_read(student, rng):
    """features and seconds are the same afterwards"""
    land = Landscape(rng, 60)
    got = student.probe(leave_arguments, x=land.x, seconds=land.seconds)
    hint = "Logarithms and differences are numbers of your own. Into which array are they written?"
    expected = [land.x, land.seconds, land.x + 1.0]
    close(got, expected, called="[x_small, seconds_small, x_large] after first_batch", hint=hint)


# ---- 7. saved_bytes


@check("saved_bytes")
def each_step_reads_and_writes(student, rng):
    """each step that is fused saves a read and a write of C"""
    for steps in (1, 2, int(rng.integers(3, 9)), 0):
        m, n, item = (int(v) for v in rng.integers(2, 50, size=3))
        called = f"saved_bytes({m}, {n}, {steps}, {item})"
        got = require_number(student.call("saved_bytes", m, n, steps, item), called)
        hint = "Count the elements of C, and how often each of them moves."
        if got == steps * m * n * item:
            hint = "A step reads C, and then?"
        if got == 2 * m * n * item and steps > 1:
            hint = f"That is one step, and there are {steps}."
        if got != 2 * steps * m * n * item:
            raise Feedback(f"{called} gave {got:g}. {hint}")
    close(
        student.call("saved_bytes", 3, 5, 1), 120, called="saved_bytes(3, 5, 1)",
        hint="Without item_bytes a number has 4 bytes.",
    )  # fmt: skip
