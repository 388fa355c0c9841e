"""The games. Importing this package registers their gymnasium ids and nothing more.

Entry points are strings, so the simulator (Warp, torch) loads with the first environment, not with the import:
`import envs; gymnasium.make("sparring/Dogfight-v0")`, or `gymnasium.make("envs:sparring/Dogfight-v0")` in one go. No
step limit is registered: a match ends by its own clock, whose length in steps depends on `action_repeat`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register

from envs.dogfight.rules import ENV_ID

register(
    id=ENV_ID,
    entry_point="envs.dogfight.env:DogfightEnv",
    vector_entry_point="envs.dogfight.vector:DogfightVectorEnv",
)
