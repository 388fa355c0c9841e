// Drawing of the map as SVG: owners, units and the marks of orders. The replay and the game page include this file.
// G has the board and the powers: powers, colors, names, places, shift, centres (envs/diplomacy/evaluation/page.py).

const $ = (selector, root = document) => root.querySelector(selector);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
function draw(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function makeMap(G) {
const lands = new Map(), centres = new Map();
for (const path of document.querySelectorAll("#board .land")) lands.set(path.dataset.code, [...(lands.get(path.dataset.code) || []), path]);
for (const mark of document.querySelectorAll("#board .centre")) centres.set(mark.dataset.code, $("circle", mark));
const style = getComputedStyle(document.documentElement);
const mix = (color, share) => { const part = (c, i) => parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16), land = style.getPropertyValue("--map-land").trim();
  return "rgb(" + [0, 1, 2].map((i) => Math.round((1 - share) * part(land, i) + share * part(color, i))).join(",") + ")"; };
const OWNED = G.colors.map((color) => mix(color, 0.5)), ENTERED = G.colors.map((color) => mix(color, 0.3));

// The codes are on top, to keep arrows from hiding them.
$("#codes").append(...document.querySelectorAll("#board .code"));

// Land is tinted by its centre's owner, else by the power in `entered`, by code, if known.
function paintOwners(owners, entered = {}) {
  for (const [code, paths] of lands) for (const path of paths) path.style.fill = code in entered ? ENTERED[entered[code]] : "";
  G.centres.forEach((code, i) => {
    if (owners[i] >= 0) for (const path of lands.get(code)) path.style.fill = OWNED[owners[i]];
    centres.get(code).style.fill = owners[i] < 0 ? "" : G.colors[owners[i]];
  });
}
function shape(fleet) {
  if (fleet) return [draw("use", { href: "#hull" }), draw("use", { href: "#sail" })];
  return [draw("rect", { x: -11, y: -8, width: 22, height: 16, rx: 2 }), draw("path", { class: "cross", d: "M-11-8l22 16M-11 8l22-16" })];
}
function unit([location, owner, fleet], dislodged, power) {
  const [x, y] = G.places[location].map((value, axis) => value + (dislodged ? G.shift[axis] : 0));
  const inner = draw("g", {}, ...shape(fleet));
  const made = draw("g", { class: "unit" + (dislodged ? " dislodged" : "") + (power === owner ? " lit" : ""), transform: "translate(" + x + " " + y + ")", fill: G.colors[owner] }, inner);
  made.dataset.location = location;
  return made;
}
// `power` is highlighted, the others are faint.
function paintUnits(phase, power) {
  $("#units").replaceChildren(...phase.dislodged.map((u) => unit(u, true, power)), ...phase.units.map((u) => unit(u, false, power)));
}
const standing = (location) => [...document.querySelectorAll("#units .unit:not(.dislodged)")].find((u) => G.names[u.dataset.location] === G.names[location]);
// Units that moved glide from their previous place; `outcomes` are from the phase before the painted one.
function glide(outcomes, duration) {
  for (const outcome of calm ? [] : outcomes) {
    const moved = outcome.target === undefined ? null : standing(outcome.target);
    if (!moved) continue;
    const to = G.places[moved.dataset.location], from = G.places[outcome.start];
    const way = [{ transform: "translate(" + (from[0] - to[0]) + "px," + (from[1] - to[1]) + "px)" }, { transform: "none" }];
    moved.firstChild.animate(way, { duration, easing: "ease-in-out" });
  }
}
function tip([[x0, y0], [x, y]], fails) {
  const angle = Math.atan2(y - y0, x - x0) * 180 / Math.PI;
  return draw("path", { class: "tip arrow" + (fails ? " fails" : ""), style: "stroke-dasharray:none", d: "M4 0L-8-6V6Z", transform: "translate(" + x + " " + y + ") rotate(" + angle + ")" });
}
function cross([x, y]) {
  const d = "M" + (x - 5) + " " + (y - 5) + "l10 10m0-10l-10 10";
  return [draw("path", { class: "x-edge", style: "stroke-dasharray:none", d }), draw("path", { class: "x", style: "stroke-dasharray:none", d })];
}
function mark(outcome, power) {
  const fails = Boolean(outcome.fails), parts = [];
  if (outcome.line) parts.push(draw("path", { class: "edge", d: outcome.line }), draw("path", { class: "line", d: outcome.line }));
  if (outcome.head === "arrow") parts.push(tip(outcome.end, fails));
  if (outcome.head === "dot" && outcome.end) parts.push(draw("circle", { class: "tip dot" + (fails ? " fails" : ""), cx: outcome.end[1][0], cy: outcome.end[1][1], r: 3.6 }));
  if (outcome.lost) parts.push(draw("circle", { class: "lost", cx: outcome.at[0], cy: outcome.at[1], r: 16.5 }));
  if (outcome.kind === "build") parts.push(draw("g", { class: "unit built", fill: G.colors[outcome.power], transform: "translate(" + outcome.at[0] + " " + outcome.at[1] + ")" }, ...shape(outcome.text[0] === "F")));
  if (outcome.head === "ring") parts.push(draw("circle", { class: "ring", cx: outcome.at[0], cy: outcome.at[1], r: 16 }));
  if (outcome.cross) parts.push(...cross(outcome.cross));
  const made = draw("g", { class: "mark " + outcome.kind + (fails ? " fails" : "") + (power === outcome.power ? " lit" : ""), style: "--color:" + G.colors[outcome.power] }, ...parts);
  outcome.drawn = made;
  return made;
}
// `each(mark, outcome)` is called for every mark painted.
function paintMarks(outcomes, power, each = () => {}) {
  const order = { convoy: 0, support: 1, hold: 2 };
  const sorted = outcomes.slice().sort((a, b) => (order[a.kind] ?? 3) - (order[b.kind] ?? 3));
  $("#marks").replaceChildren(...sorted.map((outcome) => mark(outcome, power)));
  sorted.forEach((outcome) => each(outcome.drawn, outcome));
}
return { paintOwners, paintUnits, paintMarks, glide, standing, shape, tip, cross, owned: OWNED, entered: ENTERED };
}
