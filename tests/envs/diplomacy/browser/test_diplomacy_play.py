"""Diplomacy with a person: drafts, illegal orders, hostile messages, every opponent kind, save and resume."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import torch

from sparring.agents.language.backend import Decision
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.board.codes import ENV_ID
from sparring.envs.diplomacy.browser.command import DiplomacyPlayOptions, find_players, host
from sparring.envs.diplomacy.browser.hosted import HostedDiplomacy
from sparring.envs.diplomacy.browser.live_game import HumanSeat, LiveDiplomacy, PhaseOpponents, load_opponents
from sparring.envs.diplomacy.evaluation.lineup import YOU, new_lineup, resumed_lineup
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.records.saved_game import load, read_game
from sparring.envs.diplomacy.training.opponents import POLICY, LanguagePlayer, PolicyOrders, PythonOrders
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.eval import play
from sparring.eval.browser.server import answer
from sparring.eval.options import pair_of, parse
from tests.configs import messages
from tests.envs.diplomacy.evaluation.language_players import make_run

HOMES = {"PAR", "MUN", "BER", "KIE", "MOS"}
FRANCE = POWERS.index("FRANCE")
PLAYERS = tuple("script" if power != FRANCE else None for power in range(7))


SMALL = {"units": {"FRANCE": ["A PAR"], "GERMANY": ["A MUN"]}, "centers": {"FRANCE": ["PAR"], "GERMANY": ["MUN"]}}
"""A position as the package `diplomacy` writes it."""


def game(tmp_path, player="dumbbot", *, seed=1, last_year=1903, past=()):
    """Return a game of France against six copies of a player: a bot name, a function, or a language model."""
    player = player if isinstance(player, str | LanguagePlayer) else PythonOrders(player, "script")
    seat = HumanSeat(FRANCE, tuple(YOU if p == FRANCE else "dumbbot" for p in range(7)), tmp_path / "game.json")
    opponents = PhaseOpponents(PLAYERS, {"script": player})
    return LiveDiplomacy(seat, opponents, seed=seed, last_year=last_year, past=past)


def drafts(live):
    return [option.text for option in live.drafts.values()]


def drafted(live, text):
    live.draft(text)
    return drafts(live)


def quiet(_):
    """Consume a line about pending work."""


# ---- the game


def test_orders_are_drafted_in_any_spelling_and_undone(tmp_path):
    live = game(tmp_path)
    for text in ("a par-bur", "Army Marseilles supports A PAR - BUR", "bre - mao"):
        live.draft(text)
    assert drafts(live) == ["A PAR - BUR", "A MAR S PAR - BUR", "F BRE - MAO"]
    live.draft("A PAR H")
    assert sorted(drafts(live)) == ["A MAR S PAR - BUR", "A PAR H", "F BRE - MAO"]
    live.undo()
    live.drop("BRE")
    assert drafts(live) == ["A PAR - BUR", "A MAR S PAR - BUR"]
    live.clear()
    live.undo()
    assert drafts(live) == ["A PAR - BUR", "A MAR S PAR - BUR"]
    live.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A PAR - LON", "is not legal now; legal there: A PAR - "),
        ("A MUN - BUR", "FRANCE cannot order anything in MUN"),
        ("F PAR - BUR", "the unit in PAR is A PAR"),
        ("A PAR B", "is not legal now"),
        ("A PAR R BUR", "is not legal now"),
        ("A PAR S A BUD - SER", "is not legal now"),
        ("A PAR fly BUR", "PAR FLY BUR"),
        ("WAIVE", "leave it out"),
        ("", "an empty order"),
        ("A PAR - BUR\nA MAR - BUR", "cannot be read"),
    ],
)
def test_illegal_order_is_rejected_in_one_line(text, words, tmp_path):
    live = game(tmp_path)
    with pytest.raises(InputError, match=r".") as caught:
        live.draft(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert live.drafts == {}
    live.close()


def test_game_is_saved_each_phase_and_resumes_identically(tmp_path):
    whole = game(tmp_path / "whole")
    (tmp_path / "whole").mkdir()
    for phases in (2, 99):
        while not whole.over and len(whole.phases) <= phases:
            for menu in whole.choices.options[: whole.choices.lines]:
                whole.draft(menu[-1].text)
            whole.advance(quiet)
        if phases == 2:
            past = load(whole.seat.file)
            cut = game(tmp_path, past=past)
            assert (cut.phases, cut.choices) == (whole.phases, whole.choices)
    while not cut.over:
        for menu in cut.choices.options[: cut.choices.lines]:
            cut.draft(menu[-1].text)
        cut.advance(quiet)
    assert whole.phases[-1]["name"] == "END"
    assert cut.seat.file.read_text() == whole.seat.file.read_text()
    assert json.loads(cut.seat.file.read_text())["players"]["FRANCE"] == "You"
    assert whole.problem == ""
    for one in (whole, cut):
        one.close()


def test_unsaveable_game_is_reported_and_continues(tmp_path):
    live = game(tmp_path / "nowhere")
    live.advance(quiet)
    assert live.phases[-1]["name"] != "S1901M"
    assert live.problem.startswith(f"not saved: {tmp_path / 'nowhere' / 'game.json'}: missing folder")
    live.close()


def test_game_beyond_last_year_is_rejected(tmp_path):
    live = game(tmp_path)
    while live.phases[-1]["name"] != "S1902M":
        live.advance(quiet)
    with pytest.raises(InputError, match=r"--last-year 1901: the game is in 1902 already"):
        game(tmp_path, last_year=1901, past=load(live.seat.file))
    live.close()


def test_new_game_reserves_free_name_and_keeps_package_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = ["--power", "FRANCE", "--quiet", "--device", "cpu"]
    package = {"map": "standard", "phases": [{"name": "S1901M", "state": SMALL, "orders": {}, "results": {}}]}
    (tmp_path / "package.json").write_text(json.dumps(package))
    for number, arguments in enumerate([[], [], ["--resume", "package.json"]], start=1):
        options = parse(DiplomacyPlayOptions, [*quick, *arguments])
        hosted = host(options, find_players(options))
        assert hosted._game.seat.file == Path("replays") / f"diplomacy-{number}.json"
        assert len(load(hosted._game.seat.file)) == 1
        hosted._game.close()
    assert json.loads((tmp_path / "package.json").read_text()) == package
    options = parse(DiplomacyPlayOptions, [*quick, "--resume", "replays/diplomacy-3.json"])
    hosted = host(options, None)
    assert hosted._game.seat.file == Path("replays/diplomacy-3.json")
    assert drafted(hosted._game, "A PAR - BUR") == ["A PAR - BUR"]
    hosted._game.close()


# ---- opponents


class LastOption:
    """A language model that always takes the last option and records its powers."""

    def __init__(self):
        self.asked = []

    def decide(self, prompts):
        self.asked.append([POWERS[prompt.seat] for prompt in prompts])
        menus = [prompt.menu for prompt in prompts]
        return [Decision(tuple(menu.menu(line)[-1] for line in range(menu.lines))) for menu in menus]


def test_language_model_orders_for_all_its_powers_at_once(tmp_path):
    model, told = LastOption(), []
    live = game(tmp_path, LanguagePlayer({POLICY: model}, PromptRules(), {}, 1))
    live.draft("A PAR - BUR")
    live.advance(told.append)
    others = [power for power in POWERS if power != "FRANCE"]
    assert model.asked == [others]
    assert told == [f"script thinks about {', '.join(others)}"]
    first = json.loads(live.seat.file.read_text())["phases"][0]["orders"]
    assert first["FRANCE"] == ["A PAR - BUR"]
    assert {power: len(orders) for power, orders in first.items()} == dict.fromkeys(others, 3) | {
        "RUSSIA": 4,
        "FRANCE": 1,
    }
    live.close()


def test_opponents_do_not_see_drafts_and_failure_changes_nothing(tmp_path):
    seen = []

    def act(view):
        seen.append((view.power, view.text))
        return ["A LON - PAR"] if len(seen) == 1 else []

    live = game(tmp_path, act)
    live.draft("A PAR - PIC")
    with pytest.raises(InputError, match="opponent script, as AUSTRIA in S1901M: 'A LON - PAR' cannot be carried out"):
        live.advance(quiet)
    assert (live.phases[-1]["name"], drafts(live)) == ("S1901M", ["A PAR - PIC"])
    assert not live._batch.orders.any()
    live.advance(quiet)
    assert live.phases[-1]["name"] == "F1901M"
    assert not any("PIC" in text.partition("Legal orders")[0] for _, text in seen)
    live.close()


def test_policies_adapters_and_objects_play_together(tmp_path):
    """The policy's moves come from its network, and all orders are legal, or saving would fail."""
    network = OrderNetwork(NetworkConfig(hidden=4, blocks=1))
    contract = {"id": ENV_ID, "version": 1, "obs_dim": network.obs_dim, "continuous": 0, "binary": 0}
    save_checkpoint(policy := tmp_path / "policy.pt", network, contract=contract, training={})
    adapter = make_run(tmp_path)
    words = [f"GERMANY={adapter}", f"ITALY={policy}", "RUSSIA=tests.agents.opponents.powers:Holder", "random"]
    lineup = new_lineup("FRANCE", [*map(pair_of, words)], 0)
    opponents = load_opponents(lineup.players, temperature=0.0, settings={}, device="cpu")
    seat = HumanSeat(FRANCE, lineup.names, tmp_path / "game.json")
    live = LiveDiplomacy(seat, opponents, seed=1, last_year=1905)
    told = []
    while live.phases[-1]["name"] != "S1902M":
        live.advance(told.append)
    assert live.problem == ""
    phases = json.loads(seat.file.read_text())["phases"]
    batch = DiplomacyBatch(1, last_year=1905, threads=1)
    PolicyOrders(network).write(batch, torch.tensor([[power == "ITALY" for power in POWERS]]))
    orders = {int(place): int(batch.orders[0, place]) for place in batch.orders[0].nonzero()}
    units = batch.units[0].tolist()
    assert phases[0]["orders"]["ITALY"] == [write_order(order, place, units[place]) for place, order in orders.items()]
    assert set(phases[0]["orders"]["RUSSIA"]) == {"F SEV H", "F STP/SC H", "A MOS H", "A WAR H"}
    assert len(phases[0]["orders"]["GERMANY"]) == 3
    assert {line.partition(" thinks")[0].partition(" orders")[0] for line in told} == set(lineup.names) - {
        YOU,
        "random",
    }
    for one in (live, batch):
        one.close()


