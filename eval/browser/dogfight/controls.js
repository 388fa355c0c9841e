// The player's action [turn, throttle, shoot] from keys, a gamepad and the buttons below the arena.
// Positive turns are counter-clockwise. Without a key for it, the throttle rests at CRUISE.

const CRUISE = 0.7, DEAD_ZONE = 0.15;
const HELD = { ArrowLeft: "left", a: "left", ArrowRight: "right", d: "right", ArrowUp: "faster", w: "faster",
  ArrowDown: "slower", s: "slower", " ": "fire", Shift: "gently" };

function makeControls() {
const held = new Set();
const nameOf = (event) => HELD[event.key] || HELD[event.key.toLowerCase()];

function listen(buttons) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT" || !nameOf(event)) return;
    held.add(nameOf(event));
    event.preventDefault();
  });
  document.addEventListener("keyup", (event) => held.delete(nameOf(event)));
  window.addEventListener("blur", () => held.clear());
  for (const button of buttons) {
    const name = button.dataset.hold, off = () => held.delete(name);
    button.addEventListener("pointerdown", (event) => { held.add(name); button.setPointerCapture(event.pointerId); event.preventDefault(); });
    ["pointerup", "pointercancel", "lostpointercapture"].forEach((kind) => button.addEventListener(kind, off));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
  }
}
const gamepad = () => [...(navigator.getGamepads ? navigator.getGamepads() : [])].find((pad) => pad && pad.connected);
const value = (pad, index) => (pad.buttons[index] ? pad.buttons[index].value : 0);

function padAction(pad) {
  const stick = Math.abs(pad.axes[0]) > DEAD_ZONE ? pad.axes[0] : 0;
  return [-stick, CRUISE + (1 - CRUISE) * value(pad, 7) - CRUISE * value(pad, 6), Math.max(value(pad, 0), value(pad, 5)) > 0.5 ? 1 : 0];
}
function action() {
  const pad = gamepad(), from = pad ? padAction(pad) : [0, CRUISE, 0];
  const turn = (held.has("left") - held.has("right")) * (held.has("gently") ? 0.4 : 1);
  return [turn || clamp(from[0], -1, 1), held.has("faster") ? 1 : held.has("slower") ? 0 : clamp(from[1], 0, 1), held.has("fire") || from[2] ? 1 : 0];
}
let down = false;
// True once for every press of the gamepad's start button.
function started() {
  const pad = gamepad(), was = down;
  down = Boolean(pad) && value(pad, 9) > 0.5;
  return down && !was;
}
return { listen, action, started };
}
