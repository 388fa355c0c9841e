// Drawing of the arena on a canvas, shared by the replay and the pages for playing, which include this text.

const COLORS = ["#f0a528", "#56b4e9"];
const TRAIL_SECONDS = 2, FLASH_SECONDS = 0.5;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// R: constants of the rules. A scene has wraps (true if the sides are open), names, and in metres, radians and seconds:
// fighters [2], bullets [{ x, y, angle, seat }], trails [2][oldest first, undefined where there is none],
// flashes [{ kind, seat, age, x, y }], at the place where the event happened.
function makeArena(canvas, R) {
const pen = canvas.getContext("2d");
let width = 1, height = 1, metre = 1;
const X = (x) => (x + R.halfWidth) * metre, Y = (y) => height - y * metre;

function resize() {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * ratio)); canvas.height = Math.max(1, Math.round(box.height * ratio));
  width = box.width; height = box.height; metre = width / (2 * R.halfWidth);
  pen.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
}
function paint(scene) {
  paintArena(scene.wraps);
  scene.trails.forEach(paintTrail);
  scene.bullets.forEach(paintBullet);
  scene.fighters.forEach((f, seat) => paintFighter(seat, f));
  [0, 1].forEach((seat) => paintLabel(seat, scene));
  scene.flashes.forEach((flash) => paintFlash(flash, scene.fighters));
}
function paintArena(wraps) {
  const sky = pen.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, "#0d1524"); sky.addColorStop(1, "#18243a");
  pen.fillStyle = sky; pen.fillRect(0, 0, width, height);
  pen.strokeStyle = "rgba(148, 170, 205, .07)"; pen.lineWidth = 1; pen.beginPath();
  for (let m = 100; m < R.height; m += 100) { pen.moveTo(0, Y(m)); pen.lineTo(width, Y(m)); }
  for (let m = 100 - R.halfWidth; m < R.halfWidth; m += 100) { pen.moveTo(X(m), 0); pen.lineTo(X(m), height); }
  pen.stroke();
  const band = R.wallBand * metre, shade = "rgba(120, 150, 200, .20)";
  const fade = (x0, y0, x1, y1, x, y, w, h, color) => {
    const g = pen.createLinearGradient(x0, y0, x1, y1);
    g.addColorStop(0, color); g.addColorStop(1, "rgba(120, 150, 200, 0)");
    pen.fillStyle = g; pen.fillRect(x, y, w, h);
  };
  fade(0, 0, 0, band, 0, 0, width, band, shade);
  if (wraps) {
    pen.fillStyle = "#cc5442"; pen.fillRect(0, Y(R.deadlyAltitude), width, height);
    return;
  }
  fade(0, 0, band, 0, 0, 0, band, height, shade);
  fade(width, 0, width - band, 0, width - band, 0, band, height, shade);
  fade(0, height, 0, height - band, 0, height - band, width, band, shade);
  pen.fillStyle = "#3d4a3f"; pen.fillRect(0, Y(5), width, height);
}
function paintTrail(trail, seat) {
  const steps = trail.length - 1;
  let from = null;
  pen.lineCap = "butt"; pen.strokeStyle = COLORS[seat];
  trail.forEach((to, i) => {
    if (from && to && Math.abs(to.x - from.x) < R.halfWidth) {
      pen.globalAlpha = 0.5 * (i / steps) ** 1.5; pen.lineWidth = 0.6 + 2.6 * i / steps;
      pen.beginPath(); pen.moveTo(X(from.x), Y(from.y)); pen.lineTo(X(to.x), Y(to.y)); pen.stroke();
    }
    from = to;
  });
  pen.globalAlpha = 1;
}
function paintBullet(b) {
  const radius = Math.max(R.bulletRadius * metre, 2), tail = 14 * metre + 4;
  pen.strokeStyle = COLORS[b.seat]; pen.globalAlpha = 0.55; pen.lineWidth = radius; pen.lineCap = "round";
  pen.beginPath(); pen.moveTo(X(b.x), Y(b.y)); pen.lineTo(X(b.x) - tail * Math.cos(b.angle), Y(b.y) + tail * Math.sin(b.angle)); pen.stroke();
  pen.globalAlpha = 1; pen.fillStyle = "#fff"; pen.beginPath(); pen.arc(X(b.x), Y(b.y), radius, 0, 7); pen.fill();
}
function paintFighter(seat, f) {
  const size = fighterSize(), x = X(f.x), y = Y(f.y);
  pen.save(); pen.translate(x, y);
  pen.strokeStyle = COLORS[seat]; pen.globalAlpha = 0.22; pen.lineWidth = 1;
  pen.beginPath(); pen.arc(0, 0, R.fighterRadius * metre, 0, 7); pen.stroke();
  pen.globalAlpha = 1; pen.rotate(-f.yaw);
  pen.beginPath(); pen.moveTo(1.3 * size, 0); pen.lineTo(-0.9 * size, 0.82 * size); pen.lineTo(-0.45 * size, 0); pen.lineTo(-0.9 * size, -0.82 * size); pen.closePath();
  pen.fillStyle = f.hp <= 0 ? "#475063" : f.stalled ? "#141d2e" : COLORS[seat]; pen.lineWidth = 2; pen.lineJoin = "round";
  pen.fill(); pen.stroke(); pen.restore();
}
const fighterSize = () => Math.max(R.fighterRadius * 1.9 * metre, 8);
const labelSize = () => Math.max(11, 13 * metre);
const shortName = (name) => (name.length > 18 ? name.slice(0, 17) + "…" : name);
// 1 to write a fighter's name below it, -1 above: above where there is no room, and over the upper one of two close ones.
function labelSide(seat, fighters) {
  const f = fighters[seat], other = fighters[1 - seat];
  const close = Math.abs(f.x - other.x) * metre < 90 && Math.abs(f.y - other.y) * metre < 3 * fighterSize() + 2 * labelSize();
  const upper = f.y > other.y || (f.y === other.y && seat === 0);
  return (R.height - f.y) * metre + fighterSize() + 3 * labelSize() > height || (close && upper) ? -1 : 1;
}
function paintLabel(seat, { fighters, names }) {
  const f = fighters[seat], line = labelSize(), side = labelSide(seat, fighters), name = shortName(names[seat]);
  pen.textAlign = "center"; pen.textBaseline = "middle"; pen.font = "600 " + line + "px system-ui, sans-serif";
  const edge = pen.measureText(name).width / 2 + 4, x = clamp(X(f.x), edge, width - edge), y = Y(f.y) + side * (fighterSize() + line);
  pen.fillStyle = COLORS[seat]; pen.fillText(name, x, y);
  if (f.stalled && f.hp > 0) { pen.fillStyle = "#f06eaa"; pen.fillText("STALL", x, y + side * 1.2 * line); }
}
function paintFlash(e, fighters) {
  const age = e.age;
  if (age < 0 || age >= FLASH_SECONDS || e.kind === "stall") return;
  const now = fighters[e.seat], share = age / FLASH_SECONDS;
  const ring = (place, from, to, color, line) => {
    pen.globalAlpha = (1 - share) ** 1.5; pen.strokeStyle = color; pen.lineWidth = line;
    pen.beginPath(); pen.arc(X(place.x), Y(place.y), Math.max(metre, 0.55) * (from + (to - from) * Math.sqrt(share)), 0, 7); pen.stroke(); pen.globalAlpha = 1;
  };
  if (e.kind === "shot" && age < 0.12) {
    pen.fillStyle = "#fff"; pen.globalAlpha = 1 - age / 0.12; pen.beginPath();
    pen.arc(X(now.x + 20 * Math.cos(now.yaw)), Y(now.y + 20 * Math.sin(now.yaw)), Math.max(5 * metre, 3), 0, 7); pen.fill(); pen.globalAlpha = 1;
  }
  if (e.kind === "hit") { ring(now, 14, 46, "#fff", 3); ring(now, 8, 30, COLORS[1 - e.seat], 2); }
  if (e.kind === "glance") ring(now, 10, 24, "#9fb0c8", 1.5);
  if (e.kind === "death") { ring(e, 10, 90, "#fff", 4); ring(e, 8, 62, COLORS[e.seat], 6); ring(e, 4, 38, "#ff7a5c", 8); }
  if (e.kind === "hit" || e.kind === "glance") {
    pen.globalAlpha = 1 - share; pen.fillStyle = e.kind === "hit" ? "#fff" : "#9fb0c8"; pen.textAlign = "center";
    const away = -labelSide(e.seat, fighters);
    pen.font = "700 " + Math.max(12, 15 * metre) + "px system-ui, sans-serif";
    pen.fillText(e.kind === "hit" ? "−1" : "armour", X(now.x), Y(now.y) + away * (Math.max(30 * metre, 20) + 14 * share)); pen.globalAlpha = 1;
  }
}
return { resize, paint };
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
function nameBoard(board, name, maxHp) {
  board.querySelector(".name").textContent = board.querySelector(".name").title = name;
  board.querySelector(".hp").replaceChildren(...Array.from({ length: maxHp }, () => element("i")));
}
function showBoard(board, f) {
  board.querySelector(".speed").textContent = Math.round(f.speed) + " m/s · " + Math.round(f.y) + " m";
  board.querySelector(".note").textContent = f.hp <= 0 ? "DOWN" : f.stalled ? "STALL" : "";
  [...board.querySelector(".hp").children].forEach((pip, i) => pip.classList.toggle("on", i < f.hp));
}
function resultOf(outcome, names, hp, seconds) {
  const score = hp.join(" : ") + " hp · " + clockText(seconds);
  if (outcome === 0) return { title: "Draw", detail: (hp[0] ? "time is up" : "both down") + " · " + score };
  const winner = outcome - 1, how = hp[1 - winner] > 0 ? "on hp, time is up" : "by elimination";
  return { title: names[winner] + " wins", detail: how + " · " + hp[winner] + " : " + hp[1 - winner] + " hp · " + clockText(seconds), winner };
}
