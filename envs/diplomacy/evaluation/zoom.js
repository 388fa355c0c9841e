// Zoom of the map: buttons, keys, a pinch, Ctrl or Cmd with the wheel, double clicks. Once enlarged, the map is dragged.
// Pages include it after map.js. It changes the view box of the SVG, which keeps lines and letters sharp.

const CLOSEST = 8, ZOOM_STEP = 1.6, SLACK = 4;
const LEGIBLE = 0.5;  // Pixels per map unit; below this, letters are hidden and units are enlarged (class small).

function makeZoom(map, buttons) {
const [, , WIDTH, HEIGHT] = map.getAttribute("viewBox").split(" ").map(Number);
const fingers = new Map();
let scale = 1, x = 0, y = 0, drag = null;

function look(nextScale, left, top) {
  scale = clamp(nextScale, 1, CLOSEST);
  x = clamp(left, 0, WIDTH - WIDTH / scale); y = clamp(top, 0, HEIGHT - HEIGHT / scale);
  map.setAttribute("viewBox", [x, y, WIDTH / scale, HEIGHT / scale].map((value) => +value.toFixed(2)).join(" "));
  map.classList.toggle("enlarged", scale > 1);
  map.classList.toggle("small", map.clientWidth * scale / WIDTH < LEGIBLE);
  buttons.in.disabled = scale === CLOSEST; buttons.out.disabled = buttons.whole.disabled = scale === 1;
}
// Keeps this point of the window fixed, by default the middle of the map.
function by(factor, point) {
  const box = map.getBoundingClientRect(), next = clamp(scale * factor, 1, CLOSEST);
  const [px, py] = point ? [(point[0] - box.left) / box.width, (point[1] - box.top) / box.height] : [0.5, 0.5];
  look(next, x + px * WIDTH * (1 / scale - 1 / next), y + py * HEIGHT * (1 / scale - 1 / next));
}
// By this fraction of the view.
const pan = (right, down) => look(scale, x + right * WIDTH / scale, y + down * HEIGHT / scale);
const whole = () => look(1, 0, 0);
// Moves the map only if this place of it is out of sight.
function reveal([px, py]) {
  const across = Math.abs((px - x) * scale / WIDTH - 0.5), down = Math.abs((py - y) * scale / HEIGHT - 0.5);
  if (Math.max(across, down) > 0.45) look(scale, px - WIDTH / scale / 2, py - HEIGHT / scale / 2);
}

const middle = () => { const all = [...fingers.values()]; return [0, 1].map((axis) => all.reduce((sum, at) => sum + at[axis], 0) / all.length); };
const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };

map.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  drag = { at: middle(), moved: fingers.size > 1, spread: fingers.size === 2 ? spread() : 0 };
});
map.addEventListener("pointermove", (event) => {
  if (!fingers.has(event.pointerId)) return;
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  const at = middle(), box = map.getBoundingClientRect();
  // A click with a small movement is not a drag.
  drag.moved ||= Math.hypot(at[0] - drag.at[0], at[1] - drag.at[1]) > SLACK;
  if (!drag.moved || (scale === 1 && fingers.size < 2)) return;
  map.setPointerCapture(event.pointerId);
  if (fingers.size === 2) { by(spread() / Math.max(drag.spread, 1), at); drag.spread = spread(); }
  pan((drag.at[0] - at[0]) / box.width, (drag.at[1] - at[1]) / box.height);
  drag.at = at;
});
function lift(event) {
  if (!fingers.delete(event.pointerId) || !fingers.size) return;
  drag = { at: middle(), moved: true, spread: fingers.size === 2 ? spread() : 0 };
}
for (const name of ["pointerup", "pointercancel"]) map.addEventListener(name, lift);
// Two fingers zoom; one scrolls the page until the map is enlarged (touch-action in the style).
map.addEventListener("touchmove", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
map.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault(); by(2 ** (-event.deltaY / 200), [event.clientX, event.clientY]);
}, { passive: false });
map.addEventListener("dblclick", (event) => by(event.shiftKey ? 0.5 : 2, [event.clientX, event.clientY]));
buttons.in.addEventListener("click", () => by(ZOOM_STEP));
buttons.out.addEventListener("click", () => by(1 / ZOOM_STEP));
buttons.whole.addEventListener("click", whole);
addEventListener("resize", () => look(scale, x, y));
whole();
return { by, pan, whole, reveal, get scale() { return scale; } };
}
