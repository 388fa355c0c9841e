"""Play Diplomacy in the browser: one power on the map, against any players in the other six.

`live_game.py` is the game without a page, and `hosted.py` hosts it on the local server. The page is `page.html` with
`choose.js` (orders by click, drag and key) and `play.js`; its map is the replay's (`envs/diplomacy/evaluation/map.js`).
"""
