// The page around a match: choices, board, arena, the opponent's action. Matches come from `makeSource`: it calls
// page.match({ names, short, maxHp, wraps, regime }) at a start and page.frame({ tick, outcome, fighters, bullets, actions, value }).

const config = JSON.parse(document.getElementById("data").textContent);
const R = config.rules, TPS = R.ticksPerSecond, SPEEDS = [0.25, 0.5, 0.75, 1];
const $ = (selector, root = document) => root.querySelector(selector);
const boards = [0, 1].map((seat) => $("#board .seat" + seat));
const arena = makeArena($("canvas"), R), controls = makeControls($("#stick"), $("#trigger"));
let match = null, last = null, history = [[], []], flashes = [], speed = 1, paused = true;

// ---- frames -------------------------------------------------------------------------------------------------------

const page = {
  action: () => controls.action(),
  match(info) {
    match = info; last = null; history = [[], []]; flashes = []; paused = true;
    boards.forEach((board, seat) => nameBoard(board, info.names[seat], info.short[seat], info.maxHp));
    $("#about").replaceChildren(element("b", "", config.title), document.createTextNode(" " + (info.note || "")));
    pace();
  },
  frame(frame) {
    const fighters = frame.fighters.map(({ x, y, cos, sin, speed, hp, stall }) => ({ x, y, yaw: Math.atan2(sin, cos), speed, hp, stalled: stall > 0 }));
    const bullets = frame.bullets.map(flying(fighters)).filter(Boolean);
    if (last) flashes = [...flashes.filter((e) => frame.tick - e.tick < FLASH_SECONDS * TPS), ...changes(last, frame)];
    fighters.forEach((f, seat) => {
      history[seat] = [...history[seat].filter((p) => frame.tick - p.tick < TRAIL_SECONDS * TPS), { x: f.x, y: f.y, yaw: f.yaw, tick: frame.tick }];
      const older = history[seat].find((p) => frame.tick - p.tick <= 2 * R.aircraft.turnTicks);
      f.turn = turnRate(older.yaw, f.yaw, (frame.tick - older.tick) / TPS);
    });
    last = { ...frame, seen: fighters, drawn: bullets };
    show();
  },
  note(text) { $("#note").textContent = text; },
};
// A bullet's direction is that of its last movement; a new one's is its shooter's.
const flying = (fighters) => ([x, y, life], slot) => {
  if (life <= 0) return null;
  const seat = Math.floor(slot / R.bulletsPerFighter), old = last && last.drawn.find((b) => b.slot === slot && b.life > life);
  const moved = old && Math.hypot(x - old.x, y - old.y) > 0 && Math.abs(x - old.x) < R.halfWidth;
  return { x, y, life, slot, seat, angle: moved ? Math.atan2(y - old.y, x - old.x) : old ? old.angle : fighters[seat].yaw };
};
// What happened between two frames: shots, hits, deaths, and bullets that glanced off the armour.
function changes(before, now) {
  const passed = now.tick - before.tick, found = [];
  now.fighters.forEach((f, seat) => {
    const old = before.fighters[seat], lost = old.hp - f.hp, add = (kind) => found.push({ kind, seat, tick: now.tick, x: f.x, y: f.y, hp: f.hp });
    if (f.cooldown > old.cooldown) add("shot");
    if (lost > 0) add(f.hp > 0 ? "hit" : "death");
    const gone = before.bullets.filter(([, , life], slot) => Math.floor(slot / R.bulletsPerFighter) === 1 - seat && life > passed && now.bullets[slot][2] === 0);
    if (gone.length > lost) add("glance");
  });
  return found;
}

// ---- what is shown ------------------------------------------------------------------------------------------------

function show() {
  if (!last) return;
  if ($("#save")) $("#save").disabled = !over();
  $("#clock").replaceChildren(clockText(last.tick / TPS), element("small", "", speed === 1 ? "" : speed + "× speed"));
  boards.forEach((board, seat) => showBoard(board, last.seen[seat]));
  $("#play").textContent = over() ? "Again" : paused ? (last.tick ? "Resume" : "Start") : "Pause";
  showBanner();
  last.actions.forEach((action, seat) => {
    $("#seen .seat" + seat).classList.toggle("unknown", !action);
    if (action) showAction($("#seen .seat" + seat), action);
  });
  $("#value").textContent = last.value === null ? "" : "expected return " + last.value.toFixed(2);
  arena.paint({ wraps: match.wraps, short: match.short, time: last.tick / TPS, fighters: last.seen, bullets: last.drawn, trails: history,
    flashes: flashes.map((e) => ({ ...e, age: (last.tick - e.tick) / TPS })) });
}
const over = () => last !== null && last.outcome >= 0;

