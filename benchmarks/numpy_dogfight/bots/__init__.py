"""The five scripted opponents over K matches at once, for both rule sets.

`decide.bot_actions` is what the batch calls; `fighter` holds what the four fighters share, and each fighter has a file
of its own. A bot is a function of what it sees (`Sight`) and of its memory; it returns turn, throttle and shot for all
K matches and changes the memory in place. Every mode's action is computed and `np.select` picks the right one. Nothing
is random. Where the two rule sets differ, `view.challenge` says which one holds.
"""

from benchmarks.numpy_dogfight.bots.brawler import BAIT, BRAWL, CLOSE, PUNISH, RETREAT
from benchmarks.numpy_dogfight.bots.decide import bot_actions
from benchmarks.numpy_dogfight.bots.dogfighter import ATTACK, DEFEND, DISENGAGE, ENERGY

__all__ = [
    "ATTACK",
    "BAIT",
    "BRAWL",
    "CLOSE",
    "DEFEND",
    "DISENGAGE",
    "ENERGY",
    "PUNISH",
    "RETREAT",
    "bot_actions",
]
