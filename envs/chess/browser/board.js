// The board: pieces, marks, and moves by two clicks or by dragging, passed to `onMove(uci)`. Squares are "e4".

const SIZE = 45, FILES = "abcdefgh";

function makeBoard(svg, promotion, onMove) {
const layers = Object.fromEntries(["squares", "marks", "pieces", "hints", "dragged"].map((name) => [name, draw("g", { id: name })]));
svg.append(draw("defs", {}, ...pieceShapes()), ...Object.values(layers));
let shown = { position: "8/8/8/8/8/8/8/8", legal: [], last: "", check: "" }, turned = false, selected = "", drag = null, pending = "";

// ---- geometry -----------------------------------------------------------------------------------------------------

const corner = (name) => {
  const file = FILES.indexOf(name[0]), rank = Number(name[1]) - 1;
  return turned ? [(7 - file) * SIZE, rank * SIZE] : [file * SIZE, (7 - rank) * SIZE];
};
function place(event) {
  const box = svg.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width * 8 * SIZE, (event.clientY - box.top) / box.height * 8 * SIZE];
}
function squareAt(event) {
  const [across, down] = place(event).map((value) => Math.floor(value / SIZE));
  if (across < 0 || across > 7 || down < 0 || down > 7) return "";
  return turned ? FILES[7 - across] + (down + 1) : FILES[across] + (8 - down);
}
const names = () => [...FILES].flatMap((file) => [1, 2, 3, 4, 5, 6, 7, 8].map((rank) => file + rank));

// ---- drawing ------------------------------------------------------------------------------------------------------

function drawSquares() {
  layers.squares.replaceChildren(...names().flatMap((name) => {
    const [x, y] = corner(name), dark = (FILES.indexOf(name[0]) + Number(name[1])) % 2;
    const made = [draw("rect", { x, y, width: SIZE, height: SIZE, class: dark ? "dark" : "light" })];
    if (y === 7 * SIZE) made.push(draw("text", { x: x + SIZE - 7, y: y + SIZE - 3, class: "coordinate" }, name[0]));
    if (x === 0) made.push(draw("text", { x: 2, y: y + 9, class: "coordinate" }, name[1]));
    return made;
  }));
}
// [square, side, letter] of every piece in the first field of a FEN.
function piecesOf(position) {
  return position.split("/").flatMap((row, down) => {
    let file = 0;
    return [...row].flatMap((letter) => {
      if (letter >= "1" && letter <= "8") { file += Number(letter); return []; }
      return [[FILES[file++] + (8 - down), letter < "a" ? "white" : "black", letter.toLowerCase()]];
    });
  });
}
const kingOf = (side) => piecesOf(shown.position).find(([, owner, letter]) => letter === "k" && owner === side)?.[0];
const fill = (name, kind) => { const [x, y] = corner(name); return draw("rect", { x, y, width: SIZE, height: SIZE, class: kind }); };

function paint() {
  const pieces = piecesOf(shown.position), taken = new Set(pieces.map(([name]) => name));
  const ends = shown.last ? [shown.last.slice(0, 2), shown.last.slice(2, 4)] : [];
  const king = shown.check && kingOf(shown.check);
  layers.marks.replaceChildren(...ends.map((name) => fill(name, "mark")), ...(king ? [fill(king, "check")] : []), ...(selected ? [fill(selected, "selected")] : []));
  layers.pieces.replaceChildren(...pieces.filter(([name]) => !(drag && drag.moved && name === drag.from)).map(([name, side, letter]) => {
    const [x, y] = corner(name);
    return draw("use", { href: `#${side}-${letter}`, x, y, "data-square": name });
  }));
  layers.hints.replaceChildren(...[...new Set(from(selected).map((move) => move.slice(2, 4)))].map((name) => {
    const [x, y] = corner(name), ring = taken.has(name);
    return draw("circle", { cx: x + SIZE / 2, cy: y + SIZE / 2, r: ring ? 19 : 6, class: ring ? "hint ring" : "hint", "data-square": name });
  }));
  const held = drag && drag.moved && pieces.find(([name]) => name === drag.from);
  layers.dragged.replaceChildren(...(held ? [draw("use", { href: `#${held[1]}-${held[2]}`, x: drag.x - SIZE / 2, y: drag.y - SIZE / 2 })] : []));
}

// ---- moves --------------------------------------------------------------------------------------------------------

const from = (name) => name ? shown.legal.filter((move) => move.startsWith(name)) : [];
function select(name) { selected = from(name).length ? name : ""; paint(); }

// Play the move between two squares, after the choice of a promotion; false if there is none.
function commit(start, end) {
  const found = shown.legal.filter((move) => move.startsWith(start + end));
  if (!found.length) return false;
  selected = "";
  if (found[0].length === 5) choosePromotion(start + end); else onMove(found[0]);
  paint();
  return true;
}
function choosePromotion(move) {
  pending = move;
  const side = move[3] === "8" ? "white" : "black";
  promotion.querySelectorAll("use").forEach((use) => use.setAttribute("href", `#${side}-${use.closest("button").dataset.piece}`));
  promotion.hidden = false;
  promotion.querySelector("button").focus();
}
function closePromotion() { promotion.hidden = true; pending = ""; }
promotion.addEventListener("click", (event) => {
  const button = event.target.closest("button"), move = pending;
  closePromotion();
  if (button) onMove(move + button.dataset.piece);
});
// On the document, since the click that opens the choice removes the focus.
document.addEventListener("keydown", (event) => {
  if (!pending || event.ctrlKey || event.altKey || event.metaKey) return;
  const button = [...promotion.querySelectorAll("button")].find(({ dataset }) => dataset.piece === event.key.toLowerCase());
  if (button) { event.preventDefault(); button.click(); }
  if (event.key === "Escape") closePromotion();
});

svg.addEventListener("pointerdown", (event) => {
  const name = squareAt(event);
  if (event.button || pending || (selected && name !== selected && commit(selected, name))) return;
  const again = name === selected;
  select(name);
  if (!selected) return;
  const [x, y] = place(event);
  drag = { from: name, again, x, y, moved: false, start: [event.clientX, event.clientY] };
  svg.setPointerCapture(event.pointerId);
});
svg.addEventListener("pointermove", (event) => {
  if (!drag) return;
  [drag.x, drag.y] = place(event);
  drag.moved ||= Math.hypot(event.clientX - drag.start[0], event.clientY - drag.start[1]) > 4;
  if (drag.moved) paint();
});
svg.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const { from: start, moved, again } = drag, end = squareAt(event);
  drag = null;
  if (end === start ? !moved && again : !commit(start, end)) selected = "";
  paint();
});
svg.addEventListener("pointercancel", () => { drag = null; paint(); });

drawSquares();
return {
  // `last` is the last move in UCI, `check` the side whose king is in check, `legal` the moves that may be played.
  show(board) { shown = board; drag = null; if (!from(selected).length) selected = ""; closePromotion(); paint(); },
  turn(to) { turned = to; drawSquares(); paint(); },
  deselect() { drag = null; select(""); },
  state: () => ({ ...shown, turned, selected, pending }),
};
}
