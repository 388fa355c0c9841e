"""Composing configurations: overrides, run files, and one-line errors."""

import inspect
import logging
import os
import re
from dataclasses import replace

import pytest
import yaml

from sparring.configs.core.errors import ConfigError, InputError, UnknownNameError
from sparring.configs.foreign_names import POLICIES
from sparring.configs.kinds import declared, run_kinds
from sparring.configs.language.trl_names import NAMES
from sparring.configs.load import CONFIG_DIR, load, load_named, runs
from sparring.configs.serialization import read_options, to_plain
from sparring.envs.dogfight.config import DogfightRunConfig
from sparring.eval.analysis.sweeps.file import option_of
from sparring.eval.analysis.sweeps.plan import read_grid
from sparring.eval.exploit import ExploitOptions
from sparring.eval.options import parse
from sparring.train import main
from tests.configs import messages
from tests.configs.run_configs import PPO, configured, run_config

RUN_FILES = sorted((CONFIG_DIR / "run").glob("*.yaml"))


def refusal(*overrides, kind=InputError):
    with pytest.raises(kind) as caught:
        load(overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("run", runs())
def test_every_run_composes_and_validates(run):
    config = run_config(run)
    assert config.run == run
    assert (config.trainer == "ppo") == (run in PPO)


def test_shared_composed_configurations_match_fresh_load():
    base, options = ("+run=diplomacy_exp1_quick", "grpo.groups=3"), ("grpo.learning_rate=1e-2", "name=2_0", "seed=7")
    assert configured(base, *options) == load([*base, *options])


@pytest.mark.parametrize("path", RUN_FILES, ids=lambda path: path.stem)
def test_run_files_are_short_and_state_expectations(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 30
    for word in ("Purpose", "Expected", "Hardware", "Time"):
        assert re.search(rf"^# {word}: \S", text, re.MULTILINE), word


def test_runs_are_listed_with_purpose():
    assert runs()["quickstart"].startswith("beat the five bots and most")
    assert set(runs()) == {path.stem for path in RUN_FILES}


def test_overrides_beat_run_file_and_run_file_beats_defaults():
    config = load(["+run=baseline_v1", "seed=3", "env.num_envs=256", "++ppo.clip=0.1", "+ppo.epochs=2"])
    assert (config.seed, config.env.num_envs, config.ppo.clip, config.ppo.epochs) == (3, 256, 0.1, 2)
    assert (config.ppo.gamma, config.ppo.rollout_steps) == (0.99, 10_800)
    assert config.ppo.gae_lambda == 0.95


def test_lists_can_be_replaced_and_indexed():
    config = load(["+run=unified_dr_cpu", "phases.2.updates=201", "phases.0.stages.1.bots=[ace,chaser]"])
    assert config.phases[2].updates == 201
    assert config.phases[0].stages[1].bots == ["ace", "chaser"]
    replaced = load(["+run=quickstart", "phases=[{updates:7,stages:[{bots:[ace]}]}]"])
    assert [phase.updates for phase in replaced.phases] == [7]


def test_large_numbers_accept_human_formats():
    assert load(["+run=quickstart", "max_updates=1e6"]).max_updates == 1_000_000


@pytest.mark.parametrize("row", messages.rows(__file__, "messages_of_train"), ids=messages.label)
def test_invalid_arguments_print_expected_messages(row, check_row):
    check_row(main, row)


def test_unknown_run_lists_choices():
    message = refusal("+run=quikstart", kind=UnknownNameError)
    assert message.startswith("unknown run 'quikstart': did you mean 'quickstart'? choose from air_combat_f16, ")
    assert message.endswith(f" and {len(runs()) - 12} more")
    assert "run=../config: your own run file must end in .yaml" in refusal("+run=../config")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ppo.lr", "ppo.learning_rate (lr in CleanRL and RLlib)?"),
        ("n_steps", "ppo.rollout_steps (n_steps in SB3)?"),
        ("ppo.ent_coef", "ppo.entropy_coefficient (ent_coef in SB3 and CleanRL)?"),
        ("total_timesteps", "max_updates (total_timesteps in SB3 and CleanRL; an update is ppo.rollout_steps x"),
        ("network.net_arch", "network.hidden (net_arch in SB3; the width of two layers"),
        ("num_minibatches", "ppo.minibatch_size (num_minibatches in CleanRL; as the samples of one minibatch"),
        ("vf_coef", "ppo.value_coefficient (vf_coef in SB3 and CleanRL; SB3's number, and half of CleanRL's)?"),
        ("grpo.beta", "grpo.kl_beta (beta in TRL)?"),
    ],
)
def test_names_of_other_trainers_are_translated(typed, meant):
    run = "+run=diplomacy_quickstart" if typed.startswith("grpo") else "+run=quickstart"
    assert refusal(run, f"{typed}=1").startswith(f"unknown key {typed!r}: did you mean {meant}")


