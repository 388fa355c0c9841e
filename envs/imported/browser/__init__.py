"""Play games of PettingZoo and OpenSpiel in the browser, on a page of the local server.

`table.py` has the messages of the page and what both packages share, `spiel_table.py` OpenSpiel's games,
`match_table.py` PettingZoo's, and `command.py` the options; `page.html` and `page.js` are the page.
"""
