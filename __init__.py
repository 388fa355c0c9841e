"""Sparring: adversarial games and the trainers that go with them.

Importing it registers the games with Gymnasium and nothing more; the simulator (Warp, torch) loads with the first
environment. The rooms are the packages `sparring.envs`, `sparring.agents`, `sparring.curriculum`, `sparring.configs`
and `sparring.eval`, which lie as folders of these names beside this file.
"""

import sparring.envs  # noqa: F401 - registers the games
from sparring.configs.opponents import register_opponent as register_opponent
