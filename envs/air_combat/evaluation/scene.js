// Drawing of air combat in WebGL, with names and instruments on an overlay canvas, shared by the replay and the
// flying page. A scene has, with vectors [east, up, south] in m and m/s:
//   planes [{ pos, vel, nose, up, load, alpha, power, hp, rounds }], short (names), teams (0 or 1 of each plane),
//   trails [each oldest first, { pos, up, nose }], bursts [{ pos, vel, seat }], beams [[from seat, to seat]],
//   releases [{ kind, seat, pos, flying, along, left, smoke [[place, part]] }] if there are missiles and flares,
//   flashes [{ kind, seat, age }] and `before`: nose and roof of each plane a quarter of a second ago.

const COLORS = ["#f0a528", "#56b4e9"], FLASH_SECONDS = 0.8;
const SKY = { top: "#16305c", middle: "#4d76a8", horizon: "#a9bccb", ground: "#41513f" };
const LEAST_PIXELS = 50;  // Distant aircraft are drawn enlarged.
const LENGTH = 15, FAR = 90000, GUN_LINE = 900;

// Ticks for which the smoke of a missile or a flare is visible.
const SMOKE_TICKS = { missile: 60 * 7, flare: 60 * 2 };
function makeScene(stage, R) {
const canvas = stage.querySelector("canvas.world"), over = stage.querySelector("canvas.over"), pen = over.getContext("2d");
const world = new THREE.Scene(), camera = new THREE.PerspectiveCamera(55, 1, 2, FAR);
let renderer = null, models = [], painted = null, width = 1, height = 1, wide = 1;
try { renderer = new THREE.WebGLRenderer({ canvas, antialias: true, logarithmicDepthBuffer: true }); } catch { renderer = null; }
const view = { kind: "fight", seat: 0, yaw: 0.6, pitch: 0.42, zoom: 1, target: [0, 0, 0], distance: 3000, look: [0, 0] };

// ---- static scenery --------------------------------------------------------------------------------------------

world.fog = new THREE.Fog(SKY.horizon, 9000, 60000);
world.add(new THREE.HemisphereLight("#dfe9f5", "#5a6048", 2.2));
const sun = new THREE.DirectionalLight("#fff3dc", 2.2); sun.position.set(0.5, 1, 0.35); world.add(sun);
const material = (Kind, more) => new THREE[Kind]({ transparent: true, depthWrite: false, ...more });
const sky = new THREE.Mesh(skyGeometry(), new THREE.MeshBasicMaterial({ vertexColors: true, side: THREE.BackSide, fog: false, depthWrite: false, depthTest: false }));
const ground = new THREE.Mesh(new THREE.PlaneGeometry(2 * FAR, 2 * FAR).rotateX(-Math.PI / 2), new THREE.MeshBasicMaterial({ map: fields(), depthWrite: false }));
const grid = new THREE.LineSegments(gridGeometry(), material("LineBasicMaterial", { vertexColors: true }));
sky.renderOrder = -3; ground.renderOrder = -2; grid.renderOrder = -1;
[sky, ground, grid].forEach((mesh) => { mesh.frustumCulled = false; world.add(mesh); });

function skyGeometry() {
  const sphere = new THREE.SphereGeometry(0.8 * FAR, 24, 24), place = sphere.attributes.position, colors = [];
  const [top, middle, horizon] = [SKY.top, SKY.middle, SKY.horizon].map((c) => new THREE.Color(c));
  for (let i = 0; i < place.count; i++) {
    const s = clamp(place.getY(i) / (0.8 * FAR), 0, 1);
    const c = s < 0.25 ? horizon.clone().lerp(middle, s / 0.25) : middle.clone().lerp(top, (s - 0.25) / 0.75);
    colors.push(c.r, c.g, c.b);
  }
  sphere.setAttribute("color", new THREE.Float32BufferAttribute(colors, 3));
  return sphere;
}
// Fields of 500 m in a few shades to make speed and height visible: a texture that repeats every 16 km.
function fields() {
  const n = 32, data = new Uint8Array(4 * n * n), base = new THREE.Color(SKY.ground).convertLinearToSRGB();
  for (let i = 0, seed = 7; i < n * n; i++) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    const shade = 0.86 + 0.28 * (seed / 2147483648), warm = 0.94 + 0.12 * ((seed >> 8) % 97) / 97;
    data.set([255 * base.r * shade * warm, 255 * base.g * shade, 255 * base.b * shade / warm, 255], 4 * i);
  }
  const texture = new THREE.DataTexture(data, n, n);
  texture.colorSpace = THREE.SRGBColorSpace; texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.magFilter = THREE.NearestFilter; texture.minFilter = THREE.LinearMipmapLinearFilter; texture.generateMipmaps = true;
  texture.repeat.set(2 * FAR / 16000, 2 * FAR / 16000); texture.anisotropy = 8; texture.needsUpdate = true;
  return texture;
}
// Lines every kilometre, each fifth brighter, that fade with distance; in pieces, since far vertices are imprecise.
function gridGeometry() {
  const places = [], colors = [], reach = 40, piece = 4;
  const add1 = (x, z, bright) => { places.push(1000 * x, 0, 1000 * z); colors.push(0.92, 0.97, 0.9, bright * Math.max(1 - Math.hypot(x, z) / reach, 0) ** 1.5); };
  for (let k = -reach; k <= reach; k++) for (let from = -reach; from < reach; from += piece) {
    const bright = k % 5 ? 0.2 : 0.5;
    add1(k, from, bright); add1(k, from + piece, bright); add1(from, k, bright); add1(from + piece, k, bright);
  }
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.Float32BufferAttribute(places, 3));
  geometry.setAttribute("color", new THREE.Float32BufferAttribute(colors, 4));
  return geometry;
}

