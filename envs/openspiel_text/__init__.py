"""OpenSpiel games as text for language models: prompts, menus of legal actions, exact policies.

Importing this package needs neither pyspiel nor torch.
"""

from sparring.envs.game import Game, TextMatchPlace

ENV_ID = "sparring/OpenSpielText-v0"
"""Common id; `env.id` of a run names the game, such as kuhn_poker."""
NAME = "openspiel_text"
"""The game in commands, and `env.package` of its runs."""

GAME = Game(
    order=5,
    name=NAME,
    id=ENV_ID,
    title="OpenSpiel games as text",
    seats=2,
    bots=("random",),
    first_run="openspiel_text_grpo",
    runs="sparring.envs.openspiel_text.config:RUNS",
    open_player="sparring.envs.openspiel_text.evaluation.models:open_player",
    evaluation="sparring.envs.openspiel_text.evaluation.command:EVALUATION",
    results=(NAME, 1),
    comparable=("game", "answer", "temperature"),
    aliases=(("kuhn_text", "kuhn_poker"), ("leduc_text", "leduc_poker")),
    needs=("sparring.configs.language",),
    text_game="sparring.envs.openspiel_text.task:OPENSPIEL",
    text_matches=(
        TextMatchPlace(
            NAME,
            "sparring.envs.openspiel_text.text_match:OpenSpielMatch",
            seat_option="seat",
            private=True,
            compact=(("answers", "menu"),),
        ),
        TextMatchPlace(
            "openspiel_exploitability", "sparring.envs.openspiel_text.text_match:ExploitabilitySurvey", private=True
        ),
    ),
)