def test_players_are_seated_from_arguments():
    lineup = new_lineup("france", [("GERMANY", "chaos"), ("", "random"), ("", "bot:dumbbot")], 0)
    assert lineup.names == ("random", "dumbbot", YOU, "chaos", "random", "dumbbot", "random")
    assert {new_lineup(None, (), seed).power for seed in range(40)} == set(range(7))
    assert new_lineup(None, (), 5) == new_lineup(None, (), 5)


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_play"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    check_row(play.main, row)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.5, "settings": {}}, "--temperature: no opponent"),
        ({"temperature": None}, "--set: applies only to"),
    ],
)
def test_options_unused_by_opponents_are_rejected(options, words):
    given = {"settings": {"model": {"compact": False}}} | options
    with pytest.raises(InputError, match=words):
        load_opponents(["dumbbot"] * 6 + [None], device="cpu", **given)


def test_saved_game_names_players_but_runs_no_code(tmp_path):
    file = tmp_path / "game.json"
    stored = ("dumbbot", "", YOU, "chaos", "random", "my_bots:Wall", "")
    assert resumed_lineup(file, ("dumbbot", "", YOU, "chaos", "random", "", ""), None, ()).names[:4] == (
        *("dumbbot", "dumbbot", YOU, "chaos"),
    )
    with pytest.raises(InputError, match="RUSSIA was played by my_bots:Wall, which is code; name it again"):
        resumed_lineup(file, stored, None, ())
    assert resumed_lineup(file, stored, "RUSSIA", ()).names[2:6] == ("dumbbot", "chaos", "random", YOU)
    named = resumed_lineup(file, stored, None, [("RUSSIA", "my_bots:Wall"), ("", "random")])
    assert (named.power, named.names[5], named.names[0]) == (FRANCE, "my_bots:Wall", "random")
    with pytest.raises(InputError, match=r"ITALY was played by http://127.0.0.1:1/v1, which is a server"):
        resumed_lineup(file, ("", "", YOU, "", "http://127.0.0.1:1/v1", "", ""), None, ())
    with pytest.raises(InputError, match="does not name your power; give --power"):
        resumed_lineup(file, ("",) * 7, None, ())
    with pytest.raises(InputError, match=r"game.json: unknown opponent 'gone-run'.*; or give --opponents"):
        resumed_lineup(file, ("", "", YOU, "gone-run", "", "", ""), None, ())


