"""Air combat as a task: its record, short training, resuming, evaluation, and held-out pilots."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sparring
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.agents.trainers import train
from sparring.configs import load as configs
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import ROOT
from sparring.configs.core.session import LoggerConfig
from sparring.configs.schema import EvaluationConfig, NetworkConfig, PhaseConfig, PPOConfig, SelfPlayConfig, StageConfig
from sparring.configs.serialization import read_yaml
from sparring.configs.validate import idle_options
from sparring.envs.air_combat import GAME, rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.config import AirCombatEnvConfig, AirCombatRunConfig
from sparring.envs.air_combat.evaluation.command import EVALUATION, AirCombatOptions
from sparring.envs.air_combat.parallel_env import AirCombatParallelEnv
from sparring.envs.air_combat.training.opponents import open_player
from sparring.envs.air_combat.training.task import AirCombatTask
from sparring.envs.game import game_named, load
from sparring.eval.exploit import find_targets, make_runs
from sparring.eval.exploitability.options import ExploitOptions
from tests.agents.ppo.small_run import flat, state_of, untimed
from tests.agents.ppo.small_run import metrics as rows_of


def small(folder, **options):
    """Return a run with one-second steps and matches of at most 120; self-play starts at the second update."""
    config = AirCombatRunConfig(
        name="small",
        checkpoint_dir=str(folder),
        device="cpu",
        threads=1,
        env=AirCombatEnvConfig(num_envs=4, action_repeat=60),
        network=NetworkConfig(hidden=8),
        ppo=PPOConfig(rollout_steps=8, epochs=1, minibatch_size=16, precision="fp32"),
        phases=[PhaseConfig("curriculum", 3, scripted_end=0.5, stages=[StageConfig(bots=["chaser", "brawler"])])],
        self_play=SelfPlayConfig(snapshot_every=1, pool_size=2, slots=1, deal_every=1),
        evaluation=EvaluationConfig(games=2, every=3),
        logger=LoggerConfig(progress=False),
    )
    return replace(config, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    train(small(root))
    return root


def test_record_matches_available_files():
    assert game_named("air_combat") is GAME
    for reference in (GAME.batch, GAME.parallel_env, GAME.runs, GAME.ppo_task, GAME.open_player, GAME.evaluation):
        assert load(reference)
    assert set(AirCombatRunConfig.bots) == set(GAME.bots) - set(GAME.held_out)


@pytest.mark.parametrize(("form", "sizes"), [("continuous", (4, 0, 0)), ("discrete", (0, 0, [5, 5, 3, 2]))])
def test_sb3_trains_in_same_matches_and_policy_is_evaluated(form, sizes, tmp_path):
    """The trigger is a Gaussian, as in the dogfight."""
    pytest.importorskip("stable_baselines3")
    phases = [PhaseConfig("bots", 2, stages=[StageConfig(bots=["straight"])])]
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, action_form=form)
    final = train(small(tmp_path, trainer="sb3", env=env, phases=phases, evaluation=EvaluationConfig()))
    contract = load_checkpoint(final).contract
    assert tuple(contract.get(key, 0) for key in ("continuous", "binary", "categorical")) == sizes
    assert "| straight" in sparring.evaluate(final, opponents="straight", games=2).markdown


def test_run_trains_and_resumes_bit_for_bit(whole, tmp_path):
    train(small(tmp_path, max_updates=2))
    train(small(tmp_path))
    assert state_of(tmp_path) == state_of(whole)
    assert untimed(rows_of(tmp_path)) == untimed(rows_of(whole))
    weights = [load_checkpoint(root / "small" / "final.pt").network.state_dict() for root in (tmp_path, whole)]
    assert flat(weights[0]) == flat(weights[1])
    assert "eval/chaser/win_rate" in rows_of(whole)[-1]


def test_policy_loads_and_plays_in_parallel_env_spaces(whole):
    policy, env = sparring.load(whole / "small" / "final.pt"), AirCombatParallelEnv(action_repeat=60)
    obs, _ = env.reset(seed=1)
    assert policy.observation_space == env.observation_space("player_0")
    assert policy.action_space == env.action_space("player_1")
    for _ in range(3):
        rows = np.stack([obs[agent] for agent in env.agents])
        actions, _ = policy.predict(rows)
        assert all(action in policy.action_space for action in actions)
        assert np.allclose(sparring.load(policy.path, device="numpy").act(rows)[:, :3].clip(-1, 1), actions[:, :3])
        obs, *_ = env.step(dict(zip(env.agents, actions, strict=True)))


def test_policy_is_evaluated_from_both_seats_and_other_model(whole):
    path = str(whole / "small" / "final.pt")
    found = EVALUATION.evaluate(
        AirCombatOptions(ckpt=path, games=2, opponents=("do_nothing",), model="f16", threads=1, quiet=True,
                         device="cpu", require=("worst>=0",))
    )  # fmt: skip
    assert "air combat, f16" in found.markdown
    assert '"games": 2' in found.json
    assert found.failures == ()


def test_best_responses_are_runs_of_same_game(whole, tmp_path):
    options = ExploitOptions(players=(str(whole / "small" / "final.pt"),), steps=100_000, seeds=1, start=("warm",))
    (run,) = make_runs(options, find_targets(options), tmp_path)
    assert isinstance(run.config, AirCombatRunConfig)
    assert (run.config.env.action_repeat, run.config.network.hidden) == (60, 8)
    assert run.config.init_from == run.config.against == str(whole / "small" / "final.pt")


@pytest.mark.parametrize("limit_ends", [False, True])
def test_time_limit_result_is_termination_for_learner(limit_ends):
    """Adding its last value would count the loss twice: a policy then dives into the ground before time is up."""
    batch = AirCombatBatch(2, action_repeat=60, max_ticks=120, threads=1)
    env = LearnerEnv(batch, bots=tuple(rules.BOTS), seed=0, limit_ends=limit_ends)
    for _ in range(2):
        _, reward, terminated, truncated = env.step(torch.zeros(2, batch.action_size))
    assert (batch.outcome == 0).all()
    assert (reward < -1.0).all()
    assert terminated.tolist() == [limit_ends] * 2
    assert truncated.tolist() == [not limit_ends] * 2
    assert AirCombatTask.limit_ends


def test_policy_with_other_columns_is_rejected(whole):
    policy = open_player(whole / "small" / "final.pt").contestant
    contract = AirCombatBatch(1, action_repeat=60, threads=1).contract
    policy.check(contract)
    with pytest.raises(PolicyError, match="was trained with layout="):
        policy.check(contract | {"layout": "41:0"})


@pytest.mark.parametrize(
    ("beyond", "told"),
    [
        ({"missiles": 2, "flares": 3}, "with no missiles, no flares and cannot play with missiles=2, flares=3"),
        ({"action_form": "discrete"}, "with no action_form and cannot play with action_form=discrete"),
        ({"team_size": 2, "radar": True}, "with no team_size, no radar and cannot play with team_size=2, radar=True"),
    ],
)
def test_policy_with_other_options_is_rejected_by_name(whole, beyond, told):
    policy = open_player(whole / "small" / "final.pt").contestant
    needed = AirCombatBatch(2, action_repeat=60, threads=1, options=rules.CombatOptions(**beyond)).contract
    with pytest.raises(PolicyError, match=f"was trained {told}$"):
        policy.check(needed)
    other = Policy(policy.network, needed, name="other")
    had, _, has = told.removeprefix("with ").partition(" and cannot play with ")
    with pytest.raises(PolicyError, match=f"other was trained with {has} and cannot play with {had}$"):
        other.check(policy.contract)


def test_attack_starts_from_policy_with_same_options(whole, tmp_path):
    path = str(whole / "small" / "final.pt")
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, missiles=2)
    train(small(tmp_path, env=env, max_updates=1))
    armed = str(tmp_path / "small" / "final.pt")
    options = ExploitOptions(players=(armed,), steps=100_000, seeds=1, start=(path,))
    with pytest.raises(InputError, match="plays with missiles=None, the policy with 2; give another to begin with"):
        make_runs(options, find_targets(options), tmp_path / "responses")
    both = ExploitOptions(players=(path, armed), steps=100_000, seeds=1, start=("cold",))
    with pytest.raises(
        InputError, match=r"missiles differs in a mixture: .* None, .* 2; name policies with equal match settings"
    ):
        find_targets(both)


def test_ground_run_starts_from_policy_without_ground_columns(whole, tmp_path):
    """It acts as before for any values in the new columns, and both meet in one evaluation on either side."""
    old = whole / "small" / "final.pt"
    ground = {"observe_ground": True, "low_start": 0.5, "ground_limit": 60.0}
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, **ground)
    still = replace(small(tmp_path).ppo, learning_rate=1e-12)
    train(small(tmp_path, env=env, ppo=still, init_from=str(old), max_updates=1))
    new = tmp_path / "small" / "final.pt"
    obs = torch.randn(8, 50)
    actions = [open_player(path).contestant.act(obs) for path in (old, new)]
    assert torch.allclose(*actions, atol=1e-5)
    assert load_checkpoint(new).contract["observe_ground"]
    for first, second in ((old, new), (new, old)):
        options = AirCombatOptions(ckpt=str(first), opponents=(str(second), "weaver"), games=2, threads=1, quiet=True,
                                   device="cpu", low_start=1.0)  # fmt: skip
        evaluation = EVALUATION.evaluate(options)
        assert '"low_start": 1.0' in evaluation.json
        assert '"ground_limit": 60.0' in evaluation.json  # the higher of both
    for target, start in ((old, new), (new, old)):
        options = ExploitOptions(players=(str(target),), steps=100_000, seeds=1, start=(str(start),))
        (run,) = make_runs(options, find_targets(options), tmp_path / "responses")
        assert run.config.env.observe_ground


def test_run_starts_from_policy_with_same_options(whole, tmp_path):
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, missiles=2)
    with pytest.raises(ConfigError, match="was trained with no missiles, this run has missiles=2; start from another"):
        train(small(tmp_path, env=env, init_from=str(whole / "small" / "final.pt")))


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        (("env.reward.ammunition=0.5",), "env.gun=auto and env.model=point_mass: env.reward.ammunition"),
        (("env.reward.ammunition=0.5", "env.gun=cone"), "env.gun=cone: env.reward.ammunition"),
        (("env.action_form=manoeuvres", "network.log_std_init=-1.0"), "env.action_form=manoeuvres: network.log_std_"),
    ],
)
def test_options_without_effect_are_reported(given, idle):
    assert f"without effect with {idle}" in "\n".join(
        idle_options(configs.load(["+run=air_combat_quickstart", *given]))
    )


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "configs" / "run").glob("air_combat*.yaml")))
def test_no_run_file_names_held_out_pilot(name):
    text = (ROOT / "configs" / "run" / name).read_text(encoding="utf-8")
    stages = [stage for phase in read_yaml(text)["phases"] for stage in phase.get("stages", [])]
    assert not {bot for stage in stages for bot in stage["bots"]} & set(rules.HELD_OUT)


def test_run_against_held_out_pilot_is_rejected(tmp_path):
    phases = [PhaseConfig(stages=[StageConfig(bots=["ace"])])]
    with pytest.raises((ConfigError, InputError), match="ace"):
        train(small(tmp_path, phases=phases))


def test_missile_policy_trains_and_evaluates_with_missiles(tmp_path):
    """The run's options reach training, its evaluations, the contract and `eval/run.py`."""
    beyond = {"missiles": 2, "flares": 10, "radar": True, "randomization": "narrow"}
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, **beyond)
    train(small(tmp_path, env=env, max_updates=1))
    final = tmp_path / "small" / "final.pt"
    contract = load_checkpoint(final).contract
    assert contract == contract | beyond | {"binary": 3, "obs_dim": 44 + 18 + 2 + 9}
    options = AirCombatOptions(ckpt=str(final), opponents=("chaser",), games=2, threads=1, quiet=True, device="cpu")
    assert '"games": 2' in EVALUATION.evaluate(options).json


