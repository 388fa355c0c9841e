"""The order network with sequential units: visible information, and agreement of both computations.

In all phases: sets of adjustments have the probabilities of the formula, by enumeration.
"""

from itertools import product

import pytest
import torch

from sparring.configs.schema import NetworkConfig
from sparring.envs.diplomacy.batch import opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES
from sparring.envs.diplomacy.training.order_network import (
    ENTERS,
    ENTRY_HELPED,
    LEAVES,
    STAY_HELPED,
    STAYS,
    OrderNetwork,
    Units,
    after_choices,
    chosen_adjustments,
    events_of,
    order_weight_sizes,
)

UNITS = 3
"""Of Austria, and of all powers but Russia, in the opening."""


@pytest.fixture(scope="module")
def obs():
    state = {name: values.repeat(7, *[1] * (values.dim() - 1)) for name, values in opening().items()}
    return observe(state, torch.arange(7), last_year=1910).flatten(1)


def network(**options):
    made = OrderNetwork(NetworkConfig(hidden=8, blocks=1, **options), seed=1)
    with torch.no_grad():  # so that what a unit is told matters from the start
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    return made


@pytest.mark.parametrize("deterministic", [True, False])
def test_sequential_order_probability_matches_parallel(obs, deterministic):
    policy = network(in_turn=True)
    choices, log_prob = policy.act(obs, deterministic=deterministic, generator=torch.Generator().manual_seed(0))
    again, entropy = policy.evaluate(obs, choices)
    assert torch.allclose(log_prob, again, atol=1e-5)
    assert (entropy > 0).all()


def test_unit_sees_only_preceding_orders(obs):
    policy = network(in_turn=True)
    choices = policy.act(obs, deterministic=True)[0].long()
    before, _ = policy.log_probs(obs, choices)
    legal = before[0, 1] > -1e8
    other = next(choice for choice in range(len(legal)) if legal[choice] and choice != choices[0, 1])
    changed = choices.clone()
    changed[0, 1] = other
    after, _ = policy.log_probs(obs, changed)
    same = (before == after).all(-1)
    assert same[1:].all()
    assert same[0, :2].all()
    assert not same[0, 2]
    apart, _ = network().log_probs(obs, choices)
    assert torch.equal(apart, network().log_probs(obs, changed)[0])


def test_order_events_by_hand():
    """Units in 2 and 5: a move 2 - 7 supported by 5, then two that stay, one supporting the other."""
    places = torch.tensor([[2, 5], [2, 5]])
    targets = torch.zeros(2, 2, 2 * SIDES, dtype=torch.long)
    targets[0, 0, 3], targets[0, 1, SIDES + 4], targets[1, 1, SIDES + 1] = 7, 7, 2
    choices = torch.tensor([[1 + 3, 1 + 2 * SIDES + 4], [0, 1 + SIDES + 1]])
    events = events_of(choices, places, targets, torch.ones(2, 2, dtype=torch.bool))
    expected = torch.zeros_like(events)
    for game, unit, province, event in (
        *((0, 0, 7, ENTERS), (0, 0, 2, LEAVES), (0, 1, 7, ENTRY_HELPED), (0, 1, 5, STAYS)),
        *((1, 0, 2, STAYS), (1, 1, 2, STAY_HELPED), (1, 1, 5, STAYS)),
    ):
        expected[game, unit, province, event] = 1
    assert torch.equal(events, expected)
    assert not events_of(choices, places, targets, torch.zeros(2, 2, dtype=torch.bool)).any()


def test_network_without_turns_keeps_weights(obs):
    plain, turning = (OrderNetwork(NetworkConfig(hidden=8, blocks=2, in_turn=on), seed=3) for on in (False, True))
    assert all(torch.equal(turning.state_dict()[name], weight) for name, weight in plain.state_dict().items())
    assert "in_turn" not in plain.shape
    assert turning.shape["in_turn"] is True
    sizes = {name: tuple(weight.shape) for name, weight in turning.state_dict().items()}
    assert dict(order_weight_sizes(8, 2, in_turn=True)) == sizes


ENTRIES = 5


def winter(*, due, exact, scores):
    """Return one power in winter with `ENTRIES` entries of 1 to 3 choices besides 0, or of 1; and log-probabilities."""
    present = torch.arange(7).unsqueeze(0) < ENTRIES
    legal = torch.zeros(1, 7, CHOICES, dtype=torch.bool)
    legal[..., 0] = True
    for entry in range(ENTRIES):
        legal[0, entry, 1 : 2 if exact else 2 + entry % 3] = True
    places, targets = torch.zeros(1, 7, dtype=torch.int64), torch.zeros(1, 7, 2 * SIDES, dtype=torch.int64)
    units = Units(places, targets, legal, present, torch.full((1, 7), due), torch.full((1, 7), exact))
    return units, scores.masked_fill(~legal, -1e9).log_softmax(-1)


