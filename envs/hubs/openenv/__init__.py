"""The OpenEnv form of the text matches: a server over HTTP and WebSocket. Needs the extra openenv, 0.10 or later."""
