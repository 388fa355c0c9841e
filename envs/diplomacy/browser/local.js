// The game without a server: it answers the messages of play.js as envs/diplomacy/browser/hosted.py does. The address sets
// who plays, #FRANCE,mixed; `mixed` are DumbBots and the student in turn. Nothing is saved.

const LINEUPS = { mixed: (power) => power % 2 === 1, students: () => true, dumbbots: () => false };
const [askedPower, askedLineup] = decodeURIComponent(location.hash.slice(1)).split(",");
const anyPower = G.powers.findIndex((name) => name.toUpperCase() === (askedPower || "").toUpperCase());
G.power = anyPower < 0 ? Math.floor(Math.random() * POWERS) : anyPower;
const lineup = LINEUPS[askedLineup] ? askedLineup : "mixed";
const isStudent = G.powers.map((_, power) => power !== G.power && LINEUPS[lineup](power + (power > G.power ? 1 : 0)));
G.players = G.powers.map((_, power) => (power === G.power ? "you" : isStudent[power] ? "student" : "DumbBot"));
const ABOUT = "No server: rules, DumbBot and the student run on this page.";

function openGame() {
const student = makeStudent(G.student), listeners = { message: [], close: [] }, seed = Math.floor(Math.random() * 2 ** 30);
const game = gameFrom(B.opening, seed % 1000), past = [];
let turns = 0, drafts = [new Map()], choices = null;
game.players[0][G.power] = -1;

const tell = (message) => { const event = { data: JSON.stringify(message) }; for (const one of listeners.message.splice(0)) { if (!one.once) listeners.message.push(one); one.act(event); } };
const position = (name) => ({ name, ...Object.fromEntries(["units", "dislodged", "owner"].map((key) => [key, [...game[key][0]]])), orders: Array(PROVINCES).fill(0), results: Array(PROVINCES).fill(0) });
const over = () => game.done[0] !== 0;
const out = () => !["units", "dislodged"].some((name) => [...game[name][0]].some((unit) => unit && powerOf(unit) === G.power)) && ![...game.owner[0]].includes(G.power);

// ---- the person's legal orders --------------------------------------------------------------------------------------

function readChoices() {
  const winter = game.phase[0] === WINTER, units = [...game[[1, 3].includes(game.phase[0]) ? "dislodged" : "units"][0]], due = winter ? owed(game, G.power) : 0;
  const mine = (p) => (units[p] ? due <= 0 && powerOf(units[p]) === G.power : due > 0 && B.tables.home[p] === G.power);
  const options = new Map();
  if (!over() && (!winter || due)) for (const [p, orders] of legalOrders(game)) if (mine(p)) options.set(p, orders.filter((order) => order || !winter).map((order) => ({ order, text: orderText(order, p, units[p]) })));
  return { options, lines: winter ? Math.abs(due) : options.size, winter: Math.sign(due) };
}
function optionOf({ order, text }) {
  const { kind, target, other } = unpack(order), helped = kind === 3 ? target : kind === 4 || kind === 5 ? other : -1, code = (location) => nameOf(provinceOf(location));
  return [text, KINDS[kind], kind >= 2 && kind <= 6 ? code(target) : "", helped < 0 ? "" : code(helped)];
}
const draftsNow = () => drafts[drafts.length - 1];
function change(act) { const next = new Map(draftsNow()); act(next); drafts.push(next); }
function draft(text) {
  const plain = text.toUpperCase().replace(/\s+/g, " ").trim();
  for (const [p, options] of choices.options) {
    const found = options.find((one) => one.text === plain);
    if (!found) continue;
    if (!draftsNow().has(p) && draftsNow().size >= choices.lines) return choices.lines + (choices.winter > 0 ? " to build" : " to disband") + "; remove another order first";
    return change((next) => { next.delete(p); next.set(p, found); });
  }
  return "'" + text + "' is not legal now; the list of a unit has its orders";
}

// ---- messages -------------------------------------------------------------------------------------------------------

const counts = (owner) => G.powers.map((_, power) => owner.filter((one) => one === power).length);
const shown = (units) => units.flatMap((unit, p) => (unit ? [[placeOf(unit, p), powerOf(unit), formOf(unit) ? 1 : 0]] : []));
function encoded(phase, after) {
  return { name: phase.name, title: phaseTitle(phase.name), units: shown(phase.units), dislodged: shown(phase.dislodged), owner: phase.owner, counts: counts(phase.owner), outcomes: after ? marked(outcomes(phase, after), phase) : [] };
}
const allPhases = () => [...past, position(over() ? "END" : phaseName(game))];
function phasesFrom(begin) { const all = allPhases(); return { kind: "phases", begin, phases: all.slice(begin).map((phase, i) => encoded(phase, all[begin + i + 1])) }; }
function resultText() {
  const centres = counts([...game.owner[0]]), winner = game.winner[0], alive = G.powers.filter((_, power) => centres[power]);
  return winner >= 0 ? G.powers[winner] + " wins with " + centres[winner] + " centres" : alive.length === POWERS ? "draw of all seven" : "draw of " + alive.length + ": " + alive.join(", ");
}
function draftMarks() {
  const phase = { ...position(phaseName(game)), results: Array(PROVINCES).fill(DONE) };
  for (const [p, { order }] of draftsNow()) phase.orders[p] = order;
  return marked(outcomes(phase, phase).filter(({ start }) => draftsNow().has(provinceOf(start))), phase);
}
function turn() {
  const orders = [...draftsNow()].map(([p, { text }]) => ({ place: nameOf(p), text })), ended = over() ? { result: resultText(), winner: game.winner[0] } : {};
  return { kind: "turn", phase: over() ? "END" : phaseName(game), waitingFor: "", ...ended, state: over() ? "over" : out() ? "out" : "ordering", lines: choices.lines, winter: choices.winter, orders, undo: drafts.length > 1,
    options: Object.fromEntries([...choices.options].map(([p, options]) => [nameOf(p), options.map(optionOf)])), marks: over() ? [] : draftMarks() };
}

// ---- play -----------------------------------------------------------------------------------------------------------

function advance() {
  turns += 1;
  orderDumbBots(game, (seed + 1000003 * turns) % 2 ** 31);
  if (game.phase[0] === SPRING || game.phase[0] === FALL) G.powers.forEach((_, power) => { if (isStudent[power]) student.order(game, power, G.lastYear); });
  for (const [p, { order }] of draftsNow()) game.orders[0][p] = order;
  const record = { ...position(phaseName(game)), orders: [...game.orders[0]] };
  processPhase(game, G.lastYear);
  past.push({ ...record, results: [...game.results[0]] });
  drafts = [new Map()]; choices = readChoices();
}
function playOn() {
  const begin = past.length;
  do advance(); while (!over() && !out() && !choices.lines);
  tell(phasesFrom(begin)); tell(turn());
}
function hint() {
  if (!["S", "F"].includes(phaseName(game)[0]) || !phaseName(game).endsWith("M")) return "a hint is for moves; there are none in this phase";
  const before = [...game.orders[0]];
  student.order(game, G.power, G.lastYear);
  change((next) => { for (const [p, options] of choices.options) { const found = options.find(({ order }) => order === game.orders[0][p]); if (found) next.set(p, found); } });
  game.orders[0].set(before);
  return "the student would order this";
}
const ACTS = {
  order: ({ text }) => draft(text), drop: ({ place }) => change((next) => next.delete(G.locations.indexOf(place))), hint,
  undo: () => { if (drafts.length > 1) drafts.pop(); }, clear: () => { if (draftsNow().size) drafts.push(new Map()); },
};
function take(message) {
  if (message.kind === "new") tell({ kind: "begin" });
  else if (over()) tell({ kind: "note", text: "the game is over" });
  else if (message.kind === "submit") { tell({ kind: "turn", phase: phaseName(game), waitingFor: "", state: "thinking" }); setTimeout(playOn, 30); }
  else { const line = ACTS[message.kind](message); tell(turn()); if (line) tell({ kind: "note", text: line }); }
}
choices = readChoices();
setTimeout(() => { tell(phasesFrom(0)); tell(turn()); }, 0);
return { readyState: 1, send: (text) => take(JSON.parse(text)), addEventListener: (kind, act, options = {}) => listeners[kind].push({ act, once: options.once }) };
}
// A changed power or lineup applies to the next new game.
for (const [id, value] of [["#seat", G.powers[G.power].toUpperCase()], ["#lineup", lineup]]) {
  $(id).value = value;
  $(id).addEventListener("change", () => history.replaceState(null, "", "#" + $("#seat").value + "," + $("#lineup").value));
}
addEventListener("hashchange", () => location.reload());