# ---- messages


def talk(live, messages, *, ends=None):
    """Send a page's messages and return the answers after the first two; `ends` is the last note."""
    told = []

    async def main():
        async def send(message):
            told.append(message)

        connection = HostedDiplomacy(live, lambda: live).connect(send)
        loop = asyncio.create_task(connection.run())
        await asyncio.sleep(0)
        del told[:2]
        for message in messages:
            await answer(connection, message if isinstance(message, str) else json.dumps(message), send)
        while ends is not None and (told[-1]["kind"], told[-1].get("text")) != ("note", ends):
            await asyncio.sleep(0.01)
        loop.cancel()
        connection.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    return told


SUBMIT = {"kind": "submit", "phase": "S1901M"}


def test_wrong_message_is_answered_with_note_without_changes(tmp_path):
    wrong = {
        "{": "not understood",
        "[" * 4000: "not understood",
        "null": "message",
        '{"kind": "quit"}': "message.kind",
        '{"kind": "order"}': "message.text is missing",
        '{"kind": "order", "text": 7}': "message.text",
        json.dumps({"kind": "order", "text": "A" * 4001}): "message.text",
        '{"kind": "order", "text": "A PAR - LON"}': "is not legal now",
        '{"kind": "order", "text": "A MUN - BUR"}': "anything in MUN",
        '{"kind": "drop", "place": "PAR"}': "PAR does not have an order",
        '{"kind": "undo"}': "nothing to undo",
        '{"kind": "submit"}': "is not the current phase",
        '{"kind": "submit", "phase": "F1901M"}': "is not the current phase",
    }
    live = game(tmp_path)
    told = talk(live, list(wrong))
    assert [message["kind"] for message in told] == ["note"] * len(wrong)
    for message, words in zip(told, wrong.values(), strict=True):
        assert words in message["text"]
    assert (live.phases[-1]["name"], live.drafts, live.seat.file.exists()) == ("S1901M", {}, False)
    live.close()


