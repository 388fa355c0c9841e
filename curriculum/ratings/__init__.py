"""Results of games, ratings, and the sequential probability ratio test."""
