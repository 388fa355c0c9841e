// The page: what the person's seat sees, a button and a key for each legal action, and the actions so far.

const $ = (selector) => document.querySelector(selector);
const KEYS = "1234567890abcdefghijklmopqrstuvwxyz";  // without n, which begins a new game
const socket = new WebSocket("ws://" + location.host + "/match");
const send = (kind, more = {}) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ kind, ...more })); };
let game = null;

socket.addEventListener("message", (event) => {
  const message = JSON.parse(event.data);
  if (message.kind === "note") { $("#note").textContent = message.text; return; }
  game = message;
  $("#note").textContent = game.problem;
  show();
});
socket.addEventListener("close", () => { $("#status").textContent = "The server has stopped; restart it and open its new address."; $("#actions").replaceChildren(); });

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
function verdict() {
  const mine = game.returns[game.seat], listed = game.returns.map((value, seat) => `seat ${seat}: ${value > 0 ? "+" : ""}${value}`).join(", ");
  const best = Math.max(...game.returns), shared = game.returns.filter((value) => value === best).length > 1;
  return `${mine < best ? "You lose" : shared ? "Nobody wins" : "You win"} (${listed})`;
}
function show() {
  const over = game.returns.length > 0;
  $("#status").textContent = over ? verdict() : game.thinking ? `${game.opponent} is thinking ...` : game.legal.length ? `Your move, seat ${game.seat}` : "No answer";
  $("#shown").textContent = game.shown;
  $("#picture").hidden = !game.picture;
  if (game.picture) $("#picture").src = game.picture;
  $("#memory").hidden = !game.remembered;
  $("#remembered").textContent = game.remembered;
  $("#retry").hidden = !game.problem || game.thinking;
  $("#hidden").hidden = game.told;
  $("#actions").replaceChildren(...game.legal.map(([action, name], index) => {
    const button = element("button", "", name);
    if (KEYS[index]) button.prepend(element("kbd", "", KEYS[index]));
    button.type = "button";
    button.addEventListener("click", () => act(action));
    return button;
  }));
  $("#played").replaceChildren(...game.played.map(([who, action]) => element("li", who === "you" ? "you" : who === "chance" ? "dim" : "", `${who}: ${action}`)));
  $("#played").scrollTop = $("#played").scrollHeight;
  if ($("#seat").options.length !== game.seats) $("#seat").replaceChildren(...Array.from({ length: game.seats }, (_, seat) => new Option(seat, seat)));
  if (document.activeElement !== $("#seat")) $("#seat").value = game.seat;
}
const act = (action) => send("act", { action, count: game.count });
const begin = () => send("begin", { seat: Number($("#seat").value) });
$("#begin").addEventListener("click", begin);
$("#retry").addEventListener("click", () => send("retry"));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !game || event.target.matches("select")) return;
  const index = KEYS.indexOf(event.key);
  if (event.key === "n") begin();
  else if (event.key.length === 1 && index >= 0 && index < game.legal.length) act(game.legal[index][0]);
});
window.play = { state: () => game, send };
