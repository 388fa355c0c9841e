// The aircraft's shape as a few flat faces, and small vector functions. Body axes of the page: x right wing, y roof,
// z tail; lengths in m, about 15 m long. Vectors are arrays [east, up, south].

const add = (a, b, s = 1) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const times = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const size = (a) => Math.hypot(a[0], a[1], a[2]);
const unit = (a) => times(a, 1 / Math.max(size(a), 1e-9));
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const mix = (a, b, s) => add(times(a, 1 - s), b, s);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// The triangles, each [three corners, shade]: 1 the player's colour, less of it below 1.
function aircraftFaces() {
  const faces = [], quad = (a, b, c, d, shade) => faces.push([[a, b, c], shade], [[a, c, d], shade]);
  const both = (a, b, c, d, top, bottom) => {
    const m = (p) => [-p[0], p[1], p[2]], low = (p) => [p[0], p[1] - 0.12, p[2]];
    quad(a, b, c, d, top); quad(m(d), m(c), m(b), m(a), top);
    quad(...[d, c, b, a].map(low), bottom); quad(...[m(a), m(b), m(c), m(d)].map(low), bottom);
  };
  // Fuselage: rings of eight corners [z, half width, half height, height of the middle].
  const rings = [[-7.6, 0.04, 0.04, -0.1], [-5.6, 0.5, 0.45, 0], [-3.4, 0.75, 0.7, 0.1], [-1, 1.0, 0.85, 0], [3, 1.05, 0.8, 0], [6.2, 0.75, 0.7, 0.05], [7.2, 0.55, 0.55, 0.05]];
  const corner = ([z, w, h, y], k) => [w * Math.cos(k * Math.PI / 4 + 0.39), y + h * Math.sin(k * Math.PI / 4 + 0.39), z];
  for (let i = 0; i + 1 < rings.length; i++) for (let k = 0; k < 8; k++) {
    quad(corner(rings[i], k), corner(rings[i], k + 1), corner(rings[i + 1], k + 1), corner(rings[i + 1], k), k < 4 ? 0.86 : 0.42);
  }
  both([0.8, 0.05, -2.6], [0.8, 0.05, 3.6], [4.7, 0.05, 3.4], [4.7, 0.05, 2.1], 1, 0.38);      // wings
  both([0.5, 0.0, -5.2], [0.8, 0.05, -2.6], [0.95, 0.05, -1.2], [1.15, 0.05, -1.6], 0.9, 0.38); // strakes
  both([0.6, -0.1, 4.9], [0.6, -0.1, 7.6], [2.9, -0.2, 7.7], [2.9, -0.2, 6.7], 1, 0.38);        // tailplane
  quad([0.05, 0.7, 2.9], [0.05, 0.7, 7.0], [0.05, 3.6, 7.5], [0.05, 3.6, 6.0], 1); quad([-0.05, 3.6, 6.0], [-0.05, 3.6, 7.5], [-0.05, 0.7, 7.0], [-0.05, 0.7, 2.9], 1);
  const glass = [[-5.2, 0.1, 0.35], [-4.2, 0.42, 0.95], [-3.1, 0.48, 1.15], [-1.4, 0.3, 0.95], [-0.2, 0.05, 0.75]];
  for (let i = 0; i + 1 < glass.length; i++) {
    const [z, w, y] = glass[i], [z1, w1, y1] = glass[i + 1];
    for (const s of [1, -1]) {
      const outer = [[s * w, y - 0.35, z], [s * w1, y1 - 0.35, z1]], top = [[0, y, z], [0, y1, z1]];
      quad(...(s > 0 ? [outer[0], top[0], top[1], outer[1]] : [outer[1], top[1], top[0], outer[0]]), 0);
    }
  }
  return faces;
}

function aircraftGeometry(color) {
  const places = [], colors = [], own = new THREE.Color(color), glass = new THREE.Color("#0c1420"), belly = new THREE.Color("#8d99a8");
  for (const [corners, shade] of aircraftFaces()) {
    const paint = shade === 0 ? glass : shade < 0.5 ? own.clone().lerp(belly, 0.75) : own.clone().multiplyScalar(shade);
    for (const place of corners) { places.push(...place); colors.push(paint.r, paint.g, paint.b); }
  }
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.Float32BufferAttribute(places, 3));
  geometry.setAttribute("color", new THREE.Float32BufferAttribute(colors, 3));
  geometry.computeVertexNormals();
  return geometry;
}
