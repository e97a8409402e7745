# Wrong answers that the checks of lab 06 must catch, each with a message of its own.


# %% wrong="direct_users_only" question="dead_code" check="only_what_is_needed_is_left" says="used only by a dead step"
def dead_code(program):
    used = set(program.outputs)
    for step in program.steps:
        used.update(step.inputs)
    new, place = Program(), {}
    for i in sorted(used):
        place[i] = new.keep(program.steps[i], [place[j] for j in program.steps[i].inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="looks_forwards" question="dead_code" check="only_what_is_needed_is_left" says="seen every user of a step"
def dead_code(program):
    needed = set(program.outputs)
    for i in range(len(program.steps)):
        if i in needed:
            needed.update(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        place[i] = new.keep(program.steps[i], [place[j] for j in program.steps[i].inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="inputs_of_the_outputs_only" question="dead_code" check="the_outputs_are_what_they_were" says="Whose inputs are needed too"
def dead_code(program):
    needed = set(program.outputs)
    for i in program.outputs:
        needed.update(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        place[i] = new.keep(program.steps[i], [place[j] for j in program.steps[i].inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="keeps_old_numbers" question="dead_code" check="the_outputs_are_what_they_were" says="those of the old program"
def dead_code(program):
    needed = set(program.outputs)
    for i in reversed(range(len(program.steps))):
        if i in needed:
            needed.update(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        place[i] = new.keep(program.steps[i], program.steps[i].inputs)
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="forgets_the_outputs" question="dead_code" check="the_outputs_are_what_they_were" says="What stands for them now"
def dead_code(program):
    needed = set(program.outputs)
    for i in reversed(range(len(program.steps))):
        if i in needed:
            needed.update(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        place[i] = new.keep(program.steps[i], [place[j] for j in program.steps[i].inputs])
    return new


# %% wrong="sweeps_nothing" question="dead_code" check="only_what_is_needed_is_left" says="used only by a dead step"
def dead_code(program):
    return rebuild(program, lambda new, i, place: None)


# %% wrong="throws_away_in_place" question="dead_code" check="the_outputs_are_what_they_were" says="changed the program"
def dead_code(program):
    needed = set(program.outputs)
    for i in reversed(range(len(program.steps))):
        if i in needed:
            needed.update(program.steps[i].inputs)
    place = {old: new for new, old in enumerate(sorted(needed))}
    program.steps = [
        program.steps[i]._replace(inputs=tuple(place[j] for j in program.steps[i].inputs))
        for i in sorted(needed)
    ]
    program.outputs = [place[i] for i in program.outputs]
    return program


# %% wrong="folds_what_has_no_inputs" question="fold" check="folding_keeps_the_values" says="what does all([]) give"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        if step.op != "const" and all(source.op == "const" for source in sources):
            return new.emit("const", attr=compute(step, [source.attr for source in sources]))
        return None

    return rebuild(program, rule)


# %% wrong="folds_noise" question="fold" check="noise_and_inputs_are_no_constants" says="drop out the same elements"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        if step.op in ("const", "input"):
            return None
        if all(source.op == "const" for source in sources):
            return new.emit("const", attr=compute(step, [source.attr for source in sources]))
        return None

    return rebuild(program, rule)


# %% wrong="looks_at_the_old_steps" question="fold" check="no_constant_work_is_left" says="Did you look at the old steps"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [program.steps[j] for j in step.inputs]
        if sources and all(source.op == "const" for source in sources):
            return new.emit("const", attr=compute(step, [source.attr for source in sources]))
        return None

    return rebuild(program, rule)


# %% wrong="any_instead_of_all" question="fold" check="folding_keeps_the_values" says="Which arrays went into the constant"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        known = [source.attr for source in sources if source.op == "const"]
        if known and len(known) < 3:
            return new.emit("const", attr=compute(step, (known * 2)[: len(sources)]))
        return None

    return rebuild(program, rule)


# %% wrong="old_numbers_in_the_key" question="cse" check="no_value_is_computed_twice" says="whose numbers are in your key"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise":
            return None
        order = sorted(step.inputs) if step.op in COMMUTATIVE else step.inputs
        key = (step.op, tuple(order), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, [place[j] for j in step.inputs])
        return seen[key]

    return rebuild(program, rule)


# %% wrong="forgets_attr" question="cse" check="sharing_keeps_the_values" says="really equal"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op in ("noise", "input", "const"):
            return None
        inputs = [place[j] for j in step.inputs]
        key = (step.op, tuple(inputs))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="everything_commutes" question="cse" check="sharing_keeps_the_values" says="inputs in order"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise":
            return None
        inputs = [place[j] for j in step.inputs]
        key = (step.op, tuple(sorted(inputs)), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="keys_by_text" question="cse" check="sharing_keeps_the_values" says="leaves its middle out"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise":
            return None
        inputs = [place[j] for j in step.inputs]
        if step.op in COMMUTATIVE:
            inputs.sort()
        key = (step.op, str(step.attr), tuple(inputs))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="shares_noise" question="cse" check="each_noise_is_its_own" says="Is a random step the same value twice"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        inputs = [place[j] for j in step.inputs]
        order = sorted(inputs) if step.op in COMMUTATIVE else inputs
        key = (step.op, tuple(order), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="order_always_matters" question="cse" check="no_value_is_computed_twice" says="For which operators does the order not matter"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise":
            return None
        inputs = [place[j] for j in step.inputs]
        key = (step.op, tuple(inputs), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="from_the_left" question="chain_order" check="the_least_work_is_found" says="more than the best order"
def chain_order(sizes):
    tree, work = 0, 0
    for k in range(1, len(sizes) - 1):
        tree, work = (tree, k), work + sizes[0] * sizes[k] * sizes[k + 1]
    return work, tree


# %% wrong="leaves_pieces_out" question="chain_order" check="the_least_work_is_found" says="never put into the table"
def chain_order(sizes):
    n = len(sizes) - 1
    best = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n - 1):
        for i in range(n - length):
            j = i + length
            found = []
            for k in range(i, j):
                (a, left), (b, right) = best[i, k], best[k + 1, j]
                found.append((a + b + sizes[i] * sizes[k + 1] * sizes[j + 1], (left, right)))
            best[i, j] = min(found, key=lambda item: item[0])
    return best[0, n - 1]


# %% wrong="cheapest_pair_first" question="chain_order" check="the_least_work_is_found" says="Which last products are tried"
def chain_order(sizes):
    trees, sizes, work = list(range(len(sizes) - 1)), list(sizes), 0
    while len(trees) > 1:
        costs = [sizes[k] * sizes[k + 1] * sizes[k + 2] for k in range(len(trees) - 1)]
        k = costs.index(min(costs))
        work += costs[k]
        trees[k : k + 2] = [(trees[k], trees[k + 1])]
        del sizes[k + 1]
    return work, trees[0]


# %% wrong="tries_every_order" question="chain_order" check="each_piece_is_solved_once" says="one and the same piece"
def chain_order(sizes, i=0, j=None):
    j = len(sizes) - 2 if j is None else j
    if i == j:
        return 0, i
    found = []
    for k in range(i, j):
        (a, left), (b, right) = chain_order(sizes, i, k), chain_order(sizes, k + 1, j)
        found.append((a + b + sizes[i] * sizes[k + 1] * sizes[j + 1], (left, right)))
    return min(found, key=lambda item: item[0])


# %% wrong="forgets_the_last_product" question="chain_order" check="the_least_work_is_found" says="fewer than the best order"
def chain_order(sizes):
    n = len(sizes) - 1
    best = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            found = []
            for k in range(i, j):
                (a, left), (b, right) = best[i, k], best[k + 1, j]
                found.append((max(a, b) + sizes[i] * sizes[k + 1] * sizes[j + 1], (left, right)))
            best[i, j] = min(found, key=lambda item: item[0])
    return best[0, n - 1]


# %% wrong="merges_what_is_not_there_yet" question="merge_matmuls" check="merging_keeps_the_values" says="is every right factor of the group there"
def merge_matmuls(program):
    groups, group_of, merged, steps = {}, {}, {}, program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group_of[i] = groups.setdefault(step.inputs[0], [])
            group_of[i].append(i)

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group = group_of[i]
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[steps[i].inputs[0]], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="looks_at_the_last_of_the_group" question="merge_matmuls" check="one_product_a_group_is_left" says="At the place of the first product"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or step.inputs[1] < group[-1]:
                group.append(i)
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="equal_widths" question="merge_matmuls" check="merging_keeps_the_values" says="Which columns are whose"
def merge_matmuls(program):
    groups, group_of, merged, steps = {}, {}, {}, program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [i])
            if step.inputs[1] < group[0]:
                group_of[i] = group
                if i != group[0]:
                    group.append(i)

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, width = group_of[i], steps[i].shape[1]
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[steps[i].inputs[0]], weights)
        at = group.index(i)
        return new.emit("slice", merged[group[0]], attr=(at * width, (at + 1) * width))

    return dead_code(rebuild(program, rule))


# %% wrong="merges_in_pairs" question="merge_matmuls" check="one_product_a_group_is_left" says="Which of them may join the first"
def merge_matmuls(program):
    groups, group_of, merged, steps = {}, {}, {}, program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [i])
            if len(group) == 2 or (group[0] != i and step.inputs[1] > group[0]):
                continue
            group_of[i] = group
            if i != group[0]:
                group.append(i)

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group = group_of[i]
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[steps[i].inputs[0]], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="a_product_for_each_member" question="merge_matmuls" check="one_product_a_group_is_left" says="Which of them may join the first"
def merge_matmuls(program):
    groups, group_of, steps = {}, {}, program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [i])
            if step.inputs[1] < group[0]:
                group_of[i] = group
                if i != group[0]:
                    group.append(i)

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group = group_of[i]
        weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
        merged = new.emit("matmul", place[steps[i].inputs[0]], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged, attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="joins_the_first_user" question="fuse" check="who_may_join_does_and_nobody_else" says="a value that two others use"
def fuse(program):
    users, steps, joins = users_of(program), program.steps, set()
    for i, step in enumerate(steps):
        found = [steps[u] for u in users[i] if u is not None]
        fits = all(user.op in ELEMENTWISE and user.shape == step.shape for user in found)
        if step.op in ELEMENTWISE and found and fits and None not in users[i]:
            joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="rows_join_too" question="fuse" check="who_may_join_does_and_nobody_else" says="a row that is broadcast"
def fuse(program):
    users, steps, joins = users_of(program), program.steps, set()
    for i, step in enumerate(steps):
        one = step.op in ELEMENTWISE and len(users[i]) == 1 and users[i][0] is not None
        if one and steps[users[i][0]].op in ELEMENTWISE:
            joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="outputs_join_too" question="fuse" check="who_may_join_does_and_nobody_else" says="a value that is an output as well"
def fuse(program):
    users, steps, joins = users_of(program), program.steps, set()
    for i, step in enumerate(steps):
        found = [u for u in users[i] if u is not None]
        if step.op in ELEMENTWISE and len(found) == 1:
            user = steps[found[0]]
            if user.op in ELEMENTWISE and user.shape == step.shape:
                joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="pairs_only" question="fuse" check="who_may_join_does_and_nobody_else" says="a chain of three elementwise steps"
def fuse(program):
    users, steps, joins = users_of(program), program.steps, set()
    for i, step in enumerate(steps):
        if step.op in ELEMENTWISE and len(users[i]) == 1 and users[i][0] is not None:
            user = steps[users[i][0]]
            fits = user.op in ELEMENTWISE and user.shape == step.shape
            if fits and not joins.intersection(step.inputs):
                joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="frees_under_a_view" question="lifetimes" check="views_keep_alive_what_they_look_at" says="in whose memory"
def lifetimes(program):
    lives = {}
    for i, step in enumerate(program.steps):
        for j in (i, *step.inputs):
            lives[j] = (j, i)
    for i in program.outputs:
        lives[i] = (i, len(program.steps))
    own = {i for i, s in enumerate(program.steps) if s.op not in ("input", "const", *VIEWS)}
    return {i: life for i, life in lives.items() if i in own}


# %% wrong="views_have_memory" question="lifetimes" check="views_keep_alive_what_they_look_at" says="it is a view"
def lifetimes(program):
    lives = {}
    for i, step in enumerate(program.steps):
        for j in (i, *step.inputs):
            lives[j] = (j, i)
    for i in program.outputs:
        lives[i] = (i, len(program.steps))
    own = {i for i, s in enumerate(program.steps) if s.op not in ("input", "const")}
    return {i: life for i, life in lives.items() if i in own}


# %% wrong="outputs_end_with_their_readers" question="lifetimes" check="values_live_from_their_step_to_their_last_reader" says="the caller wants it after the run"
def lifetimes(program):
    home, lives = [], {}
    for i, step in enumerate(program.steps):
        home.append(home[step.inputs[0]] if step.op in VIEWS else i)
        for j in (i, *step.inputs):
            lives[home[j]] = (home[j], i)
    return {i: life for i, life in lives.items() if program.steps[i].op not in ("input", "const")}


# %% wrong="noise_has_no_inputs" question="lifetimes" check="values_live_from_their_step_to_their_last_reader" says="says nothing of"
def lifetimes(program):
    steps = program.steps
    last = {i: i for i in range(len(steps))} | {i: len(steps) for i in program.outputs}
    for i in reversed(range(len(steps))):
        for j in steps[i].inputs:
            last[j] = max(last[j], last[i] if steps[i].op in VIEWS else i)
    return {i: (i, last[i]) for i, s in enumerate(steps) if s.inputs and s.op not in VIEWS}


# %% wrong="plans_the_inputs_too" question="lifetimes" check="values_live_from_their_step_to_their_last_reader" says="Who brings that along"
def lifetimes(program):
    home, lives = [], {}
    for i, step in enumerate(program.steps):
        home.append(home[step.inputs[0]] if step.op in VIEWS else i)
        for j in (i, *step.inputs):
            lives[home[j]] = (home[j], i)
    for i in program.outputs:
        lives[home[i]] = (home[i], len(program.steps))
    return lives


# %% wrong="ends_do_not_count" question="place" check="nobody_lies_on_a_living_value" says="When do two lives touch"
def place(lives, sizes):
    offsets = {}
    for i in sorted(lives, key=lambda i: (-sizes[i], lives[i][0])):
        beside = [j for j in offsets if lives[j][0] < lives[i][1] and lives[i][0] < lives[j][1]]
        offset = 0
        for j in sorted(beside, key=lambda j: offsets[j]):
            if offset + sizes[i] <= offsets[j]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
    return offsets


# %% wrong="one_after_another" question="place" check="the_arena_is_as_small_as_greedy_makes_it" says="which gaps are tried"
def place(lives, sizes):
    offsets, top = {}, 0
    for i in lives:
        offsets[i], top = top, top + sizes[i]
    return offsets


# %% wrong="always_on_top" question="place" check="the_arena_is_as_small_as_greedy_makes_it" says="which gaps are tried"
def place(lives, sizes):
    offsets = {}
    for i in sorted(lives, key=lambda i: lives[i][0]):
        beside = [j for j in offsets if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]]
        offsets[i] = max((offsets[j] + sizes[j] for j in beside), default=0)
    return offsets


# %% wrong="forgets_who_reaches_further" question="place" check="nobody_lies_on_a_living_value" says="two values overlap"
def place(lives, sizes):
    offsets = {}
    for i in sorted(lives, key=lambda i: (-sizes[i], lives[i][0])):
        beside = [j for j in offsets if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]]
        offset = 0
        for j in sorted(beside, key=lambda j: offsets[j]):
            if offset + sizes[i] <= offsets[j]:
                break
            offset = offsets[j] + sizes[i]
        offsets[i] = offset
    return offsets


# %% wrong="takes_the_lives_out" question="place" check="lives_and_sizes_are_only_read" says="Which line takes something out"
def place(lives, sizes):
    offsets, placed = {}, {}
    while lives:
        i = min(lives, key=lambda i: (-sizes[i], lives[i][0]))
        first, last = placed[i] = lives.pop(i)
        beside = [j for j in offsets if placed[j][0] <= last and first <= placed[j][1]]
        offset = 0
        for j in sorted(beside, key=lambda j: offsets[j]):
            if offset + sizes[i] <= offsets[j]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
    return offsets


# %% wrong="first_fit" question="Caching" check="the_smallest_that_fits_is_taken" says="Which of the blocks that fit"
class Caching:
    def __init__(self, reserve):
        self.reserve, self.free_blocks, self.used = reserve, [], {}

    def malloc(self, n):
        fitting = [(address, size) for address, size in self.free_blocks if size >= n]
        if fitting:
            address, size = max(fitting, key=lambda block: block[1])
            self.free_blocks.remove((address, size))
        else:
            address, size = self.reserve(n), n
        if size > n:
            self.free_blocks.append((address + n, size - n))
        self.used[address] = n
        return address

    def free(self, address):
        size = self.used.pop(address)
        for other in list(self.free_blocks):
            start, length = other
            if start + length == address or address + size == start:
                self.free_blocks.remove(other)
                address, size = min(address, start), size + length
        self.free_blocks.append((address, size))


# %% wrong="never_merges" question="Caching" check="free_neighbours_become_one" says="on which sides"
class Caching:
    def __init__(self, reserve):
        self.reserve, self.free_blocks, self.used = reserve, [], {}

    def malloc(self, n):
        fitting = [(size, address) for address, size in self.free_blocks if size >= n]
        if fitting:
            size, address = min(fitting)
            self.free_blocks.remove((address, size))
        else:
            size, address = n, self.reserve(n)
        if size > n:
            self.free_blocks.append((address + n, size - n))
        self.used[address] = n
        return address

    def free(self, address):
        self.free_blocks.append((address, self.used.pop(address)))


# %% wrong="gives_the_whole_block" question="Caching" check="what_was_freed_is_used_again" says="a block that is too large"
class Caching:
    def __init__(self, reserve):
        self.reserve, self.free_blocks, self.used = reserve, [], {}

    def malloc(self, n):
        fitting = [(size, address) for address, size in self.free_blocks if size >= n]
        if fitting:
            size, address = min(fitting)
            self.free_blocks.remove((address, size))
        else:
            size, address = n, self.reserve(n)
        self.used[address] = size
        return address

    def free(self, address):
        size = self.used.pop(address)
        for other in list(self.free_blocks):
            start, length = other
            if start + length == address or address + size == start:
                self.free_blocks.remove(other)
                address, size = min(address, start), size + length
        self.free_blocks.append((address, size))


# %% wrong="hands_out_twice" question="Caching" check="every_block_belongs_to_one" says="What has to leave the list of free"
class Caching:
    def __init__(self, reserve):
        self.reserve, self.free_blocks, self.used = reserve, [], {}

    def malloc(self, n):
        fitting = [(size, address) for address, size in self.free_blocks if size >= n]
        address = min(fitting)[1] if fitting else self.reserve(n)
        self.used[address] = n
        return address

    def free(self, address):
        self.free_blocks.append((address, self.used.pop(address, 16)))


# %% wrong="greedy" question="search" check="small_hills_are_crossed_and_large_ones_not" says="When may a worse program wait"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    seen = {fingerprint(start)}
    while budget > 0:
        budget -= 1
        found = [rewrite(best[1]) for rewrite in rewrites]
        fresh = {fingerprint(f): f for f in found if fingerprint(f) not in seen}
        seen.update(fresh)
        priced = [(cost(f), f) for f in fresh.values()]
        better = min(priced, key=lambda item: item[0], default=best)
        if better[0] >= best[0]:
            return best
        best = better
    return best


# %% wrong="held_against_itself" question="search" check="small_hills_are_crossed_and_large_ones_not" says="held against which best"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for rewrite in rewrites:
            new = rewrite(program)
            if fingerprint(new) in seen:
                continue
            seen.add(fingerprint(new))
            price = cost(new)
            if price < best[0]:
                best = (price, new)
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, len(seen), new))
    return best


# %% wrong="alpha_of_the_start" question="search" check="small_hills_are_crossed_and_large_ones_not" says="that of the start, or of the best"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen, count, limit = [(best[0], 0, start)], {fingerprint(start)}, 0, alpha * best[0]
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for rewrite in rewrites:
            found = rewrite(program)
            if fingerprint(found) in seen:
                continue
            seen.add(fingerprint(found))
            price, count = cost(found), count + 1
            if price < limit:
                heapq.heappush(queue, (price, count, found))
            if price < best[0]:
                best = (price, found)
    return best


# %% wrong="has_no_memory" question="search" check="each_program_is_measured_once" says="round in circles"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, count = [(best[0], 0, start)], 0
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for rewrite in rewrites:
            found = rewrite(program)
            price, count = cost(found), count + 1
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, count, found))
            if price < best[0]:
                best = (price, found)
        budget += len(queue) > 3
    return best


# %% wrong="remembers_the_queued_alone" question="search" check="each_program_is_measured_once" says="queued or not"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for rewrite in rewrites:
            new = rewrite(program)
            if fingerprint(new) in seen:
                continue
            price, limit = cost(new), alpha * best[0]
            best = min(best, (price, new), key=lambda pair: pair[0])
            if price < limit:
                seen.add(fingerprint(new))
                heapq.heappush(queue, (price, len(seen), new))
    return best


# %% wrong="ignores_the_fingerprint" question="search" check="each_program_is_measured_once" says="Its fingerprint says"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {str(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for rewrite in rewrites:
            new = rewrite(program)
            if str(new) in seen:
                continue
            seen.add(str(new))
            price, limit = cost(new), alpha * best[0]
            best = min(best, (price, new), key=lambda pair: pair[0])
            if price < limit:
                heapq.heappush(queue, (price, len(seen), new))
    return best


# %% wrong="numbers_that_repeat" question="search" check="the_cheapest_goes_first_and_the_budget_holds" says="can it be the same twice"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for number, rewrite in enumerate(rewrites):
            found = rewrite(program)
            if fingerprint(found) in seen:
                continue
            seen.add(fingerprint(found))
            price = cost(found)
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, number // 8, found))
            if price < best[0]:
                best = (price, found)
    return best


# %% wrong="first_in_first_out" question="search" check="the_cheapest_goes_first_and_the_budget_holds" says="is taken next"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [start], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        program = queue.pop(0)
        for rewrite in rewrites:
            found = rewrite(program)
            if fingerprint(found) in seen:
                continue
            seen.add(fingerprint(found))
            price = cost(found)
            if price < alpha * best[0]:
                queue.append(found)
            if price < best[0]:
                best = (price, found)
    return best


# %% wrong="follows_every_path" question="dead_code" check="the_work_grows_with_the_steps" says="along each path"
def dead_code(program):
    needed, todo = set(), list(program.outputs)
    while todo:
        i = todo.pop()
        needed.add(i)
        todo.extend(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        step = program.steps[i]
        place[i] = new.keep(step, [place[j] for j in step.inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="one_dead_step_at_a_time" question="dead_code" check="the_work_grows_with_the_steps" says="once for each dead one"
def dead_code(program):
    keep = list(range(len(program.steps)))
    changed = True
    while changed:
        changed = False
        read = {j for i in keep for j in program.steps[i].inputs} | set(program.outputs)
        for i in reversed(keep):
            if i not in read:
                keep.remove(i)
                changed = True
                break
    new, place = Program(), {}
    for i in keep:
        step = program.steps[i]
        place[i] = new.keep(step, [place[j] for j in step.inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="keeps_noise" question="dead_code" check="only_what_is_needed_is_left" says="which no step reads any more"
def dead_code(program):
    needed = set(program.outputs)
    needed |= {i for i, s in enumerate(program.steps) if s.op == "noise"}
    for i in reversed(range(len(program.steps))):
        if i in needed:
            needed.update(program.steps[i].inputs)
    new, place = Program(), {}
    for i in sorted(needed):
        step = program.steps[i]
        place[i] = new.keep(step, [place[j] for j in step.inputs])
    new.outputs = [place[i] for i in program.outputs]
    return new


# %% wrong="drops_products_with_zero" question="fold" check="a_product_with_an_input_stays" says="infinity times 0"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        if sources and all(s.op == "const" for s in sources):
            return new.emit("const", attr=compute(step, [s.attr for s in sources]))
        if step.op == "mul" and any(s.op == "const" and not np.any(s.attr) for s in sources):
            return new.emit("const", attr=np.zeros(step.shape, np.float32))
        return None

    return rebuild(program, rule)


# %% wrong="drops_products_with_ones" question="fold" check="a_product_with_an_input_stays" says="which shape has the result"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        if sources and all(s.op == "const" for s in sources):
            return new.emit("const", attr=compute(step, [s.attr for s in sources]))
        if step.op == "mul":
            for k in (0, 1):
                if sources[k].op == "const" and np.all(sources[k].attr == 1):
                    return place[step.inputs[1 - k]]
        return None

    return rebuild(program, rule)


# %% wrong="looks_at_two_inputs" question="fold" check="folding_keeps_the_values" says="all three inputs"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs[:2]]
        if sources and all(s.op == "const" for s in sources):
            return new.emit(
                "const", attr=compute(step, [new.steps[place[j]].attr for j in step.inputs])
            )
        return None

    return rebuild(program, rule)


# %% wrong="folds_in_place" question="fold" check="folding_keeps_the_values" says="Which arrays went into the constant"
def fold(program):
    def rule(new, i, place):
        step = program.steps[i]
        sources = [new.steps[place[j]] for j in step.inputs]
        if sources and all(s.op == "const" for s in sources):
            a = sources[0].attr
            r = compute(step, [s.attr for s in sources])
            if r.shape == a.shape:
                a[...] = r
                r = a
            return new.emit("const", attr=r)
        return None

    return rebuild(program, rule)


# %% wrong="sorts_factors" question="cse" check="sharing_keeps_the_values" says="inputs in order"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise":
            return None
        inputs = (
            sorted(place[j] for j in step.inputs)
            if step.op in (*COMMUTATIVE, "matmul")
            else [place[j] for j in step.inputs]
        )
        key = (step.op, tuple(inputs), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="leaves_users_of_noise_alone" question="cse" check="no_value_is_computed_twice" says="mul of"
def cse(program):
    seen = {}

    def rule(new, i, place):
        step = program.steps[i]
        if step.op == "noise" or any(program.steps[j].op == "noise" for j in step.inputs):
            return None
        inputs = [place[j] for j in step.inputs]
        order = sorted(inputs) if step.op in COMMUTATIVE else inputs
        key = (step.op, tuple(order), attr_key(step.attr))
        if key not in seen:
            seen[key] = new.keep(step, inputs)
        return seen[key]

    return rebuild(program, rule)


# %% wrong="counts_in_32_bits" question="chain_order" check="the_least_work_is_found" says="multiplications"
def chain_order(sizes):
    s = np.array(sizes, np.int32)
    n = len(s) - 1
    best = {(i, i): (np.int32(0), i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best[i, j] = min(
                (
                    (
                        best[i, k][0] + best[k + 1, j][0] + s[i] * s[k + 1] * s[j + 1],
                        (best[i, k][1], best[k + 1, j][1]),
                    )
                    for k in range(i, j)
                ),
                key=lambda t: t[0],
            )
    return best[0, n - 1]


# %% wrong="begins_with_a_billion" question="chain_order" check="the_least_work_is_found" says="multiplications"
def chain_order(sizes):
    n = len(sizes) - 1
    best = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best[i, j] = (10**9, None)
            for k in range(i, j):
                c = best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if c < best[i, j][0]:
                    best[i, j] = (c, (best[i, k][1], best[k + 1, j][1]))
    return best[0, n - 1]


# %% wrong="takes_sizes_out" question="chain_order" check="each_piece_is_solved_once" says="changed the list"
def chain_order(sizes):
    first = sizes.pop(0)
    s = [first, *sizes]
    n = len(s) - 1
    best = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best[i, j] = min(
                (
                    (
                        best[i, k][0] + best[k + 1, j][0] + s[i] * s[k + 1] * s[j + 1],
                        (best[i, k][1], best[k + 1, j][1]),
                    )
                    for k in range(i, j)
                ),
                key=lambda t: t[0],
            )
    return best[0, n - 1]


# %% wrong="remembers_other_chains" question="chain_order" check="the_least_work_is_found" says="more than the best order"
_memo = {}


def chain_order(sizes):
    def piece(i, j):
        if i == j:
            return 0, i
        if (i, j) not in _memo:
            _memo[i, j] = min(
                (
                    (
                        piece(i, k)[0]
                        + piece(k + 1, j)[0]
                        + sizes[i] * sizes[k + 1] * sizes[j + 1],
                        (piece(i, k)[1], piece(k + 1, j)[1]),
                    )
                    for k in range(i, j)
                ),
                key=lambda t: t[0],
            )
        return _memo[i, j]

    return piece(0, len(sizes) - 2)


# %% wrong="looks_through_one_view" question="lifetimes" check="views_keep_alive_what_they_look_at" says="in whose memory"
def lifetimes(program):
    n = len(program.steps)

    def home(i):
        return program.steps[i].inputs[0] if program.steps[i].op in VIEWS else i

    last = {}
    for i in program.outputs:
        last[home(i)] = n
    for i in reversed(range(n)):
        for j in (i, *program.steps[i].inputs):
            last.setdefault(home(j), i)
    return {
        i: (i, last[i])
        for i, s in enumerate(program.steps)
        if s.op not in ("input", "const", *VIEWS)
    }


# %% wrong="outputs_live_to_the_last_step" question="lifetimes" check="values_live_from_their_step_to_their_last_reader" says="the caller wants it"
def lifetimes(program):
    n = len(program.steps)

    def home(i):
        while program.steps[i].op in VIEWS:
            i = program.steps[i].inputs[0]
        return i

    last = {}
    for i in program.outputs:
        last[home(i)] = n - 1
    for i in reversed(range(n)):
        for j in (i, *program.steps[i].inputs):
            last.setdefault(home(j), i)
    return {
        i: (i, last[i])
        for i, s in enumerate(program.steps)
        if s.op not in ("input", "const", *VIEWS)
    }


# %% wrong="takes_the_tightest_gap" question="place" check="each_place_is_that_of_greedy_by_size" says="the lowest gap"
def place(lives, sizes):
    offsets = {}
    for i in sorted(lives, key=lambda i: (-sizes[i], lives[i][0])):
        beside = sorted(
            (offsets[j], offsets[j] + sizes[j])
            for j in offsets
            if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]
        )
        gaps, at = [], 0
        for a, b in beside:
            if at + sizes[i] <= a:
                gaps.append((a - at, at))
            at = max(at, b)
        offsets[i] = min(gaps)[1] if gaps else at
    return offsets


# %% wrong="leaves_exact_gaps" question="place" check="each_place_is_that_of_greedy_by_size" says="the lowest gap"
def place(lives, sizes):
    offsets = {}
    for i in sorted(lives, key=lambda i: (-sizes[i], lives[i][0])):
        beside = [j for j in offsets if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]]
        offset = 0
        for j in sorted(beside, key=offsets.get):
            if offset + sizes[i] < offsets[j]:
                break
            offset = max(offset, offsets[j] + sizes[j])
        offsets[i] = offset
    return offsets


# %% wrong="stops_at_what_was_seen" question="search" check="the_cheapest_is_found" says="the rewrites behind that one"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        budget -= 1
        _, _, program = heapq.heappop(queue)
        for r in rewrites:
            f = r(program)
            if fingerprint(f) in seen:
                break
            seen.add(fingerprint(f))
            price = cost(f)
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, len(seen), f))
            if price < best[0]:
                best = (price, f)
    return best


# %% wrong="spends_the_budget_on_rewrites" question="search" check="the_cheapest_goes_first_and_the_budget_holds" says="is taken next"
def search(start, rewrites, cost, fingerprint=str, alpha=1.05, budget=30):
    best = (cost(start), start)
    queue, seen = [(best[0], 0, start)], {fingerprint(start)}
    while queue and budget > 0:
        _, _, program = heapq.heappop(queue)
        for r in rewrites:
            budget -= 1
            f = r(program)
            if fingerprint(f) in seen:
                continue
            seen.add(fingerprint(f))
            price = cost(f)
            if price < alpha * best[0]:
                heapq.heappush(queue, (price, len(seen), f))
            if price < best[0]:
                best = (price, f)
    return best


# %% wrong="leaves_out_a_weight_that_is_there" question="merge_matmuls" check="merging_keeps_the_values" says="Which columns are whose"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or step.inputs[1] < group[0]:
                group.append(i) if not any(
                    steps[k].inputs[1] == step.inputs[1] for k in group
                ) else None
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="joins_each_weight_once" question="merge_matmuls" check="merging_keeps_the_values" says="Which columns are whose"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or step.inputs[1] < group[0]:
                group.append(i)
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *dict.fromkeys(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="sorts_the_weights" question="merge_matmuls" check="merging_keeps_the_values" says="Which columns are whose"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or step.inputs[1] < group[0]:
                group.append(i)
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *sorted(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="joins_have_no_memory" question="lifetimes" check="values_live_from_their_step_to_their_last_reader" says="needs memory"
def lifetimes(program):
    home, lives = [], {}
    for i, step in enumerate(program.steps):
        home.append(home[step.inputs[0]] if step.op in VIEWS else i)
        if step.op not in ("input", "const", *VIEWS):
            lives[i] = (i, i)
        for j in step.inputs:
            if home[j] in lives:
                lives[home[j]] = (home[j], i)
        if step.op == "concat":
            lives.pop(i)
    for i in program.outputs:
        if home[i] in lives:
            lives[home[i]] = (home[i], len(program.steps))
    return lives


# %% wrong="knows_seven_operators" question="fuse" check="who_may_join_does_and_nobody_else" says="of all operators"
def fuse(program):
    users, steps = users_of(program), program.steps
    joins = set()
    ops = {"add", "sub", "mul", "neg", "square", "tanh", "relu"}
    for i, step in enumerate(steps):
        if step.op in ops and len(users[i]) == 1 and users[i][0] is not None:
            user = steps[users[i][0]]
            if user.op in ops and user.shape == step.shape:
                joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="fuses_five_at_most" question="fuse" check="who_may_join_does_and_nobody_else" says="a chain of sixteen steps"
def fuse(program):
    users, steps = users_of(program), program.steps
    joins = set()
    for i, step in enumerate(steps):
        if step.op in ELEMENTWISE and len(users[i]) == 1 and users[i][0] is not None:
            user = steps[users[i][0]]
            if user.op in ELEMENTWISE and user.shape == step.shape:
                joins.add(i)

    def rule(new, i, place):
        if i in joins or not joins.intersection(steps[i].inputs):
            return None
        parts, leaves = tree_of(program, i, joins)
        if len(parts) > 5:
            return None
        return new.emit("fused", *(place[j] for j in leaves), attr=parts)

    return dead_code(rebuild(program, rule))


# %% wrong="merges_neighbours_alone" question="merge_matmuls" check="one_product_a_group_is_left" says="far apart"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or (step.inputs[1] < group[0] and i - group[-1] < 4):
                group.append(i)
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))


# %% wrong="leaves_a_square_alone" question="merge_matmuls" check="one_product_a_group_is_left" says="with itself"
def merge_matmuls(program):
    groups, group_of, merged = {}, {}, {}
    steps = program.steps
    for i, step in enumerate(steps):
        if step.op == "matmul":
            group = groups.setdefault(step.inputs[0], [])
            if not group or (step.inputs[1] < group[0] and step.inputs[1] != step.inputs[0]):
                group.append(i)
                group_of[i] = group

    def rule(new, i, place):
        if len(group_of.get(i, ())) < 2:
            return None
        group, (left, _) = group_of[i], steps[i].inputs
        if i == group[0]:
            weights = new.emit("concat", *(place[steps[j].inputs[1]] for j in group))
            merged[i] = new.emit("matmul", place[left], weights)
        start = sum(steps[j].shape[1] for j in group if j < i)
        return new.emit("slice", merged[group[0]], attr=(start, start + steps[i].shape[1]))

    return dead_code(rebuild(program, rule))
