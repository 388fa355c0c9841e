"""Options of a training run, as dataclasses: names, types, defaults and allowed values.

Options of all games; a game's own are in `envs/<game>/config.py`. YAML files under `run/` contain differences.
`trainer` and `env.id` choose among `kinds.run_kinds()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from sparring.configs.core.allowed import Form, option
from sparring.configs.core.errors import ConfigError, moved
from sparring.configs.core.parts import part_names
from sparring.configs.core.session import GuardConfig, LoggerConfig, NetworkConfig
from sparring.configs.games import EnvConfig

RUNS_OF_LANGUAGE_MODELS = ("LanguageRunConfig", "GRPORunConfig", "CloneRunConfig")
RUNS_OF_OTHER_PACKAGES = ("GymnasiumRunConfig", "ImportedRunConfig")
__getattr__ = moved(
    __name__,
    dict.fromkeys(RUNS_OF_LANGUAGE_MODELS, "sparring.configs.language.runs")
    | dict.fromkeys(RUNS_OF_OTHER_PACKAGES, "sparring.envs.imported.config"),
)

GYMNASIUM = "Gymnasium's environments"
IMPORTED = "games of PettingZoo and OpenSpiel"
BOTS = ("do_nothing", "dogfighter", "chaser", "ace", "brawler")
RANDOM = "random"  # the scripted player of every game of other packages: uniform over the legal actions
LEVELS = ("none", "narrow", "full")
REGIMES = (
    "default", "high_gravity", "low_gravity", "glass_cannon", "tank_fight", "knife_fight", "energy_fighter", "sniper",
)  # fmt: skip
PRECISIONS = ("auto", "fp32", "fp16", "bf16")
TRAINERS = part_names("trainers")

DOGFIGHT_CHECKS = (
    "evaluation.check_bot", "evaluation.check_every", "evaluation.regimes_every",
)  # fmt: skip

WITHOUT_POOL = (
    "phases.scripted_start=1.0 and phases.scripted_end=1.0",
    tuple(f"self_play.{name}" for name in ("snapshot_every", "promotion_games", "deal_every", "pool_size")),
)
"""Row of `RunConfig.idle` for games with a pool of snapshots."""

CHECKED = "evaluation.check_every above 0"

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
LABEL = Form(r"[A-Za-z][A-Za-z0-9_-]{0,63}", "letters, digits, '_' and '-', a letter first")
OPPONENT = Form(r"[^\x00\n]+", "a bot, a checkpoint, an ONNX file, or module:Name of a Python object")
TEXT = Form(r"[^\x00\n]+", "text of one line")


@dataclass
class PPOConfig:
    """Proximal policy optimization."""

    rollout_steps: int = option(2048, "[1, 1000000]")
    """Steps per update in each of the `env.num_envs` matches."""
    epochs: int = option(4, "[1, 1000]")
    """Passes over the samples in each update."""
    minibatch_size: int = option(4096, "[1, 1000000000]")
    """Samples per minibatch, out of rollout_steps x num_envs."""
    learning_rate: float = option(3e-4, "(0, 1]")
    """Initial step size of Adam."""
    final_learning_rate_fraction: float = option(0.1, PROBABILITY)
    """The learning rate falls linearly to this fraction of its initial value at the end of the schedule."""
    gamma: float = option(0.999, PROBABILITY)
    """Discount factor per step."""
    gae_lambda: float = option(0.95, PROBABILITY)
    """Lambda of generalized advantage estimation."""
    clip: float = option(0.2, "(0, 1]")
    """Bound on the change of the probability ratio, 1 - clip to 1 + clip."""
    value_clip: float = option(0.2, "[0, 1000]")
    """Bound on the change of a value in its loss, in units of the return; 0 disables value clipping."""
    value_coefficient: float = option(0.5, "[0, 1000]")
    """Weight of the value loss in the loss."""
    entropy_coefficient: float = option(0.0, PROBABILITY)
    """Initial weight of the entropy bonus, in loss per nat."""
    final_entropy_fraction: float = option(1.0, PROBABILITY)
    """The entropy coefficient falls linearly to this fraction of its initial value."""
    entropy_falls_from: float = option(0.0, "[0, 0.99]")
    """Fraction of the schedule after which the entropy coefficient begins to fall; 0 is the start."""
    average_decay: float = option(0.0, "[0, 0.9999]")
    """Decay of the moving average of the weights; saved and evaluated policies use the average. 0 uses the weights of
    the last update."""
    max_grad_norm: float = option(0.5, "(0, 1000]")
    """Gradients with a larger norm are scaled down to it."""
    target_kl: float = option(0.05, "[0, 100]")
    """An update ends early once its KL is above this; 0 disables the stop."""
    adaptive_kl: float = option(0.0, "[0, 100]")
    """Target KL that sets the learning rate instead of the schedule. The rate is divided by 1.5 when an update's mean
    KL is over twice the target, multiplied by 1.5 when it is under half of it. 0 follows the schedule."""
    precision: str = option("auto", PRECISIONS)
    """fp32, fp16 (CUDA, with a gradient scaler), bf16, or auto: bf16 where the device is faster with it, else fp32."""
    warmup_updates: int = option(10, COUNT)
    """Updates in full precision before autocast starts."""
    gsde_every: int = option(0, COUNT, needs=["network.gsde=true"])
    """Steps between draws of the noise function; 0 draws once per rollout."""
    sequence_length: int = option(16, "[1, 100000]", needs=["network.memory=gru or network.memory=lstm"])
    """Decisions through which gradients are backpropagated in a recurrent network."""


@dataclass
class StageConfig:
    """From update `at` of the phase on, these bots are the opponents, with equal shares of the matches."""

    at: int = option(0, COUNT)
    """Update of the phase at which the stage starts."""
    bots: list[str] = field(default_factory=list, metadata={"allowed": OPPONENT})
    """By name: the dogfight's `BOTS`, or `DIPLOMACY_BOTS` and `SEED_BOTS`; also checkpoints, ONNX files (the dogfight)
    and Python objects (docs/opponents.md)."""


@dataclass
class RandomizationConfig:
    """From update `at` of its phase on: a level or a regime, reached in `steps` equal steps over `over` updates."""

    at: int = option(0, COUNT)
    """Update of the phase at which the change starts."""
    level: str = option("none", (*LEVELS, *REGIMES))
    """Level or regime of physics (docs/envs/dogfight.md)."""
    over: int = option(0, COUNT)
    """Updates over which the physics widen to the level; 0 sets it at once."""
    steps: int = option(4, "[1, 1000]")
    """Number of equal steps within `over`."""


@dataclass
class EventConfig:
    """One-time actions before update `at` of its phase: a named snapshot, a log-std reset, or both in this order."""

    at: int = option(0, COUNT)
    """Update of the phase before which the event happens."""
    snapshot: str = option("", SNAPSHOT)
    """Name of a policy to save; empty saves none."""
    log_std: float | None = option(None, "[-20, 5]")
    """Value to which the log standard deviation is reset; null keeps it."""


@dataclass
class PhaseConfig:
    """A part of the training schedule, such as the curriculum or self-play."""

    name: str = option("curriculum", LABEL)
    """Name of the phase in logs and on the progress bar."""
    updates: int = option(100, POSITIVE)
    """Length of the phase, in updates."""
    stages: list[StageConfig] = field(default_factory=list)
    """Stages; before the first, the bots at the end of the previous phase are used."""
    floor: float = option(0.05, "[0, 0.2]")
    """Share of the scripted matches kept for each earlier bot that is not in the current stage (0 drops them)."""
    scripted_start: float = option(1.0, PROBABILITY)
    """Share of matches against bots at the first update; the rest is self-play."""
    scripted_end: float = option(1.0, PROBABILITY)
    """Share of matches against bots at the last update; the rest is self-play."""
    randomization: list[RandomizationConfig] = field(default_factory=list)
    """Changes; before the first, the previous phase's last level applies. The first phase starts without any."""
    events: list[EventConfig] = field(default_factory=list)
    adaptive: float = option(0.0, PROBABILITY)
    """Degree to which the shares of a stage's bots follow measured loss rates (0 keeps them equal)."""


