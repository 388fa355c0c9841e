// The order network on the page: the forward pass of envs/diplomacy/training/order_network.py, unit after unit, and its orders.
// `stored` has hidden, rounds and weights by name, each [sizes, float32 in base64]; h is [75][hidden].

const SIDES = 12, CHOICES = 37, EVENTS = 5, SLOTS = 17;

function makeStudent(stored) {
const weights = Object.fromEntries(Object.entries(stored.weights).map(([name, [sizes, text]]) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return [name, { sizes, values: new Float32Array(bytes.buffer) }];
}));
const H = stored.hidden, near = B.near;
function linear(name, x) {
  const { sizes: [outputs, inputs], values } = weights[name + ".weight"], bias = weights[name + ".bias"].values, y = new Float32Array(outputs);
  for (let o = 0; o < outputs; o += 1) {
    let sum = bias[o];
    for (let i = 0; i < inputs; i += 1) sum += values[o * inputs + i] * x[i];
    y[o] = sum;
  }
  return y;
}
const relu = (x) => x.map((value) => Math.max(value, 0)), add = (a, b) => a.map((value, i) => value + b[i]);
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
// The mean of `h` over the neighbours of a province, each row by its weight.
function around(h, place) {
  const sum = new Float32Array(h[0].length);
  for (const other of near[place].list) for (let i = 0; i < sum.length; i += 1) sum[i] += near[place].share * h[other][i];
  return sum;
}
function encode(seen) {
  const place = weights["actor.encoder.place"].values;
  let h = seen.map((row, p) => relu(add(linear("actor.encoder.input", row), place.subarray(p * H, (p + 1) * H))));
  for (let round = 0; round < stored.rounds; round += 1) {
    const before = h;
    h = before.map((own, p) => add(own, relu(add(linear("actor.encoder.own." + round, own), linear("actor.encoder.others." + round, around(before, p))))));
  }
  return h;
}
// The rows of the observer's units in `landings` by province, -1 elsewhere.
const rowsOfUnits = (seen) => seen.map((row, p) => {
  if (!(row[0] > 0)) return -1;
  const form = [7, 8, 9, 10].reduce((best, at) => (row[at] > row[best] ? at : best), 7) - 7;
  return form === 0 ? p : 81 + (form === 1 ? p : B.tables.first_coast[p] + form - 2);
});
// Choices of every unit: hold, moves, supports of own units that stay, supports of own moves.
function unitsOf(seen) {
  const rows = rowsOfUnits(seen), reach = B.tables.reach, landings = B.tables.landings, comers = new Int32Array(PROVINCES);
  const places = rows.flatMap((row, p) => (row >= 0 ? [p] : [])).slice(0, SLOTS);
  for (const p of places) for (const goal of reach[rows[p]]) if (goal >= 0) comers[goal] += 1;
  return places.map((place) => {
    const row = rows[place], goals = landings[row].map((to) => (to < 0 ? -1 : B.tables.province_of[to])), near = reach[row];
    const legal = [true, ...goals.map((goal) => goal >= 0), ...near.map((p) => p >= 0 && rows[p] >= 0), ...near.map((p) => p >= 0 && comers[p] > 1)];
    return { place, row, goals, near, legal, targets: [...goals, ...near].map((p) => Math.max(p, 0)) };
  });
}
const zero = () => Array.from({ length: PROVINCES }, () => new Float32Array(EVENTS));
// Log-probabilities [37] of one unit's choices, given the events of the previous units.
function logProbs(h, unit, counts) {
  let own = h[unit.place];
  if (counts) own = add(own, relu(linear("turns.around", [...own, ...counts[unit.place], ...around(counts, unit.place)])));
  const asked = linear("actor.ask", own), scores = [linear("actor.hold", own)[0]];
  for (let kind = 0; kind < 3; kind += 1) {
    const question = asked.subarray(kind * H, (kind + 1) * H), there = counts ? linear("turns.there", question) : null;
    for (let side = 0; side < SIDES; side += 1) {
      const target = unit.targets[side + (kind ? SIDES : 0)];
      scores.push(dot(question, h[target]) / Math.sqrt(H) + (there ? dot(there, counts[target]) : 0));
    }
  }
  const masked = scores.map((score, i) => (unit.legal[i] ? score : -1e9)), most = Math.max(...masked);
  const sum = Math.log(masked.reduce((total, score) => total + Math.exp(score - most), 0)) + most;
  return masked.map((score) => score - sum);
}
function note(counts, unit, choice) {
  const kind = Math.floor((choice - 1) / SIDES), side = (choice - 1) % SIDES;
  counts[unit.place][choice > 0 && kind === 0 ? 1 : 2] += 1; // leaves, or stays
  if (choice > 0) counts[unit.targets[side + (kind > 0 ? SIDES : 0)]][kind === 0 ? 0 : kind === 1 ? 3 : 4] += 1;
}
// The most likely choice of every unit, in turn, with the log-probabilities of all choices.
function choose(seen) {
  const h = encode(seen), units = unitsOf(seen), counts = stored.inTurn ? zero() : null;
  const made = units.map((unit) => {
    const log = logProbs(h, unit, counts), choice = log.indexOf(Math.max(...log));
    if (counts) note(counts, unit, choice);
    return { unit, log, choice };
  });
  return made;
}
// Writes the orders of a power; a support whose unit chose otherwise becomes a hold.
function order(game, power, lastYear) {
  const made = choose(observation(game, power, lastYear)), MOVE = 2, SUPPORT = 3, SUPPORT_MOVE = 4, HOLD = 1;
  const parts = made.map(({ unit, choice }) => {
    const kind = Math.floor((choice - 1) / SIDES), side = (choice - 1) % SIDES, moves = choice > 0 && kind === 0 && unit.goals[side] >= 0;
    return { unit, kind: choice > 0 ? kind : -1, helped: choice > 0 ? unit.near[side] : -1, target: moves ? B.tables.landings[unit.row][side] : -1, goal: moves ? unit.goals[side] : -1 };
  });
  for (const { unit, kind, helped, target } of parts) {
    const stays = parts.some((other) => other.unit.place === helped && other.target < 0), mover = parts.find((other) => other.goal === helped && helped >= 0);
    let packed = HOLD;
    if (target >= 0) packed = MOVE | (target << 4);
    else if (kind === 1 && helped >= 0 && stays) packed = SUPPORT | (helped << 4);
    else if (kind === 2 && mover) packed = SUPPORT_MOVE | (helped << 4) | (mover.unit.place << 11);
    game.orders[0][unit.place] = packed;
  }
}
return { choose, order };
}
