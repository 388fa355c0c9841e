"""Air combat on the local server: a match between a person in seat 0 and an opponent, and its page messages.

The match is played tick by tick on a batch of one. The person's action counts in every tick. A scripted opponent
decides in every tick, a policy as often as in training. An autopilot is a scripted pilot that
flies the person's aircraft for a while. With missiles the page also receives the output of the seeker and the warning
receiver, from the observation columns (`rules.OBSERVATION_ARMED`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import numpy as np
import torch
from pydantic import Field

from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.typed import Number, Text
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe.missile import FLARE_SLOTS
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.evaluation.replay import (
    burst_row,
    plane_row,
    scene_constants,
    scene_parts,
    write_air_replay,
)
from sparring.envs.air_combat.recording import FLARE_TICKS, AirRecorder, AirRecording
from sparring.envs.air_combat.tacview import write_acmi
from sparring.envs.air_combat.training.opponents import ground_limit
from sparring.eval.browser.flying import YOU, FlightChoices, FlightSession, FlightStage
from sparring.eval.browser.server import Send
from sparring.eval.command import fill_page, join_files

if TYPE_CHECKING:
    from sparring.agents.opponents.duelists import Duelist

AUTOPILOTS = {
    "by hand": "",
    "level": "straight",
    "turn": "turning",
    "pure pursuit": "chaser",
    "lead pursuit": "dogfighter",
    "best turn, yo-yo": "ace",
    "hardest turn": "brawler",
    "break, then leave": "evader",
}
"""Manoeuvres that a person can choose, by label, with the scripted pilot that flies each."""
GUNS_ALONE, MISSILES = "guns", "missiles"
WEAPONS = {GUNS_ALONE: rules.PLAIN, MISSILES: rules.CombatOptions(missiles=2, flares=30)}
"""Weapons that a person can choose."""
_FAR = 5000.0
"""m for which the column `warned_range_far` is 1."""
_PERSON, _OPPONENT = 0, 1
_FOLDER = Path(__file__).parent
_TITLE = "Sparring · air combat"


@dataclass(frozen=True)
class AirFrame:
    """State after a tick, for the page."""

    tick: int
    outcome: int
    """-1 while playing, 0 for a draw, else 1 + the winning seat."""
    planes: list[list[float]]
    """As `eval.air_combat.replay.plane_row`, of both seats."""
    bursts: list[list[float]]
    """As `eval.air_combat.replay.burst_row`, after the seat."""
    actions: tuple[list[float] | None, list[float] | None]
    """Of both seats, None where a scripted pilot flies."""
    stores: list[list[int]]
    """Remaining missiles and flares of each seat; empty in matches with guns alone."""
    releases: list[list[float]]
    """Missiles (kind 0) and flares (1) in the air: kind, slot, tick of the launch, seat, seconds left of a flare,
    place and velocity."""
    warning: dict[str, Any]
    """Warnings for the person, see `told_of`; empty in matches with guns alone."""

    def message(self) -> dict[str, Any]:
        """Return the frame in the format of `flying.js`."""
        return vars(self)


def trained_with(opponent: Duelist) -> rules.CombatOptions | None:
    """Return the options of the matches that a policy was trained in; None if the player accepts any."""
    contestant = opponent.contestant
    if not isinstance(contestant, Policy) or "action_repeat" not in contestant.contract:
        return None
    return rules.CombatOptions.of_contract(contestant.contract)


def weapons_of(opponent: Duelist, weapons: str, offered: rules.CombatOptions) -> rules.CombatOptions:
    """Return the options of a match with `weapons`: `offered` ones, or those that a policy was trained with.

    Raises `InputError` for a policy trained with other options, or one that a person cannot play against.
    """
    trained = trained_with(opponent)
    if trained is None:
        return offered
    if trained.team_size > 1 or trained.action_form != "continuous":
        what = f"team_size={trained.team_size}" if trained.team_size > 1 else f"action_form={trained.action_form}"
        raise InputError(
            f"{opponent.name}: was trained with {what}, but a person flies alone with a stick; choose a policy "
            "without it"
        )
    if trained.armed != offered.armed:
        carried = f"missiles={trained.missiles}, flares={trained.flares}" if trained.armed else "the gun alone"
        fitting = MISSILES if trained.armed else GUNS_ALONE
        how = f"choose {fitting}" if trained.armed else f"choose {fitting}, without --missiles and --flares"
        raise InputError(f"weapons={weapons}: {opponent.name} was trained with {carried}; {how}")
    return trained


def told_of(obs: Any) -> dict[str, Any]:
    """Return the warnings in an observation [D] with missiles or flares; directions in body axes.

    `lock`: the seeker sees the opponent; `homing`: an own missile follows it; `missile`: where the nearest missile
    comes from, and its distance in m; `radar`: where an opponent's radar is. None without a warning.
    """
    row = dict(zip(rules.OBSERVATION_ARMED, obs[len(rules.OBSERVATION) :].tolist(), strict=False))

    def direction(name: str) -> list[float]:
        return [round(row[f"{name}_{axis}"], 3) for axis in "xyz"]

    return {
        "lock": row["lock"] > 0.0 and row["missiles"] > 0.0,
        "homing": row["own_missile_homing"] > 0.0,
        "missile": [*direction("warned"), round(row["warned_range_far"] * _FAR)] if row["warned"] else None,
        "radar": direction("radar") if row["radar_warned"] else None,
    }


class LiveFlight:
    """One match from `seed`; `tick` plays it, `recording` returns it once it is over.

    Raises `InputError` for a policy that cannot play it.
    """

    def __init__(
        self,
        opponent: Duelist,
        *,
        model: str,
        gun: str = "",
        seed: int,
        options: rules.CombatOptions = rules.PLAIN,
        limit: float | None = None,
    ) -> None:
        self.opponent, self.options, self.limit = opponent, options, ground_limit([opponent], limit)
        played: dict[str, Any] = {"model": model, "gun": gun, "options": options, "ground_limit": self.limit}
        self._batch = AirCombatBatch(1, action_repeat=1, threads=1, seed=seed, **played)
        self.model, self.gun = self._batch.model, self._batch.gun
        self._policy = opponent.contestant if isinstance(opponent.contestant, Policy) else None
        self._repeat = rules.ACTION_REPEAT
        if self._policy:
            self._repeat = self._policy.contract.get("action_repeat", self._repeat)
            self._policy.check(self._batch.contract | {"action_repeat": self._repeat})
        else:
            self._batch.bots[0, _OPPONENT] = rules.bot_id(str(opponent.contestant))
        self._recorder = AirRecorder(self._batch)
        self._actions = torch.zeros(1, 2, self._batch.actions.shape[-1])
        self._memory = torch.zeros(1, self._policy.memory_size if self._policy else 0)
        self._decide()
        self.frame = self._look()

    @property
    def over(self) -> bool:
        """True after the last tick."""
        return self.frame.outcome >= 0

    def order(self, autopilot: str) -> None:
        """Give control of the person's aircraft to a pilot of `AUTOPILOTS`, or back."""
        pilot = AUTOPILOTS[autopilot]
        self._batch.bots[0, _PERSON] = rules.bot_id(pilot) if pilot else rules.ACTIONS
        self.frame = replace(self.frame, actions=self._shown())

    def tick(self, action: list[float]) -> AirFrame:
        """Play one tick with the person's action (`rules.ACTION_NAMES`, with missiles `ACTION_NAMES_ARMED` too).

        Missing numbers are 0, extra ones are ignored. Returns the state; at the end, the last state.
        """
        if self.over:
            return self.frame
        batch = self._batch
        size = self._actions.shape[-1]
        self._actions[0, _PERSON] = torch.tensor([*action[:size], *[0.0] * (size - len(action))])
        batch.step(self._actions)
        outcome, tick = int(batch.outcome[0]), self.frame.tick + 1
        if outcome >= 0 or tick % self._repeat == 0:
            self._recorder(batch)
        if outcome >= 0:
            self.frame = self._last(outcome)
            return self.frame
        if tick % self._repeat == 0:
            self._decide()
        self.frame = self._look()
        return self.frame

    def recording(self) -> AirRecording:
        """Return the match for `eval.air_combat.replay.write_air_replay`; raises `ValueError` before its end."""
        return self._recorder.recordings((YOU, self.opponent.name))[0]

    def close(self) -> None:
        """Stop the simulator's threads."""
        self._batch.close()

    def _decide(self) -> None:
        if self._policy:
            actions, self._memory = self._policy.step(self._batch.obs[:, _OPPONENT], self._memory)
            self._actions[0, _OPPONENT] = actions[0]

    def _look(self) -> AirFrame:
        state = self._batch.snapshot()
        planes = [plane_row(plane) for plane in state["planes"][0]]
        bursts = [
            [slot // rules.SLOTS, *burst_row(burst)]
            for slot, burst in enumerate(state["rounds"][0])
            if burst["life"] > 0
        ]
        tick = int(state["clock"]["tick"][0])
        if not self.options.armed:
            return AirFrame(tick, -1, planes, bursts, self._shown(), [], [], {})
        stores = [[int(store["missiles"]), int(store["flares"])] for store in state["stores"][0]]
        observed = told_of(self._batch.obs[0, _PERSON])
        return AirFrame(tick, -1, planes, bursts, self._shown(), stores, list(self._released(state, tick)), observed)

    def _released(self, state: dict[str, np.ndarray], tick: int) -> Iterator[list[float]]:
        """Yield the missiles and flares in the air, as `AirFrame.releases`."""
        for slot, missile in enumerate(state["missiles"][0]):
            if missile["age"] > 0:
                seat = slot // self.options.missiles
                yield [0, slot, tick - int(missile["age"]), seat, 0.0, *burst_row(missile)]
        for slot, flare in enumerate(state["flares"][0] if self.options.flares else ()):
            if flare["life"] > 0:
                life = int(flare["life"])
                seconds = round(life / rules.TICKS_PER_SECOND, 2)
                yield [1, slot, tick - FLARE_TICKS + life, slot // FLARE_SLOTS, seconds, *burst_row(flare)]

    def _last(self, outcome: int) -> AirFrame:
        """Return the final state: the batch is already in the next match, the recorder has the end of this one."""
        recorded = self.recording()
        planes = [plane_row(plane) for plane in recorded.planes[-1]]
        before = self.frame
        return AirFrame(int(recorded.ticks[-1]), outcome, planes, [], self._shown(), before.stores, [], {})

    def _shown(self) -> tuple[list[float] | None, list[float] | None]:
        flown = self._batch.bots[0].numpy() == rules.ACTIONS
        rows = [
            np.round(row.numpy().astype(float), 3).tolist() if values else None
            for row, values in zip(self._actions[0], flown, strict=True)
        ]
        return rows[0], rows[1]


class AirMessage(FlightChoices):
    """A message from the page; the other keys depend on `kind`."""

    kind: Literal["begin", "pace", "hold", "order", "save"]
    model: NotRequired[Text]
    autopilot: NotRequired[Text]
    weapons: NotRequired[Text]
    action: NotRequired[Annotated[list[Number], Field(min_length=4, max_length=6)]]


@dataclass(frozen=True)
class AirStage(FlightStage):
    """Air combat hosted by the server: initially with `model`, `gun` (empty: the flight model's) and `weapons`.

    `carried` are the missiles and flares of matches with them, `limit` the ground limit (None: the opponent's own).
    """

    model: str = rules.MODELS[0]
    gun: str = ""
    weapons: str = GUNS_ALONE
    carried: rules.CombatOptions = WEAPONS[MISSILES]
    limit: float | None = None

    MESSAGE = AirMessage
    RESTING = (0.0, 0.0, 0.0, 0.0)
    TICKS_PER_SECOND = rules.TICKS_PER_SECOND
    REPLAY = "air-match"
    SETTING = ("model", rules.MODELS)

    @property
    def usual(self) -> str:
        """The flight model of the command line."""
        return self.model

    def html(self, socket: str) -> str:
        """Return the page."""
        data = {
            "rules": scene_constants(),
            "opponents": list(self.opponents),
            "models": list(dict.fromkeys([self.model, *rules.MODELS])),
            "autopilots": list(AUTOPILOTS),
            "weapons": list(dict.fromkeys([self.weapons, *WEAPONS])),
        }
        script = join_files(_FOLDER, "stick.js", "flying.js")
        return fill_page(_FOLDER / "page.html", title=_TITLE, data=data, script=script, connect=socket, **scene_parts())

    def connect(self, send: Send) -> AirSession:
        """Return a new connection."""
        return AirSession(self, send)

    def start(self, opponent: Duelist, setting: str, seed: int) -> tuple[LiveFlight, dict[str, Any], str]:
        """Return a match with a flight model, and the page's data about it."""
        offered = self.carried if self.weapons == MISSILES else rules.PLAIN
        options = weapons_of(opponent, self.weapons, offered)
        match = LiveFlight(opponent, model=setting, gun=self.gun, seed=seed, options=options, limit=self.limit)
        about = {"names": [YOU, opponent.name], "model": setting, "gun": match.gun, "limit": match.limit}
        about["armed"] = options.armed
        return match, about, ""

    def write(self, path: Path, match: LiveFlight) -> None:
        """Write the replay and a Tacview recording next to it."""
        write_air_replay(path, [match.recording()])
        write_acmi(path.with_suffix(".acmi"), match.recording())


class AirSession(FlightSession):
    """A connection with an optional autopilot, which stays on for the following matches."""

    _autopilot = next(iter(AUTOPILOTS))

    def _prepare(self, match: LiveFlight) -> None:
        match.order(self._autopilot)

    async def _begin(self, message: AirMessage) -> None:
        stage = self._stage
        assert isinstance(stage, AirStage)
        self._stage = replace(stage, weapons=choose("weapons", message.get("weapons", stage.weapons), tuple(WEAPONS)))
        await super()._begin(message)

    async def _order(self, message: AirMessage) -> None:
        self._autopilot = choose("autopilot", message.get("autopilot", ""), tuple(AUTOPILOTS))
        if self._match:
            self._match.order(self._autopilot)
