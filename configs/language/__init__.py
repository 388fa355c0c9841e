"""Options of language models: the model, cloning a bot, and GRPO. Names follow the literature.

`runs.py` has their kinds of run; `league.py` the options of the league.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.core.allowed import Form, option
from sparring.configs.core.errors import ConfigError, moved
from sparring.configs.games import DIPLOMACY_BOTS, SEED_BOTS

LEAGUE_NAMES = ("LeagueConfig", "SHARED", "MATCHMAKINGS", "STARTING_RATINGS", "LEAGUE_BOTS")
__getattr__ = moved(
    __name__, {"ADAPTER": "sparring.configs.games"} | dict.fromkeys(LEAGUE_NAMES, "sparring.configs.language.league")
)

OPTIMIZERS = ("adamw", "muon")
LOSS_TYPES = ("grpo", "gspo")
AGGREGATIONS = ("grpo", "dapo", "dr_grpo")
"""Reduction of token losses: a mean per sample, over all tokens of the batch, or a sum over a constant."""
LORA_TARGETS = ("attention", "all")
KL_FORMS = ("exact", "signed", "squared")
STDS = ("population", "sample")
DISCOUNTS = ("phase", "decision")
GIVE_ADAPTER = "???"
"""Value of `model.adapter` in a run file that needs one on the command line."""
PLAYS = ("league", "self_play")
GROUP, ROLE = "group", "role"
NEW_MODEL = "tiny"
"""Value of `model.name` for which trainer=clone builds a model instead of loading one."""
MODEL = Form(r"[^\x00\n]+", "tiny, smollm2, a run that cloned a bot, a folder or an id on Hugging Face's hub")
APIS = ("completions", "chat")
STRUCTURED = ("tokens", "choice", "regex", "none")
EFFORTS = ("", "none", "minimal", "low", "medium", "high", "xhigh")
PRICE = "[0, 100000]"
URL = Form(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?(/[A-Za-z0-9._~/-]*)?",
    "http:// or https://, host, port and path, such as http://127.0.0.1:8000/v1, and no user, password or key",
    private=True,
)
VARIABLE = Form(
    r"[A-Z_][A-Z0-9_]{0,63}",
    "the name of a variable of the environment in capitals, such as OPENAI_API_KEY, never the key itself",
    private=True,
)
RUN = Form(r"[^\x00\n]*", "text of one line")
COUNT = "[0, 10000000]"
POSITIVE = "[1, 10000000]"
PROBABILITY = "[0, 1]"


@dataclass
class LanguageModelConfig:
    """Model that plays, its prompts, and its sampling."""

    name: str = option("tiny", MODEL)
    """The base model: tiny, smollm2, a run that cloned a bot, or the folder or hub id of a Hugging Face causal LM. With
    trainer=clone it is trained further, and tiny is a new model of `clone.layers` times `clone.hidden`."""
    adapter: str = option("", RUN)
    """Checkpoint whose adapter to start from; empty starts from the model itself, ??? demands one."""
    compact: bool = True
    """Short prompt, since the mask keeps orders legal. The full one adds instructions."""
    show_valid_moves: bool = False
    """List the legal orders of each unit."""
    show_board_context: bool = True
    """Show all units and centres, not only the own."""
    show_map_windows: bool = False
    """Show for each unit its neighbours and its threats in the prompt."""
    show_action_counts: bool = False
    """Show for each unit its number of legal orders in the prompt, and in full prompts their kinds."""
    temperature: float = option(0.8, "(0, 10]")
    """Sampling temperature in training."""
    max_prompt_tokens: int = option(2048, "[64, 1000000]")
    """Largest length of a prompt in tokens; a longer one is refused, not cut."""
    batch_size: int = option(128, "[1, 65536]")
    """Decisions sampled at once."""
    lora_rank: int = option(32, "[1, 1024]")
    """Rank of the adapter that is trained; its scale, alpha, is twice the rank."""
    lora_targets: str = option("all", LORA_TARGETS)
    """attention: q, k, v and o; all: gate, up and down as well."""


@dataclass
class EndpointConfig:
    """vLLM, or another server that speaks OpenAI's protocol, in evaluations (`--set endpoint.NAME=VALUE`)."""

    url: str = option("http://127.0.0.1:8000/v1", URL)
    """Address of the server, often with /v1 at its end."""
    model: str = option("", RUN)
    """Model name on the server; empty takes its only model."""
    key_env: str = option("", VARIABLE)
    """Environment variable that holds the key; empty sends none."""
    api: str = option("completions", APIS)
    """chat is for servers with only chat completions."""
    structured: str = option("tokens", STRUCTURED)
    """Constraint on answers: a grammar of token ids (vLLM with guidance), a choice for each line, a regex for all of
    them, or none."""
    max_tokens: int = option(0, "[0, 1000000]")
    """Most tokens of an answer, reasoning included; 0 allows what the longest orders need."""
    max_completion_tokens: int = option(0, "[0, 1000000]")
    """The same by another name, for servers that take only that; 0 sends max_tokens."""
    reasoning_effort: str = option("", EFFORTS)
    """How much a model reasons, sent as reasoning_effort; empty sends nothing, and the server decides."""
    prompt_price: float = option(0.0, PRICE)
    """Dollars for a million prompt tokens, for the cost of an evaluation."""
    cached_price: float = option(0.0, PRICE)
    """Dollars for a million prompt tokens from the server's cache; 0 counts them as the others."""
    answer_price: float = option(0.0, PRICE)
    """Dollars for a million tokens of answers, reasoning included."""
    logprobs: int = option(20, "[1, 10000]")
    """Alternatives requested per token; vLLM's --max-logprobs bounds it."""
    concurrency: int = option(16, "[1, 1024]")
    """Requests to the server at the same time."""
    timeout_seconds: float = option(120.0, "(0, 86400]")
    """Longest time for a request, in seconds."""
    total_seconds: float = option(600.0, "(0, 86400]")
    """Longest time for a decision, in seconds, with all its lines, retries and waits."""
    retries: int = option(4, "[0, 100]")
    """Attempts of a request after the first."""

    @property
    def most_tokens(self) -> int:
        """Most tokens of an answer by either name, 0 if none is given."""
        return self.max_tokens or self.max_completion_tokens

    def check(self) -> None:
        """Refuse options that do not fit together; raises `ConfigError`."""
        if self.api == "chat" and self.structured not in ("regex", "none"):
            raise ConfigError(
                f"endpoint.structured={self.structured}: with endpoint.api=chat an answer is one message; use regex "
                "(vLLM) or none"
            )
        if self.max_tokens and self.max_completion_tokens:
            raise ConfigError(
                f"endpoint.max_completion_tokens={self.max_completion_tokens}: is another name of endpoint.max_tokens; "
                "give one of them"
            )
        if self.reasoning_effort and self.api != "chat":
            raise ConfigError(
                f"endpoint.reasoning_effort={self.reasoning_effort}: is an option of chat completions; give "
                "endpoint.api=chat"
            )
        if self.total_seconds < self.timeout_seconds:
            raise ConfigError(
                f"endpoint.total_seconds={self.total_seconds:g}: must be at least endpoint.timeout_seconds, "
                f"{self.timeout_seconds:g}"
            )


