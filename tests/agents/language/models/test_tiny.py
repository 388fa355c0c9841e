"""Our small models: Llama's shape, first weights that depend on the seed alone, and a tokenizer with a token a word,
nothing lost, and lines that stay apart, so that constraints over tokens are exact. The released one is whole, small,
and plays about as its page says: it has learned DumbBot's orders.
"""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")


from sparring.agents.language.cloning.dataset import CloneDataset
from sparring.agents.language.cloning.held_out import HeldOut
from sparring.agents.language.models.load import TINY, load_model
from sparring.agents.language.models.saved_model import verify_model
from sparring.agents.language.models.tiny import WORD, build_tiny, game_tokenizer, tiny_config
from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.prompts.prompts import render
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.demonstrations import NUMBERS, BotGames, kinds_of_prompts
from tests.envs.diplomacy.prompts.asking import draw, random_decisions

SMALL = {"hidden": 32, "layers": 2, "heads": 2}
MOST_BYTES = 10_000_000
TAGS = ("<orders>", "</orders>")
TOKENIZER = game_tokenizer("diplomacy")


def encode(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def decode(ids):
    return TOKENIZER.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("space", ["", " "])
def test_every_domain_word_is_one_token(space):
    verbs = ["H", "-", "S", "C", "R", "D", "B", "VIA", "A", "F", "WAIVE"]
    words = [*standard_board().locations, *POWERS, *verbs, *map(str, NUMBERS)]
    assert {word for word in words if len(encode(space + word)) != 1} == set()
    assert max(NUMBERS) == 1940


def test_line_ends_tags_and_special_tokens():
    assert [len(encode(text)) for text in ("\n", *TAGS)] == [1, 1, 1]
    special = [TOKENIZER.pad_token_id, TOKENIZER.bos_token_id, TOKENIZER.eos_token_id]
    assert len({*special, *encode("\n"), *encode(TAGS[0]), *encode(TAGS[1])}) == 6
    assert encode("A PAR") == TOKENIZER("A PAR")["input_ids"]  # nothing is added of its own accord
    assert 500 <= len(TOKENIZER) <= 1000


@given(st.text())
def test_any_text_round_trips(text):
    assert decode(encode(text)) == text


def test_lines_encode_identically_alone_and_together():
    rng, joint = np.random.default_rng(7), 0
    for _, choices, _ in random_decisions(games=7, last_year=1904):
        chosen = draw(choices, rng)
        alone = [token for option in chosen for token in encode(f"{option.text}\n")]
        whole = encode(f"<orders>\n{DIPLOMACY_TEXT.write(chosen)}")
        assert whole == [*encode("<orders>\n"), *alone, *encode("</orders>")]
        assert encode(decode(whole)) == whole
        joint += 1
    assert joint >= 500


def test_game_prompts_and_answers_use_one_token_per_word():
    """Games outside the vocabulary's corpus; only numbers above 99 take one token per byte."""
    rng = np.random.default_rng(8)
    for row, choices, _ in random_decisions(games=1, last_year=1906, seed=99):
        texts = [render(row, choices.power, choices, rules, last_year=1920) for rules in kinds_of_prompts()]
        for text in [*texts, DIPLOMACY_TEXT.write(draw(choices, rng))]:
            pieces = re.findall(WORD, re.sub("</?orders>", "\n", text))
            rare = [piece for piece in pieces if piece.strip().isdigit() and int(piece) not in NUMBERS]
            assert len(encode(text)) == len(pieces) - len(rare) + sum(map(len, rare))


def test_compact_prompt_is_short():
    sizes = [
        len(encode(render(row, choices.power, choices, next(kinds_of_prompts()), last_year=1910)))
        for row, choices, _ in random_decisions(games=1, last_year=1907)
    ]
    assert max(sizes) < 250


def test_seed_determines_weights_without_global_draws():
    before = torch.get_rng_state()
    one, same, other = (build_tiny(game_tokenizer("diplomacy"), **SMALL, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [model.model.layers[0].mlp.up_proj.weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_model_has_every_layer_named_by_adapters():
    model = build_tiny(game_tokenizer("diplomacy"), **SMALL, seed=0)
    names = {name.rsplit(".", 2)[-2] for name, _ in model.named_parameters()}
    assert {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"} <= names
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize(("hidden", "layers", "heads", "millions"), [(128, 4, 4, 0.9), (256, 4, 4, 3.4)])
def test_parameter_count_follows_from_shape(hidden, layers, heads, millions):
    config = tiny_config(game_tokenizer("diplomacy"), hidden=hidden, layers=layers, heads=heads)
    per_layer = 4 * hidden**2 + 3 * hidden * config.intermediate_size
    total = layers * per_layer + config.vocab_size * hidden
    assert config.intermediate_size % 8 == 0
    assert total / 1e6 == pytest.approx(millions, rel=0.05)


def test_released_files_match_manifest_and_are_small():
    training = verify_model(TINY)
    assert training["config"]["clone"]["bot"] == "dumbbot"
    assert sum(path.stat().st_size for path in TINY.iterdir()) < MOST_BYTES


def test_released_tokenizer_matches_current_code():
    """Otherwise prompts would mean something else than in the model's training."""
    _, tokenizer = load_model(LanguageModelConfig(name="tiny"))
    assert tokenizer.get_vocab() == game_tokenizer("diplomacy").get_vocab()


def test_released_model_matches_bot_in_unseen_games():
    """More than half of its orders match."""
    model, tokenizer = load_model(LanguageModelConfig(name="tiny"))
    games = BotGames(8, bot="dumbbot", last_year=1910, seed=77)
    found = HeldOut(CloneDataset(games, tokenizer), tokenizer, DIPLOMACY_TEXT).check(model)
    games.close()
    assert found["eval/held_out/accuracy"] > 0.48
    assert found["eval/held_out/order_loss"] < 1.6
