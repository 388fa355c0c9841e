"""The seven-seat environment: slots, masks, invalid actions, endings, text, and the docstring."""

import inspect
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from sparring import envs
from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.drawing import palette
from sparring.envs.diplomacy.drawing.outlines import HEIGHT, WIDTH, standard_drawing
from sparring.envs.diplomacy.interfaces.parallel_env import ILLEGAL, RENDER_MODES, DiplomacyParallelEnv, parallel_env
from sparring.envs.diplomacy.interfaces.slots import OrderSpace
from sparring.envs.diplomacy.observation import COLUMNS, SHAPE
from sparring.envs.diplomacy.orders.listing import MAX_ORDERS
from sparring.envs.diplomacy.orders.notation import read_unit, write_order
from sparring.envs.diplomacy.rewards import scoring
from sparring.envs.diplomacy.rewards.scoring import STEPS, TERMS

BOARD = standard_board()
DOC = inspect.getdoc(DiplomacyParallelEnv)
WIDTHS = dict(COLUMNS)
STARTS = {name: sum(size for _, size in COLUMNS[:number]) for number, (name, _) in enumerate(COLUMNS)}


def at(name):
    return BOARD.provinces.index(name)


def column(obs, name, province):
    """Return the columns with this name in a province's row."""
    return obs["observation"][at(province), STARTS[name] : STARTS[name] + WIDTHS[name]].tolist()


def one(index, size):
    return [float(number == index) for number in range(size)]


def hold(env):
    return {agent: np.zeros(SLOTS, dtype=np.int64) for agent in env.agents}


def written(env, **lines):
    """Return actions from text, with all other powers holding; no line may be rejected."""
    actions = hold(env)
    for agent, text in lines.items():
        actions[agent], answers = env.submit(agent, text.split(", "))
        assert [line.problem for line in answers] == [""] * len(answers)
    return actions


def start(phase=codes.SPRING, year=1902, centres=None, **held):
    """Return a position with these units and centre owners."""
    state = opening()
    for name in ("units", "dislodged"):
        state[name][:] = 0
    state["year"][:], state["phase"][:], state["owner"][:] = year, phase, -1
    for power, names in held.items():
        for name in names.split(", "):
            province, code = read_unit(name, POWERS.index(power))
            state["units"][0, province] = code
    for power, names in (centres or {}).items():
        state["owner"][0, [BOARD.centre_of[at(name)] for name in names.split()]] = POWERS.index(power)
    return {"position": state}


def test_slots_are_alphabetical_units_and_mask_matches_lists():
    env = parallel_env()
    obs, infos = env.reset(seed=1)
    assert list(obs) == list(infos) == env.agents == list(POWERS)
    for agent, info in infos.items():
        mask = obs[agent]["action_mask"].reshape(SLOTS, MAX_ORDERS)
        count = len(info["provinces"])
        assert count == info["centres"] == (4 if agent == "RUSSIA" else 3)
        assert info["provinces"].tolist() == sorted(info["provinces"].tolist())
        assert mask.sum(axis=1).tolist() == [len(orders) for orders in info["orders"]] + [1] * (SLOTS - count)
        assert (mask[:, 0] == 1).all()
        # What a step takes an action's numbers for cannot be changed from outside.
        assert not any(orders.flags.writeable for orders in info["orders"])
    assert [BOARD.provinces[place] for place in infos["RUSSIA"]["provinces"]] == ["MOS", "SEV", "STP", "WAR"]
    env.close()


def test_observations_show_board_from_own_side():
    env = parallel_env(last_year=1911)
    obs, _ = env.reset()
    assert obs["FRANCE"]["observation"].shape == SHAPE
    france = obs["FRANCE"]
    assert column(france, "unit_power", "PAR") == one(0, 7)
    assert column(france, "unit_form", "PAR") == one(0, 4)
    assert column(france, "unit_power", "MUN") == one(1, 7)
    assert column(france, "unit_power", "LON") == one(6, 7)
    assert column(obs["TURKEY"], "unit_power", "VIE") == one(1, 7)
    assert column(france, "unit_form", "STP") == one(3, 4)
    assert column(france, "unit_form", "BUR") == column(france, "dislodged_form", "PAR") == [0.0] * 4
    assert column(france, "owner", "BRE") == one(0, 8)
    assert column(france, "owner", "BEL") == one(7, 8)
    assert column(france, "owner", "BUR") == [0.0] * 8
    assert column(france, "home", "STP") == one(3, 7)
    assert [column(france, "terrain", name).index(1.0) for name in ("PAR", "BRE", "NTH")] == [0, 1, 2]
    assert [column(france, "slot", name)[0] for name in ("BRE", "MAR", "PAR", "MUN")] == pytest.approx(
        [1 / 17, 2 / 17, 3 / 17, 0]
    )
    assert column(france, "phase", "NAF") == one(0, 5)
    assert column(france, "years_left", "NAF") == [1.0]
    obs, *_ = env.step(hold(env))
    assert column(obs["ITALY"], "phase", "NAF") == one(2, 5)
    env.close()


