// Runtime of translated kernels (kernel_script.py): arrays, uint64 as BigInt, float32, vectors of eight, Warp's random draws.

function zeros(kind, n) {
  if (kind === "u64") return Array(n).fill(0n);
  if (kind === "vector") return Array.from({ length: n }, () => new Float32Array(8));
  return kind === "float" ? new Float32Array(n) : kind === "u32" ? new Uint32Array(n) : new Int32Array(n);
}
const cut = (big) => BigInt.asUintN(64, big), round = Math.fround;
function bits(whole) {
  let n = 0;
  for (let left = BigInt(whole); left; left &= left - 1n) n += 1;
  return n;
}
function each(a, b, act) {
  const made = new Float32Array(8), one = typeof b === "number";
  for (let i = 0; i < 8; i += 1) made[i] = act(a[i], one ? b : b[i]);
  return made;
}
const filled = (x) => (typeof x === "number" ? new Float32Array(8).fill(x) : Float32Array.from(x));
const OPERATIONS = { "+": (x, y) => x + y, "-": (x, y) => x - y, "*": (x, y) => x * y, "/": (x, y) => x / y };
function pcg(state) {
  const b = (Math.imul(state, 747796405) + 2891336453) >>> 0, c = Math.imul((b >>> ((b >>> 28) + 4)) ^ b, 277803737) >>> 0;
  return ((c >>> 22) ^ c) >>> 0;
}
const rand_init = (seed, offset) => pcg(((seed >>> 0) + pcg(offset >>> 0)) >>> 0);
