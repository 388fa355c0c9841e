"""A known mistake for contrast: decisions sampled under a mask, scored over the whole vocabulary."""

import torch

from sparring.agents.language.decoding.forward import all_logits
from sparring.agents.language.decoding.scoring import Scores, _hidden


def unmasked_score(model, batch):
    """Score as `scoring.score` does, but without the mask."""
    logps = torch.log_softmax(all_logits(model, _hidden(model, batch)) / batch.temperature[:, None], dim=-1)
    allowed = logps[batch.row, batch.allowed]
    return Scores(allowed[batch.chosen], -(logps.exp() * logps).sum(-1), allowed, batch.row, batch.sample)