THEIRS = {"ppo.lr": 1e-4, "n_steps": 32, "+ent_coef": 0.25, "ppo.clip_range": 0.3, "lam": 0.5}
OURS = {"learning_rate": 1e-4, "rollout_steps": 32, "entropy_coefficient": 0.25, "clip": 0.3, "gae_lambda": 0.5}


def test_synonyms_are_accepted_in_cli_scripts_and_grids(capsys, printed):
    texts = [f"{key}={value}" for key, value in THEIRS.items()]
    assert main(["+run=quickstart", *texts, "--cfg"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[:2] == ["ppo.lr is ppo.learning_rate here", "n_steps is ppo.rollout_steps here"]
    stored = yaml.safe_load(said.out)
    assert {key: stored["ppo"][key] for key in OURS} == OURS
    assert set(stored["ppo"]) == set(declared_section("ppo"))
    named = {key.lstrip("+"): value for key, value in THEIRS.items()}
    assert to_plain(load_named("quickstart", named)) == to_plain(load_named("quickstart", texts)) == stored
    runs = yaml.safe_load(printed(main, ["--multirun", "+run=quickstart", "ppo.lr=1e-4,2e-4", "--cfg"]))
    assert [run["ppo"]["learning_rate"] for run in runs.values()] == [1e-4, 2e-4]
    assert parse(ExploitOptions, ["final.pt", "ppo.lr=1e-4"]).options == ("ppo.learning_rate=1e-4",)


def declared_section(name):
    return [key.partition(".")[2] for key in declared(DogfightRunConfig) if key.startswith(f"{name}.")]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            ["ppo.lr=1e-4", "ppo.learning_rate=2e-4"],
            "ppo.lr=1e-4 and ppo.learning_rate=2e-4: are the same option here, ppo.",
        ),
        (
            ["n_steps=8", "num_steps=16"],
            "num_steps=16 and n_steps=8: are the same option here, ppo.rollout_steps; set it",
        ),
        (["num_minibatches=4"], "unknown key 'num_minibatches': did you mean ppo.minibatch_size"),
        (["lr=abc"], "ppo.learning_rate=abc: "),
    ],
)
def test_duplicate_or_different_synonyms_are_rejected(typed, message, capsys):
    assert main(["+run=quickstart", *typed]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"train.py: {message}")
    with pytest.raises(ConfigError) as error:
        load_named("quickstart", typed)
    assert str(error.value).startswith(message)


def test_foreign_name_inside_own_section_is_not_translated():
    assert "ppo.minibatch_size" not in refusal("+run=quickstart", "evaluation.batch_size=1")


def test_every_translation_targets_option():
    options = {key for kind in run_kinds() for key in declared(kind)}
    known = POLICIES | NAMES
    assert {found.key for found in known.values()} <= options
    assert not set(known) & options
    assert not set(POLICIES) & set(NAMES)


def test_sb3_option_names_are_translated():
    """Every SB3 PPO argument with another name here, except those without a counterpart."""
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    ours = {key.rpartition(".")[2] for kind in run_kinds() for key in declared(kind)}
    none = {"policy", "env", "normalize_advantage", "rollout_buffer_class", "rollout_buffer_kwargs", "self"}
    none |= {"stats_window_size", "tensorboard_log", "_init_setup_model"}
    arguments = set(inspect.signature(stable_baselines3.PPO.__init__).parameters)
    assert arguments - ours - none <= set(POLICIES)


