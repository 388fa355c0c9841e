"""Seven powers on the map of Europe: board, adjudicator, orders, bots, rewards, prompts, records and drawings.

Importing this package reads only names and numbers and does not load the simulator.
"""

from sparring.envs.diplomacy.board.codes import BOTS, ENV_ID, NUM_POWERS, SEED_BOTS
from sparring.envs.game import BuiltPlayer, Game, TextMatchPlace

SEARCH_KEYS = ("proposals", "opponents", "form", "positions", "seconds", "seed", "near")
GAME = Game(
    order=2,
    name="diplomacy",
    id=ENV_ID,
    title="Diplomacy",
    seats=NUM_POWERS,
    bots=BOTS,
    variants=SEED_BOTS,
    first_run="diplomacy_ppo",
    response_run="diplomacy_response",
    exploit="sparring.envs.diplomacy.evaluation.responses:RESPONSES",
    attackers=("search",),
    batch="sparring.envs.diplomacy.batch:DiplomacyBatch",
    parallel_env="sparring.envs.diplomacy.interfaces.parallel_env:DiplomacyParallelEnv",
    win="most centres",
    network="sparring.envs.diplomacy.training.order_network:ORDERS",
    foreign_policies=(".onnx",),
    export="sparring.envs.diplomacy.evaluation.order_export:export_orders",
    runs="sparring.envs.diplomacy.config:RUNS",
    ppo_task="sparring.envs.diplomacy.training.task:DiplomacyTask",
    action_space="sparring.envs.diplomacy.interfaces.slots:choice_space",
    policy_loader="sparring.envs.diplomacy.training.opponents:load_observing_policy",
    evaluation="sparring.envs.diplomacy.evaluation.command:EVALUATION",
    speeds="sparring.envs.diplomacy.evaluation.speed:SPEEDS",
    results=("diplomacy", 2),
    comparable=("last_year", "deterministic"),
    payoff="sparring.envs.diplomacy.evaluation.payoff:PAYOFF",
    play="sparring.envs.diplomacy.browser.command:BROWSER",
    open_player="sparring.envs.diplomacy.training.opponents:open_player",
    built_players=(
        BuiltPlayer(
            "search",
            SEARCH_KEYS,
            "sparring.envs.diplomacy.search.settings:read_settings",
        ),
        BuiltPlayer("released/diplomacy_search", (), "sparring.envs.diplomacy.search.settings:read_settings"),
        BuiltPlayer(
            "exploit",
            SEARCH_KEYS,
            "sparring.envs.diplomacy.search.settings:read_target",
        ),
    ),
    needs=("sparring.configs.language",),
    text_game="sparring.envs.diplomacy.rollouts.task:DIPLOMACY",
    text_matches=(
        TextMatchPlace(
            "diplomacy",
            "sparring.envs.diplomacy.interfaces.text_match:DiplomacyMatch",
            seat_option="power",
            compact=(("full_prompts", False),),
        ),
    ),
)
