"""Network family "256h/0b": separate actor and critic, `hidden` wide, with `blocks` pre-norm residual blocks.

Without blocks a trunk is two layers of ReLU (or tanh); with blocks it is one such layer and then, for each block,
x + Linear(ReLU(Linear(LayerNorm(x)))). An action has, in this order: independent Gaussians with state-independent log
standard deviations (`gsde`: state-dependent ones), independent Bernoullis with values 0.0 or 1.0, and the indices of
independent choices, one of `categorical[i]` each. Gaussian actions are raw: only the environment clamps them. Densities
are written out (`distributions.py`), because acting on small batches is bound by the number of operations.

Many frozen actors act in one forward, opponent k on row k of the observations: the weights of the K slots are stacked,
so a linear layer of all slots is one batched product, x_k W_k^T + b_k, without a Python loop over opponents. Changing
the snapshot of a slot copies weights and rebuilds nothing. The layers are those of `ActorCritic.actor`, in order.

B stands for any batch of observations, D for `obs_dim`, C for `continuous`, A for `action_size`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.agents.distributed.processes import ShardedGenerator, draw
from sparring.agents.policies.distributions import (
    Density,
    draw_matrices,
    held_noise,
    log_probability,
    log_spread,
    split,
)
from sparring.configs.schema import NetworkConfig

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": partial(nn.ReLU, inplace=True), "tanh": nn.Tanh}


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


class ActorCritic(nn.Module):
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
        self.categorical = alternatives(categorical)
        generator = torch.Generator().manual_seed(seed)
        # Gain 0.01: the initial policy hardly depends on the state, so log_std_init sets its entropy everywhere.
        self.actor = mlp(
            obs_dim, continuous + binary + sum(self.categorical), config, head_gain=0.01, generator=generator
        )
        self.critic = mlp(obs_dim, 1, config, head_gain=1.0, generator=generator)
        shape = (config.hidden, continuous) if config.gsde else (continuous,)
        self.log_std = nn.Parameter(torch.full(shape, config.log_std_init))
        self.clamp_log_std()

    @property
    def action_size(self) -> int:
        """A: the length of one action."""
        return self.continuous + self.binary + len(self.categorical)

    @property
    def shape(self) -> dict[str, Any]:
        """Plain dict from which `from_shape` builds a network that accepts this one's weights."""
        sizes = (self.obs_dim, self.continuous, self.binary)
        return network_shape(*sizes, self.config, categorical=self.categorical)

    @classmethod
    def from_shape(cls, shape: dict[str, Any], *, seed: int = 0) -> ActorCritic:
        """Build a network from `shape`, with initial weights drawn from `seed`."""
        options = dict(shape)
        obs_dim, continuous, binary = (options.pop(key) for key in ("obs_dim", "continuous", "binary"))
        categorical = options.pop("categorical", 0)
        return cls(obs_dim, continuous, binary, NetworkConfig(**options), categorical=categorical, seed=seed)

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
        output, log_std, choices, features = self._answer(obs)
        held = None if noise is None or features is None else held_noise(features, noise)
        actions = sample(output, log_std, deterministic=deterministic, generator=generator, held=held)
        log_prob = log_probability(output, log_std, actions)
        for choice in choices:
            chosen = choose(choice, deterministic=deterministic, generator=generator)
            actions, log_prob = torch.cat([actions, chosen], dim=-1), log_prob + choice_log_probability(choice, chosen)
        return actions, log_prob

    @torch.no_grad()
    def draw_noise(self, count: int, generator: torch.Generator | ShardedGenerator | None) -> Tensor:
        """Draw gSDE's matrices [count, hidden, C] for that many environments."""
        return draw_matrices(self.log_std, count, generator)

    def value(self, obs: Tensor) -> Tensor:
        """Return V(s), float32 [B], for observations [B, D]."""
        return self.critic(obs).float().squeeze(-1)

    def evaluate(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log pi(a | s) and the entropy of pi(. | s), float32 [B], of obs [B, D] and actions [B, A]."""
        output, log_std, choices, _ = self._answer(obs)
        own = self.continuous + self.binary
        log_prob, spread = Density.apply(output, log_std, actions[..., :own])  # type: ignore[no-untyped-call]
        for column, choice in enumerate(choices, start=own):
            log_prob = log_prob + choice_log_probability(choice, actions[..., column : column + 1])
            spread = spread - (choice.exp() * choice).sum(-1)
        return log_prob, spread

    def _answer(self, obs: Tensor) -> ActorOutput:
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


def shape_options(config: NetworkConfig) -> dict[str, Any]:
    """Return the options of a network as part of its shape; without `gsde` if it is off, as before it existed."""
    return {key: value for key, value in asdict(config).items() if key != "gsde" or value}


def alternatives(categorical: int | Sequence[int]) -> tuple[int, ...]:
    """Return the number of alternatives of every choice, as a contract's `categorical` states it."""
    return ((categorical,) if categorical else ()) if isinstance(categorical, int) else tuple(categorical)


def weight_sizes(shape: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a network of that `shape`, without building it."""
    outputs = shape["continuous"] + shape["binary"] + sum(alternatives(shape.get("categorical", 0)))
    hidden, blocks = shape["hidden"], shape["blocks"]
    yield "log_std", (*([hidden] if shape.get("gsde") else []), shape["continuous"])
    for trunk, last in (("actor", outputs), ("critic", 1)):
        yield from _layer(f"{trunk}.0", shape["obs_dim"], hidden)
        if not blocks:
            yield from _layer(f"{trunk}.2", hidden, hidden)
        for number in range(blocks):
            branch = f"{trunk}.{2 + number}.branch"
            yield from ((f"{branch}.0.{part}", (hidden,)) for part in ("weight", "bias"))  # the norm
            yield from _layer(f"{branch}.1", hidden, hidden)
            yield from _layer(f"{branch}.3", hidden, hidden)
        yield from _layer(f"{trunk}.{2 + blocks if blocks else 4}", hidden, last)


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
    held: Tensor | None = None,
) -> Tensor:
    """Draw actions [..., A] from the actor's output [..., A] (means, then logits) and log_std, [C] or [..., C].

    `held` [..., C] is noise that was drawn before, in the actions' units.
    """
    mean, logit = split(output, log_std)
    if deterministic:
        return torch.cat([mean, (logit > 0).float()], dim=-1)  # p > 1/2
    # Both draws happen in every sampled action, so the sequence of random numbers does not depend on the action.
    noise = draw(torch.randn, mean.shape, generator, output.device) if held is None else held
    coin = draw(torch.rand, logit.shape, generator, output.device)
    moved = torch.addcmul(mean, noise, log_std.exp()) if held is None else mean + held
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


class StackedActors:
    """`slots` frozen actors of one shape (`ActorCritic.shape`) on one device.

    K is `slots`, M the observations per slot. A slot is all zeros until it is loaded: mean 0, standard deviation 1.
    """

    def __init__(self, slots: int, network_shape: dict[str, Any], device: torch.device | str) -> None:
        self.slots = slots
        self.template = ActorCritic.from_shape(network_shape)
        self.names = [name for name, _ in self.template.named_parameters() if not name.startswith("critic.")]
        state = self.template.state_dict()
        self.weights = {name: torch.zeros(slots, *_stored(state[name]).shape, device=device) for name in self.names}

    def load(self, slot: int, state_dict: Mapping[str, Tensor]) -> None:
        """Copy an `ActorCritic`'s weights into a slot; its critic is ignored.

        Raises `ValueError` for a slot outside 0..K-1, a missing weight, or one of another shape.
        """
        if not 0 <= slot < self.slots:
            raise ValueError(f"slot={slot} is outside 0..{self.slots - 1}; make more slots or choose one of these")
        for name in self.names:
            expected = tuple(self.template.get_parameter(name).shape)
            shape = tuple(state_dict[name].shape) if name in state_dict else "nothing"
            if shape != expected:
                raise ValueError(
                    f"{name}: expected shape {expected}, found {shape}; load a snapshot of this network shape"
                )
        for name in self.names:
            self.weights[name][slot].copy_(_stored(state_dict[name]))

    @torch.no_grad()
    def act(
        self, obs: Tensor, *, generator: torch.Generator | ShardedGenerator | None = None, deterministic: bool = False
    ) -> Tensor:
        """Return actions [K, M, A] for observations [K, M, D]; slot k acts on row k."""
        actor, log_std = self.template.actor, self.weights["log_std"]
        if not self.template.config.gsde:
            output = self._forward(actor, "actor", obs)
        else:
            features = self._forward(actor[:-1], "actor", obs)
            output = self._forward(actor[-1], f"actor.{len(actor) - 1}", features)
            log_std = log_spread(features, log_std.transpose(-1, -2))  # stored like a weight
        return sample(output.float(), log_std, deterministic=deterministic, generator=generator)

    def _forward(self, module: nn.Module, name: str, x: Tensor) -> Tensor:
        """Run all slots' copies of `module` on x [K, M, inputs]; `name` is its path in the state dict."""
        if isinstance(module, nn.Sequential):
            for index, layer in enumerate(module):
                x = self._forward(layer, f"{name}.{index}", x)
            return x
        if isinstance(module, Residual):
            return x + self._forward(module.branch, f"{name}.branch", x)
        if isinstance(module, nn.ReLU):
            return x.relu_()
        if isinstance(module, nn.Tanh):
            return x.tanh_()
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if isinstance(module, nn.LayerNorm):
            return torch.addcmul(bias, F.layer_norm(x, module.normalized_shape, eps=module.eps), weight)
        return torch.baddbmm(bias, x, weight)


def _stored(weight: Tensor) -> Tensor:
    """Convert a weight to slot layout: matrices [inputs, outputs], vectors [1, outputs] to broadcast over M."""
    return weight.T if weight.dim() == 2 else weight.unsqueeze(0)
