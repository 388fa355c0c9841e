"""Air combat in three dimensions: two flight models, a gun, scripted pilots, and batches of matches in kernels.

`airframe/` has the data, `kernels/` the simulator, `benchmarks/air_combat/reference/` its models in float64 NumPy.
"""

from sparring.envs.air_combat.rules import BOTS, ENV_ID, HELD_OUT, VERSION
from sparring.envs.game import Game

GAME = Game(
    order=4,
    name="air_combat",
    id=ENV_ID,
    title="air combat",
    seats=2,
    bots=tuple(BOTS),
    held_out=HELD_OUT,
    first_run="air_combat_quickstart",
    response_run="air_combat_response",
    response_options=("model", "gun"),
    batch="sparring.envs.air_combat.batch:AirCombatBatch",
    parallel_env="sparring.envs.air_combat.parallel_env:AirCombatParallelEnv",
    version=VERSION,
    contract_keys=("layout", "action_repeat"),
    runs="sparring.envs.air_combat.config:RUNS",
    ppo_task="sparring.agents.ppo.tasks.air_combat:AirCombatTask",
    open_player="sparring.agents.opponents.air_combat:open_player",
    policy_loader="sparring.agents.opponents.air_combat:load_observing_policy",
    evaluation="sparring.eval.air_combat.command:EVALUATION",
    results=("air_combat", 1),
    comparable=("model", "gun", "action_repeat", "options", "deterministic"),
    payoff="sparring.eval.air_combat.command:PAYOFF",
    play="sparring.eval.browser.air_combat.command:BROWSER",
)