NAMES_LIKE_VALUES = ("2_0", "20261125_0810", "1e3", "0x10", "007", "1.50", "true", "inf", "1:30", "2026-11-25")


@pytest.mark.parametrize("name", [*NAMES_LIKE_VALUES, "null"])
def test_str_option_keeps_typed_text(name):
    config = load(["+run=quickstart", f"init_from={name}", f"checkpoint_dir={name}", f"logger.wandb_project={name}"])
    assert (config.init_from, config.checkpoint_dir, config.logger.wandb_project) == (name,) * 3
    assert load_named("quickstart", {"init_from": name}).init_from == name
    grid = read_grid(["+run=quickstart", f"logger.wandb_project={name},b", "launcher=local"])
    assert [run.logger.wandb_project for run in grid.runs] == [name, "b"]


@pytest.mark.parametrize("name", NAMES_LIKE_VALUES)
def test_str_option_keeps_text_from_file(tmp_path, name):
    (tmp_path / "mine.yaml").write_text(f"init_from: {name}\nlogger: {{wandb: off, wandb_project: '{name}'}}\n")
    config = load([f"+run={tmp_path}/mine.yaml"])
    assert (config.run, config.init_from, config.logger.wandb_project) == ("mine", name, name)
    assert config.logger.wandb == "off"
    text = f"defaults: {{logger: {{wandb_project: {name}}}}}\nruns: {{A: {{changes: {{init_from: {name}}}}}}}\n"
    text += f"search: {{space: {{env.rules: {{choices: [{name}, 3]}}, ppo.epochs: {{choices: [1_0]}}}}}}"
    read = read_options(text, option_of)
    assert read["defaults"]["logger"]["wandb_project"] == read["runs"]["A"]["changes"]["init_from"] == name
    space = read["search"]["space"]
    assert (space["env.rules"]["choices"], space["ppo.epochs"]["choices"]) == ([name, "3"], [10])


def test_list_items_keep_number_and_text_types():
    phases = "phases=[{name:a1,updates:1_0,stages:[{bots:[ace]}],events:[{at:5e0,snapshot:'true'}]}]"
    (phase,) = load(["+run=quickstart", phases]).phases
    assert (phase.name, phase.updates, phase.events[0].at, phase.events[0].snapshot) == ("a1", 10, 5, "true")
    assert "opponents.0=2_0: " in refusal("+run=quickstart", "opponents=[2_0,ace]")
    with pytest.raises(ConfigError, match=r"^name=None: must be text; omit it"):
        load_named("quickstart", {"name": None})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "run={path}: file not found; did you mean '{folder}/nine.yaml'?"),
        ("ppo: {clip: [", "run={path}: not YAML of plain data"),
        ("- 3", "run={path}: contains no options"),
        ("ppo: {clp: 1}", "run={path}: unknown key 'ppo.clp'"),
        ("name: null", "run={path}: name=None: must be text"),
        ("phases: []", "run={path}: phases=[]: a run needs at least one phase"),
        ("resume: x", "run={path}: resume: is not an option of a run file"),
        ("defaults: pettingzoo", "run={path}: defaults=pettingzoo: must be a list of one run, such as [pettingzoo]"),
        ("defaults: [quikstart]", "run={path}: defaults=['quikstart']: must be a list of one run"),
        ("defaults: [./nine.yaml]", "run={path}: defaults=['./nine.yaml']: must be a list of one run"),
        ("!!python/object/apply:os.system ['exit 3']", "run={path}: not YAML of plain data"),
        (
            "env: {id: 'evil:X-v0'}",
            "run=mine: its environment evil:X-v0 runs the code",
        ),
        ("against: evil:Bot", "run=mine: its opponent evil:Bot runs the code"),
        (
            "trainer: clone\nenv: {id: sparring/Chess-v0, engine: {path: ./evil}}",
            "run=mine: its engine is the program ./evil; if you trust it, add env.engine.path=./evil",
        ),
    ],
)
def test_bad_external_run_file_is_rejected(tmp_path, content, message):
    (tmp_path / "nine.yaml").write_text("max_updates: 1\n")
    path = tmp_path / "mine.yaml"
    if content is not None:
        path.write_text(content)
    assert refusal(f"+run={path}").startswith(message.format(path=path, folder=tmp_path))


