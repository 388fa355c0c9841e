"""The constraint allows every legal joint order by exactly one token path, and nothing else."""

import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sparring.agents.language.decoding.constraint import Constraint, LineTokens, TokenizerError, Walks, encode
from sparring.envs.diplomacy.orders.completion import CLOSING
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.toys import WORDS, by_kind, menu_of, random_choices, word_tokenizer


@pytest.fixture(scope="module")
def constraint():
    return Constraint(word_tokenizer(), DIPLOMACY_TEXT)


def sequences(asked):
    """Return all legal answers as text, by walking the menus."""
    found = [((), -1)]
    for line in range(asked.lines):
        found = [((*texts, option.text), option.slot) for texts, last in found for option in asked.menu(line, last)]
    return ["".join(f"{text}\n" for text in texts) for texts, _ in found]


def paths(automaton, state):
    """Return all token sequences from a state to the end, one per path."""
    start, count = state
    if not count:
        return [()]
    found = []
    for edge in range(start, start + count):
        after = paths(automaton, (automaton.start[edge], automaton.count[edge]))
        found += [(int(automaton.token[edge]), *rest) for rest in after]
    return found


def walk(automaton, which, rng):
    """Return random answers to some of the choices."""
    walks = Walks(automaton, which)
    while len(rows := np.flatnonzero(walks.count)):
        edges, row = walks.allowed(rows)
        draws = rng.random(len(edges)) + row * 2
        last = np.append(np.flatnonzero(np.diff(row)), len(row) - 1)
        order = np.argsort(draws)
        walks.take(rows, edges[order][last])
    return walks


MADE_UP = [
    menu_of([["A PAR H", "A PAR - BUR", "A PAR - BUR VIA"], ["F BRE H", "F BRE S A PAR", "F BRE S A PAR - BUR"]], 2, 0),
    menu_of([["A BUD B"], ["A TRI B", "F TRI B"], ["A VIE B"]], 2, 1),
    menu_of([["A BUD B"], ["F TRI B"]], 3, 1),
    menu_of([["A BUD D"], ["A TRI D"], ["A VIE D"], ["A ROM D"]], 3, -1),
    menu_of([["A BUD D"]], 1, -1),
    menu_of([], 0, 0),
]


@pytest.mark.parametrize("asked", MADE_UP)
def test_paths_are_legal_answers_each_once(constraint, asked):
    tokenizer, automaton = word_tokenizer(), constraint.compile([asked])
    expected = [encode(tokenizer, [text + CLOSING])[0] + [tokenizer.eos_token_id] for text in sequences(asked)]
    assert sorted(paths(automaton, automaton.begin[0])) == sorted(map(tuple, expected))


@pytest.mark.parametrize("winter", [0, 1, -1])
def test_small_choices_of_real_positions_are_enumerated(constraint, winter):
    small = [asked for asked in by_kind(winter) if 1 < len(sequences_count(asked)) <= 300][:10]
    assert small
    for asked in small:
        automaton = constraint.compile([asked])
        found = paths(automaton, automaton.begin[0])
        assert len(set(found)) == len(found) == len(set(sequences(asked)))


def sequences_count(asked):
    """Return a sequence as long as the number of answers, without listing too many."""
    size = np.prod([float(len(slot)) for slot in asked.options]) if asked.options else 1
    return sequences(asked) if size <= 300 else range(10**6)


def test_random_walks_are_legal_complete_and_encode_identically(constraint):
    """Ten thousand answers to real positions: options come from the menus, and joined ids equal the text's ids."""
    asked = [asked for _, asked in random_choices()]
    tokenizer, which = word_tokenizer(), np.arange(10_000) % len(asked)
    steps = walk(constraint.compile(asked), which, np.random.default_rng(1)).steps()
    for choices, done in zip((asked[number] for number in which), steps, strict=True):
        last = -1
        assert len(done.chosen) == choices.lines
        for line, option in enumerate(done.chosen):
            assert option in choices.menu(line, last)
            last = option.slot
        text = "".join(f"{option.text}\n" for option in done.chosen) + CLOSING
        assert done.token_ids.tolist() == [*encode(tokenizer, [text])[0], tokenizer.eos_token_id]


def test_replay_allows_sampled_tokens(constraint):
    asked = [choices for _, choices in random_choices() if choices.lines][:60]
    walked = walk(constraint.compile(asked), np.arange(60), np.random.default_rng(2)).steps()
    for choices, done in zip(asked, walked, strict=True):
        again = constraint.replay(choices, done.token_ids)
        assert again.allowed_ids.tolist() == done.allowed_ids.tolist()
        assert again.allowed_counts.tolist() == done.allowed_counts.tolist()
        assert again.chosen == done.chosen


def test_allowed_ids_continue_matching_options(constraint):
    """Independent check: at every step, the next tokens of all answers with the same prefix."""
    for asked in MADE_UP[:4]:
        tokenizer = word_tokenizer()
        answers = [encode(tokenizer, [text + CLOSING])[0] + [tokenizer.eos_token_id] for text in sequences(asked)]
        for answer in answers:
            steps = constraint.replay(asked, answer)
            cuts = np.split(steps.allowed_ids, np.cumsum(steps.allowed_counts)[:-1])
            for place, allowed in enumerate(cuts):
                agree = {other[place] for other in answers if other[:place] == answer[:place]}
                assert allowed.tolist() == sorted(agree)


