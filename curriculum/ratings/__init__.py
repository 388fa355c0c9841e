"""Results of games, ratings, and the sequential test."""