@dataclass
class CloneConfig:
    """Behaviour cloning of a bot (`trainer=clone`)."""

    bot: str = option("dumbbot", (*DIPLOMACY_BOTS, *SEED_BOTS))
    """Bot to imitate."""
    hidden: int = option(128, "[16, 8192]", needs=[f"model.name={NEW_MODEL}"])
    """Width of the new model."""
    layers: int = option(4, "[1, 100]", needs=[f"model.name={NEW_MODEL}"])
    """Layers of the new model."""
    heads: int = option(4, "[1, 128]", needs=[f"model.name={NEW_MODEL}"])
    """Attention heads of each layer."""
    init_std: float = option(0.02, "(0, 1]", needs=[f"model.name={NEW_MODEL}"])
    """Standard deviation of the new model's first weights; larger ones tell prompts apart without any training."""
    games_per_update: int = option(16, "[1, 100000]")
    """Games of the bot played together for new examples."""
    updates: int = option(600, POSITIVE)
    """Updates, each of one phase of all games and one optimizer step per batch."""
    batch_tokens: int = option(16384, "[64, 100000000]")
    """Tokens per optimizer step, padding included."""
    learning_rate: float = option(1e-3, "(0, 1]")
    """Step size of the optimizer at its highest."""
    optimizer: str = option("adamw", OPTIMIZERS)
    """muon: that for the matrices of the layers, AdamW for the rest; it needs fewer samples."""