@dataclass
class SelfPlayConfig:
    """Pool of frozen snapshots, and sampling of opponents from it."""

    snapshot_every: int = option(50, POSITIVE)
    """Updates between snapshots."""
    promotion_games: int = option(0, "[0, 1000000]")
    """Most games of a sequential test of the learner against the newest snapshot. A new snapshot joins the pool only if
    the test finds it 50 Elo stronger; else the next test is `snapshot_every` updates later. 0 disables the tests."""
    pool_size: int = option(30, "[1, 10000]")
    """Largest number of snapshots in the pool."""
    both_seats: bool = False
    """All seats of a self-play match learn (the policy plays itself), instead of one seat against the pool."""
    pool_share: float = option(0.2, PROBABILITY, needs=["self_play.both_seats=true"])
    """Fraction of self-play matches in which one seat still plays the pool."""
    slots: int = option(4, "[1, 1000]")
    """Different snapshots in one rollout."""
    deal_every: int = option(4, POSITIVE)
    """Updates between draws of opponents from the pool."""
    exploiter_every: int = option(0, COUNT, needs=["network.styles above 0"])
    """Updates of the learner between exploiters; 0 is never. An exploiter is a policy trained only against the
    learner's frozen mixture; it stays in the pool."""
    exploiter_updates: int = option(100, POSITIVE, needs=["self_play.exploiter_every above 0"])
    """Updates of an exploiter, counted among the updates of the phases."""
    lineages: list[str] = field(default_factory=list, metadata={"allowed": TEXT})
    """Policies from whose weights every other exploiter starts, in turn; the rest start from the learner's."""


