"""A population of styles and its exploiters, with which PPO trains a network with styles."""
