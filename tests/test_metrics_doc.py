"""docs/metrics.md matches the code: a short run writes exactly the documented keys."""

import json
import re
from pathlib import Path

import pytest
import torch

from sparring.agents.language.grpo.matchmaking import CATEGORIES
from sparring.agents.language.grpo.objective.advantages import role_advantages
from sparring.agents.trainers import train as train_by_grpo
from sparring.configs.core.session import LoggerConfig
from sparring.configs.games import DIPLOMACY_BOTS
from sparring.configs.load import load
from sparring.configs.schema import (
    EvaluationConfig,
    NetworkConfig,
    PhaseConfig,
    PPOConfig,
    SelfPlayConfig,
    StageConfig,
)
from sparring.envs.diplomacy.config import (
    DiplomacyCloneConfig,
    DiplomacyCloneRunConfig,
    DiplomacyDistillRunConfig,
    DiplomacyEnvConfig,
    DiplomacyRunConfig,
    DistillConfig,
)
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig
from sparring.envs.dogfight.rules import BOTS, REGIMES
from sparring.envs.imported.config import (
    GymnasiumEnvConfig,
    GymnasiumRunConfig,
    ImportedEnvConfig,
    ImportedRunConfig,
)
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.toy_folder import toy_folder

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("metrics.md", "metrics_ppo.md", "metrics_cloning.md")
"""Pages of the runs that are not of GRPO."""
ROW = re.compile(r"^\| `(?P<key>[^`]+)` \|[^|]*\|[^|]*\|(?P<when>[^|]*)\|$", re.MULTILINE)
NAMES = [*BOTS, *DIPLOMACY_BOTS, "Diver"]
AGENTS = ["challenger", "base_model", *DIPLOMACY_BOTS, r"checkpoint_\d{6}"]
PLACEHOLDERS = {
    "<opponent>": [*NAMES, "selfplay", "base_model"],
    "<bot>": NAMES,
    "<regime>": REGIMES,
    "<i>": ["0", "1"],
}
PLACEHOLDERS |= {"<agent>": AGENTS, "<category>": CATEGORIES}


def listed(*pages):
    """Return key -> whether it is in every row; a key listed twice is an error."""
    rows = [row for page in pages for row in ROW.finditer((DOCS / page).read_text())]
    keys = {row["key"]: not row["when"].strip() for row in rows}
    assert len(keys) == len(rows)
    return keys


def documented():
    return listed(*PAGES, "metrics_grpo.md")


def of_ppo():
    return listed(*PAGES)


def of_grpo():
    """Return the keys that only GRPO writes."""
    return listed("metrics_grpo.md")


def matches(documented_key, key):
    pattern = re.escape(documented_key)
    for placeholder, names in PLACEHOLDERS.items():
        pattern = pattern.replace(placeholder, f"(?:{'|'.join(names)})")
    return re.fullmatch(pattern, key) is not None


def trained(kind, root, **options):
    """Return the rows of a run of two updates."""
    from sparring.agents.trainers import train

    options |= {"name": "documented", "checkpoint_dir": str(root), "device": "cpu", "threads": 1}
    options |= {"logger": LoggerConfig(progress=False)}
    config = kind(**options)
    train(config)
    lines = (root / "documented" / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "event" not in row]


@pytest.fixture(scope="module")
def gymnasium_rows(tmp_path_factory):
    return trained(
        GymnasiumRunConfig,
        tmp_path_factory.mktemp("gymnasium"),
        network=NetworkConfig(hidden=8),
        env=GymnasiumEnvConfig(id="CartPole-v1", num_envs=4),
        ppo=PPOConfig(rollout_steps=100, epochs=1, minibatch_size=400, precision="fp32"),
        phases=[PhaseConfig("training", 2)],
    )


@pytest.fixture(scope="module")
def diplomacy_rows(tmp_path_factory):
    return trained(
        DiplomacyRunConfig,
        tmp_path_factory.mktemp("diplomacy"),
        network=NetworkConfig(hidden=8),
        env=DiplomacyEnvConfig(num_envs=14, last_year=1902),
        ppo=PPOConfig(rollout_steps=8, epochs=1, minibatch_size=112, precision="fp32"),
        phases=[PhaseConfig(updates=2, stages=[StageConfig(bots=["random"])])],
        evaluation=EvaluationConfig(every=2, games=7),
    )


