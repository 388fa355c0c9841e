"""Runs made from random numbers, with which tests measure how often `analyze` finds a fault.

Healthy runs have many shapes; a faulty one is a healthy run with one fault of a kind that the original analysis names.
Thresholds were set on other seeds than those of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sparring.eval.analysis.record import History, RunRecord
from sparring.eval.analysis.reports.rules import apply_rules, load_rules
from sparring.eval.analysis.reports.series import with_derived

LENGTHS = (30, 45, 60, 100, 150, 250)
RULES = load_rules()
Columns = dict[str, np.ndarray]
Random = np.random.Generator
REWARD, ELO, BEST, LOSS = "benchmark/reward_mean", "elo/challenger", "league/best_elo", "benchmark/loss"
HITS, PARTIAL, KL = "cache/hit_rate", "extraction/partial_responses", "benchmark/kl"


def history_of(columns: Mapping[str, np.ndarray]) -> History:
    """Return a history with a row for each value; shorter columns end early."""
    rows = max(map(len, columns.values()))
    padded = {name: np.append(values, np.full(rows - len(values), np.nan)) for name, values in columns.items()}
    return History(np.arange(1, rows + 1), np.full(rows, np.nan), np.full(rows, -1), padded)


def rules_fired(columns: Mapping[str, np.ndarray], config: Mapping[str, object] = {}) -> set[str]:
    """Return the names of the rules of the package that fire on a run."""
    record = RunRecord("run", "folder", "", "completed", 0.0, 0.0, config=dict(config))
    history = with_derived(record, history_of(columns))
    return {finding.rule for finding in apply_rules(RULES, history, record.config)}


def rise(random: Random, n: int) -> np.ndarray:
    """Return a rise from 0 to 1 that goes on to the end: straight, levelling off, or late."""
    t = (np.arange(n) + 0.5) / n
    bend = random.uniform(0.5, 2.5)
    shape = random.integers(3)
    curve = (t, 1 - np.exp(-bend * t), 1 / (1 + np.exp(-8 * (t - 0.6))))[shape]
    return (curve - curve[0]) / (curve[-1] - curve[0])


def around(random: Random, values: np.ndarray, spread: float, *, follows: float = 0.0) -> np.ndarray:
    """Return the values with noise of this standard deviation, each a part `follows` of the one before."""
    noise = random.normal(0, spread * (1 - follows**2) ** 0.5, len(values))
    for i in range(1, len(noise)):
        noise[i] += follows * noise[i - 1]
    return values + noise


def times(random: Random, n: int, level: float, spread: float = 0.1) -> np.ndarray:
    """Return positive values around a level, with noise of this relative size."""
    return level * np.exp(random.normal(0, spread, n))


def grpo_run(random: Random, n: int) -> Columns:
    """Return a run that learns throughout: metrics of the original, its names of checkpoints in half of the runs."""
    flat, gain = np.ones(n), random.uniform(60, 250)
    level, growth = random.uniform(2, 8), random.uniform(0.3, 1.0)
    reward = around(random, level * (1 + growth * rise(random, n)), level * growth * random.uniform(0.03, 0.1))
    rating = around(random, 1000 + gain * rise(random, n), gain * random.uniform(0.02, 0.08), follows=0.6)
    rollout, training = random.uniform(40, 110), random.uniform(15, 60)
    kl = random.uniform(0.005, 0.06) * rise(random, n) + 1e-4
    name = ("elo/adapter_v{}", "elo/checkpoint_{:06}")[random.integers(2)]
    steps = range(5, n, max(n // 12, 5))
    checkpoints = {
        name.format(step): np.append(np.full(step, np.nan), around(random, np.full(n - step, rating[step]), 3))
        for step in steps
    }
    return checkpoints | {
        REWARD: reward,
        "benchmark/reward_std": times(random, n, random.uniform(0.2, 0.8) * level),
        LOSS: random.normal(0, 0.02, n),
        "benchmark/kl": kl * times(random, n, 1, 0.3),
        "kl/mean": kl * times(random, n, 1, 0.3),
        "kl/max": 20 * kl * times(random, n, 1, 0.3),
        "loss/kl_share": np.clip(around(random, 0.3 * rise(random, n), 0.05), 0, 1),
        "benchmark/grad_norm": times(random, n, random.uniform(0.5, 8), 0.35),
        "ppo/clip_fraction": np.clip(around(random, 0.15 * flat, 0.03), 0, 1),
        "policy/entropy_mean": times(random, n, 0.9) * (1 - 0.3 * rise(random, n)),
        "processing/skip_rate": np.clip(around(random, 0.2 * flat, 0.08), 0, 1),
        "benchmark/rollout_time_s": times(random, n, rollout),
        "benchmark/training_time_s": times(random, n, training),
        "benchmark/pipeline_overlap_s": times(random, n, random.uniform(0.4, 0.8) * min(rollout, training)),
        "rollout/max_total_s": times(random, n, 1.5 * rollout),
        "rollout/max_volume_reload_s": times(random, n, 4, 0.3),
        "rollout/failed_count": 0 * flat,
        "extraction/rate": np.clip(around(random, 0.985 * flat, 0.005), 0, 1),
        "extraction/empty_responses": random.poisson(random.uniform(0, 3), n).astype(float),
        PARTIAL: random.poisson(random.uniform(0, 8), n).astype(float),
        HITS: around(random, random.uniform(0.55, 0.8) * flat - 0.3 * np.exp(-np.arange(n) / 3), 0.02),
        "power_law/simulated_years_per_step": times(random, n, 60, 0.05),
        ELO: rating,
        BEST: np.maximum.accumulate(rating),
        "elo/base_model": around(random, 1000 - 0.4 * gain * rise(random, n), 4, follows=0.6),
        "elo/dumbbot": around(random, 1000 - 0.2 * gain * rise(random, n), 6, follows=0.6),
        "game/win_bonus_rate": np.clip(around(random, 0.1 + 0.2 * rise(random, n), 0.04), 0, 1),
        "dumbbot/win_rate": np.clip(around(random, 0.2 + 0.2 * rise(random, n), 0.06), 0, 1),
    }


def ppo_run(random: Random, n: int) -> Columns:
    """Return a run of a curriculum: each stage brings new bots, and the win rate falls and rises again."""
    stage = (np.arange(n) * random.integers(2, 5) // n).astype(float)
    within = np.concatenate([rise(random, int((stage == number).sum())) for number in np.unique(stage)])
    rate = np.clip(around(random, 0.3 + 0.65 * within, 0.04), 0, 1)
    return {
        "curriculum/stage": stage,
        "curriculum/scripted_share": np.ones(n),
        "rollout/win_rate": rate,
        "curriculum/ace/win_rate": rate,
        "rollout/return": around(random, 2 * rate - 1, 0.1),
        "train/approx_kl": times(random, n, 0.01, 0.4),
        "train/kl_max": times(random, n, 0.02, 0.4),
        "train/clip_fraction": times(random, n, 0.1, 0.3),
        "train/entropy": around(random, 3 - rise(random, n), 0.05),
        "train/explained_variance": np.clip(around(random, 0.3 + 0.5 * within, 0.1), -1, 1),
        "train/value_loss": times(random, n, 0.2, 0.5),
        "train/policy_loss": random.normal(0, 0.01, n),
        "train/grad_norm": times(random, n, 0.5, 0.4),
        "time/steps_per_second": times(random, n, 20_000),
    }


def solved(random: Random, n: int) -> Columns:
    """Return a run that wins nine of ten games from its middle on and does not improve further."""
    done = np.minimum(1.0, np.arange(n) / (n // 2))
    run = grpo_run(random, n)
    run["game/win_bonus_rate"] = np.clip(around(random, 0.1 + 0.85 * done, 0.01), 0, 1)
    return run | {REWARD: around(random, 2 + 4 * done, 0.2)}


def zero_sum(random: Random, n: int) -> Columns:
    """Return a run whose rewards stay around 0, since opponents are equally strong; the rating rises."""
    run = grpo_run(random, n)
    return run | {REWARD: random.normal(0, 0.1, n), "benchmark/reward_std": times(random, n, 0.9)}


def sparse(random: Random, n: int) -> Columns:
    """Return a run with a reward of 1 or 0, won seldom at first."""
    chance = 0.08 + 0.5 * rise(random, n)
    return grpo_run(random, n) | {
        REWARD: around(random, chance, 0.02),
        "benchmark/reward_std": (chance - chance**2) ** 0.5,
    }


def converging(random: Random, n: int) -> Columns:
    """Return a run whose loss falls to the end, ever more slowly."""
    return grpo_run(random, n) | {LOSS: around(random, 2 - rise(random, n), 0.05)}


def rising_slowly(random: Random, n: int) -> Columns:
    """Return a long run whose rating and reward gain little in each step."""
    n = max(n, 150)
    slow = np.arange(n) / n
    rating = around(random, 1000 + 40 * slow, 4, follows=0.5)
    return grpo_run(random, n) | {
        ELO: rating,
        BEST: np.maximum.accumulate(rating),
        REWARD: around(random, 5 + slow, 0.3),
    }


def short(random: Random, n: int) -> Columns:
    """Return the first steps of a run."""
    return {name: values[: 6 + n % 13] for name, values in grpo_run(random, n).items()}


HEALTHY: dict[str, Callable[[Random, int], Columns]] = {
    "learns": grpo_run, "curriculum": ppo_run, "solved": solved, "zero sum": zero_sum, "sparse": sparse,
    "converging": converging, "rises slowly": rising_slowly, "short": short,
}  # fmt: skip


def stopped(random: Random, n: int, noise: float = 0.06) -> np.ndarray:
    """Return a rise from 0 to 1 that ends after two to six tenths of the steps, with noise."""
    return around(random, np.minimum(1.0, np.arange(n) / (n * random.uniform(0.2, 0.6))), noise)


def at(values: np.ndarray, random: Random, size: float, count: int) -> np.ndarray:
    """Return the values with `count` of the later ones, apart from each other, times `size`."""
    changed = values.copy()
    places = 10 + random.choice((len(values) - 10) // 2, count, replace=False) * 2
    changed[places] = size * np.maximum(np.abs(changed[places]), np.median(np.abs(values)))
    return changed


def _rating(values: np.ndarray, kind: int) -> Columns:
    """Return a rating with the best of the league: the largest so far, constant, or not recorded."""
    unknown = np.full(len(values), np.nan)
    return {ELO: values, BEST: (np.maximum.accumulate(values), np.full(len(values), values.max()), unknown)[kind]}


Fault = Callable[[Columns, Random, int], Columns]
FAULTS: dict[str, tuple[str, Fault]] = {
    "loss has spikes": ("loss_spikes", lambda c, r, n: {LOSS: at(c[LOSS], r, 300, 4)}),
    "loss stops falling": ("loss_plateau", lambda c, r, n: {LOSS: 2 - stopped(r, n)}),
    "gradient has spikes": (
        "gradient_spikes", lambda c, r, n: {"benchmark/grad_norm": at(c["benchmark/grad_norm"], r, 60, 5)},
    ),
    "gradient grows tenfold": (
        "gradient_growth", lambda c, r, n: {"benchmark/grad_norm": times(r, n, 1, 0.3) * np.geomspace(3.7, 34.5, n)},
    ),
    "gradient above 50": ("gradient_high", lambda c, r, n: {"benchmark/grad_norm": times(r, n, 75, 0.3)}),
    "KL explodes": (
        "kl_to_reference_far", lambda c, r, n: {"kl/mean": 0.02 * np.geomspace(1, 500, n), "benchmark/kl": 0 * c[LOSS]},
    ),
    "KL of 8 in one step": ("kl_spikes", lambda c, r, n: {"kl/mean": c["kl/mean"] + 8 * (np.arange(n) == n // 2)}),
    "KL of 24 in a first step": ("kl_spikes", lambda c, r, n: {KL: c[KL] + 24 * (np.arange(n) == 3)}),
    "KL of 1.5 in one step": ("kl_spikes", lambda c, r, n: {"kl/mean": c["kl/mean"] + 1.5 * (np.arange(n) == n - 2)}),
    "KL max above 10": (
        "kl_max_high", lambda c, r, n: {"kl/max": at(c["kl/max"], r, 0, 1) + 40.0 * (np.arange(n) == 17)},
    ),
    "KL mean 0.27": ("kl_to_reference_high", lambda c, r, n: {"kl/mean": times(r, n, 0.267, 0.5)}),
    "KL mean 0.15, target 0.1": ("kl_to_reference_high", lambda c, r, n: {"kl/mean": times(r, n, 0.15, 0.25)}),
    "KL outweighs the reward": (
        "kl_penalty_dominates",
        lambda c, r, n: {"loss/kl_share": np.clip(r.normal(0.95, 0.02, n), 0, 1), REWARD: r.normal(0.39, 0.02, n)},
    ),
    "clip fraction above 0.6": ("clip_fraction_high", lambda c, r, n: {"ppo/clip_fraction": r.uniform(0.5, 0.8, n)}),
    "entropy collapses": (
        "token_entropy_collapse", lambda c, r, n: {"policy/entropy_mean": times(r, n, 0.9) * np.geomspace(1, 0.03, n)},
    ),
    "mean reward varies much": (
        "reward_varies", lambda c, r, n: {REWARD: 5 + r.uniform(0.5, 0.8) * 5 * r.normal(size=n)},
    ),
    "mean reward varies more and more": (
        "reward_varies", lambda c, r, n: {REWARD: 5 + np.linspace(0.1, 2, n) * r.normal(size=n)},
    ),
    "rewards have a high variance": (
        "reward_varies", lambda c, r, n: {"benchmark/reward_std": times(r, n, r.uniform(2, 5)) * np.median(c[REWARD])},
    ),
    "variance of rewards grows": (
        "reward_variance_grows",
        lambda c, r, n: {"benchmark/reward_std": times(r, n, 0.3) * np.median(c[REWARD]) * np.linspace(1, 5, n)},
    ),
    "reward falls from 14 to 8": ("reward_collapse", lambda c, r, n: {REWARD: around(r, np.linspace(14, 8, n), 0.3)}),
    "reward stops": ("reward_plateau", lambda c, r, n: {REWARD: 4 + 3 * stopped(r, n)}),
    "reward never rises": (
        "reward_flat", lambda c, r, n: {REWARD: r.normal(5, 0.4, n), **_rating(r.normal(1000, 8, n), 2)},
    ),
    "Elo stops, best so far": ("rating_plateau", lambda c, r, n: _rating(1000 + 80 * stopped(r, n), 0)),
    "Elo stops, best constant": ("rating_plateau", lambda c, r, n: _rating(1000 + 80 * stopped(r, n), 1)),
    "Elo stops, no best": ("rating_plateau", lambda c, r, n: _rating(1000 + 80 * stopped(r, n), 2)),
    "Elo never rises": ("rating_flat", lambda c, r, n: _rating(r.normal(1000, 8, n), int(r.integers(3)))),
    "checkpoints stop": (
        "checkpoints_plateau",
        lambda c, r, n: {
            f"elo/adapter_v{n * k // 20}": np.full(n, elo) for k, elo in enumerate(960 + 100 * stopped(r, 20, 0.04))
        },
    ),
    "orders of some steps unreadable": (
        "extraction_dropped", lambda c, r, n: {"extraction/rate": at(c["extraction/rate"], r, 0.6, 3)},
    ),
    "orders below 95 %": ("extraction_low", lambda c, r, n: {"extraction/rate": around(r, np.full(n, 0.9), 0.01)}),
    "orders ever less readable": (
        "extraction_declines", lambda c, r, n: {"extraction/rate": around(r, np.linspace(0.99, 0.955, n), 0.003)},
    ),
    "ever more empty answers": (
        "empty_responses",
        lambda c, r, n: {"extraction/empty_responses": r.poisson(np.linspace(1, 25, n)).astype(float)},
    ),
    "a spike of empty answers": (
        "empty_responses",
        lambda c, r, n: {"extraction/empty_responses": c["extraction/empty_responses"] + 40 * (np.arange(n) == n // 2)},
    ),
    "a spike of partial answers": (
        "empty_responses",
        lambda c, r, n: {PARTIAL: c[PARTIAL] + 90 * (np.arange(n) == n // 2)},
    ),
    "reward falls at a low loss": (
        "reward_falls_at_low_loss", lambda c, r, n: {REWARD: around(r, np.linspace(6, 4, n), 0.3)},
    ),
    "games fail": ("rollouts_failed", lambda c, r, n: {"rollout/failed_count": (r.random(n) < 0.2).astype(float)}),
    "new weights take long": (
        "weights_slow", lambda c, r, n: {"rollout/max_volume_reload_s": at(c["rollout/max_volume_reload_s"], r, 12, 3)},
    ),
    "single games hang": (
        "games_hang", lambda c, r, n: {"rollout/max_total_s": at(c["rollout/max_total_s"], r, 9, 1)},
    ),
    "some rollouts take long": (
        "rollouts_slow", lambda c, r, n: {"benchmark/rollout_time_s": at(c["benchmark/rollout_time_s"], r, 8, 4)},
    ),
    "rollouts slow throughout": (
        "rollouts_slow", lambda c, r, n: {"benchmark/rollout_time_s": times(r, n, r.uniform(260, 900))},
    ),
    "no overlap": ("no_overlap", lambda c, r, n: {"benchmark/pipeline_overlap_s": np.zeros(n)}),
    "little overlap": (
        "no_overlap", lambda c, r, n: {"benchmark/pipeline_overlap_s": times(r, n, r.uniform(0.5, 1.5))},
    ),
    "groups without signal": (
        "groups_without_signal", lambda c, r, n: {"processing/skip_rate": r.uniform(0.6, 0.95, n)},
    ),
    "uneven compute": (
        "uneven_compute", lambda c, r, n: {"power_law/simulated_years_per_step": times(r, n, 60, 0.9)},
    ),
    "hit rate below 30 %": ("cache_inefficient", lambda c, r, n: {HITS: around(r, np.full(n, 0.2), 0.03)}),
    "hit rate stays at 40 %": ("cache_inefficient", lambda c, r, n: {HITS: around(r, np.full(n, 0.4), 0.02)}),
    "hit rate falls": ("cache_inefficient", lambda c, r, n: {HITS: around(r, np.linspace(0.8, 0.55, n), 0.02)}),
    "no cache": ("cache_absent", lambda c, r, n: {HITS: np.full(n, np.nan)}),
    "falls against dumbbot": (
        "bot_gains",
        lambda c, r, n: {"elo/dumbbot": around(r, np.linspace(1000, 1068, n), 4), ELO: r.normal(1000, 6, n)},
    ),
    "wins less against dumbbot": (
        "benchmark_declines", lambda c, r, n: {"dumbbot/win_rate": around(r, np.linspace(0.4, 0.15, n), 0.04)},
    ),
    "cached reference": (
        "reference_cached", lambda c, r, n: {"benchmark/used_cached_ref_logprobs": np.ones(n)},
    ),
}  # fmt: skip
"""Kinds of faults: the rule that is right, and what the fault changes in a healthy run of n steps."""


def faulty(kind: str, seed: int) -> Columns:
    """Return a run that learns but for one fault."""
    random = np.random.default_rng([seed, *map(ord, kind)])
    n = LENGTHS[seed % len(LENGTHS)]
    n = max(n, 45) if kind.startswith("Elo stops") else n  # of ratings the rule says nothing before 40 steps
    run = grpo_run(random, n)
    if kind == "checkpoints stop":
        run = {name: values for name, values in run.items() if "adapter" not in name and "checkpoint" not in name}
    return run | FAULTS[kind][1](run, random, n)


def healthy(shape: str, seed: int) -> Columns:
    """Return a healthy run of a shape."""
    random = np.random.default_rng([seed, *map(ord, shape)])
    return HEALTHY[shape](random, LENGTHS[seed % len(LENGTHS)])
