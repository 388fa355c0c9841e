"""Parts of the PPO update by hand, early stopping, determinism, and learning."""

import math
from functools import partial

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo import learner, losses
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.losses import (
    Samples,
    Surrogate,
    ValueLoss,
    explained_variance,
    normalize,
)
from sparring.agents.ppo.rollout import Rollout
from sparring.configs.schema import NetworkConfig, PPOConfig

KEYS = {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_max", "grad_norm"}
KEYS |= {"explained_variance", "epochs_completed", "log_std_0", "weight_norm", "kl_max", "kl_stop", "skipped_steps"}


def some_samples(total=64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    net = network()
    obs = torch.randn(total, 2, generator=generator)
    actions, log_prob = net.act(obs, generator=generator)
    advantage, noise = torch.randn(2, total, generator=generator)
    value = net.value(obs).detach()
    return Samples(obs, actions, log_prob, value, advantage, value + noise)


def network(seed=0):
    return ActorCritic(2, 1, 1, NetworkConfig(hidden=8), seed=seed)


def run(net, samples, *, seed=0, learning_rate=1e-3, entropy=0.0, autocast=None, number=0, threads=1, **options):
    config = PPOConfig(**{"minibatch_size": 16, "epochs": 2, "target_kl": 0.0} | options)
    learner = PPOLearner(net, config, autocast or Autocast("fp32", "cpu"), seed=seed, threads=threads)
    try:
        return learner.update(samples, number=number, learning_rate=learning_rate, entropy_coefficient=entropy)
    finally:
        learner.close()


def batch_of(advantage, old_log_prob):
    empty = torch.zeros(len(advantage), 1)
    return Samples(empty, empty, torch.tensor(old_log_prob), empty[:, 0], torch.tensor(advantage), empty[:, 0])


def surrogate(log_prob, batch, clip=0.2, size=0):
    loss, *statistics = Surrogate.apply(log_prob, batch.log_prob, batch.advantage, clip, size or len(log_prob))
    return loss, statistics


def weights(net):
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def test_clipped_surrogate_by_hand():
    # Advantages 1, -1, 1, -1 are already normal. Ratios 1.5, 1.5, 0.5, 0.5 with clip 0.2:
    # min(1.5, 1.2) = 1.2; min(-1.5, -1.2) = -1.5; min(0.5, 0.8) = 0.5; min(-0.5, -0.8) = -0.8. Mean -0.15.
    log_prob = torch.tensor([1.5, 1.5, 0.5, 0.5]).log()
    batch = batch_of([1.0, -1.0, 1.0, -1.0], [0.0] * 4)
    loss, (kl, clip_fraction, ratio_max) = surrogate(log_prob, batch)
    assert loss.item() == pytest.approx(0.15, abs=1e-4)
    assert kl.item() == pytest.approx((0.5 - math.log(1.5) - 0.5 - math.log(0.5)) / 2, abs=1e-6)
    assert clip_fraction.item() == 1.0
    assert ratio_max.item() == pytest.approx(1.5)


def test_log_ratio_clamp_prevents_infinity(monkeypatch):
    batch = batch_of([1.0, -1.0], [-500.0, -500.0])
    log_prob = torch.zeros(2, requires_grad=True)
    loss, (kl, _, ratio_max) = surrogate(log_prob, batch)
    loss.backward()
    assert loss.isfinite()
    assert kl.isfinite()
    assert log_prob.grad.isfinite().all()
    assert ratio_max.item() == pytest.approx(math.exp(20.0), rel=1e-5)
    monkeypatch.setattr(losses, "LOG_RATIO_CLAMP", 1000.0)
    assert not surrogate(log_prob, batch)[0].isfinite()


def spaced(low, high):
    """Return 64 values in another order, none at a kink of a loss."""
    return torch.linspace(low, high, 64, dtype=torch.float64)[torch.randperm(64, generator=seeded(3))]


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_loss_gradients_match_finite_differences(monkeypatch):
    """Ratios and values lie on both sides of their clips and clamps, in part of a larger minibatch."""
    log_prob, old, advantage = spaced(-3.0, 3.0).requires_grad_(), torch.zeros(64).double(), spaced(-1.1, 1.3).flip(0)
    monkeypatch.setattr(losses, "LOG_RATIO_CLAMP", 2.5)
    policy = lambda x: Surrogate.apply(x, old, advantage, 0.2, 100)[0]  # noqa: E731
    assert torch.autograd.gradcheck(policy, (log_prob,))
    policy(log_prob).backward()
    slopes = (log_prob.grad != 0).double()
    assert 0.2 < slopes.mean() < 0.8
    value, returns = spaced(-2.0, 2.0).requires_grad_(), spaced(-1.7, 1.9).flip(0)
    for clip in (0.0, 0.3):
        assert torch.autograd.gradcheck(lambda v, clip=clip: ValueLoss.apply(v, old, returns, clip, 100), (value,))


def test_minibatch_part_has_proportional_loss():
    log_prob, advantage = spaced(-1.0, 1.0), spaced(-2.0, 2.0).flip(0)
    batch = batch_of(advantage.tolist(), [0.0] * 64)
    halves = [batch_of(advantage[half].tolist(), [0.0] * 32) for half in (slice(32), slice(32, 64))]
    whole = surrogate(log_prob, batch)[0]
    parts = [surrogate(p, half, size=64)[0] for p, half in zip(log_prob.split(32), halves, strict=True)]
    torch.testing.assert_close(sum(parts), whole)
    empty = surrogate(log_prob[:0], batch_of([], []), size=64)
    assert [float(number) for number in (empty[0], *empty[1])] == [0.0] * 4


def test_value_clip_by_hand():
    # V moved from 0 to 1 while R is 2: plain (1 - 2)^2 = 1, clipped (0.2 - 2)^2 = 3.24; the worse counts.
    value, old, returns = torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([2.0])
    assert ValueLoss.apply(value, old, returns, 0.2, 1).item() == pytest.approx(3.24)
    assert ValueLoss.apply(value, old, returns, 0.0, 1).item() == pytest.approx(1.0)
    # It moved past R = 0.1: plain 0.81, clipped 0.01; again the worse.
    assert ValueLoss.apply(value, old, torch.tensor([0.1]), 0.2, 1).item() == pytest.approx(0.81)


def test_advantages_are_normalized_without_amplifying_rounding():
    advantage = torch.tensor([1.0, 2.0, 3.0, 6.0])
    normal = normalize(advantage)
    assert normal.mean().item() == pytest.approx(0.0, abs=1e-6)
    assert normal.std(correction=0).item() == pytest.approx(1.0, abs=1e-4)
    nearly_equal = torch.tensor([5.0, 5.0000005, 5.0, 5.0000005])
    assert normalize(nearly_equal).abs().max() < 0.1
    assert normalize(torch.tensor([3.0])).tolist() == [0.0]


def test_explained_variance_by_hand():
    returns = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(returns + 7, returns).item() == pytest.approx(1.0)
    assert explained_variance(torch.zeros(4), returns).item() == pytest.approx(0.0)
    assert explained_variance(2 * returns, torch.full((4,), 2.0)).item() == 0.0


def test_every_epoch_visits_every_sample_once_in_equal_parts():
    samples = some_samples(50)._replace(obs=torch.arange(50.0))
    config = PPOConfig(minibatch_size=16, epochs=2)
    batches = [batch.obs for batch in samples.minibatches(config, torch.Generator().manual_seed(0))]
    assert [len(batch) for batch in batches] == [13, 13, 12, 12] * 2
    first, second = torch.cat(batches[:4]), torch.cat(batches[4:])
    assert torch.equal(first.sort().values, samples.obs)
    assert torch.equal(second.sort().values, samples.obs)
    assert not torch.equal(first, second)


def test_metrics_are_finite_floats():
    metrics = run(network(), some_samples())
    assert set(metrics) == {f"train/{key}" for key in KEYS}
    assert all(type(number) is float and math.isfinite(number) for number in metrics.values())
    assert metrics["train/epochs_completed"] == 2.0
    assert metrics["train/grad_norm"] > 0


def test_target_kl_stops_all_epochs_of_update():
    options = {"learning_rate": 0.1, "epochs": 10}
    free = run(network(), some_samples(), **options)
    stopped = run(network(), some_samples(), target_kl=0.01, **options)
    assert free["train/epochs_completed"] == 10.0
    assert 0 < stopped["train/epochs_completed"] < 2


def test_minibatch_beyond_target_kl_is_not_applied():
    """The samples come from a policy so different that the first minibatch is already beyond the target."""
    net, samples = network(), some_samples()
    before = weights(net)
    metrics = run(net, samples._replace(log_prob=samples.log_prob - 1.0), target_kl=0.5)
    assert metrics["train/epochs_completed"] == 0.0
    assert metrics["train/approx_kl"] == pytest.approx(math.e - 2, abs=1e-4)  # (e - 1) - 1
    assert torch.equal(weights(net), before)


def test_gradient_is_clipped():
    samples = some_samples()
    samples = samples._replace(returns=samples.returns + 1e6)
    net = network()
    before = weights(net)
    config = PPOConfig(minibatch_size=64, epochs=1, target_kl=0.0, max_grad_norm=0.5)
    learner = PPOLearner(net, config, Autocast("fp32", "cpu"), seed=0)
    learner.optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    metrics = learner.update(samples, number=0, learning_rate=1.0, entropy_coefficient=0.0)
    assert metrics["train/grad_norm"] > 1e3
    assert (weights(net) - before).norm().item() == pytest.approx(0.5, rel=1e-3)


def test_entropy_bonus_raises_entropy():
    widths = []
    for coefficient in (0.0, 1.0):
        net = network()
        run(net, some_samples()._replace(advantage=torch.zeros(64)), entropy=coefficient, learning_rate=0.01)
        widths.append(net.log_std.item())
    assert widths[0] == pytest.approx(-1.0, abs=1e-6)
    assert widths[1] > -0.96


def test_log_std_is_clamped_after_every_step():
    net = network()
    metrics = run(net, some_samples(), entropy=100.0, learning_rate=0.5)
    assert net.log_std.item() == 0.0
    assert metrics["train/log_std_0"] == 0.0


@pytest.mark.parametrize("threads", [1, 2])
def test_chunked_values_match_critic_in_update_precision(threads):
    net, obs = network(), torch.randn(3, 7000, 2, generator=torch.Generator().manual_seed(1))
    ppo = PPOLearner(net, PPOConfig(), Autocast("bf16", "cpu", warmup_updates=5), seed=0, threads=threads)
    full, lower = ppo.values(obs, 4), ppo.values(obs, 5)
    ppo.close()
    expected = net.value(obs.flatten(0, 1)).view(3, 7000)
    torch.testing.assert_close(full, expected, rtol=0, atol=1e-6)
    assert not full.requires_grad
    assert 1e-4 < (lower - expected).abs().max() < 0.05  # bf16 has eight bits


def test_split_minibatch_gives_same_update(monkeypatch):
    """Minibatches of 16 in pieces of 5, 5, 5 and 1: only the order of summation differs."""
    samples, whole, cut = some_samples(), network(seed=1), network(seed=1)
    options = {"entropy": 0.01, "value_clip": 0.2, "learning_rate": 1e-2}
    expected = run(whole, samples, **options)
    monkeypatch.setattr(learner, "PIECE_BYTES", 5 * 8 * 4)
    assert run(cut, samples, **options) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert expected["train/clip_fraction"] > 0.05
    assert (weights(whole) - weights(cut)).abs().max() < 1e-6


def test_parallel_actor_and_critic_match_sequential_bit_for_bit():
    metrics, nets = [], [network() for _ in range(2)]
    for net, threads in zip(nets, (1, 2), strict=True):
        metrics.append(run(net, some_samples(), threads=threads, entropy=0.01))
    assert metrics[0] == metrics[1]
    assert torch.equal(weights(nets[0]), weights(nets[1]))


@pytest.mark.parametrize("target_kl", [0.0, 0.05])
@pytest.mark.parametrize("field", ["obs", "actions", "log_prob", "advantage", "returns"])
def test_only_non_finite_steps_are_skipped(field, target_kl):
    net, samples = network(), some_samples()
    getattr(samples, field)[3] = float("nan")
    before = weights(net)
    metrics = run(net, samples, target_kl=target_kl)
    assert metrics["train/skipped_steps"] == 2  # one minibatch of four holds the sample, in each of two epochs
    assert metrics["train/epochs_completed"] == 1.5
    assert weights(net).isfinite().all()
    assert not torch.equal(weights(net), before)
    assert all(math.isfinite(number) for key, number in metrics.items() if key != "train/explained_variance")


@pytest.mark.filterwarnings("ignore:.*emulated")
def test_lower_precision_starts_after_warmup_with_float32_weights():
    autocast = Autocast("bf16", "cpu", warmup_updates=1)
    nets = [network() for _ in range(3)]
    run(nets[0], some_samples())
    run(nets[1], some_samples(), autocast=autocast, number=0)
    metrics = run(nets[2], some_samples(), autocast=autocast, number=1)
    assert torch.equal(weights(nets[0]), weights(nets[1]))
    assert not torch.equal(weights(nets[0]), weights(nets[2]))
    assert weights(nets[2]).dtype == torch.float32
    torch.testing.assert_close(weights(nets[2]), weights(nets[0]), atol=0.02, rtol=0)
    assert metrics["train/ratio_max"] < 1.2


class Target:
    """One-step episodes: reward -|a - 0.5|, and another -1 unless the switch is on exactly where obs[0] > 0."""

    longest_episode, rows = 1, None

    def __init__(self, num_envs, seed):
        self.num_envs = self.lanes = num_envs
        self.generator = torch.Generator().manual_seed(seed)
        self.obs = torch.randn(num_envs, 2, generator=self.generator)
        self.final_obs = torch.zeros_like(self.obs)
        self.done, self.never = torch.ones(num_envs, dtype=torch.bool), torch.zeros(num_envs, dtype=torch.bool)

    def step(self, actions):
        wanted = (self.obs[:, 0] > 0).float()
        reward = -(actions[:, 0] - 0.5).abs() - (actions[:, 1] - wanted).abs()
        self.obs.copy_(torch.randn(self.obs.shape, generator=self.generator))
        return self.obs, reward, self.done, self.never


def train(seed, updates=15):
    net, env = network(seed), Target(64, seed)
    generator = torch.Generator().manual_seed(seed)
    rollout = Rollout(net, 8, env)
    learner = PPOLearner(net, PPOConfig(epochs=4, minibatch_size=128), Autocast("fp32", "cpu"), seed=seed)
    rewards = []
    for number in range(updates):
        rollout.collect(env, net, generator)
        rollout.finish(partial(learner.judge, number=number), learner.config.gamma, learner.config.gae_lambda)
        learner.update(rollout.flat(), number=number, learning_rate=1e-2, entropy_coefficient=0.0)
        rewards.append(rollout.reward.mean().item())
    return rewards, net


@pytest.mark.parametrize("seed", [0, 1])
def test_training_small_task_is_reproducible(seed):
    rewards, net = train(seed)
    assert rewards[0] < -0.9  # |N(0, e^-1) - 0.5| is about 0.54, and half of the switches are wrong
    assert rewards[-1] > -0.35
    again, twin = train(seed)
    assert rewards == again
    assert torch.equal(weights(net), weights(twin))


def scaled(init_scale):
    """Return full precision with an active gradient scaler, as in fp16 on CUDA."""
    autocast = Autocast("fp32", "cpu")
    autocast.scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, enabled=True)
    return autocast


def test_gradient_scaler_leaves_no_trace():
    plain, with_scaler = network(), network()
    metrics = run(plain, some_samples(), max_grad_norm=0.1)
    assert run(with_scaler, some_samples(), max_grad_norm=0.1, autocast=scaled(1024.0)) == pytest.approx(
        metrics, abs=1e-5
    )
    torch.testing.assert_close(weights(with_scaler), weights(plain), atol=1e-5, rtol=0)


def test_overflowing_scaled_gradient_skips_step():
    net, autocast = network(), scaled(1e38)
    before = weights(net)
    samples = some_samples()
    samples = samples._replace(returns=samples.returns + 1e4)
    metrics = run(net, samples, autocast=autocast, epochs=1, minibatch_size=64)
    assert torch.equal(weights(net), before)
    assert metrics["train/grad_norm"] == 0.0
    assert autocast.scaler.get_scale() < 1e38


def test_max_ratio_covers_all_minibatches(monkeypatch):
    """The first minibatch has ratios of 1, later ones after large steps do not."""
    found, apply = [], Surrogate.apply

    def noted(*arguments):
        result = apply(*arguments)
        found.append(float(result[3]))
        return result

    monkeypatch.setattr(Surrogate, "apply", noted)
    metrics = run(network(), some_samples(), learning_rate=0.05)
    assert metrics["train/ratio_max"] == max(found) > 1.5
    assert min(found) == pytest.approx(1.0, abs=1e-5)


class Replayed:
    """Stand in for a CUDA graph: it runs on its own inputs and overwrites its result."""

    def __init__(self, function, *inputs):
        self.function, self.inputs = function, [tensor.clone() for tensor in inputs]
        self.output = function(*self.inputs)

    def __call__(self, *inputs):
        for own, given in zip(self.inputs, inputs, strict=True):
            own.copy_(given)
        return self.output.copy_(self.function(*self.inputs))


@pytest.mark.parametrize(
    ("target_kl", "spoiled", "skipped"),
    [(0.0, None, 0), (0.0, "returns", 3), (0.002, None, 0), (0.002, "log_prob", 2), (1e-9, None, 0)],
)
def test_captured_steps_equal_eager_steps(monkeypatch, target_kl, spoiled, skipped):
    """Parts of two sizes, an annealed bonus, a second rollout in the same storage; stops, and a NaN value."""
    monkeypatch.setattr(learner, "Captured", Replayed)
    samples, other = some_samples(70), some_samples(70, seed=1)
    if spoiled:
        getattr(samples, spoiled)[3] = float("nan")
    ends = []
    for captures in (False, True):
        net, storage = network(), Samples(*(tensor.clone() for tensor in samples))
        config = PPOConfig(minibatch_size=32, epochs=3, target_kl=target_kl)
        one = PPOLearner(net, config, Autocast("fp32", "cpu"), seed=0)
        one._captures = captures
        rate = 2**-9  # the same in float32, which graphs have
        metrics = [one.update(storage, number=0, learning_rate=rate, entropy_coefficient=0.01)]
        for own, new in zip(storage, other, strict=True):
            own.copy_(new)
        one.reset_log_std(-0.5)
        metrics.append(one.update(storage, number=1, learning_rate=rate / 2, entropy_coefficient=0.0))
        one.close()
        moments = [[*one.optimizer.state[weight].values()] for weight in net.parameters()]
        ends.append((metrics, weights(net), moments, one.optimizer.param_groups[0]["lr"], len(one._graphs)))
    (plain, expected, ours, *rest), (captured, got, others, *more) = ends
    assert (rest, more) == ([2**-10, 0], [2**-10, 2])
    assert [repr(one) for one in captured] == [repr(one) for one in plain]  # NaN in both, too
    assert torch.equal(got, expected)
    for one, two in zip(ours, others, strict=True):  # without a step there are no moments, or zeros
        assert not one or all(map(torch.equal, one, two))
    stops = [one["train/kl_stop"] for one in plain]
    assert stops == [float(target_kl > 0.0)] * 2
    assert plain[0]["train/skipped_steps"] == skipped
