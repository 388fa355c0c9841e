"""The games. Importing this package registers their gymnasium ids and nothing more.

Entry points are strings, so the simulator (Warp, torch) loads with the first environment, not with the import:
`import sparring; gymnasium.make("sparring/Dogfight-v1")`, or `gymnasium.make("sparring:sparring/Dogfight-v1")` in one
go. No step limit is registered: a match ends by its own clock, whose length in steps depends on `action_repeat`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register

# Under names that are no package's: a name bound here would hide the package envs.diplomacy or envs.dogfight.
from sparring.envs.diplomacy.board.codes import ENV_ID as DIPLOMACY
from sparring.envs.dogfight.rules import ENV_ID as DOGFIGHT

PARALLEL = {
    DOGFIGHT: "sparring.envs.dogfight.interfaces.parallel_env:DogfightParallelEnv",
    DIPLOMACY: "sparring.envs.diplomacy.interfaces.parallel_env:DiplomacyParallelEnv",
}
"""Games with all seats open, as PettingZoo's parallel environments; PettingZoo keeps no list of its own."""

register(
    id=DOGFIGHT,
    entry_point="sparring.envs.dogfight.interfaces.gymnasium_env:DogfightEnv",
    vector_entry_point="sparring.envs.dogfight.interfaces.vector_env:DogfightVectorEnv",
)
