"""Legal orders: listed, chosen from, written and read as text."""