// ---- what moves ---------------------------------------------------------------------------------------------------

function strip(Kind, vertices, more) {
  const geometry = new THREE.BufferGeometry(), mesh = new THREE[Kind](geometry, more);
  geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(3 * vertices), 3));
  geometry.setAttribute("color", new THREE.BufferAttribute(new Float32Array(4 * vertices), 4));
  mesh.frustumCulled = false; world.add(mesh);
  // Sets the vertices [[place, color, alpha]].
  return (rows) => {
    const { position, color } = geometry.attributes, used = Math.min(rows.length, vertices);
    for (let i = 0; i < used; i++) {
      const [place, c, alpha] = rows[i];
      position.setXYZ(i, place[0], place[1], place[2]); color.setXYZW(i, c.r, c.g, c.b, alpha);
    }
    position.needsUpdate = color.needsUpdate = true;
    geometry.setDrawRange(0, used);
  };
}
const lineMaterial = material("LineBasicMaterial", { vertexColors: true, fog: false });
const lines = strip("LineSegments", 40000, lineMaterial);
const ribbons = strip("Mesh", 24000, material("MeshBasicMaterial", { vertexColors: true, side: THREE.DoubleSide, fog: false }));

function build(scene) {
  models.forEach((model) => world.remove(model.group));
  models = scene.teams.map((team) => {
    const group = new THREE.Group(), color = new THREE.Color(COLORS[team]);
    const body = new THREE.Mesh(aircraftGeometry(COLORS[team]), new THREE.MeshLambertMaterial({ vertexColors: true, flatShading: true, side: THREE.DoubleSide, fog: false }));
    const flame = new THREE.Mesh(new THREE.ConeGeometry(0.5, 1, 10).rotateX(Math.PI / 2).translate(0, 0.05, 7.7), material("MeshBasicMaterial", { color: "#ffb35c", fog: false, opacity: 0.85 }));
    group.add(body, flame); world.add(group);
    return { group, flame, color, grey: new THREE.Color("#59616e") };
  });
}
const screenSize = (place) => {  // Pixels of a metre there.
  const away = Math.max(size(add(place, camera.position.toArray(), -1)), 1);
  return height / (2 * away * Math.tan(camera.fov * Math.PI / 360));
};
const scaleAt = (place) => Math.max(1, LEAST_PIXELS * clamp(width / 900, 0.75, 1) / (LENGTH * screenSize(place)));
const grey = new THREE.Color("#e8edf2");

