"""Every option of a training run, as dataclasses. YAML files under `run/` hold only what differs from here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RewardConfig:
    """Reward weights of the dogfight; see `envs/dogfight/reward.py` for each term."""

    damage_dealt: float = 3.0
    damage_taken: float = 1.0
    win: float = 5.0
    lose: float = 5.0
    draw: float = 0.0
    approach: float = 0.0001
    alive: float = 0.0
    proximity: float = 0.001
    facing: float = 0.0005
    shaping: float = 0.0
    """Weight of the potential-based term, gamma * phi' - phi."""


@dataclass
class EnvConfig:
    """What is played, and how many matches at once."""

    id: str = "sparring/Dogfight-v0"
    num_envs: int = 256
    rules: str = "classic"
    action_repeat: int = 10
    bot_rate: str = "tick"
    spawn: str = "random"
    observe_physics: bool = True
    reward: RewardConfig = field(default_factory=RewardConfig)


@dataclass
class NetworkConfig:
    """The "256h/0b" family: separate actor and critic of hidden width / pre-norm residual blocks."""

    hidden: int = 256
    blocks: int = 0
    log_std_init: float = -1.0
    log_std_min: float = -2.0
    log_std_max: float = 0.0


@dataclass
class PPOConfig:
    """Proximal policy optimization."""

    rollout_steps: int = 2048
    epochs: int = 4
    minibatch_size: int = 4096
    learning_rate: float = 3e-4
    final_learning_rate_fraction: float = 0.1
    gamma: float = 0.999
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_clip: float = 0.2
    """0 switches value clipping off."""
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    final_entropy_fraction: float = 1.0
    max_grad_norm: float = 0.5
    target_kl: float = 0.05
    """0 switches the stop off."""
    log_ratio_clamp: float = 20.0
    precision: str = "auto"
    """fp32, fp16 (CUDA, with a gradient scaler), bf16, or auto: bf16 where the device computes it natively, else fp32."""
    warmup_updates: int = 10
    """Updates in full precision before autocast starts."""


@dataclass
class StageConfig:
    """From update `at` of its phase on, these bots are the current ones. `weights` defaults to equal shares."""

    at: int = 0
    bots: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


@dataclass
class RandomizationConfig:
    """From update `at` of its phase on: a level, reached in `steps` equal widenings over `over` updates."""

    at: int = 0
    level: str = "none"
    over: int = 0
    steps: int = 4


@dataclass
class EventConfig:
    """Something done once, at update `at` of its phase: a named snapshot, a log-std reset, or both."""

    at: int = 0
    snapshot: str = ""
    log_std: float | None = None


@dataclass
class PhaseConfig:
    """A stretch of training: curriculum, transition or selfplay."""

    name: str = "curriculum"
    updates: int = 100
    stages: list[StageConfig] = field(default_factory=list)
    floor: float = 0.05
    """Share of matches kept for each bot already met that is not in the current stage (0 forgets them)."""
    scripted_start: float = 1.0
    scripted_end: float = 1.0
    """Share of matches against bots at the phase's first and last update; the rest is self-play."""
    randomization: list[RandomizationConfig] = field(default_factory=list)
    """Empty: whatever the previous phase ended with."""
    events: list[EventConfig] = field(default_factory=list)
    advance: str = "on_update"
    """on_update, or on_success: a stage ends early once every current bot's win rate reaches `success`."""
    success: float = 0.9
    adaptive: float = 0.0
    """In [0, 1]: how far the scripted shares follow the measured loss rates (0 keeps the stage's weights)."""


@dataclass
class SelfPlayConfig:
    """The pool of frozen snapshots and how opponents are drawn from it."""

    snapshot_every: int = 50
    pool_size: int = 30
    eviction: str = "oldest"
    """oldest, or weakest (lowest rating); the newest is never evicted."""
    sampling: str = "hard"
    """hard: 1 - p + 0.1; variance: p (1 - p) + 0.01, where p is the learner's win rate against the snapshot."""
    slots: int = 4
    """Different snapshots met within one rollout."""
    deal_every: int = 4
    """Updates between draws of new opponents from the pool."""
    elo_k: float = 32.0


@dataclass
class EvaluationConfig:
    """Evaluation while training (deterministic policy, on its own matches)."""

    every: int = 0
    """Updates between W/D/L checks against every bot already met; 0 is never."""
    games: int = 100
    check_bot: str = "brawler"
    check_every: int = 0
    check_alert: float = 0.8
    """Alert when the win rate against `check_bot` falls below this after it had been reached."""
    regimes_every: int = 0


@dataclass
class LoggerConfig:
    """TensorBoard and metrics.jsonl are always written."""

    wandb: str = "off"
    """off, online or offline."""
    wandb_project: str = "sparring"
    progress: bool = True


@dataclass
class RunConfig:
    """One training run."""

    run: str | None = None
    """Name of the run file chosen with +run=NAME."""
    name: str = ""
    """Folder under checkpoints/; empty makes up adjective-callsign-run."""
    checkpoint_dir: str = "checkpoints"
    seed: int = 1
    device: str = "auto"
    """auto (cuda where there is one), cpu, cuda, cuda:1 ..."""
    threads: int = 0
    """CPU threads for torch and the simulator; 0 is every core this process may use."""
    checkpoint_every: int = 50
    max_updates: int = 0
    """Stop after this many updates although the schedule is longer; 0 runs it whole."""
    env: EnvConfig = field(default_factory=EnvConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig()])
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
