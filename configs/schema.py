"""Every option of a training run, as dataclasses: names, types, defaults and what each may hold.

This file is the truth; YAML files under `run/` hold only what differs from here. `option(default, allowed)` states an
option's range or choices next to it. `trainer` and `env.id` choose the kind of run among `RUNS`, and with it the
options there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sparring.configs.core.allowed import Form, option
from sparring.configs.language import (
    CloneConfig,
    EndpointConfig,
    GRPOConfig,
    LanguageModelConfig,
    LeagueConfig,
)

DOGFIGHT = "sparring/Dogfight-v1"
DIPLOMACY = "sparring/Diplomacy-v0"
GYMNASIUM = "Gymnasium's environments"
RULES = ("classic", "challenge")
BOT_RATES = ("tick", "agent")
SPAWNS = ("random", "fixed")
BOTS = ("do_nothing", "dogfighter", "chaser", "ace", "brawler")
LEVELS = ("none", "narrow", "full")
REGIMES = (
    "default",
    "high_gravity",
    "low_gravity",
    "glass_cannon",
    "tank_fight",
    "knife_fight",
    "energy_fighter",
    "sniper",
)
PRECISIONS = ("auto", "fp32", "fp16", "bf16")
ADVANCES = ("on_update", "on_success")
EVICTIONS = ("oldest", "weakest")
SAMPLINGS = ("hard", "variance")
PROMOTIONS = ("always", "sprt")
TRAINERS = ("ppo", "sb3", "grpo", "clone")
ACTIVATIONS = ("relu", "tanh")
WANDB_MODES = ("off", "online", "offline")

DOGFIGHT_CHECKS = (
    "evaluation.check_bot",
    "evaluation.check_every",
    "evaluation.check_alert",
    "evaluation.regimes_every",
)

WEIGHT = "[-1000, 1000]"
PROBABILITY = "[0, 1]"
COUNT = "[0, 10000000]"
POSITIVE = "[1, 10000000]"
DEVICE = Form(
    r"auto|cpu|cuda(:\d{1,3})?",
    "auto, cpu, cuda or cuda:N such as cuda:1",
    near=(("auto", "auto"), ("cpu", "cpu"), ("cuda", "cuda"), ("gpu", "cuda"), ("gpu:0", "cuda:0")),
)
FOLDER = Form(r"(?!released$)[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "letters, digits, '.', '_', '-', and not 'released'")
SNAPSHOT = Form(
    r"(?!final$|best$|step_)[A-Za-z][A-Za-z0-9_-]{0,63}",
    "letters, digits, '_', '-', but not 'final', 'best' or 'step_...'",
)
ENV_ID = Form(r"[A-Za-z0-9_][A-Za-z0-9_./:-]{0,99}", "an id known to Gymnasium, such as CartPole-v1")
LABEL = Form(r"[A-Za-z][A-Za-z0-9_-]{0,63}", "letters, digits, '_' and '-', a letter first")
TEXT = Form(r"[^\x00\n]+", "text of one line")


@dataclass
class RewardConfig:
    """Reward weights of the dogfight; see `envs/dogfight/kernels/reward.py` for each term."""

    damage_dealt: float = option(3.0, WEIGHT)
    damage_taken: float = option(1.0, WEIGHT)
    win: float = option(5.0, WEIGHT)
    lose: float = option(5.0, WEIGHT)
    draw: float = option(0.0, WEIGHT)
    approach: float = option(0.0001, WEIGHT)
    alive: float = option(0.0, WEIGHT)
    proximity: float = option(0.001, WEIGHT)
    facing: float = option(0.0005, WEIGHT)
    shaping: float = option(0.0, WEIGHT)
    """Weight of the potential-based term, gamma * phi' - phi."""
    exposure: float = option(0.0, PROBABILITY)
    """How much of the potential's aim counts only where a shot would get past the rear armour."""


@dataclass
class EnvConfig:
    """What is played, and how many at once."""

    id: str = option(DOGFIGHT, ENV_ID)
    """The dogfight, Diplomacy, or any environment of Gymnasium's (`env=gymnasium env.id=CartPole-v1`)."""
    num_envs: int = option(256, "[1, 1000000]")