function paintPlane(plane, seat, team) {
  const { group, flame, color } = models[seat], nose = unit(plane.nose), right = unit(cross(nose, plane.up)), up = cross(right, nose);
  const basis = new THREE.Matrix4().makeBasis(new THREE.Vector3(...right), new THREE.Vector3(...up), new THREE.Vector3(...times(nose, -1)));
  group.position.set(...plane.pos); group.quaternion.setFromRotationMatrix(basis);
  const scale = scaleAt(plane.pos); group.scale.setScalar(scale);
  group.visible = plane.hp > 0 || plane.pos[1] > R.floor + 1;
  const burn = plane.hp > 0 ? clamp((plane.power - 50) / 50, 0, 1) : 0;
  flame.visible = burn > 0.05; flame.scale.set(1, 1, 1 + 5 * burn); flame.position.z = 7.7 - 7.7 * flame.scale.z + 2.5 * burn + 0.4;
  const rows = [], foot = [plane.pos[0], R.floor + 1, plane.pos[2]], ring = 4 * scale;
  rows.push([plane.pos, color, 0.55], [foot, color, 0.25]);
  for (let k = 0; k < 16; k++) for (const at of [k, k + 1]) {
    rows.push([add(foot, [ring * Math.cos(at * Math.PI / 8), 0, ring * Math.sin(at * Math.PI / 8)]), color, 0.7]);
  }
  if (plane.hp > 0) rows.push([add(plane.pos, nose, 8 * scale), color, 0.5], [add(plane.pos, nose, Math.max(GUN_LINE, 20 * scale)), color, 0.0]);
  return rows;
}
// A line, and a ribbon as wide as the aircraft that shows its bank; not in front of the camera's own nose.
function paintTrail(trail, seat, toLines, toRibbons) {
  const { color } = models[seat];
  for (let i = 0; i + 1 < trail.length; i++) {
    const old = trail[i], now = trail[i + 1];
    if (size(add(now.pos, camera.position.toArray(), -1)) < 120) continue;
    const share = (i + 1) / trail.length, alpha = 0.75 * share ** 1.5;
    toLines.push([old.pos, color, alpha], [now.pos, color, alpha]);
    if (size(add(now.pos, camera.position.toArray(), -1)) < 260) continue;
    const half = 2.6 * scaleAt(now.pos), side = (p, s) => add(p.pos, unit(cross(p.nose, p.up)), s * half);
    const a = side(old, -1), b = side(old, 1), c = side(now, 1), d = side(now, -1), faint = 0.34 * share;
    toRibbons.push([a, color, faint], [b, color, faint], [c, color, faint], [a, color, faint], [c, color, faint], [d, color, faint]);
  }
}
// Smoke of a missile or a flare, and the missile's body as a line visible from afar.
const SMOKE = new THREE.Color("#eef1f4"), BODY = 3;
function paintRelease({ kind, seat, pos, along, flying, smoke }, toLines) {
  const most = kind === "missile" ? 0.85 : 0.45;
  for (let i = 0; i + 1 < smoke.length; i++) toLines.push([smoke[i][0], SMOKE, most * smoke[i][1]], [smoke[i + 1][0], SMOKE, most * smoke[i + 1][1]]);
  if (kind === "missile" && flying) toLines.push([pos, models[seat].color, 1], [add(pos, along, -BODY * scaleAt(pos)), models[seat].color, 1]);
}
function paint(scene) {
  painted = scene;
  if (models.length !== scene.planes.length) build(scene);
  place(scene);
  const toLines = [], toRibbons = [];
  scene.planes.forEach((plane, seat) => toLines.push(...paintPlane(plane, seat)));
  scene.trails.forEach((trail, seat) => paintTrail(trail, seat, toLines, toRibbons));
  for (const { pos, vel, seat } of scene.bursts) {
    const tail = add(pos, vel, -0.02 * Math.max(1, 0.25 * scaleAt(pos)));
    toLines.push([pos, grey, 1], [tail, models[seat].color, 0.35]);
  }
  (scene.releases || []).forEach((release) => paintRelease(release, toLines));
  for (const [from, to] of scene.beams) toLines.push([scene.planes[from].pos, grey, 0.9], [scene.planes[to].pos, models[from].color, 0.9]);
  for (const { points, seat } of scene.paths || []) points.slice(1).forEach((p, i) => toLines.push([points[i], models[seat].color, 0.8], [p, grey, 0.9]));
  lines(toLines); ribbons(toRibbons);
  sky.position.copy(camera.position);
  const step = 16000;
  ground.position.set(step * Math.round(camera.position.x / step), R.floor, step * Math.round(camera.position.z / step));
  grid.position.set(5000 * Math.round(camera.position.x / 5000), R.floor + 0.5, 5000 * Math.round(camera.position.z / 5000));
  if (renderer) renderer.render(world, camera);
  paintOver(scene);
}

