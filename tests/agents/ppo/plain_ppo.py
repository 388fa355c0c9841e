"""One PPO update in NumPy with float64 and manual derivatives, as a reference for the trainer.

Weights are a dict by the names of `ActorCritic.state_dict`; the network is 256h/0b-like with ReLU, C Gaussian actions
and then Bernoullis. It shares no code with the trainer, nor torch's autograd or optimizer.
"""

import numpy as np

EPSILON_ADAM, BETA1, BETA2 = 1e-5, 0.9, 0.999


class Adam:
    """Kingma and Ba 2015, algorithm 1, with the bias corrections written out."""

    def __init__(self, weights):
        self.first = {name: np.zeros_like(w) for name, w in weights.items()}
        self.second = {name: np.zeros_like(w) for name, w in weights.items()}
        self.steps = 0

    def step(self, weights, gradients, rate):
        self.steps += 1
        for name, g in gradients.items():
            self.first[name] = BETA1 * self.first[name] + (1 - BETA1) * g
            self.second[name] = BETA2 * self.second[name] + (1 - BETA2) * g * g
            m = self.first[name] / (1 - BETA1**self.steps)
            v = self.second[name] / (1 - BETA2**self.steps)
            weights[name] -= rate * m / (np.sqrt(v) + EPSILON_ADAM)


def forward(weights, part, x):
    """Output [B, O] of the trunk `part` and what its derivative needs."""
    h0 = np.maximum(x @ weights[f"{part}.0.weight"].T + weights[f"{part}.0.bias"], 0)
    h1 = np.maximum(h0 @ weights[f"{part}.2.weight"].T + weights[f"{part}.2.bias"], 0)
    return h1 @ weights[f"{part}.4.weight"].T + weights[f"{part}.4.bias"], (x, h0, h1)


def backward(weights, part, kept, d_out):
    """Gradients of the trunk's weights where the output's is `d_out` [B, O]."""
    x, h0, h1 = kept
    d_h1 = d_out @ weights[f"{part}.4.weight"] * (h1 > 0)
    d_h0 = d_h1 @ weights[f"{part}.2.weight"] * (h0 > 0)
    gradients = {}
    for layer, d, below in ((4, d_out, h1), (2, d_h1, h0), (0, d_h0, x)):
        gradients[f"{part}.{layer}.weight"] = d.T @ below
        gradients[f"{part}.{layer}.bias"] = d.sum(0)
    return gradients


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_probability(output, log_std, actions):
    """log pi(a | s) [B], and its derivatives by the output [B, A] and by log_std [B, C]."""
    c = len(log_std)
    z = (actions[:, :c] - output[:, :c]) / np.exp(log_std)
    p = sigmoid(output[:, c:])
    coin = actions[:, c:]
    value = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)
    value += (coin * np.log(p) + (1 - coin) * np.log(1 - p)).sum(1)
    return value, np.concatenate([z / np.exp(log_std), coin - p], 1), z**2 - 1


def entropy_derivatives(output, log_std):
    """Derivatives of the entropy by the output [B, A] and by log_std [B, C]."""
    c = len(log_std)
    logit = output[:, c:]
    p = sigmoid(logit)
    by_output = np.concatenate([np.zeros((len(output), c)), -logit * p * (1 - p)], 1)
    return by_output, np.ones((len(output), c))


def policy_gradient(weights, batch, options):
    n = len(batch["obs"])
    output, kept = forward(weights, "actor", batch["obs"])
    log_prob, by_output, by_log_std = log_probability(output, weights["log_std"], batch["actions"])
    ratio = np.exp(log_prob - batch["log_prob"])
    advantage = batch["advantage"]
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
    clipped = np.clip(ratio, 1 - options["clip"], 1 + options["clip"])
    # The minimum's derivative is the ratio's wherever the clipped term is not the smaller one.
    active = ratio * advantage <= clipped * advantage
    d_log_prob = -(active * ratio * advantage) / n
    e_output, e_log_std = entropy_derivatives(output, weights["log_std"])
    d_output = d_log_prob[:, None] * by_output - options["entropy"] / n * e_output
    gradients = backward(weights, "actor", kept, d_output)
    gradients["log_std"] = (d_log_prob[:, None] * by_log_std - options["entropy"] / n * e_log_std).sum(0)
    return gradients


def value_gradient(weights, batch, options):
    n = len(batch["obs"])
    output, kept = forward(weights, "critic", batch["obs"])
    value, old, returns, clip = output[:, 0], batch["value"], batch["returns"], options["value_clip"]
    error, derivative = (value - returns) ** 2, 2 * (value - returns)
    if clip > 0:
        near = old + np.clip(value - old, -clip, clip)
        inside = np.abs(value - old) < clip
        worse = (near - returns) ** 2 > error
        derivative = np.where(worse, 2 * (near - returns) * inside, derivative)
    return backward(weights, "critic", kept, options["value_coefficient"] * derivative[:, None] / n)


def update(weights, samples, orders, options):
    """Change `weights` by one update; `orders` has the samples' order [N] of every epoch."""
    adam = Adam(weights)
    parts = -(-len(samples["obs"]) // options["minibatch_size"])
    for order in orders:
        for index in np.array_split(order, parts):
            batch = {name: values[index] for name, values in samples.items()}
            gradients = policy_gradient(weights, batch, options) | value_gradient(weights, batch, options)
            norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
            scale = min(1.0, options["max_grad_norm"] / (norm + 1e-6))
            adam.step(weights, {name: g * scale for name, g in gradients.items()}, options["learning_rate"])
            weights["log_std"] = np.clip(weights["log_std"], *options["log_std"])
    return weights