@dataclass
class DogfightEnvConfig(EnvConfig):
    """Matches of the dogfight."""

    rules: str = option("classic", RULES)
    action_repeat: int = option(10, "[1, 120]")
    bot_rate: str = option("tick", BOT_RATES)
    """tick: bots decide 120 times a second; agent: once a step. Under challenge rules always agent, whatever is set."""
    spawn: str = option("random", SPAWNS)
    observe_physics: bool = True
    mirror: bool = False
    """Show every match with the opponent on the right, mirrored where it is not, so that little is learned twice."""
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass
class DiplomacyEnvConfig(EnvConfig):
    """Games of Diplomacy."""

    id: str = option(DIPLOMACY, ENV_ID)
    last_year: int = option(1910, "[1901, 30000]")
    """A game of Diplomacy ends after it."""


@dataclass
class GymnasiumEnvConfig(EnvConfig):
    """Copies of any environment of Gymnasium's, whose numbers may be of any size."""

    id: str = option("CartPole-v1", ENV_ID)
    normalize_obs: bool = False
    normalize_reward: bool = False
    """By running statistics."""


@dataclass
class NetworkConfig:
    """The "256h/0b" family: separate actor and critic of hidden width / pre-norm residual blocks."""

    hidden: int = option(256, "[1, 8192]")
    blocks: int = option(0, "[0, 64]")
    activation: str = option("relu", ACTIVATIONS)
    log_std_init: float = option(-1.0, "[-20, 5]")
    log_std_min: float = option(-2.0, "[-20, 5]")
    log_std_max: float = option(0.0, "[-20, 5]")


@dataclass
class PPOConfig:
    """Proximal policy optimization."""

    rollout_steps: int = option(2048, "[1, 1000000]")
    epochs: int = option(4, "[1, 1000]")
    minibatch_size: int = option(4096, "[1, 1000000000]")
    learning_rate: float = option(3e-4, "(0, 1]")
    final_learning_rate_fraction: float = option(0.1, PROBABILITY)
    gamma: float = option(0.999, PROBABILITY)
    gae_lambda: float = option(0.95, PROBABILITY)
    clip: float = option(0.2, "(0, 1]")
    value_clip: float = option(0.2, "[0, 1000]")
    """0 switches value clipping off."""
    value_coefficient: float = option(0.5, "[0, 1000]")
    entropy_coefficient: float = option(0.0, PROBABILITY)
    final_entropy_fraction: float = option(1.0, PROBABILITY)
    max_grad_norm: float = option(0.5, "(0, 1000]")
    target_kl: float = option(0.05, "[0, 100]")
    """0 switches the stop off."""
    adaptive_kl: float = option(0.0, "[0, 100]")
    """Above 0 the learning rate follows the KL instead of the clock: down by 1.5 when an update's mean KL is over twice
    this, up by 1.5 when it is under half of it."""
    log_ratio_clamp: float = option(20.0, "(0, 80]")
    precision: str = option("auto", PRECISIONS)
    """fp32, fp16 (CUDA, with a gradient scaler), bf16, or auto: bf16 where the device has it natively, else fp32."""
    warmup_updates: int = option(10, COUNT)
    """Updates in full precision before autocast starts."""


@dataclass
class StageConfig:
    """From update `at` of its phase on, these bots are the current ones. `weights` defaults to equal shares."""

    at: int = option(0, COUNT)
    bots: list[str] = field(default_factory=list, metadata={"allowed": LABEL})
    """By name: the dogfight's `BOTS`, or `DIPLOMACY_BOTS`."""
    weights: list[float] = field(default_factory=list, metadata={"allowed": "(0, 1000]"})


@dataclass
class RandomizationConfig:
    """From update `at` of its phase on: a level or a regime, reached in `steps` equal moves over `over` updates."""

    at: int = option(0, COUNT)
    level: str = option("none", (*LEVELS, *REGIMES))
    over: int = option(0, COUNT)
    """0 reaches the level at once."""
    steps: int = option(4, "[1, 1000]")


@dataclass
class EventConfig:
    """Something done once, before update `at` of its phase: a named snapshot, then a log-std reset, or one of them."""

    at: int = option(0, COUNT)
    snapshot: str = option("", SNAPSHOT)
    log_std: float | None = option(None, "[-20, 5]")


