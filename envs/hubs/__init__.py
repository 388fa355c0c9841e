"""Games as environments of the hubs where language models are trained: one core, and a thin form for each hub."""
