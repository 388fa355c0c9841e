// The game of the local server.
const openGame = () => new WebSocket("ws://" + location.host + "/match");
const ABOUT = "Saved after every phase: " + G.file;
