"""Polygons that lines in a plane enclose: lines are cut at their junctions into chains, and chains joined to outlines.

Lines meet only where they have a point in common, so a junction is a point with other than two neighbours. Walking
along chains and turning at every junction into the next one clockwise goes round one polygon; walking every chain both
ways goes round all of them. Lines must hang together: one that touches no other encloses nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Point = tuple[float, float]
Step = tuple[int, bool]
"""A chain, and whether it is walked from its first point to its last."""


@dataclass(frozen=True)
class PolygonMesh:
    """A plane cut up: C chains of points [n, 2], and each polygon as the steps around it."""

    chains: list[np.ndarray]
    polygons: list[list[Step]]

    def outline(self, polygon: int) -> np.ndarray:
        """The closed outline of a polygon, [n, 2], its first point not repeated."""
        parts = [self.chains[chain][:: 1 if forward else -1][:-1] for chain, forward in self.polygons[polygon]]
        return np.concatenate(parts)

    def sides(self) -> list[tuple[int, int]]:
        """Of each chain, the polygons on its two sides."""
        found = [[-1, -1] for _ in self.chains]
        for polygon, steps in enumerate(self.polygons):
            for chain, forward in steps:
                found[chain][forward] = polygon
        return [(first, second) for first, second in found]


def cut_up(lines: Iterable[np.ndarray]) -> PolygonMesh:
    """The polygons that `lines`, each [n, 2], enclose; the first is the outer one, seen from outside."""
    neighbours = _neighbours(lines)
    chains = list(_chains(neighbours))
    polygons = _walk(chains)
    found = PolygonMesh([np.array(chain) for chain in chains], polygons)
    areas = [abs(area(found.outline(polygon))) for polygon in range(len(polygons))]
    outer = max(range(len(polygons)), key=areas.__getitem__)
    return PolygonMesh(found.chains, [polygons[outer], *polygons[:outer], *polygons[outer + 1 :]])


def area(outline: np.ndarray) -> float:
    """The area within a closed outline [n, 2]; its sign is the sense in which it runs."""
    x, y = outline.T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def contains(outline: np.ndarray, point: Sequence[float]) -> bool:
    """Return whether a point lies within a closed outline [n, 2]: a ray from it crosses an odd number of sides."""
    (x0, y0), (x1, y1) = outline.T, np.roll(outline, -1, axis=0).T
    spans = (y0 > point[1]) != (y1 > point[1])
    rise = np.where(spans, y1 - y0, 1.0)
    return bool(np.count_nonzero(spans & (point[0] < x0 + (point[1] - y0) * (x1 - x0) / rise)) % 2)


def soften(chain: np.ndarray, rounds: int = 2) -> np.ndarray:
    """A chain [n, 2] with its corners cut (Chaikin): the ends stay where they are."""
    for _ in range(rounds):
        if len(chain) < 3:
            break
        cuts = np.stack([0.75 * chain[:-1] + 0.25 * chain[1:], 0.25 * chain[:-1] + 0.75 * chain[1:]], axis=1)
        chain = np.concatenate([chain[:1], cuts.reshape(-1, 2)[1:-1], chain[-1:]])
    return chain


def _neighbours(lines: Iterable[np.ndarray]) -> dict[Point, list[Point]]:
    found: dict[Point, list[Point]] = defaultdict(list)
    for line in lines:
        for (x0, y0), (x1, y1) in pairwise(line.tolist()):
            found[x0, y0].append((x1, y1))
            found[x1, y1].append((x0, y0))
    return dict(found)


def _chains(neighbours: dict[Point, list[Point]]) -> Iterable[list[Point]]:
    """Every way from junction to junction, once."""
    walked: set[tuple[Point, Point]] = set()
    for start, nexts in neighbours.items():
        if len(nexts) == 2:
            continue
        for following in nexts:
            if (start, following) in walked:
                continue
            chain = [start, following]
            while len(neighbours[chain[-1]]) == 2:
                first, second = neighbours[chain[-1]]
                chain.append(second if first == chain[-2] else first)
            walked.add((chain[-1], chain[-2]))
            yield chain


def _walk(chains: list[list[Point]]) -> list[list[Step]]:
    """Go round every polygon."""
    leaving: dict[Point, list[Step]] = defaultdict(list)
    for number, chain in enumerate(chains):
        leaving[chain[0]].append((number, True))
        leaving[chain[-1]].append((number, False))
    for steps in leaving.values():
        steps.sort(key=lambda step: _heading(chains, step))
    unseen = {(number, forward) for number in range(len(chains)) for forward in (True, False)}
    polygons = []
    for start in sorted(unseen):
        step, polygon = start, []
        while step in unseen:
            unseen.discard(step)
            polygon.append(step)
            number, forward = step
            here = leaving[chains[number][-1 if forward else 0]]
            step = here[here.index((number, not forward)) - 1]
        if polygon:
            polygons.append(polygon)
    return polygons


def _heading(chains: list[list[Point]], step: Step) -> float:
    """The direction in which a step leaves its first point, in rad."""
    number, forward = step
    (x0, y0), (x1, y1) = chains[number][:2] if forward else chains[number][:-3:-1]
    return math.atan2(y1 - y0, x1 - x0)
