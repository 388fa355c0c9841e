"""Language models, adapters, tokenizers and their files."""
