"""`scale`: a shrunk run keeps the order of events, and is scaled once."""

import re
from dataclasses import replace
from itertools import groupby

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparring.configs.core.errors import ConfigError
from sparring.configs.help import help_text
from sparring.configs.kinds import declared, knows, run_kinds
from sparring.configs.load import CONFIG_DIR, load, runs
from sparring.configs.resume import drift
from sparring.configs.scale import INTERVALS, MOMENTS, SIZES, ScaleClock, shrink
from sparring.configs.serialization import from_plain, options, to_plain
from sparring.configs.validate import validate
from sparring.curriculum.schedule import Schedule
from sparring.envs.dogfight.config import DogfightRunConfig
from tests.configs.run_configs import PPO, run_config

IN_PHASES = {"updates", "stages.at", "randomization.at", "randomization.over", "randomization.steps", "events.at"}
LEFT = {
    *(
        "seed",
        "threads",
        "keep_states",
        "env.last_year",
        "env.action_repeat",
        "network.hidden",
        "network.blocks",
        "network.styles",
    ),
    *("evaluation.exploit_moves", "ppo.epochs", "self_play.pool_size", "self_play.slots"),
    *("model.max_prompt_tokens", "model.batch_size", "model.lora_rank", "env.answer.max_tokens"),
    *("clone.hidden", "clone.layers", "clone.heads", "clone.batch_tokens", "distill.batch_size", "distill.workers"),
    *("grpo.samples_per_group", "grpo.rollout_horizon_years", "grpo.rollout_long_horizon_years"),
    *("grpo.rollout_warmup_phases", "grpo.buffer_depth", "grpo.workers", "grpo.epochs"),
    "grpo.winner_threshold_sc",
    *("ppo.sequence_length", "env.missiles", "env.flares", "env.team_size", "env.workers", "env.seat"),
    *("ppo.gsde_every", "overfit.window"),
    *("tasks.analysis.max_tokens", "tasks.arbiter.max_tokens"),
    *("env.engine.depth", "env.engine.processes", "env.data.seed", "env.data.plies"),
    *("env.data.train", "env.data.validation", "env.data.held_out"),
}
"""Whole numbers that no scale changes."""
SCALED = {*MOMENTS, *INTERVALS, *SIZES, *(f"phases.{key}" for key in IN_PHASES)}


def bare(key):
    """`phases.0.stages.1.at` as `phases.stages.at`."""
    return re.sub(r"\.\d+(?=\.|$)", "", key)


def course(config):
    """Return the order of phases, stages, levels and events of a run, without repetitions."""
    schedule = Schedule(config.phases)
    total = min(schedule.total_updates, config.max_updates or schedule.total_updates)
    plans = [schedule.plan(update, {}) for update in range(total)]
    names = [
        (plan.phase_index, plan.stage, plan.randomization.level, tuple((e.snapshot, e.log_std) for e in plan.events))
        for plan in plans
    ]
    events = [event for *_, happened in names for event in happened]
    return [key for key, _ in groupby(name[:3] for name in names)], events


def test_every_integer_option_is_scaled_or_excluded():
    whole = {key for kind in run_kinds() for key, option in declared(kind).items() if option.type == "int"}
    assert whole == SCALED | LEFT
    assert not SCALED & LEFT


def scaled(run, scale):
    """Return what `load` gives for scale=, without composing three times."""
    small = shrink(replace(run_config(run), scale=scale))
    validate(small)
    return small


@pytest.mark.parametrize("run", ["unified_dr_cpu", "diplomacy_exp5", "diplomacy_clone", "diplomacy_distill"])
def test_scale_is_option_and_one_changes_nothing(run):
    assert load([f"+run={run}", "scale=0.1"]) == scaled(run, 0.1)
    assert load([f"+run={run}", "scale=1"]) == run_config(run)


@pytest.mark.parametrize("run", runs())
def test_scale_changes_listed_options_only(run):
    whole, small = options(run_config(run)), options(scaled(run, 0.1))
    assert whole.keys() == small.keys()
    changed = {bare(key) for key in whole if whole[key] != small[key]}
    assert changed - {"scale"} <= SCALED
    lengths = {"grpo.steps", "clone.updates", "distill.epochs", "phases.updates"}
    assert lengths & changed or {whole[key] for key in lengths & whole.keys()} == {1}