def test_turn_lists_legal_orders_and_submit_returns_results(tmp_path):
    live = game(tmp_path, lambda view: [])
    told = talk(live, [{"kind": "order", "text": "A PAR - BUR"}, SUBMIT], ends="")
    kinds = [message["kind"] for message in told]
    assert kinds == ["turn", "turn", *["thinking"] * 6, "phases", "turn", "note"]
    drafted, thinking, *_, results, turn, note = told
    assert drafted["orders"] == [{"place": "PAR", "text": "A PAR - BUR"}]
    assert [mark["text"] for mark in drafted["marks"]] == ["A PAR - BUR"]
    assert ["A MAR S PAR - BUR", "support", "BUR", "PAR"] in drafted["options"]["MAR"]
    assert thinking["state"] == "thinking"
    assert [phase["name"] for phase in results["phases"]] == ["S1901M", "F1901M"]
    assert "A PAR - BUR" in [outcome["text"] for outcome in results["phases"][0]["outcomes"]]
    assert (turn["state"], turn["phase"], turn["orders"], note["text"]) == ("ordering", "F1901M", [], "")
    live.close()


def test_messages_are_ignored_while_others_order(tmp_path):
    live = game(tmp_path)
    told = talk(live, [SUBMIT, {"kind": "order", "text": "A PAR - BUR"}, {"kind": "new"}], ends="")
    assert [message.get("text") for message in told[1:3]] == ["the others are ordering; wait for the results"] * 2
    assert (told[-2]["phase"], live.drafts) == ("F1901M", {})
    live.close()


