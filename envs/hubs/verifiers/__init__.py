"""The verifiers package of the text matches, `sparring_games`, for version 0.4 (its v1 form)."""
