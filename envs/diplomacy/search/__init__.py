"""A search player: proposals of a bot, ascent over single orders and pairs, comparison by playing on to the fall."""
