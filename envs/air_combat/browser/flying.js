// The page around a match: choices, boards, the scene, and the stick. The server plays the match and sends
// { kind: "match", names, model, gun, limit, armed }, { kind: "frame", tick, outcome, planes, bursts, actions, stores, releases, warning }
// and { kind: "note", text }.

const config = JSON.parse(document.getElementById("data").textContent);
const R = config.rules, TPS = R.ticksPerSecond, SPEEDS = [0.25, 0.5, 0.75, 1];
const TRAIL_TICKS = 10 * TPS, TRAIL_STEP = 8, LAG_TICKS = 12, TEAMS = [0, 1];
const VIEWS = [["behind", 0, "Behind"], ["toward", 0, "To the opponent"], ["fight", 0, "Fight"], ["above", 0, "Above"]];
const $ = (selector, root = document) => root.querySelector(selector);
const scene = makeScene($("#stage"), R), stick = makeStick($("#stick"), $("#lever"), { fire: $("#trigger"), launch: $("#launch"), flare: $("#flare") });
const socket = new WebSocket("ws://" + location.host + "/match");
const send = (kind, more) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ kind, ...more })); };
let match = null, boards = [], last = null, past = [], trails = [[], []], flown = new Map(), flashes = [], beams = [], speed = 1, paused = true, held = "", fresh = false, pictures = [];

// ---- frames -------------------------------------------------------------------------------------------------------

const planeOf = ([px, py, pz, vx, vy, vz, nx, ny, nz, ux, uy, uz, load, rollRate, alpha, power, hp, rounds]) => (
  { pos: [px, py, pz], vel: [vx, vy, vz], nose: [nx, ny, nz], up: [ux, uy, uz], load, rollRate, alpha, power, hp, rounds });
const told = {
  match(info) {
    match = info; last = null; past = []; trails = [[], []]; flown.clear(); flashes = []; paused = true;
    document.body.classList.toggle("armed", info.armed); $("#weapons").value = info.armed ? "missiles" : "guns";
    boards = makeBoards($("#board"), info.names, TEAMS);
    $("#about").replaceChildren(element("b", "", document.title), document.createTextNode(" " + info.model + " · " + info.gun + (info.armed ? " · missiles" : "") + (info.limit ? " · ground limit " + info.limit + " m" : "")));
    pace();
  },
  frame(frame) {
    const planes = frame.planes.map(planeOf), bursts = frame.bursts.map(([seat, ...b]) => ({ seat, pos: b.slice(0, 3), vel: b.slice(3) }));
    beams = [];
    planes.forEach((plane, seat) => {
      if (last && plane.hp < last.planes[seat].hp) {
        flashes = [...flashes.filter((e) => frame.tick - e.tick < FLASH_SECONDS * TPS), { kind: plane.hp > 0 ? "hit" : "down", seat, tick: frame.tick }];
        if (match.gun === "cone") beams.push([1 - seat, seat]);
      }
      const trail = trails[seat];
      if (!trail.length || frame.tick - trail[trail.length - 1].tick >= TRAIL_STEP) trail.push({ ...plane, tick: frame.tick });
      while (trail.length && frame.tick - trail[0].tick > TRAIL_TICKS) trail.shift();
    });
    frame.releases.forEach((row) => follow(row, frame.tick));
    past.push({ tick: frame.tick, planes });
    while (past.length > 1 && frame.tick - past[0].tick > LAG_TICKS) past.shift();
    last = { ...frame, planes, drawn: bursts }; fresh = true;
    if (over()) show();
  },
  note({ text }) { $("#note").textContent = text; },
};
socket.addEventListener("message", (event) => { const message = JSON.parse(event.data); told[message.kind](message); });
socket.addEventListener("close", () => told.note({ text: "The server has stopped; restart it and open its new address." }));
// Missiles and flares by kind, slot and launch: where each was, for its smoke.
function follow([kind, slot, launched, seat, left, px, py, pz, vx, vy, vz], tick) {
  const key = [kind, slot, launched].join();
  if (!flown.has(key)) flown.set(key, { kind: kind ? "flare" : "missile", seat, path: [] });
  const one = flown.get(key), before = one.path[one.path.length - 1];
  Object.assign(one, { tick, left, pos: [px, py, pz], along: unit([vx, vy, vz]) });
  if (!before || tick - before[1] >= TRAIL_STEP) one.path.push([one.pos, tick]);
}
function releases() {
  for (const [key, { kind, tick }] of flown) if (last.tick - tick > SMOKE_TICKS[kind]) flown.delete(key);
  return [...flown.values()].map((one) => {
    const lasting = SMOKE_TICKS[one.kind], smoke = [...one.path, [one.pos, one.tick]].filter(([, tick]) => last.tick - tick < lasting);
    return { ...one, hit: -1, flying: one.tick === last.tick, smoke: smoke.map(([pos, tick]) => [pos, 1 - (last.tick - tick) / lasting]) };
  });
}
const storesOf = (seat) => (last.stores.length ? { armed: true, missiles: last.stores[seat][0], flares: last.stores[seat][1] } : null);
const over = () => last !== null && last.outcome >= 0;

// ---- what is shown ------------------------------------------------------------------------------------------------

