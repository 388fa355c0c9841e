"""Training against named opponents: labels, metrics, exact resuming, and limits of stored configurations."""

import json
import re
import shlex
import sys
from dataclasses import replace

import onnx
import pytest

import sparring
from sparring.agents.opponents.onnx_file import CONTRACT
from sparring.agents.opponents.training import find_opponents
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.trainers import train
from sparring.configs import opponents as registry
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.session import LoggerConfig
from sparring.configs.load import load
from sparring.configs.resume import resume_hint
from sparring.configs.schema import EvaluationConfig, NetworkConfig, PhaseConfig, StageConfig
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.opponents import label_of, labelled_phases, opponent_labels, opponent_phases
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig
from sparring.envs.dogfight.rules import BOTS, ENV_ID, VERSION
from tests.agents.opponents import players
from tests.agents.ppo.small_run import config, metrics, state_of, untimed
from tests.agents.stop_after import StopAfter
from tests.eval.onnx_export.onnx_models import linear

RELEASED = "released/dogfight_bots_only"
DIVER = "tests.agents.opponents.players:Diver"
SMALL = (
    *("device=cpu", "threads=1", "logger.progress=false", "env.num_envs=14", "ppo.rollout_steps=4"),
    *("ppo.minibatch_size=56", "ppo.epochs=1", "ppo.precision=fp32", "network.hidden=8", "evaluation.every=0"),
)


def phases(*bots, **options):
    return [PhaseConfig("against", 4, stages=[StageConfig(bots=list(bots))], **options)]


def of(*bots, **options):
    return DogfightRunConfig(phases=[PhaseConfig(stages=[StageConfig(bots=list(bots))])], **options)


@pytest.fixture
def file(tmp_path):
    """Save a policy that acts once per second, so matches end after 90 steps."""
    path = tmp_path / "hawk" / "final.pt"
    path.parent.mkdir()
    batch = DogfightBatch(1, threads=1, action_repeat=120)
    network = ActorCritic(batch.obs_dim, 2, 1, NetworkConfig(hidden=8), seed=0)
    save_checkpoint(path, network, contract=batch.contract | {"mirror": False}, training={})
    batch.close()
    return path


def agent(seed=0):
    """Export a matrix that acts once per second."""
    model, stated = linear(seed=seed), {"id": ENV_ID, "version": VERSION, "action_repeat": 120}
    onnx.helper.set_model_props(model, {CONTRACT: json.dumps(stated)})
    return model


@pytest.fixture
def onnx_file(tmp_path):
    path = tmp_path / "linear.onnx"
    onnx.save(agent(), path)
    return path


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (RELEASED, "dogfight_bots_only"),
        ("checkpoints/quick-hawk/final.pt", "quick-hawk"),
        ("quick-hawk", "quick-hawk"),
        ("/tmp/agents/my agent.onnx", "my_agent"),
        ("model.v2.zip", "model.v2"),
        ("my_package.bots:Mine", "Mine"),
        ("final.pt", "final"),
        ("search:proposals=dumbbot,seconds=0.1", "search"),
    ],
)
def test_labels_are_short_names(text, label):
    assert label_of(text) == label


def test_labels_are_unique_and_avoid_reserved_words():
    texts = ["ace", "a/ace.pt", "x/hawk/final.pt", "y/hawk/final.pt", "challenger", "snapshot_000001.pt", "selfplay"]
    labels = opponent_labels(texts, BOTS)
    assert labels["ace"] == "ace"
    assert [labels[text] for text in texts[1:]] == [
        *("ace-2", "hawk", "hawk-2", "challenger-2", "000001-2", "selfplay-2")
    ]


def test_against_replaces_bots_and_opponents_join_them():
    only = labelled_phases(of("ace", "chaser", against=RELEASED))
    assert [stage.bots for phase in only for stage in phase.stages] == [["dogfight_bots_only"]]
    joined = of("ace", "chaser", opponents=[RELEASED])
    (stage,) = opponent_phases(joined)[0].stages
    assert stage.bots == ["ace", "chaser", RELEASED]
    placed = of("ace", opponents=[DIVER])
    placed.phases.append(PhaseConfig(stages=[StageConfig(bots=["ace", DIVER])]))
    assert [phase.stages[0].bots for phase in opponent_phases(placed)] == [["ace"], ["ace", DIVER]]


