// A recorded match: its samples, and the interpolated state at any tick.

const STATE = 15, UNIT = 32767;
const TRAIL_TICKS = 60 * 14, TRAIL_STEP = 8, LAG_TICKS = 14;

function decode(game) {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  game.places = new Float32Array(bytes(game.places));
  game.states = new Int16Array(bytes(game.states));
  game.last = game.ticks[game.ticks.length - 1];
  game.teams = game.names.map((_, seat) => (seat < game.names.length / 2 ? 0 : 1));
  // Missiles and bursts are visible at few ticks: look them up by tick.
  game.bursts.sort((a, b) => a[1] - b[1]);
  for (const release of game.releases) { release.places = new Float32Array(bytes(release.places)); release.last = release.ticks[release.ticks.length - 1]; }
}
// The sample at or before a tick, by bisection.
function sampleBefore(ticks, tick) {
  let low = 0, high = ticks.length - 1;
  while (low < high) { const middle = (low + high + 1) >> 1; if (ticks[middle] <= tick) low = middle; else high = middle - 1; }
  return Math.min(low, Math.max(ticks.length - 2, 0));
}
function planeAt(game, seat, tick) {
  const count = game.names.length, i = sampleBefore(game.ticks, tick), j = Math.min(i + 1, game.ticks.length - 1);
  const span = Math.max(game.ticks[j] - game.ticks[i], 1), s = clamp((tick - game.ticks[i]) / span, 0, 1), seconds = span / 60;
  const place = (k) => [0, 1, 2].map((axis) => game.places[3 * (k * count + seat) + axis]);
  const state = (k, at) => game.states[STATE * (k * count + seat) + at];
  const vector = (k, at, scale) => [0, 1, 2].map((axis) => state(k, at + axis) / scale);
  const between = (at, scale) => (state(i, at) * (1 - s) + state(j, at) * s) / scale;
  const [p0, p1, v0, v1] = [place(i), place(j), vector(i, 0, 20), vector(j, 0, 20)];
  // The cubic with both places and both velocities.
  const pos = p0.map((_, k) => (2 * s ** 3 - 3 * s * s + 1) * p0[k] + (s ** 3 - 2 * s * s + s) * seconds * v0[k] + (3 * s * s - 2 * s ** 3) * p1[k] + (s ** 3 - s * s) * seconds * v1[k]);
  const nose = unit(mix(vector(i, 3, UNIT), vector(j, 3, UNIT), s)), roof = mix(vector(i, 6, UNIT), vector(j, 6, UNIT), s);
  const hpNow = s < 1 ? state(i, 13) / UNIT : state(j, 13) / UNIT;
  return { pos, vel: mix(v0, v1, s), nose, up: unit(add(roof, nose, -dot(roof, nose))), load: between(9, 100), rollRate: between(10, 1000),
    alpha: between(11, 1e4), power: between(12, 100), hp: hpNow, rounds: state(s < 1 ? i : j, 14) };
}
// Missiles and flares: position in flight, and smoke as [place, remaining part], oldest first.
function releasesAt(game, tick) {
  const shown = [];
  for (const { kind, seat, hit, ticks, places, last } of game.releases) {
    const lasting = SMOKE_TICKS[kind];
    if (ticks[0] > tick || last + lasting < tick) continue;
    const place = (k) => [places[3 * k], places[3 * k + 1], places[3 * k + 2]], smoke = [];
    for (let k = 0; k < ticks.length && ticks[k] <= tick; k++) if (tick - ticks[k] < lasting) smoke.push([place(k), 1 - (tick - ticks[k]) / lasting]);
    const i = sampleBefore(ticks, tick), j = Math.min(i + 1, ticks.length - 1), part = clamp((tick - ticks[i]) / Math.max(ticks[j] - ticks[i], 1), 0, 1);
    const pos = mix(place(i), place(j), part), flying = tick <= last;
    if (flying) smoke.push([pos, 1]);
    shown.push({ kind, seat, hit, pos, flying, smoke, left: clamp((last - tick) / 60, 0, 1), along: unit(add(place(j), place(i), -1)) });
  }
  return shown;
}
// Remaining stores of an aircraft.
function storesAt(game, seat, tick) {
  const gone = (kind) => game.releases.filter((r) => r.kind === kind && r.seat === seat && r.ticks[0] <= tick).length;
  return { missiles: game.carried[0] - gone("missile"), flares: game.carried[1] - gone("flare"), armed: game.carried[0] + game.carried[1] > 0 };
}
const planesAt = (game, tick) => game.names.map((_, seat) => planeAt(game, seat, tick));
function trailAt(game, seat, tick) {
  const rows = [], first = Math.max(TRAIL_STEP * Math.ceil((tick - TRAIL_TICKS) / TRAIL_STEP), 0);
  for (let at = first; at < tick; at += TRAIL_STEP) rows.push(planeAt(game, seat, at));
  rows.push(planeAt(game, seat, tick));
  return rows;
}
// A burst's flight under drag and gravity from where it was first seen, as in kernels/gun.py.
function burstsAt(game, tick, R) {
  const drag = R.roundDrag, fall = [0, -9.80665 / drag, 0], shown = [];
  for (const [seat, first, last, early, x, y, z, vx, vy, vz] of game.bursts) {
    if (first - 3 > tick || tick > last) continue;
    const t = (tick - first) / 60, kept = Math.exp(-drag * t), start = [vx, vy, vz];
    const pos = add(add([x, y, z], add(start, fall, -1), (1 - kept) / drag), fall, t);
    shown.push({ seat, pos, vel: add(times(add(start, fall, -1), kept), fall), early });
  }
  return shown;
}
function sceneAt(game, tick, R) {
  const planes = planesAt(game, tick), lasting = game.events.filter((e) => e.kind === "hit" && e.tick <= tick && tick <= e.end);
  return {
    planes, short: game.names, teams: game.teams, gun: game.gun, before: planesAt(game, Math.max(tick - LAG_TICKS, 0)),
    trails: game.names.map((_, seat) => trailAt(game, seat, tick)), bursts: burstsAt(game, tick, R),
    releases: releasesAt(game, tick), stores: game.names.map((_, seat) => storesAt(game, seat, tick)),
    beams: game.gun === "cone" && game.names.length === 2 ? lasting.map((e) => [1 - e.seat, e.seat]) : [],
    flashes: game.events.filter((e) => (e.kind === "hit" || e.kind === "down") && e.tick <= tick).map((e) => ({ ...e, age: (tick - Math.max(e.tick, Math.min(tick, e.end || e.tick))) / 60 })),
  };
}