@pytest.fixture(scope="module")
def population_rows(tmp_path_factory):
    """Return rows of the learner, an exploiter, and the learner again."""
    return trained(
        DogfightRunConfig,
        tmp_path_factory.mktemp("population"),
        network=NetworkConfig(hidden=8, styles=2),
        env=DogfightEnvConfig(num_envs=16, action_repeat=120),
        ppo=PPOConfig(rollout_steps=100, epochs=1, minibatch_size=1600, precision="fp32"),
        phases=[PhaseConfig(updates=3, scripted_start=0.2, scripted_end=0.2, stages=[StageConfig(bots=["ace"])])],
        self_play=SelfPlayConfig(slots=4, exploiter_every=1, exploiter_updates=1),
    )


@pytest.fixture(scope="module")
def imported_rows(tmp_path_factory):
    """Return rows of a game with two cards each, short enough to traverse."""
    pytest.importorskip("pyspiel")
    return trained(
        ImportedRunConfig,
        tmp_path_factory.mktemp("imported"),
        network=NetworkConfig(hidden=8),
        env=ImportedEnvConfig(package="openspiel", id="kuhn_poker", num_envs=32),
        ppo=PPOConfig(rollout_steps=16, epochs=1, minibatch_size=512, precision="fp32"),
        phases=[PhaseConfig(updates=2, scripted_start=0.4, scripted_end=0.4, stages=[StageConfig(bots=["random"])])],
        self_play=SelfPlayConfig(both_seats=True, pool_share=0.4, slots=1),
        evaluation=EvaluationConfig(every=2, games=4, exploit_every=2, exploit_moves=400),
    )


@pytest.fixture(scope="module")
def clone_rows(tmp_path_factory):
    pytest.importorskip("transformers")
    return trained(
        DiplomacyCloneRunConfig,
        tmp_path_factory.mktemp("clone"),
        env=DiplomacyEnvConfig(last_year=1902),
        clone=DiplomacyCloneConfig(hidden=16, layers=1, heads=1, games_per_update=2, updates=2),
        evaluation=EvaluationConfig(every=2, games=2),
    )


