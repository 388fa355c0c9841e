"""Small policies of Diplomacy that learn the orders of a search."""
