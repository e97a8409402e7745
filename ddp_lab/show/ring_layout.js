// Where the ring player puts ranks and bars, on a page and in a hall. It stands before the module.

const RADIUS = 165; // at least; many ranks want more
const MARGIN = { x: 120, y: 70 }; // around the ring, at least
const BARS = { away: 190, y: 90, width: 150, pitch: 34 };
const CROWD = 16; // more ranks than that are drawn small, when nothing stands in them
// In a hall: pixels of the largest and the smallest square, of one that has a number, of the name
// above a rank, and what the bars beside the ring take.
const HALL = { most: 40, least: 4, number: 24, name: 26, bars: { wide: 340, lead: 75, away: 14 } };
const TURNS = 720; // points of the ring on which ranks may stand

// Points of an ellipse, as far from each other along it, from its top on clockwise.
function around(n, centre, radius) {
  const points = Array.from({ length: TURNS + 1 }, (_, k) => {
    const angle = (2 * Math.PI * k) / TURNS - Math.PI / 2;
    return { x: centre.x + radius.x * Math.cos(angle), y: centre.y + radius.y * Math.sin(angle) };
  });
  const way = [0];
  for (let k = 1; k <= TURNS; k += 1) {
    way.push(way[k - 1] + Math.hypot(points[k].x - points[k - 1].x, points[k].y - points[k - 1].y));
  }
  return Array.from({ length: n }, (_, rank) => points[way.findIndex((w) => w >= (way[TURNS] * rank) / n - 1e-9)]);
}

// In a hall the ring is as wide as its place, and squares are as large as leaves room for messages
// between any two ranks.
function hallLayout(story, room) {
  const n = story.world_size;
  const cells = Math.max(story.cuts.length - 1, 0);
  const crowd = !cells && n > CROWD;
  const name = crowd ? 0 : HALL.name;
  const wide = room.width - HALL.bars.wide;
  const centre = { x: wide / 2, y: (room.height + name) / 2 };
  const fitted = (size) => {
    const width = cells ? cells * size : crowd ? 30 : 40;
    const height = cells ? n * size : 24;
    const radius = { x: (wide - Math.max(width, 80)) / 2 - 6, y: (room.height - height - name - 4) / 2 };
    const places = around(n, centre, radius);
    const apart = crowd ? 30 : Math.hypot(width, height) + 64;
    const fits = radius.y > 0 && places.every((a, k) => places.slice(k + 1).every((b) => Math.hypot(a.x - b.x, a.y - b.y) >= apart));
    return { size, width, height, places, fits };
  };
  const sizes = Array.from({ length: HALL.most - HALL.least + 1 }, (_, k) => fitted(HALL.most - k));
  const pitch = Math.min(46, (room.height - 110) / n);
  const bars = { x: wide + HALL.bars.away + HALL.bars.lead, lead: HALL.bars.lead, y: 62, width: 130, pitch, height: 0.6 * pitch, line: 24 };
  return { n, cells, crowd, ...(sizes.find(({ fits }) => fits) || sizes.at(-1)), bars, view: room };
}

// Where everything stands: sizes follow from the number of ranks and of cells. Between neighbours
// there is room for a message, and the picture is as large as the ring that this takes.
function layout(story, room) {
  if (room && room.width > 2 * HALL.bars.wide) return hallLayout(story, room);
  const n = story.world_size;
  const cells = Math.max(story.cuts.length - 1, 0);
  const crowd = !cells && n > CROWD;
  const size = Math.max(5, Math.min(16, Math.floor(72 / Math.max(cells, n, 1))));
  const width = crowd ? 20 : Math.max(cells * size, 30);
  const height = cells ? n * size : crowd ? 15 : 18;
  const apart = crowd ? 34 : Math.hypot(width, height) + 58;
  const radius = n < 3 ? RADIUS : Math.max(RADIUS, apart / 2 / Math.sin(Math.PI / n));
  const margin = crowd ? { x: 30, y: 30 } : { x: Math.max(MARGIN.x, width / 2 + 40), y: Math.max(MARGIN.y, height / 2 + 34) };
  const centre = { x: radius + margin.x, y: radius + margin.y };
  const least = crowd ? 6 : 15;
  const pitch = Math.max(least, Math.min(BARS.pitch, (2 * centre.y - BARS.y - 40) / n));
  const away = crowd ? 120 : BARS.away;
  const bars = { x: centre.x + radius + away, lead: 55, y: BARS.y, width: BARS.width, pitch, height: Math.min(18, 0.8 * pitch), line: 15 };
  const view = { width: bars.x + 220, height: Math.max(2 * centre.y, bars.y + n * pitch + 30) };
  const places = Array.from({ length: n }, (_, rank) => {
    const angle = (2 * Math.PI * rank) / n - Math.PI / 2;
    return { x: centre.x + radius * Math.cos(angle), y: centre.y + radius * Math.sin(angle) };
  });
  return { n, cells, crowd, size, places, width, height, bars, view };
}
