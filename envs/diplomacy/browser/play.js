// The game page: the game's phases, the person's drafts, and results, from the server.

const ALL = -1, RESULTS_MS = 1700, GLIDE_MS = 600;
const board = makeMap(G), map = $("#map");
const socket = openGame();
const send = (kind, more) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ kind, ...more })); };
const chooser = makeChooser(map, G.codes, { order: (text) => send("order", { text }), note, painted: paintChoice });
let phases = [], turn = null, at = 0, lit = ALL, run = 0, waiting = null;

const now = () => phases.length - 1;
const phase = () => phases[at];
const ordering = () => turn !== null && turn.state === "ordering";
const open = () => ordering() && at === now() && !run;

// ---- messages of the server ---------------------------------------------------------------------------------------

const told = {
  phases({ begin, phases: later }) {
    const first = !phases.length;
    phases.splice(begin, phases.length, ...later);
    if (turn) turn = { ...turn, marks: [], orders: [] };
    if (first) seek(now()); else animate(begin);
  },
  turn(message) {
    const changed = !turn || turn.phase !== message.phase || turn.state !== message.state, thinking = message.state === "thinking";
    turn = thinking ? { ...message, marks: turn ? turn.marks : [], orders: turn ? turn.orders : [] } : message;
    if (thinking) wait(turn.waitingFor); else { stopWaiting(); note(""); }
    // A draft that comes back leaves the selection alone: the next unit may be chosen already.
    if (run) paintMine(); else if (changed) seek(now()); else paint();
    if (changed) $("#legal").replaceChildren(...Object.values(turn.options || {}).flat().map(([text]) => new Option(text)));
    $("#order").value = "";
  },
  thinking({ text }) { wait(text); },
  note({ text, failed = false }) { note(text, !failed); },
  begin() { location.reload(); },
};
socket.addEventListener("message", (event) => { const message = JSON.parse(event.data); told[message.kind](message); });
socket.addEventListener("close", () => { stopWaiting(); note("The server has stopped. Restart it with --resume " + G.file); });

function note(text, plainly = false) { $("#note").textContent = text; $("#note").classList.toggle("plainly", plainly); }
function wait(text) {
  stopWaiting();
  const since = Date.now();
  const tell = () => note((text || "The other players are ordering") + " … " + Math.floor((Date.now() - since) / 1000) + " s", true);
  waiting = setInterval(tell, 1000); tell();
}
function stopWaiting() { clearInterval(waiting); waiting = null; }

// ---- results, phase by phase --------------------------------------------------------------------------------------

const pause = (ms) => new Promise((done) => setTimeout(done, calm ? 0 : ms));
// Shows the results of each phase from `begin` on, then the next position. A click or key ends it.
async function animate(begin) {
  const mine = ++run;
  for (let k = begin; k < now() && run === mine; k += 1) {
    at = k; paint(); bounce();
    await pause(RESULTS_MS);
    if (run !== mine) return;
    at = k + 1; paint();
    board.glide(phases[k].outcomes, GLIDE_MS); fall();
    await pause(GLIDE_MS + 200);
  }
  if (run === mine) settle();
}
function settle() {
  run = 0; at = now(); paint();
  if (turn) chooser.reset(open() ? turn.options : {}, turn.winter || 0);
}
const move = (node, way, duration) => { if (node && !calm) node.firstChild.animate(way, { duration, easing: "ease-in-out" }); };
const by = (x, y) => ({ transform: "translate(" + x + "px," + y + "px)" });
function bounce() {
  for (const { kind, fails, start, cross } of phase().outcomes) {
    const [x, y] = G.places[start];
    if (kind === "move" && fails && cross) move(board.standing(start), [by(0, 0), by(cross[0] - x, cross[1] - y), by(0, 0)], 900);
  }
}
function fall() { for (const unit of document.querySelectorAll("#units .dislodged")) move(unit, [by(-G.shift[0], -G.shift[1]), by(0, 0)], GLIDE_MS); }

function seek(to) {
  if (!phases.length) return;
  run = 0; at = clamp(to, 0, now());
  paint();
  if (turn) chooser.reset(open() ? turn.options : {}, turn.winter || 0);
}

// ---- the page -----------------------------------------------------------------------------------------------------

