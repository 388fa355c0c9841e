// A match in the server's process, over a WebSocket. Provides frames to game.js, like local.js.

function makeSource(config, page) {
const socket = new WebSocket("ws://" + location.host + "/match");
const send = (kind, more) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ kind, ...more })); };
const told = { match: page.match, frame: page.frame, note: ({ text }) => page.note(text) };
let held = "";

socket.addEventListener("message", (event) => { const message = JSON.parse(event.data); told[message.kind](message); });
socket.addEventListener("close", () => page.note("The server has stopped; restart it and open its new address."));
function run() {
  requestAnimationFrame(run);
  const action = page.action(), text = JSON.stringify(action);
  if (text !== held && socket.readyState === WebSocket.OPEN) { held = text; send("hold", { action }); }
}
requestAnimationFrame(run);
document.querySelector("#save").addEventListener("click", () => send("save"));
return {
  begin: (chosen) => send("begin", chosen),
  pace: (chosen) => send("pace", chosen),
  ready: (begin) => socket.addEventListener("open", begin),
};
}
