// The sections on results: the overview of all runs, the itemsets that no member finds alone, the code table.

function overview() {
  if (view.runs.length < 2) return null;
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
  });
  return [make("p", { class: "note pick-hint" }, "Choose a run to see it below."), shown.node];
}

function together(run) {
  const { gap, labels } = run;
  if (!gap)
    return note(
      "Not known for this run. It requires mining each member's data alone, which --no-compare skips and the server of a real federation cannot do.",
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
    {
      title: "items",
      main: true,
      wide: true,
      value: (row) => row.items.length,
      show: (row) => chips(labels, row.items, found.hit),
    },
    { title: "usage", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    { title: "highest support", number: true, value: (row) => row.most, show: (row) => whole(row.most), up: true },
    { title: "support at each member", label: "", whole: true, show: (row) => cells(row.at, names, digits) },
    {
      title: "found",
      label: "",
      value: (row) => Number(row.found),
      show: (row) => make("span", { class: row.found ? "badge yes" : "badge no" }, row.found ? "✓ found" : "✗ missed"),
      up: true,
    },
  ];
  // Start with the itemsets that are rarest at every member: a federation is most useful for these.
  const shown = grid({ columns, rows, sort: 2, page: 10, narrow: 5, called: "itemset" });
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

function codeTable(run) {
  const { table, labels } = run;
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
      show: (row) => itemset(row),
      up: true,
    },
    { title: "bits saved", number: true, value: (row) => row.saved, show: (row) => whole(Math.round(row.saved)) },
    { title: "usage", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    { title: "support", number: true, value: (row) => row.support, show: (row) => whole(row.support) },
    { title: "code bits", number: true, value: (row) => row.length, show: (row) => fixed(row.length, 2), up: true },
    { title: "items", number: true, value: (row) => row.items.length, show: (row) => whole(row.items.length) },
  ];
  if (first)
    columns.splice(4, 0, {
      title: "reference usage",
      number: true,
      value: there,
      show: (row) => (there(row) === null ? "extra" : whole(there(row))),
    });
  function itemset(row) {
    const badge = table.alone && table.alone[row.k] ? "◆ found by no member alone" : null;
    return make(
      "div",
      {},
      chips(labels, row.items, found.hit, badge),
      table.members ? cells(table.members[row.k], names, digits) : null,
    );
  }
  const shown = grid({ columns, rows, sort: 1, page: 25, narrow: 8, called: "itemset" });

  const text = make("input", {
    type: "search",
    id: "search",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "for example: fever cough",
    oninput: filter,
  });
  const bound = (id, label, hint) =>
    make("input", {
      type: "number",
      min: 0,
      inputmode: "numeric",
      id,
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
  const choices = ["all", ...(table.alone ? ["found by no member alone"] : []), ...(first ? ["matched", "extra"] : [])];
  const which = make(
    "select",
    { id: "which", onchange: filter },
    choices.map((name) => make("option", {}, name)),
  );
  const clear = make("button", { type: "button", class: "plain", onclick: () => refilter("all") }, "Clear");
  const number = (input, otherwise) =>
    input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber;
  const kinds = {
    all: () => true,
    "found by no member alone": (row) => table.alone[row.k],
    matched: (row) => there(row) !== null,
    extra: (row) => there(row) === null,
  };
  function filter() {
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
    );
  }
  refilter = (kind) => {
    for (const input of [text, short, long, least, most]) input.value = "";
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
      `Usage: transactions in whose cover an itemset occurs. Support: transactions that contain it. Bits saved: compared with coding its items one by one, minus the cost of its row in the table.${first ? ` Reference usage: usage with ${first.reference}.` : ""}${spread}${cut}`,
    ),
    make(
      "div",
      { class: "tools" },
      make("label", { class: "grow" }, "Search items", text),
      range("Items", short, long),
      range("Usage", least, most),
      make("label", {}, "Show", which),
      clear,
    ),
    shown.node,
    make("p", { class: "note print-only" }, "This printout has only the rows shown on screen; the file has all rows."),
  ];
}