def test_external_run_file_is_named_only_for_its_own_faults(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("ppo: {clp: 1}")
    assert refusal(f"+run={path}", "seed=3").startswith(f"run={path}: unknown key 'ppo.clp'")
    path.write_text("ppo: {minibatch_size: 4096}")
    assert refusal(f"+run={path}", "ppo.clp=1").startswith("unknown key 'ppo.clp'")
    assert refusal(f"+run={path}", "ppo.rollout_steps=1").startswith("ppo.minibatch_size=4096: must be at most 256")


def test_external_run_file_is_found_by_path_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("max_updates: 7\n")
    monkeypatch.chdir(tmp_path)
    runs = [load([f"+run={name}", "seed=3"]) for name in ("mine.yaml", "./mine.yaml", f"{tmp_path}/mine.yaml")]
    assert [(run.run, run.max_updates, run.seed) for run in runs] == [("mine", 7, 3)] * 3
    (tmp_path / "2x.yml").write_text("")
    assert "becomes the run's name: must be letters, digits, '_' and '-', a letter first" in refusal("+run=./2x.yml")
    assert "your own run file must end in .yaml" in refusal("+run=./mine")


def test_run_file_lists_differences_from_other_run(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [pettingzoo]\nenv: {kwargs: {x: 1}}\nppo: {gamma: 0.9}\nseed: 4\n")
    mine, base = load([f"+run={tmp_path}/mine.yaml", "ppo.clip=0.1"]), run_config("pettingzoo")
    assert (mine.run, mine.seed, mine.env.kwargs, mine.ppo.gamma, mine.ppo.clip) == ("mine", 4, {"x": 1}, 0.9, 0.1)
    differing = {"run": "mine", "seed": 4, "env": mine.env, "ppo": mine.ppo}
    assert mine == replace(base, **differing)
    assert (mine.env, mine.ppo) == (replace(base.env, kwargs={"x": 1}), replace(base.ppo, gamma=0.9, clip=0.1))


def test_no_run_and_two_runs():
    assert refusal(kind=ConfigError).startswith(
        "no run is named: give one +run=NAME, where NAME is one of air_combat_f16, air_combat_quickstart"
    )
    assert "; `python train.py --help runs` describes them; env=gymnasium env.id=ID trains" in refusal(
        "env.id=CartPole-v1"
    )
    assert refusal("+run=quickstart", "+run=baseline_v1").startswith("2 runs are named (quickstart, baseline_v1)")


def test_openspiel_alias_selects_run_and_id():
    for alias, game in (("kuhn_text", "kuhn_poker"), ("leduc_text", "leduc_poker")):
        run, named = load([f"env={alias}"]), load(["env=openspiel_text", f"env.id={game}"])
        assert (run.env.package, run.env.id) == ("openspiel_text", game)
        assert to_plain(run) == to_plain(named)
    assert load(["env=leduc_text", "grpo.steps=3"]).grpo.steps == 3
    assert refusal("env=kuhn_text", "env.id=leduc_poker") == (
        "env=kuhn_text: is the game kuhn_poker; remove env.id=leduc_poker"
    )
    assert "already sets the game" in refusal("env=kuhn_text", "+run=openspiel_text_grpo")
    assert "did you mean 'kuhn_text'?" in refusal("env=kuhn_txt")


def test_run_file_with_unknown_key_or_bad_yaml_is_rejected(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "typo.yaml").write_text("# @package _global_\nppo: {clp: 0.1}\n")
    (tmp_path / "run" / "broken.yaml").write_text("# @package _global_\nppo: {clip: [\n")
    monkeypatch.setattr("sparring.configs.load.CONFIG_DIR", tmp_path)
    assert refusal("+run=typo").startswith("unknown key 'ppo.clp': did you mean 'ppo.clip'? choose ")
    assert "broken" in refusal("+run=broken") or "pars" in refusal("+run=broken")


def test_composing_leaves_no_global_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    handlers = list(logging.getLogger().handlers)
    load(["+run=quickstart"])
    assert list(tmp_path.iterdir()) == []
    assert os.path.samefile(os.getcwd(), tmp_path)
    assert logging.getLogger().handlers == handlers


def test_same_command_line_gives_same_configuration():
    arguments = ["+run=unified_dr_cpu", "seed=9"]
    assert load(arguments) == load(arguments)


@pytest.fixture
def started(tmp_path):
    """Store the configuration of a run called mine in `checkpoint_dir`."""
    config = load(["+run=quickstart", "seed=9", f"checkpoint_dir={tmp_path}", "name=mine"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text(yaml.safe_dump(to_plain(config)))
    return config


def test_resumed_run_uses_its_own_configuration(started):
    config = load(["resume=mine", f"checkpoint_dir={started.checkpoint_dir}", "max_updates=7"])
    assert config == replace(started, resume="mine", max_updates=7)
    assert config.seed == 9


def test_resume_names_run_once(started):
    for extra in ("+run=quickstart", "name=other"):
        with pytest.raises(ConfigError, match=r"resume=mine and (run=quickstart|name=other): a resumed run keeps its"):
            load(["resume=mine", extra])


def test_unknown_run_to_resume_suggests_nearest(started):
    with pytest.raises(UnknownNameError, match=r"unknown run to resume 'mime': choose from mine; did you mean 'mine'"):
        load(["resume=mime", f"checkpoint_dir={started.checkpoint_dir}"])


def test_resuming_missing_run_is_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"resume=foo: .* does not contain a run yet; start one with \+run=NAME"):
        load(["resume=foo", f"checkpoint_dir={tmp_path}"])


def test_unreadable_stored_configuration_is_named(started, tmp_path):
    (tmp_path / "mine" / "config.yaml").write_text("ppo: {clips: 1}")
    with pytest.raises(
        ConfigError, match=r"config\.yaml: is not a configuration of this version: unknown key 'ppo\.clips'"
    ):
        load(["resume=mine", f"checkpoint_dir={tmp_path}"])


@pytest.mark.parametrize(
    "path", ["mine", "mine/", "{place}/mine", "{place}/mine/", "{relative}/mine/", "./{relative}/mine"]
)
def test_run_is_found_by_shell_completed_path(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "checkpoints"
    started = load(["+run=quickstart", "name=mine", f"checkpoint_dir={place}"])
    (place / "mine").mkdir(parents=True)
    (place / "mine" / "config.yaml").write_text(yaml.safe_dump(to_plain(started)))
    told = path.format(place=place, relative="checkpoints")
    assert load([f"resume={told}", f"checkpoint_dir={place}"]) == replace(started, resume="mine")


def test_path_in_run_name_is_rejected_with_right_option(tmp_path):
    message = refusal(f"resume={tmp_path}/mine")
    assert message.endswith(f"give resume=mine checkpoint_dir={tmp_path}")


@pytest.mark.parametrize(("name", "game"), [("dogfight", "Dogfight-v1"), ("diplomacy", "Diplomacy-v0")])
def test_own_games_are_selected_like_gymnasium(name, game):
    assert load([f"env={name}", "seed=3"]).env.id == f"sparring/{game}"


def test_unknown_game_and_game_with_run_are_rejected():
    assert refusal("env=dogfigth") == (
        "unknown env 'dogfigth': choose from gymnasium, pettingzoo, openspiel, dogfight, diplomacy, chess, air_combat, "
        "openspiel_text, kuhn_text, leduc_text; did you mean 'dogfight'?"
    )
    assert refusal("+run=quickstart", "env=diplomacy").startswith("env=diplomacy: run=quickstart already sets the game")
