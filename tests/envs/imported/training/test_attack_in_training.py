"""The sampling attack during training: measures, no effect on training, and where it is rejected."""

import json

import pytest
import torch

import sparring
from sparring.configs.core.errors import InputError

SMALL = [
    *("env=openspiel", "env.id=kuhn_poker", "env.num_envs=16", "ppo.rollout_steps=32", "ppo.minibatch_size=128"),
    *("network.hidden=16", "threads=1", "device=cpu", "evaluation.games=4", "logger.progress=false"),
]
ATTACKED = ["evaluation.exploit_every=2", "evaluation.exploit_moves=4000"]
ALONE = ["self_play.both_seats=false", "self_play.pool_share=0.2"]


def train(folder, name, *options, updates=4, **more):
    sparring.train(
        overrides=[*SMALL, f"checkpoint_dir={folder}", f"name={name}", f"max_updates={updates}", *options], **more
    )
    return rows_of(folder / name)


def rows_of(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: row[key] for key in row if not key.startswith("time/")} for row in rows]


def weights_of(run):
    return torch.load(run / "final.pt", weights_only=True)["weights"]


def exploited(row):
    return {key for key in row if key.startswith("exploit/")}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    return folder / "run", train(folder, "run", "evaluation.every=4", *ATTACKED)


def test_gain_has_interval_and_matches_exact_value(attacked):
    _, rows = attacked
    names = ("gain", "gain_low", "gain_high", "moves", "covered", "exact")
    assert [exploited(row) for row in rows] == [set(), {f"exploit/{name}" for name in names}] * 2
    last = rows[-1]
    assert last["exploit/gain_low"] < last["exploit/gain"] < last["exploit/gain_high"]
    assert last["exploit/exact"] == last["eval/exploitability"]
    assert abs(last["exploit/gain"] - last["exploit/exact"]) < 0.1  # 1,000 games of each seat
    assert 0 < last["exploit/moves"] < 4000  # it met every history


def test_recurrent_policy_gain_matches_exact_value(tmp_path):
    row = train(tmp_path, "gru", "network.memory=gru", *ALONE, *ATTACKED, updates=2)[-1]
    assert abs(row["exploit/gain"] - row["exploit/exact"]) < 0.1  # 1,000 games of each seat


def test_training_is_unchanged_by_attack(attacked, tmp_path):
    run, rows = attacked
    plain = train(tmp_path, "plain", "evaluation.every=4")
    assert [{key: row[key] for key in row if key not in exploited(row)} for row in rows] == plain
    assert all(torch.equal(one, weights_of(run)[name]) for name, one in weights_of(tmp_path / "plain").items())


def test_resumed_run_repeats_its_attacks(attacked, tmp_path):
    _, rows = attacked
    train(tmp_path, "halves", "evaluation.every=4", *ATTACKED, updates=2)
    sparring.train(overrides=["resume=halves", f"checkpoint_dir={tmp_path}", "max_updates=4"])
    assert rows_of(tmp_path / "halves") == rows


def test_callback_stops_run_by_gain(tmp_path):
    class StopWhenHard(sparring.Callback):
        def on_update(self, run, metrics):
            return metrics.get("exploit/gain_high", 9.0) < 9.0

    assert len(train(tmp_path, "stopped", *ATTACKED, callbacks=[StopWhenHard()])) == 2


def test_scalars_are_in_tensorboard(attacked):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, rows = attacked
    files = event_accumulator.EventAccumulator(str(next(run.rglob("events*")).parent)).Reload()
    gains = [event.value for event in files.Scalars("exploit/gain")]
    assert gains == pytest.approx([row["exploit/gain"] for row in rows if "exploit/gain" in row])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["+run=quickstart"], r"not of sparring/Dogfight-v\d; .* `sparring exploit RUN` trains best responses$"),
        (["+run=air_combat_quickstart"], r"not of sparring/AirCombat-v\d; .* `sparring exploit RUN` trains"),
        (
            ["+run=diplomacy_quickstart"],
            r"not of sparring/Diplomacy-v\d; .* `sparring exploit RUN` trains best responses$",
        ),
        (["env=pettingzoo"], r"needs to copy game states, which pettingzoo .* `sparring exploit RUN` trains"),
        (["env=openspiel", "env.id=laser_tag"], r"evaluation\.exploit_every=.*need the text of information states"),
    ],
)
def test_games_without_copies_name_other_attack_in_one_line(tmp_path, options, message):
    options = [*options, "evaluation.exploit_every=2", f"checkpoint_dir={tmp_path}", "name=refused", "threads=1"]
    with pytest.raises(InputError, match=message) as refused:
        sparring.train(overrides=[*options, "logger.progress=false"])
    assert str(refused.value).startswith("evaluation.exploit_every=2: ")
    assert "\n" not in str(refused.value)


def test_moves_without_attacks_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"exploit_moves=500: has no effect without evaluation\.exploit_every above 0"):
        train(tmp_path, "moves", "evaluation.exploit_moves=500")
