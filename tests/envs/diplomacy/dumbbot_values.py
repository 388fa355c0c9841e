"""DumbBot's values once more in plain Python, from the words of `appraisal.py` and nothing of its code."""

from functools import cache

from envs.diplomacy import codes
from envs.diplomacy.board import standard_board

SPRING_WEIGHTS = (100, 1000, 30, 10, 6, 5, 4, 3, 2, 1)
OTHER_WEIGHTS = (1000, 100, 30, 10, 6, 5, 4, 3, 2, 1)


@cache
def steps(kind, location):
    """Locations a unit can move to by itself."""
    matrix = standard_board().fleet_next if kind == "F" else standard_board().army_next
    return [] if location >= len(matrix) else [int(place) for place in matrix[location].nonzero()[0]]


class World:
    """One game: units as (power, "A" or "F", location) and owners by centre's province."""

    def __init__(self, units, owner):
        board = standard_board()
        self.province = [int(place) for place in board.province_of]
        self.units = []
        for place, code in enumerate(units.tolist()):
            if code:
                form = (code - 1) // 7
                location = board.coasts_of[place][form - 2] if form > 1 else place
                self.units.append(((code - 1) % 7, "F" if form else "A", location))
        self.reach = [{self.province[step] for step in steps(*unit[1:])} for unit in self.units]
        self.owner = {int(place): power for place, power in zip(board.centres, owner.tolist(), strict=True)}

    def nodes(self):
        return [(kind, place) for kind in "AF" for place in range(codes.NUM_LOCATIONS) if steps(kind, place)]

    def size(self, power):
        n = sum(owner == power for owner in self.owner.values())
        return n * n + 4 * n + 16

    def reaching(self, power, province, *, there):
        """Units of a power that can move to a province, or, if `there`, are in it."""
        count = 0
        for (owner, _, location), reach in zip(self.units, self.reach, strict=True):
            count += owner == power and (province in reach or (there and self.province[location] == province))
        return count

    def threat(self, power, province):
        others = [other for other in range(7) if other != power and self.reaching(other, province, there=False)]
        return max((self.size(other) for other in others), default=0)

    def values(self, power, phase):
        """Value of every node."""
        attack, defence = (600, 400) if phase in (codes.FALL, codes.FALL_RETREATS) else (700, 300)
        weights = SPRING_WEIGHTS if phase in (codes.SPRING, codes.SPRING_RETREATS) else OTHER_WEIGHTS
        threats = {place: self.threat(power, place) for place, owner in self.owner.items() if owner == power}
        prox = {}
        for kind, location in self.nodes():
            place = self.province[location]
            theirs = self.size(self.owner[place]) if self.owner.get(place, power) != power else 0
            prox[kind, location] = attack * theirs + defence * threats.get(place, 0)
        values = {node: weights[0] * value for node, value in prox.items()}
        for weight in weights[1:]:
            prox = {node: self.spread(prox, node) for node in prox}
            values = {node: value + weight * prox[node] for node, value in values.items()}
        for node in values:
            place = self.province[node[1]]
            if phase == codes.WINTER:
                values[node] += 1000 * threats.get(place, 0)
            else:
                rivals = max(self.reaching(other, place, there=True) for other in range(7) if other != power)
                values[node] += 1000 * (self.reaching(power, place, there=True) - rivals)
        return values

    def spread(self, prox, node):
        kind, location = node
        best = {}
        for step in steps(kind, location):
            place = self.province[step]
            best[place] = max(best.get(place, 0), prox[kind, step])
        return (prox[node] + sum(best.values())) / 5
