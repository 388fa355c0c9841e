"""Learning curves and heat maps."""
