"""Training benchmarks on imported games: equal networks and samples for all, and correct ratios."""

import pytest

from benchmarks.imported_training import __main__ as benchmark
from benchmarks.imported_training import peers
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.load import load_kind
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.config import ImportedRunConfig

SMALL = peers.TrainingSizes(matches=6, steps=8, epochs=1, minibatch=16, hidden=8)


def game(name):
    for module in benchmark.GAMES[name].packages:
        pytest.importorskip(module)
    return benchmark.GAMES[name]


def weights(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("name", benchmark.GAMES)
def test_peer_has_same_network_and_samples(name):
    one = game(name)
    model = one.make_peer(SMALL)
    config = load_kind(ImportedRunConfig, benchmark.our_options(one, SMALL, 3))
    env = config.env
    batch = make_batch(env.package, env.id, env.kwargs, env.num_envs, 0)
    ours = build_network(shape_for(batch.contract, config.network))
    assert weights(model.policy) == weights(ours)
    deciding = batch.deciding.sum(1).float().mean().item()
    assert model.n_steps * model.n_envs == config.ppo.rollout_steps * env.num_envs * deciding
    assert (model.batch_size, model.n_epochs) == (config.ppo.minibatch_size, config.ppo.epochs)
    assert (model.learning_rate, model.gamma) == (config.ppo.learning_rate, config.ppo.gamma)
    assert one.entropy == config.ppo.entropy_coefficient
    batch.close()


def test_peer_updates_are_timed():
    assert min(peers.time_updates(game("connect_four").make_peer(SMALL), 2)) > 0.0


@pytest.mark.parametrize("extra", [benchmark.ALL_SEATS, ()])
def test_own_updates_are_timed(extra):
    first, *others = benchmark.train_ours(game("connect_four"), SMALL, 3, ["threads=1", *extra])
    assert first == 0.0
    assert len(others) == 2
    assert min(others) > 0.0


@pytest.mark.parametrize("name", [peers.CONNECT_FOUR, peers.LEDUC])
def test_game_is_stepped_by_hand(name):
    pytest.importorskip({peers.LEDUC: "pyspiel"}.get(name, "pettingzoo"))
    assert peers.play_by_hand(name, 0.0) > 0.0


def test_ratios_match_rounds():
    speeds = {benchmark.LEARN: [200.0, 300.0, 240.0], benchmark.RUN_FILE: [100.0] * 3}
    speeds |= {"peer": [100.0, 100.0, 80.0], benchmark.GAME: [1000.0] * 3}
    ours, run_file, peer, alone = benchmark.game_rows("connect_four", 2, speeds)
    head = ["connect_four", "ours, all seats learn", "2", "240", "200 to 300"]
    assert ours == [*head, "3.00 (2.00 to 3.00)", "24%"]
    assert run_file[-2:] == ["1.00 (1.00 to 1.25)", "10%"]
    assert peer == ["connect_four", "MaskablePPO", "2", "100", "80 to 100", "", "10%"]
    assert alone == ["connect_four", "game alone", "1", "1,000", "1,000 to 1,000", "", ""]


def test_game_without_packages_is_skipped(monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None if name == "sb3_contrib" else object())
    monkeypatch.setattr(benchmark, "packages", list)
    monkeypatch.setattr("sys.argv", ["imported_training", "--games", "connect_four"])
    assert benchmark.main() == 0
    assert "Skipped: connect_four needs `pip install sb3-contrib`." in capsys.readouterr().out


def test_matches_are_multiple_of_seats():
    args = benchmark.parse(["--matches", "64"])
    assert [benchmark.sizes(one, args).matches for one in benchmark.GAMES.values()] == [64, 64, 64, 64, 64, 63]


@pytest.mark.parametrize("option", ["--updates=0", "--threads=0", "--matches=2", "--processor-time"])
def test_impossible_sizes_are_rejected(option, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse([option])
    assert option in capsys.readouterr().err