// Pictures a second, of the last 120.
const rate = () => (pictures.length > 1 ? 1000 * (pictures.length - 1) / (pictures[pictures.length - 1] - pictures[0]) : 0);
function hint() {
  if (stick.hasGamepad()) return "Gamepad: left stick flies, triggers throttle, A fires, " + (match.armed ? "B missile, X flare, " : "") + "Start begins";
  if (matchMedia("(pointer: coarse)").matches) return "Tap to begin. Stick below: down pulls, sideways rolls; slider: throttle";
  return "Space begins. Arrows fly, E and Q throttle, Space fires" + (match.armed ? ", M launches, F drops flares" : "; or a gamepad");
}
function show() {
  if (!last) return;
  const seconds = last.tick / TPS;
  $("#board .clock").replaceChildren(clockText(seconds), element("small", "", (speed === 1 ? "" : speed + "× speed · ") + (rate() ? Math.round(rate()) + " pictures/s" : "")));
  boards.forEach((field, seat) => showBoard(field, last.planes[seat], match.gun, storesOf(seat)));
  $("#play").textContent = over() ? "Again" : paused ? (last.tick ? "Resume" : "Start") : "Pause";
  $("#save").disabled = !over();
  const result = over() ? resultOf(last.outcome, match.names, TEAMS, last.planes, seconds) : null;
  $("#banner b").textContent = result ? result.title.replace("You wins", "You win") : last.tick ? "Paused" : "Ready";
  $("#banner span").textContent = result ? result.detail : last.tick ? "" : hint();
  $("#banner b").style.color = result && result.team !== undefined ? COLORS[result.team] : "";
  $("#banner").classList.toggle("shown", Boolean(result) || paused);
  scene.paint({ planes: last.planes, short: match.names, teams: TEAMS, gun: match.gun, before: past[0].planes, trails: trails.map((trail, seat) => [...trail, last.planes[seat]]),
    bursts: last.drawn, beams, releases: releases(), warning: match.armed && !over() ? last.warning : null, flashes: flashes.map((e) => ({ ...e, age: (last.tick - e.tick) / TPS })) });
}
function look(now) {
  requestAnimationFrame(look);
  if (stick.started()) toggle();
  const action = stick.action(now).map((part) => Math.round(part * 1000) / 1000), words = JSON.stringify(action);
  if (words !== held && socket.readyState === WebSocket.OPEN) { held = words; send("hold", { action }); }
  if (fresh) { fresh = false; show(); pictures.push(now); pictures = pictures.slice(-120); }
}
requestAnimationFrame(look);

// ---- choices ------------------------------------------------------------------------------------------------------

function pace() { send("pace", { speed, paused }); $("#speed").value = String(speed); show(); }
function begin() { send("begin", { opponent: $("#opponent").value, model: $("#model").value, weapons: $("#weapons").value }); }
function pause(to) { paused = to; pace(); }
function toggle() { if (over()) begin(); else pause(!paused); }
function setSpeed(value) { speed = SPEEDS.includes(value) ? value : 1; pace(); }
const faster = (places) => setSpeed(SPEEDS[clamp(SPEEDS.indexOf(speed) + places, 0, SPEEDS.length - 1)]);
function choose(position) {
  const at = (position + VIEWS.length) % VIEWS.length;
  $("#view").value = String(at); scene.setView(...VIEWS[at]);
}
function order(name) { $("#autopilot").value = name; send("order", { autopilot: name }); }
const KEYS = { p: toggle, r: begin, v: () => choose(Number($("#view").value) + 1), Enter: toggle, "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1) };
config.autopilots.forEach((name, i) => { KEYS[String(i)] = () => order(name); });

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.target.tagName === "SELECT") return;
  const act = KEYS[event.key] || KEYS[event.key.toLowerCase()] || (event.key === " " && paused && !over() ? toggle : null);
  if (!act || ((event.key === "Enter" || event.key === " ") && event.target.tagName === "BUTTON")) return;
  event.preventDefault(); act();
});
$("#play").addEventListener("click", () => { toggle(); $("#play").blur(); });
$("#restart").addEventListener("click", () => { begin(); $("#restart").blur(); });
$("#save").addEventListener("click", () => { send("save"); $("#save").blur(); });
const fill = (select, rows, change) => {
  select.append(...rows.map(([label, value]) => new Option(label, value)));
  select.addEventListener("change", () => { change(select.value); select.blur(); });
};
const same = (names) => names.map((name) => [name, name]);
fill($("#opponent"), same(config.opponents), begin);
fill($("#model"), same(config.models), begin);
fill($("#weapons"), config.weapons.map((name) => [name === "guns" ? "guns" : "missiles and flares", name]), begin);
fill($("#view"), VIEWS.map(([, , label], i) => [label, i]), (i) => choose(Number(i)));
fill($("#speed"), SPEEDS.map((value) => [value + "×", value]), (value) => setSpeed(Number(value)));
fill($("#autopilot"), config.autopilots.map((name, i) => [i + " " + name, name]), order);
fill($("#swap"), [["down pulls", ""], ["up pulls", "up"]], (way) => stick.swap(way === "up"));
document.addEventListener("visibilitychange", () => { if (document.hidden && !over()) pause(true); });
scene.listen(toggle); stick.listen();
new ResizeObserver(() => { scene.resize(); scene.repaint(); }).observe($("#stage"));
scene.resize(); choose(0);
socket.addEventListener("open", begin);
window.fly = { begin, toggle, setSpeed, order, view: choose, state: () => ({ match, last, paused, speed, held, webgl: scene.works(), view: scene.view(),
  rate: rate() }) };
