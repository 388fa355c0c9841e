"""Analysis of recorded runs: four sources behind one protocol, and the commands that read them."""
