"""Players of others in games of other packages, and what they are asked."""