@dataclass
class GRPOConfig:
    """Group relative policy optimization (`trainer=grpo`)."""

    steps: int = option(200, POSITIVE)
    """Length of the run, in steps of rollouts and learning."""
    play: str = option("league", PLAYS)
    """league: one power learns, the others are drawn; self_play: all seven learn."""
    groups: int = option(16, "[1, 100000]")
    """Forked positions per step."""
    samples_per_group: int = option(8, "[2, 10000]")
    """Games played on from each fork."""
    rollout_horizon_years: int = option(4, "[1, 100]")
    """Game years played after the fork."""
    rollout_long_horizon_years: int = option(6, "[1, 100]")
    """Game years played after the fork in long rollouts."""
    rollout_long_horizon_chance: float = option(0.2, PROBABILITY)
    """Probability of a long rollout."""
    count_fork_year: bool = False
    """The year of the fork is the first of the horizon, however late in it the fork is; false adds its rest."""
    rollout_warmup_phases: int = option(8, "[0, 1000]")
    """Phases before the fork, uniform from 0 to this; a fifth of the forks is at the opening besides."""
    rollout_warmup_player: str = option("dumbbot", (*DIPLOMACY_BOTS, *SEED_BOTS, "base_model", "players"))
    """Player of them, all seats; players: the game's own."""
    buffer_depth: int = option(3, "[0, 64]")
    """Rollout batches prefetched by other processes in training; 0 plays them in this one."""
    workers: int = option(1, "[1, 1024]", needs=["grpo.buffer_depth above 0"])
    """Processes that play rollouts."""
    executor: str = option("local", ("local", "ray"), needs=["grpo.buffer_depth above 0"])
    """Where they are: local, or ray, the cluster of RAY_ADDRESS or of this machine, with the same version of Sparring,
    which sees the run's folder."""
    shard_model: bool = False
    """Divide the layers of the frozen model among the processes of torchrun (FSDP2), for one too large for each."""
    learning_rate: float = option(1e-5, "(0, 1]")
    """Step size of AdamW."""
    max_grad_norm: float = option(10.0, "(0, 10000]")
    """Gradients with a larger norm are scaled down to it."""
    epochs: int = option(1, "[1, 100]")
    """Passes over the samples of a step."""
    target_kl: float = option(0.2, "[0, 100]")
    """A step ends early at this KL from the policy that played, in nats per token; 0 never."""
    minibatch_samples: int = option(64, "[1, 1000000]")
    """Samples per optimizer step."""
    loss_type: str = option("grpo", LOSS_TYPES)
    """grpo: a ratio per token; gspo: one per sample."""
    aggregation: str = option("grpo", AGGREGATIONS)
    """grpo: mean per sample; dapo: mean over all tokens; dr_grpo: sum over a constant."""
    use_token_level_loss: bool = False
    """Weight samples by decision tokens, not equally."""
    use_ppo_clipping: bool = True
    """Clip the ratio to 1 - ppo_epsilon_low ... 1 + ppo_epsilon_high."""
    ppo_epsilon_low: float = option(0.2, "[0, 1]")
    """Width of the clipped range below a ratio of 1."""
    ppo_epsilon_high: float = option(0.5, "[0, 100]")
    """Width of the clipped range above a ratio of 1."""
    ppo_delta: float = option(0.0, "[0, 1000]", needs=["grpo.use_ppo_clipping=true"])
    """Bound of the ratio where the advantage is negative, above 1 + ppo_epsilon_high; 0 is none."""
    entropy_coef: float = option(0.0, PROBABILITY)
    """Weight of the entropy bonus."""
    kl_beta: float = option(0.04, "[0, 100]")
    """Weight of the KL from the reference policy."""
    kl_beta_start_step: int = option(0, COUNT)
    """Beta is 0 for this many steps, then warms up."""
    kl_beta_warmup_steps: int = option(0, COUNT)
    """Steps over which beta rises from 0."""
    kl_form: str = option("exact", KL_FORMS)
    """exact: over all allowed tokens; signed, squared: the drawn token's log-ratio, poor estimates."""
    kl_target: float = option(0.0, "[0, 100]")
    """KL to the reference that beta is adjusted to, in nats; 0 keeps beta."""
    use_ema_reference: bool = option(False, needs=["grpo.kl_beta above 0"])
    """Reference: a moving average of the adapter, not the base model."""
    ema_tau: float = option(0.99, PROBABILITY, needs=["grpo.use_ema_reference=true"])
    """Weight of the old average in each step."""
    baseline: str = option(GROUP, (GROUP, ROLE))
    """Subtracted from a decision's reward: its group's mean, or the running mean of its seat in all games."""
    min_reward_variance: float = option(0.0, "[0, 1000000]")
    """Groups whose rewards have a smaller variance are skipped."""
    advantage_clip: float = option(10.0, "[0, 1000]")
    """Bound on the size of an advantage; 0 does not clip."""
    advantage_std: str = option("population", STDS, needs=["grpo.scale_advantages=true"])
    """Divisor of a group's variance: its G samples, or G - 1."""
    advantage_std_floor: float = option(0.0, "[0, 1000]", needs=["grpo.scale_advantages=true"])
    """Advantages are divided by the standard deviation, or by this where that is smaller."""
    scale_advantages: bool = True
    """By the group's standard deviation; false as in Dr. GRPO."""
    use_importance_correction: bool = False
    """Clip around the trainer's probabilities before the step; weight by their ratio to the sampler's."""
    importance_cap: float = option(3.0, "[1, 1000]", needs=["grpo.use_importance_correction=true"])
    """Largest ratio of trainer's to sampler's probability, where they differ; above truncated."""
    importance_mask: bool = option(False, needs=["grpo.use_importance_correction=true"])
    """Leave tokens beyond grpo.importance_cap out instead of truncating their weight."""
    use_state_stratified_groups: bool = False
    """Group by step, power, similar number of centres and time, across forks."""
    use_elo_conditioned_rewards: bool = False
    """Add a reward for ranks better than expected against these opponents, in league games only."""
    use_strategic_step_scoring: bool = option(False, needs=["grpo.use_trajectory_level_rewards=false"])
    """Step scores of leading and balance, without the number of centres."""
    use_trajectory_level_rewards: bool = False
    """Each decision's reward is the final score of its game."""
    use_position_scoring: bool = True
    """Final scores count the place among the powers."""
    win_bonus: float = option(50.0, "[0, 1000]")
    """Points added to the final score of the winner."""
    winner_threshold_sc: int = option(5, "[1, 34]")
    """Centres of a sole leader for the bonus without position scoring, and for `game/win_bonus_rate`."""
    reward_discount_gamma: float = option(0.0, PROBABILITY)
    """Discount of later step scores; 0 counts only the next."""
    reward_discount_per: str = option("phase", DISCOUNTS)
    """decision: phases in which a power has nothing to order neither discount nor contribute."""
    step_reward_weight: float = option(0.8, "[0, 1000]")
    """Weight of the discounted step scores."""
    final_reward_weight: float = option(0.2, "[0, 1000]")
    """Weight of the final score."""
    leader_gap_penalty_weight: float = option(0.3, "[0, 1000]")
    """Weight of the centres behind the leader, beyond three."""
    balance_bonus_weight: float = option(0.2, "[0, 1000]")
    """Weight of the evenness of all powers' centres."""


