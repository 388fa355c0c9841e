// The silhouette of an aircraft, with the shapes and the roll of envs/dogfight/render.py.

function makeAircraft(R) {
const { body, wing, tail, fin, canopy, upright, fullTurn, leastSpan } = R.aircraft;
// The side that the canopy faces, 1 left of the heading; `turn` in rad/s.
const lift = ({ yaw, turn }) => clamp(upright * Math.cos(yaw) + (turn || 0) / fullTurn, -1, 1);

// Draw with the nose along +x of the pen, one unit is `radius` pixels; y is up on the pages and down on a canvas.
function paint(pen, radius, fighter, color) {
  const roll = lift(fighter), span = Math.max(leastSpan, Math.sqrt(1 - roll * roll));
  const fill = fighter.hp <= 0 ? "#6e7a8d" : fighter.stalled ? "#0b0f17" : color;
  const shape = (outline, across, shade) => {
    pen.beginPath();
    outline.forEach(([x, y]) => pen.lineTo(radius * x, -radius * y * across));
    pen.closePath(); pen.globalAlpha = 1; pen.fillStyle = fill; pen.fill();
    if (shade) { pen.globalAlpha = shade; pen.fillStyle = "#0b0f17"; pen.fill(); }
    pen.globalAlpha = 1; pen.stroke();
  };
  pen.strokeStyle = color; pen.lineWidth = 1; pen.lineJoin = "round";
  for (const side of [span, -span]) { shape(tail, side, 0.3); shape(wing, side, 0.3); }
  shape(fin, roll, 0.3);
  pen.beginPath(); canopy.forEach(([x, y]) => pen.lineTo(radius * x, -radius * y * roll)); pen.closePath();
  pen.fillStyle = "#e2e8f0"; pen.fill();
  shape(body, 1, 0);
}
return { paint, lift };
}
// The turn rate in rad/s between two headings, `seconds` apart.
const turnRate = (before, after, seconds) => (seconds > 0 ? gap(before, after, 2 * Math.PI) / seconds : 0);
