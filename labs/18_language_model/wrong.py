# Wrong answers that the checks of lab 18 must catch, each with a message of its own.


# %% wrong="merges_in_place" question="pairs" check="pairs_are_replaced_from_left_to_right" says="merge changed the tokens"
def merge(tokens, pair, new):
    i = 0
    while i + 1 < len(tokens):
        if (tokens[i], tokens[i + 1]) == tuple(pair):
            tokens[i : i + 2] = [new]
        i += 1
    return tokens


def learn_pairs(tokens, n, first):
    tokens, pairs = list(tokens), []
    for new in range(first, first + n):
        counts = Counter(pairwise(tokens))
        if not counts:
            break
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], new)
    return pairs


# %% wrong="replaces_overlapping" question="pairs" check="pairs_are_replaced_from_left_to_right" says="Where do you go on after one"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
    return pairs


# %% wrong="compares_a_list_with_a_tuple" question="pairs" check="pairs_are_replaced_from_left_to_right" says="What do you compare with the pair"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tokens[at : at + 2] == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
    return pairs


# %% wrong="counts_the_first_tokens_each_time" question="pairs" check="each_round_takes_the_most_frequent_pair" says="the first, or what was merged"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(p for p in pairwise(tokens) if p not in pairs) or Counter([(0, 0)])
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
    return pairs


# %% wrong="takes_the_first_of_equals" question="pairs" check="each_round_takes_the_most_frequent_pair" says="Which of them is taken"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], [-token for token in pair])))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
    return pairs


# %% wrong="goes_on_with_nothing" question="pairs" check="it_stops_where_nothing_is_left" says="What does a round do"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
    return pairs


# %% wrong="at_least_one_round" question="pairs" check="it_stops_where_nothing_is_left" says="of 0 rounds"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], first + len(pairs) - 1)
        if len(pairs) == n:
            break
    return pairs


# %% wrong="masks_its_input" question="CausalSoftmax" check="the_scores_are_left_alone" says="changed the scores"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).astype(scores.dtype)

    def gradient(self, out_grad, node):
        return node * (out_grad - (out_grad * node).sum(-1, keepdim=True))


# %% wrong="sees_the_future" question="CausalSoftmax" check="each_row_is_a_softmax_of_what_it_sees" says="one that comes after it"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.triu(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)


# %% wrong="by_columns" question="CausalSoftmax" check="each_row_is_a_softmax_of_what_it_sees" says="expected the rows"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-2, keepdims=True)

    def gradient(self, out_grad, node):
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)


# %% wrong="not_itself" question="CausalSoftmax" check="each_row_is_a_softmax_of_what_it_sees" says="sees itself too"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool), -1)
        mask[0, 0] = True
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)


# %% wrong="forgets_that_they_share" question="CausalSoftmax" check="the_gradient_is_that_of_the_formula" says="where one grows"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        return out_grad * node


# %% wrong="overflows" question="CausalSoftmax" check="large_scores_do_not_overflow" says="can be taken off a row"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores)
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)


# %% wrong="not_scaled" question="Attention" check="attention_is_that_of_the_formula" says="By what are the scores divided"
class Attention(Module):
    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        rows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = causal_softmax(q @ k.transpose(-1, -2))
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))


# %% wrong="one_head" question="Attention" check="attention_is_that_of_the_formula" says="That is one head"
class Attention(Module):
    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        rows, tokens, width = x.shape
        heads = 1
        qkv = self.qkv(x).reshape(rows, tokens, 3, heads, width // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = causal_softmax(q @ k.transpose(-1, -2) * (width // heads) ** -0.5)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))


# %% wrong="heads_interleaved" question="Attention" check="attention_is_that_of_the_formula" says="not every H-th"
class Attention(Module):
    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        rows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(rows, tokens, 3, width // self.heads, self.heads)
        q, k, v = qkv.permute(2, 0, 4, 1, 3)
        weights = causal_softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))


