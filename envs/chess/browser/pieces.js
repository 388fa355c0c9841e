// Simple shapes of the pieces in squares of 45 by 45, each a list of SVG elements; every piece stands on BASE.

const BASE = ["rect", { x: 11, y: 34.5, width: 23, height: 5, rx: 1.5 }];
const dot = (cx, cy, r) => ["circle", { cx, cy, r }];
const line = (d) => ["path", { d }];
const detail = (d) => ["path", { d, class: "detail" }];
const SHAPES = {
  p: [line("M22.5 20c-5 4-5 9-8.5 14.5h17c-3.5-5.5-3.5-10.5-8.5-14.5z"), dot(22.5, 15, 6)],
  r: [line("M12 8h5v4h3.5v-4h4v4h3.5v-4h5v9l-3 3 1 14.5h-17l1-14.5-3-3z"), detail("M15 20h15M14.2 30.5h16.6")],
  n: [line("M13 34.5c0-7 7-9 7.5-14-2.5 0-4.5 3.5-8 3.5-2 0-3-2-2.3-4l5.3-7c.2-2 .5-4 1.5-6l3.5 4c9.5-.5 13 7 12.5 23.5z"), detail("M18.5 14.5l1.2-.8M27 16c2.5 3 3.3 8 3 15")],
  b: [line("M22.5 10.5c-9 7-9 13.5-3.5 18.5l-4.5 5.5h16l-4.5-5.5c5.5-5 5.5-11.5-3.5-18.5z"), dot(22.5, 8, 2.7), detail("M25 16l-4 6.5M19 29h7")],
  q: [line("M11 14l5.5 9 1.5-13.5 4.5 12 4.5-12 1.5 13.5 5.5-9-2.5 20.5h-18z"), dot(10.5, 12.5, 2.3), dot(18, 8, 2.3), dot(27, 8, 2.3), dot(34.5, 12.5, 2.3), detail("M14 30.5h17")],
  k: [line("M22.5 3.5v9M18.8 7h7.4"), line("M22.5 12c-2.5 0-4 2-4 4.5-9-3.5-12.5 5-5 11l1.5 7h15l1.5-7c7.5-6 4-14.5-5-11 0-2.5-1.5-4.5-4-4.5z"), detail("M22.5 17v11M14 30.5h17")],
};

function draw(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
// One group per piece, with the id of its side and letter: white-k.
const pieceShapes = () => ["white", "black"].flatMap((side) => Object.entries(SHAPES).map(([letter, parts]) =>
  draw("g", { id: `${side}-${letter}`, class: `piece ${side}` }, ...[...parts, BASE].map(([tag, attributes]) => draw(tag, attributes)))));
