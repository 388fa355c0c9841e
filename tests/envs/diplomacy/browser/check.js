// Repeats recorded phases with the page's rules, and prints what differs: {phases, legal, orders, results, after, ...}.

const tally = { phases: 0, legal: 0, orders: 0, ordered: 0, results: 0, after: 0, undecided: 0, seen: 0, choices: 0, units: 0, log: 0 };
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
for (const { seed, before, legal, after } of RECORDED.phases) {
  tally.phases += 1;
  const game = gameFrom(before);
  const listed = Object.fromEntries([...legalOrders(game)].map(([place, orders]) => [String(place), orders]));
  if (!same(listed, legal)) tally.legal += 1;
  const drawn = gameFrom({ ...before, orders: undefined });
  orderDumbBots(drawn, seed);
  before.orders.forEach((order, p) => {
    const unit = before.phase === 1 || before.phase === 3 ? before.dislodged[p] : before.units[p] || (B.tables.home[p] + 1);
    if (!unit || before.players[powerOf(unit)] !== DUMBBOT) return;
    tally.ordered += order ? 1 : 0;
    if (drawn.orders[0][p] !== order) tally.orders += 1;
  });
  if (!processPhase(game, RECORDED.lastYear)) tally.undecided += 1;
  const rows = rowsOf(game);
  if (!same(rows.results, after.results)) tally.results += 1;
  if (["units", "dislodged", "origin", "owner", "year", "phase", "winner", "done"].some((name) => !same(rows[name], after[name]))) tally.after += 1;
}
const student = makeStudent(G.student);
for (const { before, power, seen, choices, log } of RECORDED.network) {
  const rows = observation(gameFrom(before), power, RECORDED.lastYear);
  if (rows.some((row, p) => Math.abs(row.reduce((sum, x) => sum + x, 0) - seen[p]) > 1e-5)) tally.seen += 1;
  const made = student.choose(rows);
  tally.units += choices.length;
  if (!same(made.map(({ choice }) => choice), choices)) tally.choices += 1;
  else made.forEach((one, u) => one.log.forEach((value, k) => { if (value > -100 || log[u][k] > -100) tally.log = Math.max(tally.log, Math.abs(Math.max(value, -100) - log[u][k])); }));
}
const told = JSON.stringify(tally);
