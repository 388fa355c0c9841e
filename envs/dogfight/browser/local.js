// A match in the page: the simulator and the policy run here. Provides frames to game.js, like remote.js.

function makeSource(config, page) {
const simulator = makeSimulator(config.rules), policy = makePolicy(config.policy);
let match = null, answers = [null, null], held = [0, 0, 0], speed = 1, paused = true, owed = 0, before = null, auto = false;

function begin({ regime }) {
  match = simulator.start(regime);
  owed = 0;
  page.match({ names: [auto ? config.policy.name : "You", config.policy.name], short: [auto ? config.policy.short + " 1" : "You", config.policy.short + (auto ? " 2" : "")], maxHp: match.physics.max_hp, wraps: false, regime });
  think();
  page.frame(frame());
}
// The policy's action in a seat, held for `actionRepeat` ticks.
function decide(seat) {
  const [turn, throttle, fire] = policy.output(simulator.observe(match, seat));
  return [clamp(turn, -1, 1), clamp(throttle, 0, 1), fire > 0 ? 1 : 0];
}
function think() { answers = [auto ? decide(0) : null, decide(1)]; }
function frame() {
  const { tick, fighters, bullets, outcome } = match;
  return { tick, outcome, fighters, bullets: bullets.map(({ x, y, life }) => [x, y, life]), actions: [held, answers[1]], value: null };
}
function run(now) {
  requestAnimationFrame(run);
  const passed = before === null ? 0 : Math.min(now - before, 100) / 1000;  // after a long browser pause, continue from here
  before = now;
  held = answers[0] || page.action();
  if (!match || paused || match.outcome >= 0) return;
  for (owed += passed * config.rules.ticksPerSecond * speed; owed >= 1 && match.outcome < 0; owed -= 1) {
    if (match.tick % config.rules.actionRepeat === 0) think();
    simulator.tick(match, [answers[0] || held, answers[1]]);
  }
  page.frame(frame());
}
requestAnimationFrame(run);
// The policy flies both aircraft from the next match on.
const autopilot = (on) => { auto = on; };
return { begin, pace: (chosen) => { speed = chosen.speed; paused = chosen.paused; }, autopilot, simulator, policy };
}
