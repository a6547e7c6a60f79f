"""Coloring: which columns of a sparse matrix can be found together, in one product with a sum of basis vectors.

Columns that have no row in common can share a color: each entry of the product with the sum of their basis vectors comes from
one of them. That is a distance-1 coloring of the column intersection graph. Of a symmetric matrix each entry need be found only
once, in its row or in its column; a star coloring of its graph is enough for that, in which neighbors have different colors and
every path of four vertices has at least three.

Source: Gebremedhin, Manne and Pothen, What color is your Jacobian? Graph coloring for computing derivatives, SIAM Review 47
(2005): the problems as colorings, greedy algorithms for them, and the orders of the vertices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

Indices = np.ndarray[Any, np.dtype[np.int64]]

# The incidence-degree order looks at every pair of columns that share a row; matrices with more such pairs do without it.
MOST_PAIRS = 2_000_000


def groups(keys: Indices, values: Indices, count: int) -> list[list[int]]:
    """For each key below `count` the values that go with it."""
    order = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[order], np.arange(1, count))
    return [part.tolist() for part in np.split(values[order], ends)] if count else []


def color_columns(rows: Indices, columns: Indices, shape: tuple[int, int]) -> Indices:
    """A color for each column of a matrix with these nonzeros, such that no two columns of a color share a row.

    Greedy, in three orders of the columns, of which the one that needs the fewest colors is kept: as they stand, by falling
    number of neighbors (largest first), and by the number of neighbors already colored (incidence degree).
    """
    height, width = shape
    in_column, in_row = groups(columns, rows, width), groups(rows, columns, height)
    weights = [sum(len(in_row[row]) for row in own) for own in in_column]
    orders: list[Iterable[int]] = [range(width), sorted(range(width), key=lambda column: -weights[column])]
    if sum(weights) <= MOST_PAIRS:
        orders.append(_by_incidence(in_column, in_row, weights))
    least = max(map(len, in_row), default=0)  # the columns of one row all need different colors
    best: list[int] | None = None
    for order in orders:
        colors = _greedily(order, in_column, height, width)
        if best is None or max(colors, default=0) < max(best, default=0):
            best = colors
        if max(best, default=0) + 1 <= least:
            break
    return np.array(best, np.int64)


def _greedily(order: Iterable[int], in_column: list[list[int]], height: int, width: int) -> list[int]:
    """The smallest color that is free, for one column after the other."""
    used = [0] * height  # the colors in each row, as the bits of a number
    colors = [0] * width
    for column in order:
        taken = 0
        for row in in_column[column]:
            taken |= used[row]
        bit = ~taken & (taken + 1)  # the lowest bit that is not set
        colors[column] = bit.bit_length() - 1
        for row in in_column[column]:
            used[row] |= bit
    return colors


def _by_incidence(in_column: list[list[int]], in_row: list[list[int]], weights: list[int]) -> list[int]:
    """The columns in such an order that each has the most neighbors before it."""
    met = [0] * len(in_column)
    heap = [(0, -weight, column) for column, weight in enumerate(weights)]
    heapify(heap)
    done = [False] * len(in_column)
    order = []
    while heap:
        count, _, column = heappop(heap)
        if done[column] or -count != met[column]:
            continue
        done[column] = True
        order.append(column)
        for neighbor in {other for row in in_column[column] for other in in_row[row]}:
            if not done[neighbor]:
                met[neighbor] += 1
                heappush(heap, (-met[neighbor], -weights[neighbor], neighbor))
    return order


def color_star(rows: Indices, columns: Indices, size: int) -> Indices:
    """A color for each column of a symmetric matrix with these nonzeros: a star coloring of its graph.

    Greedy, by falling number of neighbors and as the columns stand; the one with fewer colors is kept.
    """
    off = rows != columns
    neighbors = groups(rows[off], columns[off], size)
    best: list[int] | None = None
    for order in (sorted(range(size), key=lambda vertex: -len(neighbors[vertex])), range(size)):
        colors = _star_greedily(order, neighbors)
        if best is None or max(colors, default=0) < max(best, default=0):
            best = colors
    return np.array(best, np.int64)


def _star_greedily(order: Iterable[int], neighbors: list[list[int]]) -> list[int]:
    colors = [-1] * len(neighbors)
    around: list[Counter[int]] = [Counter() for _ in neighbors]  # how many neighbors of each vertex have which color
    for vertex in order:
        forbidden = set()
        for near in neighbors[vertex]:
            color = colors[near]
            if color >= 0:
                forbidden.add(color)
                # vertex - near - far - farther would have two colors if farther had near's and vertex got far's
                forbidden.update(colors[far] for far in neighbors[near] if colors[far] >= 0 and around[far][color] > 1)
            else:
                # near is still free to get the color of a neighbor of far, as long as vertex and far differ
                forbidden.update(around[near])
        chosen = 0
        while chosen in forbidden:
            chosen += 1
        colors[vertex] = chosen
        for near in neighbors[vertex]:
            around[near][chosen] += 1
    return colors


def star_sources(rows: Indices, columns: Indices, colors: Indices) -> tuple[Indices, Indices]:
    """Where to read each entry (i, j) of a symmetric matrix H in its compressed form C[color, i] = sum_{color of j} H[i, j].

    Returns the color and the index: (color of j, i) where j is the only one of its color in row i, else (color of i, j).
    """
    count = int(colors.max(initial=0)) + 1
    keys = rows * count + colors[columns]
    found, sizes = np.unique(keys, return_counts=True)
    alone = sizes[np.searchsorted(found, keys)] == 1
    return np.where(alone, colors[columns], colors[rows]), np.where(alone, rows, columns)
