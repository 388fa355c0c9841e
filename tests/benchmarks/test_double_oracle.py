"""A merged network plays each member exactly."""

import pytest
import torch

from benchmarks.double_oracle.merge import merged
from sparring.agents.policies.actor_critic import MIXTURE, ActorCritic
from sparring.agents.policies.networks import build_network
from sparring.agents.policies.styles import plain_network, with_styles
from sparring.configs.schema import NetworkConfig


def test_merged_network_style_plays_its_member_exactly():
    first, second, plain = (ActorCritic(5, 2, 1, NetworkConfig(hidden=8, blocks=0), seed=seed) for seed in (1, 2, 3))
    for network in (first, second, plain):
        for bias in (weight for name, weight in network.named_parameters() if name.endswith("bias")):
            torch.nn.init.uniform_(bias, -1.0, 1.0, generator=torch.Generator().manual_seed(6))
    styled = build_network(first.shape | {"styles": 2})
    weights = with_styles(first.state_dict(), 2)
    for trunk in ("actor.0", "critic.0"):
        weights[f"{trunk}.weight"][:, 5:] = torch.randn(8, 2, generator=torch.Generator().manual_seed(4))
    styled.load_state_dict(weights | {MIXTURE: torch.tensor([0.25, 0.75])})
    network = merged([(styled, 0.5), (second, 0.2), (plain, 0.3)], -1.6)
    obs = torch.rand(20, 5, generator=torch.Generator().manual_seed(5)) * 2 - 1
    members = [plain_network(styled, 0), plain_network(styled, 1), second, plain]
    for style, member in enumerate(members):
        one = plain_network(network, style)
        assert one.actor(obs).tolist() == [pytest.approx(row, abs=1e-5) for row in member.actor(obs).tolist()]
        assert one.value(obs).tolist() == pytest.approx(member.value(obs).tolist(), abs=1e-5)
    assert network.get_buffer(MIXTURE).tolist() == pytest.approx([0.125, 0.375, 0.2, 0.3])
    assert network.log_std.tolist() == pytest.approx([-1.6, -1.6])
