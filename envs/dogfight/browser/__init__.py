"""The dogfight for people: a page of the local server, and a page that needs neither server nor installation.

Both pages share `page.html`, `game.js` and `controls.js`. They differ in the source of the match: `remote.js` takes the
states from the simulator in the server's process, `local.js` computes them in the browser (`simulator.js`,
`network.js`).
"""