def test_all_opponent_kinds_train_together_and_resume_bit_for_bit(tmp_path, file, onnx_file):
    """Four updates at once, and two plus two, end in the same state, digit for digit."""
    bots = ["ace", str(file), str(onnx_file), DIVER]
    options = {
        "phases": phases(*bots, scripted_start=0.7, scripted_end=0.7),
        "env": DogfightEnvConfig(num_envs=20, action_repeat=120),
        "evaluation": EvaluationConfig(every=2, games=2),
    }
    train(config(tmp_path / "whole", **options))
    train(config(tmp_path / "cut", **options), callbacks=[StopAfter("eval/hawk/win_rate")])
    assert len(metrics(tmp_path / "cut")) == 2
    train(config(tmp_path / "cut", **options))
    assert untimed(metrics(tmp_path / "cut")) == untimed(metrics(tmp_path / "whole"))
    whole, cut = state_of(tmp_path / "whole"), state_of(tmp_path / "cut")
    assert {key for key in whole if whole[key] != cut.get(key)} - {"/progress"} == set()
    rows = metrics(tmp_path / "whole")
    assert all(0.0 < row["time/opponent_share"] < 1.0 for row in rows)
    assert {f"eval/{name}/win_rate" for name in ("ace", "hawk", "linear", "Diver")} <= rows[1].keys()
    assert {f"curriculum/{name}/share" for name in ("ace", "hawk", "linear", "Diver")} <= rows[0].keys()
    league = LeagueFile(tmp_path / "whole" / "small").read()
    assert {"hawk", "linear", "Diver", "ace", "snapshot_000003"} <= league.agents.keys()


def test_changed_file_is_rejected_on_resume(tmp_path, onnx_file):
    options = {"phases": phases("ace", str(onnx_file)), "env": DogfightEnvConfig(num_envs=20, action_repeat=120)}
    train(config(tmp_path / "runs", **options), callbacks=[StopAfter("env_steps")])
    onnx.save(agent(seed=1), onnx_file)
    message = rf"opponent {re.escape(str(onnx_file))}: the file has changed since the run was started, its SHA-256 is"
    with pytest.raises(InputError, match=message) as error:
        train(config(tmp_path / "runs", **options))
    assert "\n" not in str(error.value)


def test_learner_beats_diving_opponent(tmp_path):
    """The diver dies on lethal ground long before an untrained learner does."""
    env = DogfightEnvConfig(num_envs=20, rules="challenge", action_repeat=10)
    small = config(tmp_path, phases=phases("do_nothing"), env=env, against=DIVER)
    small.phases[0].updates = 1
    train(replace(small, ppo=replace(small.ppo, rollout_steps=160)))
    (row,) = metrics(tmp_path)
    assert row["rollout/Diver/win_rate"] > 0.9
    assert row["curriculum/Diver/share"] == 1.0


def test_progress_includes_opponent_share(tmp_path, capsys):
    small = config(tmp_path, phases=phases("ace", DIVER), logger=LoggerConfig(progress=True), max_updates=1)
    train(small)
    assert re.search(r"1 of 1 update.*opponents \d+% of play", capsys.readouterr().out)


# ---- the command line


def typed(tmp_path, *more):
    return load([*SMALL, f"checkpoint_dir={tmp_path}", *more])


def test_only_code_named_on_command_line_runs(tmp_path):
    """A resumed run or a run file needs the reference to be typed again."""
    sys.modules.pop("tests.agents.opponents.players", None)
    stage = f"phases.0.stages.0.bots=[ace,'{DIVER}']"
    train(typed(tmp_path, "+run=best_response", f"against='{DIVER}'", "name=one", "max_updates=1"))
    train(typed(tmp_path, "+run=quickstart", stage, "name=two", "max_updates=1"))
    sys.modules.pop("tests.agents.opponents.players", None)
    trust = r"runs the code of the module tests\.agents\.opponents\.players; if you trust it, add"
    with pytest.raises(ConfigError, match=rf"^resume=one: its opponent {DIVER} {trust} against={DIVER}$"):
        typed(tmp_path, "resume=one", "max_updates=2")
    with pytest.raises(ConfigError, match=rf"{trust} phases\.0\.stages\.0\.bots=\[ace,{DIVER}\]"):
        typed(tmp_path, "resume=two", "max_updates=2")
    assert "tests.agents.opponents.players" not in sys.modules
    train(typed(tmp_path, "resume=two", "max_updates=2", stage))
    final = train(typed(tmp_path, "resume=one", "max_updates=2", f"against='{DIVER}'"))
    rows = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "event" not in row]) == 2