def test_movement_is_followed_by_retreat():
    env = parallel_env(reward="dense")
    env.reset(options=start(FRANCE="A BUR, A RUH, A MAR", GERMANY="A MUN, F KIE", centres={"FRANCE": "PAR MAR BRE"}))
    assert env.agents == ["FRANCE", "GERMANY"]
    obs, reward, gone, cut, infos = env.step(written(env, FRANCE="A BUR - MUN, A RUH S A BUR - MUN, A MAR - SPA"))
    # Two provinces new to France, Munich and Spain, and a unit dislodged; three units are abroad now.
    assert reward["FRANCE"] == pytest.approx(2 * 0.2 + 0.5 + 0.1)
    assert reward["GERMANY"] == pytest.approx(-0.5 - 0.3)
    assert not any(gone.values())
    assert not any(cut.values())
    germany = obs["GERMANY"]
    assert column(germany, "dislodged_power", "MUN") == one(0, 7)
    assert column(germany, "unit_power", "MUN") == one(6, 7)
    assert column(germany, "slot", "MUN") == pytest.approx([1 / 17])
    assert len(infos["FRANCE"]["orders"]) == 0
    words = [write_order(order, at("MUN"), 1) for order in infos["GERMANY"]["orders"][0].tolist()]
    assert words == ["A MUN D", "A MUN R BER", "A MUN R BOH", "A MUN R SIL", "A MUN R TYR"]
    obs, reward, *_ = env.step(written(env, GERMANY="A MUN R TYR"))
    assert column(obs["GERMANY"], "unit_power", "TYR") == one(0, 7)
    assert reward == {"FRANCE": 0.0, "GERMANY": pytest.approx(0.3 + 0.1 + 0.2)}
    assert env.text().startswith("F1902M")
    env.close()


def test_winter_has_slot_per_free_home_and_waives_by_default():
    env = parallel_env()
    state = start(
        codes.WINTER, FRANCE="A BUR", RUSSIA="A MOS, A UKR", centres={"FRANCE": "PAR MAR BEL", "RUSSIA": "MOS"}
    )
    obs, infos = env.reset(options=state)
    assert column(obs["FRANCE"], "builds", "NAF") == pytest.approx([2 / 17, 0, 0, 0, 0, 0, 0])
    assert column(obs["FRANCE"], "disbands", "NAF") == pytest.approx([0, 0, 0, 1 / 17, 0, 0, 0])
    assert [BOARD.provinces[place] for place in infos["FRANCE"]["provinces"]] == ["MAR", "PAR"]
    assert [len(orders) for orders in infos["FRANCE"]["orders"]] == [3, 2]
    assert "MAR: WAIVE, A MAR B, F MAR B" in env.text("FRANCE")
    assert "MOS: keep A MOS, A MOS D" in env.text("RUSSIA")
    env.step(written(env, FRANCE="F MAR B, WAIVE", RUSSIA="A UKR D"))
    assert "FRANCE: 3 centres BEL MAR PAR; 2 units A BUR, F MAR\n" in env.text()
    assert "RUSSIA: 1 centres MOS; 1 units A MOS\n" in env.text()
    env.close()


def test_solo_ends_game_for_all():
    env = parallel_env(reward={"sum_of_squares": 2.0})
    centres = [BOARD.provinces[place] for place in BOARD.centres]
    state = start(
        codes.FALL,
        TURKEY="A SER, A GRE",
        ITALY="A ROM",
        centres={"TURKEY": " ".join(name for name in centres if name not in ("SER", "ROM"))[: 17 * 4], "ITALY": "ROM"},
    )
    env.reset(options=state)
    _, reward, gone, cut, infos = env.step(hold(env))
    assert gone == {"ITALY": True, "TURKEY": True}
    assert cut == {"ITALY": False, "TURKEY": False}
    assert reward == {"ITALY": 0.0, "TURKEY": 2.0}
    assert (infos["ITALY"]["result"], infos["TURKEY"]["result"]) == ("lost", "won")
    assert env.agents == []
    assert env.text().startswith("1902 is over: TURKEY has won\n")
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step({})
    env.reset()
    env.close()
    with pytest.raises(ResetNeeded, match="the environment is closed: make a new one"):
        env.step(hold(env))


