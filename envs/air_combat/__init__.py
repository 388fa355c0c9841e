"""Air combat in three dimensions: two flight models, a gun, scripted pilots, and batches of matches in kernels.

`airframe/` has the data, `kernels/` the simulator, `benchmarks/air_combat/reference/` its models in float64 NumPy.
"""

from sparring.envs.air_combat.rules import BOTS, CHANGES, ENV_ID, HELD_OUT, VERSION
from sparring.envs.game import FOREIGN_POLICIES, Game

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
    response_options=("model", "gun", "ground_limit"),
    batch="sparring.envs.air_combat.batch:AirCombatBatch",
    env="sparring.envs.air_combat.gymnasium_env:AirCombatEnv",
    vector_env="sparring.envs.air_combat.gymnasium_env:AirCombatVectorEnv",
    parallel_env="sparring.envs.air_combat.parallel_env:AirCombatParallelEnv",
    version=VERSION,
    changes=CHANGES,
    contract_keys=("layout", "action_repeat"),
    foreign_policies=tuple(FOREIGN_POLICIES),
    runs="sparring.envs.air_combat.config:RUNS",
    ppo_task="sparring.envs.air_combat.training.task:AirCombatTask",
    open_player="sparring.envs.air_combat.training.opponents:open_player",
    policy_loader="sparring.envs.air_combat.training.opponents:load_observing_policy",
    evaluation="sparring.envs.air_combat.evaluation.command:EVALUATION",
    results=("air_combat", 1),
    comparable=("model", "gun", "action_repeat", "options", "deterministic"),
    payoff="sparring.envs.air_combat.evaluation.command:PAYOFF",
    play="sparring.envs.air_combat.browser.command:BROWSER",
)