@dataclass
class PhaseConfig:
    """A stretch of training: curriculum, transition or selfplay."""

    name: str = option("curriculum", LABEL)
    updates: int = option(100, POSITIVE)
    stages: list[StageConfig] = field(default_factory=list)
    """Until the first of them: whatever the previous phase ended with."""
    floor: float = option(0.05, "[0, 0.2]")
    """Share of the scripted matches kept for each bot already met that is not in the current stage (0 forgets them)."""
    scripted_start: float = option(1.0, PROBABILITY)
    scripted_end: float = option(1.0, PROBABILITY)
    """Share of matches against bots at the phase's first and last update; the rest is self-play."""
    randomization: list[RandomizationConfig] = field(default_factory=list)
    """Until the first of them: whatever the previous phase ended with; the first phase begins with none."""
    events: list[EventConfig] = field(default_factory=list)
    advance: str = option("on_update", ADVANCES)
    """on_update, or on_success: a stage ends early once every current bot's win rate reaches `success`."""
    success: float = option(0.9, "(0, 1]")
    adaptive: float = option(0.0, PROBABILITY)
    """How far the shares of a stage's bots follow the measured loss rates (0 keeps the stage's weights)."""


@dataclass
class SelfPlayConfig:
    """The pool of frozen snapshots and how opponents are drawn from it."""

    snapshot_every: int = option(50, POSITIVE)
    promotion: str = option("always", PROMOTIONS)
    """always: a snapshot joins the pool when it is due. sprt: only if a sequential test of the learner against the
    newest snapshot finds it `promotion_elo` stronger; else it is due again `snapshot_every` updates later."""
    promotion_elo: float = option(50.0, "(0, 1000]")
    promotion_games: int = option(400, "[2, 1000000]")
    """At most this many; undecided by then is not promoted."""
    pool_size: int = option(30, "[1, 10000]")
    eviction: str = option("oldest", EVICTIONS)
    """oldest, or weakest (lowest rating); the newest is never evicted."""
    sampling: str = option("hard", SAMPLINGS)
    """hard: 1 - p + 0.1; variance: p (1 - p) + 0.01, where p is the learner's win rate against the snapshot."""
    slots: int = option(4, "[1, 1000]")
    """Different snapshots met within one rollout."""
    deal_every: int = option(4, POSITIVE)
    """Updates between draws of new opponents from the pool."""
    elo_k: float = option(32.0, "(0, 1000]")


@dataclass
class EvaluationConfig:
    """Evaluation while training (deterministic policy, on its own matches)."""

    every: int = option(0, COUNT)
    """Updates between W/D/L checks against every bot already met; 0 is never."""
    games: int = option(100, "[2, 1000000]")
    check_bot: str = option("brawler", BOTS)
    check_every: int = option(0, COUNT)
    check_alert: float = option(0.8, PROBABILITY)
    """Alert when the win rate against `check_bot` falls below this after it had been reached."""
    regimes_every: int = option(0, COUNT)


@dataclass
class GuardConfig:
    """What happens when an update breaks the policy; the ladder is in `agents/run/guard.py`."""

    enabled: bool = True
    restore_kl: float = option(10.0, "[1, 1000000]")
    """An update whose KL passes this many times `ppo.target_kl` is taken back."""
    cut: float = option(0.5, "(0, 1]")
    """What the learning rate is multiplied by when that happens."""
    window: int = option(50, POSITIVE)
    """Updates within which a second broken update goes back to the last training state, and a third ends the run."""


@dataclass
class LoggerConfig:
    """TensorBoard and metrics.jsonl are always written."""

    wandb: str = option("off", WANDB_MODES)
    """off, online or offline."""
    wandb_project: str = option("sparring", TEXT)
    progress: bool = True


