"""Network family "256h/0b": separate actor and critic, `hidden` wide, with `blocks` pre-norm residual blocks.

Without blocks a trunk is two layers of ReLU (or tanh); with blocks it is one such layer and then, for each block,
x + Linear(ReLU(Linear(LayerNorm(x)))). An action has, in this order: C independent Gaussians, independent Bernoullis
with values 0.0 or 1.0, and the indices of independent choices, one of `categorical[i]` each. Gaussian actions are raw:
only the environment clamps them. Densities are written out, with gradients in closed form, because small batches are
bound by the number of operations. The actor's output has the Gaussians' means mu and the Bernoullis' logits l; s is log
sigma, [C], or [..., C] if it depends on the state. With z = (a - mu) / sigma and p = sigmoid(l),

    log pi = sum(-z^2 / 2 - s - log(2 pi) / 2) + sum(log sigmoid((2 a - 1) l))
    d log pi / d mu = z / sigma,   d log pi / ds = z^2 - 1,   d log pi / dl = a - p
    H = sum(s + log(2 pi e) / 2) + sum(softplus(l) - p l),   dH / ds = 1,   dH / dl = -l p (1 - p)

State-dependent exploration, gSDE (Raffin, Kober and Stulp 2021, arXiv:2005.05719), explores smoothly: its noise is a
linear function of the state, constant over several steps:

    a = mu(s) + phi(s) W,   W_ij ~ N(0, sigma_ij^2)   =>   a_j ~ N(mu_j(s), sum_i phi_i(s)^2 sigma_ij^2)

phi are the features before the actor's head, without gradient, and log sigma [L, C] is learned.
B and `...` stand for any batch, D for `obs_dim`, A for the columns of an action, L for the number of features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sparring.agents.distributed.processes import ShardedGenerator, draw
from sparring.agents.policies.networks import LATER, NetworkFamily, PolicyNetwork
from sparring.configs.schema import NetworkConfig

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": partial(nn.ReLU, inplace=True), "tanh": nn.Tanh}


MIXTURE = "mixture"
"""Weight of a network with styles: the probability of each [K]. Its inputs end with a column per style, 1 for the
match's."""


class BlankLinear(nn.Linear):
    """Linear layer with uninitialized weights; torch's own layer draws them from the global generator."""

    def reset_parameters(self) -> None:
        """Do nothing. `nn.utils.skip_init` would import SymPy, a quarter of a second."""


class Residual(nn.Module):
    """x + Linear(activation(Linear(LayerNorm(x)))), `hidden` wide throughout."""

    def __init__(self, hidden: int, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        first, second = linear(hidden, hidden, generator), linear(hidden, hidden, generator)
        self.branch = nn.Sequential(nn.LayerNorm(hidden), first, ACTIVATIONS[activation](), second)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] to the same shape."""
        return x + self.branch(x)


class ActorOutput(NamedTuple):
    """The actor's distributions for observations [B, D]."""

    output: Tensor
    """Means and logits [B, C + binary]."""
    log_std: Tensor
    """Log standard deviations, [C], or [B, C] if they depend on the state."""
    choices: list[Tensor]
    """Log-probabilities [B, categorical[i]] of every choice."""
    features: Tensor | None
    """Input of the actor's head [B, hidden], with gSDE."""


