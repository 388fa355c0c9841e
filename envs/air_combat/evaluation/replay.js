// The replay page: time, timeline, views and keys around the stage.

const { rules: R, games } = JSON.parse(document.getElementById("data").textContent);
const TPS = R.ticksPerSecond, SPEEDS = [0.25, 0.5, 1, 2, 4, 8], LEAD_IN_SECONDS = 1;
const $ = (selector, root = document) => root.querySelector(selector);
const scene = makeScene($("#stage"), R);
let game, boards, index = 0, tick = 0, playing = false, speed = 1, before = null, told = null;

// ---- time ---------------------------------------------------------------------------------------------------------

function frame(now) {
  if (!playing) return;
  if (before !== null) tick += (now - before) / 1000 * TPS * speed;
  before = now;
  if (tick >= game.last) { tick = game.last; pause(); } else requestAnimationFrame(frame);
  show();
}
function play() {
  if (playing) return;
  if (tick >= game.last) tick = 0;
  playing = true; before = null;
  requestAnimationFrame(frame); show();
}
function pause() { playing = false; show(); }
function seekTick(to) { tick = clamp(to, 0, game.last); show(); }
const seek = (seconds) => seekTick(seconds * TPS);
const toEvent = (e) => seekTick(e.tick - (playing ? LEAD_IN_SECONDS * TPS : 0));
function jump(direction) {
  const here = tick + (playing ? LEAD_IN_SECONDS * TPS : 0) * direction;
  const next = direction > 0 ? game.events.find((e) => e.tick > here + 0.5) : game.events.filter((e) => e.tick < here - 0.5).pop();
  if (next) toEvent(next);
}
function setSpeed(value) { speed = SPEEDS.includes(value) ? value : 1; $("#speed").value = String(speed); }
const faster = (places) => setSpeed(SPEEDS[clamp(SPEEDS.indexOf(speed) + places, 0, SPEEDS.length - 1)]);

// ---- words --------------------------------------------------------------------------------------------------------

function describe(e) {
  const who = e.seat < 0 ? "" : game.names[e.seat], part = (x) => Math.round(100 * x) + " %";
  const cause = { gun: " is shot down", missile: " is shot down by a missile", ground: " hits the ground", ceiling: " leaves through the ceiling" };
  const what = { fire: () => who + " fires " + e.rounds + " rounds", hit: () => who + (e.by === "missile" ? " is hit by a missile, " : " is hit, ") + part(e.lost) + " lost, " + part(e.hp) + " left",
    launch: () => who + " launches a missile, " + e.left + " left", flares: () => who + " drops " + (e.count > 1 ? e.count + " flares" : "a flare"),
    decoy: () => "the missile of " + who + " turns to a flare", down: () => who + cause[e.cause], pass: () => "they pass at " + e.distance + " m" }[e.kind];
  return (e.tick / TPS).toFixed(1) + " s · " + what();
}
function mark(e) {
  const button = element("button", "mark " + e.kind);
  button.type = "button"; button.tabIndex = -1; button.title = describe(e);
  button.setAttribute("aria-label", button.title);
  button.style.left = 100 * e.tick / game.last + "%";
  if (e.end > e.tick) button.style.width = "max(" + 100 * (e.end - e.tick) / game.last + "%, 10px)";
  button.addEventListener("click", () => toEvent(e));
  return button;
}
const VIEWS = () => [["fight", 0, "Fight"], ...game.names.flatMap((name, seat) => [["behind", seat, "Behind " + name], ["toward", seat, name + " to opponent"]]), ["above", 0, "Above"], ["free", 0, "Free"]];
function choose(position) {
  const views = VIEWS(), at = (position + views.length) % views.length, [kind, seat] = views[at];
  $("#view").value = String(at); scene.setView(kind, seat);
}
function select(to) {
  index = clamp(Math.floor(to) || 0, 0, games.length - 1);
  game = games[index];
  if (typeof game.places === "string") decode(game);
  told = null;
  document.querySelectorAll("#legend .armed").forEach((entry) => { entry.hidden = !game.releases.length; });
  $("#game").value = String(index);
  $("#about").replaceChildren(element("b", "", game.title), document.createTextNode(" " + game.model + " · " + game.gun + " · " + clockText(game.last / TPS)));
  $("#notes").textContent = game.notes; $("#notes").hidden = !game.notes;
  boards = makeBoards($("#board"), game.names, game.teams);
  for (const team of [0, 1]) $("#timeline .lane.seat" + team).replaceChildren(...game.events.filter((e) => e.seat >= 0 && game.teams[e.seat] === team).map(mark));
  $("#timeline .lane.both").replaceChildren(...game.events.filter((e) => e.seat < 0).map(mark));
  const { title, detail, team } = resultOf(game.outcome, game.names, game.teams, planesAt(game, game.last), game.last / TPS);
  $("#banner b").textContent = title; $("#banner span").textContent = detail;
  $("#banner b").style.color = team === undefined ? "" : COLORS[team];
  $("#view").replaceChildren(...VIEWS().map(([, , name], i) => new Option(name, i)));
  $("#scrub").max = game.last;
  choose(0); seekTick(0);
}
function show() {
  const seconds = tick / TPS, moment = sceneAt(game, tick, R), latest = game.events.filter((e) => e.tick <= tick).pop();
  $("#board .clock").replaceChildren(clockText(seconds), element("small", "", "of " + clockText(game.last / TPS)));
  $("#scrub").value = tick; $("#scrub").setAttribute("aria-valuetext", clockText(seconds));
  $("#scrub").style.setProperty("--done", 100 * tick / game.last + "%");
  $("#play").textContent = playing ? "Pause" : tick >= game.last ? "Replay" : "Play";
  $("#banner").classList.toggle("shown", tick >= game.last);
  if (latest !== told) { told = latest; $("#told").textContent = latest ? describe(latest) : ""; }
  boards.forEach((field, seat) => showBoard(field, moment.planes[seat], game.gun, moment.stores[seat]));
  scene.paint(moment);
  if (!playing) $("canvas.world").setAttribute("aria-label", "At " + clockText(seconds) + ": " + moment.planes.map((p, seat) => game.names[seat] + " " + Math.round(size(p.vel)) + " m/s, " + Math.round(p.pos[1]) + " m high, " + p.load.toFixed(1) + " g").join("; "));
}
function state() {
  const moment = sceneAt(game, tick, R);
  return { game: index, games: games.length, names: game.names, tick, last: game.last, playing, speed, view: scene.view(), webgl: scene.works(), planes: moment.planes,
    bursts: moment.bursts.length, releases: moment.releases, stores: moment.stores, beams: moment.beams.length, told: $("#told").textContent, pictures: game.names.map((_, seat) => scene.onPicture(moment.planes[seat].pos)),
    banner: $("#banner").classList.contains("shown") ? $("#banner b").textContent : "" };
}

