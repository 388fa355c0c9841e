"""Evaluation cells: seats, seeds, regimes, recordings, and void games."""

from dataclasses import replace

import pytest
import torch

from sparring.agents.opponents.duelists import Duelist, PythonPolicy
from sparring.agents.policies.policy import PolicyError
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import InputError, UnknownNameError
from sparring.envs.dogfight.evaluation.command import DuelMatches, make_setting
from sparring.envs.dogfight.training.matches import MatchSettings
from sparring.envs.dogfight.training.opponents.load import load_policy
from sparring.eval import command
from sparring.eval.command import cell_key
from sparring.eval.paired import evaluation as cells
from sparring.eval.paired.evaluation import Cell, Plan, Played, every_opponent, play_cells, round_robin

PLAN = Plan(DuelMatches(MatchSettings(threads=1)), games=20, seed=0, regimes=["glass_cannon"])
SHORT = replace(PLAN, games=2, matches=DuelMatches(MatchSettings(threads=1, max_ticks=60)))
ACE, BRAWLER, CHASER = (Duelist(name, name) for name in ("ace", "brawler", "chaser"))


def play_cell(pair, regime, plan):
    ((record, _),) = plan.play([Cell(pair, regime, plan)])
    return record


def meet(player, opponents, plan, filmed=0):
    played = Played()
    play_cells(plan, every_opponent(player, opponents, plan, filmed=filmed), played)
    return played.records, played.films


def under(setting):
    return replace(PLAN, games=2, matches=DuelMatches(setting))


def test_each_seat_is_played_equally_often():
    record = play_cell((BRAWLER, CHASER), "none", PLAN)
    assert [sum(seat) for seat in record.by_seat] == [10, 10]
    assert record.wins > record.losses


def test_own_and_opposing_hp_are_recorded_separately():
    idle = Duelist("do_nothing", "do_nothing")  # It never shoots, so only its own hp falls.
    record = play_cell((BRAWLER, idle), "none", replace(PLAN, games=2))
    assert record.own_hp == 5 > record.their_hp


def test_player_against_itself_is_even():
    """Swapping the seats of one match turns every win into a loss."""
    record = play_cell((ACE, ACE), "none", PLAN)
    assert record.wins == record.losses > 0
    assert record.by_seat[0] == record.by_seat[1][::-1]
    assert record.own_hp == record.their_hp


@pytest.mark.parametrize(("regime", "hp"), [("none", 5), ("tank_fight", 8), ("glass_cannon", 3)])
def test_requested_regime_is_played(regime, hp):
    idle = Duelist("do_nothing", "do_nothing")  # It never shoots, so both keep what the regime gives.
    record = play_cell((idle, idle), regime, replace(PLAN, games=2))
    assert (record.own_hp, record.their_hp, record.draws, record.length) == (hp, hp, 2, 90.0)


def test_cells_are_ordered_by_regime_and_reproducible():
    plan = replace(PLAN, regimes=["glass_cannon", "knife_fight"], games=4)
    records, recordings = meet(ACE, [BRAWLER, CHASER], plan)
    cells = [(record.regime, record.opponent) for record in records]
    assert cells == [(regime, name) for regime in plan.regimes for name in ("brawler", "chaser")]
    assert recordings == []
    assert meet(ACE, [BRAWLER, CHASER], plan)[0] == records
    assert meet(ACE, [BRAWLER, CHASER], replace(plan, seed=1))[0] != records


def test_first_regime_is_recorded():
    plan = replace(PLAN, regimes=["glass_cannon", "none"], games=2)
    records, (recording,) = meet(ACE, [BRAWLER], plan, filmed=9)
    assert (recording.left, recording.right) == ("ace", "brawler")
    assert (recording.regime, recording.max_hp) == ("glass_cannon", 3)
    assert records[0] == play_cell((ACE, BRAWLER), "glass_cannon", plan)  # Watching changes nothing.


def test_ladder_plays_every_pair_once():
    records = round_robin([ACE, BRAWLER, CHASER], replace(PLAN, games=4))
    met = [(record.player, record.opponent) for record in records]
    assert met == [("ace", "brawler"), ("ace", "chaser"), ("brawler", "chaser")]
    assert records[0].other_side() == (records[0].mirrored(),)


