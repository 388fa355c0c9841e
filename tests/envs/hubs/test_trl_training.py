"""TRL's environment: rollouts equal core matches; ten training steps of the tiny model (slow)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.hubs import trl_training
from sparring.envs.hubs.matches import open_match
from sparring.envs.hubs.trl_training import OVER, TINY, TrlMatch, teach_tools
from tests.envs.hubs.test_matches import first_orders, played

OPTIONS = {"game": "diplomacy", "power": "FRANCE", "last_year": 1901, "reward": "dense", "full_prompts": False}


def test_rollout_equals_core_match():
    match = open_match(**OPTIONS)
    turns = played(match, 5)
    match.close()
    rollout = TrlMatch(**OPTIONS)
    for _ in range(2):  # TRL uses an object again
        assert rollout.reset(5, prompt=[]) == turns[0].prompt
        results = [rollout.answer(first_orders(turn)) for turn in turns[:-1]]
        assert results == [turn.prompt for turn in turns[1:-1]] + [OVER]
        assert rollout.get_reward() == pytest.approx(sum(turn.reward for turn in turns))
        assert rollout.counts == {"read": len(turns) - 1}
        assert rollout.answer("</orders>") == OVER  # the model may go on


def test_rollout_plays_one_seat_of_openspiel_game():
    pytest.importorskip("pyspiel")
    options = {"game": "openspiel_text", "id": "leduc_poker", "answers": "menu"}
    match = open_match(**options)
    turns = played(match, 5, lambda turn: f"{turn.legal[0][-1]}\n</move>")
    rollout = TrlMatch(**options)
    assert rollout.reset(5, prompt=[]) == turns[0].prompt
    results = [rollout.answer(f"{turn.legal[0][-1]}\n</move>") for turn in turns[:-1]]
    assert results == [turn.prompt for turn in turns[1:-1]] + [OVER]
    assert rollout.get_reward() == turns[-1].rewards[1] != 0
    rollout.reset(5)
    assert rollout.get_reward() == rollout.get_reward() != 0  # random actions stand in for missing answers
    assert rollout.answer("Call") == OVER
    for refused in ({"game": "openspiel_text", "seat": "all"}, {"game": "openspiel_exploitability"}):
        with pytest.raises(InputError, match="a seat's prompts are for it alone, and TRL has one conversation"):
            TrlMatch(**refused).reset(0)


def test_tokenizer_that_cannot_write_action_is_rejected():
    transformers = pytest.importorskip("transformers", minversion="5.15")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"Bet": 0, "?": 1}, unk_token="?"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?", name_or_path="words")
    trl_training.check_tokenizer(tokenizer, ["Bet"])
    with pytest.raises(InputError, match=r"tokenizer words turns 'Pass' into '\?'; give another --model"):
        trl_training.check_tokenizer(tokenizer, ["Bet", "Pass"])


@pytest.mark.parametrize(
    ("before", "answer", "called"),
    [
        ("FRANCE\n<orders>\n", "A PAR H\nF BRE - MAO\n</orders></s>", "A PAR H\nF BRE - MAO\n</orders>"),
        ("FRANCE\n<orders>\n", "A PAR H\nF BRE", None),  # cut off
        ("FRANCE\n<orders>\nA PAR H\n</orders></s>ITALY\n<orders>\n", "A ROM H\n</orders></s>", "A ROM H\n</orders>"),
        (f"FRANCE\n<orders>\nA PAR H\n</orders></s>{OVER}", "A PAR H\n</orders></s>", None),
        ("Legal moves: Pass, Bet\n<move>\n", "Bet\n</move></s>", "Bet\n</move>"),
        ("Legal moves: Pass, Bet\n<move>\n", "A PAR H\n</orders></s>", None),
    ],
)
def test_transformers_parses_answer_as_call(before, answer, called):
    transformers = pytest.importorskip("transformers", minversion="5.15")
    tokenizer = transformers.AutoTokenizer.from_pretrained(TINY)
    teach_tools(tokenizer, "openspiel_text" if "move>" in before else "diplomacy")
    prefix, ids = (tokenizer(text, add_special_tokens=False).input_ids for text in (before, answer))
    message = tokenizer.parse_response(ids, prefix=prefix, tools=[TrlMatch.answer])
    calls = [{"type": "function", "function": {"name": "answer", "arguments": {"text": called}}}] if called else []
    assert message.get("tool_calls", []) == calls


def test_bad_input_gives_one_line_error(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="--steps 0: must be at least 1"):
        trl_training.train(out=tmp_path, steps=0)

    with pytest.raises(InputError, match="unknown game 'go': choose from diplomacy"):
        trl_training.train(out=tmp_path, game="go")
    with pytest.raises(InputError, match="id=tarok: draws chance in the middle of a turn"):
        trl_training.train(out=tmp_path, game="openspiel_text", id="tarok")
    with pytest.raises(InputError, match="chess_analysis: needs a model with a chat template"):
        trl_training.train(out=tmp_path, game="chess_analysis")
    with pytest.raises(InputError, match="--set Kuhn: must be KEY=VALUE, such as id=kuhn_poker"):
        trl_training.pairs_of(["Kuhn"])

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(trl_training, "import_module", missing)
    with pytest.raises(InputError, match=r"TRL 1.16 or later is needed .*`sparring install trl`"):
        trl_training.train(out=tmp_path)


@pytest.mark.slow
def test_two_steps_of_tiny_model_in_kuhn_poker(tmp_path):
    pytest.importorskip("trl", minversion="1.16")
    pytest.importorskip("pyspiel")
    command = [sys.executable, "-m", "sparring.envs.hubs.trl_training", "--game", "openspiel_text", "--steps", "2"]
    words = [*command, "--set", "id=kuhn_poker", "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=1800)
    steps = re.findall(r"^step (\d+): reward (-?[\d.]+), answers ([\d.]+)$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == [1, 2]


@pytest.mark.slow
def test_ten_steps_on_tiny_model(tmp_path):
    pytest.importorskip("trl", minversion="1.16")
    import torch
    from safetensors.torch import load_file

    command = [sys.executable, "-m", "sparring.envs.hubs.trl_training", "--steps", "10", "--power", "FRANCE"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, check=True, timeout=1800)
    steps = re.findall(r"^step (\d+): reward (-?[\d.]+), answers ([\d.]+)$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, 11))
    assert len({reward for _, reward, _ in steps}) > 1
    assert all(1 <= float(answers) <= 5 for _, _, answers in steps)  # two to four phases of 1901
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (TINY, tmp_path))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    refused = subprocess.run([*command, "--model", str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "none: is not a folder of a language model; give one with config.json" in refused.stderr