def test_eliminated_power_leaves_and_others_play_to_draw():
    env = parallel_env(last_year=1902)
    state = start(
        codes.FALL, FRANCE="A BUR, A RUH", GERMANY="A MUN", ITALY="A TYR, A BOH", centres={"FRANCE": "PAR BRE"}
    )
    env.reset(options=state)
    _, _, gone, _, _ = env.step(written(env, FRANCE="A BUR - MUN, A RUH S A BUR - MUN"))
    assert not any(gone.values())
    obs, reward, gone, cut, infos = env.step(hold(env))
    assert gone == {"FRANCE": False, "GERMANY": True, "ITALY": False}
    assert infos["GERMANY"]["result"] == "eliminated"
    assert reward["GERMANY"] == 0.0
    assert set(obs) == {"FRANCE", "GERMANY", "ITALY"}
    assert env.agents == ["FRANCE", "ITALY"]
    _, reward, gone, cut, infos = env.step(hold(env))
    assert gone == {"FRANCE": False, "ITALY": True}
    assert cut == {"FRANCE": True, "ITALY": False}
    assert infos["FRANCE"]["result"] == "draw"
    assert reward == {"FRANCE": 1.0, "ITALY": 0.0}
    env.close()


BAD = np.zeros(SLOTS, dtype=np.int64)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(3, dtype=int), r"FRANCE: shape \(3,\) is not \(17,\); give the number of an order for every slot"),
        ([[1], [2, 3]], r"FRANCE: \[\[1\], \[2, 3\]\] is not an array; give the number of an order for every slot"),
        (np.zeros(SLOTS), "FRANCE: type float64 is not an integer type; give the numbers of listed orders"),
        ([*[0] * 2, 11, *[0] * 14], r"FRANCE\[2\] \(PAR\) = 11: must be in \[0, 10\]; the observation's action_mask"),
        ([-1, *[0] * 16], r"FRANCE\[0\] \(BRE\) = -1: must be in \[0, 8\]"),
        ([*[0] * 5, 1, *[0] * 11], r"FRANCE\[5\], a slot without a unit, = 1: must be in \[0, 0\]"),
    ],
)
def test_bad_actions_are_named_and_change_nothing(action, message):
    env = parallel_env()
    env.reset()
    before = env.text()
    with pytest.raises(ValueError, match=message):
        env.step({**hold(env), "FRANCE": action})
    assert env.text() == before
    assert not env._batch.orders.any()
    env.close()


def test_all_agents_must_act():
    env = parallel_env()
    env.reset()
    with pytest.raises(ValueError, match=r"actions for \['FRANCE'\]: give one for each of AUSTRIA, ENGLAND"):
        env.step({"FRANCE": BAD})
    env.close()


def test_unlisted_orders_can_become_holds():
    env = parallel_env(illegal="hold")
    env.reset()
    wild = {agent: np.full(SLOTS, MAX_ORDERS - 1) for agent in env.agents}
    env.step(wild)
    assert env.text().splitlines()[1:] == parallel_text().splitlines()[1:]
    env.close()


def parallel_text():
    env = parallel_env()
    env.reset()
    text = env.text()
    env.close()
    return text


def test_text_orders_become_action_and_every_line_is_answered():
    env = parallel_env()
    env.reset()
    lines = ["a par - bur", "F BRE - PAR", "A MUN H", "A MAR S A PAR - BUR", "A LON"]
    action, answers = env.submit("FRANCE", lines)
    assert [line.text for line in answers] == lines
    assert [line.problem for line in answers] == [
        "",
        "order 'F BRE - PAR' is not legal now; legal there: F BRE - ENG, F BRE - GAS, F BRE - MAO, F BRE - PIC",
        "FRANCE cannot order a unit in MUN: none of its units stands there",
        "",
        "order 'A LON': says nothing to do; add H, - and a place, S, C, R, D or B",
    ]
    orders = env.reset()[1]["FRANCE"]["orders"]
    chosen = [
        write_order(int(listed[number]), 0, 1)[6:] for listed, number in zip(orders, action.tolist(), strict=False)
    ]
    assert chosen == ["H", "S PAR - BUR", "- BUR"]
    assert action in env.action_space("FRANCE")
    with pytest.raises(UnknownNameError, match="unknown agent 'Frankreich'"):
        env.submit("Frankreich", [])
    env.close()


