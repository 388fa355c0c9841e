// The page around the board: the game from the server, the moves, the model's answer, text entry of moves.

const config = JSON.parse(document.getElementById("data").textContent);
const $ = (selector) => document.querySelector(selector);
const OTHER = { white: "black", black: "white" }, RESIGN_SECONDS = 4;
const socket = new WebSocket("ws://" + location.host + "/match");
const send = (kind, more = {}) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ kind, ...more })); };
const board = makeBoard($("#board"), $("#promotion"), (uci) => play(uci));
let game = null, view = 0, turned = null, resigning = null;

// ---- the server ---------------------------------------------------------------------------------------------------

socket.addEventListener("message", (event) => {
  const message = JSON.parse(event.data);
  if (message.kind === "note") { note(message.text, message.failed); return; }
  const began = !game || game.you !== message.you || !message.moves.length;
  if (message.moves.length !== game?.moves.length) note("");
  game = message;
  if (began) turn(game.you === "black");
  look(game.moves.length);
});
socket.addEventListener("close", () => { $("#status").textContent = "The server has stopped; restart it and open its new address."; document.body.classList.add("gone"); });
const note = (text, failed = false) => { $("#note").textContent = text; $("#note").classList.toggle("failed", failed); };
const play = (text) => send("move", { text, ply: game.moves.length });

// ---- what is shown ------------------------------------------------------------------------------------------------

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
const sideAt = (ply) => (ply + game.before) % 2 ? "black" : "white";
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const live = () => view === game.moves.length;

