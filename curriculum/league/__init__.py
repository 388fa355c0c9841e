"""The league: members, results, matchmaking, files."""
