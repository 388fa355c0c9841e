"""Speed of air combat, and its pilots against each other."""
