"""Games. Importing this package registers their Gymnasium ids and has no other effect.

Entry points are strings, so the simulator (Warp, torch) loads with the first environment, not with the import:
`import sparring; gymnasium.make("sparring/Dogfight-v1")`, or `gymnasium.make("sparring:sparring/Dogfight-v1")`. No step
limit is registered: a match ends by its own clock, and its length in steps depends on `action_repeat`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register

from sparring.envs.game import games

PARALLEL = {game.id: game.parallel_env for game in games() if game.parallel_env}
"""PettingZoo parallel environments by id; PettingZoo itself has no registry."""
AEC = {game.id: game.aec_env for game in games() if game.aec_env}
"""PettingZoo environments of games played in turn, by id."""

for _game in games():
    if _game.env:
        register(id=_game.id, entry_point=_game.env, vector_entry_point=_game.vector_env)
    for _id, _entry_point in _game.text_envs:
        register(id=_id, entry_point=_entry_point)
