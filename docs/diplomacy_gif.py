"""Draw a game between Diplomacy bots as an animated GIF: `python docs/diplomacy_gif.py docs/images/diplomacy.gif`.

Plays one game of DumbBots, draws every movement phase with its orders, and stores the pictures with one palette.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS
from sparring.envs.diplomacy.drawing.render import gif_bytes
from sparring.envs.diplomacy.records.history import GameHistory
from sparring.envs.diplomacy.records.timeline import Phase, phase_title, phases_of


def play(bot: str, seed: int, last_year: int) -> list[Phase]:
    """Play one game with `bot` in all seven seats and return its phases."""
    batch = DiplomacyBatch(1, last_year=last_year, device="cpu")
    history = GameHistory(batch)
    batch.players[:] = BOTS.index(bot)
    turn = 0
    while not batch.done.all():
        batch.draw_orders(seed=seed * 10_000 + turn)
        history.process()
        turn += 1
    phases = phases_of(history.game(0))
    batch.close()
    return phases


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--bot", choices=BOTS, default="dumbbot")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--last-year", type=int, default=1910)
    options = parser.parse_args()
    phases = play(options.bot, options.seed, options.last_year)
    Path(options.out).write_bytes(gif_bytes(phases))
    print(f"{options.out}: {len(phases)} phases, the last is {phase_title(phases[-1]['name'])}")


if __name__ == "__main__":
    main()
