"""Games for people, in the browser: a local server (`server.py`) that is the same for all, and a folder per game.

A game plugs in by a function of the command line's words, named in `Game.play`. It reads its options (`server.py` has
the shared ones), makes a `HostedGame` and calls `serve_game` of `server.py`, which knows pages and messages only.
"""
