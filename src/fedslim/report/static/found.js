// The sections on results: the overview of all runs, the itemsets that no member finds alone, the code table.

const itemNames = (run, items) => items.map((item) => naming(run, item));
const itemsColumn = (run, more) => ({
  title: "items",
  main: true,
  wide: true,
  value: (row) => row.items.length,
  data: (row) => itemNames(run, row.items),
  ...more,
});
const counted = (title, value, more) => ({ title, number: true, value, show: (row) => whole(value(row)), ...more });

function overview() {
  const failed = view.failed.length ? [make("h3", {}, "Failed"), failures()] : [];
  if (view.runs.length < 2) return failed.length ? failed : null;
  const rows = view.overview.map((row, number) => ({ ...row, number }));
  const pick = (row) =>
    make("button", { type: "button", class: "pick", onclick: () => choose(row.number, "runs") }, row.name);
  const first = {
    title: "run",
    main: true,
    value: (row) => row.name,
    show: (row) => make("div", {}, pick(row), " ", make("small", {}, view.runs[row.number].meaning)),
  };
  const columns = view.columns.map((title, k) => ({
    title,
    number: true,
    value: (row) => row.values[k],
    show: (row) => row.cells[k],
  }));
  const shown = grid({
    columns: [first, ...columns],
    rows,
    page: 1000,
    called: "run",
    current: (row) => row.number === chosen,
    long: rows.length > 24,
    still: rows.length < 5,
    file: "runs",
  });
  return [make("p", { class: "note pick-hint" }, "Choose a run to see it below."), shown.node, ...failed];
}

function failures() {
  const columns = [
    { title: "cell", main: true, value: (row) => row.name },
    { title: "reason", whole: true, value: (row) => row.value },
  ];
  return grid({ columns, rows: view.failed, page: 25, called: "failed cell" }).node;
}

function paper() {
  return view.figures.flatMap(([title, each], k) => {
    const columns = each.head.map((head, at) => ({
      title: head,
      main: at === 0,
      number: at >= each.labels,
      value: (row) => row[at],
    }));
    const shown = grid({ columns, rows: each.rows, page: 1000, called: "row", long: true, file: `figures-${k + 1}` });
    return [make("h3", {}, title), shown.node, ...each.remarks.map((remark) => note(remark))];
  });
}

function knowledge(run) {
  return run.knowledge.length ? settings(run.knowledge) : null;
}

// At a member: the itemsets that it does not find alone.
function foundHere(run) {
  const { own, table } = run;
  if (!table.alone) return note("Not known: this member has not mined its own data alone (--no-compare).");
  const missed = table.items.map((items, k) => ({ items, k })).filter((row) => table.alone[row.k]);
  const columns = [
    itemsColumn(run, { show: (row) => chips(run, row.items) }),
    counted("support here", (row) => own.supports[row.k], { up: true }),
    counted("support, all members", (row) => table.support[row.k]),
    counted("usage, all members", (row) => table.usage[row.k]),
    counted("bits saved", (row) => Math.round(table.bits_saved[row.k])),
  ];
  return [
    note(
      `${own.member} mined its own ${plural(own.transactions, "transaction")} after the run, with the same settings. It does not find these ${plural(missed.length, "itemset")} there.`,
    ),
    grid({ columns, rows: missed, sort: 4, page: 10, narrow: 5, called: "itemset", file: "not-found-alone" }).node,
  ];
}