# %% wrong="through_an_array" question="Attention" check="gradients_reach_x_and_every_weight" says="made into an array"
class Attention(Module):
    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        rows, tokens, width = x.shape
        qkv = mt.tensor(self.qkv(x).detach().numpy()).reshape(
            rows, tokens, 3, self.heads, width // self.heads
        )
        q, k, v = (
            qkv.permute(2, 0, 3, 1, 4)
            + 0.0 * x.sum()
            + 0.0 * sum(p.sum() for p in self.qkv.parameters())
        )
        weights = causal_softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))


# %% wrong="no_biases" question="block_costs" check="parameters_are_counted" says="Biases and norms"
def block_costs(tokens, width):
    parameters = 12 * width**2
    flops = 2 * tokens * 12 * width**2 + 4 * tokens**2 * width
    return parameters, flops


# %% wrong="no_norms" question="block_costs" check="parameters_are_counted" says="Two norms"
def block_costs(tokens, width):
    parameters = 12 * width**2 + 9 * width
    flops = 2 * tokens * 12 * width**2 + 4 * tokens**2 * width
    return parameters, flops


# %% wrong="linear_layers_alone" question="block_costs" check="flops_are_counted" says="two products of its own"
def block_costs(tokens, width):
    parameters = 12 * width**2 + 9 * width + 4 * width
    flops = 2 * tokens * 12 * width**2
    return parameters, flops


# %% wrong="multiply_adds" question="block_costs" check="flops_are_counted" says="are two flops"
def block_costs(tokens, width):
    parameters = 12 * width**2 + 9 * width + 4 * width
    flops = tokens * 12 * width**2 + 2 * tokens**2 * width
    return parameters, flops


# %% wrong="a_product_of_attention_forgotten" question="block_costs" check="flops_are_counted" says="own products are two"
def block_costs(tokens, width):
    parameters = 12 * width**2 + 9 * width + 4 * width
    flops = 2 * tokens * 12 * width**2 + 2 * tokens**2 * width
    return parameters, flops


# %% wrong="adds_to_old_gradients" question="train_step" check="the_optimizer_finds_the_gradients_of_the_loss" says="There was a gradient from before"
def train_step(model, optimizer, x, y, average=None):
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        grads = [mt.tensor(g) for g in average([g.numpy() for g in grads])]
    for parameter, grad in zip(parameters, grads):
        parameter.grad = parameter.grad + grad if parameter.grad is not None else grad
    optimizer.step()
    return loss.item()


# %% wrong="steps_first" question="train_step" check="the_optimizer_finds_the_gradients_of_the_loss" says="The step came before"
def train_step(model, optimizer, x, y, average=None):
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        grads = [mt.tensor(g) for g in average([g.numpy() for g in grads])]
    optimizer.step()
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad
    return loss.item()


# %% wrong="returns_a_tensor" question="train_step" check="the_loss_before_the_step_comes_back" says="expected a float"
def train_step(model, optimizer, x, y, average=None):
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        grads = [mt.tensor(g) for g in average([g.numpy() for g in grads])]
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad
    optimizer.step()
    return loss


# %% wrong="forgets_the_average" question="train_step" check="gradients_are_averaged_where_that_is_asked_for" says="those before, or those after"
def train_step(model, optimizer, x, y, average=None):
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        average([g.numpy() for g in grads])
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad
    optimizer.step()
    return loss.item()


# %% wrong="averages_tensors" question="train_step" check="gradients_are_averaged_where_that_is_asked_for" says="expected arrays"
def train_step(model, optimizer, x, y, average=None):
    parameters = list(model.parameters())
    loss = loss_of(model(mt.tensor(x)), mt.tensor(y))
    with mt.no_grad():
        grads = gradients(loss, parameters)
    if average is not None:
        grads = average(grads)
    for parameter, grad in zip(parameters, grads):
        parameter.grad = grad
    optimizer.step()
    return loss.item()