def test_hint_drafts_search_orders(tmp_path, monkeypatch):
    live = game(tmp_path)
    line = live.hint()
    assert re.fullmatch(r"the search would order this; .* worth \d+\.\d centres after the next fall", line)
    assert {text[2:5] for text in drafts(live)} == {"BRE", "MAR", "PAR"}
    monkeypatch.setattr(live, "hint", lambda: "drafted")
    turn, note = talk(live, [{"kind": "hint"}], ends="drafted")[-2:]
    assert ([order["text"] for order in turn["orders"]], note["text"]) == (drafts(live), "drafted")
    live.undo()
    assert drafts(live) == []
    monkeypatch.undo()
    live.advance(lambda _: None)
    assert re.search(r"after the next fall; AUSTRIA: \d+ % \w+; .*; TURKEY: \d+ % \w+$", live.hint())
    live._row["phase"][...] = 4
    with pytest.raises(InputError, match="a hint is for moves"):
        live.hint()
    live.close()


def small(tmp_path, **units):
    """Return a game of the powers in `units` from fall 1901, with as many home centres as units."""
    centres = {power: [unit[-3:] for unit in standing if unit[-3:] in HOMES] for power, standing in units.items()}
    state = {"units": units, "centres": centres}
    phases = [{"name": "F1901M", "state": state}]
    past = read_game({"format": "sparring-diplomacy", "version": 1, "map": "standard", "phases": phases})
    return game(tmp_path, last_year=1902, past=past)


def test_eliminated_power_watches_phase_by_phase(tmp_path):
    live = small(tmp_path, GERMANY=["A MUN"], RUSSIA=["A BER", "A KIE"])
    assert live.out
    states = []
    while not live.over:
        before = len(live.phases)
        told = talk(live, [{"kind": "submit", "phase": live.phases[-1]["name"]}], ends="")
        states.append(told[-2]["state"])
        assert len(live.phases) == before + 1
    assert states == ["out"] * (len(states) - 1) + ["over"]
    assert (told[-2]["result"], told[-2]["winner"]) == ("draw of 2: Germany, Russia", -1)
    (answer,) = talk(live, [{"kind": "undo"}])
    assert answer == {"kind": "note", "text": "the game is over", "failed": True}
    live.close()


def test_phases_without_orders_pass_automatically(tmp_path):
    """In Russia's winter, France has as many units as centres and is not asked."""
    live = small(tmp_path, FRANCE=["A PAR"], RUSSIA=["A MOS", "A UKR"])
    told = talk(live, [{"kind": "submit", "phase": "F1901M"}], ends="")
    assert [phase["name"] for message in told if message["kind"] == "phases" for phase in message["phases"]] == [
        *("F1901M", "W1901A"),
        *("W1901A", "S1902M"),
    ]
    assert told[-2]["phase"] == "S1902M"
    live.close()


def test_opponent_exception_becomes_note(tmp_path, capsys):
    live = game(tmp_path, lambda view: 1 / 0)
    talk(live, [SUBMIT], ends="ZeroDivisionError: division by zero")
    assert "Traceback" in capsys.readouterr().err
    assert live.phases[-1]["name"] == "S1901M"
    live.close()