// At a member: itemsets that are more or less frequent than at the other members.
function different(run) {
  const { own, table } = run;
  if (!own) return null;
  if (!own.differences)
    return note(
      run.variant === "so"
        ? "Not known: in variant so a member receives no counts of the others."
        : "Not known: this member has not compared itself with the others (--no-compare).",
    );
  const others = run.transactions - own.transactions;
  const rows = table.items.map((items, k) => ({
    items,
    here: own.supports[k] / Math.max(1, own.transactions),
    there: Math.max(0, table.support[k] - own.supports[k]) / Math.max(1, others),
    ratio: own.differences[k].ratio,
    q: own.differences[k].q,
  }));
  const clear = rows.filter((row) => row.q <= 0.05);
  const percent = (title, value) => ({
    title,
    number: true,
    value,
    show: (row) => `${fixed(100 * value(row), 1)} %`,
  });
  const times = (row) =>
    row.ratio === null
      ? "only here"
      : row.ratio === 0
        ? "not here"
        : `${fixed(row.ratio, row.ratio < 1 ? 2 : 1)}× as often`;
  const columns = [
    itemsColumn(run, { show: (row) => chips(run, row.items) }),
    percent("here", (row) => row.here),
    percent("elsewhere", (row) => row.there),
    {
      title: "here, compared",
      value: (row) => (row.ratio === null ? 1e9 : row.ratio),
      data: (row) => row.ratio,
      show: (row) =>
        make(
          "span",
          { class: `badge ${row.q > 0.05 ? "" : row.ratio === null || row.ratio >= 1 ? "yes" : "no"}` },
          times(row),
        ),
    },
    {
      title: "q",
      number: true,
      value: (row) => row.q,
      show: (row) => (row.q < 0.001 ? "< 0.001" : fixed(row.q, 3)),
      up: true,
    },
  ];
  const shown = grid({
    columns,
    rows: clear.length ? clear : rows,
    sort: 4,
    page: 10,
    narrow: 5,
    called: "itemset",
    file: "different-here",
  });
  const which = make(
    "select",
    { onchange: () => shown.update(which.value === "all" ? rows : clear) },
    [...(clear.length ? ["clearly different"] : []), "all"].map((name) => make("option", {}, name)),
  );
  return [
    note(
      `How often an itemset occurs at ${own.member} and at the other members together. Fisher's exact test; q is its p-value, corrected for ${plural(rows.length, "test")} (Benjamini and Hochberg). About one in twenty itemsets with q\u00a0≤\u00a00.05 differs only by chance. ${clear.length ? `${plural(clear.length, "itemset")} ${clear.length === 1 ? "is" : "are"} clearly more or less frequent here.` : "No itemset differs clearly here."}`,
    ),
    make("div", { class: "tools" }, make("label", {}, "Show", which)),
    shown.node,
  ];
}

