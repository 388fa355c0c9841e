"""Check an imported game before training: interface, seeds, masks, seats, rewards, spaces, speed.

Every check returns lines with a level: `ok`, `note` for information, or `fix` for a problem and its remedy. All play is
random but seeded; a report is reproducible except for its times.
"""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Dict
from torch import Tensor

from sparring.agents.policies.actor_critic import alternatives
from sparring.agents.policies.encoders import BY_SIZE, Picture, chosen_encoder, picture_text
from sparring.configs.core.errors import ConfigError, InputError, one_line
from sparring.envs.imported.batch import MatchBatch
from sparring.envs.imported.equality import described, equality
from sparring.envs.imported.evaluation.policy import ImportedGame
from sparring.envs.imported.evaluation.results import constant_sum
from sparring.envs.imported.masks import draw_legal
from sparring.envs.imported.training.opponents import RandomSeats
from sparring.envs.imported.twins import find_twin
from sparring.eval.stats.tables import percent

OK, NOTE, FIX = "ok", "note", "fix"
CYCLES = 100
"""Steps of each of PettingZoo's own tests."""
MATCHES = 16
MOST_MOVES = 200_000
"""Maximum number of moves in all matches of a check."""
MOST_SECONDS = 20.0
LARGEST_REWARD, SMALLEST_REWARD = 20.0, 0.02
"""Range of the standard deviation of returns that suits the value function and its clipping."""
LARGEST_FEATURE = 20.0
HINTS = {
    "!= set()": "an agent that has ended must leave self.agents",
    "expected 5": "step returns observations, rewards, terminations, truncations and infos, a mapping of agents each",
    "expected 2": "reset returns observations and infos, a mapping of agents each",
    "seeding": "create the spaces in __init__; class and module attributes are shared by all games",
}
"""Advice for messages of PettingZoo's tests, by a part of the message."""
WITH_MASKS = ("Observation space for each agent probably should be", "Observation is not a NumPy array")
"""Warnings of PettingZoo's tests about observations with an action mask, a format that PettingZoo itself uses."""
SLOW = 500.0
"""Moves per second below which training is bound by the game."""
OBSERVED = 50
"""Number of moves in which observations are checked against their spaces."""
PROBES = 20
"""Number of illegal actions to try."""


@dataclass(frozen=True)
class CheckLine:
    """Result of a check: its name, `OK`, `NOTE` or `FIX`, and a sentence without a full stop."""

    check: str
    level: str
    text: str


@dataclass
class RandomPlay:
    """Statistics of many random matches with S seats and D columns per row."""

    seats: Sequence[str]
    totals: np.ndarray
    """Total rewards by match and seat, float64 [G, S]."""
    outcome: np.ndarray
    """Leading seats as bits, int64 [G]."""
    length: np.ndarray
    """Moves, int64 [G]."""
    largest: np.ndarray
    """Largest absolute value of every observed column, float32 [D]."""
    constant: np.ndarray
    """Columns that never changed for a seat, bool [S, D]; all columns if the seat never decided."""
    decided: np.ndarray
    """Number of decisions per seat, int64 [S]."""
    decisions: int
    moves: int
    seconds: float
    """Time spent in the game."""

    @property
    def games(self) -> int:
        """Number of matches that ended."""
        return len(self.length)


def check_interface(game: ImportedGame) -> Iterator[CheckLine]:
    """Run PettingZoo's own interface and seed tests; OpenSpiel tests its games itself."""
    if game.package != "pettingzoo":
        return
    from pettingzoo import ParallelEnv
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

    def make() -> Any:
        return game.match().env  # type: ignore[attr-defined]

    parallel = isinstance(make(), ParallelEnv)
    api, seeds = (parallel_api_test, parallel_seed_test) if parallel else (api_test, seed_test)
    tests: dict[str, Callable[[], object]] = {
        api.__name__: lambda: api(make(), CYCLES),
        seeds.__name__: lambda: seeds(make, CYCLES),
    }
    for name, test in tests.items():
        yield from _outside(name, test)


