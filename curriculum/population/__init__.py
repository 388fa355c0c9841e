"""The game of styles: results between them, and the equilibrium that is played."""
