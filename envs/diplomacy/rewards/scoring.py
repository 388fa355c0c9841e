"""Scores of a game for its seven powers and rewards of its phases: pure functions over G games.

Scores at the end, from the owners of the centres:

solos           1 with 18 centres or more, else 0
draw size       1 for a solo; without one, 1 / n to each of the n powers that have a centre left
sum of squares  centres^2 / sum of centres^2 over all powers; optionally 1 and 0 for a solo
centres         centres / 34, a solo or not

Owners are [G, 34], torch or numpy, -1 for an unowned centre. Scores are float64 [G, 7], on the device of the owners.

Step rewards, earned from one phase to the next:

step reward = score of the position after the phase - score of the one before + what happened in it
score       = 2.0 centre + 0.3 unit - 0.3 threat + 0.1 unit abroad            (dense)
            = 0.5 unit + 0.5 + 2.0 if leading, else - 0.3 centre behind the leader + 0.5 balance with a centre;
              - 0.3 threat + 0.1 unit abroad                                  (strategic)
events      = 0.5 dislodged - 0.5 lost + 0.2 province new in its influence, by a move or retreat

The weights are those of the system that the language models were trained with. Arrays as in `codes.py`: units uint8
[G, 75]; the rounding of float64 rewards no comparison of two games notices. `Scorer` adds the scores at the end of a
game, and keeps what rewards need between phases: the influence on provinces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, SOLO
from sparring.envs.diplomacy.board.tensors import State, board_tensors, count_powers, power_of


def count_centres(owner: Any) -> Tensor:
    """Count the centres of each power, int64 [G, 7]."""
    return count_powers(torch.as_tensor(owner))


def alive(state: State) -> Tensor:
    """Return whether each power has a centre or a unit, dislodged ones included: bool [G, 7]."""
    units = torch.cat([power_of(state[name]) for name in ("units", "dislodged")], dim=1)
    return (count_powers(units) + count_centres(state["owner"])) > 0


def solos(owner: Any) -> Tensor:
    """Return 1 for each power with 18 centres or more, else 0."""
    return (count_centres(owner) >= SOLO).double()


def draw_size(owner: Any) -> Tensor:
    """Return each power's share of the draw or the solo; the shares of a game sum to 1, or to 0 without any owner."""
    return _solo_takes_all(_share((count_centres(owner) > 0).double()), owner)


def sum_of_squares(owner: Any, *, solo_takes_all: bool = False) -> Tensor:
    """Return each power's share of the squared centres; the shares of a game sum to 1, or to 0 without any owner."""
    shares = _share(count_centres(owner).double().square())
    return _solo_takes_all(shares, owner) if solo_takes_all else shares


def centre_share(owner: Any) -> Tensor:
    """Return the centres of each power as a share of all 34."""
    return count_centres(owner).double() / NUM_CENTRES


FINAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sum_of_squares": partial(sum_of_squares, solo_takes_all=True),
    "draw_size": draw_size,
    "centres": centre_share,
    "solo": solos,
}
"""Scores available as rewards at the end of a game."""


def _share(values: Tensor) -> Tensor:
    return values / values.sum(dim=1, keepdim=True).clamp(min=1.0)


def _solo_takes_all(scores: Tensor, owner: Any) -> Tensor:
    won = solos(owner)
    return torch.where(won.any(dim=1, keepdim=True), won, scores)


PER_CENTRE, PER_UNIT, PER_DISLODGED, PER_LOST = 2.0, 0.3, 0.5, 0.5
PER_PROVINCE, PER_THREAT, PER_UNIT_ABROAD = 0.2, 0.3, 0.1
STRATEGIC_PER_UNIT, STRATEGIC_BASE, PER_LEAD, PER_CENTRE_BEHIND, PER_BALANCE = 0.5, 0.5, 2.0, 0.3, 0.5
STEPS = ("dense", "strategic")
TERMS = (*FINAL, *STEPS)


def step_rewards(before: State, after: State, results: Tensor, influence: Tensor, *, strategic: bool = False) -> Tensor:
    """Return the step rewards float64 [G, 7] of the phase between two positions; 0 in a game that was over before.

    `results` uint8 [G, 75] are the batch's, of this phase; `influence` [G, 75] is the owner of each province before it
    (`influence_after`).
    """
    score = strategic_standing if strategic else standing
    change = score(after["units"], after["owner"]) - score(before["units"], before["owner"])
    earned = change + events(before, after["units"], results, influence)
    return earned.masked_fill((before["done"] > 0).unsqueeze(1), 0.0)


def standing(units: Tensor, owner: Tensor) -> Tensor:
    """Return the dense score of a position: centres, units, threats and units abroad."""
    centres, on_board = count_centres(owner).double(), count_units(units).double()
    return PER_CENTRE * centres + PER_UNIT * on_board + tactical(units, owner)


def strategic_standing(units: Tensor, owner: Tensor) -> Tensor:
    """Return the strategic score of a position: standing relative to the leader in place of the number of centres.

    A leader, ties included, gets `PER_LEAD`; the others lose per centre behind the leader. A power with a centre gains
    by the balance; one without does not.
    """
    behind, on_board = centres_behind(owner).double(), count_units(units).double()
    balanced = torch.where(count_centres(owner) > 0, balance(owner).unsqueeze(1), 0.0)
    trailing = PER_BALANCE * balanced - PER_CENTRE_BEHIND * behind
    lead = torch.where(behind == 0, PER_LEAD, trailing)
    return STRATEGIC_PER_UNIT * on_board + STRATEGIC_BASE + lead + tactical(units, owner)