class ActorCritic(PolicyNetwork):
    """Policy pi(a | s) and value V(s) as two networks without shared weights.

    `categorical` is the number of alternatives of a choice, or a list for several choices; 0 for none. `seed` draws the
    initial weights without touching the global random state.
    """

    def __init__(
        self,
        obs_dim: int,
        continuous: int,
        binary: int,
        config: NetworkConfig,
        *,
        categorical: int | Sequence[int] = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.obs_dim, self.continuous, self.binary, self.config = obs_dim, continuous, binary, config
        self.features = obs_dim
        self.categorical = alternatives(categorical)
        generator = torch.Generator().manual_seed(seed)
        # Gain 0.01: the initial policy hardly depends on the state, so log_std_init sets its entropy everywhere.
        self.actor = mlp(
            self.inputs, continuous + binary + sum(self.categorical), config, head_gain=0.01, generator=generator
        )
        self.critic = mlp(self.inputs, 1, config, head_gain=1.0, generator=generator)
        shape = (config.hidden, continuous) if config.gsde else (continuous,)
        self.log_std = nn.Parameter(torch.full(shape, config.log_std_init))
        self.clamp_log_std()
        if config.styles:
            self.register_buffer(MIXTURE, torch.full((config.styles,), 1.0 / config.styles))

    @property
    def inputs(self) -> int:
        """See `PolicyNetwork`."""
        return self.obs_dim + self.config.styles

    @property
    def shape(self) -> dict[str, Any]:
        """See `PolicyNetwork`."""
        return network_shape(self.obs_dim, self.continuous, self.binary, self.config, categorical=self.categorical)

    @classmethod
    def from_shape(cls, shape: dict[str, Any], *, seed: int = 0) -> Self:
        """Build a network from `shape`, with initial weights drawn from `seed`."""
        options = dict(shape)
        obs_dim, continuous, binary = (options.pop(key) for key in ("obs_dim", "continuous", "binary"))
        kinds = {key: options.pop(key) for key in ("categorical", *SEAT_KEYS) if key in options}
        return cls(obs_dim, continuous, binary, NetworkConfig(**options), **kinds, seed=seed)

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        *,
        deterministic: bool = False,
        generator: torch.Generator | ShardedGenerator | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] and log-probabilities [B] for observations [B, D]; `generator` is on the same device.

        A deterministic action is the Gaussian's mean, the likelier side of the Bernoulli and the likeliest choice.
        `noise` are gSDE's matrices from `draw_noise`, one per observation; without them every step draws its own noise.
        """
        output, log_std, choices, features = self.answer(obs)
        noise_now = None if noise is None or features is None else held_noise(features, noise)
        actions = sample(output, log_std, deterministic=deterministic, generator=generator, held_noise=noise_now)
        log_prob = log_probability(output, log_std, actions)
        for choice in choices:
            chosen = choose(choice, deterministic=deterministic, generator=generator)
            actions, log_prob = torch.cat([actions, chosen], dim=-1), log_prob + choice_log_probability(choice, chosen)
        return actions, log_prob

    @torch.no_grad()
    def draw_noise(self, count: int, generator: torch.Generator | ShardedGenerator | None) -> Tensor:
        """Draw gSDE's matrices W [count, hidden, C] for that many environments."""
        shape = torch.Size((count, *self.log_std.shape))
        return draw(torch.randn, shape, generator, self.log_std.device) * self.log_std.exp()

    def value(self, obs: Any) -> Tensor:
        """See `PolicyNetwork`."""
        values: Tensor = self.critic(obs)
        return values.float().squeeze(-1)

    def evaluate(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor]:
        """See `PolicyNetwork`."""
        output, log_std, choices, _ = self.answer(obs)
        count = self.continuous + self.binary
        log_prob, spread = Density.apply(output, log_std, actions[..., :count])  # type: ignore[no-untyped-call]
        for column, choice in enumerate(choices, start=count):
            log_prob = log_prob + choice_log_probability(choice, actions[..., column : column + 1])
            spread = spread - (choice.exp() * choice).sum(-1)
        return log_prob, spread

    def answer(self, obs: Tensor) -> ActorOutput:
        """Return the actor's distributions for observations [B, D]."""
        features = None
        if self.config.gsde:
            *body, head = self.actor
            features = obs
            for layer in body:
                features = layer(features)
            output, log_std = head(features).float(), log_spread(features, self.log_std)
        else:
            output, log_std = self.actor(obs).float(), self.log_std
        if not self.categorical:
            return ActorOutput(output, log_std, [], features)
        rest, *logits = output.split([self.continuous + self.binary, *self.categorical], dim=-1)
        return ActorOutput(rest, log_std, [choice.log_softmax(-1) for choice in logits], features)

    @torch.no_grad()
    def reset_log_std(self, log_std: float) -> None:
        """Set every log standard deviation, within the configured bounds, to restart exploration."""
        self.log_std.fill_(log_std)
        self.clamp_log_std()

    @torch.no_grad()
    def clamp_log_std(self) -> None:
        """Project the log standard deviations back into their bounds; call it after every optimizer step."""
        self.log_std.clamp_(self.config.log_std_min, self.config.log_std_max)


def network_shape(
    obs_dim: int, continuous: int, binary: int, config: NetworkConfig, *, categorical: int | Sequence[int] = 0
) -> dict[str, Any]:
    """Return the `ActorCritic.shape` of a network with these sizes."""
    sizes: dict[str, Any] = {"obs_dim": obs_dim, "continuous": continuous, "binary": binary}
    choices = list(alternatives(categorical))
    if choices:  # a single choice is stored as a number, as before there were several
        sizes["categorical"] = choices if len(choices) > 1 else choices[0]
    return sizes | shape_options(config)


