// Orders as text, their results, and their marks on the map: records/timeline.py and drawing/arrows.py for a page
// without a server. A phase is { name, units, dislodged, owner, orders, results }, arrays by province.

const KINDS = ["hold", "hold", "move", "support", "support", "convoy", "retreat", "disband", "build"];
const NOTES = { 2: "void", 3: "no effect", 4: "bounced", 5: "cut", 6: "no convoy" }, DONE = 1, FAILED = 3, LOST = 8;
const unpack = (order) => ({ kind: order & 15, target: (order >> 4) & 127, other: (order >> 11) & 127, via: (order >> 18) & 1 });
const provinceOf = (location) => B.tables.province_of[location], nameOf = (location) => G.locations[location];
const unitName = (unit, province) => (formOf(unit) ? "F " : "A ") + nameOf(placeOf(unit, province));

function orderText(order, province, unit) {
  const { kind, target, other, via } = unpack(order);
  if (kind === 8) return (other ? "F " : "A ") + nameOf(target) + " B";
  const who = unitName(unit, province);
  return who + ["", " H", " - " + nameOf(target) + (via ? " VIA" : ""), " S " + nameOf(target), " S " + nameOf(other) + " - " + nameOf(target),
    " C A " + nameOf(other) + " - " + nameOf(target), " R " + nameOf(target), " D"][kind || 1];
}
const phaseName = (game) => ["S", "S", "F", "F", "W"][game.phase[0]] + game.year[0] + ["M", "R", "M", "R", "A"][game.phase[0]];
const phaseTitle = (name) => (name === "END" ? "The end" : { S: "Spring", F: "Fall", W: "Winter" }[name[0]] + " " + name.slice(1, -1) + ", " + { M: "movement", R: "retreats", A: "adjustments" }[name.slice(-1)]);

// ---- outcomes -------------------------------------------------------------------------------------------------------

function outcome(phase, province, unit, note, fine, order = phase.orders[province]) {
  const { kind, target, other, via } = unpack(order), start = placeOf(unit, province);
  const army = kind === 2 && formOf(unit) === 0;
  return { power: powerOf(unit), kind: KINDS[kind], text: orderText(order, province, unit), note, fine, lost: false,
    start: kind === 8 && provinceOf(target) === province ? target : start, target: kind >= 2 && kind <= 6 ? target : -1,
    other: kind === 4 || kind === 5 ? other : -1, bySea: army ? voyageOf(phase, province, target, via) : null };
}
// The shortest chain of fleets ordered to convoy an army; null for a move by land.
function voyageOf(phase, start, target, via) {
  const { army_next, fleet_next, first_coast } = B.tables, goal = provinceOf(target), byLand = army_next[start][goal];
  if (byLand && !via) return null;
  const touches = (province, sea) => [province, ...(first_coast[province] < 0 ? [] : [first_coast[province], first_coast[province] + 1])].some((coast) => fleet_next[coast][sea]);
  const carriers = phase.orders.flatMap((order, place) => { const { kind, target: to, other } = unpack(order); return kind === 5 && provinceOf(other) === start && provinceOf(to) === goal ? [place] : []; });
  const routes = carriers.filter((place) => touches(start, place)).map((place) => [place]), seen = new Set(routes.map(([place]) => place));
  for (const route of routes) {
    const last = route[route.length - 1];
    if (touches(goal, last)) return route;
    for (const place of carriers) if (fleet_next[last][place] && !seen.has(place)) { seen.add(place); routes.push([...route, place]); }
  }
  return byLand ? null : [];
}
function outcomes(phase, after) {
  const made = [], kind = phase.name.slice(-1);
  for (let p = 0; p < PROVINCES; p += 1) {
    const unit = phase.units[p], gone = phase.dislodged[p], order = phase.orders[p], result = phase.results[p];
    if (kind === "M" && unit) {
      const lost = result >= LOST, note = NOTES[result % LOST] || "", fate = after.dislodged[p] ? "dislodged" : "dislodged and disbanded";
      made.push({ ...outcome(phase, p, unit, [order ? "" : "not ordered", note, lost ? fate : ""].filter(Boolean).join(", "), !note), lost });
    } else if (kind === "R" && gone) {
      const retreats = unpack(order).kind === 6, failed = retreats && result !== DONE;
      made.push(failed ? outcome(phase, p, gone, (result === FAILED ? "another went there too" : NOTES[result]) + ", disbanded", false) : outcome(phase, p, gone, order ? "" : "not ordered", true, order || 7));
    } else if (kind === "A") {
      const builds = unpack(order).kind === 8 && B.tables.home[p] >= 0;
      if (builds || (unit && order)) made.push(outcome(phase, p, builds ? 1 + B.tables.home[p] : unit, result === DONE ? "" : "void", result === DONE));
      if (unit && !after.units[p] && result !== DONE) made.push(outcome(phase, p, unit, "civil disorder", true, 7));
    }
  }
  return made.sort((a, b) => a.power - b.power || a.start - b.start);
}

// ---- lines on the map -----------------------------------------------------------------------------------------------

