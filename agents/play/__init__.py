"""Games as a learner or an evaluation plays them."""
