"""A GRPO configuration with rollouts of a second, and a toy model to play it."""

from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.grpo.learner import GRPOLearner
from sparring.agents.language.grpo.matchmaking import Opponents
from sparring.agents.language.grpo.rollouts.rollout import Rollouts, draw_plan
from sparring.agents.language.models.adapters import BASE, Adapters, LoraShape, base_identity
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.curriculum.league.league import new_league
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask
from tests.agents.language.toys import llama, word_tokenizer
from tests.configs.run_configs import configured

SMALL = [
    "+run=diplomacy_exp1_quick", "grpo.groups=2", "grpo.samples_per_group=2", "grpo.rollout_horizon_years=1",
    "grpo.rollout_long_horizon_years=1", "grpo.rollout_warmup_phases=2", "grpo.steps=3", "threads=1",
    "grpo.buffer_depth=0", "logger.progress=false", "env.last_year=1910", "grpo.count_fork_year=false",
    "grpo.reward_discount_per=phase", "grpo.use_token_level_loss=false", "grpo.entropy_coef=0",
    "grpo.rollout_warmup_player=dumbbot", "league.checkpoint_schedule=even", "league.starting_ratings=measured",
    "league.bots=default", "league.matchmaking=category", "league.rating_width=150",
]  # fmt: skip


def small_config(*options: str):
    return configured(SMALL, *options)


def bots_everywhere(rng):
    return Opponents(("chaos", "random", "dumbbot", "random", "chaos", "random"), ("baseline",) * 6)


def plan_of(config, *, step=0, version=0):
    league = new_league(("random", "chaos", "dumbbot"), "toy")
    draw = {"draw": bots_everywhere, "league": league}
    return draw_plan(config.grpo, seats=7, step=step, policy_version=version, seed=config.seed, **draw)


def toy_backend(*, seed=0, temperature=0.8):
    tokenizer = word_tokenizer()
    return TransformersBackend(
        llama(tokenizer, seed=seed),
        tokenizer,
        constraint=Constraint(tokenizer, DIPLOMACY_TEXT),
        temperature=temperature,
    )


def toy_rollouts(config, backend=None):
    backend = backend or toy_backend()
    return Rollouts(DiplomacyTextTask(config), lambda name: backend)


def toy_learner(*options: str):
    config = small_config("grpo.learning_rate=1e-2", *options)
    adapters = Adapters(llama(word_tokenizer()), LoraShape.of(config.model), seed=3)
    return GRPOLearner(
        adapters.model,
        adapters.parameters(),
        config,
        base=base_identity(adapters.model),
        without_adapters=lambda: adapters.playing(BASE),
        seed=5,
    )
