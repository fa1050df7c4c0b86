// Line and scatter charts as SVG: the few features of a chart library that a report needs.
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 5", "4 2"];
const LONGEST = 18; // characters of a name at the end of a curve; the legend has longer ones

function mark(kind, x, y, r, cls) {
  const shapes = [
    () => draw("circle", { cx: x, cy: y, r }),
    () => draw("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r }),
    () => draw("path", { d: `M${x},${y - r * 1.2}L${x + r * 1.15},${y + r * 0.9}L${x - r * 1.15},${y + r * 0.9}Z` }),
    () => draw("path", { d: `M${x},${y - r * 1.3}L${x + r * 1.3},${y}L${x},${y + r * 1.3}L${x - r * 1.3},${y}Z` }),
  ];
  const shape = shapes[kind % shapes.length]();
  shape.setAttribute("class", `mark ${cls}`);
  return shape;
}

function ticks(low, high, about) {
  const raw = (high - low || 1) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step || 0); // never a negative zero
  return found;
}

function logTicks(low, high, about) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    found.push(10 ** power);
  const inside = found.filter((v) => v >= low * 0.999 && v <= high * 1.001);
  const every = Math.ceil(inside.length / about);
  if (inside.length > 1) return inside.filter((_, k) => k % every === 0);
  return [1, 2, 5]
    .flatMap((m) => found.map((v) => m * v))
    .filter((v) => v >= low && v <= high)
    .sort((a, b) => a - b);
}

function scale(low, high, from, to, log) {
  const f = log ? Math.log10 : (v) => v;
  const [a, b] = [f(low), f(high)];
  const place = (v) => from + ((f(v) - a) / (b - a || 1)) * (to - from);
  place.back = (p) => {
    const v = a + ((p - from) / (to - from)) * (b - a);
    return log ? 10 ** v : v;
  };
  return place;
}

