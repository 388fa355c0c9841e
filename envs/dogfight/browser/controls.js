// The player's action [turn, throttle, shoot] from keys, a gamepad, and the stick and trigger on a touch screen.
// Positive turns are counter-clockwise. Without a key, a trigger or a thumb on it, the throttle rests at CRUISE.

const CRUISE = 0.7, DEAD_ZONE = 0.15, GENTLY = 0.4, REACH = 0.8;  // The knob follows a thumb up to REACH of the stick's radius.
const HELD = { ArrowLeft: "left", a: "left", ArrowRight: "right", d: "right", ArrowUp: "faster", w: "faster",
  ArrowDown: "slower", s: "slower", " ": "fire", Shift: "gently" };

function makeControls(touch, trigger) {
const held = new Set(), knob = touch.querySelector("i");
let thumb = null, firing = false, down = false;
const nameOf = (event) => HELD[event.key] || HELD[event.key.toLowerCase()];

function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT" || !nameOf(event)) return;
    held.add(nameOf(event));
    event.preventDefault();
  });
  document.addEventListener("keyup", (event) => held.delete(nameOf(event)));
  const leave = () => { thumb = null; knob.style.transform = ""; }, release = () => { firing = false; };
  window.addEventListener("blur", () => { held.clear(); leave(); release(); });
  const move = (event) => {
    const box = touch.getBoundingClientRect(), most = REACH * box.width / 2;
    thumb = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2].map((part) => clamp(part / most, -1, 1));
    knob.style.transform = `translate(${most * thumb[0]}px, ${most * thumb[1]}px)`;
    event.preventDefault();
  };
  touch.addEventListener("pointerdown", (event) => { touch.setPointerCapture(event.pointerId); move(event); });
  touch.addEventListener("pointermove", (event) => { if (thumb) move(event); });
  trigger.addEventListener("pointerdown", (event) => { firing = true; trigger.setPointerCapture(event.pointerId); event.preventDefault(); });
  ["pointerup", "pointercancel", "lostpointercapture"].forEach((kind) => {
    touch.addEventListener(kind, leave); trigger.addEventListener(kind, release);
  });
  [touch, trigger].forEach((pad) => pad.addEventListener("contextmenu", (event) => event.preventDefault()));
}
const gamepad = () => [...(navigator.getGamepads ? navigator.getGamepads() : [])].find((pad) => pad && pad.connected);
const value = (pad, index) => (pad.buttons[index] ? pad.buttons[index].value : 0);
const outside = (x) => (Math.abs(x) > DEAD_ZONE ? x : 0);
// Throttle for -1, none, to 1, full.
const lever = (x) => CRUISE + (x > 0 ? 1 - CRUISE : CRUISE) * x;

function padAction(pad) {
  return [-outside(pad.axes[0]), CRUISE + (1 - CRUISE) * value(pad, 7) - CRUISE * value(pad, 6), Math.max(value(pad, 0), value(pad, 5)) > 0.5 ? 1 : 0];
}
function action() {
  const pad = gamepad(), other = pad ? padAction(pad) : [0, CRUISE, 0];
  const from = thumb ? [-outside(thumb[0]), lever(-outside(thumb[1])), other[2]] : other;
  const turn = (held.has("left") - held.has("right")) * (held.has("gently") ? GENTLY : 1);
  const fire = held.has("fire") || firing || from[2];
  return [turn || clamp(from[0], -1, 1), held.has("faster") ? 1 : held.has("slower") ? 0 : clamp(from[1], 0, 1), fire ? 1 : 0];
}
// True once for every press of the gamepad's start button.
function started() {
  const pad = gamepad(), was = down;
  down = Boolean(pad) && value(pad, 9) > 0.5;
  return down && !was;
}
return { listen, action, started, hasGamepad: () => Boolean(gamepad()) };
}
