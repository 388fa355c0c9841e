"""Seat networks: exact masks, roles, images and memory, against plain references."""

import json
import math

import pytest
import torch
from torch import nn
from torch.distributions import Categorical

from sparring.agents.policies.actor_critic import ActorCritic, alternatives
from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from sparring.agents.policies.memory import Memory, Sequences
from sparring.agents.policies.networks import build_network, check_shape, check_weights, shape_for
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import ContentError
from sparring.configs.schema import NetworkConfig

C, B, HIDDEN = 7, 5, 8
BOARD = [2, 4, 5, 3, 0]
F = 2 + 60 + 1
"""Features: two, a board of 4 x 5 x 3, one."""


def contract(*, continuous=0, binary=0, categorical=0, masked=None, roles=(0, 0), picture=(), features=F):
    masked = bool(categorical) if masked is None else masked
    columns = features + masked * sum(alternatives(categorical)) + (max(roles) > 0)
    sizes = {"obs_dim": columns, "continuous": continuous, "binary": binary, "categorical": categorical}
    return {"id": "pettingzoo:some.game", "masked": masked, "roles": list(roles), "picture": list(picture), **sizes}


def network(*, hidden=HIDDEN, encoder="auto", memory="none", blocks=0, seed=0, double=False, **options):
    config = NetworkConfig(hidden=hidden, encoder=encoder, memory=memory, blocks=blocks)
    built = build_network(shape_for(contract(**options), config), seed=seed)
    with torch.no_grad():  # small initial logits would hide faults
        for name, weight in built.named_parameters():
            if "head" in name:
                weight.mul_(30.0)
    return built.double() if double else built


