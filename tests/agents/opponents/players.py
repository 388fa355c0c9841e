"""Python opponents named in tests: one that dives without firing, one that plays a policy, invalid ones."""

import numpy as np
import torch

calls = []


class Diver:
    """Dive into the ground with the engine on and never fire: under challenge rules it always loses."""

    def act(self, obs):
        calls.append(obs)
        down = np.where(obs[:, 1] > 0, -1.0, 1.0)
        return np.stack([down, np.ones(len(obs)), -np.ones(len(obs))], axis=1)


def tensors(obs: torch.Tensor) -> torch.Tensor:
    """Act on tensors."""
    calls.append(obs)
    return torch.zeros(len(obs), 3)


def narrow(obs):
    return np.zeros((len(obs), 2))


def words(obs):
    return "up"


NUMBER = 7
