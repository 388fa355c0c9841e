"""Two fighters, guns and gravity: the rules as data, the simulator as kernels, and its interfaces.

`batch.py` is the native batch that trainers use; `interfaces/` has the Gymnasium and PettingZoo environments.
Importing this package reads only the rules and does not load the simulator.
"""

from sparring.envs.dogfight.rules import BOTS, ENV_ID, HELD_OUT, HELD_OUT_SCRIPTS, VERSION
from sparring.envs.game import FOREIGN_POLICIES, BuiltPlayer, Game

GAME = Game(
    order=1,
    name="dogfight",
    id=ENV_ID,
    title="the dogfight",
    seats=2,
    bots=tuple(BOTS),
    held_out=HELD_OUT_SCRIPTS,
    held_out_set=HELD_OUT,
    first_run="quickstart",
    response_run="best_response",
    batch="sparring.envs.dogfight.batch:DogfightBatch",
    env="sparring.envs.dogfight.interfaces.gymnasium_env:DogfightEnv",
    vector_env="sparring.envs.dogfight.interfaces.vector_env:DogfightVectorEnv",
    parallel_env="sparring.envs.dogfight.interfaces.parallel_env:DogfightParallelEnv",
    version=VERSION,
    physics="sparring.envs.dogfight.rules:ranges_between",
    action_space="sparring.envs.dogfight.interfaces.spaces:action_space",
    mirror="sparring.envs.dogfight.batch:Mirror",
    array_mirror="sparring.envs.dogfight.rules:ArrayMirror",
    contract_keys=("rules", "observe_physics", "action_repeat", "mirror"),
    export="sparring.envs.dogfight.evaluation.onnx_export:export",
    foreign_policies=tuple(FOREIGN_POLICIES),
    runs="sparring.envs.dogfight.config:RUNS",
    ppo_task="sparring.envs.dogfight.training.task:DogfightTask",
    open_player="sparring.envs.dogfight.training.opponents.load:open_player",
    built_players=tuple(
        BuiltPlayer(kind, (key,), "sparring.envs.dogfight.rules:read_practice")
        for kind, key in (("perch", "nose"), ("zoom", "height"))
    ),
    policy_loader="sparring.envs.dogfight.training.opponents.load:load_observing_policy",
    evaluation="sparring.envs.dogfight.evaluation.command:EVALUATION",
    speeds="sparring.envs.dogfight.evaluation.speed:SPEEDS",
    results=("evaluation", 1),
    comparable=("rules", "bot_rate", "action_repeat", "deterministic"),
    exploit="sparring.envs.dogfight.evaluation.responses:RESPONSES",
    payoff="sparring.envs.dogfight.evaluation.command:PAYOFF",
    play="sparring.envs.dogfight.browser.command:BROWSER",
)
