// Drawing of the arena on a canvas, shared by the replay and the pages for playing, which include this text after
// camera.js and aircraft.js.

const COLORS = ["#f0a528", "#56b4e9"];
const TRAIL_SECONDS = 2, FLASH_SECONDS = 0.5;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// R: constants of the rules. A scene has wraps (true if the sides are open), short (names), time, and in metres, radians
// and seconds: fighters [2], bullets [{ x, y, angle, seat }], trails [2][oldest first, undefined where missing],
// flashes [{ kind, seat, age, x, y }], at the place where the event happened.
function makeArena(canvas, R) {
const pen = canvas.getContext("2d"), camera = makeCamera(R), aircraft = makeAircraft(R);
let width = 1, height = 1, metre = 1, view = { x: 0, y: R.height / 2, height: R.height }, period = 0, painted = null, aspect = R.camera.aspect;
const X = (x) => width / 2 + gap(view.x, x, period) * metre, Y = (y) => height / 2 - (y - view.y) * metre;

function resize() {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * ratio)); canvas.height = Math.max(1, Math.round(box.height * ratio));
  width = box.width; height = box.height;
  // The sizes of a box are rounded, and the arena's own shape is to stay exact.
  const shape = width / height, usual = R.camera.aspect;
  camera.shape(aspect = Math.abs(shape / usual - 1) > 0.02 ? shape : usual);
  pen.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
}
function paint(scene) {
  painted = scene; period = scene.wraps ? 2 * R.halfWidth : 0;
  view = camera.follow(scene); metre = width / (aspect * view.height);
  paintArena(scene.wraps);
  scene.trails.forEach(paintTrail);
  scene.bullets.forEach(paintBullet);
  scene.fighters.forEach((f, seat) => paintFighter(seat, f));
  [0, 1].forEach((seat) => paintLabel(seat, scene));
  scene.flashes.forEach((flash) => paintFlash(flash, scene.fighters));
  if (view.height < 0.85 * R.height) paintMap(scene);
}
function paintArena(wraps) {
  const sky = pen.createLinearGradient(0, Y(R.height), 0, Y(0));
  sky.addColorStop(0, "#0d1524"); sky.addColorStop(1, "#18243a");
  pen.fillStyle = sky; pen.fillRect(0, 0, width, height);
  pen.strokeStyle = "rgba(148, 170, 205, .07)"; pen.lineWidth = 1; pen.beginPath();
  for (let m = 100; m < R.height; m += 100) { pen.moveTo(0, Y(m)); pen.lineTo(width, Y(m)); }
  for (let m = (wraps ? 0 : 100) - R.halfWidth; m < R.halfWidth; m += 100) { pen.moveTo(X(m), 0); pen.lineTo(X(m), height); }
  pen.stroke();
  const band = R.wallBand * metre, shade = "rgba(120, 150, 200, .20)", left = X(-R.halfWidth), right = X(R.halfWidth), top = Y(R.height), ground = Y(0);
  const fade = (x0, y0, x1, y1, x, y, w, h) => {
    const g = pen.createLinearGradient(x0, y0, x1, y1);
    g.addColorStop(0, shade); g.addColorStop(1, "rgba(120, 150, 200, 0)");
    pen.fillStyle = g; pen.fillRect(x, y, w, h);
  };
  fade(0, top, 0, top + band, 0, top, width, band);
  if (wraps) {
    pen.fillStyle = "#cc5442"; pen.fillRect(0, Y(R.deadlyAltitude), width, height);
    return;
  }
  fade(left, 0, left + band, 0, left, 0, band, height);
  fade(right, 0, right - band, 0, right - band, 0, band, height);
  fade(0, ground, 0, ground - band, 0, ground - band, width, band);
  pen.fillStyle = "#3d4a3f"; pen.fillRect(0, Y(5), width, height);
}
// The whole arena in the corner, with the part that the camera shows.
function paintMap({ fighters }) {
  const w = clamp(0.17 * width, 76, 170), h = w / R.camera.aspect, x = width - w - 8, y = height - h - 8, unit = w / (2 * R.halfWidth);
  const at = (f) => [x + w / 2 + f.x * unit, y + h - f.y * unit];
  pen.globalAlpha = 0.72; pen.fillStyle = "#0a0e16"; pen.fillRect(x, y, w, h);
  pen.save(); pen.beginPath(); pen.rect(x, y, w, h); pen.clip();
  pen.globalAlpha = 0.8; pen.strokeStyle = "#5a6b88"; pen.lineWidth = 1;
  const seen = [aspect * view.height * unit, view.height * unit];
  for (const turn of period ? [-w, 0, w] : [0]) {
    const [cx, cy] = at(view);
    pen.strokeRect(cx + turn - seen[0] / 2, cy - seen[1] / 2, ...seen);
  }
  fighters.forEach((f, seat) => { pen.fillStyle = f.hp > 0 ? COLORS[seat] : "#6e7a8d"; pen.beginPath(); pen.arc(...at(f), 3, 0, 7); pen.fill(); });
  pen.restore(); pen.globalAlpha = 0.5; pen.strokeStyle = "#5a6b88"; pen.lineWidth = 1; pen.strokeRect(x, y, w, h); pen.globalAlpha = 1;
}
function paintTrail(trail, seat) {
  const steps = trail.length - 1;
  let from = null;
  pen.lineCap = "butt"; pen.strokeStyle = COLORS[seat];
  trail.forEach((to, i) => {
    if (from && to && Math.abs(X(to.x) - X(from.x)) < R.halfWidth * metre) {
      pen.globalAlpha = 0.5 * (i / steps) ** 1.5; pen.lineWidth = 0.6 + 2.6 * i / steps;
      pen.beginPath(); pen.moveTo(X(from.x), Y(from.y)); pen.lineTo(X(to.x), Y(to.y)); pen.stroke();
    }
    from = to;
  });
  pen.globalAlpha = 1;
}
function paintBullet(b) {
  const radius = clamp(R.bulletRadius * metre, 2, 5), tail = clamp(14 * metre + 4, 12, 44);
  pen.strokeStyle = COLORS[b.seat]; pen.globalAlpha = 0.75; pen.lineWidth = radius; pen.lineCap = "round";
  pen.beginPath(); pen.moveTo(X(b.x), Y(b.y)); pen.lineTo(X(b.x) - tail * Math.cos(b.angle), Y(b.y) + tail * Math.sin(b.angle)); pen.stroke();
  pen.globalAlpha = 1; pen.fillStyle = "#fff"; pen.beginPath(); pen.arc(X(b.x), Y(b.y), radius, 0, 7); pen.fill();
}
function paintFighter(seat, f) {
  pen.save(); pen.translate(X(f.x), Y(f.y));
  pen.strokeStyle = COLORS[seat]; pen.globalAlpha = 0.22; pen.lineWidth = 1;
  pen.beginPath(); pen.arc(0, 0, R.fighterRadius * metre, 0, 7); pen.stroke();
  pen.globalAlpha = 1; pen.rotate(-f.yaw);
  aircraft.paint(pen, fighterSize(), f, COLORS[seat]);
  pen.restore();
}
const fighterSize = () => clamp(R.fighterRadius * 2 * metre, 9, 34);
const labelSize = () => clamp(13 * metre, 11, 15);
// 1 to write a fighter's name below it, -1 above: above at the lower edge, and over the upper one of two close ones.
function labelSide(seat, fighters) {
  const f = fighters[seat], other = fighters[1 - seat];
  const close = Math.abs(X(f.x) - X(other.x)) < 90 && Math.abs(f.y - other.y) * metre < 3 * fighterSize() + 2 * labelSize();
  const upper = f.y > other.y || (f.y === other.y && seat === 0);
  return Y(f.y) + fighterSize() + 3 * labelSize() > height || (close && upper) ? -1 : 1;
}
function paintLabel(seat, { fighters, short }) {
  const f = fighters[seat], line = labelSize(), side = labelSide(seat, fighters), name = short[seat];
  pen.textAlign = "center"; pen.textBaseline = "middle"; pen.font = "600 " + line + "px system-ui, sans-serif";
  const edge = pen.measureText(name).width / 2 + 4, x = clamp(X(f.x), edge, width - edge), y = Y(f.y) + side * ((0.7 + 0.9 * Math.abs(Math.sin(f.yaw))) * fighterSize() + line);
  pen.fillStyle = COLORS[seat]; pen.fillText(name, x, y);
  if (f.stalled && f.hp > 0) { pen.fillStyle = "#f06eaa"; pen.fillText("STALL", x, y + side * 1.2 * line); }
}
function paintFlash(e, fighters) {
  const age = e.age;
  if (age < 0 || age >= FLASH_SECONDS || e.kind === "stall") return;
  const now = fighters[e.seat], share = age / FLASH_SECONDS;
  const ring = (place, from, to, color, line) => {
    pen.globalAlpha = (1 - share) ** 1.5; pen.strokeStyle = color; pen.lineWidth = line;
    pen.beginPath(); pen.arc(X(place.x), Y(place.y), clamp(metre, 0.55, 1.6) * (from + (to - from) * Math.sqrt(share)), 0, 7); pen.stroke(); pen.globalAlpha = 1;
  };
  if (e.kind === "shot" && age < 0.12) {
    const nose = 1.8 * fighterSize();
    pen.fillStyle = "#fff"; pen.globalAlpha = 1 - age / 0.12; pen.beginPath();
    pen.arc(X(now.x) + nose * Math.cos(now.yaw), Y(now.y) - nose * Math.sin(now.yaw), clamp(5 * metre, 3, 8), 0, 7); pen.fill(); pen.globalAlpha = 1;
  }
  if (e.kind === "hit") { ring(now, 14, 46, "#fff", 3); ring(now, 8, 30, COLORS[1 - e.seat], 2); }
  if (e.kind === "glance") ring(now, 10, 24, "#9fb0c8", 1.5);
  if (e.kind === "death") { ring(e, 10, 90, "#fff", 4); ring(e, 8, 62, COLORS[e.seat], 6); ring(e, 4, 38, "#ff7a5c", 8); }
  if (e.kind === "hit" || e.kind === "glance") {
    pen.globalAlpha = 1 - share; pen.fillStyle = e.kind === "hit" ? "#fff" : "#9fb0c8"; pen.textAlign = "center";
    const away = -labelSide(e.seat, fighters);
    pen.font = "700 " + clamp(15 * metre, 12, 18) + "px system-ui, sans-serif";
    pen.fillText(e.kind === "hit" ? "−1" : "armour", X(now.x), Y(now.y) + away * (clamp(30 * metre, 20, 52) + 14 * share)); pen.globalAlpha = 1;
  }
}
const repaint = () => { if (painted) paint(painted); };
return { resize, paint, repaint, view: () => view, following: camera.following, toggleCamera: () => camera.toggle(repaint), lift: aircraft.lift };
}

