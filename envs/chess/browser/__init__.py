"""Play chess against a language model or a bot on a page of the local server.

`person_game.py` holds the rules of one game, `session.py` the game that all pages of a server show and their messages;
`page.html`, `board.js` and `page.js` are the page.
"""
