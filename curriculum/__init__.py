"""What to train against and on: phases and stages, opponent mixes, widening physics, the self-play pool, ratings."""
