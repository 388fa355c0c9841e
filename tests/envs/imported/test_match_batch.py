"""Batches against single matches: results, worker processes, states, and invalid games."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.tensor_file import pack, unpack
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.match import make_match
from tests.envs.imported.games import flat, seed_of

TOYS = "tests.envs.imported.games"
GAMES = {
    "fading": ("pettingzoo", f"{TOYS}:Fading", {}),
    "shuffled": ("pettingzoo", f"{TOYS}:Shuffled", {}),
    "connect_four": ("pettingzoo", "pettingzoo.classic.connect_four_v3", {}),
    "simple_tag": ("pettingzoo", "mpe2.simple_tag_v3", {"max_cycles": 5, "continuous_actions": True}),
    "leduc_poker": ("openspiel", "leduc_poker", {}),
    "goofspiel": ("openspiel", "goofspiel", {"num_cards": 4}),
}
MODULES = {"pettingzoo.classic": "pygame", "mpe2": "mpe2"}


def make(name, num_envs, seed=0, workers=0, **options):
    package, game_id, kwargs = GAMES.get(name, ("pettingzoo", name, options.pop("kwargs", {})))
    if package == "openspiel":
        pytest.importorskip("pyspiel")
    for start, module in MODULES.items():
        if game_id.startswith(start):
            pytest.importorskip(module)
    return make_batch(package, game_id, kwargs, num_envs, seed, workers, **options)


def choose(batch, rng):
    """Return random legal actions [N, S, A] of a batch; NaN where nothing is decided."""
    rows, shape = batch.rows, (batch.num_envs, batch.seats, batch.action_size)
    actions = np.full(shape, np.nan, np.float32)
    for i, seat in np.argwhere(batch.deciding.numpy()):
        if not rows.categorical:
            actions[i, seat] = rng.uniform(-1, 1, shape[2])
            continue
        mask = batch.obs[i, seat, rows.mask].numpy() if rows.masked else np.ones(sum(rows.alternatives))
        for k, (first, size) in enumerate(zip(rows.first, rows.alternatives, strict=True)):
            actions[i, seat, k] = rng.choice(np.flatnonzero(mask[first : first + size]))
    return torch.from_numpy(actions)


def shown(batch):
    """Return copies of everything defined that a batch shows."""
    obs = torch.where(batch.deciding[:, :, None], batch.obs, 0.0)
    final = torch.where(batch.truncated[:, :, None], batch.final_obs, 0.0)
    rest = batch.deciding, batch.reward, batch.terminated, batch.truncated, batch.outcome, batch.length
    return [tensor.clone() for tensor in (obs, final, *rest)]


def run(batch, steps, rng_seed=1):
    rng, rows = np.random.default_rng(rng_seed), []
    for _ in range(steps):
        batch.step(choose(batch, rng))
        rows.append(shown(batch))
    return rows


def same(a, b):
    return all(torch.equal(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize("name", GAMES)
def test_batch_equals_single_matches(name):
    batch = make(name, 3, seed=4)
    rows, rng = batch.rows, np.random.default_rng(0)
    matches, episodes = [make_match(*GAMES[name]) for _ in range(3)], [0, 0, 0]
    totals, length, ended = np.zeros((3, batch.seats)), [0, 0, 0], 0
    for i, match in enumerate(matches):
        match.reset(seed_of(4, i, 0))
    for _ in range(60):
        for i, match in enumerate(matches):
            assert np.flatnonzero(batch.deciding[i]).tolist() == match.deciding()
            for seat in match.deciding():
                row, seen = batch.obs[i, seat].numpy(), flat(match, seat)
                np.testing.assert_array_equal(row[: len(seen)], seen)
                assert not row[len(seen) : rows.features].any()
                role = [rows.roles[seat]] if max(rows.roles) else []
                assert row[rows.mask.stop :].tolist() == role
                if match.mask(seat) is not None:
                    own = row[rows._own_columns[seat]]
                    assert own.tolist() == [float(one) for one in match.mask(seat)]
        actions = choose(batch, rng)
        by_seat = rows.to_actions(actions.numpy())
        batch.step(actions)
        for i, match in enumerate(matches):
            before = match.terminated | match.truncated
            match.step({seat: by_seat[seat][i] for seat in match.deciding()})
            totals[i] += match.rewards
            length[i] += 1
            np.testing.assert_array_equal(batch.reward[i], match.rewards.astype(np.float32))
            np.testing.assert_array_equal(batch.terminated[i], match.terminated & ~before)
            np.testing.assert_array_equal(batch.truncated[i], match.truncated & ~before)
            for seat in np.flatnonzero(batch.truncated[i]):
                seen = flat(match, seat)
                np.testing.assert_array_equal(batch.final_obs[i, seat, : len(seen)], seen)
            if match.over:
                lead = np.isclose(totals[i], totals[i].max(), rtol=1e-9)
                bits = 0 if lead.all() else sum(1 << int(seat) for seat in np.flatnonzero(lead))
                assert (batch.outcome[i], batch.length[i]) == (bits, length[i])
                ended, episodes[i] = ended + 1, episodes[i] + 1
                totals[i], length[i] = 0.0, 0
                match.reset(seed_of(4, i, episodes[i]))
            else:
                assert (batch.outcome[i], batch.length[i]) == (-1, 0)
    assert ended > 3


@pytest.mark.parametrize("name", ["shuffled", "simple_tag", "leduc_poker"])
def test_workers_and_resumed_states_are_bit_equal(name):
    """A state of two workers resumes in this process, and vice versa."""
    batches = [make(name, 5, 2, workers) for workers in (0, 2)]
    first, second = (run(batch, 11) for batch in batches)
    assert same(first, second)
    states = [unpack(pack(batch.state_dict())) for batch in batches]
    assert pack(states[0]) == pack(states[1])
    onward = run(batches[0], 25, 3)
    for k, batch in enumerate(batches[::-1]):
        run(batch, 3, 9)
        batch.restart(torch.tensor([True, False, True, False, True]))
        batch.load_state_dict(states[k])
        assert batch.unsaved == ""
        assert same(run(batch, 25, 3), onward)
    assert pack(batches[0].state_dict()) == pack(batches[1].state_dict())
    for batch in batches:
        batch.close()


def test_subset_of_matches_plays_like_full_batch():
    whole, share = make("fading", 4, 8), make("fading", 2, 8, first=2)
    assert torch.equal(whole.obs[2:], share.obs)
    assert not torch.equal(whole.obs[:2], share.obs)


def test_restart_starts_new_matches_without_result():
    batch = make("shuffled", 3, 1)
    run(batch, 4)
    left = shown(batch)[0]
    batch.restart(torch.tensor([True, False, True]))
    assert torch.equal(shown(batch)[0][1], left[1])
    assert batch._stepper._moves.tolist() == [0, 4, 0]
    assert batch.match(0).seats == ("a_0", "a_1", "b")
    batch.restart(torch.ones(3, dtype=torch.bool))
    assert batch.state_dict()["actions"].shape == (0, 3, 2)
    assert not batch._stepper._decisions


def test_agents_leaving_without_end_are_terminated():
    batch = make(f"{TOYS}:Faulty", 1, kwargs={"fault": "vanish"})
    run(batch, 1)
    assert batch.terminated.all()
    assert (batch.length.item(), batch.outcome.item() > 0) == (1, True)


def test_non_reproducible_game_is_reported_and_restarted():
    options = {"kwargs": {"fault": "unrepeatable"}}
    batch = make(f"{TOYS}:Faulty", 2, **options)
    run(batch, 2)
    batch.load_state_dict(batch.state_dict())
    assert "2 of 2 matches do not repeat from their seeds and decisions, so they start again" in batch.unsaved
    assert batch._stepper._moves.tolist() == [0, 0]
    run(batch, 6)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"id": "pettingzoo:chess"}, "id: is pettingzoo:chess; must be pettingzoo:tests"),
        ({"moves": torch.ones(3, dtype=torch.int64)}, "moves"),
        ({"actions": torch.zeros(1, 4, 1)}, "actions"),
        ({"episodes": "none"}, "episodes"),
    ],
)
def test_mismatched_states_are_rejected(change, text):
    batch = make("fading", 2)
    run(batch, 2)
    with pytest.raises(InputError, match=text):
        batch.load_state_dict(batch.state_dict() | change)


def test_contract_states_what_policy_must_match():
    contract = make("fading", 1).contract
    rest = {"masked": True, "roles": [0, 0, 0, 1], "picture": [], "kwargs": {}}
    sizes = {"continuous": 0, "binary": 0, "categorical": 3}
    assert contract == {"id": f"pettingzoo:{TOYS}:Fading", "version": 1, "obs_dim": 11, **sizes, **rest}
    shuffled = make("shuffled", 1)
    assert (shuffled.contract["categorical"], shuffled.contract["roles"]) == ([4, 2], [0, 0, 1])
    assert shuffled.obs[0, 2].tolist()[4:] == [1, 1, 1, 1, 1, 0, 1]  # the second choice has one alternative for b
    four = make("connect_four", 1)
    assert (four.contract["picture"], four.contract["categorical"], four.action_size) == ([0, 6, 7, 2, 0], 7, 1)
    tag = make("simple_tag", 1)
    assert (tag.contract["continuous"], tag.contract["masked"], tag.contract["obs_dim"]) == (5, False, 17)
    leduc = make("leduc_poker", 1)
    assert (leduc.contract["id"], leduc.longest_episode, leduc.stat_names) == ("openspiel:leduc_poker", 8, ("length",))


def test_seats_share_policy_by_role():
    apart = make("fading", 1, roles=["boss", "runner_[12]", "runner_0"])
    assert apart.contract["roles"] == [0, 1, 1, 2]  # by their first seats
    assert apart.obs[0, :, -1].tolist() == [0, 1, 1, 2]
    assert make("fading", 1, roles=["runner_0+runner_2", "boss", "runner_1"]).contract["roles"] == [0, 1, 0, 2]
    alone = make("leduc_poker", 1, roles=["player_0", "player_1"])
    together = make("leduc_poker", 1)
    assert (alone.contract["roles"], together.contract["roles"]) == ([0, 1], [0, 0])
    assert alone.contract["obs_dim"] == together.contract["obs_dim"] + 1


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        (
            ["runer_*", "boss"],
            "env.roles=[runer_*,boss]: runer_* is not a seat of this game; it has runner_0, runner_1",
        ),
        (["runner_0", "boss"], "runner_1 is without a policy; add it to one of them, or runner_1 as one of its own"),
        (["runner_*", "runner_2", "boss"], "runner_2 is in runner_* and in runner_2; name it in one of them"),
        (["*"], "runner_0 and boss cannot share a policy: they observe Dict("),
    ],
)
def test_mismatched_roles_are_rejected_in_one_line(roles, text):
    with pytest.raises(ConfigError) as refusal:
        make("fading", 1, roles=roles)
    assert text in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_score_function_determines_result():
    batch = make("fading", 1, outcome=f"{TOYS}:last_scores")
    assert max(rows[6].item() for rows in run(batch, 4)) == 0b1000
    wrong = {"json": "", "json:nothing": "", "no.module:f": "", "json:__name__": "is a str; name a function"}
    for reference, text in wrong.items():
        with pytest.raises(ConfigError, match=f"env.outcome={reference}: {text}"):
            make("fading", 1, outcome=reference)
    with pytest.raises(
        InputError, match=r"bad_scores: returned \[1\.\] for rewards .*a finite score for each of 4 seats"
    ):
        run(make("fading", 1, outcome=f"{TOYS}:bad_scores"), 4)


FAULTS = {
    "raise": "move 1): the game raised KeyError: 'lost\\nkeys', in line 162 of games.py",
    "reward": "move 1): the reward of boss is inf; return finite rewards below 3.4e38",
    "nan": "move 1): boss observes nan in column 1; return finite numbers below 3.4e38",
    "missing": "gives no observation of boss, which acts or has just been cut off",
    "shape": "observes [0. 0. 0.] (float32 array (3,)), outside of Box",
    "stranger": "agent 'stranger' is not among its possible_agents runner_0, runner_1, runner_2, boss",
    "values": "its step does not fit PettingZoo's parallel interface; return 5 mappings of agents",
    "mask_length": "the mask of runner_1 has 4 values; return one for each of its 3 actions",
    "mask_empty": "runner_1 decides and its mask allows no action; allow one, or end the match",
    "mask_values": "the mask of runner_1 holds 0.5; give 1 for legal actions, 0 for others",
    "mask_none": "runner_1 decides without a mask: its observation lacks 'action_mask'",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rule_violation_names_game_seed_and_move(fault):
    batch = make(f"{TOYS}:Faulty", 2, 6, kwargs={"fault": fault})
    with pytest.raises(InputError) as refusal:
        run(batch, 1)
    text = str(refusal.value)
    assert text.startswith(f"env.id={TOYS}:Faulty: match 0 (seed {seed_of(6, 0, 0)}, episode 0, move 1): ")
    assert FAULTS[fault] in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        (f"{TOYS}:Empty", {}, "match 0 (seed 1"),
        (f"{TOYS}:Faulty", {"kwargs": {"fault": "nan", "at": 0}}, "move 0): boss observes nan in column 1"),
        (f"{TOYS}:Two", {"kwargs": {"observed": "two"}}, "observes pictures of 20 x 20 and 20 x 20; one picture"),
        (f"{TOYS}:Two", {"kwargs": {"observed": "roles"}}, "observes pictures of other sizes by role, one of 24 x 20"),
        (f"{TOYS}:Two", {"kwargs": {"observed": "none"}}, "observes only its mask"),
        (f"{TOYS}:Two", {"kwargs": {"acted": "kinds"}}, "its players act by Discrete(2) and by Box"),
        ("fading", {"workers": 3}, "env.workers=3: must be from 0 to 2, the number of matches"),
    ],
)
def test_games_unsuited_to_batches_are_rejected(name, options, text):
    with pytest.raises(InputError) as refusal:
        make(name, 2, **options)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "action", "text"),
    [
        ("connect_four", 7.0, "player_0 chooses 7; give an index from 0 to 6 that its mask allows"),
        ("connect_four", -1.0, "player_0 chooses -1; give"),
        ("connect_four", 0.5, "player_0 chooses 0.5; give"),
        ("connect_four", float("nan"), "player_0 chooses nan; give"),
        ("simple_tag", float("inf"), "adversary_0 acts [inf inf inf inf inf]; give finite numbers"),
        ("fading", 2.0, "boss chooses 2; give an index from 0 to 2 that its mask allows"),
    ],
)
def test_illegal_actions_are_rejected(name, action, text):
    batch = make(name, 1)
    with pytest.raises(InputError) as refusal:
        batch.step(torch.full((1, batch.seats, batch.action_size), action))
    assert text in str(refusal.value)
    with pytest.raises(ValueError, match="actions must be"):
        batch.step(torch.zeros(1, 1, 9))


def test_failed_or_killed_worker_is_reported():
    batch = make(f"{TOYS}:Faulty", 2, 6, workers=2, kwargs={"fault": "raise"})
    with pytest.raises(ConfigError, match="worker processes hold the matches"):
        batch.match(0)
    with pytest.raises(InputError, match=r"Faulty: match 0 \(seed \d+, episode 0, move 1\): the game raised KeyError"):
        run(batch, 1)
    with pytest.raises(InputError, match="it cannot be continued"):
        run(batch, 1)
    batch = make("fading", 4, workers=2)
    batch._stepper._processes[1].kill()
    with pytest.raises(InputError, match="worker 1 of 2, with matches 2 to 3, was ended by signal 9; look for a crash"):
        run(batch, 2)
    batch.close()