// ---- cameras ------------------------------------------------------------------------------------------------------

const setCamera = (eye, target, up = [0, 1, 0]) => {
  const low = [eye[0], Math.max(eye[1], R.floor + 15), eye[2]];
  camera.position.set(...low); camera.up.set(...up); camera.lookAt(...target); camera.updateMatrixWorld();
};
const orbit = (yaw, pitch) => [Math.sin(yaw) * Math.cos(pitch), Math.sin(pitch), Math.cos(yaw) * Math.cos(pitch)];
// A direction in body axes, rotated by the viewer's look angle.
function aside(nose, up, [yaw, pitch]) {
  const right = cross(nose, up);
  const flat = add(times(nose, Math.cos(yaw)), right, Math.sin(yaw));
  return add(times(flat, Math.cos(pitch)), up, Math.sin(pitch));
}
function place(scene) {
  const shown = scene.planes.filter((p) => p.hp > 0), all = shown.length ? shown : scene.planes;
  const middle = times(all.reduce((sum, p) => add(sum, p.pos), [0, 0, 0]), 1 / all.length);
  const reach = Math.max(...all.map((p) => size(add(p.pos, middle, -1)))), half = Math.min(camera.fov, 2 * Math.atan(Math.tan(camera.fov * Math.PI / 360) * wide) * 180 / Math.PI) * Math.PI / 360;
  const fit = Math.max(220, (1.12 * reach + 40) / Math.sin(half)) * view.zoom;
  const me = scene.planes[Math.min(view.seat, scene.planes.length - 1)], before = scene.before[Math.min(view.seat, scene.planes.length - 1)];
  if (view.kind === "behind") {
    const nose = unit(before.nose), up = unit(add(before.up, nose, -dot(before.up, nose))), ahead = aside(nose, up, view.look), level = cross(cross(nose, up), ahead);
    const roof = unit(Math.abs(dot(ahead, up)) > 0.98 ? nose : add(up, ahead, -dot(up, ahead)));
    const reach2 = 52 * view.zoom;
    setCamera(add(add(me.pos, ahead, -reach2), roof, 0.24 * reach2), add(add(me.pos, ahead, 400), roof, 14), roof);
  } else if (view.kind === "toward") {
    const it = scene.planes.find((p, seat) => scene.teams[seat] !== scene.teams[view.seat] && p.hp > 0) || scene.planes[1 - view.seat] || me;
    const line = unit(add(it.pos, me.pos, -1)), up = Math.abs(line[1]) > 0.97 ? unit(before.up) : [0, 1, 0], roof = unit(add(up, line, -dot(up, line)));
    const reach2 = 60 * view.zoom;
    setCamera(add(add(me.pos, line, -reach2), roof, 0.26 * reach2), it === me ? add(me.pos, me.nose, 100) : it.pos, roof);
  } else if (view.kind === "above") {
    setCamera(add(middle, [0, fit, 0]), middle, [-Math.sin(view.yaw - 0.6), 0, -Math.cos(view.yaw - 0.6)]);
  } else if (view.kind === "free") {
    setCamera(add(view.target, orbit(view.yaw, view.pitch), view.distance * view.zoom), view.target);
  } else {
    view.target = middle; view.distance = fit / view.zoom;
    setCamera(add(middle, orbit(view.yaw, view.pitch), fit), middle);
  }
}
function setView(kind, seat = view.seat) {
  if (kind === "free" && view.kind === "behind") view.distance = 400;
  Object.assign(view, { kind, seat, zoom: 1, look: [0, 0] });
  repaint();
}
function turn(dx, dy) {
  if (view.kind === "behind") view.look = [clamp(view.look[0] - dx, -3.2, 3.2), clamp(view.look[1] - dy, -1.4, 1.4)];
  else { view.yaw -= dx; view.pitch = clamp(view.pitch + dy, -0.2, 1.5); }
}
// Moves the target of a free camera, in fractions of the picture.
function shift(dx, dy) {
  if (view.kind !== "free") setView("free");
  const reach = view.distance * view.zoom, right = [Math.cos(view.yaw), 0, -Math.sin(view.yaw)], away = [-Math.sin(view.yaw), 0, -Math.cos(view.yaw)];
  view.target = add(add(view.target, right, -dx * reach), away, dy * reach);
}
const zoom = (factor) => { view.zoom = clamp(view.zoom * factor, 0.05, 12); };

