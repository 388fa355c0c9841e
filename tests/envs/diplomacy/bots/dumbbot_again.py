"""DumbBot in plain Python, written from its documentation without its code."""

from functools import cache

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board

SPRING_WEIGHTS = (100, 1000, 30, 10, 6, 5, 4, 3, 2, 1)
OTHER_WEIGHTS = (1000, 100, 30, 10, 6, 5, 4, 3, 2, 1)


@cache
def steps(kind, location):
    """Return the locations a unit can move to by itself."""
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
        self.known = {}
        self.reach = [{self.province[step] for step in steps(*unit[1:])} for unit in self.units]
        self.owner = {int(place): power for place, power in zip(board.centres, owner.tolist(), strict=True)}

    def nodes(self):
        return [(kind, place) for kind in "AF" for place in range(codes.NUM_LOCATIONS) if steps(kind, place)]

    def size(self, power):
        n = sum(owner == power for owner in self.owner.values())
        return n * n + 4 * n + 16

    def reaching(self, power, province, *, there):
        """Return units of a power that can move to a province, or, if `there`, are in it."""
        count = 0
        for (owner, _, location), reach in zip(self.units, self.reach, strict=True):
            count += owner == power and (province in reach or (there and self.province[location] == province))
        return count

    def rivals(self, power, province):
        """Return the largest number of units of one other power that can come."""
        return max(self.reaching(other, province, there=True) for other in range(7) if other != power)

    def threat(self, power, province):
        others = [other for other in range(7) if other != power and self.reaching(other, province, there=False)]
        return max((self.size(other) for other in others), default=0)

    def values(self, power, phase):
        """Return the value of every node."""
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
                values[node] += 1000 * (self.reaching(power, place, there=True) - self.rivals(power, place))
        return values

    def spread(self, prox, node):
        kind, location = node
        best = {}
        for step in steps(kind, location):
            place = self.province[step]
            best[place] = max(best.get(place, 0), prox[kind, step])
        return (prox[node] + sum(best.values())) / 5

    def move(self, power, phase, rng):
        """Return one draw of a power's movement orders: (verb, goal or place, supported unit) by province."""
        own = [(kind, place) for owner, kind, place in self.units if owner == power]
        if (power, phase) not in self.known:
            self.known[power, phase] = self.values(power, phase)
        return Mover(self, self.known[power, phase], own, power, rng).orders()


class Mover:
    """DumbBot's movement, recursive where the kernel uses a stack."""

    def __init__(self, world, values, own, power, rng):
        self.world, self.values, self.rng = world, values, rng
        self.own = {world.province[place]: (kind, place) for kind, place in own}
        self.power = power
        self.given, self.waiting = {}, set()

    def orders(self):
        for place in self.rng.sample(sorted(self.own), len(self.own)):
            self.order(place)
        for place, order in sorted(self.given.items()):
            if order == ("hold",):
                self.given[place] = self.better_than_hold(place)
        return self.given

    def pick(self, nodes):
        at = 0
        while at + 1 < len(nodes):
            a, b = (self.values[node] for node in nodes[at : at + 2])
            stay = min(1.0, 5.0 * abs(a - b) / a) if a > 0 else 0.0
            if self.rng.random() >= 0.5 or self.rng.random() >= 1.0 - stay:
                break
            at += 1
        return nodes[at]

    def comer(self, goal):
        return next((place for place, order in self.given.items() if order[:2] == ("move", goal)), None)

    def order(self, place):
        if place in self.given:
            return
        kind, location = self.own[place]
        nodes = [(kind, location), *((kind, step) for step in steps(kind, location))]
        nodes = [node for node in nodes if self.world.province[node[1]] not in self.waiting]
        nodes.sort(key=lambda node: -self.values[node] - (node[1] == location))
        while place not in self.given:
            node = self.pick(nodes)
            goal = self.world.province[node[1]]
            if goal == place:
                self.given[place] = ("hold",)
            elif goal in self.own and goal not in self.given:
                self.waiting.add(place)
                self.order(goal)
                self.waiting.remove(place)
                self.order(place)
                return
            elif goal in self.own and self.given[goal][0] != "move":
                if self.world.rivals(self.power, goal) > 1:
                    self.given[place] = ("support", goal, None)
            elif (comer := self.comer(goal)) is not None:
                if self.world.rivals(self.power, goal) > 0:
                    self.given[place] = ("support", goal, comer)
            else:
                self.given[place] = ("move", goal, node[1])
            nodes = [other for other in nodes if other != node]

    def better_than_hold(self, place):
        best, found = 0.0, ("hold",)
        kind, location = self.own[place]
        for step in steps(kind, location):
            goal = self.world.province[step]
            comer = self.comer(goal)
            stays = comer is None and goal in self.own and self.given[goal][0] != "move"
            useful = (comer is not None and self.world.rivals(self.power, goal) > 0) or (
                stays and self.world.rivals(self.power, goal) > 1
            )
            if useful and self.values[kind, step] > best:
                best, found = self.values[kind, step], ("support", goal, comer)
        return found
