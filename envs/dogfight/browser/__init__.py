"""Play the dogfight in the browser: a page of the local server, and a page without server or installation.

Both pages share `page.html`, `game.js` and `controls.js`. They differ in the source of the match: `remote.js` receives
states from the server's simulator, `local.js` computes them in the browser (`simulator.js`, `network.js`).
"""
