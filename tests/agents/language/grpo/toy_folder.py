"""A toy model in a folder for `model.name`."""

from pathlib import Path

from tests.agents.language.toys import llama, word_tokenizer


def toy_folder(path: Path) -> Path:
    """Write a one-layer model and its tokenizer."""
    tokenizer = word_tokenizer()
    llama(tokenizer, layers=1).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
