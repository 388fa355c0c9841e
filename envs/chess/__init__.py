"""Chess as two text tasks with verifiable rewards: analysis (P) and arbiter (A), over python-chess and an engine."""
