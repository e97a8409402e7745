// What a widget owes to everybody, as a list of what it does not keep: { rule, what }.
//
// After WCAG 2.2: names and roles (4.1.2), contrast of text (1.4.3) and of controls (1.4.11), order
// of focus (2.4.3), targets (2.5.8). `audit(root)` looks; what takes keys is asked by the tests.

(() => {
  const ROLES = new Set(["button", "tab", "slider", "checkbox", "link", "combobox", "group", "tabpanel", "region"]);
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";

  const words = (text) => (text || "").replace(/\s+/g, " ").trim();
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
  const say = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""} `
    + `"${words(node.getAttribute("aria-label") || node.textContent).slice(0, 40)}"`;

  const rgba = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (front, back) => {
    const [r, g, b, a] = rgba(front);
    return `rgb(${[r, g, b].map((v, k) => v * a + rgba(back)[k] * (1 - a)).join(", ")})`;
  };
  const luminance = (colour) => {
    const [r, g, b] = rgba(colour).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };

  // What is asked of each node and all around it is answered once while one look lasts.
  let answers = null;
  const once = (ask) => (node) => {
    if (!answers || !node) return ask(node);
    if (!answers.has(ask)) answers.set(ask, new Map());
    const known = answers.get(ask);
    if (!known.has(node)) known.set(node, ask(node));
    return known.get(node);
  };

  // The colour behind an element of HTML: the nearest ground that hides what is behind it.
  const ground = once((node) => {
    if (!node) return "rgb(255, 255, 255)";
    const colour = getComputedStyle(node).backgroundColor;
    return rgba(colour)[3] > 0.99 ? colour : ground(node.parentElement);
  });

  const opaque = once((node) => node ? Number(getComputedStyle(node).opacity) * opaque(node.parentElement) : 1);

  // The colour behind a text in a picture: the last shape drawn before it that lies under its middle.
  function under(text) {
    const svg = text.ownerSVGElement;
    const place = text.getBoundingClientRect();
    const [x, y] = [place.x + place.width / 2, place.y + place.height / 2];
    const below = [...svg.querySelectorAll("rect, circle, polygon")].filter((shape) => {
      const style = getComputedStyle(shape);
      if (style.fill === "none" || rgba(style.fill)[3] < 0.99 || opaque(shape) < 0.99) return false;
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) return false;
      const box = shape.getBoundingClientRect();
      return box.x <= x && x <= box.right && box.y <= y && y <= box.bottom;
    }).pop();
    return below ? getComputedStyle(below).fill : ground(svg);
  }

  function nameOf(node) {
    const by = node.getAttribute("aria-labelledby");
    if (by) return words(by.split(/\s+/).map((id) => document.getElementById(id)?.textContent).join(" "));
    const label = words(node.getAttribute("aria-label"));
    if (label) return label;
    const labels = words([...(node.labels || [])].map((l) => l.textContent).join(" "));
    if (labels) return labels;
    const own = /^(A|BUTTON|SUMMARY)$/.test(node.tagName) || /^(tab|button|link)$/.test(node.getAttribute("role") || "");
    return (own && words(node.textContent)) || words(node.getAttribute("title"));
  }

  function* controls(root) {
    for (const node of root.querySelectorAll(CONTROLS)) {
      if (!shown(node) || node.disabled) continue;
      const role = node.getAttribute("role");
      const native = /^(A|BUTTON|INPUT|SELECT|TEXTAREA|SUMMARY)$/.test(node.tagName);
      if (!native && node.tabIndex >= 0 && !ROLES.has(role)) yield ["role of a control", say(node)];
      if (!nameOf(node)) yield ["name of a control", say(node)];
      if (node.tabIndex > 0) yield ["order of its own", say(node)];
      if (node.type === "range" && !words(node.getAttribute("aria-valuetext"))) yield ["value in words", say(node)];
      const place = node.getBoundingClientRect();
      if (/^(BUTTON|SELECT)$/.test(node.tagName)) {
        if (Math.min(place.width, place.height) < 24) yield ["size of a target", say(node)];
        const style = getComputedStyle(node);
        const edge = Math.max(contrast(style.borderTopColor, ground(node.parentElement)),
          contrast(over(style.backgroundColor, ground(node.parentElement)), ground(node.parentElement)));
        if (edge < 3) yield ["contrast of a control", `${say(node)} ${edge.toFixed(2)}`];
      }
    }
  }

  function* structure(root) {
    const landmark = root.tagName === "SECTION"; // a named section is a region
    if (!(landmark || root.getAttribute("role")) || !nameOf(root)) yield ["name of the whole", say(root)];
    for (const svg of root.querySelectorAll("svg")) {
      if (svg.getAttribute("aria-hidden") === "true" || !shown(svg)) continue;
      if (svg.getAttribute("role") !== "img" || !nameOf(svg)) yield ["name of a picture", say(svg)];
    }
    for (const node of root.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]")) {
      for (const name of ["aria-controls", "aria-labelledby", "aria-describedby"]) {
        const lost = (node.getAttribute(name) || "").split(/\s+/).filter((id) => id && !document.getElementById(id));
        if (lost.length) yield ["a reference to nothing", `${say(node)} ${name} ${lost}`];
      }
    }
    const ids = [...root.querySelectorAll("[id]")].map((node) => node.id);
    for (const id of ids) if (document.querySelectorAll(`[id="${CSS.escape(id)}"]`).length > 1) yield ["an id twice", id];
    for (const tab of root.querySelectorAll("[role=tab]")) {
      if (!tab.closest("[role=tablist]") || !tab.hasAttribute("aria-selected")) yield ["a tab alone", say(tab)];
    }
    for (const table of root.querySelectorAll("table")) {
      if (!nameOf(table) && !table.caption) yield ["name of a table", say(table)];
      if ([...table.querySelectorAll("th")].some((head) => !head.scope)) yield ["scope of a heading", say(table)];
    }
    const said = root.querySelector("[role=status], [aria-live]");
    if (!said || !(landmark || words(said.textContent))) yield ["what it says now", say(root)];
  }

  function* texts(root) {
    for (const text of root.querySelectorAll("svg text")) {
      if (!words(text.textContent) || !shown(text)) continue;
      const style = getComputedStyle(text);
      const back = under(text);
      const faint = contrast(over(style.fill, back), back);
      if (faint < 4.5 || opaque(text) < 0.99) yield ["contrast of a text", `${say(text)} ${faint.toFixed(2)}`];
    }
    for (const node of root.querySelectorAll("*")) {
      if (node.ownerSVGElement || node.tagName === "STYLE" || !shown(node)) continue;
      if (![...node.childNodes].some((child) => child.nodeType === 3 && words(child.data))) continue;
      const back = ground(node);
      const faint = contrast(over(getComputedStyle(node).color, back), back);
      if (faint < 4.5 || opaque(node) < 0.99) yield ["contrast of a text", `${say(node)} ${faint.toFixed(2)}`];
    }
  }

  // The rules of the page around a widget may pull its texts together.
  function* apart(root) {
    const own = (node) => [...node.childNodes].filter((child) => child.nodeType === 3 && words(child.data));
    const places = [...root.querySelectorAll("h3, p, dt, dd, th, td, li, button, label, output")]
      .filter((node) => shown(node)).flatMap((node) => own(node).map((text) => {
        const range = document.createRange();
        range.selectNodeContents(text);
        return [...range.getClientRects()].map((box) => ({ node, text, box })); // one a line
      }).flat());
    places.sort((a, b) => a.box.top - b.box.top);
    for (const [k, a] of places.entries()) {
      for (let next = k + 1; next < places.length && places[next].box.top < a.box.bottom; next++) {
        const b = places[next];
        if (a.text === b.text) continue;
        const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (wide > 3 && high > 5) yield ["texts over each other", `${say(a.node)} and ${say(b.node)}`];
      }
    }
  }

  // How strong a line is drawn: its contrast, times its width.
  window.strength = (line) => {
    const { stroke, strokeWidth } = getComputedStyle(line);
    return contrast(stroke, ground(line.ownerSVGElement)) * parseFloat(strokeWidth);
  };

  window.audit = (root) => {
    answers = new Map();
    const found = [...controls(root), ...structure(root), ...texts(root), ...apart(root)];
    answers = null;
    return found.map(([rule, what]) => ({ rule, what }));
  };

  // What Tab should reach, in the order in which it stands in the page; of radios and tabs, one.
  window.reachable = (root) => [...root.querySelectorAll(CONTROLS)]
    .filter((node) => shown(node) && !node.disabled && node.tabIndex >= 0);

  // How the element with the focus shows it: the contrast of its outline, 0 where there is none.
  window.outlined = () => {
    const node = document.activeElement;
    const style = getComputedStyle(node);
    const wide = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return wide ? contrast(style.outlineColor, ground(node.parentElement)) : 0;
  };
})();
