"""Parts of the language-model benchmark."""