# %% wrong="returns_the_loss_after_the_step" question="train_step" check="the_loss_before_the_step_comes_back" says="and when?"
def train_step(model, optimizer, x, y, average=None):
    grads = gradients_of(loss_of(model(mt.tensor(x)), mt.tensor(y)), model)
    if average is not None:
        grads = [mt.tensor(g) for g in average([g.numpy() for g in grads])]
    for parameter, grad in zip(model.parameters(), grads):
        parameter.grad = grad
    optimizer.step()
    return loss_of(model(mt.tensor(x)), mt.tensor(y)).item()


# %% wrong="holds_it_and_says_no" question="Recomputed" check="the_result_is_the_blocks" says="with recording on"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block
        mt.is_grad_enabled = lambda: False

    def compute(self, xp, x, *parameters):
        with mt.enable_grad():
            self.held = mt.tensor(x).requires_grad_()
            self.out = self.block(self.held)
        return self.out.detach().numpy()

    def gradient(self, out_grad, node):
        with mt.enable_grad():
            self.block(self.held)
        return tuple(mt.grad(self.out, [self.held, *node.inputs[1:]], grad_outputs=out_grad))


# %% wrong="records_all" question="Recomputed" check="the_result_is_the_blocks" says="Under what does nothing get recorded"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        with mt.enable_grad():
            return self.block(mt.tensor(x)).detach().numpy()

    def gradient(self, out_grad, node):
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        return tuple(mt.grad(out, [x, *node.inputs[1:]], grad_outputs=out_grad))


# %% wrong="forgets_out_grad" question="Recomputed" check="its_gradients_are_the_blocks" says="where does it enter"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()

    def gradient(self, out_grad, node):
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        return tuple(mt.grad(out, [x, *node.inputs[1:]], grad_outputs=mt.ones_like(out_grad)))


# %% wrong="x_alone" question="Recomputed" check="its_gradients_are_the_blocks" says="one gradient for each input"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()

    def gradient(self, out_grad, node):
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        return tuple(mt.grad(out, [x], grad_outputs=out_grad)) + tuple(
            0.0 * p for p in node.inputs[1:]
        )


# %% wrong="runs_it_twice" question="Recomputed" check="the_block_runs_once_each_way" says="times in forward"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()

    def gradient(self, out_grad, node):
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            self.block(x)
            out = self.block(x)
        return tuple(mt.grad(out, [x, *node.inputs[1:]], grad_outputs=out_grad))


# %% wrong="adds_to_the_parameters_grad" question="Recomputed" check="its_gradients_are_the_blocks" says="adds them nowhere"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()

    def gradient(self, out_grad, node):
        x = node.inputs[0].detach().requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        out.backward(out_grad)
        return (x.grad, *(p.grad for p in node.inputs[1:]))


# %% wrong="sums" question="average" check="every_gradient_is_the_average_over_the_ranks" says="That is the sum"
def average(comm, grads, buckets, ring):
    averages = [None] * len(grads)
    for bucket in buckets:
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size]
            averages[i] = part.reshape(grads[i].shape)
            at += grads[i].size
    return averages


# %% wrong="bucket_after_bucket" question="average" check="every_gradient_is_the_average_over_the_ranks" says="In which order are the averages"
def average(comm, grads, buckets, ring):
    averages = []
    for bucket in buckets:
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size] / comm.size
            averages.append(part.reshape(grads[i].shape))
            at += grads[i].size
    return averages


# %% wrong="always_the_first_part" question="average" check="every_gradient_is_the_average_over_the_ranks" says="lies where in the flat array"
def average(comm, grads, buckets, ring):
    averages = [None] * len(grads)
    for bucket in buckets:
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size] / comm.size
            averages[i] = part.reshape(grads[i].shape)
    return averages


# %% wrong="one_by_one" question="average" check="each_bucket_goes_round_once" says="How often is it called"
def average(comm, grads, buckets, ring):
    averages = [None] * len(grads)
    for bucket in buckets:
        for i in bucket:
            part = ring(comm, grads[i].reshape(-1)) / comm.size
            averages[i] = part.reshape(grads[i].shape)
    return averages


