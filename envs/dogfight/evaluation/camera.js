// A camera that follows the fight, as envs/dogfight/camera.py does: it holds both fighters with room around them and
// approaches the target view exponentially in match time. A view is { x, y, height } in metres.

// The way from a to b, the shorter way round where the arena's sides are open.
const gap = (a, b, period) => { const d = b - a; return period ? d - period * Math.round(d / period) : d; };

function makeCamera(R) {
const { closest, room, edge, tau, cut } = R.camera;
let aspect = R.camera.aspect; // of the canvas: width / height
const whole = () => ({ x: 0, y: R.height / 2, height: Math.max(R.height, 2 * R.halfWidth / aspect) });
const BLEND_MS = 350;
let view = null, time = 0, following = !matchMedia("(prefers-reduced-motion: reduce)").matches, blend = following ? 1 : 0, blended = null;

// The smallest height at which a view around (x, y) has both fighters, `space` metres from its edge.
const least = (fighters, x, y, space, period) =>
  2 * Math.max(...fighters.map((f) => Math.max((Math.abs(gap(x, f.x, period)) + space) / aspect, Math.abs(f.y - y) + space)));

function wanted([a, b], period) {
  const x = a.x + gap(a.x, b.x, period) / 2, y = (a.y + b.y) / 2;
  return { x, y, height: Math.max(least([a, b], x, y, room, period), closest) };
}
function inside({ x, y, height: asked }, period) {
  const height = Math.min(asked, whole().height);
  const reach = Math.max(0, R.halfWidth - aspect * height / 2), rise = Math.max(0, R.height - height) / 2;
  return { x: period ? gap(0, x, period) : clamp(x, -reach, reach), y: clamp(y, R.height / 2 - rise, R.height / 2 + rise), height };
}
// Move to the scene's time; after a jump in time, start from the target view.
function follow({ fighters, wraps, time: now }) {
  const period = wraps ? 2 * R.halfWidth : 0, to = wanted(fighters, period), passed = now - time;
  time = now;
  if (!view || passed < 0 || passed > cut) view = inside(to, period);
  else {
    const share = 1 - Math.exp(-passed / tau);
    const x = view.x + share * gap(view.x, to.x, period), y = view.y + share * (to.y - view.y);
    const height = Math.max(view.height + share * (to.height - view.height), least(fighters, x, y, edge, period));
    view = inside({ x, y, height }, period);
  }
  return seen();
}
// The view between the whole arena and the fight, while a change between them is under way.
function seen() {
  const part = blend * blend * (3 - 2 * blend), all = whole();
  return { x: all.x + part * (view.x - all.x), y: all.y + part * (view.y - all.y), height: all.height + part * (view.height - all.height) };
}
// Change between the fight and the whole arena; `repaint` is called until the change is complete.
function toggle(repaint) {
  following = !following; blended = null;
  const step = (now) => {
    const moved = blended === null ? 0.05 : (now - blended) / BLEND_MS;
    blended = now;
    blend = clamp(blend + (following ? moved : -moved), 0, 1);
    repaint();
    if (blend !== (following ? 1 : 0)) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}
return { follow, toggle, shape: (shape) => { aspect = shape; }, following: () => following };
}

// A button and the key C for `arena`'s camera; returns the key's handler.
function makeCameraSwitch(button, arena) {
  const tell = () => { button.textContent = arena.following() ? "Arena" : "Follow"; };
  const change = () => { arena.toggleCamera(); tell(); };
  button.addEventListener("click", () => { change(); button.blur(); });
  tell();
  return change;
}