def rows(net, *shape, seed=0):
    """Return rows with a random mask that keeps each choice's first option, and roles constant per lane."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.rand(*shape, net.obs_dim, generator=generator).to(net.log_std.dtype)
    if net.masked:
        start = net.features
        for count in net.categorical:
            obs[..., start : start + count] = obs[..., start : start + count].round()
            obs[..., start] = 1.0
            start += count
    if net.roles > 1:
        obs[..., -1] = torch.arange(shape[-1]) % net.roles
    return obs


def whole(net, obs, fresh=None, memory=None, counted=None):
    fresh = torch.zeros(obs.shape[:2], dtype=torch.bool) if fresh is None else fresh
    memory = obs.new_zeros(obs.shape[1], net.memory_size) if memory is None else memory
    return Sequences(obs, memory, fresh, torch.arange(math.prod(obs.shape[:2])) if counted is None else counted)


@pytest.mark.parametrize("categorical", [6, [3, 4]])
def test_masked_densities_renormalize_legal_actions(categorical):
    net = network(categorical=categorical, double=True)
    obs = rows(net, 50)
    actions, log_prob = net.act(obs, generator=torch.Generator().manual_seed(1))
    evaluated, entropy = net.evaluate(obs, actions)
    logits, legal = net.actor(obs[:, :F], None), obs[:, F:] > 0.5
    for row in range(len(obs)):
        expected = spread = start = 0
        for column, count in enumerate(net.categorical):
            subset = legal[row, start : start + count].nonzero().squeeze(-1)
            chosen = (subset == int(actions[row, column])).nonzero().item()  # fails for an illegal action
            plain = Categorical(logits=logits[row, start : start + count][subset])
            expected, spread = expected + plain.log_prob(torch.tensor(chosen)), spread + plain.entropy()
            start += count
        torch.testing.assert_close(evaluated[row], expected)
        torch.testing.assert_close(log_prob[row], expected.detach())
        torch.testing.assert_close(entropy[row], spread)


def test_masked_density_gradients_are_finite_and_match_subset():
    net = network(categorical=6, double=True)
    obs = rows(net, 40)
    obs[0, F:] = torch.tensor([0.0, 0, 0, 1, 0, 0])  # one legal alternative: log-probability and entropy are 0
    actions, _ = net.act(obs)
    assert actions[0, 0] == 3
    log_prob, entropy = net.evaluate(obs, actions)
    assert log_prob[0] == entropy[0] == 0.0
    (log_prob + 0.1 * entropy).sum().backward()
    found = net.actor[0].head.weight.grad.clone()
    net.zero_grad()
    logits = net.actor(obs[:, :F], None).masked_fill(obs[:, F:] < 0.5, -1e9)
    plain = Categorical(logits=logits)
    (plain.log_prob(actions[:, 0]) + 0.1 * plain.entropy()).sum().backward()
    torch.testing.assert_close(found, net.actor[0].head.weight.grad)
    assert all(weight.grad.isfinite().all() for weight in net.actor.parameters())


def test_illegal_action_has_zero_probability_for_any_logit():
    net = network(categorical=4)
    with torch.no_grad():
        net.actor[0].head.bias.copy_(torch.tensor([100.0, 0.0, 0.0, 0.0]))
    obs = rows(net, 20_000)
    obs[:] = obs[0]
    obs[:, F:] = torch.tensor([0.0, 1.0, 1.0, 1.0])
    assert net.evaluate(obs[:1], torch.zeros(1, 1))[0] == -math.inf
    greedy, _ = net.act(obs[:1], deterministic=True)
    logits = net.actor(obs[:1, :F], None)[0, 1:]
    assert greedy.item() == 1 + logits.argmax()
    actions, _ = net.act(obs, generator=torch.Generator().manual_seed(3))
    shares = torch.bincount(actions[:, 0].long(), minlength=4) / len(obs)
    torch.testing.assert_close(shares[1:], logits.softmax(-1).detach(), atol=0.015, rtol=0)
    assert shares[0] == 0


def test_seat_network_without_extras_is_actor_critic():
    net = network(continuous=2, binary=1, categorical=3, masked=False)
    plain = ActorCritic(F, 2, 1, net.config, categorical=3)
    for half in ("actor", "critic"):
        weights = getattr(net, half)[0].state_dict().values()
        getattr(plain, half).load_state_dict(dict(zip(getattr(plain, half).state_dict(), weights, strict=True)))
    obs = rows(net, 9)
    actions, log_prob, memory = net.step(obs, obs.new_zeros(9, 0), generator=torch.Generator().manual_seed(2))
    expected = plain.act(obs, generator=torch.Generator().manual_seed(2))
    assert memory.shape == (9, 0)
    torch.testing.assert_close((actions, log_prob), expected)
    torch.testing.assert_close(net.evaluate(obs, actions), plain.evaluate(obs, actions))
    torch.testing.assert_close(net.value(obs), plain.value(obs))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrence_and_gradients_match_torch(kind):
    generator = torch.Generator().manual_seed(4)
    cell = Memory(kind, HIDDEN, generator).double()
    with torch.no_grad():
        cell.bias_hh.normal_(generator=generator)
    reference = {"gru": nn.GRU, "lstm": nn.LSTM}[kind](HIDDEN, HIDDEN).double()
    reference.load_state_dict({f"{name}_l0": weight for name, weight in cell.state_dict().items()})
    x = torch.randn(C, B, HIDDEN, generator=generator).double()
    state = torch.randn(B, HIDDEN * (1 + (kind == "lstm")), generator=generator).double()
    fresh = torch.rand(C, B, generator=generator) < 0.3
    outputs = cell.along(x, state, fresh)
    outputs[..., :HIDDEN].square().sum().backward()
    total = 0.0
    for lane in range(B):
        before = state[lane : lane + 1].split(HIDDEN, dim=-1)
        for t in range(C):  # one decision at a time, with a plain reset
            if fresh[t, lane]:
                before = tuple(torch.zeros_like(part) for part in before)
            h, after = reference(x[t : t + 1, lane], before if kind == "lstm" else before[0])
            before = after if kind == "lstm" else (after,)
            torch.testing.assert_close(outputs[t, lane], torch.cat(before, -1)[0], atol=1e-12, rtol=0)
            total = total + h.square().sum()
    total.backward()
    for name, weight in cell.named_parameters():
        torch.testing.assert_close(weight.grad, getattr(reference, f"{name}_l0").grad)


OPTIONS = [
    {"categorical": 6},
    {"categorical": [3, 4], "roles": (0, 1, 2)},
    {"continuous": 2, "roles": (1, 0)},
    {"categorical": 6, "picture": BOARD},
]


@pytest.mark.parametrize("memory", ["none", "gru", "lstm"])
@pytest.mark.parametrize("options", OPTIONS)
def test_sequences_reproduce_stepwise_decisions(memory, options):
    net = network(memory=memory, double=True, **options)
    obs, generator = rows(net, C, B), torch.Generator().manual_seed(5)
    fresh = torch.rand(C, B, generator=generator) < 0.3
    start = torch.rand(B, net.memory_size, generator=generator).double()
    state, after, actions, log_probs = start, [], [], []
    for t in range(C):
        state = torch.where(fresh[t].unsqueeze(-1), 0.0, state)
        action, log_prob, state = net.step(obs[t], state, generator=generator)
        after, actions, log_probs = [*after, state], [*actions, action], [*log_probs, log_prob]
    counted = torch.tensor([33, 0, 4, 12, 34])
    sequences = whole(net, obs, fresh, start, counted)
    log_prob, entropy = net.evaluate(sequences, torch.cat(actions)[counted])
    torch.testing.assert_close(log_prob, torch.cat(log_probs)[counted])
    assert entropy.shape == counted.shape
    values, final = net.values(sequences, obs[2, [1, 3]], torch.tensor([5 * 3 + 1, 5 * 4 + 3]))
    torch.testing.assert_close(net.value(sequences), values[counted])
    # The value of what was observed after a decision, from the memory after it, in a sequence of one decision.
    lanes = torch.tensor([1, 3])
    memory_then = torch.stack([after[3][1], after[4][3]])
    one = whole(net, obs[2, lanes].unsqueeze(0), memory=memory_then)
    torch.testing.assert_close(final, net.value(one))
    (log_prob.sum() + entropy.sum() + net.value(sequences).sum()).backward()
    assert all(weight.grad.isfinite().all() for weight in net.parameters() if weight.numel())


def test_gradients_stop_at_episode_and_sequence_ends():
    net = network(categorical=6, memory="gru", double=True)
    obs, fresh = rows(net, C, 1).requires_grad_(), torch.zeros(C, 1, dtype=torch.bool)
    fresh[3] = True
    start = torch.rand(1, net.memory_size).double()
    net.value(whole(net, obs, fresh, start))[-1].backward()
    reached = obs.grad.abs().sum(-1).squeeze(-1) > 0
    assert reached.tolist() == [False] * 3 + [True] * (C - 3)


def test_recurrent_network_rejects_rows():
    net = network(categorical=6, memory="lstm")
    assert net.memory_size == 4 * HIDDEN
    for call in (net.act, net.value, lambda obs: net.evaluate(obs, torch.zeros(2, 1))):
        with pytest.raises(ValueError, match="has a memory, lstm; pass Sequences, or call step"):
            call(rows(net, 2))


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_every_role_has_own_networks(memory):
    options = {"continuous": 1, "categorical": 6, "memory": memory, "double": True}
    net = network(roles=(0, 1, 0), **options)
    obs = rows(net, C, B)
    fresh = torch.zeros(C, B, dtype=torch.bool)
    obs[4:, 0, -1], fresh[4, 0] = 1.0, True  # the seat of a lane may change with an episode
    with torch.no_grad():
        net.log_std.copy_(torch.tensor([[-0.5], [-1.5]]))
    actions = torch.rand(C * B, 2).round().double() * 0.0
    log_prob, entropy = net.evaluate(whole(net, obs, fresh), actions)
    values, _ = net.values(whole(net, obs, fresh), obs[0, :0], torch.zeros(0, dtype=torch.int64))
    for role in range(2):
        single = network(**options)
        for half in ("actor", "critic"):
            getattr(single, half)[0].load_state_dict(getattr(net, half)[role].state_dict())
        single.log_std.data.copy_(net.log_std[role])
        own = obs[..., -1].flatten() == role
        alone = whole(single, obs[..., :-1], fresh)
        expected = (*single.evaluate(alone, actions), single.value(alone))
        for mixed, plain in zip((log_prob, entropy, values), expected, strict=True):
            torch.testing.assert_close(mixed[own], plain[own])


def test_every_weight_has_gradient_if_role_is_absent():
    net = network(categorical=6, roles=(0, 1), picture=BOARD, memory="gru")
    obs = rows(net, C, B)
    obs[..., -1] = 1.0
    log_prob, _ = net.evaluate(whole(net, obs), torch.zeros(C * B, 1))
    (log_prob.sum() + net.value(whole(net, obs)).sum()).backward()
    assert all(weight.grad is not None for weight in net.parameters() if weight.numel())
    assert all(not weight.grad.any() for weight in net.actor[0].parameters())


def test_unknown_role_is_rejected():
    net = network(categorical=6, roles=(0, 1))
    obs = rows(net, 4)
    obs[2, -1] = 2.0
    with pytest.raises(ValueError, match="the role column has other values than the roles 0 to 1"):
        net.value(obs)


def reference_encoder(name, weights, pixels):
    """Return the convolutions in torch.nn, on pixels [N, channels, height, width]."""
    weights = iter(weights)

    def conv(x, **options):
        return nn.functional.conv2d(x, next(weights), next(weights), **options)

    if name == "nature":
        for stride in (4, 2, 1):
            pixels = conv(pixels, stride=stride).relu()
    if name == "small":
        for stride in (1, 2, 2) if max(pixels.shape[2:]) > 20 else (1, 1, 1):
            pixels = conv(pixels, stride=stride, padding=1).relu()
    if name == "impala":
        for _ in range(3):
            pixels = nn.functional.max_pool2d(conv(pixels, padding=1), 3, 2, 1)
            for _ in range(2):
                pixels = pixels + conv(conv(pixels.relu(), padding=1).relu(), padding=1)
        pixels = pixels.relu()
    return pixels.flatten(1)


@pytest.mark.parametrize(
    ("encoder", "chosen", "side", "size"),
    [
        ("auto", "nature", 36, 64),
        ("nature", "nature", 84, 64 * 49),
        ("impala", "impala", 84, 32 * 121),
        ("impala", "impala", 7, 32),
        ("auto", "small", 35, 64 * 81),
        ("auto", "small", 8, 64 * 64),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_images_use_nature_cnn_convolutions(encoder, chosen, side, size, first):
    picture = [1, side, side, 3, first]
    features = 1 + side * side * 3 + 2
    net = network(categorical=3, encoder=encoder, picture=picture, features=features)
    assert net.config.encoder == net.shape["encoder"] == chosen
    obs = rows(net, 2)[:, :features]
    pixels = obs[:, 1:-2].unflatten(1, (3, side, side) if first else (side, side, 3))
    pixels = pixels if first else pixels.permute(0, 3, 1, 2)
    found = net.actor[0].encoder(obs)
    seen = reference_encoder(chosen, net.actor[0].encoder.parameters(), pixels)
    assert seen.shape == (2, size)
    torch.testing.assert_close(found, torch.cat([seen, obs[:, :1], obs[:, -2:]], 1))


@pytest.mark.parametrize("blocks", [0, 2])
@pytest.mark.parametrize("memory", ["none", "gru", "lstm"])
@pytest.mark.parametrize("encoder", ["auto", "impala"])
@pytest.mark.parametrize("options", OPTIONS)
def test_shapes_are_plain_data_and_give_weight_sizes(options, encoder, memory, blocks):
    encoder = encoder if "picture" in options else "auto"
    net = network(encoder=encoder, memory=memory, blocks=blocks, **options)
    shape = json.loads(json.dumps(net.shape))
    check_shape(shape)
    check_weights(shape, net.state_dict())
    twin = build_network(shape, seed=9)
    twin.load_state_dict(net.state_dict())
    assert (twin.shape, twin.memory_size) == (shape, net.memory_size)


def test_other_networks_have_unchanged_shape_keys():
    keys = "obs_dim continuous binary hidden blocks activation log_std_init log_std_min log_std_max"
    assert list(ActorCritic(4, 1, 1, NetworkConfig()).shape) == keys.split()
    assert list(network(categorical=6).shape) == [*keys.split()[:3], "categorical", *keys.split()[3:], "masked"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masked": 1}, "masked"),
        ({"roles": 1}, "roles=1: must be at least 2"),
        ({"obs_dim": 6}, "obs_dim=6: leaves -1 features"),
        ({"picture": [2, 4, 5, 4, 0]}, "must be the start, height, width"),
        ({"picture": [2, 4, 5, 3]}, "must be the start, height, width"),
        ({"encoder": "nature"}, "too small for encoder=nature"),
        ({"encoder": "auto"}, "must be the selected encoder"),
        ({"memory": "rnn"}, "memory='rnn'|memory=rnn"),
        ({"gsde": True}, "gsde"),
    ],
)
def test_invalid_stored_shapes_are_rejected(change, message):
    shape = network(categorical=6, roles=(0, 1), picture=BOARD).shape
    check_shape(shape)
    with pytest.raises((ContentError, ConfigError), match=message):
        check_shape(shape | change)


def test_seat_keys_are_rejected_in_other_shapes():
    plain = ActorCritic(4, 1, 1, NetworkConfig()).shape
    for key, value in (("roles", 2), ("picture", [0, 1, 1, 1, 0]), ("memory", "gru"), ("encoder", "small")):
        with pytest.raises(ContentError, match=f"{key}: not a key of this network family"):
            check_shape(plain | {key: value})


def test_image_is_accepted_as_flat_numbers(tmp_path):
    seen = contract(categorical=6, picture=BOARD) | {"version": 1, "kwargs": {}}
    shape = shape_for(seen, NetworkConfig(hidden=8, encoder="none"))
    assert not {"picture", "encoder"} & shape.keys()
    save_checkpoint(tmp_path / "flat.pt", build_network(shape), contract=seen, training={})
    assert load_checkpoint(tmp_path / "flat.pt").network.shape == shape
    convolving = shape_for(seen, NetworkConfig(hidden=8))
    with pytest.raises(ContentError, match="encoder=none: must be the selected encoder"):
        check_shape(convolving | {"encoder": "none"})
    net = build_network(convolving)
    with pytest.raises(CheckpointError, match=r"picture is None in the contract, .* in the network"):
        save_checkpoint(tmp_path / "other.pt", net, contract=seen | {"picture": []}, training={})


def test_options_unsuited_to_game_are_rejected():
    for options, config, message in (
        ({"categorical": 6}, {"encoder": "impala"}, "network.encoder=impala: .* does not provide a picture; leave"),
        ({"categorical": 6, "picture": BOARD}, {"encoder": "nature"}, "at least 36 x 36, .* has 4 x 5; choose small"),
        ({"continuous": 1}, {"gsde": True}, "network.gsde=true"),
    ):
        with pytest.raises(ConfigError, match=message):
            shape_for(contract(**options), NetworkConfig(**config))


def test_weights_depend_on_seed_only():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    options = {"categorical": 6, "picture": BOARD, "memory": "lstm", "roles": (0, 1)}
    one, same, other = (network(seed=seed, **options).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["actor.0.encoder.layers.0.weight"], other["actor.0.encoder.layers.0.weight"])
    assert not torch.equal(one["actor.0.head.weight"], one["actor.1.head.weight"])
    square = one["actor.0.memory.weight_hh"][:HIDDEN]
    torch.testing.assert_close(square @ square.T, torch.eye(HIDDEN))


def test_memory_stays_full_precision_under_autocast():
    net = network(categorical=6, memory="gru")
    obs = rows(net, C, B)
    with torch.autocast("cpu", torch.bfloat16):
        log_prob, _ = net.evaluate(whole(net, obs), torch.zeros(C * B, 1))
        _, _, memory = net.step(obs[0], torch.zeros(B, net.memory_size))
        values = net.value(whole(net, obs))
    assert log_prob.dtype == memory.dtype == values.dtype == torch.float32
    log_prob.sum().backward()


def test_acting_alone_keeps_critic_memory():
    net = network(categorical=6, memory="lstm")
    obs, memory = rows(net, 4), torch.rand(4, net.memory_size)
    both, alone = (net.step(obs, memory, deterministic=True, critic=critic) for critic in (True, False))
    own = net.memory_size // 2
    torch.testing.assert_close(alone[:2], both[:2])
    torch.testing.assert_close(alone[2], torch.cat([both[2][:, :own], memory[:, own:]], 1))
    assert not torch.equal(both[2][:, own:], memory[:, own:])


@pytest.mark.parametrize("change", [{"masked": False}, {"roles": [0, 1]}])
def test_checkpoint_with_other_network_in_contract_is_rejected(change, tmp_path):
    net, given = network(categorical=6), contract(categorical=6) | {"version": 1, "kwargs": {}}
    save_checkpoint(tmp_path / "final.pt", net, contract=given, training={})
    assert load_checkpoint(tmp_path / "final.pt").network.shape == net.shape
    with pytest.raises(CheckpointError, match=f"{next(iter(change))} is .* in the contract, .* in the network"):
        save_checkpoint(tmp_path / "other.pt", net, contract=given | change, training={})


@pytest.mark.parametrize(
    ("side", "encoder"), [(8, "none"), (15, "none"), (16, "small"), (35, "small"), (36, "nature"), (84, "nature")]
)
def test_by_size_uses_convolutions_for_large_images_only(side, encoder):
    seen = {"id": "x:y", "obs_dim": side * side, "continuous": 0, "binary": 0, "categorical": 3}
    seen |= {"masked": False, "roles": [0, 0], "picture": [0, side, side, 1, 0]}
    shape = shape_for(seen, NetworkConfig(hidden=8, encoder="by_size"))
    assert shape.get("encoder", "none") == encoder
    assert ("picture" in shape) == (encoder != "none")
    assert shape == shape_for(seen, NetworkConfig(hidden=8, encoder=encoder))
    assert shape_for(seen, NetworkConfig(hidden=8)).get("encoder") == ("nature" if side >= 36 else "small")