def test_forced_tokens_are_common_prefix_of_answers(constraint):
    """Computed from the list of answers; afterwards there is a choice, or the answer has ended."""
    tokenizer = word_tokenizer()
    for asked in MADE_UP:
        answers = [encode(tokenizer, [text + CLOSING])[0] + [tokenizer.eos_token_id] for text in sequences(asked)]
        agreed = itertools.takewhile(lambda tokens: len(set(tokens)) == 1, zip(*answers, strict=False))
        common = [tokens[0] for tokens in agreed]
        walks = Walks(constraint.compile([asked]), [0])
        assert [int(tokens[0]) for _, tokens in walks.forced(np.zeros(1, dtype=np.int64))] == common
        assert walks.count[0] == len({answer[len(common)] for answer in answers if len(answer) > len(common)})


def test_replay_rejects_illegal_or_incomplete_tokens(constraint):
    asked, tokenizer = MADE_UP[0], word_tokenizer()
    whole = encode(tokenizer, ["A PAR H\nF BRE H\n</orders>"])[0] + [tokenizer.eos_token_id]
    constraint.replay(asked, whole)
    for wrong in ("A PAR H\n</orders>", "F BRE H\nA PAR H\n</orders>", "A PAR - GAS\nF BRE H\n</orders>"):
        with pytest.raises(ValueError, match="not allowed"):
            constraint.replay(asked, encode(tokenizer, [wrong])[0] + [tokenizer.eos_token_id])
    with pytest.raises(ValueError, match="is incomplete"):
        constraint.replay(asked, whole[:-1])
    with pytest.raises(ValueError, match="not allowed"):
        constraint.replay(asked, [*whole, whole[-1]])


def test_texts_are_encoded_once():
    class Counting:
        def __init__(self, inner):
            self.inner, self.texts, self.eos_token_id = inner, 0, inner.eos_token_id

        def __call__(self, texts, **options):
            self.texts += len(texts)
            return self.inner(texts, **options)

        def __len__(self):
            return len(self.inner)

        def decode(self, ids, **options):
            return self.inner.decode(ids, **options)

    counting = Counting(word_tokenizer())
    constraint = Constraint(counting, DIPLOMACY_TEXT)
    constraint.compile(MADE_UP)
    counting.texts = 0
    constraint.compile(MADE_UP)
    assert counting.texts == 0


def test_new_texts_keep_rows_of_old_texts():
    lines = LineTokens(word_tokenizer(), DIPLOMACY_TEXT)
    old = {text: lines.tokens[row].copy() for text, row in zip(["A PAR H"], lines.numbers(["A PAR H"]), strict=True)}
    lines.numbers(["A PAR S A MAR - BUR", "F NTH C A LON - NWY", "A MAR H"])
    row = lines.numbers(["A PAR H"])[0]
    kept = lines.tokens[row][: len(old["A PAR H"])]
    assert kept.tolist() == old["A PAR H"].tolist()
    ids = [lines.tokens[row][: lines.lengths[row]].tolist() for row in np.argsort(lines.rank)]
    assert ids == sorted(ids)


def wrapped(tokenizer, **options):
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{"eos_token": "<end>", "name_or_path": "bad", **options}
    )


def test_tokenizer_that_adds_space_is_rejected():
    """As in sentencepiece: only the first word gets a space, which it lacks after a line end."""
    vocabulary = {token: number for number, token in enumerate(["<end>", *map(chr, range(10, 127)), "▁"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<end>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    with pytest.raises(TokenizerError, match="other tokens among other lines"):
        Constraint(wrapped(tokenizer), DIPLOMACY_TEXT)


def test_tokenizer_without_required_words_is_rejected():
    tokenizer = Tokenizer(models.WordLevel({"<end>": 0, "A": 1, " PAR": 2}, unk_token="<end>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Split(WORDS, "isolated"), decoders.Fuse()
    with pytest.raises(TokenizerError, match="turns"):
        Constraint(wrapped(tokenizer), DIPLOMACY_TEXT)


def test_tokenizer_without_end_token_is_rejected():
    with pytest.raises(TokenizerError, match="no end-of-text"):
        Constraint(
            wrapped(Tokenizer(models.WordLevel({"<end>": 0}, unk_token="<end>")), eos_token=None), DIPLOMACY_TEXT
        )


def test_menu_with_duplicate_line_is_rejected(constraint):
    with pytest.raises(ValueError, match="equals another"):
        constraint.compile([menu_of([["A PAR H", "A PAR H"]], 1, 0)])


def test_random_walks_cover_all_answers(constraint):
    """Random walks reach every answer of a small menu."""
    asked = MADE_UP[1]
    steps = walk(constraint.compile([asked]), np.zeros(300, dtype=int), np.random.default_rng(3)).steps()
    seen = {"".join(f"{option.text}\n" for option in done.chosen) for done in steps}
    assert seen == set(sequences(asked))
    assert len(list(itertools.chain(*(done.chosen for done in steps)))) == 600
