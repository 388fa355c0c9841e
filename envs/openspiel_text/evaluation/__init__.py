"""Evaluation of language models in games of OpenSpiel: their exact policies and how much these can be exploited."""