// Drags turn, two fingers or the right button shift, pinches and wheels zoom; `tap` is a press without a move.
function listen(tap) {
  const fingers = new Map();
  let moved = 0;
  const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
  stage.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, [event.clientX, event.clientY]); if (fingers.size === 1) moved = 0; stage.setPointerCapture(event.pointerId); });
  stage.addEventListener("pointermove", (event) => {
    const old = fingers.get(event.pointerId);
    if (!old) return;
    const before = fingers.size === 2 ? spread() : 0, dx = event.clientX - old[0], dy = event.clientY - old[1];
    fingers.set(event.pointerId, [event.clientX, event.clientY]); moved += Math.abs(dx) + Math.abs(dy);
    if (fingers.size === 2) { zoom(clamp(before / Math.max(spread(), 1), 0.8, 1.25)); if (view.kind === "free") shift(dx / width / 2, dy / height / 2); }
    else if (event.buttons & 2 || event.shiftKey) shift(dx / width, dy / height);
    else if (moved > 5) turn(dx * 3 / width, dy * 3 / height);
    repaint();
  });
  const up = (event) => { if (fingers.delete(event.pointerId) && event.type === "pointerup" && moved <= 5 && event.button === 0) tap(); };
  ["pointerup", "pointercancel"].forEach((kind) => stage.addEventListener(kind, up));
  stage.addEventListener("contextmenu", (event) => event.preventDefault());
  stage.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(clamp(event.deltaY, -200, 200) / 800)); repaint(); }, { passive: false });
}

// ---- names and instruments ----------------------------------------------------------------------------------------

// Screen position of a place, and whether it is ahead of the camera and on screen.
function onPicture(place) {
  const p = new THREE.Vector3(...place).applyMatrix4(camera.matrixWorldInverse), ahead = p.z < 0;
  p.applyMatrix4(camera.projectionMatrix);
  const x = width / 2 * (1 + (ahead ? p.x : -p.x)), y = height / 2 * (1 - (ahead ? p.y : -p.y));
  return { x, y, ahead, on: ahead && x > 0 && x < width && y > 0 && y < height };
}
function text(words, x, y, color, align = "center", font = "600 13px") {
  pen.font = font + " system-ui, sans-serif"; pen.textAlign = align; pen.textBaseline = "middle";
  pen.lineWidth = 3; pen.strokeStyle = "rgba(8, 14, 24, .75)"; pen.lineJoin = "round";
  pen.strokeText(words, x, y); pen.fillStyle = color; pen.fillText(words, x, y);
}
const kilometres = (metres) => (metres < 1000 ? Math.round(metres) + " m" : (metres / 1000).toFixed(1) + " km");