function hint() {
  if (controls.hasGamepad()) return "Gamepad: stick turns, triggers throttle, A fires, Start begins";
  if (matchMedia("(pointer: coarse)").matches) return "Tap to begin. Aim across the other's path: shots from behind glance off";
  return "Space or a click begins. Arrows fly, Space fires; or a gamepad";
}
function showBanner() {
  const result = over() ? resultOf(last.outcome, match.short, last.fighters.map((f) => Math.max(f.hp, 0)), last.tick / TPS) : null;
  const [title, detail] = result ? [result.title.replace("You wins", "You win"), result.detail] : last.tick ? ["Paused", ""] : ["Ready", hint()];
  $("#banner").classList.toggle("shown", Boolean(result) || paused);
  $("#banner b").textContent = title; $("#banner span").textContent = detail;
  $("#banner b").style.color = result && result.winner !== undefined ? COLORS[result.winner] : "";
  $("#banner").style.top = last.seen[0].y + last.seen[1].y < R.height ? "14%" : "58%";
}
function showAction(row, [turn, throttle, fire]) {
  const bar = $(".turn i", row), share = 50 * clamp(turn, -1, 1);
  bar.style.left = 50 - Math.max(share, 0) + "%"; bar.style.width = Math.abs(share) + "%";
  $(".throttle i", row).style.width = 100 * clamp(throttle, 0, 1) + "%";
  $(".fire", row).classList.toggle("on", fire > 0);
}

// ---- choices ------------------------------------------------------------------------------------------------------

function pace() {
  source.pace({ speed, paused });
  $("#speed").value = String(speed);
  show();
}
function begin() { source.begin({ opponent: $("#opponent").value, regime: $("#regime").value }); }
// The policy flies both aircraft, one match after the other, on pages that hold it.
const AGAIN_SECONDS = 3;
let watching = false, ended = null;
function setWatching(on) {
  watching = on;
  source.autopilot(on);
  $("#watch").setAttribute("aria-pressed", String(on));
  begin();
  if (on) pause(false);
}
function pause(to) { paused = to; pace(); }
function toggle() { if (over()) begin(); else pause(!paused); }
function setSpeed(value) { speed = SPEEDS.includes(value) ? value : 1; pace(); }
const faster = (places) => setSpeed(SPEEDS[clamp(SPEEDS.indexOf(speed) + places, 0, SPEEDS.length - 1)]);
const KEYS = { p: toggle, r: begin, c: makeCameraSwitch($("#camera"), arena), Enter: toggle, "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1) };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.target.tagName === "SELECT") return;
  const act = KEYS[event.key] || KEYS[event.key.toLowerCase()] || (event.key === " " && paused && !over() ? toggle : null);
  if (!act || (event.key === "Enter" && event.target.tagName === "BUTTON")) return;
  event.preventDefault(); act();
});
$("#play").addEventListener("click", () => { toggle(); $("#play").blur(); });
$("#restart").addEventListener("click", () => { begin(); $("#restart").blur(); });
$("#stage").addEventListener("click", toggle);
const fill = (select, names, change) => {
  select.append(...names.map((name) => new Option(name, name)));
  select.addEventListener("change", () => { change(select.value); select.blur(); });
};
fill($("#opponent"), config.opponents, begin);
$("#opponent").hidden = config.opponents.length < 2;
fill($("#regime"), config.regimes, begin);
fill($("#speed"), SPEEDS, (value) => setSpeed(Number(value)));
[...$("#speed").options].forEach((option) => { option.textContent += "×"; });
document.addEventListener("visibilitychange", () => { if (document.hidden && !over()) pause(true); });
controls.listen();
const look = (now) => {
  requestAnimationFrame(look);
  if (controls.started()) toggle();
  ended = watching && over() ? ended || now : null;
  if (ended && now - ended > 1000 * AGAIN_SECONDS) setWatching(true);
};
requestAnimationFrame(look);
new ResizeObserver(() => { arena.resize(); arena.repaint(); }).observe($("canvas"));

const source = makeSource(config, page);
window.play = { source, begin, toggle, setSpeed, state: () => ({ match, last, paused, speed, flashes, view: arena.view(), action: controls.action() }) };
arena.resize();
const asked = () => location.hash === "#watch";
if ($("#watch")) {
  $("#watch").addEventListener("click", () => { setWatching(!watching); $("#watch").blur(); });
  window.addEventListener("hashchange", () => setWatching(asked()));
}
if (source.ready) source.ready(begin); else if (asked()) setWatching(true); else begin();
