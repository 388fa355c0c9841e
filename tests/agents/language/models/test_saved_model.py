"""Saved models load identically, are written atomically, and damage is detected."""

import json

import pytest
import torch

pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM, AutoTokenizer

from sparring.agents.language.models.saved_model import WEIGHTS, SavedModelError, save_model, verify_model
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer

TEXT = "Diplomacy\nA PAR - BUR\n</orders>"


@pytest.fixture
def model():
    return build_tiny(game_tokenizer("diplomacy"), hidden=32, layers=1, heads=2, seed=5)


@pytest.fixture
def folder(model, tmp_path):
    save_model(tmp_path / "final", model, game_tokenizer("diplomacy"), training={"seed": 5})
    return tmp_path / "final"


def test_transformers_loads_same_model(model, folder):
    loaded, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert ids.tolist()[0] == game_tokenizer("diplomacy")(TEXT)["input_ids"]
    with torch.no_grad():
        assert torch.equal(loaded.eval()(ids).logits, model.eval()(ids).logits)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert (loaded.config.eos_token_id, loaded.config.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_equal_models_write_equal_bytes_and_no_extra_files(model, folder, tmp_path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    save_model(tmp_path / "final", model, game_tokenizer("diplomacy"), training={"seed": 5})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["final"]


def test_failed_write_keeps_earlier_folder(model, folder, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(
        "sparring.configs.core.files.write_atomically", lambda *_: (_ for _ in ()).throw(OSError(28, "No space"))
    )
    with pytest.raises(OSError, match="No space"):
        save_model(folder, model, game_tokenizer("diplomacy"), training={})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(list(folder.parent.iterdir())) == 1


def test_manifest_detects_flipped_bit_and_missing_file(folder):
    assert verify_model(folder) == {"seed": 5}
    assert set(json.loads((folder / "manifest.json").read_text())["files"]) >= {
        WEIGHTS,
        "config.json",
        "tokenizer.json",
    }
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-3] ^= 1
    (folder / WEIGHTS).write_bytes(bytes(data))
    with pytest.raises(SavedModelError, match=r"model.safetensors: is damaged or was replaced"):
        verify_model(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(SavedModelError, match=r"model.safetensors: cannot be read"):
        verify_model(folder)
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(SavedModelError, match=r"manifest.json: is damaged, it=\(list of 0\): must be"):
        verify_model(folder)