def shape_for_sizes(contract: Mapping[str, Any], config: NetworkConfig) -> dict[str, Any]:
    """Return the `ActorCritic.shape` for a contract."""
    obs_dim, continuous, binary = (contract[key] for key in ("obs_dim", "continuous", "binary"))
    return network_shape(obs_dim, continuous, binary, config, categorical=contract.get("categorical", 0))


def shape_options(config: NetworkConfig) -> dict[str, Any]:
    """Return the options of a network as part of its shape; the later ones only if they are not off."""
    return {key: value for key, value in asdict(config).items() if key not in LATER or value != LATER[key]}


SEAT_KEYS = ("masked", "roles", "picture")
"""Keys of a shape that `ActorCritic` lacks; all seat networks have `masked`, the others where not 1 or empty."""


def alternatives(categorical: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of alternatives of every choice, as a contract's `categorical` states it."""
    return ((categorical,) if categorical else ()) if isinstance(categorical, int) else tuple(categorical)


def weight_sizes(shape: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a network of that `shape`, without building it."""
    outputs = shape["continuous"] + shape["binary"] + sum(alternatives(shape.get("categorical", 0)))
    hidden, blocks = shape["hidden"], shape["blocks"]
    yield "log_std", (*([hidden] if shape.get("gsde") else []), shape["continuous"])
    styles = shape.get("styles", 0)
    for trunk, last in (("actor", outputs), ("critic", 1)):
        yield from (
            (f"{trunk}.{name}", size)
            for name, size in mlp_weight_sizes(shape["obs_dim"] + styles, last, hidden, blocks)
        )
    if styles:
        yield MIXTURE, (styles,)


PLAIN = NetworkFamily("plain", ActorCritic.from_shape, shape_for_sizes, weight_sizes, ("categorical", "styles"))


def mlp_weight_sizes(inputs: int, outputs: int, hidden: int, blocks: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of an `mlp`, without building it; the head's are the last two."""
    yield from _layer("0", inputs, hidden)
    if not blocks:
        yield from _layer("2", hidden, hidden)
    for number in range(blocks):
        branch = f"{2 + number}.branch"
        yield from ((f"{branch}.0.{part}", (hidden,)) for part in ("weight", "bias"))  # the norm
        yield from _layer(f"{branch}.1", hidden, hidden)
        yield from _layer(f"{branch}.3", hidden, hidden)
    yield from _layer(str(2 + blocks if blocks else 4), hidden, outputs)


def _layer(name: str, inputs: int, outputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def mlp(
    inputs: int, outputs: int, config: NetworkConfig, *, head_gain: float, generator: torch.Generator
) -> nn.Sequential:
    """Build one trunk of the family with a linear head: [..., inputs] to [..., outputs]."""
    hidden, activation = config.hidden, ACTIVATIONS[config.activation]
    layers: list[nn.Module] = [linear(inputs, hidden, generator), activation()]
    if config.blocks == 0:
        layers += [linear(hidden, hidden, generator), activation()]
    layers += [Residual(hidden, config.activation, generator) for _ in range(config.blocks)]
    return nn.Sequential(*layers, linear(hidden, outputs, generator, gain=head_gain))


def linear(inputs: int, outputs: int, generator: torch.Generator, *, gain: float = math.sqrt(2.0)) -> nn.Linear:
    """Make a linear layer with orthogonal weights of that gain and zero bias."""
    layer = BlankLinear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def sample(
    output: Tensor,
    log_std: Tensor,
    *,
    deterministic: bool,
    generator: torch.Generator | ShardedGenerator | None,
    held_noise: Tensor | None = None,
) -> Tensor:
    """Draw actions [..., A] from the actor's output [..., A] (means, then logits) and log_std, [C] or [..., C].

    `held_noise` [..., C] is noise that was drawn before, in the actions' units.
    """
    mean, logit = split(output, log_std)
    if deterministic:
        return torch.cat([mean, (logit > 0).float()], dim=-1)  # p > 1/2
    # Both draws happen in every sampled action, so the sequence of random numbers does not depend on the action.
    noise = draw(torch.randn, mean.shape, generator, output.device) if held_noise is None else held_noise
    coin = draw(torch.rand, logit.shape, generator, output.device)
    moved = torch.addcmul(mean, noise, log_std.exp()) if held_noise is None else mean + held_noise
    return torch.cat([moved, (coin < logit.sigmoid()).float()], dim=-1)


def choose(log_probs: Tensor, *, deterministic: bool, generator: torch.Generator | ShardedGenerator | None) -> Tensor:
    """Draw a choice [B, 1], an index as a float, from log-probabilities [B, K].

    The argmax after adding Gumbel noise, -log(-log u), is a sample of the categorical distribution.
    """
    if deterministic:
        return log_probs.argmax(-1, keepdim=True).float()
    uniform = draw(torch.rand, log_probs.shape, generator, log_probs.device)
    # 1e-20 keeps both logarithms finite where u rounds to 0 or 1.
    gumbel = -(-uniform.clamp_min(1e-20).log()).clamp_min(1e-20).log()
    return (log_probs + gumbel).argmax(-1, keepdim=True).float()


def choice_log_probability(log_probs: Tensor, chosen: Tensor) -> Tensor:
    """Return the log-probability [B] of the index `chosen` [B, 1] under log-probabilities [B, K]."""
    return log_probs.gather(-1, chosen.long()).squeeze(-1)


HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Density(torch.autograd.Function):
    """`Density.apply(output, log_std, actions)`: log pi(a | s) and the entropy of pi(. | s), [...] each."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both, and keep z, 1 / sigma, and of the Bernoullis l, p and a - p."""
        (mean, logit), (chosen, taken) = split(output, log_std), split(actions, log_std)
        inverse = (-log_std).exp()
        z = (chosen - mean) * inverse
        log_prob = gaussian_log_probability(z, log_std)
        spread = (log_std + (0.5 + HALF_LOG_TWO_PI)).sum(-1)
        saved = [log_std, z, inverse]
        if logit.shape[-1]:
            logit = logit.contiguous()  # softplus of a strided view takes four times as long
            p = logit.sigmoid()
            log_prob = log_prob + bernoulli_log_probability(logit, taken)
            spread = spread + (F.softplus(logit) - p * logit).sum(-1)  # -p log p - (1 - p) log(1 - p)
            saved += [logit, p, taken - p]
        ctx.save_for_backward(*saved)
        return log_prob, spread.expand_as(log_prob)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_log_prob: Tensor, by_entropy: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of output and log_std from the gradients of both results [...]."""
        log_std, z, inverse, *bernoulli = ctx.saved_tensors
        by_log_prob, by_entropy = by_log_prob.unsqueeze(-1), by_entropy.unsqueeze(-1)
        weighted = by_log_prob * z
        by_output = weighted * inverse
        if bernoulli:
            logit, p, error = bernoulli
            by_logit = by_log_prob * error - by_entropy * (logit * p * (1.0 - p))
            by_output = torch.cat([by_output, by_logit], dim=-1)
        by_log_std = torch.addcmul(by_entropy - by_log_prob, weighted, z)
        return by_output, by_log_std.sum_to_size(log_std.shape), None


def log_probability(output: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """Return log pi(a | s), [...], of actions [..., A] under the actor's output [..., A]."""
    (mean, logit), (chosen, taken) = split(output, log_std), split(actions, log_std)
    log_prob = gaussian_log_probability((chosen - mean) * (-log_std).exp(), log_std)
    return log_prob + bernoulli_log_probability(logit, taken) if logit.shape[-1] else log_prob


def gaussian_log_probability(z: Tensor, log_std: Tensor) -> Tensor:
    """Return log N(a; mu, sigma), [...], from z = (a - mu) / sigma [..., C]."""
    return -0.5 * z.square().sum(-1) - (log_std + HALF_LOG_TWO_PI).sum(-1)


def bernoulli_log_probability(logit: Tensor, taken: Tensor) -> Tensor:
    """Return log p or log(1 - p) of values 0.0 or 1.0, summed over the last dimension."""
    return F.logsigmoid((2.0 * taken - 1.0) * logit).sum(-1)


def split(actions: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns of the Gaussians and of the Bernoullis."""
    continuous = log_std.shape[-1]
    return actions[..., :continuous], actions[..., continuous:]


SMALLEST_VARIANCE = 1e-6
"""Added to the variance, which is 0 where all features are."""


def log_spread(features: Tensor, log_std: Tensor) -> Tensor:
    """Return the actions' log standard deviations [..., C] from features [..., L] and log sigma [..., L, C]."""
    with torch.autocast(features.device.type, enabled=False):
        variance = features.detach().float().square() @ (2.0 * log_std).exp()
        return 0.5 * (variance + SMALLEST_VARIANCE).log()


def held_noise(features: Tensor, matrices: Tensor) -> Tensor:
    """Return phi(s) W [B, C] of features [B, L] and one matrix each [B, L, C]."""
    with torch.autocast(features.device.type, enabled=False):
        return torch.bmm(features.float().unsqueeze(1), matrices).squeeze(1)
