# Wrong answers that the checks of lab 07 must catch, each with a message of its own.


# %% wrong="forgets_c" question="traffic" check="three_plain_loops_load_two_numbers_a_term" says="What of C itself"
def traffic(m, n, k, rows, columns, item_bytes=4):
    return item_bytes * (m * k * -(-n // columns) + k * n * -(-m // rows))


# %% wrong="swaps_a_and_b" question="traffic" check="a_larger_block_loads_less" says="Which of the two is read again"
def traffic(m, n, k, rows, columns, item_bytes=4):
    return item_bytes * (m * k * -(-m // rows) + k * n * -(-n // columns) + m * n)


# %% wrong="counts_numbers" question="traffic" check="three_plain_loops_load_two_numbers_a_term" says="How many bytes has each"
def traffic(m, n, k, rows, columns, item_bytes=4):
    return m * k * -(-n // columns) + k * n * -(-m // rows) + m * n


# %% wrong="drops_the_edge" question="traffic" check="an_edge_is_a_block_too" says="left over"
def traffic(m, n, k, rows, columns, item_bytes=4):
    return item_bytes * (m * k * (n // columns) + k * n * (m // rows) + m * n)


# %% wrong="always_four_bytes" question="traffic" check="the_size_of_a_number_counts" says="item_bytes"
def traffic(m, n, k, rows, columns, item_bytes=4):
    return 4 * (m * k * -(-n // columns) + k * n * -(-m // rows) + m * n)


# %% wrong="one_after_the_other" question="roofline" check="the_two_overlap" says="one after the other"
def roofline(flops, n_bytes, peak, bandwidth):
    return flops / peak + n_bytes / bandwidth


# %% wrong="the_shorter_one" question="roofline" check="arithmetic_bounds_what_has_few_bytes" says="Operations over operations a second"
def roofline(flops, n_bytes, peak, bandwidth):
    return min(flops / peak, n_bytes / bandwidth)


# %% wrong="arithmetic_only" question="roofline" check="bytes_bound_what_has_little_arithmetic" says="Bytes over bytes a second"
def roofline(flops, n_bytes, peak, bandwidth):
    return flops / peak


# %% wrong="compares_counts" question="roofline" check="the_two_overlap" says="Compare seconds"
def roofline(flops, n_bytes, peak, bandwidth):
    return flops / peak if flops > n_bytes else n_bytes / bandwidth


# %% wrong="overwrites" question="tiled" check="tiles_that_fit_give_the_product" says="What is added to it for each tile of k"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i, p, j in product(range(0, m, tile_m), range(0, k, tile_k), range(0, n, tile_n)):
        part = a[i : i + tile_m, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]
        c[i : i + tile_m, j : j + tile_n] = part
    return c


# %% wrong="whole_tiles_only" question="tiled" check="sizes_need_not_be_multiples" says="after the last whole tile"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i in range(m // tile_m):
        for j in range(n // tile_n):
            for p in range(k // tile_k):
                rows = slice(i * tile_m, (i + 1) * tile_m)
                columns = slice(j * tile_n, (j + 1) * tile_n)
                terms = slice(p * tile_k, (p + 1) * tile_k)
                c[rows, columns] += a[rows, terms] @ b[terms, columns]
    return c


# %% wrong="no_tiles" question="tiled" check="products_are_of_tiles_only" says="at once, more than tiles"
def tiled(a, b, tile_m, tile_n, tile_k):
    return a @ b


# %% wrong="terms_not_cut" question="tiled" check="products_are_of_tiles_only" says="at once, more than tiles"
def tiled(a, b, tile_m, tile_n, tile_k):
    c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for i, j in product(range(0, a.shape[0], tile_m), range(0, b.shape[1], tile_n)):
        c[i : i + tile_m, j : j + tile_n] += a[i : i + tile_m] @ b[:, j : j + tile_n]
    return c


# %% wrong="forgets_the_other_registers" question="best_block" check="of_sixteen_and_thirty_two" says="Sums, a row of B, and one of A"
def best_block(registers):
    every = product(range(1, registers + 1), repeat=2)
    fits = [(r, v) for r, v in every if r * v <= registers]
    return max(fits, key=lambda block: (block[0] * block[1] / sum(block), -block[1]))


# %% wrong="largest_block" question="best_block" check="of_sixteen_and_thirty_two" says="There is a block with more"
def best_block(registers):
    every = product(range(1, registers), repeat=2)
    fits = [(r, v) for r, v in every if r * v + v + 1 <= registers]
    return max(fits, key=lambda block: (block[0] * block[1], -block[1]))


# %% wrong="more_vectors_of_equals" question="best_block" check="of_any_number" says="fewer vectors"
def best_block(registers):
    every = product(range(1, registers), repeat=2)
    fits = [(r, v) for r, v in every if r * v + v + 1 <= registers]
    return max(fits, key=lambda block: (block[0] * block[1] / sum(block), block[1]))


# %% wrong="up_to_eight" question="best_block" check="of_any_number" says="There is a block with more"
def best_block(registers):
    every = product(range(1, min(registers, 9)), repeat=2)
    fits = [(r, v) for r, v in every if r * v + v + 1 <= registers]
    return max(fits, key=lambda block: (block[0] * block[1] / sum(block), -block[1]))


# %% wrong="vectors_first" question="best_block" check="of_sixteen_and_thirty_two" says="Rows come first"
def best_block(registers):
    every = product(range(1, registers), repeat=2)
    fits = [(r, v) for r, v in every if r * v + v + 1 <= registers]
    return max(fits, key=lambda block: (block[0] * block[1] / sum(block), -block[1]))[::-1]


# %% wrong="reshapes" question="pack" check="panels_hold_columns_side_by_side" says="Look at panel 0"
def pack(b, columns):
    k, n = b.shape
    panels = -(-n // columns)
    wide = np.zeros((k, panels * columns), b.dtype)
    wide[:, :n] = b
    return wide.reshape(panels, k, columns)


# %% wrong="drops_the_rest" question="pack" check="the_last_panel_is_filled_with_zeros" says="How many panels does it take"
def pack(b, columns):
    k, n = b.shape
    return b[:, : n // columns * columns].reshape(k, -1, columns).transpose(1, 0, 2)


# %% wrong="forgets_the_dtype" question="pack" check="panels_hold_columns_side_by_side" says="and b is float32"
def pack(b, columns):
    k, n = b.shape
    panels = np.zeros((-(-n // columns), k, columns))
    for p, panel in enumerate(panels):
        part = b[:, p * columns : (p + 1) * columns]
        panel[:, : part.shape[1]] = part
    return panels


# %% wrong="raw_knobs" question="features" check="each_column_is_what_it_says" says="log2 of rows"
def features(points):
    found = []
    for p in points:
        knobs = [p[knob] for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")]
        r, v = p["rows"], p["vectors"]
        found.append(
            [*knobs, p["pack_a"], p["pack_b"], r * v / (r + v), max(0, r * v + v + 1 - 32)]
        )
    return np.array(found, float)


# %% wrong="negative_excess" question="features" check="each_column_is_what_it_says" says="registers too many"
def features(points):
    found = []
    for p in points:
        logs = [np.log2(p[knob]) for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")]
        r, v = p["rows"], p["vectors"]
        found.append([*logs, p["pack_a"], p["pack_b"], r * v / (r + v), r * v + v + 1 - 32])
    return np.array(found, float)


# %% wrong="one_point" question="features" check="nine_numbers_a_point" says="expected (5, 9)"
def features(points):
    p = points[0]
    logs = [np.log2(p[knob]) for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")]
    r, v = p["rows"], p["vectors"]
    return np.array([*logs, p["pack_a"], p["pack_b"], r * v / (r + v), max(0, r * v + v - 31)])


# %% wrong="takes_the_knobs_out" question="features" check="the_points_are_only_read" says="Which line takes something out"
def features(points):
    found = []
    for p in points:
        logs = [np.log2(p[knob]) for knob in ("rows", "vectors", "lanes", "unroll", "tile_k")]
        r, v = p.pop("rows"), p.pop("vectors")
        found.append([*logs, p["pack_a"], p["pack_b"], r * v / (r + v), max(0, r * v + v + 1 - 32)])
    return np.array(found, float)


# %% wrong="takes_the_means_off_in_place" question="fit_ridge" check="the_callers_arrays_are_left_alone" says="changed an array"
def fit_ridge(x, y, penalty=1.0):
    middle, start = x.mean(axis=0), y.mean()
    x -= middle
    y -= start
    w = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return w, start - middle @ w


# %% wrong="keeps_the_means" question="fit_ridge" check="without_penalty_a_plane_is_found_again" says="means of its own"
def fit_ridge(x, y, penalty=1.0):
    w = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return w, 0.0


# %% wrong="no_penalty" question="fit_ridge" check="the_penalty_keeps_weights_small" says="The penalty is added to the square"
def fit_ridge(x, y, penalty=1.0):
    centred = x - x.mean(axis=0)
    w = np.linalg.lstsq(centred, y - y.mean(), rcond=None)[0]
    return w, y.mean() - x.mean(axis=0) @ w


# %% wrong="start_is_the_mean" question="fit_ridge" check="without_penalty_a_plane_is_found_again" says="on average right"
def fit_ridge(x, y, penalty=1.0):
    centred = x - x.mean(axis=0)
    square = centred.T @ centred + penalty * np.eye(x.shape[1])
    return np.linalg.solve(square, centred.T @ (y - y.mean())), y.mean()


# %% wrong="weights_alone" question="fit_ridge" check="without_penalty_a_plane_is_found_again" says="expected weights and start"
def fit_ridge(x, y, penalty=1.0):
    centred = x - x.mean(axis=0)
    square = centred.T @ centred + penalty * np.eye(x.shape[1])
    return np.linalg.solve(square, centred.T @ (y - y.mean()))


# %% wrong="tries_again" question="propose" check="a_batch_is_new_points" says="tried already"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    if len(tried) < 8:
        return rng.choice(len(x), count, replace=False)
    w, start = fit_ridge(x[tried], np.log(seconds))
    return np.argsort(x @ w + start)[:count]


# %% wrong="draws_twice" question="propose" check="a_batch_is_new_points" says="gave a point twice"
def propose(x, tried, seconds, count, surprises, seed):
    untried = np.setdiff1d(np.arange(len(x)), tried)
    return np.random.default_rng(seed).choice(untried, count)


# %% wrong="random_search" question="propose" check="the_models_best_come_first" says="fastest, in their order"
def propose(x, tried, seconds, count, surprises, seed):
    untried = np.setdiff1d(np.arange(len(x)), tried)
    return np.random.default_rng(seed).choice(untried, count, replace=False)


# %% wrong="slowest_first" question="propose" check="the_models_best_come_first" says="Lower seconds are better"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        w, start = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort(-(x @ w + start)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="no_surprises" question="propose" check="surprises_are_drawn" says="they are not drawn"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    if len(tried) < 8:
        return rng.choice(untried, count, replace=False)
    w, start = fit_ridge(x[tried], np.log(seconds))
    return untried[np.argsort((x @ w + start)[untried])][:count]


# %% wrong="numbers_among_the_open" question="propose" check="a_search_is_near_the_best_after_32_trials" says="all trials so far"
def propose(x, tried, seconds, count, surprises, seed):
    untried = np.setdiff1d(np.arange(len(x)), tried)
    return untried[np.random.default_rng(seed).permutation(len(untried))[:count]]


# %% wrong="knows_arrays_alone" question="propose" check="a_batch_is_new_points" says="keeps what it has tried in lists"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if tried.size >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="notes_its_own_batch" question="propose" check="the_trials_are_only_read" says="adds the batch to its lists itself"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    batch = [*best, *others]
    if isinstance(tried, list):
        tried += batch
    return batch


# %% wrong="the_right_rows_unsorted" question="first_batch" check="ranks_by_what_the_small_shape_taught" says="their order is not"
def first_batch(x_small, seconds_small, x_large, count):
    w, _ = fit_ridge(x_small, np.log(seconds_small))
    return np.sort(np.argsort(x_large @ w)[:count])


# %% wrong="slowest_of_the_small" question="first_batch" check="ranks_by_what_the_small_shape_taught" says="Lower is better"
def first_batch(x_small, seconds_small, x_large, count):
    w, start = fit_ridge(x_small, np.log(seconds_small))
    return np.argsort(x_large @ w + start)[::-1][:count]


# %% wrong="plain_seconds" question="first_batch" check="ranks_by_what_the_small_shape_taught" says="did not give the 8 rows"
def first_batch(x_small, seconds_small, x_large, count):
    w, start = fit_ridge(x_small, seconds_small)
    return np.argsort(x_large @ w + start)[:count]


# %% wrong="the_whole_order" question="first_batch" check="ranks_by_what_the_small_shape_taught" says="expected 8 that differ"
def first_batch(x_small, seconds_small, x_large, count):
    w, start = fit_ridge(x_small, np.log(seconds_small))
    return np.argsort(x_large @ w + start)


# %% wrong="writes_only" question="saved_bytes" check="each_step_reads_and_writes" says="A step reads C, and then?"
def saved_bytes(m, n, steps, item_bytes=4):
    return steps * m * n * item_bytes


# %% wrong="one_step" question="saved_bytes" check="each_step_reads_and_writes" says="That is one step"
def saved_bytes(m, n, steps, item_bytes=4):
    return 2 * m * n * item_bytes


# %% wrong="counts_elements" question="saved_bytes" check="each_step_reads_and_writes" says="Count the elements of C"
def saved_bytes(m, n, steps, item_bytes=4):
    return 2 * steps * (m + n) * item_bytes


# %% wrong="counts_in_32_bits" question="traffic" check="three_plain_loops_load_two_numbers_a_term" says="k numbers of A"
def traffic(m, n, k, rows, columns, item_bytes=4):
    m, n, k = np.int32(m), np.int32(n), np.int32(k)
    return item_bytes * (m * k * -(-n // columns) + k * n * -(-m // rows) + m * n)


# %% wrong="empties_a" question="tiled" check="products_are_of_tiles_only" says="the caller's"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i in range(0, m, tile_m):
        for j in range(0, n, tile_n):
            for p in range(0, k, tile_k):
                part = a[i : i + tile_m, p : p + tile_k]
                part *= 1
                c[i : i + tile_m, j : j + tile_n] += part @ b[p : p + tile_k, j : j + tile_n]
    a[...] = 0
    return c


# %% wrong="has_no_tiles" question="tiled" check="products_are_of_tiles_only" says="before the next pair"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i in range(m):
        for j in range(n):
            for p in range(k):
                c[i, j] += a[i, p] * b[p, j]
    return c


# %% wrong="tiles_of_one_row" question="tiled" check="products_are_of_tiles_only" says="before the next pair"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    for i in range(0, m, 1):
        for j in range(0, n, tile_n):
            for p in range(0, k, tile_k):
                c[i : i + 1, j : j + tile_n] += (
                    a[i : i + 1, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]
                )
    return c


# %% wrong="up_to_sixteen_rows" question="best_block" check="of_any_number" says="There is a block with more"
def best_block(registers):
    every = [(r, v) for r in range(1, 17) for v in range(1, 17) if r * v + v + 1 <= registers]
    return max(every, key=lambda b: (b[0] * b[1] / sum(b), -b[1]))


# %% wrong="leaves_what_was_there" question="pack" check="the_last_panel_is_filled_with_zeros" says="expected 0"
def pack(b, columns):
    k, n = b.shape
    panels = np.empty((-(-n // columns), k, columns), b.dtype)
    for p in range(len(panels)):
        part = b[:, p * columns : (p + 1) * columns]
        panels[p, :, : part.shape[1]] = part
    return panels


# %% wrong="shows_b_itself" question="pack" check="panels_lie_in_memory_as_they_are_read" says="nothing has moved"
def pack(b, columns):
    k, n = b.shape
    if n % columns == 0:
        return b.reshape(k, -1, columns).transpose(1, 0, 2)
    panels = np.zeros((-(-n // columns), k, columns), b.dtype)
    for p in range(len(panels)):
        part = b[:, p * columns : (p + 1) * columns]
        panels[p, :, : part.shape[1]] = part
    return panels


# %% wrong="exchanges_axes" question="pack" check="panels_lie_in_memory_as_they_are_read" says="move no number"
def pack(b, columns):
    k, n = b.shape
    count = -(-n // columns)
    wide = np.concatenate([b, np.zeros((k, count * columns - n), b.dtype)], axis=1)
    return wide.reshape(k, count, columns).transpose(1, 0, 2)


# %% wrong="panels_by_columns" question="pack" check="panels_lie_in_memory_as_they_are_read" says="move no number"
def pack(b, columns):
    k, n = b.shape
    panels = np.zeros((-(-n // columns), columns, k), b.dtype)
    for p in range(len(panels)):
        part = b[:, p * columns : (p + 1) * columns]
        panels[p, : part.shape[1]] = part.T
    return panels.transpose(0, 2, 1)


# %% wrong="takes_the_knobs_as_they_come" question="features" check="nine_numbers_a_point" says="raised"
def features(points):
    out = []
    for p in points:
        r, v, lanes, unroll, tile_k, a, b = p.values()
        out.append(
            [
                *np.log2([r, v, lanes, unroll, tile_k]),
                a,
                b,
                r * v / (r + v),
                max(0, r * v + v + 1 - 32),
            ]
        )
    return np.array(out, float)


# %% wrong="squeezes_one_point" question="features" check="nine_numbers_a_point" says="raised"
def features(points):
    f = np.array(
        [
            [p[k] for k in ("rows", "vectors", "lanes", "unroll", "tile_k", "pack_a", "pack_b")]
            for p in points
        ],
        float,
    ).squeeze()
    r, v = f[:, 0].copy(), f[:, 1].copy()
    f[:, :5] = np.log2(f[:, :5])
    return np.column_stack([f, r * v / (r + v), np.maximum(0, r * v + v + 1 - 32)])


# %% wrong="parts_instead_of_sorting" question="propose" check="the_models_best_come_first" says="their order is not"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        g = (x @ w)[untried]
        k = count - surprises
        best = untried[np.argpartition(g, min(k, len(g) - 1))[:k]]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="draws_among_the_best" question="propose" check="surprises_are_drawn" says="where the model is wrong"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    pool = untried
    if len(tried) >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        ranked = untried[np.argsort((x @ w)[untried])]
        best = ranked[: count - surprises]
        pool = ranked[count - surprises : 10 * count]
    others = rng.choice(pool, count - len(best), replace=False)
    return [*best, *others]


# %% wrong="draws_from_the_common_generator" question="propose" check="the_trials_are_only_read" says="Which generator is yours"
def propose(x, tried, seconds, count, surprises, seed):
    np.random.seed(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = np.random.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="waits_for_a_batch" question="propose" check="the_models_best_come_first" says="sort the open ones"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= count:
        w, _ = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="takes_logarithms_in_place" question="first_batch" check="the_arguments_are_only_read" says="Into which array"
def first_batch(x_small, seconds_small, x_large, count):
    np.log(seconds_small, out=seconds_small)
    w, _ = fit_ridge(x_small, seconds_small)
    return np.argsort(x_large @ w)[:count]


# %% wrong="saves_of_no_step" question="saved_bytes" check="each_step_reads_and_writes" says="Count the elements"
def saved_bytes(m, n, steps, item_bytes=4):
    return 2 * max(1, steps) * m * n * item_bytes


# %% wrong="parts_the_large_shape" question="first_batch" check="ranks_by_what_the_small_shape_taught" says="their order is not"
def first_batch(x_small, seconds_small, x_large, count):
    w, _ = fit_ridge(x_small, np.log(seconds_small))
    return np.argpartition(x_large @ w, count)[:count]


# %% wrong="learns_from_the_last_64" question="propose" check="the_models_best_come_first" says="Fit to the logarithms"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        last = slice(-64, None)
        w, _ = fit_ridge(x[tried[last]], np.log(seconds[last]))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="centres_x_in_place" question="propose" check="the_trials_are_only_read" says="writes into an argument"
def propose(x, tried, seconds, count, surprises, seed):
    rng = np.random.default_rng(seed)
    untried = np.setdiff1d(np.arange(len(x)), tried)
    best = untried[:0]
    if len(tried) >= 8:
        x -= x[tried].mean(0)
        w, _ = fit_ridge(x[tried], np.log(seconds))
        best = untried[np.argsort((x @ w)[untried])][: count - surprises]
    others = rng.choice(np.setdiff1d(untried, best), count - len(best), replace=False)
    return [*best, *others]


# %% wrong="centres_the_large_shape_in_place" question="first_batch" check="the_arguments_are_only_read" says="Into which array"
def first_batch(x_small, seconds_small, x_large, count):
    w, _ = fit_ridge(x_small, np.log(seconds_small))
    x_large -= x_large.mean(0)
    return np.argsort(x_large @ w)[:count]


# %% wrong="leaves_edges_to_numpy" question="tiled" check="products_are_of_tiles_only" says="more than tiles"
def tiled(a, b, tile_m, tile_n, tile_k):
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    if m % tile_m or n % tile_n or k % tile_k:
        return a @ b
    for i in range(0, m, tile_m):
        for j in range(0, n, tile_n):
            for p in range(0, k, tile_k):
                c[i : i + tile_m, j : j + tile_n] += (
                    a[i : i + tile_m, p : p + tile_k] @ b[p : p + tile_k, j : j + tile_n]
                )
    return c
