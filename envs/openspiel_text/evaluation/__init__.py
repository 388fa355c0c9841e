"""Evaluation of language models in OpenSpiel games: exact policies and their exploitability."""
