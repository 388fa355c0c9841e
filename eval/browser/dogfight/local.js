// A match within the page: the simulator and the policy run here. Source of frames for game.js, as is remote.js.

function makeSource(config, page) {
const simulator = makeSimulator(config.rules), policy = makePolicy(config.policy);
let match = null, answer = [0, 0, 0], held = [0, 0, 0], speed = 1, paused = true, owed = 0, before = null;

function begin({ regime }) {
  match = simulator.start(regime);
  owed = 0;
  page.match({ names: ["You", config.policy.name], short: ["You", config.policy.short], maxHp: match.physics.max_hp, wraps: false, regime });
  think();
  page.frame(frame());
}
function think() { answer = policy.output(simulator.observe(match, 1)).map((v, k) => clamp(v, k ? 0 : -1, 1)); answer[2] = answer[2] > 0 ? 1 : 0; }
function frame() {
  const { tick, fighters, bullets, outcome } = match;
  return { tick, outcome, fighters, bullets: bullets.map(({ x, y, life }) => [x, y, life]), actions: [held, answer], value: null };
}
function run(now) {
  requestAnimationFrame(run);
  const passed = before === null ? 0 : Math.min(now - before, 100) / 1000;  // after a long pause of the browser, go on from here
  before = now;
  held = page.action();
  if (!match || paused || match.outcome >= 0) return;
  for (owed += passed * config.rules.ticksPerSecond * speed; owed >= 1 && match.outcome < 0; owed -= 1) {
    if (match.tick % config.rules.actionRepeat === 0) think();
    simulator.tick(match, [held, answer]);
  }
  page.frame(frame());
}
requestAnimationFrame(run);
return { begin, pace: (chosen) => { speed = chosen.speed; paused = chosen.paused; }, simulator, policy };
}
