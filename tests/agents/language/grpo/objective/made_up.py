"""Batches with realistic numbers for the loss tests."""

import torch

from sparring.agents.language.grpo.objective.loss import LogProbs, Source, Tokens, Totals

LENGTH = 16


def tokens_of(logp, old, sample, advantage, *, entropy=None, kl=None, weight=None, old_source=Source.TRAINER):
    """Return tokens from plain lists or tensors; omitted values are zero."""
    logp = torch.as_tensor(logp)
    old = torch.as_tensor(old, dtype=logp.dtype)
    zeros = torch.zeros_like(logp).detach()
    return Tokens(
        logp=LogProbs(logp, Source.POLICY, "policy@1"),
        old=LogProbs(old, old_source, "policy@0"),
        sample=torch.as_tensor(sample, dtype=torch.int64),
        advantage=torch.as_tensor(advantage, dtype=logp.dtype),
        entropy=zeros if entropy is None else torch.as_tensor(entropy, dtype=logp.dtype),
        kl=zeros if kl is None else torch.as_tensor(kl, dtype=logp.dtype),
        weight=None if weight is None else torch.as_tensor(weight, dtype=logp.dtype),
    )


def random_tokens(lengths, *, seed=0, dtype=torch.float64, weighted=False):
    """Return samples of these lengths with ratios from about 0.4 to 2.5, with a leaf in `logp.values`."""
    generator = torch.Generator().manual_seed(seed)
    count = sum(lengths)
    draw = torch.rand(6, count, generator=generator, dtype=torch.float64).to(dtype)
    old = -3 * draw[0] - 0.1
    logp = (old + 1.8 * (draw[1] - 0.5)).requires_grad_()
    sample = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    advantage = torch.randn(len(lengths), generator=generator, dtype=torch.float64).to(dtype)
    weight = 0.5 + draw[4] if weighted else None
    return tokens_of(logp, old, sample, advantage, entropy=draw[2], kl=draw[3], weight=weight)


def totals_of(tokens, *, forced=0, length=LENGTH):
    """Return totals of a whole batch, with this many `forced` tokens in every sample."""
    counts = torch.bincount(tokens.sample, minlength=len(tokens.advantage))
    return Totals.of(counts, counts + forced, length=length)


def part_of(tokens, samples):
    """Return the micro-batch of some of the samples, renumbered."""
    index = torch.tensor(samples)
    kept = torch.isin(tokens.sample, index)
    part = tokens.select(kept)
    number = {old: new for new, old in enumerate(samples)}
    renumbered = torch.tensor([number[s] for s in part.sample.tolist()], dtype=torch.int64)
    return Tokens(part.logp, part.old, renumbered, tokens.advantage[index], part.entropy, part.kl, part.weight)