@dataclass
class RunConfig:
    """Options of every training run; `RUNS` are the kinds of run."""

    trainers: ClassVar[tuple[str, ...]] = ()
    game: ClassVar[str] = DIPLOMACY
    lacks: ClassVar[tuple[str, ...]] = ()
    """Keys, without the numbers of items, of what its sections share with other kinds and means nothing to this one."""

    run: str | None = option(None, LABEL)
    """Name of the run file chosen with +run=NAME."""
    name: str = option("", FOLDER)
    """Folder under checkpoints/; empty makes up adjective-callsign-run."""
    checkpoint_dir: str = option("checkpoints", TEXT)
    trainer: str = option("ppo", TRAINERS)
    """ppo is ours; sb3 is Stable-Baselines3's PPO on the same matches and bots, as a baseline. grpo trains a language
    model to play Diplomacy, clone makes it imitate a bot first."""
    seed: int = option(1, "[0, 2147483647]")
    device: str = option("auto", DEVICE)
    """auto (cuda where there is one), cpu, cuda, cuda:1 ..."""
    deterministic: bool = False
    """On an accelerator, too, the same run gives the same bits, at some cost in speed; a CPU always does."""
    threads: int = option(0, "[0, 4096]")
    """CPU threads for torch and the simulator; 0 is every core this process may use."""
    resume: str = option("", FOLDER)
    """Continue the run of this name, with its own configuration; a `name` that exists is continued as well."""
    checkpoint_every: int = option(50, POSITIVE)
    """Updates between training states, and between the policies step_<env steps>.pt."""
    checkpoint_minutes: float = option(10.0, "[0, 100000]")
    """A training state at least this often, if updates are long; 0 leaves it to `checkpoint_every`."""
    keep_states: int = option(3, "[1, 1000]")
    """Training states kept; the policies all stay."""
    grace_seconds: float = option(25.0, "(0, 86400]")
    """After Ctrl-C or SIGTERM the update in progress has this long to finish and be saved."""
    patience_seconds: float = option(1800.0, "[1, 86400]")
    """Of several processes (torchrun), one that does not answer the others for this long is taken for dead."""
    max_updates: int = option(0, COUNT)
    """Stop after this many updates although the schedule is longer; 0 runs it whole."""
    scale: float = option(1.0, "(0, 1]")
    """One dial for size: below 1 the run file's schedule and batches are shrunk when a run begins (docs/long_runs.md).
    What is typed beside it holds as it is. A run's config.yaml has it, and the numbers that it made."""
    env: EnvConfig = field(default_factory=EnvConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)


@dataclass
class PPORunConfig(RunConfig):
    """PPO, ours or SB3's, on any game."""

    trainers = ("ppo", "sb3")

    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig(stages=[StageConfig(bots=list(BOTS))])])
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)


@dataclass
class DogfightRunConfig(PPORunConfig):
    """PPO in the dogfight. The defaults alone are a small valid run: all five bots from the start."""

    game = DOGFIGHT

    env: DogfightEnvConfig = field(default_factory=DogfightEnvConfig)


@dataclass
class DiplomacyRunConfig(PPORunConfig):
    """PPO in Diplomacy: orders are chosen, opponents are bots."""

    lacks = (
        "network.activation", "network.log_std_init", "network.log_std_min", "network.log_std_max",
        "phases.scripted_start", "phases.scripted_end", "phases.randomization", "phases.events.log_std", "self_play",
        *DOGFIGHT_CHECKS,
    )  # fmt: skip

    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)


@dataclass
class GymnasiumRunConfig(PPORunConfig):
    """PPO in an environment of Gymnasium's, without opponents."""

    game = GYMNASIUM
    lacks = (
        "phases.stages", "phases.scripted_start", "phases.scripted_end", "phases.randomization", "self_play",
        "evaluation",
    )  # fmt: skip

    env: GymnasiumEnvConfig = field(default_factory=GymnasiumEnvConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig("training")])


@dataclass
class LanguageRunConfig(RunConfig):
    """A language model in Diplomacy."""

    lacks: ClassVar[tuple[str, ...]] = ("env.num_envs", *DOGFIGHT_CHECKS)

    env: DiplomacyEnvConfig = field(default_factory=DiplomacyEnvConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    model: LanguageModelConfig = field(default_factory=LanguageModelConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)


@dataclass
class GRPORunConfig(LanguageRunConfig):
    """GRPO trains a language model to play."""

    trainers = ("grpo",)

    trainer: str = option("grpo", TRAINERS)
    grpo: GRPOConfig = field(default_factory=GRPOConfig)
    league: LeagueConfig = field(default_factory=LeagueConfig)


@dataclass
class CloneRunConfig(LanguageRunConfig):
    """A language model imitates a bot."""

    trainers = ("clone",)
    lacks: ClassVar[tuple[str, ...]] = (*LanguageRunConfig.lacks, "guard")

    trainer: str = option("clone", TRAINERS)
    clone: CloneConfig = field(default_factory=CloneConfig)


RUNS = (DogfightRunConfig, DiplomacyRunConfig, GymnasiumRunConfig, GRPORunConfig, CloneRunConfig)
