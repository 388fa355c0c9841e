"""Games as environments for language-model training hubs: one core, and a thin adapter for each hub."""