ONLY_ADAPTERS = ("model.adapter", "model.lora_rank", "model.lora_targets")
"""Options of adapters; imitation trains all weights."""
NEEDS_OPPONENTS = tuple(
    f"grpo.{name}"
    for name in (
        "play", "rollout_horizon_years", "rollout_long_horizon_years", "rollout_long_horizon_chance",
        "rollout_warmup_phases", "rollout_warmup_player", "use_state_stratified_groups",
        "use_elo_conditioned_rewards", "use_strategic_step_scoring", "use_trajectory_level_rewards",
        "use_position_scoring", "win_bonus", "winner_threshold_sc", "reward_discount_gamma", "count_fork_year",
        "reward_discount_per", "step_reward_weight", "final_reward_weight", "leader_gap_penalty_weight",
        "balance_bonus_weight", "baseline",
    )
)  # fmt: skip
"""Options of games with opponents and several decisions."""


@dataclass
class OverfitConfig:
    """Check of GRPO's health: train on one batch, and judge the trend (docs/chess_training.md)."""

    enabled: bool = False
    """Every step plays the prompts of the first. The run ends with PASS, or with FAIL and exit code 1."""
    window: int = option(20, "[2, 100000]")
    """Length of the moving averages, in steps."""
    greedy: bool = option(True)
    """Measure the reward with greedy decoding; false samples, which is noisy."""
    label: str = option("", RUN)
    """Name of the settings, for the log and the plot."""
