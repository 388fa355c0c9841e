"""The PettingZoo interface of Diplomacy: one game as a `ParallelEnv` with all seven powers as agents.

The docstring of `DiplomacyParallelEnv` is the game's documentation page: `docs/generate_env_pages.py` writes it to
`docs/envs/diplomacy.md`, and a test compares its tables with the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict
from pettingzoo import ParallelEnv

from sparring.configs.core.errors import choose, reset_option
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.drawing.render import draw_position
from sparring.envs.diplomacy.interfaces import slots
from sparring.envs.diplomacy.interfaces.opponents import PowerOpponents
from sparring.envs.diplomacy.observation import PowerViews
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.orders.submit import Line
from sparring.envs.diplomacy.prompts.prompts import PromptRules, render
from sparring.envs.diplomacy.prompts.report import board_report, order_report
from sparring.envs.diplomacy.records.history_consistency import check_start
from sparring.envs.diplomacy.rewards.scoring import Scorer, reward_weights
from sparring.envs.text import Prompt
from sparring.envs.window import RenderWindow

RENDER_MODES = ["ansi", "rgb_array", "human"]
PHASES_PER_SECOND = 2
"""Rate at which a window shows a game."""
ILLEGAL = ("raise", "hold")


class DiplomacyParallelEnv(ParallelEnv[str, slots.Observation, np.ndarray]):
    """Seven powers without press: all of them order every unit, and all orders are carried out at once.

    This environment is for PettingZoo; `sparring.envs.diplomacy.interfaces.parallel_env.parallel_env()` makes it. For
    thousands of games at once, as torch tensors, see [diplomacy_batch.md](../diplomacy_batch.md).

    ## Description

    The standard map of Europe has 75 provinces, 34 of them supply centres. The powers AUSTRIA, ENGLAND, FRANCE,
    GERMANY, ITALY, RUSSIA and TURKEY are the agents' names. A year has two movement phases, spring and fall, each
    followed by retreats. After fall centres change hands, and winter has builds and disbands. A power that then owns
    18 centres has won. A phase without possible orders is skipped. In any other phase all powers act, also those
    without an order to give. [diplomacy_rules.md](../diplomacy_rules.md) states the rules in detail.

    ```python
    from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env

    env = parallel_env(last_year=1910)
    obs, infos = env.reset(seed=1)
    while env.agents:
        actions = {agent: env.action_space(agent).sample(obs[agent]["action_mask"]) for agent in env.agents}
        if "FRANCE" in env.agents:
            actions["FRANCE"], answers = env.submit("FRANCE", ["A PAR - BUR", "F BRE - MAO"])
        obs, rewards, terminations, truncations, infos = env.step(actions)
    ```

    ## Actions

    `MultiDiscrete([1082] * 17)`: for each slot, the index of the listed order to carry out. A slot is a unit that may
    be ordered, in alphabetical order of the provinces. A power has at most 17 units, and a unit at most 1,082
    orders. Order 0 is the default of the phase.

    | phase | slots | order 0 | further orders |
    | --- | --- | --- | --- |
    | spring, fall | the power's units | hold | moves, moves by convoy, supports, convoys |
    | spring retreats, fall retreats | its dislodged units | disband | retreats |
    | winter, builds due | its free home centres | waive | build an army, a fleet, a fleet on the other coast |
    | winter, disbands due | its units | keep it | disband |

    `infos[agent]["provinces"]` is where the slots are, int64 [n], and `infos[agent]["orders"]` their orders, a list of
    int32 arrays as `codes.py` packs them; `text(agent)` returns them as text. In winter the alphabetically first builds
    or disbands count, up to the number due; the rules choose missing disbands. A slot without a unit takes 0. An index
    without an order, or an action of the wrong shape or type, raises a `ValueError` before anything changes. With
    `illegal="hold"` such an index counts as 0. A missing agent raises, too.

    `submit(agent, lines)` converts orders as text to an action, such as `A PAR - BUR`, one per unit. It also returns
    every line with its problem, if it has one.

    ## Observations

    `Dict`: `observation` float32 of shape (75, 62), from 0 to 1, a row for each province by the alphabet of the codes;
    `action_mask` int8 of shape (18394,), 17 times 1082, 1 for every order that may be given. `sample(action_mask)` of
    the action space draws one of them for each slot. Powers are counted from the observer, in alphabetical order and
    cyclically, so the observer is always the first.

    | column | name | meaning |
    | --- | --- | --- |
    | 0 .. 6 | unit_power | power of the unit |
    | 7 .. 10 | unit_form | an army; a fleet; a fleet on the first coast (BUL/EC, SPA/NC, STP/NC); on the second |
    | 11 .. 17 | dislodged_power | power of the unit that was dislodged there and has to retreat |
    | 18 .. 21 | dislodged_form | its form, as above |
    | 22 .. 29 | owner | owner of the supply centre, the last column without an owner; all 0 without a centre |
    | 30 .. 36 | home | power whose home centre it is |
    | 37 .. 39 | terrain | inland, coast, sea |
    | 40 | contested | in retreats: closed to retreats by a standoff |
    | 41 | slot | number of the own slot there, from 1, divided by 17; else 0 |
    | 42 .. 46 | phase | spring, spring retreats, fall, fall retreats, winter; this and all that follow in every row |
    | 47 | years_left | until `last_year`, divided by the years from 1901 to it |
    | 48 .. 54 | builds | in winter, number of units each power may build, divided by 17 |
    | 55 .. 61 | disbands | in winter, number of units it has to disband, divided by 17 |

    ## Rewards

    `reward` names a term, or weighs several: `reward={"sum_of_squares": 10, "dense": 0.1}`. The first four are paid
    when the game ends, and a solo takes all in three of them. The last two are paid after every phase.

    | term | paid | given for |
    | --- | --- | --- |
    | sum_of_squares | at the end | the square of the own centres, as a share of the sum over the powers |
    | draw_size | at the end | an equal share for every power that still owns a centre |
    | centres | at the end | the own centres, as a share of 34; a solo changes nothing |
    | solo | at the end | 1 for owning 18 centres |
    | dense | every phase | the change of the score below, and its events |
    | strategic | every phase | the same with the place among the powers instead of the centres |

    | part | weight | in | counted |
    | --- | --- | --- | --- |
    | centre | 2.0 | dense | each one owned |
    | unit | 0.3 | dense | each one on the board |
    | unit | 0.5 | strategic | each one on the board |
    | lead | 2.0 | strategic | owning at least as many centres as every other power |
    | centre behind | -0.3 | strategic | each one fewer than the leader, unless leading |
    | balance | 0.5 | strategic | unless leading: 1 - std / mean of the living powers' centres, if positive |
    | threat | -0.3 | both | each own centre that a unit of another power could enter without a convoy |
    | unit abroad | 0.1 | both | each unit that is not in a home centre of its power |
    | dislodged | 0.5 | both, event | each unit of another power it dislodged |
    | lost | -0.5 | both, event | each unit of its own that was dislodged |
    | province | 0.2 | both, event | each province, sea or land, in which its unit is now the last that stood |

    At the beginning home centres count as their powers' provinces. Units that have to retreat are not on the board.

    These are the rewards of the environment. `+run=diplomacy_ppo` has one fixed reward: the change of the learner's
    sum_of_squares at every step.

    ## Start of a game

    Spring 1901, or the position in `reset(options={"position": position})`: a snapshot of one game, such as one read by
    `saved_game.py`. The game is deterministic; the seed is for bots among the opponents.

    ## End of a game

    - `terminated`, for all: a power owns 18 centres after fall. For one power: it has neither units nor centres. It
      leaves with the reward of this phase, and the others continue.
    - `truncated`, for all that are left: `last_year` is over. A draw.

    Every info has `centres`, the power's number of them. The last one also has `result`: won, lost, eliminated or draw.

    ## Arguments

    | argument | default | meaning |
    | --- | --- | --- |
    | last_year | 1935 | the game ends as a draw after this year, from 1901 to 30000 |
    | reward | sum_of_squares | sum_of_squares, draw_size, centres, solo, dense, strategic, or weights of several |
    | opponents | None | powers that are not agents, `{"ITALY": "dumbbot"}` ([players](../opponents.md#diplomacy)) |
    | illegal | raise | what an order that is not listed does: raise, or hold |
    | render_mode | None | ansi: `render()` returns the board in words; rgb_array: a picture; human: a window shows it |

    ## Version history

    | version | change |
    | --- | --- |
    | v0 | first release |
    """

    metadata = {  # noqa: RUF012
        "name": codes.ENV_ID,
        "render_modes": RENDER_MODES,
        "render_fps": PHASES_PER_SECOND,
        "is_parallelizable": True,
    }

    def __init__(
        self,
        *,
        last_year: int = 1935,
        reward: str | Mapping[str, float] = "sum_of_squares",
        illegal: str = "raise",
        opponents: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            choose("render_mode", render_mode, RENDER_MODES)
        self._lenient = choose("illegal", illegal, ILLEGAL) == "hold"
        self._scorer = Scorer(reward_weights(reward))
        self._batch = DiplomacyBatch(1, last_year=last_year, threads=1)
        self._views = PowerViews(self._batch.state, last_year=last_year)
        self.last_year = last_year
        self._slots: dict[str, list[slots.Slot]] = {}
        self.render_mode, self._closed = render_mode, False
        self._window = RenderWindow("Sparring: Diplomacy", PHASES_PER_SECOND) if render_mode == "human" else None
        self._opponents = PowerOpponents(self._batch, opponents or {})
        self.possible_agents = [power for power in POWERS if power not in self._opponents.players]
        self.agents: list[str] = []
        # One space object per agent: seeding one must not reseed the other.
        self.observation_spaces = {agent: slots.observation_space() for agent in POWERS}
        self.action_spaces = {agent: slots.OrderSpace() for agent in POWERS}

    def observation_space(self, agent: str) -> Dict:
        """Return the agent's observation space, the same object at every call."""
        return self.observation_spaces[choose("agent", agent, POWERS)]

    def action_space(self, agent: str) -> slots.OrderSpace:
        """Return the agent's action space, the same object at every call."""
        return self.action_spaces[choose("agent", agent, POWERS)]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, slots.Observation], dict[str, slots.Info]]:
        """Start a new game, from `options["position"]` if given; other keys are ignored. `seed` seeds the bots.

        Raises `InputError` for a finished position, or one in which a power has more than 17 units.
        """
        start = reset_option(options, "position")
        if start is not None:
            check_start(start, most=codes.SLOTS, last_year=self._batch.last_year)
            self._batch.set_position(0, start)
        else:
            self._batch.reset()
        self._scorer.begin(self._batch.state)
        row = self.row()
        lives = slots.living(row)
        self.agents = [agent for agent in self.possible_agents if lives[agent]]
        self._opponents.begin(seed)
        self._slots = slots.slots_by_power(self._batch.legal_orders(0), row)
        self._show()
        infos = slots.infos(row, self.agents, self._slots, staying=self.agents, lives=lives)
        return slots.observations(self._views(), self.agents, self._slots), infos

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, slots.Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, slots.Info]]:
        """Play one phase. Raises `ValueError` for a missing agent or an invalid action, before anything changes."""
        if self._closed:
            raise ResetNeeded("the environment is closed: make a new one to play on")
        if not self.agents:
            raise ResetNeeded("no game is running: call reset() before step()")
        acting, batch, by_phase = list(self.agents), self._batch, self._scorer.by_phase
        before = batch.snapshot() if by_phase else {"done": torch.zeros_like(batch.done)}
        orders = slots.joint_orders(actions, self.agents, self._slots, lenient=self._lenient)
        batch.orders[0].numpy()[:] = orders
        self._opponents.write()
        batch.process()
        if int(batch.undecided):
            batch.check()
        row = self.row()
        won, over, lives = int(row["winner"]) >= 0, bool(row["done"]), slots.living(row)
        rewards = [0.0] * len(POWERS)
        if by_phase or over:
            rewards = self._scorer.score(before, batch.state, batch.results)[0].tolist()
        gone = {agent: won or not lives[agent] for agent in acting}
        cut = {agent: over and not gone[agent] for agent in acting}
        self.agents = [agent for agent in acting if not (gone[agent] or cut[agent])]
        self._slots = slots.slots_by_power(self._batch.legal_orders(0), row)
        self._show()
        return (
            slots.observations(self._views(), acting, self._slots),
            {agent: rewards[POWERS.index(agent)] for agent in acting},
            gone,
            cut,
            slots.infos(row, acting, self._slots, staying=self.agents, lives=lives),
        )

    def submit(self, agent: str, lines: Sequence[str]) -> tuple[np.ndarray, list[Line]]:
        """Return an action int64 [17] from orders as text, and every line with its problem."""
        if not self.agents:
            raise ResetNeeded("no game is running: call reset() before submit()")
        return slots.action_of(lines, agent, self._slots[choose("agent", agent, POWERS)], self.row())

    def row(self) -> dict[str, np.ndarray]:
        """Return a copy of the state of the game: a row of each array in `batch.STATE`."""
        return {name: tensor.numpy()[0, ...].copy() for name, tensor in self._batch.state.items()}

    def choices(self, agent: str) -> Choices:
        """Return the order choices of an agent, one sequence of lines per joint order; empty once it has left."""
        power = POWERS.index(choose("agent", agent, POWERS))
        return choices(self.row(), dict(self._slots.get(agent, [])), power)

    def prompt(self, agent: str, rules: PromptRules | None = None) -> Prompt:
        """Return the prompt for an agent's orders to a language model; its text is empty without orders to give."""
        menu, row = self.choices(agent), self.row()
        rules, last_year = rules or PromptRules(), self.last_year
        text = render(row, menu.power, menu, rules, last_year=last_year) if menu.lines else ""
        return Prompt(text, menu, position=row, seat=menu.power)

    def text(self, agent: str | None = None) -> str:
        """Return the board as text, and for an agent its power and legal orders."""
        row = self.row()
        if agent is None:
            return board_report(row)
        orders = dict(self._slots.get(choose("agent", agent, POWERS), []))
        return f"{board_report(row)}\nYou are {agent}.\n{order_report(row, orders)}"

    def render(self) -> str | np.ndarray | None:  # type: ignore[override]
        """Return the board as text or as a picture uint8 [1000, 1200, 3]; None without a mode, or with a window."""
        if self.render_mode == "rgb_array":
            return self._picture()
        return self.text() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Release the simulator and close the window; a second call does nothing."""
        if self._window is not None:
            self._window.close()
        self._batch.close()
        self._closed = True

    def _picture(self) -> np.ndarray:
        row = self.row()
        return draw_position(row["units"], row["owner"], dislodged=row["dislodged"])

    def _show(self) -> None:
        if self._window is not None and not self._window.closed:
            self._window.show(self._picture())


parallel_env = DiplomacyParallelEnv
"""Factory function under PettingZoo's usual name."""
