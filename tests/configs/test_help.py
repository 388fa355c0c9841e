"""Help of a section: each option with its default, what it may be, and what it means."""

import pytest

from sparring.configs.core.errors import UnknownNameError
from sparring.configs.help import meaning, section_help
from sparring.configs.kinds import declared
from sparring.configs.schema import RUNS

SELF_EVIDENT = {
    *("seed", "network.activation", "network.log_std_min", "network.log_std_max", "ppo.learning_rate"),
    *("ppo.value_coefficient", "ppo.entropy_coefficient", "phases.name", "logger.wandb_project", "model.temperature"),
    *("phases.stages.at", "phases.stages.weights"),
    *(f"phases.randomization.{name}" for name in ("at", "level", "steps")),
    *("phases.events.at", "grpo.steps", "grpo.learning_rate", "grpo.max_grad_norm", "grpo.ppo_epsilon_low"),
    *("grpo.ppo_epsilon_high", "clone.layers", "clone.heads", "clone.games_per_update", "clone.updates"),
    *("clone.learning_rate", "league.self_play", "league.peer", "league.exploitable"),
    *("league.final_self_play", "league.final_peer", "league.final_exploitable"),
}
"""Options said by their name, or by the docstring of their section or of the option after them."""


def test_each_option_has_a_meaning_or_needs_none():
    keys = {key for kind in RUNS for key in declared(kind)}
    assert {key for key in keys if not meaning(key)} <= SELF_EVIDENT <= keys


def test_a_section_has_the_docstrings_of_the_schema():
    text = section_help("self_play")
    assert "  self_play.slots=4" in text
    assert "\n      Different snapshots in one rollout.\n" in text
    assert "ppo.clip" not in text


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("grpo", "  grpo.kl_target=0.0"),
        (
            "general",
            "      Continue the run of this name, with its own configuration; an existing `name` is continued too.",
        ),
        ("phases.0.stages", "  phases.0.stages.0.bots=[]"),
        ("ppo.clip", "  ppo.clip=0.2"),
        ("env", "      A game of Diplomacy ends with it."),
        ("grpo.ema_tau", "      Weight of the old average in each step. Needs grpo.use_ema_reference=true."),
    ],
)
def test_sections_lists_single_options_and_what_an_option_needs(section, line):
    assert any(one.startswith(line) for one in section_help(section).splitlines())


def test_an_unknown_section_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown section 'selfplay': did you mean 'self_play'\?"):
        section_help("selfplay")
