"""What a golden recording consists of: parts, each a few command lines at sizes of seconds.

A part's commands share a folder, `{out}`, and run one after the other; parts are independent. Option names are the ones
of the day a part was written: `renames.json` translates them for a checkout that calls them otherwise. Sizes are chosen
so that every mechanism is passed through (matches end, snapshots enter the pool, evaluations happen), not so that
anything is learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TRAIN = "train.py"
EVALUATE = "eval/run.py"
SIMULATE = "simulators.py"
"""The only command that is no script of the checkout: it lies beside this file."""


@dataclass(frozen=True)
class Command:
    """One command line: a script, its arguments, and how many processes torchrun starts (1 is without torchrun)."""

    script: str
    arguments: tuple[str, ...]
    processes: int = 1


@dataclass(frozen=True)
class Part:
    """A named part; `twins` are runs in it, (uncut, resumed), that must have ended alike."""

    name: str
    commands: tuple[Command, ...]
    twins: tuple[tuple[str, str], ...] = ()


def select(words: Iterable[str]) -> list[Part]:
    """Choose parts by name or by the beginning of it (`grpo` is every grpo_...); all of them for no words.

    Raises `ValueError`, one line, for a word that selects nothing.
    """
    words = list(words)
    for word in words:
        if not any(_selects(word, part) for part in PARTS):
            raise ValueError(f"part {word!r}: there is none; choose from {', '.join(part.name for part in PARTS)}")
    return [part for part in PARTS if not words or any(_selects(word, part) for word in words)]


def _selects(word: str, part: Part) -> bool:
    return part.name == word or part.name.startswith(f"{word}_")


def _train(run: str, name: str, *options: str, processes: int = 1) -> Command:
    """`train.py` on the CPU with one thread a process, into {out}/<name>."""
    common = ("device=cpu", "threads=1", "logger.progress=false", "checkpoint_dir={out}")
    words = [option for group in options for option in group.split()]
    return Command(TRAIN, (f"+run={run}", f"name={name}", *common, *words), processes)


def _evaluate(*arguments: str) -> Command:
    """`eval/run.py` on the CPU with one thread."""
    words = [word for group in arguments for word in group.split()]
    return Command(EVALUATE, (*words, "--device", "cpu", "--threads", "1", "--quiet"))


def _cut(run: str, cut: int, *options: str) -> tuple[Command, ...]:
    """A run that is cut after `cut` updates and resumed."""
    return (_train(run, "cut", *options, f"max_updates={cut}"), _train(run, "cut", *options))


def _resumed(name: str, run: str, cut: int, *options: str) -> Part:
    """A run without a break, and the same cut and resumed."""
    return Part(name, (_train(run, "whole", *options), *_cut(run, cut, *options)), twins=(("whole", "cut"),))


# Steps of a second, so that a match is over after 90 of them at most; a mirrored observation and all five bots.
_PPO = "env.num_envs=16 env.action_repeat=120 ppo.minibatch_size=128 ppo.epochs=2 network.hidden=16 checkpoint_every=2"
_SHORT = "scale=0.01 ppo.rollout_steps=24"
_FP32 = "ppo.precision=fp32"
# Three phases in 77 updates: curriculum, events, snapshots, league, ratings, widening physics. Many draws from a pool
# with many results, so that another formula for them draws others.
_SELF_PLAY = (
    f"{_PPO} {_FP32} scale=0.01 ppo.rollout_steps=48 self_play.pool_size=8 self_play.snapshot_every=1 "
    "self_play.slots=3 self_play.deal_every=1"
)
_CHECKS = "evaluation.every=4 evaluation.games=4 evaluation.check_every=5 evaluation.regimes_every=8"
_DIPLOMACY = (
    "env.num_envs=14 env.last_year=1902 network.hidden=16 network.blocks=1 ppo.rollout_steps=6 ppo.minibatch_size=28 "
    "ppo.precision=fp32 scale=0.03 checkpoint_every=2 evaluation.every=2 evaluation.games=7"
)
_GRPO = (
    "grpo.groups=2 grpo.samples_per_group=2 grpo.rollout_horizon_years=1 grpo.rollout_long_horizon_years=1 "
    "grpo.rollout_warmup_phases=2 grpo.steps=3 grpo.minibatch_samples=8 env.last_year=1903 "
    "league.checkpoint_schedule=even league.checkpoint_every=2 league.cold_start_steps=1 checkpoint_every=1"
)
_CLONE = (
    "env.last_year=1903 clone.hidden=32 clone.layers=1 clone.heads=2 clone.games_per_update=3 clone.updates=4 "
    "clone.batch_tokens=4096 evaluation.every=2 evaluation.games=2 checkpoint_every=2"
)
_GYMNASIUM = "phases.0.updates=4 checkpoint_every=2 env.normalize_obs=true env.normalize_reward=true"
_CONTINUOUS = "env.id=Pendulum-v1 env.num_envs=4 ppo.rollout_steps=32 ppo.minibatch_size=64 phases.0.updates=3"

# The longest come early, so that two at a time end together.
PARTS = (
    Part("simulators", (Command(SIMULATE, ("{out}",)),)),
    _resumed(
        "grpo_depth1", "diplomacy_exp4_quick", 1, _GRPO, "grpo.buffer_depth=1 grpo.use_importance_correction=true"
    ),
    # precision=auto is bf16 where the processor has it, and fp32 elsewhere.
    Part(
        "ppo",
        (
            _train("bots_only", "run", _PPO, _SHORT, "ppo.warmup_updates=1 evaluation.every=2 evaluation.games=4"),
            _evaluate("--ckpt {out}/run/final.pt --games 4 --regimes none full --seed 3"),
        ),
    ),
    Part(
        "ppo_challenge",
        (
            _train("bots_only", "run", _PPO, _SHORT, _FP32, "env.rules=challenge env.mirror=false"),
            _evaluate("--ckpt {out}/run/final.pt --games 2 --stochastic --opponents ace brawler"),
        ),
    ),
    Part("ppo_processes", (_train("unified_dr_cpu", "run", _SELF_PLAY, _CHECKS, processes=2),)),
    Part(
        "selfplay",
        (
            _train("unified_dr_cpu", "run", _SELF_PLAY, _CHECKS),
            _evaluate("--ckpt {out}/run/final.pt --games 2 --opponents {out}/run/before_selfplay.pt chaser dogfighter"),
        ),
    ),
    Part(
        "selfplay_promotion",
        (
            _train(
                "unified_dr_cpu",
                "run",
                _SELF_PLAY,
                "self_play.promotion=sprt self_play.promotion_games=10 env.observe_physics=false env.mirror=false",
            ),
        ),
    ),
    _resumed("resume_selfplay", "unified_dr_cpu", 15, _SELF_PLAY, _CHECKS),
    Part(
        "diplomacy",
        (
            _train("diplomacy_ppo", "run", _DIPLOMACY),
            _evaluate("--env diplomacy --ckpt {out}/run/final.pt --opponents dumbbot,chaos --games 7 --last-year 1902"),
        ),
    ),
    Part(
        "grpo_depth0",
        (
            _train("diplomacy_exp1_quick", "run", _GRPO, "grpo.buffer_depth=0 evaluation.every=3 evaluation.games=7"),
            _evaluate("--env diplomacy --ckpt {out}/run/final.pt --opponents base_model --games 7 --last-year 1901"),
        ),
    ),
    Part(
        "grpo_options",
        (
            _train(
                "diplomacy_exp8_quick",
                "run",
                _GRPO,
                "grpo.buffer_depth=0 grpo.loss_type=gspo grpo.use_ema_reference=true grpo.play=self_play",
                "grpo.use_elo_conditioned_rewards=true grpo.use_state_stratified_groups=true model.compact=false",
                "model.lora_targets=attention league.matchmaking=category",
                "league.rating_width=150",
            ),
        ),
    ),
    _resumed("clone", "diplomacy_clone", 2, _CLONE),
    # Episodes begin again when it is resumed, so that it ends elsewhere than without a break.
    Part("gymnasium", _cut("gymnasium", 2, f"{_GYMNASIUM} {_FP32}")),
    Part("gymnasium_continuous", (_train("gymnasium_continuous", "run", _CONTINUOUS, _FP32),)),
    Part(
        "ladder",
        (
            _evaluate("--ladder --games 2 --regimes full --out {out}/dogfight"),
            _evaluate("--ckpt released/dogfight_bots_only --games 2 --regimes full --out {out}/released"),
            _evaluate("--env diplomacy --ladder --games 7 --last-year 1903 --out {out}/diplomacy"),
        ),
    ),
)
