"""Curriculum schedules as tables: opponents and physics of every run, update by update."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.configs.load import load
from sparring.configs.schema import EventConfig, PhaseConfig, RandomizationConfig, StageConfig
from sparring.curriculum.schedule import Randomization, Schedule
from sparring.envs.dogfight.rules import BOTS, LEVELS, PARAMETER_INDEX, ranges

DO_NOTHING, DOGFIGHTER, CHASER, ACE, BRAWLER = BOTS

# run: first update, phase, current bots, scripted share, level
TABLES = {
    "baseline_v1": [
        (0, "curriculum", (DO_NOTHING, DOGFIGHTER), 1.0, "none"),
        (100, "curriculum", (DOGFIGHTER, CHASER), 1.0, "none"),
        (250, "curriculum", (CHASER, ACE), 1.0, "none"),
    ],
    "local_curriculum": [
        (start, "curriculum", BOTS[: count + 1], 1.0, "none") for count, start in enumerate((0, 50, 150, 300, 450))
    ],
    "mean_knight_production": [
        (start, "curriculum", BOTS[: count + 1], 1.0, "none") for count, start in enumerate((0, 63, 188, 375, 563))
    ],
    "unified_dr_gpu_v1": [
        (0, "curriculum", (DO_NOTHING,), 1.0, "narrow"),
        (50, "curriculum", (DO_NOTHING, DOGFIGHTER), 1.0, "narrow"),
        (150, "curriculum", (DOGFIGHTER, CHASER), 1.0, "narrow"),
        (200, "curriculum", (DOGFIGHTER, CHASER), 1.0, "full"),
        (300, "curriculum", (CHASER, ACE), 1.0, "full"),
        (500, "curriculum", (ACE, BRAWLER), 1.0, "full"),
        (600, "transition", (ACE, BRAWLER), 1.0, "full"),
        (800, "selfplay", (ACE, BRAWLER), 0.2, "full"),
    ],
    "unified_dr_gpu_v3": [
        (0, "curriculum", (DO_NOTHING,), 1.0, "none"),
        (75, "curriculum", (DO_NOTHING, DOGFIGHTER), 1.0, "none"),
        (200, "curriculum", (DOGFIGHTER, CHASER), 1.0, "none"),
        (400, "curriculum", (CHASER, ACE), 1.0, "none"),
        (575, "curriculum", (ACE, BRAWLER), 1.0, "none"),
        (700, "transition", (ACE, BRAWLER), 1.0, "narrow"),
        (900, "selfplay", (ACE, BRAWLER), 0.2, "full"),
    ],
}
TABLES["unified_dr_gpu_v2"] = TABLES["unified_dr_gpu_v3"]
TOTALS = {
    "baseline_v1": 300,
    "local_curriculum": 600,
    "mean_knight_production": 750,
    "unified_dr_gpu_v1": 2300,
    "unified_dr_gpu_v2": 2000,
    "unified_dr_gpu_v3": 2000,
}
SIZES = {
    "baseline_v1": (16, 10_800, 1, 0.99, 0.003, 256, 0, "auto"),
    "local_curriculum": (32, 2048, 10, 0.999, 0.0, 256, 0, "auto"),
    "mean_knight_production": (128, 2048, 10, 0.999, 0.0, 256, 0, "auto"),
    "unified_dr_gpu_v1": (256, 2048, 10, 0.999, 0.0, 768, 4, "fp16"),
    "unified_dr_gpu_v2": (256, 2048, 10, 0.999, 0.0, 384, 2, "fp16"),
    "unified_dr_gpu_v3": (256, 2048, 10, 0.999, 0.0, 256, 0, "fp16"),
}


def plans(phases):
    schedule = Schedule(phases)
    return [schedule.plan(update, {}) for update in range(schedule.total_updates)]


@functools.cache
def plans_of(run):
    return plans(load([f"+run={run}"]).phases)


def stages(*starts_and_bots):
    return [StageConfig(at=at, bots=list(bots)) for at, *bots in starts_and_bots]


@pytest.mark.parametrize("run", TABLES)
def test_run_follows_its_table(run):
    plan = plans_of(run)
    assert len(plan) == TOTALS[run]
    ends = [row[0] for row in TABLES[run][1:]] + [TOTALS[run]]
    for (start, phase, current, scripted, level), end in zip(TABLES[run], ends, strict=True):
        for update in (start, end - 1):
            assert (plan[update].phase, plan[update].current) == (phase, tuple(current)), update
            assert plan[update].randomization.level == level, update
            assert plan[update].randomization.fraction == 1.0, update
        assert plan[start].scripted_share == pytest.approx(scripted)


def test_demo_ends_against_all_five_bots_in_default_physics():
    plan = plans_of("quickstart")
    assert set(plan[-1].current) == set(BOTS)
    shares = [step.scripted_share for step in plan]  # the rest are its own snapshots
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (0.5, 0.3)
    fighters = next(update for update, step in enumerate(plan) if "brawler" in step.current)
    assert plan[0].randomization == Randomization("none", "sniper")
    # Exploration is widened once the fighters are met; from update 420 on the physics is the default one.
    widened = next(update for update, step in enumerate(plan) if step.events)
    assert fighters < widened
    assert [event.log_std for event in plan[widened].events] == [-1.0]
    assert all(np.array_equal(step.randomization.ranges(), ranges("none")) for step in plan[420:])


@pytest.mark.parametrize("run", SIZES)
def test_run_has_its_sizes(run):
    config = load([f"+run={run}"])
    env, ppo, network = config.env, config.ppo, config.network
    sizes = (env.num_envs, ppo.rollout_steps, env.action_repeat, ppo.gamma, ppo.entropy_coefficient)
    assert (*sizes, network.hidden, network.blocks, ppo.precision) == SIZES[run]
    assert (ppo.epochs, ppo.minibatch_size, ppo.learning_rate, ppo.final_learning_rate_fraction) == (4, 4096, 3e-4, 0.1)
    assert (ppo.gae_lambda, ppo.clip, ppo.value_clip, ppo.value_coefficient) == (0.95, 0.2, 0.2, 0.5)
    assert (ppo.max_grad_norm, ppo.target_kl, ppo.warmup_updates) == (0.5, 0.05, 10)
    assert (network.log_std_init, network.log_std_min, network.log_std_max) == (-1.0, -2.0, 0.0)


@pytest.mark.parametrize(
    ("run", "ramps"),
    [
        ("unified_dr_gpu_v2", [("transition", 1.0, 0.2), ("selfplay", 0.2, 0.2)]),
        ("unified_dr_gpu_v3", [("transition", 1.0, 0.2), ("selfplay", 0.2, 0.2)]),
        ("unified_dr_cpu", [("selfplay", 0.25, 0.25), ("finish", 0.25, 1.0)]),
    ],
)
def test_bot_share_ramps_and_stays(run, ramps):
    plan = plans_of(run)
    for phase, first, last in ramps:
        ramp = [step.scripted_share for step in plan if step.phase == phase]
        differences = {round(after - before, 12) for before, after in itertools.pairwise(ramp)}
        assert (ramp[0], ramp[-1]) == (first, pytest.approx(last))
        assert differences == {round((last - first) / (len(ramp) - 1), 12)}


@pytest.mark.parametrize(("run", "updates"), [("local_curriculum", 450), ("mean_knight_production", 563)])
def test_snapshot_and_log_std_reset_where_brawler_joins(run, updates):
    events = {step.update: step.events for step in plans_of(run) if step.events}
    assert events == {updates: (EventConfig(at=updates, snapshot="pre_brawler", log_std=-1.0),)}


@pytest.mark.parametrize(("run", "update"), [("unified_dr_gpu_v1", 600), ("unified_dr_gpu_v3", 700)])
def test_log_std_resets_once_at_transition_start(run, update):
    assert {step.update: step.events for step in plans_of(run) if step.events} == {
        update: (EventConfig(at=0, log_std=-1.0),)
    }


@pytest.mark.parametrize("run", [*TABLES, "quickstart", "unified_dr_cpu", "curriculum_floor"])
def test_every_met_bot_keeps_floor(run):
    met = set()
    for step in plans_of(run):
        assert met <= set(step.bots)
        met |= set(step.current)
        assert set(step.bots) == met
        assert min(step.bots.values()) >= 0.05
        assert sum(step.bots.values()) == pytest.approx(1.0)


def test_run_without_floor_differs_only_in_floor():
    with_floor, without = load(["+run=curriculum_floor"]), load(["+run=curriculum_no_floor"])
    last = plans(without.phases)[-1]
    assert last.bots == {DO_NOTHING: 0.0, DOGFIGHTER: 0.0, CHASER: 0.0, ACE: 0.0, BRAWLER: 1.0}
    assert plans(with_floor.phases)[-1].bots[DO_NOTHING] == 0.05
    with_floor.phases[0].floor, with_floor.run = 0.0, "curriculum_no_floor"
    assert with_floor == without


def test_shares_follow_floor_by_hand():
    plan = plans_of("unified_dr_gpu_v3")
    assert plan[0].bots == {DO_NOTHING: 1.0}
    assert plan[75].bots == pytest.approx({DO_NOTHING: 0.5, DOGFIGHTER: 0.5})
    assert plan[200].bots == pytest.approx({DO_NOTHING: 0.05, DOGFIGHTER: 0.475, CHASER: 0.475})
    assert plan[1999].bots == pytest.approx(
        {DO_NOTHING: 0.05, DOGFIGHTER: 0.05, CHASER: 0.05, ACE: 0.425, BRAWLER: 0.425}
    )


def test_widening_uses_equal_steps_from_previous_level():
    levels = [
        RandomizationConfig(at=2, level="narrow", over=4, steps=2),
        RandomizationConfig(at=8, level="full", over=3, steps=3),
    ]
    plan = plans([PhaseConfig(updates=12, stages=stages((0, ACE)), randomization=levels)])
    none, narrow = Randomization(), Randomization("none", "narrow")
    half = Randomization("none", "narrow", 0.5)
    full = [Randomization("narrow", "full", fraction) for fraction in (1 / 3, 2 / 3, 1.0, 1.0)]
    assert [step.randomization for step in plan] == [none, none, half, half, *[narrow] * 4, *full]


def test_phase_keeps_end_values_of_previous_phase():
    first = PhaseConfig(
        name="a", updates=3, stages=stages((0, ACE), (1, CHASER)), randomization=[RandomizationConfig(level="narrow")]
    )
    second = PhaseConfig(name="b", updates=4, stages=stages((2, BRAWLER)))
    plan = plans([first, second])
    assert [step.current for step in plan] == [
        (ACE,),
        (CHASER,),
        (CHASER,),
        (CHASER,),
        (CHASER,),
        (BRAWLER,),
        (BRAWLER,),
    ]
    assert [step.stage for step in plan] == [0, 1, 1, -1, -1, 0, 0]
    assert [(step.phase, step.phase_update) for step in plan[2:5]] == [("a", 2), ("b", 0), ("b", 1)]
    assert {step.randomization for step in plan} == {Randomization("none", "narrow")}
    assert list(plan[-1].bots) == [ACE, CHASER, BRAWLER]


def test_phase_of_one_update_starts_at_ramp_start():
    (plan,) = plans([PhaseConfig(updates=1, stages=stages((0, ACE)), scripted_start=0.8, scripted_end=0.2)])
    assert plan.scripted_share == 0.8


def test_adaptive_shares_use_measured_win_rates():
    schedule = Schedule([PhaseConfig(updates=2, stages=stages((0, ACE, BRAWLER)), adaptive=1.0)])
    plan = schedule.plan(0, {ACE: 0.95, BRAWLER: 0.75})
    assert plan.bots == pytest.approx({ACE: 0.25, BRAWLER: 0.75})


win_rates = st.dictionaries(st.sampled_from(BOTS), st.floats(0, 1))


@given(st.lists(win_rates, min_size=9, max_size=9))
def test_plans_are_pure_functions_of_update_and_win_rates(rates):
    phase = PhaseConfig(updates=9, stages=stages((0, DO_NOTHING), (4, DOGFIGHTER, CHASER)), adaptive=0.5)
    one, other = Schedule([phase]), Schedule([phase])
    forwards = [one.plan(update, rates[update]) for update in range(9)]
    backwards = [other.plan(update, rates[update]) for update in reversed(range(9))]
    assert forwards == backwards[::-1]


@pytest.mark.parametrize("level", LEVELS)
def test_reached_level_is_exact(level):
    for previous in LEVELS:
        assert np.array_equal(Randomization(previous, level, 1.0).ranges(), ranges(level))
        assert np.array_equal(Randomization(level, previous, 0.0).ranges(), ranges(level))


def test_halfway_by_hand():
    bounds = Randomization("none", "narrow", 0.5).ranges()
    assert bounds[PARAMETER_INDEX["gravity"]].tolist() == [70.0, 90.0]
    assert bounds[PARAMETER_INDEX["gun_cooldown_ticks"]].tolist() == [80.0, 100.0]
    assert bounds[PARAMETER_INDEX["max_hp"]].tolist() == [5.0, 6.0]  # 4.5 .. 6, rounded inward
    assert Randomization("narrow", "full", 0.5).ranges()[PARAMETER_INDEX["gravity"]].tolist() == [50.0, 110.0]


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 50])
def test_every_step_contains_previous_one(steps):
    fractions = [step / steps for step in range(1, steps + 1)]
    path = [Randomization()]
    path += [Randomization("none", "narrow", fraction) for fraction in fractions]
    path += [Randomization("narrow", "full", fraction) for fraction in fractions]
    for before, after in itertools.pairwise(step.ranges() for step in path):
        assert np.all(after[:, 0] <= before[:, 0])
        assert np.all(after[:, 1] >= before[:, 1])


def test_integer_parameters_stay_integral_and_ordered():
    for fraction in np.linspace(0, 1, 23):
        bounds = Randomization("none", "full", float(fraction)).ranges()
        integers = bounds[[PARAMETER_INDEX[name] for name in ("gun_cooldown_ticks", "bullet_lifetime_ticks", "max_hp")]]
        assert np.array_equal(integers, np.round(integers))
        assert np.all(bounds[:, 0] <= bounds[:, 1])
        assert bounds.dtype == np.float32


def test_physics_moves_from_regime_as_one_point():
    path = [Randomization("sniper", "none", fraction).ranges() for fraction in np.linspace(0, 1, 61)]
    assert np.array_equal(path[0], ranges("sniper"))
    assert np.array_equal(path[-1], ranges("none"))
    assert all(np.array_equal(bounds[:, 0], bounds[:, 1]) for bounds in path)
    lifetimes = np.array([bounds[PARAMETER_INDEX["bullet_lifetime_ticks"], 0] for bounds in path])
    assert np.abs(lifetimes - np.linspace(90, 60, 61)).max() <= 0.5
    assert np.array_equal(lifetimes, np.round(lifetimes))


def test_width():
    assert Randomization("none", "sniper").width == Randomization().width == 0.0
    assert Randomization("none", "full").width == pytest.approx(1.0)
    assert 0.0 < Randomization("none", "full", 0.25).width < Randomization("none", "full", 0.5).width < 1.0


def test_as_text():
    assert str(Randomization("narrow", "full", 0.25)) == "narrow to full 25%"
    assert str(Randomization("narrow", "full", 1.0)) == "full"
