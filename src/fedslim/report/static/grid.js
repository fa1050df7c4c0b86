// A table that sorts by any column and holds only one page of its rows in the document.
// columns: [{title, value(row), show(row), number, main, wide, whole, up}]; `up`: the first click sorts upwards. On a
// phone each row is a card: `main` is its heading, and `whole` takes the full width. `data(row)` is what is exported to
// the `file`, if not the value; a column with nothing else is in the file only. Rows with the same `group(row)` are folded
// under the first of them.
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
  file = null,
  group = null,
}) {
  if (matchMedia("(max-width: 40rem)").matches) page = narrow;
  const state = { rows, sort, down: sort !== null && !columns[sort].up, first: 0, units: [], group, open: new Set() };
  const body = make("tbody", { role: "rowgroup" });
  const drawn = columns.filter((column) => column.show || column.value);
  const heads = drawn.map((column, k) => {
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
  const exported = columns.filter((column) => column.data || column.value);
  const plain = () => state.rows.map((row) => exported.map((column) => (column.data ?? column.value)(row)));
  const lines = (cell, between) =>
    [exported.map((column) => column.title), ...plain()].map((line) => line.map(cell).join(between)).join("\n");
  const objects = () =>
    plain().map((line) => Object.fromEntries(line.map((value, k) => [exported[k].title, value ?? null])));
  const button = (title, what) => make("button", { type: "button", class: "plain small", onclick: what }, title);
  const copied = button("Copy", () =>
    copy(lines((value) => spreadsheet(value).replace(/\s+/g, " "), "\t")).then(() => {
      copied.textContent = "Copied";
    }),
  );
  const exports = make(
    "span",
    { class: "exports", role: "group", "aria-label": `Export all ${called}s that match` },
    copied,
    button("CSV", () => download(`${file}.csv`, "text/csv", `\ufeff${lines(quoted, ",")}\n`)),
    button("JSON", () => download(`${file}.json`, "application/json", JSON.stringify(objects(), null, 1))),
  );
  const pager = make("div", { class: "pager" }, showing, back, next, file && exports);
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
    if (first < 0 || first >= state.units.length) return;
    state.first = first;
    paint();
  }
  function paint() {
    heads.forEach((head, k) => {
      if (head.hasAttribute("aria-sort"))
        head.setAttribute("aria-sort", k !== state.sort ? "none" : state.down ? "descending" : "ascending");
    });
    state.units = units();
    copied.textContent = "Copy";
    const shown = state.units.slice(state.first, state.first + page);
    body.replaceChildren(...shown.flatMap(unit));
    const n = state.units.length;
    const all = shown.length === n;
    const what =
      n === state.rows.length ? plural(n, called) : `${plural(n, "group")}, ${plural(state.rows.length, called)}`;
    showing.textContent = !n
      ? `No ${called} matches.`
      : all
        ? what
        : `${whole(state.first + 1)}–${whole(state.first + shown.length)} of ${what}`;
    pager.hidden = all && n > 0 && !file && (still || (current !== null && !long));
    back.hidden = next.hidden = all;
    // Not `disabled`, which would take the focus from the button just pressed.
    back.setAttribute("aria-disabled", String(state.first === 0));
    next.setAttribute("aria-disabled", String(state.first + page >= n));
  }
  function units() {
    if (!state.group) return state.rows.map((row) => [row]);
    const found = new Map();
    for (const row of state.rows) {
      const key = state.group(row);
      if (found.has(key)) found.get(key).push(row);
      else found.set(key, [row]);
    }
    return [...found.values()];
  }
  function unit(members) {
    const [first, ...rest] = members;
    if (!rest.length) return [line(first)];
    const key = state.group(first);
    const open = state.open.has(key);
    const toggle = make(
      "button",
      {
        type: "button",
        class: "fold inline",
        "aria-expanded": String(open),
        onclick: () => {
          if (!state.open.delete(key)) state.open.add(key);
          paint();
          for (const each of body.querySelectorAll(".fold.inline")) if (each.dataset.key === String(key)) each.focus();
        },
        "data-key": key,
      },
      `${plural(rest.length, "variation")}`,
    );
    const head = line(first);
    head.querySelector(".main").append(toggle);
    return [head, ...(open ? rest : []).map((row) => line(row, "variation"))];
  }
  function line(row, cls) {
    const cells = drawn.map((column) => {
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
    return make("tr", { role: "row", class: cls, "aria-current": current && current(row) ? "true" : null }, cells);
  }
  order();
  paint();
  return {
    node,
    update(rows, group = state.group) {
      state.rows = rows;
      state.group = group;
      state.first = 0;
      order();
      paint();
    },
    repaint: paint,
  };
}

// Search over itemsets: every word must occur in one of the labels; text in quotes must be a label.
function searcher(labels) {
  const lowered = labels.map((label) => label.toLocaleLowerCase());
  return (text) => {
    const words = [...text.toLocaleLowerCase().matchAll(/"([^"]+)"|[^\s"]+/g)];
    const has = (label, [word, whole]) => (whole ? label === whole : label.includes(word));
    const hits = lowered.map((label) => words.some((word) => has(label, word)));
    const fits = (items) => words.every((word) => items.some((item) => has(lowered[item], word)));
    return { fits, hit: (item) => hits[item] };
  };
}

function chips(run, items, hit, badge) {
  const one = (item) => {
    const cls = [hit && hit(item) && "hit", run.unnamed.has(item) && "unnamed"].filter(Boolean).join(" ");
    return make("li", { class: cls || null }, naming(run, item));
  };
  const list = make("ul", { class: "chips" }, items.map(one));
  if (badge) list.append(make("li", { class: "badge yes" }, badge));
  return list;
}

// An item that this party has no label for: its number, or its id.
const naming = (run, item) =>
  run.unnamed.has(item) ? run.labels[item].replace(/^item /, "№ ") : run.labels[item] || "∅";

// Counts at each member as coloured cells, with names and numbers if there is room, otherwise the highest below them.
function cells(counts, names, digits) {
  const many = counts.length > 12;
  const most = largest(counts, 1);
  const description = counts.map((n, k) => `${names[k]} ${n}`).join(", ");
  const node = make("div", { class: many ? "cells thin" : "cells", role: "img", "aria-label": description });
  set(set(node, "--members", counts.length), "--digits", digits);
  counts.forEach((n, k) =>
    node.append(
      set(
        make(
          "span",
          { title: `${names[k]}: ${n}` },
          ...(many ? [] : [make("strong", {}, whole(n)), make("i", {}, names[k])]),
        ),
        "--share",
        (n / most).toFixed(3),
      ),
    ),
  );
  if (!many) return node;
  const top = counts.map((n, k) => [n, names[k]]).sort((a, b) => b[0] - a[0]);
  const text = top.slice(0, 3).map(([n, name]) => `${name} ${whole(n)}`);
  return make("div", {}, node, make("small", {}, `${text.join(", ")}, …`));
}

function bar(share, cls) {
  const node = make("div", { class: `bar ${cls || ""}` });
  node.style.width = `${(100 * share).toFixed(2)}%`;
  return node;
}
