"""The league: agents, results, matchmaking, storage."""
