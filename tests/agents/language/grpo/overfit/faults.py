"""Faults planted in the trainer, one at a time, for the overfit check to catch.

At the size of a real run, with the options of `train.py` and a name in `FAULTS`:

    python -m tests.agents.language.grpo.overfit.faults dropout +run=rookworld_overfit_r4 grpo.steps=30
"""

import sys
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import numpy as np
import torch

from sparring.agents.language.decoding import sampling, scoring
from sparring.agents.language.grpo.objective.kl import Reference
from sparring.agents.language.grpo.objective.loss import LogProbs, Source
from sparring.agents.language.grpo.rollouts.rollout import Rollouts

END = 2
"""Id of the end of text in our own tokenizers."""


@contextmanager
def shuffled_rewards():
    """Give every answer the reward of another."""
    play, rng = Rollouts.play, np.random.default_rng(0)

    def shuffled(self, plan):
        batch = play(self, plan)
        if plan.samples > 1:
            batch.rewards = rng.permutation(batch.rewards)
        return batch

    with patch.object(Rollouts, "play", shuffled):
        yield


@contextmanager
def moving_reference():
    """Score the reference with the policy's weights."""

    def moving(self, scorer):
        return LogProbs(scorer().detach(), Source.REFERENCE, self.weights)

    with patch.object(Reference, "score", moving):
        yield


@contextmanager
def untrained_end():
    """Force the end of text instead of drawing it."""
    append = sampling._append

    def untrained(text, token, logprob, allowed):
        append(text, token, 0.0 if token == END else logprob, 1 if token == END else allowed)

    with patch.object(sampling, "_append", untrained):
        yield


@contextmanager
def dropped_mask():
    """Let the trainer read the padding on the left as text."""
    whole = scoring.Context._tensor

    def unmasked(self, values):
        return whole(self, np.ones_like(values) if values.dtype == bool else values)

    with patch.object(scoring, "Context", type("Unmasked", (scoring.Context,), {"_tensor": unmasked})):
        yield


@contextmanager
def dropout():
    """Drop a tenth of the hidden state in the trainer only."""
    whole = scoring._hidden

    def dropped(model, batch):
        return torch.nn.functional.dropout(whole(model, batch), 0.1, training=True)

    with (
        patch.object(scoring, "without_dropout", lambda model: nullcontext()),
        patch.object(scoring, "_hidden", dropped),
    ):
        yield


FAULTS = {
    "none": nullcontext,
    "shuffled": shuffled_rewards,
    "reference": moving_reference,
    "end": untrained_end,
    "mask": dropped_mask,
    "dropout": dropout,
}

if __name__ == "__main__":
    from sparring.agents.trainers import train
    from sparring.configs.load import load

    with FAULTS[sys.argv[1]]():
        train(load(sys.argv[2:]))
