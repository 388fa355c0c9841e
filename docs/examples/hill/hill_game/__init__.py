"""King of the hill: two pucks on a line, and the one nearer to the middle gets a point in every tick.

The record needs neither torch nor Warp. Everything heavy is named as "module:name" and loads on first use.
"""

from pathlib import Path

from sparring.envs.game import Game

ENV_ID, VERSION = "hill_game/Hill-v0", 1
BOTS = ("idle", "climber")

GAME = Game(
    name="hill",
    id=ENV_ID,
    title="king of the hill",
    seats=2,
    bots=BOTS,
    first_run=str(Path(__file__).with_name("hill.yaml")),
    batch="hill_game.batch:HillBatch",
    runs="hill_game.config:RUNS",
    ppo_task="hill_game.play:HillTask",
    open_player="hill_game.play:open_player",
    evaluation="hill_game.play:EVALUATION",
    version=VERSION,
)