const RADIUS = 12, mix = (a, b, share) => [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])];
const far = (a, b) => Math.hypot(b[0] - a[0], b[1] - a[1]), at = (location) => G.places[location], moved = ([x, y]) => [x + G.shift[0], y + G.shift[1]];
const along = (line) => line.reduce((sums, point, i) => [...sums, i ? sums[i - 1] + far(line[i - 1], point) : 0], []);
function pointAt(line, sums, distance) {
  const i = sums.findIndex((sum) => sum >= distance);
  if (i <= 0) return i < 0 ? line[line.length - 1] : line[0];
  return mix(line[i - 1], line[i], (distance - sums[i - 1]) / Math.max(sums[i] - sums[i - 1], 1e-9));
}
function part(line, first, last) {
  const sums = along(line);
  return [pointAt(line, sums, first), ...line.filter((_, i) => sums[i] > first && sums[i] < last), pointAt(line, sums, last)];
}
function trimmed(line, end = RADIUS + 3) {
  const length = along(line).pop();
  return part(line, Math.min(RADIUS, 0.3 * length), Math.max(length - end, 0.6 * length));
}
function bent(start, end) {
  const across = [end[1] - start[1], start[0] - end[0]], height = Math.min(0.1, 16 / Math.max(Math.hypot(...across), 1));
  return Array.from({ length: 9 }, (_, i) => { const share = i / 8, bow = 4 * share * (1 - share) * height, [x, y] = mix(start, end, share); return [x + bow * across[0], y + bow * across[1]]; });
}
function wavy(corners) {
  const sums = along(corners), length = sums[sums.length - 1], n = Math.max(Math.floor(length / 3), 2);
  const line = Array.from({ length: n }, (_, i) => pointAt(corners, sums, (length * i) / (n - 1)));
  return line.map(([x, y], i) => {
    const a = line[Math.max(i - 1, 0)], b = line[Math.min(i + 1, n - 1)], size = Math.max(far(a, b), 1e-9), d = (length * i) / (n - 1);
    const height = 3.6 * Math.min(1, Math.min(d, length - d) / 24) * Math.sin((2 * Math.PI * d) / 17);
    return [x + (height * (b[1] - a[1])) / size, y - (height * (b[0] - a[0])) / size];
  });
}
const wayOf = ({ start, target, bySea }) => (bySea ? wavy([start, ...bySea, target].map(at)) : bent(at(start), at(target)));
const standingAt = (phase, location) => { const p = provinceOf(location), unit = phase.units[p]; return at(unit ? placeOf(unit, p) : location); };
const half = (line) => { const sums = along(line); return pointAt(line, sums, sums[sums.length - 1] / 2); };

function helpMark(made, phase, routes) {
  const here = at(made.start);
  if (made.kind === "convoy") return made.fine ? { head: "ring" } : { line: trimmed(wavy([here, at(made.target)])), head: "dot" };
  if (made.other < 0) return { line: trimmed([here, standingAt(phase, made.target)]), head: "dot" };
  const mover = provinceOf(made.other), goal = at(provinceOf(made.target)), known = routes.get(mover);
  const line = known && far(known[known.length - 1], goal) <= 60 ? known : bent(standingAt(phase, mover), at(made.target));
  return { line: trimmed([here, half(trimmed(line))], 2), head: "dot" };
}
function markOf(made, phase, routes) {
  const here = at(made.start);
  if (made.kind === "move") {
    const line = trimmed(wayOf(made)), short = made.fine ? line : part(line, 0, 0.62 * along(line).pop());
    return { line: short, head: made.fine ? "arrow" : "none", at: here, cross: made.fine ? undefined : short[short.length - 1] };
  }
  if (made.kind === "retreat") {
    const line = trimmed(bent(moved(here), at(made.target)));
    return { line, head: "arrow", at: moved(here), cross: made.fine ? undefined : line[line.length - 1] };
  }
  if (made.kind === "support" || made.kind === "convoy") {
    const mark = helpMark(made, phase, routes);
    return { at: here, cross: made.fine || !mark.line ? undefined : half(mark.line), ...mark };
  }
  if (made.kind === "disband") { const place = phase.name.endsWith("R") ? moved(here) : here; return { head: "none", at: place, cross: place }; }
  return { head: "ring", at: here, cross: made.fine ? undefined : here };
}
const tenth = (value) => Math.round(10 * value) / 10;
// The outcomes in the format of map.js.
function marked(made, phase) {
  const routes = new Map(made.filter(({ kind }) => kind === "move").map((one) => [provinceOf(one.start), wayOf(one)]));
  return made.map((one) => {
    const { line, head, at: place, cross } = markOf(one, phase, routes);
    return { power: one.power, kind: one.kind, text: one.text, note: one.note, fails: one.fine ? undefined : 1, lost: one.lost ? 1 : undefined, start: one.start,
      target: ["move", "retreat"].includes(one.kind) && one.fine ? one.target : undefined, head, at: place, cross,
      line: line && "M" + line.map(([x, y]) => tenth(x) + " " + tenth(y)).join("L"), end: line && [line[Math.max(line.length - 3, 0)], line[line.length - 1]] };
  });
}
