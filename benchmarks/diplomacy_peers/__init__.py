"""Agreement of the adjudicator with other engines."""
