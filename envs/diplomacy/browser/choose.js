// Orders by click, drag and key: select a unit, then its destination, or the unit it helps and that unit's destination.
// Orders come from the server's list, [text, kind, target province, province of the helped unit].

const KIND_KEYS = { hold: "h", support: "s", convoy: "c", disband: "d" }, MOVES = ["move", "retreat"], HELPS = ["support", "convoy"];

// The unit that an order is for, such as A PAR.
const unitOf = (text) => text.split(" ").slice(0, 2).join(" ");

// `page` has order(text), note(text) and painted(), called after every change of the selection.
function makeChooser(map, codes, page) {
let options = {}, winter = 0, chosen = "", helped = "", mode = "", pointer = { x: 0, y: 0 }, press = null;

const of = (code, test) => (options[code] || []).filter(test);
const moves = (code) => of(code, ([, kind]) => MOVES.includes(kind));
const helps = (code) => of(code, ([, kind]) => HELPS.includes(kind) && (!mode || kind === mode));
const itself = (code) => of(code, ([, kind]) => !MOVES.includes(kind) && !HELPS.includes(kind));
const nameOf = (code) => (winter > 0 ? code : unitOf(options[code][0][0]));

// ---- the selection ------------------------------------------------------------------------------------------------

function select(code, kind = "") {
  chosen = options[code] ? code : ""; helped = ""; mode = chosen ? kind : "";
  closeMenu(); page.painted();
}
function reset(newOptions, newWinter) { options = newOptions; winter = newWinter; select(""); }

function click(code) {
  if (!code) return select("");
  if (winter) return options[code] ? offer(options[code], code) : select("");
  if (!chosen) return options[code] ? select(code) : undefined;
  if (helped) return take(helps(chosen).filter(([, , target, other]) => other === helped && target === code), code);
  if (code === chosen) return mode ? select(code) : take(itself(code), code);
  const going = mode ? [] : moves(chosen).filter(([, , target]) => target === code), helping = helps(chosen).filter(([, , , other]) => other === code);
  if (helping.length && !going.length) return help(code);
  if (going.length && !helping.length) return take(going, code);
  if (going.length) return openMenu([...going.map(order), ["Help the unit in " + code + " …", () => help(code)], ...(options[code] ? [["Select " + nameOf(code), () => select(code)]] : [])]);
  if (options[code] && !mode) return select(code);
  take([], code);
}
function help(code) { helped = code; closeMenu(); page.painted(); }
function drag(from, to) {
  const helping = chosen && from !== chosen ? helps(chosen).filter(([, , target, other]) => other === from && target === to) : [];
  if (helping.length && (mode || !options[from])) return take(helping, to);
  if (!options[from] || winter) return click(to);
  select(from);
  take(moves(from).filter(([, , target]) => target === to), to);
}
// A single order is given, several open a menu, none shows an explanation.
function take(found, code) {
  if (found.length === 1) { const [[text]] = found; select(""); page.order(text); }
  else if (found.length) openMenu(found.map(order));
  else if (chosen) page.note(nameOf(chosen) + (helped ? " cannot help the unit in " + helped + " to " : mode ? " cannot " + mode + " " : " cannot go to ") + code + ".");
}
const offer = (found, code) => { chosen = code; page.painted(); if (winter < 0) take(found, code); else openMenu(found.map(order)); };
const order = ([text]) => [text, () => { select(""); page.order(text); }];

// Options of the selected unit, as [kind, pressed, act], and provinces to mark, as [code, class].
function ways() {
  if (!chosen || winter) return [];
  const kinds = new Set(options[chosen].map(([, kind]) => kind));
  return Object.keys(KIND_KEYS).filter((kind) => kinds.has(kind)).map((kind) =>
    [kind, kind === mode, () => (HELPS.includes(kind) ? select(chosen, kind === mode ? "" : kind) : take(itself(chosen), chosen))]);
}
function glow() {
  if (!chosen) return Object.keys(options).map((code) => [code, "own"]);
  const each = (kind, codes) => [...new Set(codes)].map((code) => [code, kind]);
  if (helped) return [[chosen, "chosen"], [helped, "aid"], ...each("can", helps(chosen).filter(([, , , other]) => other === helped).map(([, , target]) => target))];
  return [...each("aid", helps(chosen).map(([, , , other]) => other)), ...each("can", mode ? [] : moves(chosen).map(([, , target]) => target)), [chosen, "chosen"]];
}
function hint() {
  if (!Object.keys(options).length) return "";
  if (winter) return winter > 0 ? "Click a marked centre to build." : "Click a marked unit to disband it.";
  if (!chosen) return "Click or drag a marked unit.";
  const held = helps(chosen).some(([, , target, other]) => other === helped && target === helped);
  if (helped) return nameOf(chosen) + ": help the unit in " + helped + " to go where?" + (held ? " Click its own place for hold." : "");
  return nameOf(chosen) + (mode ? ": " + mode + " which unit?" : ": click a destination, or a unit to help.");
}

// ---- the pointer --------------------------------------------------------------------------------------------------

const codeAt = ({ clientX, clientY }) => { const found = document.elementFromPoint(clientX, clientY)?.closest("#map [data-code]"); return found ? found.dataset.code : ""; };
const ghost = $("#ghost");
const inMap = ({ clientX, clientY }) => new DOMPoint(clientX, clientY).matrixTransform(map.getScreenCTM().inverse());
// A finger scrolls the map instead of dragging a unit.
map.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  pointer = { x: event.clientX, y: event.clientY };
  press = { code: codeAt(event), x: event.clientX, y: event.clientY, drags: event.pointerType !== "touch", from: inMap(event) };
});
window.addEventListener("pointermove", (event) => {
  if (!press || !press.drags || !press.code) return;
  const to = inMap(event);
  if (Math.hypot(event.clientX - press.x, event.clientY - press.y) > 6) ghost.setAttribute("visibility", "visible");
  for (const [name, value] of [["x1", press.from.x], ["y1", press.from.y], ["x2", to.x], ["y2", to.y]]) ghost.setAttribute(name, value);
});
window.addEventListener("pointerup", (event) => {
  const began = press;
  press = null; ghost.setAttribute("visibility", "hidden");
  if (!began) return;
  pointer = { x: event.clientX, y: event.clientY };
  const code = codeAt(event), far = Math.hypot(event.clientX - began.x, event.clientY - began.y) > 6;
  closeMenu();
  if (far && began.drags && code && code !== began.code) drag(began.code, code);
  else if (!far || code === began.code) click(code);
});
window.addEventListener("pointercancel", () => { press = null; ghost.setAttribute("visibility", "hidden"); });

