"""The GRPO objective in plain Python loops, written from the papers' formulas."""

import math
from dataclasses import dataclass, field


@dataclass
class PlainSample:
    """One completion: lists over its decision tokens."""

    logp: list
    old: list
    advantage: float
    entropy: list
    kl: list
    weight: list = field(default_factory=list)


def _clip(x, low, high):
    return low if x < low else high if x > high else x


def _sequence_ratio(sample):
    """The geometric mean of the token ratios, as a product and a root."""
    product = math.prod(math.exp(new) / math.exp(old) for new, old in zip(sample.logp, sample.old, strict=True))
    return product ** (1 / len(sample.logp))


def _sample_sum(sample, *, gspo, low, high, beta, entropy_coef):
    """The sum of the token losses of one sample; `low` None does not clip."""
    total = 0.0
    for t in range(len(sample.logp)):
        ratio = _sequence_ratio(sample) if gspo else math.exp(sample.logp[t]) / math.exp(sample.old[t])
        objective = ratio * sample.advantage
        if low is not None:
            objective = min(objective, _clip(ratio, 1 - low, 1 + high) * sample.advantage)
        weight = sample.weight[t] if sample.weight else 1.0
        total += -weight * objective + beta * sample.kl[t] - entropy_coef * sample.entropy[t]
    return total


def plain_loss(samples, aggregation, *, length, **options):
    """`aggregation`: grpo, dapo or dr_grpo."""
    sums = [_sample_sum(sample, **options) for sample in samples]
    lengths = [len(sample.logp) for sample in samples]
    if aggregation == "grpo":
        return sum(total / tokens for total, tokens in zip(sums, lengths, strict=True)) / len(samples)
    if aggregation == "dapo":
        return sum(sums) / sum(lengths)
    if aggregation == "dr_grpo":
        return sum(sums) / (len(samples) * length)
    raise AssertionError(aggregation)


def plain_gradient(samples, aggregation, *, step=1e-6, **options):
    """Return the derivative of the loss by each `logp`, in order, from central differences."""
    gradient = []
    for sample in samples:
        for t, here in enumerate(sample.logp):
            sides = []
            for side in (step, -step):
                sample.logp[t] = here + side
                sides.append(plain_loss(samples, aggregation, **options))
            sample.logp[t] = here
            gradient.append((sides[0] - sides[1]) / (2 * step))
    return gradient


def plain_kl(policy, reference):
    """KL(policy || reference) of two lists of probabilities."""
    return sum(p * (math.log(p) - math.log(q)) for p, q in zip(policy, reference, strict=True))