def test_orders_are_accepted_only_in_running_game():
    env = parallel_env(last_year=1901)
    with pytest.raises(ResetNeeded, match=r"no game is running: call reset\(\) before submit\(\)"):
        env.submit("FRANCE", ["A PAR H"])
    env.reset(options=start(codes.WINTER, 1901, FRANCE="A PAR"))
    env.step(hold(env))
    assert env.agents == []
    with pytest.raises(ResetNeeded, match=r"no game is running"):
        env.submit("FRANCE", ["A PAR H"])
    env.close()


def test_render_shows_current_board():
    env = parallel_env(render_mode="rgb_array")
    env.reset(options=start(FRANCE="A BUR, A RUH", GERMANY="A MUN"))
    before = env.render()
    assert (before.shape, before.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
    env.step(written(env, FRANCE="A BUR - MUN, A RUH S A BUR - MUN"))
    after = env.render()
    x, y = (int(value) for value in standard_drawing().units[at("BUR")])
    where = np.s_[y - 9 : y + 9, x - 9 : x + 9]
    there = [(picture[where] == palette.POWER_COLORS[2]).all(axis=-1).sum() for picture in (before, after)]
    assert there[0] > 40
    assert there[1] == 0
    # The dislodged army of Munich has a red edge.
    assert [(picture == palette.FAILURE).all(axis=-1).sum() > 20 for picture in (before, after)] == [False, True]
    env.close()


def test_text_is_deterministic_and_lists_orders_on_request():
    one, other = parallel_env(render_mode="ansi"), parallel_env()
    for env in (one, other):
        env.reset()
        env.step(written(env, FRANCE="A PAR - BUR", RUSSIA="F STP/SC - BOT"))
    assert one.text("ITALY") == other.text("ITALY")
    assert one.render() == one.text()
    assert other.render() is None
    text = one.text("ITALY")
    assert text.startswith("F1901M: fall 1901\nAUSTRIA: 3 centres BUD TRI VIE; 3 units A BUD, F TRI, A VIE\n")
    assert "Nobody: centres BEL BUL DEN" in text
    assert "You are ITALY.\nLegal orders:\nNAP: F NAP H, F NAP - APU" in text
    assert "Legal orders" not in one.text()
    with pytest.raises(UnknownNameError, match="unknown agent 'Italy': choose from AUSTRIA"):
        one.text("Italy")


def test_retreat_text_names_both_units():
    env = parallel_env()
    env.reset(options=start(FRANCE="A BUR, A RUH", GERMANY="A MUN", ITALY="A VEN", AUSTRIA="A VIE"))
    env.step(written(env, FRANCE="A BUR - MUN, A RUH S A BUR - MUN", ITALY="A VEN - TYR", AUSTRIA="A VIE - TYR"))
    text = env.text("GERMANY")
    assert "\nDislodged: GERMANY A MUN, by FRANCE from BUR\nNobody may retreat to: TYR\nYou are GERMANY.\n" in text
    assert text.endswith("Legal orders:\nMUN: A MUN D, A MUN R BER, A MUN R BOH, A MUN R KIE, A MUN R SIL")
    assert env.text("FRANCE").endswith("You are FRANCE.\nLegal orders: none")
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "squares"}, "unknown reward 'squares'"),
        ({"illegal": "ignore"}, "unknown illegal 'ignore': choose from raise, hold"),
        ({"render_mode": "movie"}, "unknown render_mode 'movie': choose from ansi, rgb_array, human"),
        ({"last_year": 1900}, r"last_year=1900: must be a whole number in \[1901, 30000\]"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        parallel_env(**arguments)


def crowd():
    land = [code for code, terrain in zip(BOARD.provinces, BOARD.terrain, strict=True) if terrain != 2]
    return ", ".join(f"A {code}" for code in land[:18])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positon": 1}, "unknown reset option 'positon'.*did you mean 'position'"),
        (start(year=1936, FRANCE="A PAR"), "position: year=1936 is after last_year=1935"),
        (start(FRANCE=crowd()), "position: units of FRANCE: 18; a power has at most 17"),
        (start(phase=7, FRANCE="A PAR"), r"phase=7: must be in \[0, 4\]"),
    ],
)
def test_bad_starts_are_rejected_without_changes(options, message):
    env = parallel_env()
    env.reset()
    before = env.text()
    with pytest.raises(InputError, match=message):
        env.reset(options=options)
    assert env.text() == before
    env.close()