// ---- the board above the arena ------------------------------------------------------------------------------------

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
function clockText(seconds) {
  const tenths = Math.floor(seconds * 10 + 1e-6);
  return Math.floor(tenths / 600) + ":" + String(Math.floor(tenths / 10) % 60).padStart(2, "0") + "." + tenths % 10;
}
function nameBoard(board, name, short, maxHp) {
  board.querySelector(".name").textContent = short; board.querySelector(".name").title = name;
  board.querySelector(".hp").replaceChildren(...Array.from({ length: maxHp }, () => element("i")));
}
function showBoard(board, f) {
  board.querySelector(".speed").textContent = Math.round(f.speed) + " m/s · " + Math.round(f.y) + " m";
  board.querySelector(".note").textContent = f.hp <= 0 ? "DOWN" : f.stalled ? "STALL" : "";
  const pips = [...board.querySelector(".hp").children], told = Math.max(f.hp, 0) + " of " + pips.length + " hp";
  pips.forEach((pip, i) => pip.classList.toggle("on", i < f.hp));
  if (board.querySelector(".unseen").textContent !== told) board.querySelector(".unseen").textContent = told;
}
function resultOf(outcome, names, hp, seconds) {
  const score = hp.join(" : ") + " hp · " + clockText(seconds);
  if (outcome === 0) return { title: "Draw", detail: (hp[0] ? "time is up" : "both down") + " · " + score };
  const winner = outcome - 1, how = hp[1 - winner] > 0 ? "on hp, time is up" : "by elimination";
  return { title: names[winner] + " wins", detail: how + " · " + hp[winner] + " : " + hp[1 - winner] + " hp · " + clockText(seconds), winner };
}