function paint() {
  if (!phases.length) return;
  const current = at === now();
  board.paintOwners(phase().owner);
  board.paintUnits(phase(), lit);
  board.paintMarks(current && turn ? turn.marks || [] : phase().outcomes, lit);
  map.classList.toggle("faint", lit !== ALL);
  $("#phase").textContent = phase().title + (current ? "" : run ? ": results" : " (past)");
  paintBrowse(); paintPowers(); paintMine(); paintResults(); paintChoice();
  const over = turn && turn.state === "over" && current;
  $("#banner").classList.toggle("shown", Boolean(over));
  if (over) $("#banner").textContent = turn.result[0].toUpperCase() + turn.result.slice(1);
}
function paintBrowse() {
  if ($("#seek").length !== phases.length) $("#seek").replaceChildren(...phases.map((p, i) => new Option(p.title, i)));
  $("#seek").value = at;
  $("#back").disabled = at === 0; $("#on").disabled = at === now();
}
function paintPowers() {
  if (!$("#powers").children.length) $("#powers").append(...G.powers.map(powerRow));
  [...$("#powers").children].forEach((row, i) => {
    const count = phase().counts[i];
    $(".count", row).textContent = count;
    $(".gauge i", row).style.width = 100 * Math.min(count / 18, 1) + "%";
    row.classList.toggle("out", count === 0 && !phase().units.some(([, owner]) => owner === i));
    row.classList.toggle("winner", Boolean(turn) && turn.state === "over" && turn.winner === i);
    row.setAttribute("aria-pressed", lit === i);
  });
}
function powerRow(name, i) {
  const row = element("button"), swatch = element("span", "swatch"), gauge = element("span", "gauge"), filled = element("i");
  row.type = "button"; row.title = name + ", " + G.players[i] + ": show this power alone";
  swatch.style.background = filled.style.background = G.colors[i];
  gauge.append(filled);
  row.append(swatch, element("b", "", name), element("span", "player", G.players[i]), gauge, element("span", "count"));
  row.addEventListener("click", () => { lit = lit === i ? ALL : i; paint(); });
  return row;
}
function paintResults() {
  const shown = at === now() && at > 0 ? phases[at - 1] : phase(), rows = [];
  $("#results h2").textContent = shown.outcomes.length ? "Results of " + shown.title : "Results";
  G.powers.forEach((name, i) => {
    const own = shown.outcomes.filter((outcome) => outcome.power === i && (lit === ALL || lit === i));
    if (!own.length) return;
    const heading = element("h2"), swatch = element("i"), list = element("ul");
    swatch.style.background = G.colors[i];
    heading.append(swatch, name);
    list.append(...own.map((outcome) => {
      const item = element("li", outcome.fails ? "fails" : "", outcome.text);
      if (outcome.note) item.append(" ", element("span", "", outcome.note));
      return item;
    }));
    rows.push(heading, list);
  });
  $("#orders").replaceChildren(...(rows.length ? rows : [element("p", "", "No orders yet.")]));
}
function paintMine() {
  const options = (turn && turn.options) || {}, orders = (turn && turn.orders) || [];
  const ordered = new Map(orders.map(({ place, text }) => [place, text])), builds = turn && turn.winter > 0;
  const places = turn && !turn.winter && turn.options ? Object.keys(options) : [...ordered.keys()];
  $("#mine ul").replaceChildren(...places.map((place) => mineRow(place, ordered.get(place), builds)));
  const missing = turn ? Math.max((turn.lines || 0) - orders.length, 0) : 0;
  $("#mine h2").textContent = heading(missing);
  $("#advise").disabled = !ordering(); $("#undo").disabled = !ordering() || !turn.undo; $("#clear").disabled = !ordering() || !orders.length;
  $("#write").hidden = $("#advise").hidden = $("#undo").hidden = $("#clear").hidden = !ordering();
  $("#submit").disabled = !turn || run > 0 || !["ordering", "out"].includes(turn.state);
  $("#new").disabled = !turn || turn.state === "thinking";
  $("#submit").hidden = Boolean(turn) && turn.state === "over";
  $("#submit").textContent = turn && turn.state === "out" ? "Next phase" : turn && turn.state === "thinking" ? "The other players are ordering …" : "Submit" + (missing ? " (" + missing + " " + fate(missing) + ")" : "");
}
function heading(missing) {
  if (!turn || turn.state === "thinking") return "Your orders";
  if (turn.state === "over") return "The game is over";
  if (turn.state === "out") return G.powers[G.power] + " is out of the game";
  if (turn.winter) return turn.lines + (turn.winter > 0 ? " to build" : " to disband") + ", " + missing + " left";
  return "Your orders" + (missing ? ", " + missing + " left" : "");
}
function fate(count) {
  const kind = turn.phase.slice(-1), one = count === 1;
  if (turn.winter > 0) return "not built";
  if (turn.winter < 0) return "chosen by the rules";
  return kind === "R" ? (one ? "disbands" : "disband") : one ? "holds" : "hold";
}
function mineRow(place, text, builds) {
  const item = element("li", chooser.state().chosen === place ? "chosen" : ""), main = element("button", "", text || unitOf(turn.options[place][0][0]));
  item.dataset.place = place;
  main.type = "button";
  if (!text) main.append(" ", element("span", "", "no order"));
  main.addEventListener("click", () => { if (open() && !builds) chooser.select(place); });
  item.append(main);
  if (text) {
    const drop = element("button", "", "×");
    drop.type = "button"; drop.title = "Remove this order"; drop.setAttribute("aria-label", "Remove " + text);
    drop.addEventListener("click", () => send("drop", { place }));
    item.append(drop);
  }
  return item;
}
// Elements that depend on the selection: marked provinces, the unit's options, and the list of its orders.
function paintChoice() {
  map.classList.toggle("open", open());
  const glow = open() ? chooser.glow() : [];
  $("#glow").replaceChildren(...glow.flatMap(([code, kind]) => (kind === "own" ? ring(code) : outline(code, kind))));
  $("#hint").textContent = open() ? chooser.hint() : run ? "Results; click the map to continue." : at === now() ? "" : "A past phase; press the right arrow to return.";
  $("#ways").replaceChildren(...(open() ? chooser.ways() : []).map(([kind, pressed, act]) => {
    const made = element("button", "plain", kind[0].toUpperCase() + kind.slice(1));
    made.type = "button"; made.dataset.way = kind; made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", act);
    return made;
  }), " ");
  const list = open() ? chooser.list() : [];
  $("#choice").hidden = !list.length;
  $("#choice").replaceChildren(new Option("all " + list.length + " orders", ""), ...list.map(([text]) => new Option(text, text)));
  for (const item of document.querySelectorAll("#mine li")) item.classList.toggle("chosen", item.dataset.place === chooser.state().chosen);
}

