"""The `data` member of an SB3 zip, written without SB3: JSON with pickled values."""

import base64
import pickle

import numpy as np
from gymnasium.spaces import Box

POLICY_CLASS = "stable_baselines3.common.policies.ActorCriticPolicy"
RELU = "torch.nn.modules.activation.ReLU"


def by_name(path):
    """Return the pickle of a class or function, which need not be installed."""
    module, _, name = path.rpartition(".")
    return encoded(f"c{module}\n{name}\n.".encode())


def encoded(pickled):
    return {":type:": "", ":serialized:": base64.b64encode(pickled).decode()}


def options_with(**globals_by_key):
    """Return the pickle of a dictionary of classes by name."""
    items = "".join(
        f"S'{key}'\nc{path.rpartition('.')[0]}\n{path.rpartition('.')[2]}\ns" for key, path in globals_by_key.items()
    )
    return encoded(f"(d{items}.".encode())


def data_of(observed, acted, **changed):
    """Return the values read from a ReLU policy with these spaces (Box), or sizes without bounds."""
    spaces = (one if isinstance(one, Box) else Box(-np.inf, np.inf, (one,)) for one in (observed, acted))
    observation, action = (encoded(pickle.dumps(space)) for space in spaces)
    plain = {"policy_class": by_name(POLICY_CLASS), "policy_kwargs": options_with(activation_fn=RELU)}
    return plain | {"observation_space": observation, "action_space": action} | changed
