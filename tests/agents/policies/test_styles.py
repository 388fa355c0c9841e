"""Networks with styles: a style as a plain network, and the style drawn per match."""

import pytest
import torch

from sparring.agents.policies.actor_critic import MIXTURE, ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.policies.policy import Policy, PolicyError
from sparring.agents.policies.styles import (
    likeliest_style,
    plain_network,
    style_columns,
    style_weights,
    with_styles,
)
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.session import NetworkConfig
from sparring.envs.dogfight.batch import DogfightBatch, MatchSettings
from sparring.envs.dogfight.training.matches import play

STYLES = 3
CONTRACT = DogfightBatch(1).contract | {"mirror": True}
OBS = torch.randn(64, CONTRACT["obs_dim"], generator=torch.Generator().manual_seed(5))


def styled(mixture=(0.2, 0.0, 0.8), blocks=0):
    network = build_network(shape_for(CONTRACT, NetworkConfig(hidden=16, styles=STYLES, blocks=blocks)), seed=1)
    network.get_buffer(MIXTURE).copy_(torch.tensor(mixture))
    with torch.no_grad():
        network.actor[-1].weight.mul_(100.0)  # actions that differ
    return network


@pytest.mark.parametrize("blocks", [0, 1])
@pytest.mark.parametrize("style", range(STYLES))
def test_style_is_plain_network(style, blocks):
    network = styled(blocks=blocks)
    plain, columns = plain_network(network, style), style_columns(torch.full((64, 1), style + 1.0), STYLES)
    rows = torch.cat([OBS, columns], dim=1)
    torch.testing.assert_close(plain.act(OBS, deterministic=True)[0], network.act(rows, deterministic=True)[0])
    torch.testing.assert_close(plain.value(OBS), network.value(rows))
    assert "styles" not in plain.shape
    other = plain_network(network, (style + 1) % STYLES)
    assert not torch.allclose(plain.act(OBS, deterministic=True)[0], other.act(OBS, deterministic=True)[0])


def test_plain_network_plays_as_before_in_all_styles():
    plain = plain_network(styled(), 0)
    network = styled()
    network.load_state_dict(with_styles(plain.state_dict(), STYLES))
    for style in range(STYLES):
        alone = plain_network(network, style)
        assert torch.equal(alone.act(OBS, deterministic=True)[0], plain.act(OBS, deterministic=True)[0])
    assert style_weights(plain.state_dict(), 2).keys() == plain.state_dict().keys()
    assert likeliest_style(styled().state_dict()) == 2
    assert likeliest_style(plain.state_dict()) == 0


def test_policy_draws_style_per_match_and_keeps_it():
    policy = Policy(styled(), CONTRACT)
    many = OBS[:1].repeat(20000, 1)
    _, memory = policy.step(many, torch.zeros(20000, 1))
    share = torch.bincount(memory.squeeze(1).long(), minlength=STYLES + 1) / 20000
    assert share.tolist() == pytest.approx([0.0, 0.2, 0.0, 0.8], abs=0.01)
    _, after = policy.step(many, memory)
    assert torch.equal(after, memory)
    ended = memory.clone()
    ended[::2] = 0.0
    _, fresh = policy.step(many, ended)
    assert torch.equal(fresh[1::2], memory[1::2])
    assert not torch.equal(fresh[::2], memory[::2])


def test_actions_match_drawn_style():
    network = styled()
    policy = Policy(network, CONTRACT)
    for style in range(STYLES):
        alone = Policy(plain_network(network, style), CONTRACT)
        actions, memory = policy.step(OBS, torch.full((64, 1), style + 1.0))
        torch.testing.assert_close(actions, alone.act(OBS))
        assert (memory == style + 1.0).all()


def test_equal_seeds_repeat_and_single_style_mixture_is_that_style():
    setting = MatchSettings(threads=1, max_ticks=1200)
    twice = [play(Policy(styled(), CONTRACT), "ace", games=16, seed=3, setting=setting) for _ in range(2)]
    assert twice[0].outcome.tolist() == twice[1].outcome.tolist()
    assert twice[0].left_hp.tolist() == twice[1].left_hp.tolist()
    pure = play(Policy(styled((0.0, 1.0, 0.0)), CONTRACT), "ace", games=16, seed=3, setting=setting)
    alone = play(Policy(plain_network(styled(), 1), CONTRACT), "ace", games=16, seed=3, setting=setting)
    assert pure.length.tolist() == alone.length.tolist()


def test_caller_without_memory_support_rejects_styles():
    with pytest.raises(PolicyError, match=r"has a memory \(network.styles=3\), which is not supported here"):
        Policy(styled(), CONTRACT).act(OBS)


def test_checkpoint_contains_mixture(tmp_path):
    save_checkpoint(tmp_path / "a.pt", styled(), contract=CONTRACT, training={})
    policy = load_checkpoint(tmp_path / "a.pt")
    assert policy.network.get_buffer(MIXTURE).tolist() == pytest.approx([0.2, 0.0, 0.8])
    assert isinstance(policy.network, ActorCritic)
    assert policy.network.inputs == CONTRACT["obs_dim"] + STYLES


@pytest.mark.parametrize("changes", [{"memory": "gru"}, {}])
def test_other_networks_reject_styles(changes):
    contract = CONTRACT if changes else {**CONTRACT, "id": "CartPole-v1"}
    with pytest.raises(ConfigError, match=r"network\.styles=2: is for the dogfight"):
        shape_for(contract, NetworkConfig(hidden=16, styles=2, **changes))