function look(ply) {
  if (!game) return;
  view = Math.min(Math.max(ply, 0), game.moves.length);
  const checked = live() ? game.check : view > 0 && /[+#]/.test(game.moves[view - 1][0]);
  board.show({ position: game.positions[view], legal: live() ? game.legal : [], last: view ? game.moves[view - 1][1] : "", check: checked ? sideAt(view) : "" });
  showNames(); showStatus(); showMoves(); showAnswer(); showButtons();
}
function showNames() {
  const bottom = turned ? "black" : "white";
  for (const [place, side] of [["#above", OTHER[bottom]], ["#below", bottom]]) {
    const swatch = element("i", side), mover = !game.over && game.turn === side;
    $(place).replaceChildren(swatch, element("span", "", game[side]), element("b", mover ? "mover" : "", points(side) || (mover ? "to move" : "")));
  }
}
const points = (side) => ({ "1-0": { white: "1", black: "0" }, "0-1": { white: "0", black: "1" }, "1/2-1/2": { white: "½", black: "½" } })[game.result]?.[side];
function showStatus() {
  const mine = points(game.you), verdict = { 1: "you win", 0: "you lose", "½": "a draw" }[mine];
  $("#status").textContent = game.over ? `${capital(game.ending || "over")}: ${verdict}` : game.thinking ? `${game[OTHER[game.you]]} is thinking ...`
    : game.problem && game.turn !== game.you ? "No answer" : `Your move${game.check ? ": check" : ""}`;
  $("#status").className = game.over ? (mine === "1" ? "won" : mine === "0" ? "lost" : "") : "";
  $("#problem").textContent = game.problem;
  $("#past").hidden = live();
}
function showMoves() {
  const made = [];
  game.moves.forEach(([san], index) => {
    const half = index + game.before, item = element("button", "move", san);
    if (half % 2 === 0 || index === 0) made.push(element("span", "number", `${Math.floor(half / 2) + 1}.`));
    if (half % 2 === 1 && index === 0) made.push(element("span", "number", "…"));
    item.type = "button";
    item.classList.toggle("now", index === view - 1);
    if (game.illegal[index] !== undefined) item.classList.add("illegal");
    item.addEventListener("click", () => { look(index + 1); item.blur(); });
    made.push(item);
  });
  $("#moves").replaceChildren(...(made.length ? made : [element("span", "number", "–")]));
  const now = $("#moves .now");
  if (now) $("#moves").scrollTop = now.offsetTop - $("#moves").offsetTop - 120;
}
const evaluation = (value) => value === null ? "" : (value > 0 ? "+" : "") + value.toFixed(2);

// The latest answer before the shown position, or in it if an illegal answer ended the game.
function showAnswer() {
  const plies = Object.keys(game.answers).map(Number).filter((ply) => ply < view || (game.over && ply === view)), ply = Math.max(...plies);
  $("#answer").hidden = !plies.length;
  if (!plies.length) return;
  const { text, moves, best: [best, bestSan] } = game.answers[ply], half = ply + game.before;
  $("#answer-to").textContent = `move ${Math.floor(half / 2) + 1}, ${sideAt(ply)}`;
  $("#candidates").replaceChildren(...moves.map(([uci, san, value]) => {
    const row = element("tr", uci === best ? "best" : "");
    row.append(element("td", san ? "" : "illegal", san || uci), element("td", "uci", san ? uci : "illegal"), element("td", "value", evaluation(value)));
    return row;
  }));
  $("#candidates-table").hidden = !moves.length;
  const played = game.moves[ply]?.[0], illegal = best ? `${best}, which is illegal` : "none";
  $("#best").textContent = bestSan ? `best move: ${bestSan}` : `best move: ${illegal}; ${played ? `a random move, ${played}, was played instead` : "that loses the game"}`;
  $("#best").className = bestSan ? "" : "illegal";
  $("#raw").textContent = text;
}
function showButtons() {
  $("#undo").disabled = !game.undo;
  $("#resign").disabled = game.over;
  $("#resign").textContent = resigning ? "Really resign?" : "Resign";
  $("#claim").hidden = !game.claim;
  $("#retry").hidden = !game.problem || game.thinking || game.over || game.turn === game.you;
  $("#entry").disabled = !game.legal.length;
  $("#entry").placeholder = game.legal.length ? "e4, Nf3, e7e8q" : "";
  $("#saved").textContent = game.saved ? `PGN: ${game.saved}` : "";
  $("#opponent").value = game.opponent;
}

// ---- choices ------------------------------------------------------------------------------------------------------

function turn(to) { turned = to; board.turn(to); if (game) showNames(); }
function begin() { resigning = null; send("begin", { opponent: $("#opponent").value, side: $("#side").value }); }
function resign() {
  if (resigning) send("resign");
  clearTimeout(resigning);
  resigning = resigning ? null : setTimeout(() => { resigning = null; showButtons(); }, 1000 * RESIGN_SECONDS);
  showButtons();
}
$("#opponent").append(...config.opponents.map((name) => new Option(name, name)));
$("#side").append(...config.sides.map((name) => new Option(name, name)));
$("#side").value = config.side;
const ACTIONS = { begin, resign, undo: () => send("undo"), claim: () => send("claim"), retry: () => send("retry"), save: () => send("save"),
  flip: () => turn(!turned), first: () => look(0), previous: () => look(view - 1), next: () => look(view + 1), last: () => look(Infinity) };
for (const [name, action] of Object.entries(ACTIONS)) $(`#${name}`).addEventListener("click", (event) => { action(); event.currentTarget.blur(); });

$("#entry-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("#entry").value.trim()) play($("#entry").value.trim());
  $("#entry").value = "";
});
const KEYS = { ArrowLeft: ACTIONS.previous, ArrowRight: ACTIONS.next, Home: ACTIONS.first, End: ACTIONS.last, Escape: () => board.deselect() };
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || !game || !$("#promotion").hidden || event.target.matches("select")) return;
  const typing = event.target.id === "entry";
  if (typing && event.key === "Escape") { $("#entry").value = ""; $("#entry").blur(); }
  if (typing && $("#entry").value) return;
  if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
  else if (/^[a-hNBRQKO0]$/.test(event.key)) $("#entry").focus();  // the character is then typed there
});
window.play = { state: () => ({ game, view, turned, board: board.state() }), send };