// ---- the menu -----------------------------------------------------------------------------------------------------

const menu = $("#menu");
function openMenu(entries) {
  menu.replaceChildren(...entries.map(([text, act]) => {
    const made = element("button", "", text);
    made.type = "button"; made.setAttribute("role", "menuitem");
    made.addEventListener("click", act);
    return made;
  }));
  menu.hidden = false;
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = clamp(pointer.x + 8, 8, Math.max(innerWidth - width - 8, 8)) + "px";
  menu.style.top = clamp(pointer.y + 8, 8, Math.max(innerHeight - height - 8, 8)) + "px";
  menu.firstChild.focus({ preventScroll: true });
}
function closeMenu() { menu.hidden = true; }
document.addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) closeMenu(); });
menu.addEventListener("keydown", (event) => {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (step) { event.preventDefault(); event.stopPropagation(); document.activeElement[step]?.focus(); }
});
function key(name) {
  if (name === "escape") { select(""); return true; }
  const way = ways().find(([kind]) => KIND_KEYS[kind] === name);
  if (way) way[2]();
  return Boolean(way);
}
return { reset, select, click, ways, glow, hint, key, list: () => options[chosen] || [], state: () => ({ chosen, helped, mode, menu: menu.hidden ? [] : [...menu.children].map((b) => b.textContent) }) };
}
