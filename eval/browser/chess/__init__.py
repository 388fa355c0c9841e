"""Chess of a person against a language model or a bot, on a page of the local server.

`person_game.py` holds the rules of one game, `table.py` the game that all pages of a server show and the thread in
which the opponent thinks, `session.py` the messages of one page; `page.html`, `board.js` and `page.js` are the page.
"""
