"""Games of OpenSpiel for a person, on a page of the local server.

`table.py` holds the game and the page's messages, `command.py` the options; `page.html` and `page.js` are the page.
"""