// The last step at or before x (curves are step functions); -1 before the first.
function stepAt(xs, x) {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// series: [{name, xs, ys, itemsets, colour, dash, mark, chosen, faint, kind}]; with too many series to name, all but
// the chosen one are faint and the legend lists kinds.
function lineChart(title, about, series, { log = false, fine = log, format, tick = format, unit }) {
  const svg = draw("svg", { role: "img", tabindex: 0 });
  const readout = make("output", { class: "readout" }, "Move the pointer over the chart, or use the arrow keys.");
  const legend = make("ul", { class: "legend" });
  const figure = make(
    "figure",
    { class: "chart" },
    make("figcaption", {}, make("strong", {}, title), about),
    legend,
    svg,
    readout,
  );
  const usable = series.filter((s) => s.xs.length > 0);
  const named = usable.filter((s) => !s.faint);
  const ends = named.map((s) => `${s.name} ends at ${precise(s.ys.at(-1))} % after ${format(s.xs.at(-1))}`);
  svg.setAttribute("aria-label", `${title}. ${ends.join("; ")}.`);
  if (!usable.length) {
    svg.remove();
    readout.textContent = "This run has no history.";
    return figure;
  }
  const kinds = new Map(usable.map((s) => [s.kind ?? s.name, s]));
  for (const [name, s] of [...kinds].sort((a, b) => a[1].mark - b[1].mark)) {
    const sample = draw("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
    sample.append(
      draw("line", {
        x1: 1,
        x2: 33,
        y1: 6,
        y2: 6,
        "stroke-width": 2.2,
        "stroke-dasharray": DASHES[s.dash],
        class: s.colour,
      }),
      mark(s.mark, 17, 6, 4, s.colour),
    );
    legend.append(make("li", {}, sample, name));
  }

  const xs = usable.flatMap((s) => s.xs).filter((x) => x > 0 || !log);
  const [xLow, xHigh] = [log ? Math.max(1, smallest(xs, largest(xs, 1))) : 0, largest(xs, fine && !log ? 0.001 : 1)];
  const ys = usable.flatMap((s) => s.ys);
  const top = largest(ys, 100);
  const lowest = smallest(ys, top);
  const bottom = Math.max(0, lowest - (top - lowest) * 0.06);
  let position = null;

  function paint(width) {
    const narrow = width < 460;
    const longest = largest(named.map((s) => s.name.length));
    legend.hidden = !narrow && named.length === usable.length && longest <= LONGEST;
    const right = narrow ? 14 : 76 + Math.min(longest, LONGEST) * 7.4;
    const box = { left: 48, right: width - right, top: 12, bottom: 236 };
    const x = scale(xLow, xHigh, box.left, box.right, log);
    const y = scale(bottom, top, box.bottom, box.top, false);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} 278`);
    for (const v of ticks(bottom, top, 5)) {
      svg.append(
        draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) }),
        draw("text", { x: box.left - 8, y: y(v) + 4, "text-anchor": "end" }, `${whole(v)} %`),
      );
    }
    svg.append(draw("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    const room = Math.max(2, Math.floor((box.right - box.left) / 75));
    for (const v of log ? logTicks(xLow, xHigh, room) : ticks(xLow, xHigh, room)) {
      svg.append(
        draw("line", { class: "axis", x1: x(v), x2: x(v), y1: box.bottom, y2: box.bottom + 5 }),
        draw("text", { x: x(v), y: box.bottom + 19, "text-anchor": "middle" }, tick(v)),
      );
    }
    svg.append(draw("text", { x: box.right, y: box.bottom + 36, "text-anchor": "end" }, unit));
    for (const s of usable) {
      let d = "";
      s.xs.forEach((v, k) => {
        const px = x(Math.max(v, xLow)).toFixed(1);
        d += k ? `H${px}V${y(s.ys[k]).toFixed(1)}` : `M${px},${y(s.ys[k]).toFixed(1)}`;
      });
      svg.append(
        draw("path", {
          class: `curve ${s.colour}${s.chosen ? " chosen" : ""}${s.faint ? " faint" : ""}`,
          d,
          "stroke-dasharray": DASHES[s.dash],
          "data-points": s.xs.length,
        }),
      );
    }
    for (const s of named) svg.append(mark(s.mark, x(Math.max(s.xs.at(-1), xLow)), y(s.ys.at(-1)), 4.5, s.colour));
    if (!narrow && named.length) label(box, y);
    const guide = draw("g", { class: "position" });
    svg.append(guide);
    const point = () => {
      guide.replaceChildren();
      if (position === null) return;
      guide.append(draw("line", { class: "guide", x1: x(position), x2: x(position), y1: box.top, y2: box.bottom }));
      const values = [];
      for (const s of named) {
        const k = stepAt(s.xs, position);
        if (k < 0) continue;
        guide.append(mark(s.mark, x(position), y(s.ys[k]), 4, s.colour));
        values.push(`${s.name} ${precise(s.ys[k])} % with ${plural(s.itemsets[k], "itemset")}`);
      }
      readout.textContent = `${format(fine ? position : Math.round(position))}${fine ? "" : ` ${unit}`}: ${values.join("; ") || "not started"}`;
    };
    svg.onpointermove = (event) => {
      const at = (event.clientX - svg.getBoundingClientRect().left) * (width / svg.getBoundingClientRect().width);
      position = x.back(Math.min(box.right, Math.max(box.left, at)));
      point();
    };
    svg.onkeydown = (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -1000, End: 1000 }[event.key];
      if (!move) return;
      event.preventDefault();
      const now = position === null ? box.left : x(position);
      position = x.back(Math.min(box.right, Math.max(box.left, now + (move * (box.right - box.left)) / 40)));
      point();
    };
    point();
  }

  // Label the ends of the curves; move labels apart that would overlap.
  function label(box, y) {
    const rows = named.map((s) => ({ s, at: y(s.ys.at(-1)) })).sort((a, b) => a.at - b.at);
    rows.forEach((row, k) => {
      if (k) row.at = Math.max(row.at, rows[k - 1].at + 17);
    });
    const over = rows.at(-1).at - (box.bottom - 4);
    if (over > 0) {
      rows.at(-1).at -= over;
      for (let k = rows.length - 2; k >= 0; k -= 1) rows[k].at = Math.min(rows[k].at, rows[k + 1].at - 17);
    }
    for (const { s, at } of rows) {
      if (rows.length > 1) svg.append(mark(s.mark, box.right + 16, at, 4.5, s.colour));
      svg.append(
        draw(
          "text",
          { class: "direct", x: box.right + (rows.length > 1 ? 27 : 12), y: at + 4 },
          `${s.name.length > LONGEST ? `${s.name.slice(0, LONGEST - 1)}…` : s.name} `,
          draw("tspan", {}, precise(s.ys.at(-1))),
        ),
      );
    }
  }

  paint(520);
  let painted = 520;
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width > 0 && Math.abs(width - painted) > 1) {
      painted = width;
      paint(width);
    }
  }).observe(figure);
  return figure;
}

// Usage in this table against usage in the reference; equal on the diagonal.
function dotChart(title, about, points) {
  const side = 300;
  const [low, high] = [Math.max(1, smallest(points.flat())), largest(points.flat(), 2)];
  const x = scale(low, high, 46, side - 8, true);
  const y = scale(low, high, side - 40, 8, true);
  const svg = draw("svg", {
    viewBox: `0 0 ${side} ${side}`,
    role: "img",
    "aria-label": `${title}: ${plural(points.length, "itemset")}`,
  });
  for (const v of logTicks(low, high, 5)) {
    svg.append(
      draw("line", { class: "grid", x1: x(v), x2: x(v), y1: 8, y2: side - 40 }),
      draw("line", { class: "grid", x1: 46, x2: side - 8, y1: y(v), y2: y(v) }),
      draw("text", { x: x(v), y: side - 24, "text-anchor": "middle" }, whole(v)),
      draw("text", { x: 40, y: y(v) + 4, "text-anchor": "end" }, whole(v)),
    );
  }
  svg.append(
    draw("line", { class: "diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }),
    draw("text", { x: side - 8, y: side - 6, "text-anchor": "end" }, "reference usage →"),
    draw("text", { x: 50, y: 18 }, "↑ usage"),
  );
  for (const [there, here] of points)
    svg.append(
      draw("circle", {
        class: "dot",
        cx: x(Math.max(there, low)).toFixed(1),
        cy: y(Math.max(here, low)).toFixed(1),
        r: 3,
      }),
    );
  return make("figure", { class: "dots" }, make("figcaption", {}, make("strong", {}, title), about), svg);
}
