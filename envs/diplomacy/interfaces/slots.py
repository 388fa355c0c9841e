"""Slots, spaces and observations of the powers: actions become orders, orders as text become actions.

A slot is a province with its legal orders. A power has at most 17, one for each unit that may be ordered; an action of
`DiplomacyParallelEnv` holds the index of the chosen order for each. No position exceeds `MAX_ORDERS`, so masks are
always complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name, standard_board
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.observation import SHAPE
from sparring.envs.diplomacy.orders.listing import MAX_ORDERS, find, masks
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.orders.order_choices import CHOICES
from sparring.envs.diplomacy.orders.submit import Line, submit
from sparring.envs.diplomacy.prompts.report import legal_alike

Slot = tuple[int, np.ndarray]
"""A province, and the orders int32 [n] listed for it."""
Slots = dict[str, list[Slot]]
"""Slots of each power, in alphabetical order of their provinces."""
Row = Mapping[str, np.ndarray]
"""State of one game, as returned by `DiplomacyParallelEnv.row`."""
Observation = dict[str, np.ndarray]
Info = dict[str, Any]


def slots_by_power(legal_orders: Mapping[int, np.ndarray], row: Row) -> Slots:
    """Assign each province's listed orders, int32 [n], to the power of the unit there, else to the home power."""
    slots: list[list[Slot]] = [[] for _ in POWERS]
    units, home = _standing(row).tolist(), standard_board().home
    for province, listed in sorted(legal_orders.items()):
        listed.setflags(write=False)
        power = (units[province] - 1) % codes.NUM_POWERS if units[province] else int(home[province])
        slots[power].append((province, listed))
    return dict(zip(POWERS, slots, strict=True))


def joint_orders(
    actions: Mapping[str, np.ndarray], agents: Sequence[str], slots: Slots, *, lenient: bool
) -> np.ndarray:
    """Return the orders int32 [75] of all `agents` from their actions int64 [17].

    Raises `ValueError` for a missing or unknown agent and an invalid action; `lenient` counts unlisted orders as 0.
    """
    if set(actions) != set(agents):
        raise ValueError(f"actions for {list(actions)}: give one for each of {', '.join(agents)}")
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    for agent in agents:
        action = check_action(actions[agent], slots[agent], agent, lenient=lenient)
        for (province, listed), number in zip(slots[agent], action.tolist(), strict=False):
            orders[province] = listed[number]
    return orders


def action_of(lines: Sequence[str], agent: str, slots: Sequence[Slot], row: Row) -> tuple[np.ndarray, list[Line]]:
    """Return an action int64 [17] from orders as text, and every line with its problem."""
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    names = {name: row[name] for name in ("units", "dislodged", "owner", "origin")}
    answers = submit(orders, lines, power=POWERS.index(agent), phase=int(row["phase"]), **names)
    action, refused = np.zeros(SLOTS, dtype=np.int64), dict[int, str]()
    for slot, (province, listed) in enumerate(slots):
        if orders[province]:
            at = find(int(orders[province]), listed)
            action[slot] = max(at, 0)
            if at < 0:
                refused[province] = legal_alike(int(orders[province]), province, int(_standing(row)[province]), listed)
    return action, [_answer(line, refused) for line in answers]


def _standing(row: Row) -> np.ndarray:
    """Return the units [75] that may be ordered: the dislodged ones if there are any."""
    return row["dislodged" if row["dislodged"].any() else "units"]


def _answer(line: Line, refused: Mapping[int, str]) -> Line:
    """Return the line, with the legal orders as its problem if its order is readable but illegal."""
    order = None if line.problem else read_order(line.text)
    if order is None or order.province not in refused:
        return line
    return Line(line.text, f"order {line.text!r} is not legal now; legal there: {refused[order.province]}")