def test_cells_of_several_processes_are_equal(make_checkpoint, packed_tasks):
    policy, several = load_policy(make_checkpoint(), "cpu", deterministic=False), Executor(workers=2)
    plan = SHORT
    records, films = meet(policy, [ACE, BRAWLER], plan, filmed=9)
    again, filmed = meet(policy, [ACE, BRAWLER], replace(plan, executor=several), filmed=9)
    assert again == records
    assert [film.right for film in filmed] == [film.right for film in films] == ["ace", "brawler"]
    players = [ACE, policy, BRAWLER]
    assert round_robin(players, replace(plan, executor=several)) == round_robin(players, plan)
    assert packed_tasks == [(several, 2), (several, 3)]


def test_cells_before_interruption_are_saved(make_checkpoint, tmp_path, monkeypatch):
    """They are not reused for other games, a changed file, another regime, or a Python object."""
    policy, kept = load_policy(make_checkpoint(), "cpu"), tmp_path / "eval.cells.jsonl"
    code = Duelist("code", PythonPolicy(lambda obs: obs[:, :3] * 0, name="code"))
    plan, played = replace(SHORT, cells_file=kept), []

    play = cells.play_cell

    def cut_at_the_third(cell, bar):
        played.append(cell.pair[1].name)
        if len(played) == 3:
            raise KeyboardInterrupt
        return play(cell, bar)

    monkeypatch.setattr(cells, "play_cell", cut_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        meet(policy, [code, ACE, BRAWLER], plan)
    records, _ = meet(policy, [code, ACE, BRAWLER], plan)
    assert played == ["code", "ace", "brawler", "code", "brawler"]
    plan.store().discard()
    assert records == meet(policy, [code, ACE, BRAWLER], replace(plan, cells_file=None))[0]
    one = Cell((policy, ACE), "none", plan)
    others = [
        replace(one, regime="tank_fight"),
        replace(one, plan=replace(plan, seed=3)),
        replace(one, pair=(ACE, ACE)),
    ]
    assert len({cell.key for cell in [one, *others]}) == 4
    first = one.key
    policy.path.write_bytes(policy.path.read_bytes() + b"!")
    assert one.key != first


def test_key_changes_with_conditions_files_and_code(tmp_path, monkeypatch):
    file = tmp_path / "policy.pt"
    file.write_bytes(b"one")
    keys = [cell_key({"seed": 1}, [file]), cell_key({"seed": 1}, [file]), cell_key({"seed": 2}, [file])]
    file.write_bytes(b"two")
    keys.append(cell_key({"seed": 1}, [file]))
    monkeypatch.setattr(command, "_code", lambda: ["another"])
    keys.append(cell_key({"seed": 1}, [file]))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_unknown_regime_is_rejected():
    with pytest.raises(UnknownNameError, match="knife_fight"):
        play_cell((ACE, BRAWLER), "knife_figt", PLAN)


def test_policy_determines_its_conditions(make_checkpoint):
    policy = load_policy(make_checkpoint(action_repeat=20, obs_dim=46, observe_physics=False), "cpu").contestant
    setting = make_setting(["ace", policy])
    assert (setting.rules, setting.action_repeat, setting.observe_physics) == ("classic", 20, False)
    assert make_setting(["ace"]).bot_rate == "tick"
    assert make_setting(["ace"], rules="challenge").bot_rate == "agent"


def test_policies_with_and_without_physics_can_meet(make_checkpoint):
    less = load_policy(make_checkpoint("less/final.pt", obs_dim=46, observe_physics=False), "cpu")
    more = load_policy(make_checkpoint("more/final.pt", seed=2), "cpu")
    setting = make_setting([less.contestant, more.contestant], threads=1)
    assert setting.observe_physics
    record = play_cell((less, more), "none", under(replace(setting, max_ticks=60)))
    assert record.games == 2


def test_conditions_unsuited_to_all_players_are_rejected(make_checkpoint):
    policy = load_policy(make_checkpoint(), "cpu").contestant
    with pytest.raises(PolicyError, match=r"pupil .*rules=classic"):
        make_setting([policy], rules="challenge")
    with pytest.raises(InputError, match="bot_rate=tick"):
        make_setting(["ace"], rules="challenge", bot_rate="tick")


def test_games_with_non_finite_actions_are_void(make_checkpoint):
    entrant = load_policy(make_checkpoint(), "cpu")
    with torch.no_grad():
        entrant.contestant.network.actor[-1].bias[0] = float("nan")
    plan = under(replace(PLAN.matches.setting, max_ticks=20))
    with pytest.raises(InputError, match=r"pupil against ace: \d+ actions were not finite"):
        play_cell((entrant, ACE), "none", plan)
