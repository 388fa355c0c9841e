"""Evaluation of policies in air combat, and the 3D replay."""