def _outside(name: str, test: Callable[[], object]) -> Iterator[CheckLine]:
    """Run a test of PettingZoo, which prints, warns and asserts."""
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("always")
        try:
            test()
        except Exception as error:
            what = one_line(str(error)) or "it failed without a message"
            hint = next((f"; {meant}" for part, meant in HINTS.items() if part in what), "")
            yield CheckLine(f"PettingZoo's {name}", FIX, f"{type(error).__name__}: {what[:300]}{hint}")
            return
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    texts = [text for text in texts if not text.startswith(WITH_MASKS)]
    yield CheckLine(f"PettingZoo's {name}", OK, "passed")
    for text in dict.fromkeys(one_line(text)[:200] for text in texts):
        yield CheckLine(f"PettingZoo's {name}", NOTE, text)


def check_seeds(game: ImportedGame, seed: int) -> Iterator[CheckLine]:
    """Play matches of equal and of different seeds with the same actions, and compare them."""
    first, repeated, other = (_trace(game, number) for number in (seed, seed, seed + 1))
    if first == repeated:
        yield CheckLine("seeds", OK, "matches with the same seed and actions are identical")
    else:
        move = next(number for number, (a, b) in enumerate(zip(first, repeated, strict=False)) if a != b)
        yield CheckLine(
            "seeds",
            FIX,
            f"two matches with the same seed differ from move {move} on: draw all random numbers from a generator that "
            "reset(seed) seeds; otherwise runs cannot be repeated or resumed exactly",
        )
        return
    chance = "different seeds lead to different matches" if first != other else "is deterministic"
    yield CheckLine("seeds", NOTE, chance)


def _trace(game: ImportedGame, seed: int, moves: int = 60) -> list[bytes]:
    """Return the observations and rewards of the first moves in a few matches."""
    batch = game.batch(3, seed)
    player, memory = RandomSeats(batch.contract), torch.zeros(0, 0)
    trace = []
    for _ in range(moves):
        deciding = batch.deciding.clone()
        observed = batch.obs[deciding].numpy().tobytes()
        batch.step(_random_actions(batch, player, memory))
        trace.append(observed + deciding.numpy().tobytes() + batch.reward.numpy().tobytes())
    batch.close()
    return trace


def _random_actions(batch: MatchBatch, player: RandomSeats, memory: Tensor) -> Tensor:
    actions = torch.zeros(*batch.deciding.shape, batch.action_size)
    actions[batch.deciding] = player.act(batch.obs[batch.deciding], memory)[0]
    return actions


def play_randomly(game: ImportedGame, games: int, seed: int, seats: Sequence[str]) -> RandomPlay:
    """Play `games` matches, or fewer if they take longer than `MOST_SECONDS` or `MOST_MOVES`.

    Raises `InputError` with the move and the seed if the game breaks its interface.
    """
    batch = game.batch(MATCHES, seed)
    player, memory = RandomSeats(batch.contract, seed=seed), torch.zeros(0, 0)
    total = torch.zeros(batch.deciding.shape, dtype=torch.float64)
    totals: list[np.ndarray] = []
    outcomes: list[int] = []
    lengths: list[int] = []
    low = torch.full((len(seats), batch.obs.shape[2]), torch.inf)
    high = -low
    decided = torch.zeros(len(seats), dtype=torch.int64)
    decisions = moves = 0
    seconds, start = 0.0, time.perf_counter()
    while len(lengths) < games and moves < MOST_MOVES and time.perf_counter() - start < MOST_SECONDS:
        deciding = batch.deciding.unsqueeze(-1)
        low = torch.minimum(low, batch.obs.masked_fill(~deciding, torch.inf).amin(0))
        high = torch.maximum(high, batch.obs.masked_fill(~deciding, -torch.inf).amax(0))
        decisions, moves = decisions + int(batch.deciding.sum()), moves + MATCHES
        decided += batch.deciding.sum(0)
        actions = _random_actions(batch, player, memory)
        before = time.perf_counter()
        batch.step(actions)
        seconds += time.perf_counter() - before
        total += batch.reward
        for match in (batch.outcome >= 0).nonzero().flatten().tolist():
            totals.append(total[match].numpy().copy())
            outcomes.append(int(batch.outcome[match]))
            lengths.append(int(batch.length[match]))
            total[match] = 0.0
    batch.close()
    largest = torch.maximum(low.abs(), high.abs())[decided > 0].amax(0)
    return RandomPlay(
        seats=seats,
        totals=np.array(totals).reshape(len(lengths), len(seats)),
        outcome=np.array(outcomes, dtype=np.int64),
        length=np.array(lengths, dtype=np.int64),
        largest=largest.numpy(),
        constant=(low >= high).numpy(),
        decided=decided.numpy(),
        decisions=decisions,
        moves=moves,
        seconds=seconds,
    )


