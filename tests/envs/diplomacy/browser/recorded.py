"""Phases played by the kernels, for the page's script to reproduce."""

import torch

from sparring.agents.policies.policy import Policy
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.observation import observe

RANDOM, DUMBBOT = codes.BOTS.index("random"), codes.BOTS.index("dumbbot")
LAST_YEAR, SEED = 1910, 7


def record(count, *, games=24):
    """Return `count` phases of DumbBot and random games: before, legal orders, orders, after."""
    batch = DiplomacyBatch(games, last_year=LAST_YEAR, threads=1)
    random = torch.rand(games, codes.NUM_POWERS, generator=torch.Generator().manual_seed(3)) < 0.4
    batch.players.copy_(torch.where(random, RANDOM, DUMBBOT))
    rows = []
    turn = 0
    while len(rows) < count:
        turn += 1
        batch.draw_orders(SEED + turn)
        running = [game for game in range(games) if not batch.done[game]]
        if not running:
            batch.reset()
            continue
        before = [position(batch, game) | {"game_id": int(batch.game_id[game])} for game in range(games)]
        legal = {game: batch.legal_orders(game) for game in running}
        batch.process()
        for game in running:
            listed = {str(place): orders.tolist() for place, orders in legal[game].items()}
            after = position(batch, game) | {"results": batch.results[game].tolist()}
            rows.append({"seed": SEED + turn, "before": before[game], "legal": listed, "after": after})
    batch.close()
    return rows[:count]


def position(batch, game):
    return {name: getattr(batch, name)[game].tolist() for name in (*STATE, "orders", "players")}


def network_rows(rows, path):
    """Return observations in movement phases with the network's choices and log-probabilities."""
    policy = Policy.load(path)
    moving = [row for row in rows if row["before"]["phase"] in (codes.SPRING, codes.FALL)]
    made = []
    for number, row in enumerate(moving):
        power = number % codes.NUM_POWERS
        kinds = {"units": torch.uint8, "dislodged": torch.uint8, "origin": torch.uint8, "owner": torch.int8}
        kinds |= {"year": torch.int16, "phase": torch.int8, "winner": torch.int8, "done": torch.uint8}
        state = {name: torch.tensor([row["before"][name]], dtype=kinds[name]) for name in STATE}
        seen = observe(state, torch.tensor([power]), last_year=LAST_YEAR)
        obs = seen.flatten(1)
        chosen, _ = policy.network.act(obs, deterministic=True)
        log, present = policy.network.log_probs(obs, chosen.long())
        used = int(present.sum())
        made.append({
            "before": row["before"], "power": power, "seen": seen[0].sum(1).tolist(),
            "choices": chosen[0, :used].int().tolist(), "log": log[0, :used].clamp_min(-100).tolist(),
        })  # fmt: skip
    return made