@dataclass
class EvaluationConfig:
    """Evaluation during training, with the deterministic policy in separate matches."""

    every: int = option(0, COUNT)
    """Updates between win/draw/loss evaluations against all bots met so far; 0 is never."""
    games: int = option(100, "[2, 1000000]")
    """Games per opponent in each evaluation."""
    exploit_every: int = option(0, COUNT)
    """Updates between sampling attacks on the stochastic policy, in OpenSpiel games; 0 is never. The metrics are
    `exploit/...` (docs/exploit.md)."""
    exploit_moves: int = option(20_000, "[1, 1000000000]", needs=["evaluation.exploit_every above 0"])
    """Moves of each attack, all seats together."""
    check_bot: str = option("brawler", BOTS, needs=[f"{CHECKED} or evaluation.regimes_every above 0"])
    """Opponent of the evaluations below."""
    check_every: int = option(0, COUNT)
    """Updates between evaluations against only `check_bot`; 0 is never."""
    regimes_every: int = option(0, COUNT)
    """Updates between evaluations against `check_bot` in every regime of physics; 0 is never."""


class Instead(str):
    """Replacement of a removed option, whose stored values had no effect or have another key now."""


@dataclass
class RunConfig:
    """Options of every training run; `kinds.run_kinds()` are the kinds of run."""

    trainers: ClassVar[tuple[str, ...]] = ()
    removed: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of earlier versions by bare key: the value that every run has today, or `Instead`."""
    game: ClassVar[str] = ""
    """The game's `env.id`, or `GYMNASIUM` for all ids outside the project."""
    title: ClassVar[str] = ""
    """Name of the game in `--help`."""
    bots: ClassVar[tuple[str, ...]] = ()
    """Bots that its phases can name; empty if it has no opponents."""
    seats: ClassVar[int] = 1
    """Number of players of a match."""
    multiple: ClassVar[int] = 1
    """Parallel matches and evaluation games must be a multiple of it, so every seat is played equally often."""
    foreign_names: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of other libraries by key, each a `ForeignName`, in addition to those of PPO."""
    ppo_task: ClassVar[str] = ""
    """PPO task, "module:name", if no record of a game names one."""
    language_model: ClassVar[bool] = False
    """True for language models."""
    lacks: ClassVar[tuple[str, ...]] = ()
    """Keys, without item numbers, that its sections share with other kinds and that have no effect here."""
    idle: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = ()
    """Rows of `validate.IDLE` only for this kind: the condition, and prefixes of the options then idle."""

    run: str | None = option(None, LABEL)
    """Name of the run file chosen with +run=NAME."""
    name: str = option("", FOLDER)
    """Folder under checkpoints/; if empty, a name is generated (adjective-callsign-run)."""
    checkpoint_dir: str = option("checkpoints", TEXT)
    """Folder of all runs, relative to the repository."""
    trainer: str = option("ppo", TRAINERS)
    """`ppo` is built in. `sb3`, a baseline, is Stable-Baselines3's PPO on the same matches and bots. `grpo` trains a
    language model. `clone` trains a small language model by imitation. `distill` trains a Diplomacy policy to imitate a
    search."""
    seed: int = option(1, "[0, 2147483647]")
    """Seed of all random numbers of the run."""
    device: str = option("auto", DEVICE)
    """auto (cuda if available), cpu, cuda, cuda:1 ..."""
    deterministic: bool = False
    """Make runs bitwise reproducible on accelerators too, at some cost in speed; CPU runs always are."""
    threads: int = option(0, "[0, 4096]")
    """CPU threads; 0 uses all cores. In PPO the simulator uses all threads, actor and critic half each."""
    resume: str = option("", FOLDER)
    """Continue the run of this name, with its own configuration; an existing `name` is continued too."""
    checkpoint_every: int = option(50, POSITIVE)
    """Updates between training states, and between the policies step_<env steps>.pt. States are at most ten minutes
    apart if updates are long."""
    keep_states: int = option(3, "[1, 1000]")
    """Training states to keep; all policies are kept."""
    grace_seconds: float = option(25.0, "(0, 86400]")
    """Seconds after SIGTERM for the current update to finish and be saved; Ctrl-C waits for it."""
    patience_seconds: float = option(1800.0, "[1, 86400]")
    """Seconds without an answer after which one of several processes (torchrun) counts as lost."""
    max_updates: int = option(0, COUNT)
    """Stop after this many updates even if the schedule is longer; 0 runs all."""
    scale: float = option(1.0, "(0, 1]")
    """Size: below 1, the run file's schedule and batches are shrunk when a run starts (docs/training.md). Options on
    the command line are not scaled. A run's config.yaml contains it and the resulting numbers."""
    env: EnvConfig = field(default_factory=EnvConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)

    def check(self) -> None:
        """Reject conflicting options; raises `ConfigError` with one line."""

    def check_opponents(self) -> None:
        """Reject opponents that only the game can check, before torch loads; raises `InputError`."""

    def may_change(self, key: str, now: RunConfig) -> bool:
        """Return whether a resumed run may change the option `key` as in `now`; raises `ConfigError` for its value."""
        return False

    def start_from(self, run: str) -> str:
        """Return the option with which a new run starts from the policy of `run`; empty if there is none."""
        return ""

    @classmethod
    def migrated(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored options of earlier versions in today's form; raises `ConfigError`."""
        return dict(plain)


@dataclass
class PPORunConfig(RunConfig):
    """PPO, own or SB3's, on any game."""

    trainers: ClassVar[tuple[str, ...]] = ("ppo", "sb3")
    removed = MappingProxyType({
        "checkpoint_minutes": Instead("training states are at most ten minutes apart"),
        "ppo.capture": Instead("a GPU always records graphs, with the same results"),
        "ppo.magnet_coefficient": 0.0, "ppo.magnet_rate": 0.0, "ppo.proximal_coefficient": 0.0,
        "ppo.log_ratio_clamp": 20.0, "self_play.promotion_elo": 50.0,
        "self_play.eviction": "oldest", "self_play.elo_k": 32.0, "evaluation.check_alert": 0.8,
        "self_play.below_share": 0.6, "guard.restore_kl": 10.0, "guard.cut": 0.5, "guard.window": 50,
        "phases.success": 0.0, "phases.advance": "on_update", "phases.stages.weights": [],
        "self_play.sampling": "hard", "self_play.promotion": Instead("self_play.promotion_games=400 tests snapshots"),
        "evaluation.video_every": Instead("every fifth evaluation has a video"),
    })  # fmt: skip

    init_from: str = option("", TEXT)
    """A policy from whose weights and observation statistics a new run starts: a file or a run's name. Optimizer,
    counters and opponents are new. Empty starts from random weights."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig(stages=[StageConfig(bots=list(BOTS))])])
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)

    def check(self) -> None:
        """Reject a number of games that is not divisible by the seats, and populations; raises `ConfigError`."""
        check_games(self.evaluation, self.multiple)
        check_population(self)

    def start_from(self, run: str) -> str:
        """Return the option with which a new run starts from the policy of `run`."""
        return f"init_from={run}"

    @classmethod
    def migrated(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Return stored options without values that a former `self_play.promotion` or `phases.advance` ignored."""
        migrated, phases, self_play = dict(plain), plain.get("phases"), plain.get("self_play")
        if isinstance(self_play, Mapping) and self_play.get("promotion") == "always":
            migrated["self_play"] = {**self_play, "promotion_games": 0}
        if isinstance(phases, list):
            by_update = [isinstance(phase, Mapping) and phase.get("advance") == "on_update" for phase in phases]
            never = {"success": 0.0}
            migrated["phases"] = [{**p, **never} if by else p for p, by in zip(phases, by_update, strict=True)]
        return migrated


@dataclass
class NamedOpponentsRunConfig(PPORunConfig):
    """PPO in a game whose opponents may be bots, policies and Python objects."""

    against: str = option("", Form(f"({OPPONENT.pattern})?", OPPONENT.text))
    """The only opponent, instead of the bots of every stage; named as in a stage's `bots`. Empty keeps the stages."""
    opponents: list[str] = field(default_factory=list, metadata={"allowed": OPPONENT})
    """Further opponents. One named in a stage plays there; any other joins the bots of every stage."""


def check_population(config: PPORunConfig) -> None:
    """Reject too few slots for the styles, and a log-std reset during an exploiter; raises `ConfigError`."""
    styles, self_play, start = config.network.styles, config.self_play, 0
    if styles and self_play.slots <= styles:
        fix = f"must be above network.styles={styles}, since each style needs a slot; try {2 * styles}"
        raise ConfigError(f"self_play.slots={self_play.slots}: {fix}")
    period = self_play.exploiter_every + self_play.exploiter_updates
    for number, phase in enumerate(config.phases):
        for index, event in enumerate(phase.events):
            at = start + event.at
            if self_play.exploiter_every and event.log_std is not None and at % period >= self_play.exploiter_every:
                fix = f"is update {at} of an exploiter; choose another"
                raise ConfigError(f"phases.{number}.events.{index}.at={event.at}: {fix}")
        start += phase.updates


def check_games(evaluation: EvaluationConfig, multiple: int) -> None:
    """Reject a number of games that is not a multiple; raises `ConfigError`."""
    games = evaluation.games
    if games % multiple and (evaluation.every or games != EvaluationConfig.games):
        fix = f"must be a multiple of {multiple}, so that it plays every power alike; try {games + -games % multiple}"
        raise ConfigError(f"evaluation.games={games}: {fix}")