def check_ends(play: RandomPlay) -> Iterator[CheckLine]:
    """Report how long matches are and whether they end."""
    if not play.games:
        none = f"no match ended within {play.moves // MATCHES:,} moves of random play"
        slow = f", in {MOST_SECONDS:.0f} seconds: rewards and seats were not checked; try a lower move limit"
        endless = play.moves >= MOST_MOVES
        yield CheckLine("length", FIX if endless else NOTE, none + (": add a move limit" if endless else slow))
        return
    low, mean, high = play.length.min(), play.length.mean(), play.length.max()
    yield CheckLine("length", OK, f"{low} to {high} moves, {mean:.1f} on average, in {play.games} random matches")


def check_rewards(play: RandomPlay) -> Iterator[CheckLine]:
    """Report the scale of the rewards and whether the game is constant-sum."""
    totals = play.totals
    if not totals.any():
        yield CheckLine(
            "rewards",
            FIX,
            f"no seat received a reward in {play.games} random matches, so nothing can be learned from them",
        )
        return
    spread, mean = float(totals.std()), float(np.abs(totals.mean(0)).max())
    scale = f"total per match from {totals.min():g} to {totals.max():g}, standard deviation {spread:.3g}"
    if max(spread, mean) > LARGEST_REWARD or 0 < spread < SMALLEST_REWARD:
        factor = 1.0 / max(spread, mean)
        yield CheckLine("rewards", FIX, f"{scale}: scale rewards by about {factor:.1g}, for totals near 1")
    else:
        yield CheckLine("rewards", OK, scale)
    sums = totals.sum(1)
    if constant_sum(totals):
        yield CheckLine("zero sum", OK, f"the seats' totals add up to {sums[0]:g} in every match")
    else:
        yield CheckLine(
            "zero sum",
            NOTE,
            f"the seats' totals add up to {sums.min():g} to {sums.max():g}: the game is not constant-sum, and the "
            "leading seat need not have done best; compare mean rewards as well as win rates",
        )


def check_seats(play: RandomPlay, roles: Sequence[int], *, alike: bool) -> Iterator[CheckLine]:
    """Report how often each seat leads in random play and which seats share a policy; `alike` if all could."""
    count = len(play.seats)
    leads = np.array([(play.outcome == 1 << seat).mean() for seat in range(count)])
    means = play.totals.mean(0)
    entries = [
        f"{name} leads {percent(lead)} %, reward {mean:+.3f}"
        for name, lead, mean in zip(play.seats, leads, means, strict=True)
    ]
    rest = f" ... and {count - 4} more" if count > 4 else ""
    yield CheckLine(
        "seats", NOTE, f"{'; '.join(entries[:4])}{rest}; without a single leader {percent(1 - leads.sum())} %"
    )
    kinds = sorted({tuple(seat for seat in range(count) if roles[seat] == role) for role in roles})
    for name, decisions in zip(play.seats, play.decided, strict=True):
        if not decisions:
            text = f"{name} never decided in {play.games} random matches: does it ever get a turn?"
            yield CheckLine("seats", FIX, text)
    if count == 1:
        yield CheckLine("seats", NOTE, "has only one player; for a Gymnasium environment use env=gymnasium")
    if len(kinds) > 1:
        named = "; ".join(", ".join(play.seats[seat] for seat in kind[:4]) for kind in kinds)
        share = "; all have equal spaces and can share a policy with 'env.roles=[*]'" if alike else ""
        yield CheckLine("roles", NOTE, f"{len(kinds)} roles, each with an actor and a critic: {named}{share}")
    if play.games >= 50:
        yield from _lopsided(play, leads)


