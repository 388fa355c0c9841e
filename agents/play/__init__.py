"""Games played by a learner or an evaluation."""
