"""Action probabilities of a language model against local and server logits, and as an attack target."""

import sys

import numpy as np
import pytest
import torch

pytest.importorskip("pyspiel")
pytest.importorskip("transformers")

import pyspiel

from sparring.agents.language.backend import CUT, STOP
from sparring.agents.language.decoding.constraint import Constraint, TokenizerError, decode, encode
from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.models import load
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.agents.opponents.players import find_player
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.imported.evaluation.players import state_players
from sparring.envs.openspiel_text import GAME
from sparring.envs.openspiel_text.answers import MOVES
from sparring.envs.openspiel_text.config import REASONING, OpenSpielAnswerConfig
from sparring.envs.openspiel_text.evaluation.models import open_model, open_player
from sparring.envs.openspiel_text.exact import TextDecisions
from sparring.envs.text import FreeText, Option, Prompt
from sparring.envs.text_moves import ActionMenu
from tests.agents.language.asking import PATIENT, server
from tests.agents.language.endpoint import loopback_model
from tests.agents.language.endpoint.loopback_model import byte_tokenizer, made_up_logits
from tests.agents.language.toys import bytes_tokenizer, llama, word_tokenizer

NAMES = ("Bet", "Bid: 1", "Bid: 10", "Bid: 2", "Bets")
MENU = ActionMenu(tuple(Option(name, number, 0) for number, name in enumerate(NAMES)))
PROMPTS = [Prompt(text, MENU, seed) for seed, text in enumerate(("You: 3\n<move>\n", "Your card: King\n<move>\n"))]


def toy(temperature):
    tokenizer = bytes_tokenizer()
    model = llama(tokenizer)
    return TransformersBackend(
        model, tokenizer, constraint=Constraint(tokenizer, MOVES), temperature=temperature, batch_size=3
    )


def by_forks(prompt, logits, tokenizer, temperature):
    """Return each name's probability by hand: a softmax over the tokens possible at each position."""
    lines = {name: encode(tokenizer, [f"{name}\n"])[0] for name in NAMES}
    found = []
    for ids in lines.values():
        total = 0.0
        for place in range(len(ids)):
            allowed = sorted({other[place] for other in lines.values() if other[:place] == ids[:place]})
            scaled = np.array([logits([*prompt, *ids[:place]])[token] for token in allowed]) / temperature
            total += scaled[allowed.index(ids[place])] - np.log(np.exp(scaled).sum())
        found.append(np.exp(total))
    return found


def test_probabilities_match_model_logits():
    backend, tokenizer = toy(0.7), bytes_tokenizer()

    @torch.no_grad()
    def logits(ids):
        return backend._model(input_ids=torch.tensor([ids])).logits[0, -1].double().numpy()

    for prompt, values in zip(PROMPTS, backend.policies(PROMPTS), strict=True):
        assert values == pytest.approx(by_forks(encode(tokenizer, [prompt.text])[0], logits, tokenizer, 0.7), abs=1e-5)
        assert values.sum() == pytest.approx(1.0, abs=1e-9)


def test_other_temperature_keeps_backend_and_zero_is_greedy():
    backend = toy(0.7)
    before = backend.policies(PROMPTS)
    certain = backend.at(0.0).policies(PROMPTS)
    assert [sorted(row) for row in certain] == [[0, 0, 0, 0, 1]] * 2
    hot = backend.at(10.0).policies(PROMPTS)
    assert max(row.max() for row in hot) < max(row.max() for row in before)
    assert all(np.array_equal(a, b) for a, b in zip(before, backend.policies(PROMPTS), strict=True))


def test_only_single_line_menus_have_probabilities():
    with pytest.raises(InputError, match="exact probabilities for one-line menus only"):
        toy(1.0).policies([Prompt("You\n", FreeText(3))])


def test_free_text_at_limit_is_truncated():
    """The bias makes the end token certain, or never drawn."""
    backend, tokenizer = toy(1.0), bytes_tokenizer()
    ends = {decision.finish_reason for decision in backend.decide([Prompt("You\n", FreeText(2), 1)])}
    assert ends == {CUT}
    with torch.no_grad():
        head = backend._model.get_output_embeddings()
        head.weight.zero_()
    texts = backend.decide([Prompt("You\n", FreeText(400), seed) for seed in range(8)])  # one token in 257 is the end
    assert {decision.finish_reason for decision in texts} <= {STOP, CUT}
    for decision in texts:
        ended = int(decision.token_ids[-1]) == tokenizer.eos_token_id and decision.allowed_counts[-1] > 1
        assert (decision.finish_reason == STOP) == ended


