"""Face 4 of Diplomacy: one game as a PettingZoo `ParallelEnv`, all seven powers open.

The docstring of `DiplomacyParallelEnv` is the game's documentation page: `docs/generate_env_pages.py` writes it to
`docs/envs/diplomacy.md`, and a test compares its tables with the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict
from pettingzoo import ParallelEnv

from sparring.configs.core.errors import choose
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.drawing.render import draw_position
from sparring.envs.diplomacy.interfaces.slots import action_of, deal, joint_orders
from sparring.envs.diplomacy.interfaces.spaces import OrderSpace, Slot, observation_space
from sparring.envs.diplomacy.interfaces.views import Info, Observation, info, living, observations
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.orders.submit import Line
from sparring.envs.diplomacy.records.history_consistency import check_start
from sparring.envs.diplomacy.rewards.scorer import Scorer, reward_weights
from sparring.envs.diplomacy.text.prompts import PromptRules, render
from sparring.envs.diplomacy.text.report import board_report, order_report
from sparring.envs.diplomacy.validation import reset_position
from sparring.envs.text import Prompt

RENDER_MODES = ["ansi", "rgb_array"]
ILLEGAL = ("raise", "hold")


def parallel_env(**options: Any) -> DiplomacyParallelEnv:
    """A game of Diplomacy with all seven powers open; `options` as for `DiplomacyParallelEnv`."""
    return DiplomacyParallelEnv(**options)


class DiplomacyParallelEnv(ParallelEnv[str, Observation, np.ndarray]):
    """Seven powers, no press: everybody writes orders for every unit, and all are carried out at once.

    For PettingZoo only: `sparring.envs.diplomacy.interfaces.parallel_env.parallel_env()` makes it, and Gymnasium does
    not know the id. For thousands of games at once, as torch tensors, see [diplomacy_batch.md](../diplomacy_batch.md).

    ## Description

    The standard map of Europe: 75 provinces, 34 of them supply centres, and the powers AUSTRIA, ENGLAND, FRANCE,
    GERMANY, ITALY, RUSSIA and TURKEY, which are the agents' names. Two movement phases a year, spring and fall, are
    each followed by retreats; after fall centres change hands and winter builds and disbands. Whoever then owns 18
    centres has won. A phase in which nobody has anything to do is skipped; in any other all powers act, those with
    nothing to order too. [diplomacy_rules.md](../diplomacy_rules.md) says how the rules are read.

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

    `MultiDiscrete([1082] * 17)`: for each slot, which of its listed orders is carried out. A slot is a unit that may be
    ordered, in the order of the alphabet of their provinces; nobody has more than 17, and no unit in any position has
    more than 1,082 orders. Order 0 is always the one that counts where none is given.

    | phase | slots | order 0 | further orders |
    | --- | --- | --- | --- |
    | spring, fall | the power's units | hold | moves, moves by convoy, supports, convoys |
    | spring retreats, fall retreats | its dislodged units | disband | retreats |
    | winter, builds due | its free home centres | waive | build an army, a fleet, a fleet on the other coast |
    | winter, disbands due | its units | keep it | disband |

    `infos[agent]["provinces"]` is where the slots are, int64 [n], and `infos[agent]["orders"]` their orders, a list of
    int32 arrays as `codes.py` packs them; `text(agent)` writes them out. In winter more builds than are due, or more
    disbands, are carried out in the order of the alphabet as far as they go, and disbands not ordered are chosen by
    the rules. A slot without a unit takes 0. An action that lists no order, or has the wrong shape or type, raises
    a `ValueError`, and nothing happens; with `illegal="hold"` such an order is taken for 0. A missing agent raises too.

    `submit(agent, lines)` makes an action of orders as text and says of every line what was wrong with it, if anything
    was; orders as `A PAR - BUR`, one for a unit.

    ## Observations

    `Dict`: `observation` float32 of shape (75, 62), from 0 to 1, a row for each province by the alphabet of the codes;
    `action_mask` int8 of shape (18394,), 17 times 1082, 1 for every order that may be given. `sample(action_mask)` of
    the action space draws one of them for each slot. Powers are counted from the one that looks on, in the alphabet's
    order and round again, so that the first is always oneself.

    | column | name | meaning |
    | --- | --- | --- |
    | 0 .. 6 | unit_power | whose unit is there |
    | 7 .. 10 | unit_form | an army; a fleet; a fleet on the first coast (BUL/EC, SPA/NC, STP/NC); on the second |
    | 11 .. 17 | dislodged_power | whose unit has been dislodged there and has to retreat |
    | 18 .. 21 | dislodged_form | what it is, as above |
    | 22 .. 29 | owner | who owns the supply centre, the last column for nobody; none where there is none |
    | 30 .. 36 | home | whose home centre it is |
    | 37 .. 39 | terrain | inland, coast, sea |
    | 40 | contested | in retreats: moves bounced there, and nobody may retreat to it |
    | 41 | slot | the number of the own slot there, from 1, divided by 17; else 0 |
    | 42 .. 46 | phase | spring, spring retreats, fall, fall retreats, winter; in every row, as what follows |
    | 47 | years_left | until `last_year`, divided by the years from 1901 to it |
    | 48 .. 54 | builds | in winter, how many units each power may build, divided by 17 |
    | 55 .. 61 | disbands | in winter, how many it has to disband, divided by 17 |

    ## Rewards

    `reward` names a term, or gives each of several its weight: `reward={"sum_of_squares": 10, "dense": 0.1}`. The first
    four are paid when the game ends, and a solo takes all in three of them; the last two after every phase.

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
    | lead | 2.0 | strategic | nobody owns more centres |
    | centre behind | -0.3 | strategic | each one fewer than the leader, unless leading |
    | balance | 0.5 | strategic | unless leading: 1 - std / mean of the living powers' centres, if positive |
    | threat | -0.3 | both | each own centre into which a unit of another power could move by itself |
    | unit abroad | 0.1 | both | each unit that is not in a home centre of its power |
    | dislodged | 0.5 | both, event | each unit of another power it dislodged |
    | lost | -0.5 | both, event | each unit of its own that was dislodged |
    | province | 0.2 | both, event | each province, sea or land, in which its unit is now the last that stood |

    At the beginning home centres count as their powers' provinces. Units that have to retreat are not on the board.

    These are the environment's. `train.py +run=diplomacy_ppo` has no choice of reward: its learner is paid, at every
    step, the change of what sum_of_squares would give it; `env.reward` belongs to the dogfight.

    ## Start of a game

    Spring 1901, or the position in `reset(options={"position": position})`: a snapshot of one game, such as one read by
    `saved_game.py`. Nothing in the game is left to chance, and the seed changes nothing.

    ## End of a game

    - `terminated`, for all: a power owns 18 centres after fall; for one power: it has neither units nor centres. It
      leaves, its last reward being that of this phase, and the others play on.
    - `truncated`, for all that are left: `last_year` is over. A draw.

    Every info has `centres`, the power's number of them. The last one also has `result`: won, lost, eliminated or draw.

    ## Arguments

    | argument | default | meaning |
    | --- | --- | --- |
    | last_year | 1935 | the game ends as a draw after this year, from 1901 to 30000 |
    | reward | sum_of_squares | sum_of_squares, draw_size, centres, solo, dense, strategic, or weights of several |
    | illegal | raise | what an order that is not listed does: raise, or hold |
    | render_mode | None | ansi: `render()` returns the board in words; rgb_array: as a picture |

    ## Version history

    | version | change |
    | --- | --- |
    | v0 | first release |
    """

    metadata = {  # noqa: RUF012
        "name": codes.ENV_ID,
        "render_modes": RENDER_MODES,
        "render_fps": 2,
        "is_parallelizable": True,
    }

    def __init__(
        self,
        *,
        last_year: int = 1935,
        reward: str | Mapping[str, float] = "sum_of_squares",
        illegal: str = "raise",
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            choose("render_mode", render_mode, RENDER_MODES)
        self._lenient = choose("illegal", illegal, ILLEGAL) == "hold"
        self._scorer = Scorer(reward_weights(reward))
        self._batch = DiplomacyBatch(1, last_year=last_year, threads=1)
        self.last_year = last_year
        self._slots: dict[str, list[Slot]] = {}
        self.render_mode = render_mode
        self.possible_agents = list(POWERS)
        self.agents: list[str] = []
        # One space object per agent: seeding one must not reseed the other.
        self.observation_spaces = {agent: observation_space() for agent in POWERS}
        self.action_spaces = {agent: OrderSpace() for agent in POWERS}

    def observation_space(self, agent: str) -> Dict:
        """The agent's observation space, the same object at every call."""
        return self.observation_spaces[choose("agent", agent, POWERS)]

    def action_space(self, agent: str) -> OrderSpace:
        """The agent's action space, the same object at every call."""
        return self.action_spaces[choose("agent", agent, POWERS)]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Info]]:
        """Begin a new game; `options["position"]` says from where, other keys are not this environment's.

        Raises `InputError` for a position that no game goes on from, or in which a power has more than 17 units.
        """
        start = reset_position(options)
        if start is not None:
            check_start(start, most=SLOTS, last_year=self._batch.last_year)
            self._batch.set_position(0, start)
        else:
            self._batch.reset()
        self._scorer.begin(self._batch.state)
        self.agents = [agent for agent, lives in living(self._batch).items() if lives]
        self._list()
        return observations(self._batch, self.agents, self._slots), self._infos(self.agents)

    def step(
        self, actions: dict[str, np.ndarray]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """One phase. Raises `ValueError` for a missing agent or a bad action, and then changes nothing."""
        if not self.agents:
            raise ResetNeeded("no game is running: call reset() before step()")
        acting, before = list(self.agents), self._batch.snapshot()
        orders = joint_orders(actions, self.agents, self._slots, lenient=self._lenient)
        self._batch.orders[0] = self._batch.orders.new_tensor(orders)
        self._batch.process()
        self._batch.check()
        rewards = self._scorer.score(before, self._batch.state, self._batch.results)[0]
        won, over, lives = int(self._batch.winner[0]) >= 0, bool(self._batch.done[0]), living(self._batch)
        gone = {agent: won or not lives[agent] for agent in acting}
        cut = {agent: over and not gone[agent] for agent in acting}
        self.agents = [agent for agent in acting if not (gone[agent] or cut[agent])]
        self._list()
        return (
            observations(self._batch, acting, self._slots),
            {agent: float(rewards[POWERS.index(agent)]) for agent in acting},
            gone,
            cut,
            self._infos(acting),
        )

    def submit(self, agent: str, lines: Sequence[str]) -> tuple[np.ndarray, list[Line]]:
        """An action int64 [17] from orders as text, and every line with what was wrong with it."""
        if not self.agents:
            raise ResetNeeded("no game is running: call reset() before submit()")
        return action_of(lines, agent, self._slots[choose("agent", agent, POWERS)], self.row())

    def row(self) -> dict[str, np.ndarray]:
        """The game as it stands, copies: a row of each array that a game is (`batch.STATE`)."""
        return {name: tensor[0].numpy() for name, tensor in self._batch.snapshot().items()}

    def choices(self, agent: str) -> Choices:
        """What an agent may order now, as lines with one sequence for every joint order; none once it has left."""
        power = POWERS.index(choose("agent", agent, POWERS))
        return choices(self.row(), dict(self._slots.get(agent, [])), power)

    def prompt(self, agent: str, rules: PromptRules | None = None) -> Prompt:
        """What a language model is asked for an agent's orders; its text is empty where there are none to give."""
        menu, row = self.choices(agent), self.row()
        rules, last_year = rules or PromptRules(), self.last_year
        text = render(row, menu.power, menu, rules, last_year=last_year) if menu.lines else ""
        return Prompt(text, menu, position=row, seat=menu.power)

    def text(self, agent: str | None = None) -> str:
        """The board in words, and for an agent which power it is and what it may order."""
        row = self.row()
        if agent is None:
            return board_report(row)
        orders = dict(self._slots.get(choose("agent", agent, POWERS), []))
        return f"{board_report(row)}\nYou are {agent}.\n{order_report(row, orders)}"

    def render(self) -> str | np.ndarray | None:  # type: ignore[override]
        """The board in words or as a picture uint8 [1000, 1200, 3]; None without a render mode."""
        if self.render_mode != "rgb_array":
            return None if self.render_mode is None else self.text()
        row = self.row()
        return draw_position(row["units"], row["owner"], dislodged=row["dislodged"])

    def close(self) -> None:
        """Release the simulator; a second call does nothing."""
        self._batch.close()

    def _list(self) -> None:
        """Deal the listed orders to the powers."""
        self._slots = deal(self._batch.legal_orders(0), self.row())

    def _infos(self, agents: Sequence[str]) -> dict[str, Info]:
        return {agent: info(self._batch, agent, self._slots, plays_on=agent in self.agents) for agent in agents}