@pytest.mark.parametrize("run", PPO)
def test_scaled_run_keeps_order_of_events(run):
    whole = run_config(run)
    expected, before = course(whole), options(whole)
    fights = any(phase.scripted_end < 1.0 for phase in whole.phases)
    keys = [key for key in INTERVALS if knows(type(whole), key) and (fights or not key.startswith("self_play"))]
    for small in (scaled(run, scale) for scale in (0.1, 0.0001)):
        assert course(small) == expected, small.scale
        assert sum(phase.updates for phase in small.phases) < sum(phase.updates for phase in whole.phases)
        updates = [min(sum(phase.updates for phase in one.phases), one.max_updates or 10**7) for one in (whole, small)]
        now = options(small)
        for key in keys:
            assert (0 < before[key] <= updates[0]) <= (0 < now[key] <= updates[1]), (small.scale, key)
            assert (now[key] == 0) == (before[key] == 0), (small.scale, key)


def test_large_run_at_one_hundredth_by_hand():
    config = load(["+run=unified_dr_gpu_v3", "scale=0.01"])
    assert [phase.updates for phase in config.phases] == [7, 2, 11]
    assert [stage.at for stage in config.phases[0].stages] == [0, 1, 2, 4, 6]
    assert (config.env.num_envs, config.ppo.rollout_steps, config.ppo.minibatch_size) == (26, 512, 410)
    assert (config.evaluation.check_every, config.evaluation.regimes_every, config.evaluation.games) == (2, 10, 10)
    assert (config.self_play.snapshot_every, config.self_play.deal_every, config.checkpoint_every) == (5, 2, 5)
    assert (config.ppo.learning_rate, config.ppo.gamma, config.network.hidden, config.ppo.epochs) == (
        3e-4,
        0.999,
        256,
        4,
    )


def test_widening_physics_and_end_by_hand():
    config = load(["+run=bots_only", "scale=0.1"])
    first, second = config.phases[0].randomization
    assert (first.at, second.at, second.over, second.steps) == (0, 2, 6, 6)  # of 30 steps as many as there are updates
    assert (config.phases[0].updates, config.max_updates, config.phases[0].events[0].at) == (90, 70, 9)


def test_language_model_runs_are_scaled():
    grpo = load(["+run=diplomacy_exp5", "scale=0.1"])
    assert (grpo.grpo.steps, grpo.league.cold_start_steps, grpo.grpo.groups) == (25, 1, 5)
    clone = load(["+run=diplomacy_clone", "scale=0.1"])
    assert (clone.clone.updates, clone.evaluation.every, clone.checkpoint_every) == (25, 16, 16)


def test_diplomacy_games_stay_multiples_of_seven():
    config = load(["+run=diplomacy_ppo", "scale=0.3"])
    assert (config.env.num_envs, config.evaluation.games) == (140, 77)


def test_scaled_minibatches_fit_into_rollout():
    typed = ["+run=gymnasium", "env.num_envs=1", "ppo.minibatch_size=128", "scale=0.01"]
    assert load(typed).ppo.minibatch_size == 128
    whole = DogfightRunConfig(scale=0.01)
    whole.env.num_envs, whole.ppo.rollout_steps, whole.ppo.minibatch_size = 8, 512, 4096
    assert shrink(whole).ppo.minibatch_size == 410
    whole.ppo.rollout_steps, whole.ppo.minibatch_size = 2, 16
    assert shrink(whole).ppo.minibatch_size == 16
    whole.env.num_envs, whole.ppo.rollout_steps, whole.ppo.minibatch_size = 10_000, 4, 40_000
    assert shrink(whole).ppo.minibatch_size == 4000


def test_second_snapshot_follows_first():
    config = DogfightRunConfig(scale=0.01)
    config.phases[0].updates, config.phases[0].scripted_end = 400, 0.2
    config.self_play.snapshot_every = 350
    assert shrink(config).phases[0].updates == 4
    assert shrink(config).self_play.snapshot_every == 2


@given(scale=st.floats(1e-6, 1.0), moments=st.sets(st.integers(0, 10**7), max_size=20))
def test_events_stay_distinct_and_in_time(scale, moments):
    clock = ScaleClock(scale, moments)
    short = [clock[moment] for moment in sorted(moments)]
    assert len({*short}) == len(short)
    assert short == sorted(short)
    assert clock[0] == 0
    assert all(short >= scale * moment - 0.5 for short, moment in zip(short, sorted(moments), strict=True))