function paintName(plane, seat, scene) {
  const at = onPicture(plane.pos), color = plane.hp > 0 ? COLORS[scene.teams[seat]] : "#c3cad4", name = scene.short[seat];
  const own = view.seat === seat && (view.kind === "behind" || view.kind === "toward");
  if (own) return;
  if (at.on) {
    const up = scene.planes.every((other, k) => k === seat || onPicture(other.pos).y >= at.y || Math.abs(onPicture(other.pos).x - at.x) > 90);
    const side = up ? -1 : 1, first = at.y + side * (0.5 * LEAST_PIXELS + 12);
    text(name, clamp(at.x, 40, width - 40), clamp(first, 12, height - 12), color);
    const about = view.kind === "behind" || view.kind === "toward" ? kilometres(size(add(plane.pos, scene.planes[view.seat].pos, -1))) : plane.load.toFixed(1) + " g";
    if (plane.hp > 0) text(about, clamp(at.x, 40, width - 40), clamp(first + side * 16, 12, height - 12), "#f2f5f9", "center", "500 12px");
    return;
  }
  const dx = at.x - width / 2, dy = at.y - height / 2, angle = Math.atan2(dy, dx), edge = 26;
  const part = Math.min((width / 2 - edge) / Math.max(Math.abs(Math.cos(angle)), 1e-6), (height / 2 - edge) / Math.max(Math.abs(Math.sin(angle)), 1e-6));
  const x = width / 2 + part * Math.cos(angle), y = height / 2 + part * Math.sin(angle);
  pen.save(); pen.translate(x, y); pen.rotate(angle); pen.fillStyle = color;
  pen.beginPath(); pen.moveTo(14, 0); pen.lineTo(-8, 9); pen.lineTo(-8, -9); pen.fill(); pen.restore();
  const label = name + " " + kilometres(size(add(plane.pos, scene.planes[view.seat].pos, -1)));
  text(label, clamp(x, 62, width - 62), clamp(y + (y > height / 2 ? -22 : 22), 14, height - 14), color);
}
// A missile as a diamond in the colour of its side, a flare as a glow.
function paintMark({ kind, seat, pos, flying, left }, scene) {
  const at = onPicture(pos);
  if (!flying || !at.on) return;
  if (kind === "missile") {
    pen.strokeStyle = COLORS[scene.teams[seat]]; pen.lineWidth = 2;
    pen.beginPath(); for (const [x, y] of [[0, -7], [7, 0], [0, 7], [-7, 0]]) pen.lineTo(at.x + x, at.y + y); pen.closePath(); pen.stroke();
    return;
  }
  const radius = 5 + 6 * left, glow = pen.createRadialGradient(at.x, at.y, 0, at.x, at.y, radius);
  glow.addColorStop(0, "rgba(255, 255, 235, 1)"); glow.addColorStop(0.35, "rgba(255, 220, 120, .8)"); glow.addColorStop(1, "rgba(255, 170, 60, 0)");
  pen.fillStyle = glow; pen.beginPath(); pen.arc(at.x, at.y, radius, 0, 7); pen.fill();
}
function paintFlash({ kind, seat, age }, scene) {
  const share = age / FLASH_SECONDS, at = onPicture(scene.planes[seat].pos);
  if (share < 0 || share >= 1 || !at.ahead || (kind !== "hit" && kind !== "down")) return;
  const most = kind === "down" ? 90 : 44, ring = (r, color, wide2) => { pen.strokeStyle = color; pen.lineWidth = wide2; pen.beginPath(); pen.arc(at.x, at.y, r, 0, 7); pen.stroke(); };
  pen.globalAlpha = (1 - share) ** 1.4;
  ring(10 + most * Math.sqrt(share), "#fff", 3); ring(8 + 0.7 * most * Math.sqrt(share), kind === "down" ? "#ff7a4a" : COLORS[1 - scene.teams[seat]], kind === "down" ? 7 : 3);
  pen.globalAlpha = 1;
}
// Nose and velocity markers, and the instruments; only in the pilot's views.
function paintInstruments(scene) {
  const me = scene.planes[view.seat], narrow = width < 560, green = "#b8ffcf";
  if (!me || me.hp <= 0) return;
  const nose = onPicture(add(me.pos, me.nose, 1500)), path = onPicture(add(me.pos, unit(me.vel), 1500));
  pen.strokeStyle = green; pen.lineWidth = 1.6;
  if (nose.on) { pen.beginPath(); for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { pen.moveTo(nose.x + 4 * x, nose.y + 4 * y); pen.lineTo(nose.x + 13 * x, nose.y + 13 * y); } pen.stroke(); }
  if (path.on) { pen.beginPath(); pen.arc(path.x, path.y, 5, 0, 7); pen.moveTo(path.x - 13, path.y); pen.lineTo(path.x - 5, path.y); pen.moveTo(path.x + 5, path.y); pen.lineTo(path.x + 13, path.y); pen.moveTo(path.x, path.y - 5); pen.lineTo(path.x, path.y - 10); pen.stroke(); }
  const aim = scene.planes.length === 2 ? aimOf(me, scene.planes[1 - view.seat], scene.gun) : null;
  if (aim) {
    const at = onPicture(add(me.pos, aim.direction, 1500));
    if (at.on) { pen.strokeStyle = aim.fire ? "#ff6a4a" : "#ffd27a"; pen.lineWidth = aim.fire ? 3 : 2; pen.beginPath(); pen.arc(at.x, at.y, 9, 0, 7); pen.stroke(); pen.beginPath(); pen.arc(at.x, at.y, 1.5, 0, 7); pen.stroke(); }
  }
  const speed = size(me.vel), climb = Math.asin(clamp(me.nose[1], -1, 1)) * 180 / Math.PI, heading = (Math.atan2(me.nose[0], -me.nose[2]) * 180 / Math.PI + 360) % 360;
  const big = narrow ? "600 15px" : "600 20px", small = narrow ? "500 11px" : "500 13px", left = narrow ? 10 : 0.16 * width, right = narrow ? width - 10 : 0.84 * width, line = narrow ? 15 : 19;
  const align = narrow ? ["left", "right"] : ["right", "left"], y = narrow ? height - 70 : height / 2;
  text(Math.round(speed) + " m/s", left, y, green, align[0], big);
  text("M " + (speed / soundAt(me.pos[1])).toFixed(2), left, y + line, green, align[0], small);
  text(me.load.toFixed(1) + " g", left, y + 2 * line, green, align[0], small);
  text("α " + Math.round(me.alpha * 180 / Math.PI) + "°", left, y + 3 * line, green, align[0], small);
  text(Math.round(me.pos[1]) + " m", right, y, me.pos[1] < 500 ? "#ff8a70" : green, align[1], big);
  text((me.vel[1] >= 0 ? "+" : "−") + Math.abs(Math.round(me.vel[1])) + " m/s", right, y + line, green, align[1], small);
  text("nose " + (climb >= 0 ? "+" : "−") + Math.abs(Math.round(climb)) + "°", right, y + 2 * line, green, align[1], small);
  text("power " + Math.round(me.power) + " %", right, y + 3 * line, green, align[1], small);
  text(String(Math.round(heading) % 360).padStart(3, "0") + "°", width / 2, 16, green, "center", small);
  paintHorizon(me, green, narrow);
}
// Where to point the nose for a round to hit the opponent, as `see` of kernels/view.py, and whether to fire; null if far away.
function aimOf(me, it, gun) {
  const line = add(it.pos, me.pos, -1), away = Math.max(size(line), 1), bearing = times(line, 1 / away), relative = add(it.vel, me.vel, -1);
  if (away > 2500 || it.hp <= 0) return null;
  let direction = bearing;
  if (gun === "rounds") {
    const most = R.roundTicks / R.ticksPerSecond;
    let t = clamp(away / Math.max(R.roundSpeed - dot(relative, bearing), 300), 0, most);
    t = Math.min(t * (1 + 0.5 * R.roundDrag * t), most);
    direction = unit(add(add(line, relative, t), [0, 4.9 * t * t, 0]));
  }
  const near = gun === "rounds" ? Math.max(1 - 0.5 * (12 / away) ** 2, R.coneCos) : R.coneCos;
  return { direction, fire: away < R.coneFar && dot(unit(me.nose), direction) > near };
}
// Bank and pitch on a small ball at the lower edge.
function paintHorizon(me, color, narrow) {
  const radius = narrow ? 26 : 34, x = width / 2, y = height - radius - 10, right = cross(me.nose, me.up);
  const bank = Math.atan2(-right[1], me.up[1]), climb = Math.asin(clamp(me.nose[1], -1, 1)), low = clamp(climb / 1.2, -1, 1) * radius;
  pen.save(); pen.translate(x, y); pen.beginPath(); pen.arc(0, 0, radius, 0, 7); pen.clip(); pen.globalAlpha = 0.8;
  pen.rotate(-bank); pen.fillStyle = "#3f6ea8"; pen.fillRect(-radius, -radius, 2 * radius, 2 * radius);
  pen.fillStyle = "#6b5a3c"; pen.fillRect(-2 * radius, low, 4 * radius, 4 * radius); pen.fillRect(-radius, low, 2 * radius, radius * 3);
  pen.strokeStyle = "#fff"; pen.lineWidth = 1; pen.beginPath(); pen.moveTo(-radius, low); pen.lineTo(radius, low); pen.stroke();
  pen.restore(); pen.strokeStyle = color; pen.lineWidth = 2;
  pen.beginPath(); pen.moveTo(x - 16, y); pen.lineTo(x - 5, y); pen.moveTo(x + 5, y); pen.lineTo(x + 16, y); pen.moveTo(x, y - 2); pen.lineTo(x, y + 2); pen.stroke();
  pen.globalAlpha = 0.6; pen.lineWidth = 1; pen.beginPath(); pen.arc(x, y, radius, 0, 7); pen.stroke(); pen.globalAlpha = 1;
}
const soundAt = (h) => Math.sqrt(1.4 * 287.053 * (288.15 - 0.0065 * Math.min(Math.max(h, 0), 11000)));