def test_tokenizer_that_cannot_write_action_is_rejected():
    with pytest.raises(TokenizerError) as refused:
        Constraint(word_tokenizer(), MOVES)
    assert "tokenizer words" in str(refused.value)
    assert "\n" not in str(refused.value)


def served(host, **options):
    config = EndpointConfig(**{"url": host.url, **PATIENT, **options})
    return EndpointBackend(config, MOVES, temperature=0.8, tokenizer=byte_tokenizer(), first_wait=0.01)


def test_server_probabilities_match_its_logits():
    tokenizer = byte_tokenizer()
    with server() as host:
        backend = served(host)
        assert backend.exact, backend.why_inexact
        found = backend.policies(PROMPTS)
        backend.close()
    for prompt, values in zip(PROMPTS, found, strict=True):
        ids = encode(tokenizer, [prompt.text])[0]
        wanted = by_forks(ids, lambda ids: made_up_logits(ids, len(tokenizer)), tokenizer, 0.8)
        assert values == pytest.approx(wanted, abs=1e-6)
        assert decode(tokenizer, ids) == prompt.text


@pytest.mark.parametrize(
    ("quirks", "options", "reason"),
    [
        ([loopback_model.RAW], {}, "do not match the requested temperature"),
        ([loopback_model.NO_IDS], {"structured": "regex"}, "no log-probabilities by token id"),
        ([], {"structured": "none"}, "endpoint.structured=none restricts nothing"),
    ],
)
def test_server_without_exact_log_probs_is_rejected_in_one_line(quirks, options, reason):
    with server(quirks) as host:
        backend = served(host, **options)
        with pytest.raises(InputError) as refused:
            backend.policies(PROMPTS)
        backend.close()
    assert "has no exact probabilities: " in str(refused.value)
    assert reason in str(refused.value)
    assert str(refused.value).endswith("; sample answers in free text")


def test_truncated_server_text_is_reported():
    with server() as host:
        backend = served(host, structured="none")
        (decision,) = backend.decide([Prompt("You\n", FreeText(1), 1)])
        backend.close()
    assert decision.finish_reason == CUT


def test_language_model_is_target_with_exact_policy(monkeypatch):
    """`sparring exploit tiny --id kuhn_poker` measures the same policy as `eval/run.py --exact`."""
    game = pyspiel.load_game("kuhn_poker")
    player = state_players.open_player("tiny", game)
    player.replay(game)
    decisions = TextDecisions.of("kuhn_poker", {}, OpenSpielAnswerConfig())
    table = state_players.table_of(decisions.tree, player)
    exact = decisions.exact(open_player("tiny").backend.policies)
    assert table == pytest.approx(exact, abs=1e-6)
    assert decisions.tree.exploitability(table) == pytest.approx(0.4453, abs=1e-3)


def test_other_players_are_left_to_other_openers():
    for text in ("no-such-run", "random", "bot:random", "http://127.0.0.1:1/act", "released/dogfight_strong"):
        assert state_players.text_game_of(text) is None


def test_bot_is_opened_as_uniform_play():
    decisions = TextDecisions.of("kuhn_poker", {}, OpenSpielAnswerConfig())
    rows = open_player("bot:random")(decisions.tree.states)
    assert [sorted(row.values()) for row in rows] == [[0.5, 0.5]] * 12


def test_reasoning_prompts_ask_for_move_on_last_line():
    (prompt, *_) = TextDecisions.of("kuhn_poker", {}, OpenSpielAnswerConfig(REASONING, 7)).prompts
    assert prompt.menu.tokens == 7
    assert prompt.text.endswith("Then write your move, as it is in this list, alone on the last line.\n")


def test_missing_package_is_named_before_its_import(monkeypatch):
    monkeypatch.setattr(load, "PACKAGES", ("absent_package",))
    monkeypatch.setitem(sys.modules, "sparring.agents.language.models.adapters", None)
    with pytest.raises(InputError, match=r"need the package absent_package: run `sparring install llm`"):
        open_model(find_player("tiny", GAME), device="cpu", temperature=0.0)