def sets_of(units, *, due, exact):
    """Return all legal adjustments int64 [n, 7]."""
    options = [range(int(number)) for number in units.legal[0].sum(-1)]
    fits = (lambda acts: acts == due) if exact else (lambda acts: acts <= due)
    return torch.tensor([chosen for chosen in product(*options) if fits(sum(choice > 0 for choice in chosen))])


@pytest.mark.parametrize(
    ("due", "exact"), [(0, False), (1, False), (3, False), (5, False), (1, True), (3, True), (5, True)]
)
def test_adjustment_set_probabilities_match_formula(due, exact):
    scores = 2.0 * torch.randn(1, 7, CHOICES, generator=torch.Generator().manual_seed(due))
    units, log_probs = winter(due=due, exact=exact, scores=scores)
    sets = sets_of(units, due=due, exact=exact)
    many = Units(*(values.expand(len(sets), *values.shape[1:]) for values in units))
    apart = log_probs.expand(len(sets), -1, -1)
    conditional = after_choices(apart, sets, many)
    joint = conditional.gather(2, sets.unsqueeze(-1)).squeeze(-1).sum(1)
    weights = apart.gather(2, sets.unsqueeze(-1)).squeeze(-1).sum(1)
    assert float(joint.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    torch.testing.assert_close(joint, weights.log_softmax(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(conditional.exp().sum(-1), torch.ones(len(sets), 7))
    likeliest = chosen_adjustments(log_probs, torch.zeros(1, 7, dtype=torch.int64), units, None)
    assert torch.equal(likeliest[0], sets[weights.argmax()])


@pytest.mark.parametrize(("due", "exact"), [(2, False), (2, True)])
def test_adjustments_are_drawn_by_probability(due, exact):
    draws, generator = 20_000, torch.Generator().manual_seed(0)
    units, log_probs = winter(due=due, exact=exact, scores=torch.randn(1, 7, CHOICES, generator=generator))
    sets = sets_of(units, due=due, exact=exact)
    many = Units(*(values.expand(draws, *values.shape[1:]) for values in units))
    apart = log_probs.expand(draws, -1, -1)
    noise = -(-torch.rand(apart.shape, generator=generator).clamp_min(1e-20).log()).clamp_min(1e-20).log()
    drawn = chosen_adjustments(apart, torch.zeros(draws, 7, dtype=torch.int64), many, noise)
    which = (drawn.unsqueeze(1) == sets).all(-1)
    assert which.any(1).all(), "only legal sets"
    weights = log_probs.expand(len(sets), -1, -1).gather(2, sets.unsqueeze(-1)).squeeze(-1).sum(1).softmax(0)
    shares = which.float().mean(0)
    assert ((shares - weights).abs() < 5 * (weights / draws).sqrt() + 1e-4).all()


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("deterministic", [True, False])
def test_played_phase_probability_matches_parallel(deterministic, in_turn):
    """Covers winters with builds and disbands, and a spring: the opening with other clocks and owners."""
    policy = network(in_turn=in_turn, all_phases=True)
    state = {name: values.repeat(21, *[1] * (values.dim() - 1)) for name, values in opening().items()}
    state["phase"][7:] = codes.WINTER
    state["owner"][14:] = -1  # without centres all units disband
    state["units"][7:14, ::2] = 0  # with fewer units there is room at home
    obs = observe(state, torch.arange(21) % 7, last_year=1910, retreats=True).flatten(1)
    units = policy._units(obs)
    assert units.exact[14:].all()
    assert (units.due[7:14, 0] > 0).any()
    choices, log_prob = policy.act(obs, deterministic=deterministic, generator=torch.Generator().manual_seed(0))
    again, entropy = policy.evaluate(obs, choices)
    torch.testing.assert_close(again, log_prob, atol=1e-5, rtol=1e-5)
    assert (choices[14:].sum(1) == units.present[14:].sum(1)).all()
    assert ((choices[7:14] > 0).sum(1) <= units.due[7:14, 0]).all()
    assert (entropy >= -1e-6).all()
    again.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in policy.actor.parameters())


def test_all_phase_policy_has_own_shape():
    plain, every = (OrderNetwork(NetworkConfig(hidden=8, blocks=1, all_phases=on), seed=3) for on in (False, True))
    assert "all_phases" not in plain.shape
    assert (plain.shape["obs_dim"], every.shape["obs_dim"]) == (75 * 62, 75 * 74)
    sizes = {name: tuple(weight.shape) for name, weight in every.state_dict().items()}
    assert dict(order_weight_sizes(8, 1, all_phases=True)) == sizes
