// The dogfight under classic rules: the equations of envs/dogfight/kernels, in the same order. All numbers come from
// `C`, the constants of envs/dogfight/rules.py. All stored values are rounded to float32, as in the kernels;
// within an expression JavaScript computes in float64, so results differ from the kernels only by rounding.
// Lengths in metres, angles in radians, speeds in m/s, times in ticks. A fighter is alive while hp > 0.

function makeSimulator(C) {
const f32 = Math.fround;
const DT = f32(1 / C.ticksPerSecond), SLOTS = C.bulletsPerFighter, PUSH = f32(C.wallPush / C.ticksPerSecond);
const HIT_SQUARED = (C.fighterRadius + C.bulletRadius) ** 2;
const STALL_COS = Math.cos(C.stallTurnRate / C.ticksPerSecond), STALL_SIN = Math.sin(C.stallTurnRate / C.ticksPerSecond);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// ---- physics ------------------------------------------------------------------------------------------------------

const alive = (f) => f.hp > 0;
const inControl = (f) => alive(f) && f.stall === 0 && f.speed >= C.stallSpeed;
const topSpeed = (f, p) => p.max_speed * (1 - C.speedLostPerHp * (p.max_hp - f.hp));

function turnRate(f, p) {
  const share = (f.speed - p.min_speed) / (p.max_speed - p.min_speed);
  return (p.max_turn_rate + share * (p.min_turn_rate - p.max_turn_rate)) * (1 - C.turnLostPerHp * (p.max_hp - f.hp));
}
function turnBy(f, angle) {  // A tick turns by less than 0.05 rad: short polynomials, and a Newton step to unit length.
  const square = angle * angle;
  const c = 1 - square * (0.5 - square / 24), s = angle * (1 - square * (1 / 6 - square / 120));
  const cos = f32(f.cos * c - f.sin * s), sin = f32(f.sin * c + f.cos * s);
  const scale = 1.5 - 0.5 * (cos * cos + sin * sin);
  f.cos = f32(cos * scale); f.sin = f32(sin * scale);
}
function noseDown(f) {
  if (-f.sin >= STALL_COS) { f.cos = 0; f.sin = -1; return; }
  const side = f.cos > 0 ? -1 : 1, cos = f.cos * STALL_COS - side * f.sin * STALL_SIN;
  f.sin = f32(f.sin * STALL_COS + side * f.cos * STALL_SIN);
  f.cos = f32(cos);
}
function softWalls(f) {
  const p = clamp((Math.abs(f.x) - (C.halfWidth - C.wallBand)) / C.wallBand, 0, 1), ceiling = C.height - C.wallBand;
  f.x = f32(clamp(f.x - Math.sign(f.x) * PUSH * p * p, -C.halfWidth, C.halfWidth));
  if (f.y < C.wallBand) {
    const q = Math.min((C.wallBand - f.y) / C.wallBand, 1);
    f.y = f32(Math.max(f.y + PUSH * q * q, 0));
  }
  if (f.y > ceiling) {
    const q = Math.min((f.y - ceiling) / C.wallBand, 1);
    f.y = f32(Math.min(f.y - PUSH * q * q, C.height));
  }
}
function advance(f) {
  f.x = f32(f.x + f.speed * f.cos * DT); f.y = f32(f.y + f.speed * f.sin * DT);
  softWalls(f);
  if (f.cooldown > 0) f.cooldown -= 1;
}
function fall(f, p) {
  f.stall -= 1;
  noseDown(f);
  let speed = f32(f.speed - p.gravity * f.sin * DT);
  speed = f32(speed - p.drag_coeff * speed * DT);
  f.speed = f32(clamp(speed, p.min_speed, topSpeed(f, p)));
  if (f.speed > C.stallRecoverySpeed) f.stall = 0;
  advance(f);
}
function fly(f, p, turn, throttle) {
  const angle = f32(f32(turn * turnRate(f, p)) * DT);
  turnBy(f, angle);
  let speed = f32(f.speed - p.turn_bleed_coeff * Math.abs(angle) * f.speed);
  speed = f32(speed + (throttle * p.max_thrust - p.drag_coeff * speed) * DT);
  speed = f32(speed - p.gravity * f.sin * DT);
  f.speed = f32(clamp(speed, p.min_speed, topSpeed(f, p)));
  advance(f);
}
function tickFighter(f, p, action) {
  if (!alive(f)) return;
  if (f.stall > 0) fall(f, p);
  else if (f.speed < C.stallSpeed) f.stall = C.stallTicks;  // the tick that begins a stall does nothing else
  else fly(f, p, action[0], action[1]);
}

// ---- bullets: slots 0 and 1 are of seat 0, 2 and 3 of seat 1; life 0 marks a free one -----------------------------

function shoot(match, seat, f, p) {
  let slot = seat * SLOTS;
  for (let s = seat * SLOTS; s < (seat + 1) * SLOTS; s++) if (match.bullets[s].life <= 0) slot = s;
  match.bullets[slot] = { x: f32(f.x + C.muzzleOffset * f.cos), y: f32(f.y + C.muzzleOffset * f.sin), dx: f.cos, dy: f.sin,
    life: p.bullet_lifetime_ticks };
  f.cooldown = p.gun_cooldown_ticks;
}
function tickBullets(match, p) {
  for (const b of match.bullets) {
    if (b.life <= 0) continue;
    b.x = f32(b.x + p.bullet_speed * b.dx * DT); b.y = f32(b.y + p.bullet_speed * b.dy * DT);
    b.life -= 1;
  }
}
function takeHits(match, shooter, target, armourCos) {
  let damage = 0;
  for (const b of match.bullets.slice(shooter * SLOTS, (shooter + 1) * SLOTS)) {
    if (b.life <= 0 || !alive(target) || damage >= target.hp) continue;
    const dx = b.x - target.x, dy = b.y - target.y;
    if (dx * dx + dy * dy > HIT_SQUARED) continue;
    b.life = 0;  // within the cone behind the target a bullet glances off
    if (b.dx * target.cos + b.dy * target.sin <= armourCos) damage += 1;
  }
  return damage;
}

// ---- a match ------------------------------------------------------------------------------------------------------

function physics(regime) {
  const changed = C.regimes[regime] || {};
  return Object.fromEntries(C.parameters.map(({ name, value }) => [name, f32(name in changed ? changed[name] : value)]));
}
function place(x, y, yaw, speed, p) {
  return { x: f32(x), y: f32(y), cos: f32(Math.cos(yaw)), sin: f32(Math.sin(yaw)), speed: f32(speed), hp: p.max_hp, cooldown: 0, stall: 0 };
}
// Seat 0 starts on the left, 1 on the right, with |x| in common, as in envs/dogfight/kernels/spawn.py.
function start(regime, random = Math.random) {
  const p = physics(regime), between = (low, high) => low + random() * (high - low), x = between(...C.spawnX);
  const fighters = [-1, 1].map((side) => place(side * x, between(...C.spawnY), between(-Math.PI, Math.PI),
    between(p.min_speed + C.spawnSpeedMargin, C.spawnSpeedHigh), p));
  const bullets = Array.from({ length: 2 * SLOTS }, () => ({ x: 0, y: 0, dx: 0, dy: 0, life: 0 }));
  return { physics: p, fighters, bullets, tick: 0, outcome: -1 };
}
// Play a tick with both actions (turn in [-1, 1], throttle in [0, 1], shoot if above 0) and return the outcome: -1 while
// playing, 0 for a draw, else 1 + the winning seat.
function tick(match, actions) {
  const p = match.physics, [a, b] = match.fighters, armourCos = Math.cos(p.rear_aspect_cone);
  const held = actions.map(([turn, throttle, fire]) => [f32(clamp(turn, -1, 1)), f32(clamp(throttle, 0, 1)), fire]);
  // Read before the tick: a fighter that stalls in this tick does not shoot in it.
  const armed = match.fighters.map((f, seat) => inControl(f) && held[seat][2] > 0);
  match.fighters.forEach((f, seat) => {
    tickFighter(f, p, held[seat]);
    if (armed[seat] && f.cooldown === 0 && alive(f)) shoot(match, seat, f, p);
  });
  tickBullets(match, p);
  // Both are tested before either loses hp: fighters can kill each other in the same tick.
  const hits = [takeHits(match, 1, a, armourCos), takeHits(match, 0, b, armourCos)];
  a.hp -= hits[0]; b.hp -= hits[1];
  match.tick += 1;
  match.outcome = alive(a) && alive(b) && match.tick < C.maxTicks ? -1 : a.hp === b.hp ? 0 : a.hp > b.hp ? 1 : 2;
  return match.outcome;
}

// ---- the observation of a seat, 59 floats -------------------------------------------------------------------------

function observedBullets(match, seat) {
  const me = match.fighters[seat];
  const seen = match.bullets.map((b, slot) => ({ dx: f32(b.x - me.x), dy: f32(b.y - me.y), slot, life: b.life }));
  const near = seen.filter((b) => b.life > 0).sort((a, b) => a.dx ** 2 + a.dy ** 2 - b.dx ** 2 - b.dy ** 2 || a.slot - b.slot);
  return Array.from({ length: C.observedBullets }, (_, k) => {
    if (k >= near.length) return [0, 0, 0, 0];
    const { dx, dy, slot } = near[k];
    return [dx / 1000, dy / 1000, Math.floor(slot / SLOTS) === seat ? 1 : 0, Math.atan2(dy, dx) / Math.PI];
  }).flat();
}
function observe(match, seat) {
  const p = match.physics, me = match.fighters[seat], it = match.fighters[1 - seat];
  const dx = f32(it.x - me.x), dy = f32(it.y - me.y);
  return Float32Array.from([
    me.speed / p.max_speed, me.cos, me.sin, me.hp / p.max_hp, me.cooldown / p.gun_cooldown_ticks, me.y / C.height,
    dx / 1000, dy / 1000, it.speed / p.max_speed, it.cos, it.sin, it.hp / p.max_hp, Math.sqrt(dx * dx + dy * dy) / 1000,
    ...observedBullets(match, seat), (C.maxTicks - match.tick) / C.maxTicks,
    ...C.parameters.map(({ name, normalizer }) => p[name] / normalizer),
  ]);
}
return { start, tick, observe };
}