@pytest.fixture(scope="module")
def distill_rows(tmp_path_factory):
    return trained(
        DiplomacyDistillRunConfig,
        tmp_path_factory.mktemp("distill"),
        network=NetworkConfig(hidden=8),
        env=DiplomacyEnvConfig(last_year=1901),
        distill=DistillConfig(teacher="dumbbot", games=1, epochs=2, value_share=1.0),
        evaluation=EvaluationConfig(every=2, games=7),
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return rows of two updates with self-play and every check. Matches end within 90 steps."""
    return trained(
        DogfightRunConfig,
        tmp_path_factory.mktemp("checkpoints"),
        network=NetworkConfig(hidden=8),
        env=DogfightEnvConfig(num_envs=32, action_repeat=120),
        ppo=PPOConfig(rollout_steps=100, epochs=1, minibatch_size=1600, precision="fp32"),
        phases=[PhaseConfig(updates=2, stages=[StageConfig(bots=["ace"])], scripted_start=0.8, scripted_end=0.8)],
        opponents=["tests.agents.opponents.players:Diver"],
        self_play=SelfPlayConfig(slots=1),
        evaluation=EvaluationConfig(every=2, games=2, check_every=2, regimes_every=2, check_bot="ace"),
    )


@pytest.fixture(scope="module")
def grpo_rows(tmp_path_factory):
    """Return rows of two steps against DumbBots with a league policy, checks and every correction."""
    folder = tmp_path_factory.mktemp("grpo")
    places = [f"model.name={toy_folder(folder / 'toy')}", f"checkpoint_dir={folder}", "name=documented"]
    switches = ["grpo.use_importance_correction=true", "league.dumbbot_game_probability=1", "league.checkpoint_every=1"]
    switches += ["evaluation.every=1", "evaluation.games=7", "env.last_year=1902"]
    train_by_grpo(small_config(*places, *switches, "grpo.steps=2"))
    return [json.loads(line) for line in (folder / "documented" / "metrics.jsonl").read_text().splitlines()]


def test_page_lists_keys_of_every_group():
    assert {key.split("/")[0] for key in of_ppo()} == {
        *("rollout", "train", "time", "curriculum", "league", "guard", "eval", "exploit"),
        *("styles", "exploiter"),
    }
    assert {key.split("/")[0] for key in of_grpo()} == {
        *("benchmark", "loss", "kl", "advantage", "processing", "ppo", "policy", "extraction", "rollout", "cache"),
        "buffer",
        *("game", "placement", "dumbbot", "pfsp", "league", "elo", "trueskill", "power_law"),
        "eval",
    }


def test_every_written_key_is_documented_once(
    rows, population_rows, gymnasium_rows, diplomacy_rows, imported_rows, clone_rows, distill_rows, grpo_rows
):
    runs = (rows, gymnasium_rows, diplomacy_rows, imported_rows, clone_rows, distill_rows, grpo_rows)
    assert [len(run) for run in runs] == [2] * 7
    for key in set().union(*(row for run in (population_rows, *runs) for row in run)) - {"env_steps"}:
        assert len([known for known in documented() if matches(known, key)]) == 1, key


def test_every_documented_key_is_written(
    rows, population_rows, gymnasium_rows, diplomacy_rows, imported_rows, clone_rows, distill_rows
):
    written = set().union(
        *rows, *population_rows, *gymnasium_rows, *diplomacy_rows, *imported_rows, *clone_rows, *distill_rows
    )
    assert [known for known in of_ppo() if not any(matches(known, key) for key in written)] == []


def test_exploiter_updates_have_few_keys(population_rows):
    learner, exploiter, again = ({key.partition("/")[0] for key in row} for row in population_rows)
    assert exploiter == {"exploiter", "guard", "time", "env_steps"}
    assert {"styles", "train", "rollout", "league"} <= learner & again


def test_documented_metrics_of_other_games(gymnasium_rows, diplomacy_rows):
    """The table lists which dogfight metric groups exist in other games."""
    shared = {"curriculum", "league", "eval"}
    written = set().union(*diplomacy_rows)
    absent = {"rollout/hp", "rollout/action_size", "curriculum/randomization", "guard/invalid_actions"}
    assert not written & absent
    assert {key for key in written if key.startswith("eval/")} == {
        *("eval/random/win_rate", "eval/random/centres", "eval/random/score")
    }
    assert {"curriculum/phase", "curriculum/scripted_share", "league/elo"} <= written
    assert not {key for row in gymnasium_rows for key in row if key.split("/")[0] in shared}
    text = " ".join((DOCS / "metrics_ppo.md").read_text().split())
    assert "do not have `hp`, `curriculum/randomization`, `rollout/action_size` and `guard/invalid_actions`." in text
    assert "Of `eval/` they have a bot's `win_rate`, `centres` and `score`" in text
    assert "They do not have `curriculum/`, `league/` or `eval/`" in text


def test_documented_metrics_of_imported_games(imported_rows):
    written = set().union(*imported_rows)
    itself = {key for key in written if key.startswith("rollout/itself/")}
    assert itself == {f"rollout/itself/{name}" for name in ("matches", "length", "draw_rate")}
    assert {"eval/exploitability", "eval/random/reward", "eval/random/length"} <= written
    absent = {"rollout/hp", "rollout/action_size", "curriculum/randomization", "guard/invalid_actions"}
    assert not written & absent
    text = " ".join((DOCS / "metrics_ppo.md").read_text().split())
    assert (
        "do not have `hp`, `curriculum/randomization` and `guard/invalid_actions`, and `rollout/action_size` only if"
        in text
    )
    assert [row["env_steps"] for row in imported_rows] == [512, 1024]  # moves of matches


def test_trap_30_grpo_writes_every_key_analysis_can_read(grpo_rows):
    settings = load(["+run=diplomacy_quickstart", "grpo.baseline=role", "grpo.scale_advantages=false"])
    by_role = role_advantages(torch.ones(2), torch.tensor([0, 1]), torch.zeros(2, dtype=torch.float64), settings.grpo)
    written = set(by_role.metrics).union(*grpo_rows)
    assert [known for known in of_grpo() if not any(matches(known, key) for key in written)] == []


@pytest.mark.parametrize(("keys", "run"), [(of_ppo, "rows"), (of_grpo, "grpo_rows")], ids=["ppo", "grpo"])
def test_unconditional_keys_are_in_every_row(keys, run, request):
    always = [known for known, in_every_row in keys().items() if in_every_row]
    assert always
    rows = request.getfixturevalue(run)
    assert [known for known in always for row in rows if not any(matches(known, key) for key in row)] == []