@pytest.mark.parametrize(
    "beyond",
    [
        {"action_form": "discrete", "missiles": 2},
        {"action_form": "commands", "collisions": 6.0, "load_limit": 9.5, "hard_deck": 100.0},
        {"team_size": 2, "missiles": 1, "action_form": "discrete"},
    ],
    ids=lambda beyond: "-".join(map(str, beyond.values())),
)
def test_action_forms_and_teams_train_and_evaluate(tmp_path, beyond):
    """Against bots and, from the second update, snapshots; the policy then plays its whole side."""
    env = AirCombatEnvConfig(num_envs=4, action_repeat=60, **beyond)
    train(small(tmp_path, env=env, max_updates=3, evaluation=EvaluationConfig(games=2, every=3)))
    final, rows = tmp_path / "small" / "final.pt", rows_of(tmp_path)
    contract, options = load_checkpoint(final).contract, rules.CombatOptions(**beyond)
    assert contract == contract | beyond
    assert contract["obs_dim"] == len(options.observation)
    assert tuple(contract.get("categorical", ())) == options.choices
    assert rows[-1]["guard/invalid_actions"] == 0.0
    assert "eval/chaser/win_rate" in rows[-1]
    asked = AirCombatOptions(ckpt=str(final), opponents=("chaser", "stochastic:" + str(final)), games=2, threads=1,
                             quiet=True, device="cpu", replay=tmp_path / "match.html")  # fmt: skip
    evaluation = EVALUATION.evaluate(asked)
    assert '"games": 2' in evaluation.json
    response = ExploitOptions(players=(str(final),), steps=100_000, seeds=1, start=("warm",))
    (run,) = make_runs(response, find_targets(response), tmp_path / "responses")
    assert beyond.items() <= vars(run.config.env).items()
    evaluation.outputs[asked.replay](asked.replay)


def test_partial_teams_are_rejected(tmp_path):
    message = (
        "env.num_envs=6: with env.team_size=2 must be a multiple of 4, the learner's aircraft in two matches; try 8"
    )
    with pytest.raises(ConfigError, match=message):
        train(small(tmp_path, env=AirCombatEnvConfig(num_envs=6, action_repeat=60, team_size=2)))
