"""Legal orders: listing, choice, and conversion to and from text."""
