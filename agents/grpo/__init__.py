"""Group relative policy optimization (Shao et al. 2024, arXiv:2402.03300) for language models under exact constraints.

`rollout` forks games, `advantages` compares the forks, `loss` and `reference` make the objective, `loop` repeats.
"""