# %% wrong="in_place" question="average" check="what_was_handed_in_stays" says="Make a list of new ones"
def average(comm, grads, buckets, ring):
    averages = [None] * len(grads)
    for bucket in buckets:
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size] / comm.size
            grads[i][...] = part.reshape(grads[i].shape)
            averages[i] = grads[i]
            at += grads[i].size
    return averages


# %% wrong="saves_what_changes" question="Run" check="a_run_goes_on_bit_for_bit" says="is the state a copy"
class Run(Training):
    def state_dict(self):
        arrays = [p.detach().numpy() for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        return {"step": self.step, "parameters": arrays, "optimizer": state}

    def load_state_dict(self, state):
        self.step = state["step"]
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter[...] = mt.tensor(array)
        course.set_state(self.optimizer, state["optimizer"])


# %% wrong="forgets_the_optimizer" question="Run" check="a_run_goes_on_bit_for_bit" says="What else does a step read"
class Run(Training):
    def state_dict(self):
        arrays = [np.array(p.detach().numpy()) for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        return {"step": self.step, "parameters": arrays, "optimizer": state}

    def load_state_dict(self, state):
        self.step = state["step"]
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter[...] = mt.tensor(array)


# %% wrong="forgets_the_step" question="Run" check="a_run_goes_on_bit_for_bit" says="the place in the data"
class Run(Training):
    def state_dict(self):
        arrays = [np.array(p.detach().numpy()) for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        return {"step": self.step, "parameters": arrays, "optimizer": state}

    def load_state_dict(self, state):
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter[...] = mt.tensor(array)
        course.set_state(self.optimizer, state["optimizer"])


# %% wrong="shares_its_memory" question="Run" check="a_state_can_be_used_twice" says="share its memory"
class Run(Training):
    def state_dict(self):
        arrays = [np.array(p.detach().numpy()) for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        return {"step": self.step, "parameters": arrays, "optimizer": state}

    def load_state_dict(self, state):
        self.step = state["step"]
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter.array = array
        course.set_state(self.optimizer, state["optimizer"])


# %% wrong="takes_the_last_of_equals" question="choose" check="without_temperature_the_largest_is_taken" says="the first of the largest"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(len(logits) - 1 - np.argmax(logits[::-1]))
    kept = np.sort(np.argsort(-logits, kind="stable")[:top_k])
    likely = np.exp((logits[kept] - logits[kept].max()) / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])


# %% wrong="multiplies_by_the_temperature" question="choose" check="a_token_is_drawn_where_u_falls" says="or multiplied"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(np.argmax(logits))
    kept = np.sort(np.argsort(-logits, kind="stable")[:top_k])
    likely = np.exp((logits[kept] - logits[kept].max()) * temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])


# %% wrong="draws_among_all" question="choose" check="a_token_is_drawn_where_u_falls" says="is not among the"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(np.argmax(logits))
    kept = np.sort(np.argsort(-logits, kind="stable"))
    likely = np.exp((logits[kept] - logits[kept].max()) / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])


# %% wrong="in_the_order_of_likelihood" question="choose" check="a_token_is_drawn_where_u_falls" says="in the order of their numbers"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(np.argmax(logits))
    kept = np.argsort(-logits, kind="stable")[:top_k]
    likely = np.exp((logits[kept] - logits[kept].max()) / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])


