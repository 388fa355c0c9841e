"""Released policies and one's own as a table, each with its card; adding a run to them."""
