// What a demo owes to the back row of a hall and to a phone, as lists of what it does not keep.

(() => {
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
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
})();
