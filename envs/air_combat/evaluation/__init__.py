"""Evaluation of policies in air combat, and what shows it: the replay in three dimensions and its drawing."""
