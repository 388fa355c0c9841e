// A trained policy: the actor's layers, and the mirror that puts every opponent on the right.
// Weights are base64 of little-endian float32: for a linear layer the bias, then the matrix in row-major order.

function makePolicy(stored) {
function floats(text) {
  const view = new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  return Float32Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}
const LAYERS = {
  linear({ outputs, weights }) {
    const w = floats(weights), inputs = w.length / outputs - 1;
    return (x) => Float32Array.from({ length: outputs }, (_, row) => {
      let sum = w[row];
      for (let k = 0, at = outputs + row * inputs; k < inputs; k++) sum += w[at + k] * x[k];
      return sum;
    });
  },
  norm({ size, epsilon, weights }) {
    const w = floats(weights);
    return (x) => {
      const mean = x.reduce((sum, v) => sum + v, 0) / size, variance = x.reduce((sum, v) => sum + (v - mean) ** 2, 0) / size;
      return x.map((v, k) => (v - mean) / Math.sqrt(variance + epsilon) * w[size + k] + w[k]);
    };
  },
  relu: () => (x) => x.map((v) => Math.max(v, 0)),
  tanh: () => (x) => x.map(Math.tanh),
  residual({ layers }) { const branch = chain(layers); return (x) => { const y = branch(x); return x.map((v, k) => v + y[k]); }; },
};
function chain(layers) {
  const steps = layers.map((layer) => LAYERS[layer.kind](layer));
  return (x) => steps.reduce((value, step) => step(value), x);
}
const actor = chain(stored.layers), mirror = stored.mirror;

function mirrored(obs) {
  const image = obs.map((v, k) => v * mirror.sign[k]);
  mirror.bearing.forEach((at, k) => { image[at] += Math.sign(obs[at]) + (obs[at] === 0 && obs[mirror.bulletX[k]] > 0 ? 1 : 0); });
  return image;
}
// The raw output for an observation: means of turn and throttle, and a trigger value that fires above 0.
function output(obs) {
  const seen = obs.slice(0, stored.obsDim), swapped = mirror && seen[mirror.opponentX] < 0;
  const [turn, throttle, fire] = actor(swapped ? mirrored(seen) : seen);
  return [swapped ? -turn : turn, throttle, fire];
}
return { output };
}
