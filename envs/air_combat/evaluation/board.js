// The boards above the stage and the text of a result, shared by the replay and the flying page.

function element(tag, className, words) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (words !== undefined) made.textContent = words;
  return made;
}
function clockText(seconds) {
  const tenths = Math.floor(seconds * 10 + 1e-6);
  return Math.floor(tenths / 600) + ":" + String(Math.floor(tenths / 10) % 60).padStart(2, "0") + "." + tenths % 10;
}
// Fills #board with one field for each aircraft around the clock.
function makeBoards(board, names, teams) {
  const sides = [0, 1].map((team) => {
    const side = element("div", "side seat" + team);
    teams.forEach((of, seat) => {
      if (of !== team) return;
      const field = element("div", "fighter"); field.dataset.seat = seat;
      field.append(element("div", "name", names[seat]), element("div", "hp"), element("div", "numbers"), element("span", "unseen"));
      field.querySelector(".unseen").setAttribute("role", "status");
      field.querySelector(".name").title = names[seat];
      field.querySelector(".hp").append(element("i"));
      side.append(field);
    });
    return side;
  });
  board.replaceChildren(sides[0], element("div", "clock", "0:00.0"), sides[1]);
  board.querySelector(".clock").setAttribute("role", "timer");
  return teams.map((_, seat) => board.querySelector(`[data-seat="${seat}"]`));
}
function showBoard(field, plane, gun, stores) {
  const hp = clamp(plane.hp, 0, 1), bar = field.querySelector(".hp");
  bar.querySelector("i").style.width = 100 * hp + "%";
  bar.title = Math.round(100 * hp) + " % of its hp";
  const told = field.querySelector(".unseen");
  if (told.textContent !== bar.title) told.textContent = bar.title;
  const numbers = [Math.round(size(plane.vel)) + " m/s", Math.round(plane.pos[1]) + " m", plane.load.toFixed(1) + " g"];
  if (gun === "rounds") numbers.push(plane.rounds + " rounds");
  if (stores && stores.armed) numbers.push(...["missile", "flare"].map((kind) => stores[kind + "s"] + " " + kind + (stores[kind + "s"] === 1 ? "" : "s")));
  field.querySelector(".numbers").textContent = plane.hp > 0 ? numbers.join(" · ") : "DOWN";
}
function resultOf(outcome, names, teams, planes, seconds) {
  const score = teams.length === 2 ? planes.map((p) => Math.round(100 * clamp(p.hp, 0, 1)) + " %").join(" : ") + " hp · " : "";
  const down = [0, 1].map((team) => planes.every((p, seat) => teams[seat] !== team || p.hp <= 0));
  if (outcome === 0) return { title: "Draw", detail: (down[0] && down[1] ? "both down" : "time is up") + " · " + score + clockText(seconds) };
  const team = outcome - 1, winner = teams.length === 2 ? names[team] : "Team " + outcome;
  return { title: winner + " wins", detail: (down[1 - team] ? "the other is down" : "more hp, time is up") + " · " + score + clockText(seconds), team };
}