class OrderSpace(MultiDiscrete):
    """`MultiDiscrete([MAX_ORDERS] * 17)`; `sample` also accepts an observation's flat action mask."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__([MAX_ORDERS] * SLOTS, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.ndarray:
        """Draw a random action; with a mask int8 [17 * MAX_ORDERS] a legal one, uniform in every slot."""
        if not isinstance(mask, np.ndarray):
            return super().sample(mask, probability)
        slots, orders = np.divmod(np.flatnonzero(mask.astype(bool)), MAX_ORDERS)  # bytes are searched slowly
        counts = np.bincount(slots, minlength=SLOTS)
        picks = np.cumsum(counts) - counts + (self.np_random.random(SLOTS) * counts).astype(np.int64)
        return np.where(counts > 0, np.append(orders, 0)[np.minimum(picks, len(orders))], 0)


def observation_space() -> Dict:
    """Return the observation space of one power: the board and the action mask."""
    return Dict(
        {
            "observation": Box(0.0, 1.0, SHAPE, dtype=np.float32),
            "action_mask": MultiBinary(SLOTS * MAX_ORDERS),
        }
    )


def choice_space() -> MultiDiscrete:
    """Return the space of the actions of `MovementBatch`: a choice for each of 17 units, 0 to 36."""
    return MultiDiscrete([CHOICES] * SLOTS)


def action_masks(agents: Sequence[str], slots: Slots) -> np.ndarray:
    """Return the masks of listed orders, int8 [agents, 17 * MAX_ORDERS]; a slot without a unit allows only 0."""
    numbers = [[len(listed) for _, listed in slots[agent]] for agent in agents]
    padded = np.array([counts + [1] * (SLOTS - len(counts)) for counts in numbers], dtype=np.int64).reshape(-1, SLOTS)
    table = masks(MAX_ORDERS, torch.device("cpu")).numpy().view(np.int8)
    return table.take(padded, axis=0).reshape(len(agents), -1)


def check_action(action: Any, slots: Sequence[Slot], whose: str, *, lenient: bool = False) -> np.ndarray:
    """Return an action as int64 [17]. Raises `ValueError` for an unlisted index; with `lenient`, it becomes 0."""
    try:
        array = np.asarray(action)
    except ValueError:  # Lists of different lengths.
        raise ValueError(f"{whose}: {action!r} is not an array; give the number of an order for every slot") from None
    if array.shape != (SLOTS,):
        raise ValueError(f"{whose}: shape {array.shape} is not ({SLOTS},); give the number of an order for every slot")
    if array.dtype != np.int64 and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{whose}: type {array.dtype} is not an integer type; give the numbers of listed orders")
    most = [len(listed) for _, listed in slots] + [1] * (SLOTS - len(slots))
    wrong = [slot for slot, number in enumerate(array.tolist()) if not 0 <= number < most[slot]]
    if wrong and not lenient:
        slot = wrong[0]
        where = f" ({location_name(slots[slot][0])})" if slot < len(slots) else ", a slot without a unit,"
        raise ValueError(
            f"{whose}[{slot}]{where} = {array[slot]}: must be in [0, {most[slot] - 1}]; "
            "the observation's action_mask marks the legal ones, and infos list the orders"
        )
    array = array.astype(np.int64)
    if wrong:
        array[wrong] = 0
    return array


def living(row: Row) -> dict[str, bool]:
    """Return whether each power has a centre or a unit, including dislodged ones."""
    units = (*row["units"].tolist(), *row["dislodged"].tolist())
    powers = {(unit - 1) % codes.NUM_POWERS for unit in units if unit} | {*row["owner"].tolist()}
    return {name: power in powers for power, name in enumerate(POWERS)}


def observations(boards: np.ndarray, agents: Sequence[str], slots: Slots) -> dict[str, Observation]:
    """Return each agent's observation and mask; `boards` [7, 75, 62] are those of all powers."""
    return {
        agent: {"observation": boards[POWERS.index(agent)], "action_mask": mask}
        for agent, mask in zip(agents, action_masks(agents, slots), strict=True)
    }


def infos(
    row: Row, agents: Sequence[str], slots: Slots, *, staying: Sequence[str], lives: Mapping[str, bool]
) -> dict[str, Info]:
    """Return the agents' centres and slots, and the results of those that are not `staying`; `lives` as `living`."""
    owners, winner = row["owner"].tolist(), int(row["winner"])
    facts: dict[str, Info] = {
        agent: {
            "centres": owners.count(POWERS.index(agent)),
            "provinces": np.array([province for province, _ in slots[agent]], dtype=np.int64),
            "orders": [listed for _, listed in slots[agent]],
        }
        for agent in agents
    }
    for agent in set(agents) - set(staying):
        lost = "lost" if winner >= 0 else "draw" if lives[agent] else "eliminated"
        facts[agent]["result"] = "won" if winner == POWERS.index(agent) else lost
    return facts
