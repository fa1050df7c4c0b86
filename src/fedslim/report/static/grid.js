// A table that sorts by any column and holds only one page of its rows in the document.
// columns: [{title, value(row), show(row), number, main, wide, whole, up}]; `up`: the first click sorts upwards. On a
// phone each row is a card: `main` is its heading, and `whole` takes the full width.
function grid({
  caption,
  columns,
  rows,
  sort = null,
  page = 25,
  narrow = page,
  called = "row",
  current = null,
  long = false,
  still = sort === null,
}) {
  if (matchMedia("(max-width: 40rem)").matches) page = narrow;
  const state = { rows, sort, down: sort !== null && !columns[sort].up, first: 0 };
  const body = make("tbody", { role: "rowgroup" });
  const heads = columns.map((column, k) => {
    const sorts = column.value && !still;
    const inside = sorts ? make("button", { type: "button", onclick: () => by(k) }, column.title) : column.title;
    const cls = [column.number && "number", !sorts && "unsorted"].filter(Boolean).join(" ");
    return make(
      "th",
      {
        scope: "col",
        role: "columnheader",
        class: cls,
        "aria-sort": sorts && "none",
        "data-title": sorts && column.title,
      },
      inside,
    );
  });
  const table = make("table", { class: "cards", role: "table" }, caption && make("caption", {}, caption));
  table.append(make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, heads)), body);
  const showing = make("span", { class: "showing", role: "status" });
  const back = make("button", { type: "button", class: "plain", onclick: () => turn(-1) }, "← Back");
  const next = make("button", { type: "button", class: "plain", onclick: () => turn(1) }, "Next →");
  const pager = make("div", { class: "pager" }, showing, back, next);
  const node = make("div", {}, make("div", { class: long ? "frame long" : "frame" }, table), pager);

  function by(k) {
    state.down = state.sort === k ? !state.down : !columns[k].up;
    state.sort = k;
    state.first = 0;
    order();
    paint();
  }
  function order() {
    if (state.sort === null) return;
    const { value } = columns[state.sort];
    const sign = state.down ? -1 : 1;
    const text = new Intl.Collator("en", { numeric: true });
    const compare = (a, b) => (typeof a === "string" ? text.compare(a, b) : a - b);
    // Unknown values come last in either direction.
    state.rows = [...state.rows].sort((a, b) => {
      const [p, q] = [value(a), value(b)];
      if (p === null || q === null) return (p === null) - (q === null);
      return sign * compare(p, q);
    });
  }
  function turn(by) {
    const first = state.first + by * page;
    if (first < 0 || first >= state.rows.length) return;
    state.first = first;
    paint();
  }
  function paint() {
    heads.forEach((head, k) => {
      if (head.hasAttribute("aria-sort"))
        head.setAttribute("aria-sort", k !== state.sort ? "none" : state.down ? "descending" : "ascending");
    });
    const shown = state.rows.slice(state.first, state.first + page);
    body.replaceChildren(...shown.map(line));
    const n = state.rows.length;
    const all = shown.length === n;
    showing.textContent = !n
      ? `No ${called} matches.`
      : all
        ? plural(n, called)
        : `${whole(state.first + 1)}–${whole(state.first + shown.length)} of ${plural(n, called)}`;
    pager.hidden = all && n > 0 && (still || (current !== null && !long));
    back.hidden = next.hidden = all;
    // Not `disabled`, which would take the focus from the button just pressed.
    back.setAttribute("aria-disabled", String(state.first === 0));
    next.setAttribute("aria-disabled", String(state.first + page >= n));
  }
  function line(row) {
    const cells = columns.map((column) => {
      const cls = [
        column.number && "number",
        column.main && "main",
        column.wide && "wide",
        column.whole && "whole",
        column.cls,
      ]
        .filter(Boolean)
        .join(" ");
      return make(
        "td",
        { role: "cell", class: cls, "data-label": column.label ?? column.title },
        column.show ? column.show(row) : String(column.value(row)),
      );
    });
    return make("tr", { role: "row", "aria-current": current && current(row) ? "true" : null }, cells);
  }
  order();
  paint();
  return {
    node,
    update(rows) {
      state.rows = rows;
      state.first = 0;
      order();
      paint();
    },
    repaint: paint,
  };
}

// Search over itemsets: every word must occur in one of the labels.
function searcher(labels) {
  const lowered = labels.map((label) => label.toLocaleLowerCase());
  return (text) => {
    const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const hits = lowered.map((label) => words.some((word) => label.includes(word)));
    const fits = (items) => words.every((word) => items.some((item) => lowered[item].includes(word)));
    return { fits, hit: (item) => hits[item] };
  };
}

function chips(labels, items, hit, badge) {
  const list = make(
    "ul",
    { class: "chips" },
    items.map((item) => make("li", { class: hit && hit(item) ? "hit" : null }, labels[item] || "∅")),
  );
  if (badge) list.append(make("li", { class: "badge yes" }, badge));
  return list;
}

// Counts at each member as coloured cells, with numbers if there is room.
function cells(counts, names, digits) {
  const many = counts.length > 12;
  const most = largest(counts, 1);
  const description = counts.map((n, k) => `${names[k]} ${n}`).join(", ");
  const node = make("div", { class: many ? "cells thin" : "cells", role: "img", "aria-label": description });
  set(set(node, "--members", counts.length), "--digits", digits);
  counts.forEach((n, k) =>
    node.append(
      set(make("span", { title: `${names[k]}: ${n}` }, many ? null : whole(n)), "--share", (n / most).toFixed(3)),
    ),
  );
  return node;
}

function bar(share, cls) {
  const node = make("div", { class: `bar ${cls || ""}` });
  node.style.width = `${(100 * share).toFixed(2)}%`;
  return node;
}
