"""Play OpenSpiel games in the browser, on a page of the local server.

`table.py` has the game and the page's messages, `command.py` the options; `page.html` and `page.js` are the page.
"""