def test_run_with_registered_opponent_explains_resume_by_script(tmp_path, monkeypatch, capsys):
    """The printed call resumes the run where the name is registered; the command line rejects it."""
    monkeypatch.setattr(registry, "_registered", {})
    sparring.register_opponent("mine")(players.Diver)
    options = dict(text.split("=") for text in SMALL) | {"checkpoint_dir": str(tmp_path), "logger.progress": True}
    stop = StopAfter("rollout/reward")
    sparring.train("best_response", {**options, "against": "mine", "name": "hawk", "max_updates": 3}, callbacks=[stop])
    said = capsys.readouterr().out
    hint = re.search(r"continue with: (.*)", said).group(1)
    call, _, where = hint.partition(" in the script that registers ")
    assert where == "mine"
    assert call == f"sparring.train(overrides=['resume=hawk', 'checkpoint_dir={tmp_path}'])"
    registry._registered.clear()
    assert sparring.train.main(["resume=hawk", f"checkpoint_dir={tmp_path}"]) == 2
    why = "its opponent mine is neither a run nor registered here"
    fix = f"call {call} in the script that calls register_opponent('mine')"
    file = f"restore {tmp_path / 'hawk' / 'config.yaml'} (every policy of the run holds a copy)"
    assert capsys.readouterr().err == f"train.py: resume=hawk: {why}; {fix}; if none does, {file}\n"
    sparring.register_opponent("mine")(players.Diver)
    assert eval(call).is_file()
    rows = [json.loads(line) for line in (tmp_path / "hawk" / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "event" not in row]) == 3


def test_run_with_module_names_option_to_repeat(tmp_path):
    hint = resume_hint(typed(tmp_path, "+run=best_response", f"against='{DIVER}'", "name=one"), "one")
    words = shlex.split(hint.removeprefix("continue with: python train.py "))
    assert words == ["resume=one", f"checkpoint_dir={tmp_path}", f"against={DIVER}"]
    assert resume_hint(load(["+run=quickstart"]), "two") == "continue with: python train.py resume=two"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["against=brawlr"], "against=brawlr: choose from do_nothing.*did you mean 'brawler'"),
        (["opponents=[acee]"], r"opponents\.0=acee: .*did you mean 'ace'"),
        (["opponents=[a.pt,a.pt]"], "name each opponent once"),
        (["opponents=[a.pt]", "against=b.pt"], "has no effect beside against=b.pt"),
        (["phases.0.stages.0.bots=[brawlr]"], r"phases\.0\.stages\.0\.bots\.0=brawlr: .*did you mean 'brawler'"),
    ],
)
def test_wrong_names_give_one_line_error(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        typed(tmp_path, "+run=quickstart", *options)


def test_diplomacy_accepts_files_and_objects_but_not_unknown_words():
    options = ["+run=diplomacy_ppo", f"phases.0.stages.0.bots=[a/final.pt,'{DIVER}']"]
    assert load(options).phases[0].stages[0].bots == ["a/final.pt", DIVER]
    with pytest.raises(ConfigError, match=r"bots\.0=dumbot: choose from .*did you mean 'dumbbot'"):
        load(["+run=diplomacy_ppo", "phases.0.stages.0.bots=[dumbot]"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("released/dogfight_quickstrat", "no checkpoint .*did you mean 'released/dogfight_quickstart'"),
        (
            "no_such_package.bots:Mine",
            "opponent no_such_package.bots:Mine: cannot find the module no_such_package; install",
        ),
    ],
)
def test_missing_files_are_rejected_before_folder_creation(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        find_opponents(typed(tmp_path, "+run=best_response", f"against='{name}'"))
    assert list(tmp_path.iterdir()) == []
