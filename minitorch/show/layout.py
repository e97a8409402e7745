"""Where the boxes go: a small layered layout.

Four steps: longest-path layers; a waypoint in every layer that a long arrow crosses; order inside
each layer by the mean place of the neighbours, a few sweeps down and up; x positions by pulling
each box towards its neighbours without letting any two overlap.

Source: Sugiyama, Tagawa & Toda, IEEE Trans. SMC 11(2), 1981.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

GAP_X, GAP_Y = 18.0, 30.0
SWEEPS = 8  # more changes nothing on graphs of the size a person reads
Key = Hashable
Edge = tuple[Key, Key]
Point = tuple[float, float]
Sizes = Mapping[Key, tuple[float, float]]
Neighbours = Mapping[Key, Sequence[Key]]


@dataclass(frozen=True)
class Layout:
    """Centres of the boxes, a polyline of every edge, and the size of the whole."""

    centers: Mapping[Key, Point]
    paths: Sequence[Sequence[Point]]
    width: float
    height: float


def place(sizes: Sizes, edges: Sequence[Edge]) -> Layout:
    """Return a layout of boxes of these (width, height) with edges pointing down.

    Edges that close a cycle are laid out as if reversed. `sizes` fixes the order of ties, so
    the same graph is always drawn alike.
    """
    down = _acyclic(list(sizes), edges)
    layer_of = _layers(list(sizes), down)
    chains, neighbours = _waypoints(edges, layer_of)
    layers = _rows(layer_of, chains)
    all_sizes = {**{p: (2.0, 0.0) for chain in chains for p in chain[1:-1]}, **sizes}
    _order(layers, neighbours)
    xs = _positions(layers, neighbours, all_sizes)
    left = min((xs[k] - all_sizes[k][0] / 2 for k in xs), default=0.0)
    tall = [max(all_sizes[key][1] for key in row) for row in layers]
    points: dict[Key, Point] = {}
    top = 0.0
    for row, height in zip(layers, tall, strict=True):
        points |= {key: (xs[key] - left, top + height / 2) for key in row}
        top += height + GAP_Y
    width = max((points[k][0] + all_sizes[k][0] / 2 for k in points), default=0.0)
    paths = [_path(chain, points, all_sizes, tall) for chain in chains]
    return Layout({k: points[k] for k in sizes}, paths, width, max(top - GAP_Y, 0.0))


def _acyclic(keys: Sequence[Key], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges with each one that points back in `keys`' order turned round."""
    rank = {key: i for i, key in enumerate(keys)}
    return [(a, b) if rank[a] < rank[b] else (b, a) for a, b in edges if a != b]


def _layers(keys: Sequence[Key], down: Sequence[Edge]) -> dict[Key, int]:
    """Return the longest path from a source; then let each source sink to just above its use."""
    parents: dict[Key, list[Key]] = {key: [] for key in keys}
    children: dict[Key, list[Key]] = {key: [] for key in keys}
    for a, b in down:
        parents[b].append(a)
        children[a].append(b)
    layer: dict[Key, int] = {}
    for key in keys:
        layer[key] = 1 + max((layer[p] for p in parents[key]), default=-1)
    for key in reversed(keys):
        if not parents[key] and children[key]:
            layer[key] = min(layer[c] for c in children[key]) - 1
    return layer


def _waypoints(
    edges: Sequence[Edge], layer_of: Mapping[Key, int]
) -> tuple[list[list[Key]], dict[Key, list[Key]]]:
    """Return each edge as a chain with one point a layer, and who is next to whom."""
    chains: list[list[Key]] = []
    neighbours: dict[Key, list[Key]] = {key: [] for key in layer_of}
    for i, (a, b) in enumerate(edges):
        step = 1 if layer_of[a] <= layer_of[b] else -1
        between = range(layer_of[a] + step, layer_of[b], step)
        chain: list[Key] = [a, *(("waypoint", i, row) for row in between), b]
        chains.append(chain)
        for p, q in pairwise(chain):
            neighbours.setdefault(p, []).append(q)
            neighbours.setdefault(q, []).append(p)
    return chains, neighbours


def _rows(layer_of: Mapping[Key, int], chains: Sequence[Sequence[Key]]) -> list[list[Key]]:
    rows: list[list[Key]] = [[] for _ in range(1 + max(layer_of.values(), default=-1))]
    for key, row in layer_of.items():
        rows[row].append(key)
    for chain in chains:
        for point in chain[1:-1]:
            rows[point[2]].append(point)  # type: ignore[index]
    return rows


def _order(layers: Sequence[list[Key]], neighbours: Neighbours) -> None:
    """Sort every layer by the mean place of each key's neighbours in the layer before."""
    for sweep in range(SWEEPS):
        rows = range(1, len(layers)) if sweep % 2 == 0 else range(len(layers) - 2, -1, -1)
        for row in rows:
            fixed = {key: i for i, key in enumerate(layers[row - 1 if sweep % 2 == 0 else row + 1])}
            place = {
                key: _mean([fixed[near] for near in neighbours[key] if near in fixed], i)
                for i, key in enumerate(layers[row])
            }
            layers[row].sort(key=place.__getitem__)


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _positions(
    layers: Sequence[Sequence[Key]], neighbours: Neighbours, sizes: Sizes
) -> dict[Key, float]:
    """Return x of every key: start packed, then move each layer towards its neighbours."""
    xs: dict[Key, float] = {}
    for row in layers:
        _spread(row, dict.fromkeys(row, 0.0), sizes, xs)
    for sweep in range(2 * SWEEPS):
        for row in layers if sweep % 2 == 0 else reversed(layers):
            ideal = {key: _mean([xs[near] for near in neighbours[key]], xs[key]) for key in row}
            _spread(row, ideal, sizes, xs)
    return xs


def _spread(
    row: Sequence[Key], wanted: Mapping[Key, float], sizes: Sizes, xs: dict[Key, float]
) -> None:
    """Set x of a row as near to `wanted` as its order and widths allow.

    Least squares under order constraints: neighbours that would overlap become one block at the
    mean of what its members want (pool adjacent violators).
    """
    blocks: list[tuple[float, int, list[tuple[Key, float]]]] = []
    for key in row:
        members, mean, count = [(key, 0.0)], wanted[key], 1
        while blocks:
            before, n, others = blocks[-1]
            last, offset = others[-1]
            reach = offset + (sizes[last][0] + sizes[members[0][0]][0]) / 2 + GAP_X
            if before + reach <= mean:
                break
            blocks.pop()
            mean = (before * n + (mean - reach) * count) / (n + count)
            members = others + [(k, reach + o) for k, o in members]
            count += n
        blocks.append((mean, count, members))
    for start, _, members in blocks:
        for key, offset in members:
            xs[key] = start + offset


def _path(
    chain: Sequence[Key], points: Mapping[Key, Point], sizes: Sizes, tall: Sequence[float]
) -> list[Point]:
    """Return the polyline of a chain, from the rim of the first box to the rim of the last.

    It crosses a layer straight, from the layer's one edge to the other, so that it stays between
    the boxes there.
    """
    (x0, y0), (x1, y1) = points[chain[0]], points[chain[-1]]
    sign = 1.0 if y0 <= y1 else -1.0
    path = [(x0, y0 + sign * sizes[chain[0]][1] / 2)]
    for waypoint in chain[1:-1]:
        x, y = points[waypoint]
        half = sign * tall[waypoint[2]] / 2  # type: ignore[index]
        path += [(x, y - half), (x, y + half)]
    return [*path, (x1, y1 - sign * sizes[chain[-1]][1] / 2)]
