// What a demo owes to the back row of a hall and to a phone, as lists of what it does not keep.

(() => {
  // What several rules ask of a node is answered once while one look lasts.
  let answers = null;
  const once = (ask) => (node) => {
    if (!answers) return ask(node);
    if (!answers.has(ask)) answers.set(ask, new Map());
    const known = answers.get(ask);
    if (!known.has(node)) known.set(node, ask(node));
    return known.get(node);
  };

  const shown = once((node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0);
  const say = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""} `
    + `"${(node.textContent || "").trim().slice(0, 40)}"`;
  const withWords = (root) => [...root.querySelectorAll("*")].filter((node) => shown(node)
    && !["TITLE", "OPTION"].includes(node.tagName.toUpperCase())
    && (node.tagName === "SELECT" || [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())));

  // The size in pixels in which words are seen: in a picture, times its scale.
  function pixels(node) {
    const size = parseFloat(getComputedStyle(node).fontSize);
    const scale = node.ownerSVGElement ? node.getScreenCTM().d : 1;
    return size * scale;
  }

  const outside = (box, frame) => box.left < frame.left - 1.5 || box.top < frame.top - 1.5
    || box.right > frame.right + 1.5 || box.bottom > frame.bottom + 1.5;

  window.smallest = (root) => {
    const found = withWords(root).map((node) => [pixels(node), say(node)]);
    return found.reduce((a, b) => (b[0] < a[0] ? b : a));
  };

  // What is not wholly seen in a hall: beyond the screen, or cut by what is around it.
  window.beyond = (root) => {
    const screen = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    const found = [];
    for (const node of root.querySelectorAll("*")) {
      if (!shown(node) || node.closest("defs, option")) continue;
      const svg = node.ownerSVGElement;
      if (svg && svg.style.overflow === "hidden" && node.tagName !== "text") continue; // a part of a picture
      if (outside(node.getBoundingClientRect(), screen)) found.push(`beyond the screen: ${say(node)}`);
      if (node.classList.contains("scrolls")) found.push(`scrolls: ${say(node)}`);
      const cut = node.scrollWidth > node.clientWidth + 2 && getComputedStyle(node).overflowX !== "visible";
      if (cut && node.tagName === "DIV") found.push(`cut: ${say(node)}`);
    }
    return found;
  };

  // The letters of a text in a picture, without the room that its font leaves around them.
  const canvas = document.createElement("canvas").getContext("2d");
  const letters = once((text) => {
    const { fontStyle, fontWeight, fontSize, fontFamily } = getComputedStyle(text);
    canvas.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
    const ink = canvas.measureText(text.textContent);
    const place = new DOMPoint(0, text.y.baseVal[0].value);
    const scale = text.getScreenCTM();
    const [top, bottom] = [-ink.actualBoundingBoxAscent, ink.actualBoundingBoxDescent]
      .map((by) => new DOMPoint(0, place.y + by).matrixTransform(scale).y);
    const { left, right } = text.getBoundingClientRect();
    return { left, right, top, bottom };
  });

  // Names that lie on the edge of a box: their letters are neither all inside nor all outside.
  window.onEdges = (root) => {
    const boxes = [...root.querySelectorAll(".hall-stage rect")].filter((node) => {
      const { fill, stroke } = getComputedStyle(node);
      return shown(node) && (fill !== "none" || stroke !== "none");
    }).map((node) => ({ node, ...node.getBoundingClientRect().toJSON() }));
    return [...root.querySelectorAll(".hall-stage text")].filter((text) => shown(text) && text.textContent.trim()).flatMap((text) => {
      const word = letters(text);
      const on = boxes.filter((b) => word.left < b.right - 1 && b.left + 1 < word.right && word.top < b.bottom - 1 && b.top + 1 < word.bottom)
        .filter((b) => word.left < b.left - 1 || b.right + 1 < word.right || word.top < b.top - 0.5 || b.bottom + 0.5 < word.bottom);
      return on.map(({ node }) => `${say(text)} on ${say(node)}`);
    });
  };

  // Boxes whose words lie along one edge, not in the middle.
  window.offCentre = (root) => {
    const all = [...root.querySelectorAll(".hall-stage text")].filter(shown).map(letters);
    return [...root.querySelectorAll(".hall-stage rect.box")].filter(shown).flatMap((node) => {
      const box = node.getBoundingClientRect();
      const words = all.filter((w) => box.left <= w.left && w.right <= box.right
        && box.top <= (w.top + w.bottom) / 2 && (w.top + w.bottom) / 2 <= box.bottom);
      const above = Math.min(...words.map((w) => w.top)) - box.top;
      const below = box.bottom - Math.max(...words.map((w) => w.bottom));
      return words.length && Math.abs(above - below) > 8 ? [`${say(node)}: ${above.toFixed(1)} above, ${below.toFixed(1)} below`] : [];
    });
  };

  // Where a control is, or the words of a text: its element may be wider.
  function extent(node) {
    if (["BUTTON", "SELECT"].includes(node.tagName)) return node.getBoundingClientRect().toJSON();
    const range = document.createRange();
    range.selectNodeContents(node);
    return range.getBoundingClientRect().toJSON();
  }

  // Texts and controls that stand on each other.
  window.collide = (root) => {
    const places = [...root.querySelectorAll("h3, p, li, button, select, dt, dd, th, td, .dl-slider > span, output, .hall-stage text")]
      .filter((node) => shown(node) && node.textContent.trim())
      .map((node) => ({ node, ...(node.ownerSVGElement ? letters(node) : extent(node)) }));
    return places.flatMap((a, k) => places.slice(k + 1)
      .filter((b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1 && !a.node.contains(b.node))
      .map((b) => `${say(a.node)} and ${say(b.node)}`));
  };

  // Selects that are narrower than the longest of their words.
  window.clipped = (root) => [...root.querySelectorAll("select")].filter(shown).filter((node) => {
    const whole = node.cloneNode(true);
    Object.assign(whole.style, { position: "absolute", width: "max-content", visibility: "hidden" });
    node.parentElement.append(whole);
    const wants = whole.offsetWidth;
    whole.remove();
    return wants > node.offsetWidth + 1;
  }).map(say);

  // What a phone cuts: beyond its width, and not in a place that scrolls there.
  window.cutOnPhone = () => {
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push(`page: ${document.documentElement.scrollWidth}`);
    for (const node of document.querySelectorAll("main *")) {
      if (!shown(node) || node.closest("defs, option")) continue;
      const place = node.parentElement.closest(".scrolls");
      if (place) {
        const box = node.getBoundingClientRect();
        const end = place.getBoundingClientRect().left + place.scrollWidth - place.scrollLeft;
        if (box.right > end + 1.5) found.push(`not reached by scrolling: ${say(node)}`);
      } else if (outside(node.getBoundingClientRect(), { left: 0, top: -1e9, right: innerWidth, bottom: 1e9 })) {
        found.push(`beyond the phone: ${say(node)}`);
      }
      if (node.classList.contains("scrolls") && node.tabIndex !== 0) found.push(`no key reaches: ${say(node)}`);
    }
    return found;
  };

  // What is smallest, and what each rule finds that finds anything.
  window.look = (root, rules) => {
    answers = new Map();
    const found = rules.map((rule) => [rule, window[rule](root)]).filter(([, what]) => what.length);
    const small = smallest(root);
    answers = null;
    return [small, Object.fromEntries(found)];
  };
})();