def centres_behind(owner: Tensor) -> Tensor:
    """Return the number of centres each power is behind the leader, int64 [G, 7]."""
    centres = count_centres(owner)
    return centres.max(dim=1, keepdim=True).values - centres


def balance(owner: Tensor) -> Tensor:
    """Return the balance among powers with centres, float64 [G]: 1 - std / mean of their centres, at least 0."""
    # Population variance over the owning powers; the clamps keep an empty board at 0 / 1e-9 instead of 0 / 0.
    centres = count_centres(owner).double()
    owning = centres > 0
    many = owning.sum(dim=1).clamp(min=1)
    mean = (centres.sum(dim=1) / many).clamp(min=1e-9)
    variance = torch.where(owning, centres - mean.unsqueeze(1), 0.0).square().sum(dim=1) / many
    return (1.0 - variance.sqrt() / mean).clamp(min=0.0)


def tactical(units: Tensor, owner: Tensor) -> Tensor:
    """Return the part of both scores for units outside of home centres and for threatened own centres."""
    return PER_UNIT_ABROAD * count_abroad(units).double() - PER_THREAT * count_threats(units, owner).double()


def count_units(units: Tensor) -> Tensor:
    """Count the units of each power on the board, int64 [G, 7]; dislodged units do not count."""
    return count_powers(power_of(units))


def count_abroad(units: Tensor) -> Tensor:
    """Count the units of each power that are not in one of its home centres, int64 [G, 7]."""
    powers = power_of(units)
    return count_powers(torch.where(powers == board_tensors(units.device).home, NOTHING, powers))


def count_threats(units: Tensor, owner: Tensor) -> Tensor:
    """Count the centres of each power beside a unit of another, whether or not it could enter, int64 [G, 7]."""
    foreign = (units > 0).unsqueeze(2) & (power_of(units).unsqueeze(2) != owner.unsqueeze(1))  # [G, 75, 34]
    threatened = (board_tensors(units.device).beside_centre & foreign).any(dim=1)
    return count_powers(torch.where(threatened, owner, NOTHING))


def events(before: State, after: Tensor, results: Tensor, influence: Tensor) -> Tensor:
    """Return the reward for events of a phase: units dislodged and lost, and provinces new in a power's influence.

    `before` is the position before the phase, `after` the units [G, 75] after it, `influence` [G, 75] from before it.
    """
    dislodged = results >= codes.DISLODGED_FLAG
    lost, gained = (
        count_powers(torch.where(dislodged, powers, NOTHING)).double()
        for powers in (power_of(before["units"]), power_of(after))
    )
    now = influence_after(influence, before, after)
    new = count_powers(torch.where(now == influence, NOTHING, now)).double()
    return PER_DISLODGED * gained - PER_LOST * lost + PER_PROVINCE * new


def influence_after(influence: Tensor, before: State, units: Tensor) -> Tensor:
    """Return the influence, int64 [G, 75]: the power whose unit last moved or retreated into each province, or -1.

    `before` is the position before a phase, `units` [G, 75] are those after it. A build does not enter its province: a
    home centre that a foreign unit passed through stays in that unit's influence when a new unit is built there.
    """
    entered = (units > 0) & (units != before["units"]) & (before["phase"] != codes.WINTER).unsqueeze(1)
    return torch.where(entered, power_of(units), influence)


def first_influence(units: Tensor) -> Tensor:
    """Return the influence at the start of a game: home centres and provinces with a unit count for their powers."""
    return torch.where(units > 0, power_of(units), board_tensors(units.device).home.expand(units.shape))


def reward_weights(reward: str | Mapping[str, float]) -> dict[str, float]:
    """Return the weight of every term, from one name or a mapping.

    Raises `InputError` for an unknown term, a weight that is not a finite number, and for no term at all.
    """
    if not (isinstance(reward, str | Mapping) and reward):
        raise InputError(f"reward={reward!r}: give a term or weights of several; terms are {', '.join(TERMS)}")
    weights = {reward: 1.0} if isinstance(reward, str) else dict(reward)
    for term, weight in weights.items():
        choose("reward", term, TERMS)
        if isinstance(weight, bool) or not isinstance(weight, Real) or not isfinite(weight):
            raise InputError(f"reward[{term!r}]={weight!r}: give a finite number")
    return weights


class Scorer:
    """Computes the rewards of G games after every phase.

    For rewards of every phase it keeps the `influence` int64 [G, 75] (`influence_after`); a copied game needs its
    source's.
    """

    influence: Tensor

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        self.by_phase = any(term in STEPS for term in self.weights)
        """Whether phases are rewarded; if not, `score` takes only `done` of the position before."""

    def begin(self, state: State, influence: Tensor | None = None) -> None:
        """Start the games at `state`, with the `influence` of their history if it is known."""
        self.influence = first_influence(state["units"]) if influence is None else influence

    def score(self, before: State, after: State, results: Tensor) -> Tensor:
        """Return the rewards float64 [G, 7] of the phase between two positions, with final scores in games it ended."""
        over = after["done"]
        total = torch.zeros(len(over), codes.NUM_POWERS, dtype=torch.float64, device=over.device)
        going = over.device.type == "cpu" and not bool(over.any())  # on a GPU any() would synchronize
        if going and not self.by_phase:
            return total
        ended = ((over > 0) & (before["done"] == 0)).unsqueeze(1)
        for term, weight in self.weights.items():
            if term in FINAL and going:
                continue
            if term in FINAL:
                total += weight * ended * FINAL[term](after["owner"])
            else:
                strategic = term == "strategic"
                total += weight * step_rewards(before, after, results, self.influence, strategic=strategic)
        if self.by_phase:
            self.influence = influence_after(self.influence, before, after["units"])
        return total
