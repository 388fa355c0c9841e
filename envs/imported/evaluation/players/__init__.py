"""External players in imported games."""