# %% wrong="overflows_too" question="choose" check="of_equals_the_first_are_kept" says="overflows"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(np.argmax(logits))
    kept = np.sort(np.argsort(-logits, kind="stable")[:top_k])
    likely = np.exp(logits[kept] / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(kept[np.searchsorted(ends[:-1], u, side="right")])


# %% wrong="writes_into_the_logits" question="choose" check="the_logits_stay_as_they_are" says="writes into them"
def choose(logits, temperature, top_k, u):
    if temperature == 0:
        return int(np.argmax(logits))
    if top_k is not None:
        logits[np.argsort(-logits, kind="stable")[top_k:]] = -np.inf
    likely = np.exp((logits - logits.max()) / temperature)
    ends = np.cumsum(likely / likely.sum())
    return int(min(np.searchsorted(ends, u, side="right"), np.flatnonzero(likely)[-1]))


# %% wrong="the_query_meets_its_own_key_alone" question="attention_step" check="token_by_token_it_is_attention" says="are what add returns"
def attention_step(attention, x, caches):
    rows, width = x.shape
    qkv = attention.qkv(x).numpy().reshape(rows, 3, attention.heads, -1)
    mixed = []
    for (query, key, value), cache in zip(qkv, caches):
        cache.add(key, value)
        keys, values = key[None], value[None]
        scores = np.einsum("hd,thd->ht", query, keys) / (width // attention.heads) ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        mixed.append(np.einsum("ht,thd->hd", weights, values).reshape(-1))
    return attention.out(mt.tensor(np.stack(mixed)))


# %% wrong="adds_twice" question="attention_step" check="token_by_token_it_is_attention" says="How often is add called"
def attention_step(attention, x, caches):
    rows, width = x.shape
    qkv = attention.qkv(x).numpy().reshape(rows, 3, attention.heads, -1)
    mixed = []
    for (query, key, value), cache in zip(qkv, caches):
        keys, values = cache.add(key, value)
        cache.used += 1
        scores = np.einsum("hd,thd->ht", query, keys) / (width // attention.heads) ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        mixed.append(np.einsum("ht,thd->hd", weights, values).reshape(-1))
    return attention.out(mt.tensor(np.stack(mixed)))


# %% wrong="softmax_over_heads" question="attention_step" check="token_by_token_it_is_attention" says="Which axis does the softmax"
def attention_step(attention, x, caches):
    rows, width = x.shape
    qkv = attention.qkv(x).numpy().reshape(rows, 3, attention.heads, -1)
    mixed = []
    for (query, key, value), cache in zip(qkv, caches):
        keys, values = cache.add(key, value)
        scores = np.einsum("hd,thd->ht", query, keys) / (width // attention.heads) ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=0, keepdims=True) * len(powers)
        mixed.append(np.einsum("ht,thd->hd", weights, values).reshape(-1))
    return attention.out(mt.tensor(np.stack(mixed)))


# %% wrong="one_cache_for_all" question="attention_step" check="rows_have_caches_of_their_own" says="Whose query meets whose cache"
def attention_step(attention, x, caches):
    rows, width = x.shape
    qkv = attention.qkv(x).numpy().reshape(rows, 3, attention.heads, -1)
    mixed = []
    for (query, key, value), cache in zip(qkv, caches[::-1]):
        keys, values = cache.add(key, value)
        scores = np.einsum("hd,thd->ht", query, keys) / (width // attention.heads) ** 0.5
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        mixed.append(np.einsum("ht,thd->hd", weights, values).reshape(-1))
    return attention.out(mt.tensor(np.stack(mixed)))


# %% wrong="static_drops_the_rest" question="iterations" check="a_static_batch_takes_as_long_as_its_longest" says="may have fewer requests"
def static_iterations(lengths, slots):
    batches = [
        lengths[at : at + slots] for at in range(0, len(lengths) - len(lengths) % slots, slots)
    ]
    return sum(max(batch) for batch in batches)


def continuous_iterations(lengths, slots):
    free = [0] * slots
    for length in lengths:
        first = free.index(min(free))
        free[first] += length
    return max(free)


# %% wrong="deals_out_in_turns" question="iterations" check="a_slot_that_is_left_is_taken_at_once" says="deals the requests out in turns"
def static_iterations(lengths, slots):
    batches = [lengths[at : at + slots] for at in range(0, len(lengths), slots)]
    return sum(max(batch) for batch in batches)


def continuous_iterations(lengths, slots):
    free = [0] * slots
    for at, length in enumerate(lengths):
        free[at % slots] += length
    return max(free)


# %% wrong="cuts_requests" question="iterations" check="a_slot_that_is_left_is_taken_at_once" says="if requests could be cut"
def static_iterations(lengths, slots):
    batches = [lengths[at : at + slots] for at in range(0, len(lengths), slots)]
    return sum(max(batch) for batch in batches)


def continuous_iterations(lengths, slots):
    return -(-sum(lengths) // slots)


# %% wrong="takes_the_requests_away" question="iterations" check="the_lengths_stay_as_they_are" says="takes from it"
def static_iterations(lengths, slots):
    total = 0
    while lengths:
        total += max(lengths.pop(0) for _ in range(min(slots, len(lengths))))
    return total


def continuous_iterations(lengths, slots):
    free = [0] * slots
    while lengths:
        free[free.index(min(free))] += lengths.pop(0)
    return max(free)


# %% wrong="runs_whole_rows_again" question="attention_step" check="what_came_before_is_taken_from_the_cache" says="all that there is of earlier tokens"
def attention_step(attention, x, caches):
    found = []
    for b, cache in enumerate(caches):
        cache.rows = [*getattr(cache, "rows", []), x.numpy()[b]]
        cache.used = len(cache.rows)
        found.append(attention(mt.tensor(np.stack(cache.rows)[None])).numpy()[0, -1])
    return mt.tensor(np.stack(found))


# %% wrong="runs_the_prompt_again" question="Generator" check="a_step_runs_the_new_token_alone" says="took the vectors of the prompt's tokens out"
class Generator:
    def __init__(self, model):
        self.model, self.rows = model, {}

    def start(self, slot, tokens):
        self.rows[slot] = []
        for token in tokens:
            logits = self.step([slot], [token])
        return logits[0]

    def step(self, slots, tokens):
        found = []
        for slot, token in zip(slots, tokens):
            self.rows[slot].append(token)
            with mt.no_grad():
                found.append(self.model(mt.tensor(np.array([self.rows[slot]]))).numpy()[0, -1])
        return np.stack(found)

    def free(self, slot):
        self.rows.pop(slot, None)


# %% wrong="logits_after_the_first_token" question="Generator" check="a_prompt_is_run_to_its_end" says="after the last token"
class Generator:
    def __init__(self, model):
        self.model, self.caches = model, {}

    def start(self, slot, tokens):
        self.caches[slot] = [Cache() for _ in self.model.blocks]
        rows = [next_logits(self.model, [token], [self.caches[slot]])[0] for token in tokens]
        return rows[0]

    def step(self, slots, tokens):
        return next_logits(self.model, tokens, [self.caches[slot] for slot in slots])

    def free(self, slot):
        self.caches.pop(slot, None)


# %% wrong="in_the_order_of_slots" question="Generator" check="steps_go_on_with_each_slots_row" says="Which cache belongs to which token"
class Generator:
    def __init__(self, model):
        self.model, self.caches = model, {}

    def start(self, slot, tokens):
        self.caches[slot] = [Cache() for _ in self.model.blocks]
        for token in tokens:
            logits = next_logits(self.model, [token], [self.caches[slot]])
        return logits[0]

    def step(self, slots, tokens):
        return next_logits(self.model, tokens, [self.caches[slot] for slot in sorted(slots)])

    def free(self, slot):
        self.caches.pop(slot, None)


# %% wrong="goes_on_with_the_old_row" question="Generator" check="a_slot_begins_anew" says="is still there"
class Generator:
    def __init__(self, model):
        self.model, self.caches = model, {}

    def start(self, slot, tokens):
        self.caches.setdefault(slot, [Cache() for _ in self.model.blocks])
        for token in tokens:
            logits = next_logits(self.model, [token], [self.caches[slot]])
        return logits[0]

    def step(self, slots, tokens):
        return next_logits(self.model, tokens, [self.caches[slot] for slot in slots])

    def free(self, slot):
        self.caches.pop(slot, None)


# %% wrong="counts_twice" question="own_seconds" check="what_lies_inside_is_taken_off" says="counts what lies inside twice"
def own_seconds(spans):
    seconds, outside = Counter(), []
    for layer, begin, end in sorted(spans, key=lambda span: (span[1], -span[2])):
        while outside and outside[-1][1] <= begin:
            outside.pop()
        seconds[layer] += end - begin
        outside.append((layer, end))
    return dict(seconds)


# %% wrong="taken_off_by_all_around" question="own_seconds" check="what_lies_inside_is_taken_off" says="by all around it"
def own_seconds(spans):
    seconds, outside = Counter(), []
    for layer, begin, end in sorted(spans, key=lambda span: (span[1], -span[2])):
        while outside and outside[-1][1] <= begin:
            outside.pop()
        seconds[layer] += end - begin
        for around, _ in outside:
            seconds[around] -= end - begin
        outside.append((layer, end))
    return dict(seconds)


# %% wrong="touching_is_inside" question="own_seconds" check="spans_that_touch_lie_apart" says="begin together is outside"
def own_seconds(spans):
    seconds, outside = Counter(), []
    for layer, begin, end in sorted(spans, key=lambda span: (span[1], -span[2])):
        while outside and outside[-1][1] < begin:
            outside.pop()
        seconds[layer] += end - begin
        if outside:
            seconds[outside[-1][0]] -= end - begin
        outside.append((layer, end))
    return dict(seconds)


# %% wrong="the_short_one_first" question="own_seconds" check="spans_that_touch_lie_apart" says="begin together is outside"
def own_seconds(spans):
    seconds, outside = Counter(), []
    for layer, begin, end in sorted(spans, key=lambda span: (span[1], span[2])):
        while outside and outside[-1][1] <= begin:
            outside.pop()
        seconds[layer] += end - begin
        if outside:
            seconds[outside[-1][0]] -= end - begin
        outside.append((layer, end))
    return dict(seconds)


# %% wrong="begins_at_96" question="pairs" check="each_round_takes_the_most_frequent_pair" says="That makes token 96"
def merge(tokens, pair, new):
    merged, at = [], 0
    while at < len(tokens):
        is_pair = tuple(tokens[at : at + 2]) == pair
        merged.append(new if is_pair else tokens[at])
        at += 2 if is_pair else 1
    return merged


def learn_pairs(tokens, n, first):
    pairs = []
    while len(pairs) < n and len(tokens) > 1:
        counts = Counter(pairwise(tokens))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        tokens = merge(tokens, pairs[-1], 96 + len(pairs) - 1)
    return pairs


# %% wrong="masked_but_a_little" question="CausalSoftmax" check="what_comes_later_has_no_say" says="less than any other"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -10_000.0)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        shares = out_grad * node
        return shares - node * shares.sum(dim=-1, keepdim=True)


# %% wrong="the_operator_keeps_p" question="CausalSoftmax" check="the_gradient_is_that_of_the_formula" says="serves all layers"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        self.p = powers / xp.sum(powers, axis=-1, keepdims=True)
        return self.p

    def gradient(self, out_grad, node):
        p = mt.tensor(self.p)
        return p * (out_grad - (out_grad * p).sum(dim=-1, keepdim=True))


# %% wrong="a_gradient_of_arrays" question="CausalSoftmax" check="the_gradient_is_made_of_operators" says="makes an array"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        adjoint, p = out_grad.detach().numpy(), node.detach().numpy()
        return mt.tensor(p * (adjoint - (adjoint * p).sum(axis=-1, keepdims=True)))


# %% wrong="takes_p_out_of_the_graph" question="CausalSoftmax" check="the_gradient_is_made_of_operators" says="taken out of the graph"
class CausalSoftmax(Op):
    def compute(self, xp, scores):
        tokens = scores.shape[-1]
        mask = xp.tril(xp.ones((tokens, tokens), dtype=bool))
        scores = xp.where(mask, scores, -xp.inf)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def gradient(self, out_grad, node):
        p = node.detach()
        return p * (out_grad - (out_grad * p).sum(dim=-1, keepdim=True))


# %% wrong="masks_by_a_thousand" question="Attention" check="no_token_sees_the_future" says="how small is it"
class Attention(Module):
    def __init__(self, width, heads, rng):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rng)
        self.out = Linear(width, width, rng)

    def forward(self, x):
        rows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        mask = mt.tensor(np.tril(np.ones((tokens, tokens), bool)))
        weights = F.softmax(mt.where(mask, scores, -1000.0), dim=-1)
        return self.out((weights @ v).permute(0, 2, 1, 3).reshape(rows, tokens, width))


# %% wrong="keeps_the_last_x" question="Recomputed" check="any_number_of_rows_is_recomputed" says="of the last call"
class Recomputed(Op):
    def __init__(self, block):
        self.block = block

    def compute(self, xp, x, *parameters):
        self.x = x
        with mt.no_grad():
            return self.block(mt.tensor(x)).numpy()

    def gradient(self, out_grad, node):
        x = mt.tensor(self.x).requires_grad_()
        with mt.enable_grad():
            out = self.block(x)
        return tuple(mt.grad(out, [x, *node.inputs[1:]], grad_outputs=out_grad))


# %% wrong="sorts_the_buckets" question="average" check="what_was_handed_in_stays" says="changed the buckets"
def average(comm, grads, buckets, ring):
    averages = [None] * len(grads)
    for bucket in buckets:
        bucket.sort()
        flat, at = ring(comm, np.concatenate([grads[i].reshape(-1) for i in bucket])), 0
        for i in bucket:
            part = flat[at : at + grads[i].size] / comm.size
            averages[i] = part.reshape(grads[i].shape)
            at += grads[i].size
    return averages


# %% wrong="one_state_for_all" question="Run" check="a_run_goes_on_bit_for_bit" says="a dict of its own"
class Run(Training):
    def __init__(self, **options):
        super().__init__(**options)
        self.saved = {}

    def state_dict(self):
        arrays = [np.array(p.detach().numpy()) for p in self.model.parameters()]
        state = course.state_of(self.optimizer)
        self.saved.update(step=self.step, parameters=arrays, optimizer=state)
        return self.saved

    def load_state_dict(self, state):
        self.step = state["step"]
        with mt.no_grad():
            for parameter, array in zip(self.model.parameters(), state["parameters"]):
                parameter[...] = mt.tensor(array)
        course.set_state(self.optimizer, state["optimizer"])


# %% wrong="caches_of_all_generators" question="Generator" check="what_is_freed_is_held_no_more" says="To whom do the caches belong"
class Generator:
    caches = {}  # noqa: RUF012

    def __init__(self, model):
        self.model = model

    def start(self, slot, tokens):
        self.caches[slot] = [Cache() for _ in self.model.blocks]
        for token in tokens:
            logits = next_logits(self.model, [token], [self.caches[slot]])
        return logits[0]

    def step(self, slots, tokens):
        return next_logits(self.model, tokens, [self.caches[slot] for slot in slots])

    def free(self, slot):
        self.caches.pop(slot, None)


# %% wrong="takes_the_prompt_away" question="Generator" check="what_is_freed_is_held_no_more" says="belongs to who asks"
class Generator:
    def __init__(self, model):
        self.model, self.caches = model, {}

    def start(self, slot, tokens):
        self.caches[slot] = [Cache() for _ in self.model.blocks]
        while tokens:
            logits = next_logits(self.model, [tokens.pop(0)], [self.caches[slot]])
        return logits[0]

    def step(self, slots, tokens):
        return next_logits(self.model, tokens, [self.caches[slot] for slot in slots])

    def free(self, slot):
        self.caches.pop(slot, None)


# %% wrong="sorts_the_spans" question="own_seconds" check="a_layer_may_lie_inside_of_itself" says="asked about again"
def own_seconds(spans):
    seconds, outside = Counter(), []
    spans.sort(key=lambda span: (span[1], -span[2]))
    for layer, begin, end in spans:
        while outside and outside[-1][1] <= begin:
            outside.pop()
        seconds[layer] += end - begin
        if outside:
            seconds[outside[-1][0]] -= end - begin
        outside.append((layer, end))
    return dict(seconds)