@given(
    scale=st.floats(1e-6, 1.0),
    updates=st.integers(1, 3000),
    ats=st.sets(st.integers(0, 2999), min_size=1, max_size=8),
    over=st.integers(0, 5000),
    end=st.sampled_from([1.0, 0.2]),
    limit=st.integers(0, 7000),
)
def test_any_valid_run_stays_valid(scale, updates, ats, over, end, limit):
    ats = sorted({0, *(at for at in ats if at < updates)})
    phase = {
        "updates": updates,
        "stages": [{"at": at, "bots": ["ace"]} for at in ats],
        "randomization": [{"at": at, "level": "full", "over": over} for at in ats],
        "events": [{"at": at, "log_std": -1.0} for at in ats],
        "scripted_end": end,
    }
    whole = from_plain({"phases": [phase, phase], "max_updates": limit, "scale": scale})
    validate(whole)
    small = shrink(whole)
    validate(small)
    assert course(small) == course(whole)


def test_typed_values_are_not_scaled():
    config = load(["+run=unified_dr_gpu_v3", "env.num_envs=100", "max_updates=50", "phases.2.updates=30", "scale=0.01"])
    assert (config.env.num_envs, config.max_updates, config.phases[2].updates) == (100, 50, 30)
    assert config.phases[0].updates == 7


@pytest.mark.parametrize("value", ["0", "-1", "1.01", "nan", "inf"])
def test_out_of_range_scale_is_rejected_by_name(value):
    shown = f"{float(value):g}"
    with pytest.raises(ConfigError, match=rf"^scale={shown}: must be in \(0, 1\]; the default is 1\.0$"):
        load(["+run=quickstart", f"scale={value}"])


def test_typed_value_conflicting_with_scale_is_explained():
    with pytest.raises(ConfigError) as refused:
        load(["+run=unified_dr_gpu_v3", "scale=0.01", "phases.0.stages.1.at=75"])
    said = (
        "phases.0.stages.1.at=75: must be in [0, 7), the updates of its phase; scale=0.01 shrinks only the run file; "
    )
    assert str(refused.value) == said + "options on the command line are not scaled"


@pytest.fixture
def started(tmp_path):
    """Start a run called mine at scale 0.1."""
    config = load(["+run=unified_dr_cpu", "scale=0.1", f"checkpoint_dir={tmp_path}", "name=mine"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text(yaml.safe_dump(to_plain(config)))
    return config


@pytest.mark.parametrize("typed", [[], ["scale=0.1"]])
def test_resumed_run_is_not_scaled_again(started, typed):
    config = load(["resume=mine", f"checkpoint_dir={started.checkpoint_dir}", *typed])
    assert [phase.updates for phase in config.phases] == [120, 500, 150]
    assert (config.scale, drift(started, config)) == (0.1, {})


def test_same_command_resumes_run(started):
    again = load(["+run=unified_dr_cpu", "scale=0.1", f"checkpoint_dir={started.checkpoint_dir}", "name=mine"])
    assert drift(started, again) == {}
    whole = load(["+run=unified_dr_cpu", f"checkpoint_dir={started.checkpoint_dir}", "name=mine"])
    with pytest.raises(ConfigError, match=r"^scale=1\.0: the run was started with 0\.1"):
        drift(started, whole)


def test_other_scale_is_rejected_on_resume(started):
    with pytest.raises(
        ConfigError, match=r"^scale=0\.5: the run was started at scale=0\.1, .* with \+run=NAME scale=0\.5"
    ):
        load(["resume=mine", f"checkpoint_dir={started.checkpoint_dir}", "scale=0.5"])


def test_page_and_help_list_scaled_options():
    page = (CONFIG_DIR.parent / "docs" / "training.md").read_text().split("## A small version of a run")[1]
    listed = set(re.findall(r"`([a-z_.]+)`", page.split("\n## ")[0]))
    assert {*MOMENTS, *INTERVALS, *SIZES, "learning_rate", "gamma"} <= {
        *listed,
        *(key.split(".")[-1] for key in listed),
    }
    for key, floor in {**INTERVALS, **SIZES}.items():
        assert floor == 1 or re.search(rf"`{re.escape(key)}` \({floor}\)", page), key
    text = help_text()
    assert "scale=0.01" in text
    assert re.search(r"scale=1\.0 +\(0, 1\]", text)


@pytest.mark.parametrize(("run", "updates"), [("self_play", 100), ("population", 38)])
def test_scaling_leaves_inactive_options_unchanged(run, updates):
    """120 updates times the square root of 0.1 where exploiters train; otherwise the default."""
    assert load([f"+run={run}", "scale=0.1"]).self_play.exploiter_updates == updates
