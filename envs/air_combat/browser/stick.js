// The person's action [pull, roll, throttle, trigger, launch, flare] from keys, a gamepad, and the stick on a touch screen.
// Pull 1 is full stick back; the throttle is a lever that keeps its position.

const DEAD_ZONE = 0.12, LEVER_RATE = 0.7, GENTLY = 0.4;
const PULL_RATE = 3.5, ROLL_RATE = 7;  // Full deflections per second; a tap of a key is a small correction.
const HELD = { ArrowDown: "back", s: "back", ArrowUp: "forward", w: "forward", ArrowLeft: "left", a: "left", ArrowRight: "right", d: "right",
  e: "faster", q: "slower", " ": "fire", m: "launch", f: "flare", Shift: "gently" };

// `buttons` are touch-screen buttons by function: fire, launch, flare.
function makeStick(touch, lever, buttons) {
const held = new Set(), pressed = new Set();
let back = 1, pull = 0, roll = 0, throttle = 0.8, thumb = null, before = null, down = false;
const nameOf = (event) => HELD[event.key] || HELD[event.key.toLowerCase()];
const knob = touch.querySelector("i");

function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT" || !nameOf(event)) return;
    if (event.key === " " && event.target.tagName === "BUTTON") return;
    held.add(nameOf(event)); event.preventDefault();
  });
  document.addEventListener("keyup", (event) => held.delete(nameOf(event)));
  window.addEventListener("blur", () => { held.clear(); pressed.clear(); thumb = null; });
  const move = (event) => {
    const box = touch.getBoundingClientRect(), half = box.width / 2;
    thumb = [clamp((event.clientX - box.left - half) / (0.8 * half), -1, 1), clamp((event.clientY - box.top - half) / (0.8 * half), -1, 1)];
    knob.style.transform = `translate(${0.8 * half * thumb[0]}px, ${0.8 * half * thumb[1]}px)`;
    event.preventDefault();
  };
  const leave = () => { thumb = null; knob.style.transform = ""; };
  touch.addEventListener("pointerdown", (event) => { touch.setPointerCapture(event.pointerId); move(event); });
  touch.addEventListener("pointermove", (event) => { if (thumb) move(event); });
  ["pointerup", "pointercancel"].forEach((kind) => touch.addEventListener(kind, leave));
  Object.entries(buttons).forEach(([what, button]) => {
    button.addEventListener("pointerdown", (event) => { pressed.add(what); button.setPointerCapture(event.pointerId); event.preventDefault(); });
    ["pointerup", "pointercancel", "lostpointercapture"].forEach((kind) => button.addEventListener(kind, () => pressed.delete(what)));
    button.addEventListener("contextmenu", (event) => event.preventDefault());
  });
  lever.addEventListener("input", () => { throttle = Number(lever.value); });
}
const gamepad = () => [...(navigator.getGamepads ? navigator.getGamepads() : [])].find((pad) => pad && pad.connected);
const value = (pad, index) => (pad.buttons[index] ? pad.buttons[index].value : 0);
const axis = (pad, index) => (Math.abs(pad.axes[index] || 0) > DEAD_ZONE ? pad.axes[index] : 0);
const toward = (from, to, most) => from + clamp(to - from, -most, most);

// Call it once a picture, with the time in ms.
function action(now) {
  const seconds = before === null ? 0 : Math.min((now - before) / 1000, 0.1), pad = gamepad();
  before = now;
  const part = held.has("gently") ? GENTLY : 1;
  pull = toward(pull, (held.has("back") - held.has("forward")) * back * part, PULL_RATE * seconds);
  roll = toward(roll, (held.has("right") - held.has("left")) * part, ROLL_RATE * seconds);
  const asked = held.has("faster") - held.has("slower") + (pad ? value(pad, 7) - value(pad, 6) : 0);
  throttle = clamp(throttle + asked * LEVER_RATE * seconds, 0, 1);
  lever.value = throttle;
  const stick = thumb || (pad ? [axis(pad, 0), axis(pad, 1)] : [0, 0]), far = (x) => Math.sign(x) * Math.abs(x) ** 1.5;
  const does = (what, ...indices) => (held.has(what) || pressed.has(what) || (pad && indices.some((index) => value(pad, index) > 0.5)) ? 1 : 0);
  return [pull || back * far(stick[1]), roll || far(stick[0]), 2 * throttle - 1, does("fire", 0, 5), does("launch", 1), does("flare", 2)];
}
// True once for every press of the gamepad's start button.
function started() {
  const pad = gamepad(), was = down;
  down = Boolean(pad) && value(pad, 9) > 0.5;
  return down && !was;
}
return { listen, action, started, hasGamepad: () => Boolean(gamepad()), swap: (on) => { back = on ? -1 : 1; }, throttle: () => throttle };
}
