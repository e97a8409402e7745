# ruff: noqa
"""Orders and offsets are those of the package's own optimizer."""


def chain_order(sizes):
    from minitorch.graph.passes.matmul_chain import cheapest

    work, cut = cheapest(sizes)

    def tree(i, j):
        return i if i == j else (tree(i, cut[i, j]), tree(cut[i, j] + 1, j))

    return work, tree(0, len(sizes) - 2)


def place(lives, sizes):
    from minitorch.graph.memory.offsets import Buffer, assign_offsets

    found = assign_offsets([Buffer(i, sizes[i], *lives[i]) for i in lives], 1)
    return {buffer.node: buffer.offset for buffer in found}
