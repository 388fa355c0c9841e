// The rules of Diplomacy without a server, on the kernels translated by kernel_script.py (above this text).
// A game is an object with the arrays of the simulator, each with one row, the game's.

const PROVINCES = 75, POWERS = 7, SPRING = 0, FALL = 2, WINTER = 4, DUMBBOT = B.dumbbot, COLUMNS = B.columns;
const BYTES = { units: Uint8Array, dislodged: Uint8Array, origin: Uint8Array, owner: Int8Array, orders: Int32Array, results: Uint8Array, players: Int32Array };
const WORDS = { year: Int16Array, phase: Int8Array, winner: Int8Array, done: Uint8Array, game_id: Int32Array };

// A game from plain rows, such as the opening; missing values are 0, and every power has a DumbBot.
function gameFrom(rows, id = 0) {
  const game = {};
  for (const [name, kind] of Object.entries(BYTES)) game[name] = [kind.from(rows[name] || Array(name === "players" ? POWERS : PROVINCES).fill(name === "players" ? DUMBBOT : 0))];
  for (const [name, kind] of Object.entries(WORDS)) game[name] = kind.of(rows[name] ?? 0);
  if (rows.game_id === undefined) game.game_id[0] = id;
  return game;
}
const rowsOf = (game) => ({ ...Object.fromEntries(Object.keys(BYTES).map((name) => [name, [...game[name][0]]])), ...Object.fromEntries(Object.keys(WORDS).map((name) => [name, game[name][0]])) });

// Every legal order by province, in the order of the kernel.
function legalOrders(game) {
  const starts = [new Int32Array(PROVINCES + 1)], listed = [new Int32Array(20000)], legal = new Map();
  list_kernel(game, B.tables, starts, listed, 0, 0, 0);
  for (let p = 0; p < PROVINCES; p += 1) if (starts[0][p + 1] > starts[0][p]) legal.set(p, [...listed[0].subarray(starts[0][p], starts[0][p + 1])]);
  return legal;
}
// Carries out the phase; false if the adjudicator could not decide it, which the rules exclude.
function processPhase(game, lastYear) {
  const undecided = [0];
  process_kernel(game, B.tables, undecided, lastYear, 0, 0);
  return undecided[0] === 0;
}
// Writes the orders of every power that a DumbBot plays.
const orderDumbBots = (game, seed) => dumbbot_kernel(game, B.tables, seed, 0, 0);
const owed = (game, power) => build_limit(game, B.tables, 0, power);
const powerOf = (unit) => (unit - 1) % POWERS;
const formOf = (unit) => Math.floor((unit - 1) / POWERS);
// The location of a unit, including its coast.
const placeOf = (unit, province) => location_of(B.tables, unit, province);

// The observation of a power, float32 [75 * 62].
function observation(game, power, lastYear) {
  const due = Array.from({ length: POWERS }, (_, p) => (game.phase[0] === WINTER ? owed(game, p) : 0));
  const out = Array.from({ length: PROVINCES }, () => new Float32Array(COLUMNS)), years = Math.max(1, lastYear - B.firstYear);
  for (let p = 0; p < PROVINCES; p += 1) observe_kernel(game, B.tables, lastYear, years, [power], [due], [out], [0, p]);
  return out;
}