// ---- keys and buttons ---------------------------------------------------------------------------------------------

const toggle = () => (playing ? pause() : play());
const step = (seconds) => () => seek(tick / TPS + seconds);
const look = (act) => () => { act(); scene.repaint(); };
const KEYS = { " ": toggle, k: toggle, n: () => jump(1), p: () => jump(-1), Home: () => seekTick(0), End: () => seekTick(game.last), ArrowLeft: step(-1), ArrowRight: step(1),
  v: () => choose(Number($("#view").value) + 1), V: () => choose(Number($("#view").value) - 1), "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1),
  a: look(() => scene.turn(0.12, 0)), d: look(() => scene.turn(-0.12, 0)), w: look(() => scene.turn(0, 0.1)), s: look(() => scene.turn(0, -0.1)),
  q: look(() => scene.zoom(1.15)), e: look(() => scene.zoom(1 / 1.15)) };
const TICK_KEYS = { ArrowLeft: () => seekTick(Math.ceil(tick) - 1), ArrowRight: () => seekTick(Math.floor(tick) + 1) };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
  const act = (event.shiftKey && TICK_KEYS[event.key]) || KEYS[event.key] || KEYS[event.key.toLowerCase()];
  if (!act || (event.key === " " && event.target.tagName === "BUTTON")) return;
  event.preventDefault(); act();
});
$("#play").addEventListener("click", toggle);
$("#next").addEventListener("click", () => jump(1));
$("#previous").addEventListener("click", () => jump(-1));
$("#scrub").addEventListener("input", (event) => seekTick(Number(event.target.value)));
$("#view").addEventListener("change", (event) => choose(Number(event.target.value)));
$("#speed").append(...SPEEDS.map((value) => new Option(value + "×", value)));
$("#speed").addEventListener("change", (event) => setSpeed(Number(event.target.value)));
$("#game").append(...games.map((g, i) => new Option((games.length > 1 ? i + 1 + ". " : "") + g.title, i)));
$("#game").hidden = games.length < 2;
$("#game").addEventListener("change", (event) => { const on = playing; pause(); select(Number(event.target.value)); if (on) play(); });
scene.listen(toggle);
new ResizeObserver(() => { scene.resize(); scene.repaint(); }).observe($("#stage"));

// "#game=2&t=12.5&view=1&speed=0.5" opens at a moment, paused; "selftest" writes the state into the document.
function follow() {
  const wish = new URLSearchParams(location.hash.slice(1));
  pause();
  if (wish.has("game") || !wish.has("t")) select(Number(wish.get("game")) - 1);
  if (wish.has("speed")) setSpeed(Number(wish.get("speed")));
  if (wish.has("view")) choose(Number(wish.get("view")));
  if (wish.has("t")) seek(Number(wish.get("t")) || 0);
  else if (!wish.has("selftest") && !matchMedia("(prefers-reduced-motion: reduce)").matches) play();
  if (wish.has("selftest")) {
    const report = element("pre", "", JSON.stringify(state())); report.id = "selftest"; report.hidden = true;
    $("#selftest")?.remove(); document.body.append(report);
  }
}
window.replay = { seek, play, pause, state, select: (number) => select(number - 1), setSpeed, view: choose };
game = games[0]; decode(game); scene.resize(); setSpeed(1); select(0); follow();
window.addEventListener("hashchange", follow);