// Warning receiver and seeker: directions around the aircraft, nose up, and text below.
function paintWarning({ lock, homing, missile, radar }, narrow) {
  const radius = narrow ? 28 : 40, x = width - radius - 12, y = radius + 12, red = "#ff6a4a", amber = "#ffd27a";
  pen.fillStyle = "rgba(8, 14, 24, .55)"; pen.strokeStyle = missile ? red : radar ? amber : "#7d8ba3"; pen.lineWidth = missile ? 3 : 1.5;
  pen.beginPath(); pen.arc(x, y, radius, 0, 7); pen.fill(); pen.stroke();
  pen.fillStyle = "#b8ffcf"; pen.beginPath(); pen.moveTo(x, y - 6); pen.lineTo(x + 4, y + 5); pen.lineTo(x - 4, y + 5); pen.fill();
  const toward = ([ahead, right], part) => { const flat = Math.max(Math.hypot(ahead, right), 1e-6); return [x + part * radius * right / flat, y - part * radius * ahead / flat]; };
  if (radar) { const [rx, ry] = toward(radar, 1); pen.fillStyle = amber; pen.fillRect(rx - 4, ry - 4, 8, 8); }
  if (missile) {
    const [mx, my] = toward(missile, clamp(missile[3] / R.warningRange, 0.15, 1));
    pen.strokeStyle = pen.fillStyle = red; pen.lineWidth = 2; pen.beginPath(); pen.moveTo(x, y); pen.lineTo(mx, my); pen.stroke();
    pen.beginPath(); pen.arc(mx, my, 5, 0, 7); pen.fill();
  }
  const above = missile && Math.abs(missile[2]) > 0.5 ? (missile[2] < 0 ? " above" : " below") : "", font = narrow ? "600 12px" : "600 14px";
  if (missile) text("MISSILE " + kilometres(missile[3]) + above, width - 12, y + radius + 13, red, "right", font);
  else if (radar) text("radar", width - 12, y + radius + 13, amber, "right", font);
  if (lock || homing) text(homing ? "missile tracking" : "LOCK", width / 2, narrow ? 34 : 40, homing ? "#b8ffcf" : red, "center", narrow ? "700 13px" : "700 16px");
}

function paintOver(scene) {
  pen.clearRect(0, 0, width, height);
  if (!renderer) text("This page needs WebGL, which this browser does not support.", width / 2, height / 2, "#e6ebf3");
  scene.planes.forEach((plane, seat) => paintName(plane, seat, scene));
  (scene.releases || []).forEach((release) => paintMark(release, scene));
  scene.flashes.forEach((flash) => paintFlash(flash, scene));
  if (view.kind === "behind" || view.kind === "toward") paintInstruments(scene);
  if (scene.warning) paintWarning(scene.warning, width < 560);
}
function resize() {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), box = stage.getBoundingClientRect();
  width = Math.max(box.width, 1); height = Math.max(box.height, 1); wide = width / height;
  over.width = Math.round(width * ratio); over.height = Math.round(height * ratio);
  pen.setTransform(over.width / width, 0, 0, over.height / height, 0, 0);
  camera.aspect = wide; camera.updateProjectionMatrix();
  if (renderer) { renderer.setPixelRatio(ratio); renderer.setSize(width, height, false); }
}
const repaint = () => { if (painted) paint(painted); };
return { resize, paint, repaint, setView, listen, turn, shift, zoom, view: () => ({ ...view }), works: () => Boolean(renderer), onPicture };
}