function together(run) {
  const { gap, labels } = run;
  if (run.kind === "mined") return null;
  if (run.own) return foundHere(run);
  if (!gap)
    return note(
      run.kind === "server"
        ? "Not known for this run: a server cannot mine its members' data. Each member's own report says what that member does not find alone."
        : "Not known for this run. It requires mining each member's data alone, which --no-compare skips.",
    );
  if (!gap.total) return note("None: at least one member alone finds each itemset of the reference.");
  const names = run.members.map((member) => member.name);
  const rows = gap.items.map((items, k) => ({
    items,
    usage: gap.usage[k],
    at: gap.supports[k],
    found: gap.found[k],
    most: largest(gap.supports[k]),
  }));
  const digits = String(largest(rows.map((row) => row.most))).length;
  const search = searcher(labels);
  let found = search("");
  const columns = [
    itemsColumn(run, { wide: false, show: (row) => chips(run, row.items, found.hit) }),
    counted("usage", (row) => row.usage),
    counted("highest support", (row) => row.most, { up: true }),
    {
      title: "support at each member",
      label: "",
      whole: true,
      data: (row) => row.at.map((n, k) => `${names[k]}: ${n}`),
      show: (row) => cells(row.at, names, digits),
    },
    {
      title: "found",
      label: "",
      value: (row) => Number(row.found),
      data: (row) => row.found,
      show: (row) => make("span", { class: row.found ? "badge yes" : "badge no" }, row.found ? "✓ found" : "✗ missed"),
      up: true,
    },
  ];
  // Start with the itemsets that are rarest at every member: a federation is most useful for these.
  const shown = grid({ columns, rows, sort: 2, page: 10, narrow: 5, called: "itemset", file: "found-together" });
  const text = make("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => filter() });
  const which = make(
    "select",
    { onchange: () => filter() },
    ["all", "found", "missed"].map((name) => make("option", {}, name)),
  );
  function filter() {
    found = search(text.value);
    shown.update(
      rows.filter((row) => found.fits(row.items) && (which.value === "all" || row.found === (which.value === "found"))),
    );
  }
  const cut = rows.length < gap.total ? ` The first ${whole(rows.length)} are listed.` : "";
  const reference = run.agreements.length ? run.agreements[0].reference : "the reference";
  return [
    note(
      `No member alone finds ${whole(gap.total)} of the itemsets in the code table of ${reference}. Mining together found ${whole(gap.recovered)} of them.${cut}`,
    ),
    make(
      "div",
      { class: "tools" },
      make("label", { class: "grow" }, "Search items", text),
      make("label", {}, "Show", which),
    ),
    note(
      `Support at ${names.length > 12 ? `${names.length} members, ${names[0]} to ${names.at(-1)}` : names.join(", ")}; stronger colours mean higher counts.`,
    ),
    shown.node,
  ];
}

// For each itemset the first one, of those that save more, from which it differs in one or two items; or itself.
function themes(itemsets) {
  const having = new Map(); // by item, the itemsets that differ from all before them
  const shared = new Int32Array(itemsets.length);
  return itemsets.map((items, k) => {
    const touched = [];
    for (const item of items)
      for (const other of having.get(item) ?? []) {
        if (!shared[other]) touched.push(other);
        shared[other] += 1;
      }
    const alike = (n) => shared[n] >= 2 && items.length + itemsets[n].length - 2 * shared[n] <= 2;
    const first = smallest(touched.filter(alike), k);
    for (const other of touched) shared[other] = 0;
    if (first === k)
      for (const item of items) {
        if (!having.has(item)) having.set(item, []);
        having.get(item).push(k);
      }
    return first;
  });
}

function codeTable(run) {
  const { table, labels, own } = run;
  const alone = own ? "not found here alone" : "found by no member alone";
  const first = run.agreements[0];
  const names = run.members.map((member) => member.name);
  const rows = table.items.map((items, k) => ({
    k,
    items,
    usage: table.usage[k],
    support: table.support[k],
    length: table.code_length[k],
    saved: table.bits_saved[k],
  }));
  const search = searcher(labels);
  let found = search("");
  const digits = table.members ? String(largest(table.members.flat())).length : 1;
  const there = (row) => (first ? first.usages[row.k] : null);
  const columns = [
    {
      title: "itemset",
      label: "",
      main: true,
      wide: true,
      value: (row) => row.items.map((item) => labels[item]).join(", "),
      data: (row) => itemNames(run, row.items),
      show: (row) => itemset(row),
      up: true,
    },
    { title: "bits saved", number: true, value: (row) => row.saved, show: (row) => whole(Math.round(row.saved)) },
    counted("usage", (row) => row.usage),
    counted("support", (row) => row.support),
    ...(own
      ? [counted("usage here", (row) => own.usages[row.k]), counted("support here", (row) => own.supports[row.k])]
      : []),
    { title: "code bits", number: true, value: (row) => row.length, show: (row) => fixed(row.length, 2), up: true },
    counted("items", (row) => row.items.length),
  ];
  if (first)
    columns.splice(4, 0, {
      title: "reference usage",
      number: true,
      value: there,
      show: (row) => (there(row) === null ? "extra" : whole(there(row))),
    });
  function itemset(row) {
    const badge = table.alone && table.alone[row.k] ? `◆ ${alone}` : null;
    return make(
      "div",
      {},
      chips(run, row.items, found.hit, badge),
      table.members ? cells(table.members[row.k], names, digits) : null,
    );
  }
  const theme = themes(table.items);
  const group = (row) => theme[row.k];
  const shown = grid({ columns, rows, sort: 1, page: 25, narrow: 8, called: "itemset", file: "code-table", group });

  const text = make("input", {
    type: "search",
    id: "search",
    value: address.get("search"),
    autocomplete: "off",
    spellcheck: "false",
    placeholder: run.unnamed.size < labels.length ? "for example: fever cough" : "for example: 7",
    oninput: filter,
  });
  const bound = (id, label, hint) =>
    make("input", {
      type: "number",
      min: 0,
      inputmode: "numeric",
      id,
      value: address.get(id),
      "aria-label": label,
      placeholder: hint,
      oninput: filter,
    });
  const lengths = rows.map((row) => row.items.length);
  const [short, long] = [
    bound("shortest", "minimum number of items", smallest(lengths, largest(lengths))),
    bound("longest", "maximum number of items", largest(lengths)),
  ];
  const [least, most] = [
    bound("least", "minimum usage", smallest(table.usage, largest(table.usage))),
    bound("most", "maximum usage", largest(table.usage)),
  ];
  const choices = ["all", ...(table.alone ? [alone] : []), ...(first ? ["matched", "extra"] : [])];
  const which = make(
    "select",
    { id: "which", onchange: filter },
    choices.map((name) => make("option", { selected: name === address.get("which") }, name)),
  );
  const grouped = make("input", { type: "checkbox", id: "grouped", checked: !address.has("apart"), onchange: filter });
  const clear = make("button", { type: "button", class: "plain", onclick: () => refilter("all") }, "Clear");
  const number = (input, otherwise) =>
    input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber;
  const kinds = {
    all: () => true,
    [alone]: (row) => table.alone[row.k],
    matched: (row) => there(row) !== null,
    extra: (row) => there(row) === null,
  };
  function filter() {
    const given = [text, short, long, least, most].map((input) => [input.id, input.value]);
    const kept = { which: which.value === "all" ? "" : which.value, apart: grouped.checked ? "" : "1" };
    remember({ ...Object.fromEntries(given), ...kept });
    refine();
  }
  function refine() {
    found = search(text.value);
    const [a, b, c, d] = [number(short, 0), number(long, Infinity), number(least, 0), number(most, Infinity)];
    const kind = kinds[which.value];
    shown.update(
      rows.filter(
        (row) =>
          row.items.length >= a &&
          row.items.length <= b &&
          row.usage >= c &&
          row.usage <= d &&
          kind(row) &&
          found.fits(row.items),
      ),
      grouped.checked ? group : null,
    );
  }
  if (["search", "shortest", "longest", "least", "most", "which", "apart"].some((name) => address.has(name))) refine();
  refilter = (kind, words = "") => {
    for (const input of [short, long, least, most]) input.value = "";
    text.value = words;
    which.value = kind;
    filter();
  };
  const cut =
    rows.length < table.total ? ` Listed: the ${whole(rows.length)} of ${whole(table.total)} that save most bits.` : "";
  const spread = table.members
    ? ` The cells below an itemset show its usages at ${names.length > 12 ? "each member" : names.join(", ")}.`
    : "";
  const range = (name, low, high) =>
    make("fieldset", { class: "pairs" }, make("legend", {}, name), make("div", { class: "pair" }, low, "–", high));
  return [
    note(
      `Usage: transactions in whose cover an itemset occurs. Support: transactions that contain it. Bits saved: compared with coding its items one by one, minus the cost of its row in the table. Itemsets that differ in one or two items are grouped under the one that saves most.${first ? ` Reference usage: usage with ${first.reference}.` : ""}${spread}${cut}`,
    ),
    make(
      "div",
      { class: "tools" },
      make("label", { class: "grow" }, "Search items", text),
      range("Items", short, long),
      range("Usage", least, most),
      make("label", {}, "Show", which),
      make("label", { class: "row" }, grouped, "Group variations"),
      clear,
    ),
    shown.node,
    make("p", { class: "note print-only" }, "This printout has only the rows shown on screen; the file has all rows."),
  ];
}
