// The sections on items and rows: which items occur together, all items, and rows with their covers.
const FEW_ITEMS = 18;

// The items that save most, in an order in which items that occur together are close to each other.
function closest(weights, links, most) {
  const top = [...weights].sort((a, b) => b[1] - a[1]).slice(0, most);
  const rest = new Set(top.map(([item]) => item));
  const order = [];
  while (rest.size) {
    const near = (item) => order.slice(-3).reduce((sum, other) => sum + (links.get(pairKey(item, other)) ?? 0), 0);
    const next = [...rest].sort((a, b) => near(b) - near(a) || weights.get(b) - weights.get(a))[0];
    order.push(next);
    rest.delete(next);
  }
  return order;
}
const pairKey = (a, b) => (a < b ? `${a} ${b}` : `${b} ${a}`);

function pairs(run) {
  const { table } = run;
  if (table.items.length < 2) return null;
  const [weights, links] = [new Map(), new Map()];
  table.items.forEach((items, k) =>
    items.forEach((a, at) => {
      weights.set(a, (weights.get(a) ?? 0) + Math.max(0, table.bits_saved[k]));
      for (const b of items.slice(at + 1)) links.set(pairKey(a, b), (links.get(pairKey(a, b)) ?? 0) + table.usage[k]);
    }),
  );
  const narrow = matchMedia("(max-width: 40rem)").matches;
  const items = closest(weights, links, narrow ? 12 : FEW_ITEMS);
  const room = narrow ? 20 : 32;
  const longest = largest(items.map((item) => naming(run, item).length));
  const [side, left] = [narrow ? 15 : 19, Math.min(room, longest) * 6.4 + 12];
  const most = largest([...links.values()], 1);
  const width = left + items.length * side;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${items.length * side}`, role: "img", class: "pairs" });
  set(svg, "max-width", `${width}px`);
  items.forEach((a, y) => {
    const name = naming(run, a);
    const text = name.length > room ? `${name.slice(0, room - 1)}…` : name;
    svg.append(draw("text", { x: left - 6, y: (y + 0.72) * side, "text-anchor": "end" }, text));
    items.forEach((b, x) => {
      if (x > y) return;
      const n = links.get(pairKey(a, b)) ?? 0;
      const cell = draw("rect", {
        x: left + x * side,
        y: y * side,
        width: side - 1,
        height: side - 1,
        class: x === y ? "self" : "pair",
      });
      if (x < y) set(cell, "--share", Math.sqrt(n / most).toFixed(3));
      const words =
        x === y
          ? name
          : `${name} and ${naming(run, b)}: ${n ? `together in ${whole(n)}` : "not together in an itemset"}`;
      cell.append(draw("title", {}, words));
      if (n) cell.addEventListener("click", () => seek(run, [a, b]));
      svg.append(cell);
    });
  });
  const strongest = [...links].sort((a, b) => b[1] - a[1]).slice(0, 6);
  const named = strongest.map(([key, n]) => [key.split(" ").map(Number), n]);
  svg.setAttribute(
    "aria-label",
    `Pairs of items by usage. ${named.map(([[a, b], n]) => `${naming(run, a)} and ${naming(run, b)} ${n}`).join("; ")}.`,
  );
  const picks = named.map(([pair, n]) =>
    make(
      "li",
      {},
      make(
        "button",
        { type: "button", class: "pick", onclick: () => seek(run, pair) },
        itemNames(run, pair).join(" + "),
      ),
      ` ${whole(n)}`,
    ),
  );
  return [
    note(
      "The items that save most. The stronger the colour of a square, the more often its two items are used together in itemsets. Choose a square or a pair to see the itemsets.",
    ),
    make(
      "div",
      { class: "beside wide" },
      svg,
      make("div", {}, make("h3", {}, "Most often together"), make("ul", { class: "list" }, picks)),
    ),
  ];
}

// Show the itemsets with these items in the code table.
function seek(run, items) {
  const exact = (label) => (label.includes('"') ? label.replaceAll('"', " ") : `"${label}"`);
  refilter("all", items.map((item) => exact(run.labels[item])).join(" "));
  document.getElementById("table").scrollIntoView();
}

function items(run) {
  const within = new Map();
  for (const each of run.table.items) for (const item of each) within.set(item, (within.get(item) ?? 0) + 1);
  const rows = run.item_support.map((support, item) => ({
    items: [item],
    support,
    usage: run.item_usage[item],
    within: within.get(item) ?? 0,
  }));
  const search = searcher(run.labels);
  const columns = [
    itemsColumn(run, {
      title: "item",
      value: (row) => naming(run, row.items[0]),
      data: null,
      show: (row) => chips(run, row.items),
      up: true,
    }),
    counted("support", (row) => row.support),
    {
      title: "share",
      number: true,
      value: (row) => row.support / Math.max(1, run.transactions),
      show: (row) => `${fixed((100 * row.support) / Math.max(1, run.transactions), 1)} %`,
    },
    counted("itemsets with it", (row) => row.within),
    counted("left over", (row) => row.usage),
  ];
  const shown = grid({ columns, rows, sort: 1, page: 10, narrow: 5, called: "item", file: "items" });
  const text = make("input", {
    type: "search",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => shown.update(rows.filter((row) => search(text.value).fits(row.items))),
  });
  const unnamed = run.unnamed.size
    ? run.kind === "server"
      ? " This server has no names for them; № is the number of an item in the vocabulary that the members agreed on. The members' own reports have the names."
      : ` ${whole(run.unnamed.size)} of them are shown by their ids: this member has no transaction with them, and so no name for them. To get the names, let all members set share_labels = "members" under [items] of the federation file: they then tell each other the names of published items, which the server cannot read. Or make this report with fedslim report --labels FILE --secret FILE, with a file of labels.`
    : "";
  return [
    note(
      `${plural(rows.length, "item")}. Left over: how often an item occurs outside all itemsets of a cover.${unnamed}`,
    ),
    make("div", { class: "tools" }, make("label", { class: "grow" }, "Search items", text)),
    shown.node,
  ];
}

function unusual(run) {
  const { rows: data } = run;
  if (!data) return null;
  const rows = data.number.map((number, k) => ({
    number,
    k,
    bits: data.bits[k],
    beyond: data.beyond[k],
    items: data.cover[k].flatMap(([items]) => items),
  }));
  const search = searcher(run.labels);
  let found = search("");
  const names = (items) => `{${itemNames(run, items).join(", ")}}`;
  const part = (list, bits) =>
    make("div", { class: "part" }, list, make("small", {}, `${fixed(bits, 1)} bits`));
  const parts = (title, all) =>
    all.length ? make("div", { class: "parts" }, make("small", { class: "kind" }, title), all) : null;
  const covered = (k, single) =>
    data.cover[k]
      .filter(([items]) => (items.length === 1) === single)
      .map(([items, bits]) => part(chips(run, items, found.hit), bits));
  const unknown = (k) =>
    data.unknown[k].map(([label, bits]) => part(make("ul", { class: "chips" }, make("li", {}, label)), bits));
  const missed = ([items, item, instead, bits]) =>
    `${names(items)} but for ${naming(run, item)}${instead === null ? "" : ` in place of ${naming(run, instead)}`}: ${fixed(bits, 1)} bits fewer`;
  const rare = ([first, second, rows, bits]) =>
    `${names(first)} and ${names(second)}, together in ${plural(rows, "row")}: ${fixed(bits, 1)} bits of surprise`;
  const reasons = (title, texts) =>
    texts.length
      ? make(
          "div",
          { class: "reasons" },
          make("small", { class: "kind" }, title),
          make(
            "ul",
            { class: "list" },
            texts.map((text) => make("li", {}, text)),
          ),
        )
      : null;
  const columns = [
    counted("row", (row) => row.number, { up: true }),
    {
      title: "cover",
      main: true,
      cls: "broad",
      data: ({ k }) => data.cover[k].map(([items]) => itemNames(run, items).join(" + ")),
      show: ({ k }) =>
        make(
          "div",
          {},
          parts("itemsets", covered(k, false)),
          parts("spelled item by item", covered(k, true)),
          parts("unknown", unknown(k)),
          reasons("missed by one item", data.missed[k].map(missed)),
          reasons("each common, rarely together", data.unlikely[k].map(rare)),
        ),
    },
    { title: "unexpected bits", number: true, value: (row) => row.beyond, show: (row) => fixed(row.beyond, 1) },
    { title: "bits", number: true, value: (row) => row.bits, show: (row) => fixed(row.bits, 1) },
    { title: "missed by one item", data: ({ k }) => data.missed[k].map(missed) },
    { title: "rarely together", data: ({ k }) => data.unlikely[k].map(rare) },
  ];
  const shown = grid({ columns, rows, sort: 2, page: 10, narrow: 5, called: "row", file: "unusual-rows" });
  const number = make("input", { type: "number", min: 1, inputmode: "numeric", oninput: filter });
  const text = make("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: filter });
  function filter() {
    found = search(text.value);
    shown.update(
      rows.filter((row) => found.fits(row.items) && (number.value === "" || row.number === number.valueAsNumber)),
    );
  }
  const cut =
    rows.length < data.total ? ` Listed: the ${whole(rows.length)} most unusual of ${plural(data.total, "row")}.` : "";
  return [
    note(
      `A row is unusual if it takes more bits than its items and its length lead one to expect; unexpected bits say how many more, as in fedslim score. Its cover shows why: rare itemsets and items that are spelled one by one take many bits. Below it are the itemsets that one more item would complete, and the parts that rarely occur together. Rows are counted from 1.${cut}`,
    ),
    make(
      "div",
      { class: "tools" },
      make("label", { class: "grow" }, "Search items", text),
      make("label", {}, "Row", number),
    ),
    shown.node,
  ];
}
