"""Distillation: learning the teacher's orders, exact resuming, and rejected input."""

import json
from dataclasses import fields

import pytest
import torch
from tqdm import tqdm

from sparring.agents.trainers import train
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.rollouts import labelled
from sparring.envs.diplomacy.training.distill.trainer import held_out, mean_share, order_loss, play_part
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from tests.configs.run_configs import configured

SMALL = (
    *("+run=diplomacy_distill", "device=cpu", "threads=1", "logger.progress=false", "env.last_year=1901"),
    *("network.hidden=8", "network.blocks=1", "distill.teacher=dumbbot", "distill.games=14", "distill.epochs=4"),
    *("distill.batch_size=9", "distill.held_out=0.2", "distill.learning_rate=0.02", "distill.value_share=0.5"),
    *("evaluation.every=0", "checkpoint_every=2", "name=student"),
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(labelled, "GAMES_OF_A_PART", 14)


def config(root, *options):
    return configured(SMALL, f"checkpoint_dir={root}", *options)


def rows(root, name="student"):
    """Return metrics without times."""
    lines = map(json.loads, (root / name / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in lines]


def test_distillation_learns_and_resumes_bit_for_bit(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    final = train(config(whole))
    learned = rows(whole)
    assert len(learned) == 4
    assert learned[-1]["train/order_loss"] < learned[0]["train/order_loss"] - 0.1
    assert learned[-1]["eval/held_out/accuracy"] > 0.1
    assert {"eval/held_out/order_loss", "eval/held_out/value_r2"} <= set(learned[0])
    train(config(cut, "max_updates=2"))
    again, player = open_player(train(config(cut, "max_updates=4"))), open_player(final)
    assert rows(cut) == learned
    assert isinstance(player, PolicyOrders)
    weights = player.network.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in again.network.state_dict().items())
    assert player.network.config.in_turn


def test_interrupted_labels_resume(tmp_path, monkeypatch):
    options = ("distill.games=28", "max_updates=1")
    played, part = [], labelled.Labeller.part

    def cut_at_the_second(labeller, number):
        if number and not played[-1]:
            raise KeyboardInterrupt
        return part(labeller, number)

    monkeypatch.setattr(
        labelled.Labeller, "part", lambda *given: (cut_at_the_second(*given), played.append(given[1]))[0]
    )
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        train(config(tmp_path, *options))
    assert played == [0]
    played.append(1)
    train(config(tmp_path, *options))
    assert played == [0, 1, 1]
    assert labelled.read_card(tmp_path / "student" / "data")["parts"] == 2


def test_labels_of_several_processes_are_equal(tmp_path, packed_tasks):
    folder = train(config(tmp_path, "distill.games=28", "max_updates=1", "distill.workers=2")).parent / "data"
    assert packed_tasks == [(Executor(workers=2, threads=1), 2)]
    card = labelled.read_card(folder)
    settings = labelled.LabelSettings(**{one.name: card[one.name] for one in fields(labelled.LabelSettings)})
    one_by_one = [play_part((settings, number), tqdm(disable=True)) for number in range(2)]
    for name, values in labelled.read_labels([folder]).items():
        assert torch.equal(values, torch.cat([rows[name] for rows in one_by_one])), name


def test_labels_and_weights_of_other_run_are_reused(tmp_path):
    first = train(config(tmp_path, "max_updates=1"))
    options = ("name=second", "distill.games=0", f"distill.data=[{first.parent / 'data'}]", "max_updates=1")
    train(config(tmp_path, *options, f"init_from={first}"))
    assert not (tmp_path / "second" / "data").exists()
    assert rows(tmp_path, "second")[0]["train/order_loss"] < rows(tmp_path)[0]["train/order_loss"]
    with pytest.raises(InputError, match=r"init_from=.*: is not a policy of this shape"):
        train(config(tmp_path, *options, "name=third", f"init_from={first}", "network.hidden=12"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["distill.teacher=chaos"], r"distill\.teacher=chaos: is another bot than dumbbot; give dumbbot, search"),
        (["distill.player=dumbbot"], r"distill\.player=dumbbot: is a bot; give search"),
        (["distill.teacher=search:positions=1"], r"positions=1"),
        (["distill.opponents=[nobody]"], "nobody"),
        (["distill.opponents=[]"], r"distill\.opponents=\[\]: leaves the other powers empty"),
        (["distill.games=0"], r"distill\.games=0: .*distill\.data"),
        (["distill.slips=2"], r"distill\.slips=2"),
    ],
)
def test_unusable_teacher_is_rejected(tmp_path, options, message):
    with pytest.raises((ConfigError, InputError), match=message):
        train(config(tmp_path, *options))


def test_held_out_games_are_complete_and_reproducible():
    game = torch.arange(30).repeat_interleave(3)
    kept = held_out(game, 0.1)
    assert int(kept.sum()) == 9
    assert all(bool((kept[game == number] == kept[game == number][0]).all()) for number in range(30))
    assert torch.equal(kept, held_out(game, 0.1))
    assert not held_out(game, 0.0).any()


def test_mean_share_is_over_games():
    assert mean_share({"game": torch.tensor([4, 4, 4, 9]), "share": torch.tensor([0.5, 0.5, 0.5, 0.0])}) == 0.25


def test_orders_outside_network_choices_have_no_loss():
    obs = observe(opening(), torch.tensor([0]), last_year=1910).flatten(1)
    network = OrderNetwork(NetworkConfig(hidden=8, blocks=1, in_turn=True), seed=1)
    log_probs, _ = network.log_probs(obs, torch.tensor([[0, 0, 0]]))
    expected = -(log_probs[0, 0, 0] + log_probs[0, 2, 0]) / 2
    assert torch.allclose(order_loss(network, obs, torch.tensor([[0, -1, 0]])), expected)