def _lopsided(play: RandomPlay, leads: np.ndarray) -> Iterator[CheckLine]:
    best = int(leads.argmax())
    if leads[best] > 0.95:
        yield CheckLine(
            "seats",
            FIX,
            f"{play.seats[best]} leads nearly always, whatever is played: check that rewards go to the seats that "
            "earned them, or set env.outcome to decide who leads",
        )
    elif leads.sum() == 0:
        yield CheckLine(
            "seats",
            NOTE,
            "no match had a single leader, so every match will be a draw: compare mean rewards, or set "
            "env.outcome=module:function to decide who leads",
        )


def check_spaces_seen(play: RandomPlay, contract: dict[str, Any]) -> Iterator[CheckLine]:
    """Report the network's observations and actions."""
    sizes = alternatives(contract["categorical"])
    acts = (
        f"{len(sizes)} choice(s) among {', '.join(map(str, sizes))}"
        if sizes
        else f"{contract['continuous']} numbers"
        if contract["continuous"]
        else f"{contract['binary']} switches"
    )
    masks = "with masks" if contract["masked"] else "without masks"
    count = contract["obs_dim"] - (sum(sizes) if contract["masked"] else 0) - (len(set(contract["roles"])) > 1)
    picture = contract["picture"]
    suffix = f", with {picture_text(picture, chosen_encoder(BY_SIZE, Picture(*picture)))}" if picture else ""
    yield CheckLine("spaces", OK, f"observes {count} numbers{suffix}; actions: {acts} {masks}")
    largest = play.largest[:count]
    if largest.max(initial=0.0) > LARGEST_FEATURE:
        column = int(largest.argmax())
        yield CheckLine(
            "spaces", FIX, f"column {column} of the observation reached {largest[column]:g}: scale it to about [-1, 1]"
        )
    constant = play.constant[:, :count]
    idle = int(constant.all(0).sum())
    # A seat with one decision per match, as in a matrix game, has nothing to observe.
    blind = constant.all(1) & (play.decided > play.games + MATCHES)
    if idle == count and blind.any():
        yield CheckLine(
            "spaces",
            FIX,
            f"every seat had the same observation in all of its {play.decisions:,} decisions, so nothing can be "
            "learned from it: does the game need an option such as render_mode=rgb_array?",
        )
        return
    for seat in np.flatnonzero(blind).tolist():
        text = f"{play.seats[seat]} had the same observation in all of its {play.decided[seat]:,} decisions"
        yield CheckLine("spaces", FIX, f"{text}, so it cannot learn from it: give that seat an observation of the game")
    if idle:
        yield CheckLine("spaces", NOTE, f"{idle} of {count} columns never changed in {play.decisions:,} decisions")


def check_observations(game: ImportedGame, seed: int) -> Iterator[CheckLine]:
    """Report the first observation outside its space; training accepts it if its size is right."""
    batch = game.batch(1, seed)
    match, player, memory = batch.match(0), RandomSeats(batch.contract, seed=seed), torch.zeros(0, 0)
    for _ in range(OBSERVED):
        for seat in match.deciding():
            space, observed = match.observation_spaces[seat], match.observe(seat)
            if isinstance(space, Dict):  # without its mask
                observed = {key: observed[key] for key in space.spaces}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inside = space.contains(observed)
            if not inside:
                dtype = f" of {observed.dtype}" if isinstance(observed, np.ndarray) else ""
                text = f"{match.seats[seat]} observed {one_line(str(observed))[:100]}{dtype}, outside of {space}"
                yield CheckLine("spaces", NOTE, f"{text}: match the bounds and dtype of the space")
                batch.close()
                return
        batch.step(_random_actions(batch, player, memory))
    batch.close()


def check_speed(play: RandomPlay) -> Iterator[CheckLine]:
    """Report how many moves the game makes per second."""
    rate = play.moves / max(play.seconds, 1e-9)
    text = f"{rate:,.0f} moves per second in one process, {1e6 / rate:,.0f} microseconds each"
    slow = f"{text}: a million moves take {1e6 / rate / 60:.0f} minutes; env.workers=N steps matches in N processes"
    yield CheckLine("speed", NOTE if rate < SLOW else OK, slow if rate < SLOW else text)


