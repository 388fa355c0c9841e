"""Fine-tuning a given model by imitation: its weights and tokenizer are used, and GRPO starts from the result."""

import json

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("chess")

from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer

from sparring.agents.language.backend import ModelError
from sparring.agents.language.cloning.dataset import CloneDataset
from sparring.agents.language.cloning.trainer import CloneTrainer, first_model
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.envs.text import FreeText, Prompt
from tests.agents.language.toys import bytes_tokenizer, gpt2, llama

COMMON = ("device=cpu", "threads=1", "logger.progress=false", "checkpoint_every=1000")
DATA = ("env.data.train=12", "env.data.validation=2", "env.data.held_out=4", *COMMON)
CHESS = (
    *("+run=rookworld_sft_smollm2", "tasks.analysis_share=0", "tasks.arbiter.max_tokens=4", *DATA),
    *("clone.updates=4", "clone.games_per_update=4", "clone.learning_rate=1e-2"),
    *("evaluation.every=4", "evaluation.games=2"),
)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Save a byte-level GPT-2 with its usual dropout, as transformers writes it."""
    folder = tmp_path_factory.mktemp("given") / "gpt2"
    model = gpt2(bytes_tokenizer())
    assert model.config.resid_pdrop == 0.1
    model.config.bos_token_id = model.config.eos_token_id = bytes_tokenizer().eos_token_id
    model.save_pretrained(folder)
    bytes_tokenizer().save_pretrained(folder)
    return folder


def chess(root, given, *options):
    return load([*CHESS, f"checkpoint_dir={root}", "name=tuned", f"model.name={given}", *options])


def rows(root):
    lines = map(json.loads, (root / "tuned" / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if not key.startswith("time/")} for line in lines]


def weights(root):
    return (root / "tuned" / "final" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def tuned(given, tmp_path_factory):
    """Return an uninterrupted run, in two halves."""
    root = tmp_path_factory.mktemp("tuned")
    train(chess(root, given, "threads=2"))
    return root


def test_fine_tuning_starts_from_model_without_dropout(given, tmp_path):
    """The first loss equals the one computed by transformers, one example at a time."""
    trainer = CloneTrainer(chess(tmp_path, given))
    examples = [one for group in trainer.dataset.next() for one in group]
    trainer.close()
    model, tokenizer = AutoModelForCausalLM.from_pretrained(given), AutoTokenizer.from_pretrained(given)
    losses, answers = [], [len(one.answer) for one in examples]
    for one in examples:
        assert tokenizer.decode(one.prompt).startswith("A: ")
        assert one.answer[-1] == tokenizer.eos_token_id
        ids = torch.tensor([one.prompt + one.answer])
        labels = torch.tensor([[-100] * len(one.prompt) + one.answer])
        with torch.no_grad():
            losses.append(float(model(ids, labels=labels).loss) * len(one.answer))
    train(chess(tmp_path, given, "max_updates=1", "evaluation.every=0"))
    assert rows(tmp_path)[0]["train/answer_loss"] == pytest.approx(sum(losses) / sum(answers), abs=1e-5)


def test_interrupted_run_resumes_bit_for_bit(given, tuned, tmp_path):
    train(chess(tmp_path, given, "threads=2", "max_updates=2"))
    train(chess(tmp_path, given, "threads=2"))
    assert rows(tmp_path) == rows(tuned)
    assert weights(tmp_path) == weights(tuned)
    losses = [row["train/answer_loss"] for row in rows(tuned)]
    assert losses[-1] < losses[0]


def test_grpo_starts_from_fine_tuned_model(tuned, tmp_path):
    model = tuned / "tuned" / "final"
    assert len(AutoTokenizer.from_pretrained(model)) == len(bytes_tokenizer())
    options = ("tasks.analysis_share=0", "tasks.arbiter.max_tokens=4", "evaluation.every=0", "model.lora_rank=4")
    small = ("grpo.steps=1", "grpo.groups=1", "grpo.samples_per_group=2", "grpo.minibatch_samples=2")
    places = (f"model.name={model}", f"checkpoint_dir={tmp_path}", "name=grpo")
    assert train(load(["+run=rookworld_grpo", *DATA, *options, *small, *places])).is_file()


def test_training_prompts_start_as_when_sampling(given, tmp_path):
    """A tokenizer that prepends a token does so in training, too."""
    tokenizer = AutoTokenizer.from_pretrained(given)
    tokenizer.add_special_tokens({"bos_token": "<begin>"})
    first = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<begin> $A", special_tokens=[("<begin>", first)]
    )
    games = CloneTrainer(chess(tmp_path, given)).dataset.games
    shown = games.next()
    backend = TransformersBackend(llama(tokenizer), tokenizer, constraint=None)
    trained = CloneDataset(games, tokenizer).examples(shown)[0][0]
    played = backend.decide([Prompt(shown[0][0].text, FreeText(1, "arbiter"), 1)])[0]
    assert trained.prompt == played.prompt_ids.tolist()
    assert trained.prompt[0] == first


def test_untunable_model_is_rejected_in_one_line(given, tmp_path):
    with pytest.raises(ModelError, match=r"model\.name=smolm2: is not tiny, .*did you mean 'smollm2'"):
        CloneTrainer(chess(tmp_path, "smolm2"))
    with pytest.raises(ConfigError, match=r"clone\.layers=2: has no effect without model\.name=tiny"):
        chess(tmp_path, given, "clone.layers=2")
    with pytest.raises(ConfigError, match=r"model\.lora_rank=8: is an option of grpo, not of trainer=clone"):
        chess(tmp_path, given, "model.lora_rank=8")
    tokenizer = bytes_tokenizer()
    short = tmp_path / "short"
    llama(tokenizer, max_position_embeddings=64).save_pretrained(short)
    tokenizer.save_pretrained(short)
    with pytest.raises(InputError, match=r"has \d+ tokens, but the model accepts at most 64: choose another"):
        train(chess(tmp_path, short, "evaluation.every=0"))
    endless = AutoTokenizer.from_pretrained(short)
    endless.eos_token = None
    endless.save_pretrained(short)
    with pytest.raises(ModelError, match="its tokenizer has no end of text; set its eos_token"):
        first_model(chess(tmp_path, short), seed=1)
