"""Names of a statement that are its own: it gives them a value before it reads them.

So no other statement that binds such a name has to run for it.
"""

import ast

COMPOUND = (
    *(ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith),
    *(ast.Try, ast.TryStar, ast.Match),
)


def find_caught(node: ast.stmt) -> frozenset[str]:
    """Return the names of `except ... as name` that nothing outside of their handlers uses.

    Such a name is gone at the end of its handler, so it is not a name of the notebook's.
    """
    handlers = [h for h in ast.walk(node) if isinstance(h, ast.ExceptHandler) and h.name]
    if not handlers:
        return frozenset()
    inside = {
        id(n) for h in handlers for n in ast.walk(h) if isinstance(n, ast.Name) and n.id == h.name
    }
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in inside)
    return frozenset(h.name for h in handlers if h.name) - {n.id for n in names}


def find_looped_over(node: ast.stmt) -> frozenset[str]:
    """Return the names that loops give a value before anything in the statement reads them."""
    if not isinstance(node, COMPOUND):
        return frozenset()
    targets, outside = set[str](), set[str]()
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        inner, bound = waiting.pop()
        if isinstance(inner, ast.For | ast.AsyncFor):
            names = [n for n in ast.walk(inner.target) if isinstance(n, ast.Name)]
            own = frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))
            within = bound | own
            targets |= own
            outside |= {n.id for n in names} - within
            waiting += [(each, within) for each in inner.body]
            waiting += [(each, bound) for each in (inner.iter, *inner.orelse)]
        elif isinstance(inner, ast.Name) and inner.id not in bound:
            outside.add(inner.id)
        else:
            waiting += [(each, bound) for each in ast.iter_child_nodes(inner)]
    return frozenset(targets - outside)