const outline = (code, kind) => [...document.querySelectorAll("#board path[data-code='" + code + "']")].map((path) => draw("path", { class: kind, d: path.getAttribute("d"), "data-mark": code }));
// A ring around a unit of the person, or around a centre to build in, that has no order yet.
function ring(code) {
  if (turn.orders.some(({ place }) => place === code)) return [];
  const mine = (units) => units.find(([location, owner]) => owner === G.power && G.codes[location] === code), lost = mine(phase().dislodged);
  const [location] = lost || mine(phase().units) || [G.codes.indexOf(code)], [x, y] = G.places[location], [dx, dy] = lost ? G.shift : [0, 0];
  return [draw("circle", { class: "own", cx: x + dx, cy: y + dy, r: 18, "data-mark": code })];
}

// ---- the controls -------------------------------------------------------------------------------------------------

function submit() {
  if ($("#submit").disabled) return;
  send("submit", { phase: turn.phase });
  if (innerWidth <= 900) $("#stage").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
}
const KEYS = { u: () => { if (!$("#undo").disabled) send("undo"); }, arrowleft: () => seek(at - 1), arrowright: () => seek(at + 1) };
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); return; }
  if (event.ctrlKey || event.altKey || event.metaKey || (["SELECT", "INPUT"].includes(event.target.tagName) && event.key !== "Escape")) return;
  const name = event.key.toLowerCase();
  if (run && name === "escape") settle();
  else if (!(open() && chooser.key(name)) && KEYS[name]) KEYS[name](); else return;
  event.preventDefault();
});
map.addEventListener("pointerdown", () => { if (run) settle(); });
$("#choice").addEventListener("change", () => { const text = $("#choice").value; if (text) { chooser.select(""); send("order", { text }); } });
$("#write").addEventListener("submit", (event) => {
  event.preventDefault();
  for (const text of $("#order").value.split(";").map((one) => one.trim()).filter(Boolean)) send("order", { text });
});
$("#advise").addEventListener("click", () => send("hint"));
$("#undo").addEventListener("click", () => send("undo"));
$("#clear").addEventListener("click", () => send("clear"));
$("#submit").addEventListener("click", submit);
// A running game needs a second click to confirm; the first one expires after a few seconds.
$("#new").addEventListener("click", () => {
  const button = $("#new"), label = "New game", sure = "End this game?";
  const over = turn && turn.state === "over";
  if (!over && button.textContent === label) { button.textContent = sure; setTimeout(() => { button.textContent = label; }, 4000); }
  else send("new");
});
$("#back").addEventListener("click", () => seek(at - 1));
$("#on").addEventListener("click", () => seek(at + 1));
$("#seek").addEventListener("change", () => seek(Number($("#seek").value)));
$("h1").append("You are " + G.powers[G.power] + " ", element("small", "", "against " + [...new Set(G.players.filter((_, i) => i !== G.power))].join(", ")));
$("#file").textContent = ABOUT;
// On a narrow screen the map is larger than its frame: begin at home.
function home() {
  const own = phases[now()].units.filter(([, owner]) => owner === G.power).map(([location]) => G.places[location]);
  const frame = $("#scroll"), scale = map.clientWidth / map.viewBox.baseVal.width, mean = (axis) => own.reduce((sum, p) => sum + p[axis], 0) / Math.max(own.length, 1);
  frame.scrollTo(mean(0) * scale - frame.clientWidth / 2, mean(1) * scale - frame.clientHeight / 2);
}
socket.addEventListener("message", () => setTimeout(home), { once: true });
window.play = { seek, settle, place: (code) => G.places[G.codes.indexOf(code)], state: () => ({ at, now: now(), running: run > 0, phase: phases.length ? phases[at].name : "", turn, ...chooser.state(), glow: [...document.querySelectorAll("#glow > *")].map((p) => [p.dataset.mark, p.getAttribute("class")]) }) };