def check_twin(game: ImportedGame) -> Iterator[CheckLine]:
    """Report whether OpenSpiel has an equal game, and how much faster it is."""
    twin = find_twin(game.id) if game.package == "pettingzoo" else None
    if twin is None:
        return
    try:
        tested = equality(game.id, game.kwargs)
    except ConfigError as error:
        yield CheckLine("twin", NOTE, f"OpenSpiel's {twin.name}: {error}")
        return
    if tested.difference:
        text = f"OpenSpiel's {twin.name} differs and is not used: {tested.difference}"
        yield CheckLine("twin", NOTE, text)
    else:
        faster = f"{tested.faster:.1f} times as fast; training uses it unless env.twin=off"
        yield CheckLine("twin", OK, f"{described(tested)}, {faster}")


def check_masks(
    game: ImportedGame, play: RandomPlay, contract: dict[str, Any], seed: int, remarks: Sequence[str] = ()
) -> Iterator[CheckLine]:
    """Report whether `step` accepts the actions that masks allow and refuses those they forbid."""
    yield from (CheckLine("masks", FIX, remark) for remark in remarks)
    if not contract["masked"]:
        yield CheckLine("masks", OK, f"step accepted {play.decisions:,} random actions; the game has no masks")
        return
    # OpenSpiel games check their actions and print those they refuse.
    accepted, tried = (0, 0) if game.package == "openspiel" else _probe(game, seed)
    yield CheckLine("masks", OK, f"step accepted {play.decisions:,} random actions that the masks allow")
    if accepted:
        yield CheckLine(
            "masks",
            NOTE,
            f"step also accepted {accepted} of {tried} actions that the masks forbid: the game is not protected from "
            "players that ignore masks; Sparring policies never do",
        )


def _probe(game: ImportedGame, seed: int) -> tuple[int, int]:
    """Try forbidden actions; return the number accepted without an error or the match ending, and the number tried."""
    random, accepted, tried = np.random.default_rng(seed), 0, 0
    for number in range(PROBES):
        match = game.match()
        match.reset(seed + number)
        for _ in range(int(random.integers(0, 6))):
            if not match.over:
                match.step(_random_moves(match, random))
        if match.over:
            continue
        actions = _random_moves(match, random)
        seat = next(iter(actions))
        forbidden = _forbidden(match, seat, random)
        if forbidden is not None:
            tried += 1
            try:
                with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    warnings.simplefilter("ignore")
                    match.step(actions | {seat: forbidden})
                accepted += not match.over
            except Exception:  # any exception counts as a refusal
                pass
        match.close()
    return accepted, tried


def _random_moves(match: Any, random: np.random.Generator) -> dict[int, Any]:
    return {seat: draw_legal(match.action_spaces[seat], match.mask(seat), random) for seat in match.deciding()}


def _forbidden(match: Any, seat: int, random: np.random.Generator) -> Any:
    """Draw an action that the mask of a single choice forbids, or return None."""
    mask, space = match.mask(seat), match.action_spaces[seat]
    if mask is None or not hasattr(space, "n") or not (mask == 0).any():
        return None
    return int(random.choice(np.flatnonzero(mask == 0))) + int(space.start)


def check_game(game: ImportedGame, games: int, seed: int) -> list[CheckLine]:
    """Run all checks that need no training. Raises `ConfigError` if `game` is not a game."""
    batch = game.batch(1, seed)
    contract, match = dict(batch.contract), batch.match(0)
    seats = tuple(match.seats)
    alike = all(spaces.count(spaces[0]) == len(seats) for spaces in (match.observation_spaces, match.action_spaces))
    batch.close()
    lines = list(check_interface(game))
    try:
        lines += check_seeds(game, seed)
        play = play_randomly(game, games, seed, seats)
    except InputError as error:
        return [*lines, CheckLine("random play", FIX, str(error))]
    lines += check_masks(game, play, contract, seed, match.remarks)
    lines += check_ends(play)
    if play.games:
        lines += check_rewards(play)
        lines += check_seats(play, contract["roles"], alike=alike)
    lines += check_spaces_seen(play, contract)
    lines += check_observations(game, seed)
    lines += check_speed(play)
    lines += check_twin(game)
    return lines