def test_space_samples_legal_orders_uniformly():
    space = OrderSpace(seed=1)
    mask = np.zeros((SLOTS, MAX_ORDERS), dtype=np.int8)
    mask[:, 0] = 1
    mask[3, [5, 9]] = 1
    mask[16, :] = 0
    drawn = np.array([space.sample(mask.reshape(-1)) for _ in range(3000)])
    assert set(drawn[:, 3].tolist()) == {0, 5, 9}
    assert min(np.bincount(drawn[:, 3])[[0, 5, 9]]) > 850
    assert not drawn[:, [0, 1, 2, *range(4, 17)]].any()
    assert not space.sample(np.zeros_like(mask).reshape(-1)).any()
    assert space.sample() in space
    assert space.sample(tuple(np.eye(1, MAX_ORDERS, 4, dtype=np.int8)[0] for _ in range(SLOTS))).tolist() == [4] * SLOTS


# The docstring is the documentation page


def tables(heading):
    """Return the tables under a heading: lists of rows, each a dict from column title to text."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL).group(1)
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", section, re.MULTILINE):
        head, _, *rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")] for line in block.splitlines()]
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def test_documented_observation_columns_match_code():
    rows, begin = tables("Observations")[0], 0
    for row, (name, size) in zip(rows, COLUMNS, strict=True):
        ends = [int(end) for end in re.findall(r"\d+", row["column"])]
        assert (row["name"], ends[0], ends[-1]) == (name, begin, begin + size - 1)
        begin += size
    assert begin == SHAPE[1] == 62


def test_documented_reward_terms_and_weights_match_code():
    terms, parts = tables("Rewards")
    assert [row["term"] for row in terms] == list(TERMS)
    assert {row["term"] for row in terms if row["paid"] == "every phase"} == set(STEPS)
    said = {(row["part"], row["in"]): float(row["weight"]) for row in parts}
    assert said == {
        ("centre", "dense"): scoring.PER_CENTRE,
        ("unit", "dense"): scoring.PER_UNIT,
        ("unit", "strategic"): scoring.STRATEGIC_PER_UNIT,
        ("lead", "strategic"): scoring.PER_LEAD,
        ("centre behind", "strategic"): -scoring.PER_CENTRE_BEHIND,
        ("balance", "strategic"): scoring.PER_BALANCE,
        ("threat", "both"): -scoring.PER_THREAT,
        ("unit abroad", "both"): scoring.PER_UNIT_ABROAD,
        ("dislodged", "both, event"): scoring.PER_DISLODGED,
        ("lost", "both, event"): -scoring.PER_LOST,
        ("province", "both, event"): scoring.PER_PROVINCE,
    }


def test_documented_arguments_match_signature():
    said = {row["argument"]: row["default"] for row in tables("Arguments")[0]}
    signature = inspect.signature(DiplomacyParallelEnv.__init__).parameters.values()
    assert said == {p.name: str(p.default) for p in signature if p.kind is p.KEYWORD_ONLY}
    meanings = {row["argument"]: row["meaning"] for row in tables("Arguments")[0]}
    for argument, choices in {"reward": TERMS, "illegal": ILLEGAL, "render_mode": RENDER_MODES}.items():
        assert [choice for choice in choices if not re.search(rf"\b{choice}\b", meanings[argument])] == []


def test_facts_in_prose_match_code():
    text = " ".join(DOC.split())
    assert f"MultiDiscrete([{MAX_ORDERS}] * {SLOTS})" in text
    assert f"{MAX_ORDERS:,} orders" in text
    assert f"of shape {SHAPE}" in text
    assert f"({SLOTS * MAX_ORDERS},), {SLOTS} times {MAX_ORDERS}" in text
    assert all(power in text for power in POWERS)
    assert "This environment is for PettingZoo" in text[:200]
    assert codes.ENV_ID not in gymnasium.registry
    assert [row["phase"] for row in tables("Actions")[0]] == [
        *("spring, fall", "spring retreats, fall retreats", "winter, builds due", "winter, disbands due")
    ]
    assert codes.ENV_ID.endswith("-" + tables("Version history")[0][-1]["version"])
    assert envs.PARALLEL[codes.ENV_ID].endswith(DiplomacyParallelEnv.__name__)
    assert DiplomacyParallelEnv.metadata["name"] == codes.ENV_ID == "sparring/Diplomacy-v0"


def test_docstring_python_runs():
    (code,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    names = {}
    exec(compile(code.replace("1910", "1902"), "docstring", "exec"), names)
    assert names["env"].agents == []


def test_page_is_written():
    page = Path(__file__).resolve().parents[4] / "docs" / "envs" / "diplomacy.md"
    assert DOC in page.read_text(encoding="utf-8")
