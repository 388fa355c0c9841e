"""Learning curves of recorded runs: their points, and the pictures of them."""
