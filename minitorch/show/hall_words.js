// The words of a scene in a hall: twice as large as they were laid out for, so some move and some go.
// It stands before the player's module.

const LOW = 15; // no word stands in a box that is lower
const A_ROW = 20; // pixels of a hall's line in a box
const MIDDLE = 7; // from a hall's baseline up to the middle of its capitals

// What a hall reads first: the words of this step, then names, then numbers.
function rank({ seen }) {
  return seen.fresh ? 0 : /\b(big|bold|now)\b/.test(seen.classes) ? 1 : /\bsmall\b/.test(seen.classes) ? 3 : 2;
}

// The words of boxes at a hall's size: of each box as many lines as it has room for, in its middle;
// a box that is too small grows. Returns the labels that stand in no box.
function seat(labels, boxes) {
  const lines = new Map(boxes.map((box) => [box, []]));
  const free = [];
  for (const label of labels.filter(({ mark }) => mark.text)) {
    const { x, y } = label.mark.attrs;
    const box = boxes.filter(({ mark: { attrs: b } }) => b.x <= x && x <= b.x + b.width && b.y <= y && y <= b.y + b.height).at(-1);
    (box ? lines.get(box) : free).push(label);
  }
  for (const [box, all] of [...lines].filter(([, all]) => all.length)) {
    const { x, y, width, height } = box.node.getBBox();
    const most = Math.max(1, Math.floor((height - 2) / A_ROW));
    const kept = [...all].sort((a, b) => rank(a) - rank(b)).slice(0, most).sort((a, b) => a.mark.attrs.y - b.mark.attrs.y);
    const wider = Math.max(0, ...kept.map(({ node }) => node.getBBox().width + A_ROW / 2 - width));
    const taller = Math.max(0, (kept.length + 0.3) * A_ROW - height);
    const grown = { x: x - wider / 2, y: y - taller / 2, width: width + wider, height: height + taller };
    for (const [name, value] of Object.entries(grown)) box.node.setAttribute(name, value);
    const pitch = Math.min(1.25 * A_ROW, (grown.height - 4) / kept.length);
    for (const label of all) if (!kept.includes(label)) label.node.remove();
    kept.forEach(({ node }, k) => node.setAttribute("y", y + height / 2 + (k - (kept.length - 1) / 2) * pitch + MIDDLE));
  }
  return free;
}

// A label of a hall that its size has grown into a box above or below it: away from the edge.
function clear({ node }, boxes) {
  const { x, y, width, height } = node.getBBox();
  const [top, bottom] = [y + 4, y + height - 4]; // of the letters
  for (const b of boxes) {
    if (b.height < 3 || x + width < b.x || b.x + b.width < x) continue;
    const above = top < b.y && b.y < bottom && (top + bottom) / 2 < b.y;
    const below = top < b.y + b.height && b.y + b.height < bottom && (top + bottom) / 2 > b.y + b.height;
    const by = above ? b.y - bottom - 2 : below ? b.y + b.height - top + 2 : 0;
    if (by) return node.setAttribute("y", Number(node.getAttribute("y")) + by);
  }
  return undefined;
}

// Words of a hall's size need more room than the picture has for all of them: those of this step
// come first, then names, then the newest; what would lie over others is left out.
function thin(labels, boxes, { width, top: above, height }) {
  const kept = [];
  for (const label of [...labels].sort((a, b) => rank(a) - rank(b) || b.since - a.since)) {
    const box = label.node.getBBox();
    const at = Number(label.node.getAttribute("x"));
    const aside = Math.max(0, -box.x) - Math.max(0, box.x + box.width - width);
    if (aside) label.node.setAttribute("x", at + aside);
    const left = box.x + aside;
    const [top, bottom] = [box.y + 3, box.y + box.height - 3];
    const low = boxes.some((b) => b.height < LOW && b.height > 2 && b.x <= box.x && box.x < b.x + b.width && b.y > top - 3 && b.y + b.height < bottom + 3);
    const over = low || kept.some((k) => left < k.right && k.left < left + box.width && top < k.bottom && k.top < bottom);
    const outside = top < above - 3 || bottom > above + height + 3 || box.width > width;
    if (over || outside) label.node.remove();
    else kept.push({ left, right: left + box.width, top, bottom });
  }
}
