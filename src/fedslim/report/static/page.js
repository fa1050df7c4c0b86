// The sections of a report, drawn anew for the run that is chosen.
// Marks of direction would reorder the sentences around a label, and control characters show as nothing.
const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const harmless = (_, value) => (typeof value === "string" ? value.replace(HARMFUL, "\ufffd") : value);
const view = JSON.parse(document.getElementById("view").textContent, harmless);
const main = document.getElementById("main");
let chosen = 0;
let refilter = null; // lets other sections set the filters of the code table

const SECTIONS = [
  ["runs", "All runs", "All runs", overview],
  ["together", "Found together", "Found together, by no site alone", together],
  ["table", "Code table", "The code table", codeTable],
  ["compression", "Compression", "Compression", compression],
  ["agreement", "Agreement", "Agreement", agreement],
  ["communication", "Communication", "Communication", communication],
  ["sites", "Sites", "Sites", sites],
  ["reproduce", "Configuration", "Configuration, and how to do it again", reproduce],
];

const note = (...text) => make("p", { class: "note" }, ...text);
const factList = (facts, cls) =>
  make(
    "dl",
    { class: cls },
    facts.map((f) => make("div", {}, make("dt", {}, f.name), make("dd", { class: "value" }, f.value), f.note && make("dd", { class: "about" }, f.note))),
  );

function overview() {
  if (view.runs.length < 2) return null;
  const rows = view.overview.map((row, number) => ({ ...row, number }));
  const pick = (row) => make("button", { type: "button", class: "pick", onclick: () => choose(row.number, "runs") }, row.name);
  const first = { title: "run", main: true, value: (row) => row.name, show: (row) => make("div", {}, pick(row), " ", make("small", {}, view.runs[row.number].meaning)) };
  const figure = (text) => {
    const found = /^[\d,.]+/.exec(text);
    return found ? Number(found[0].replaceAll(",", "")) : null;
  };
  const columns = view.columns.map((title, k) => ({ title, number: true, value: (row) => figure(row.cells[k]), show: (row) => row.cells[k] }));
  const shown = grid({ columns: [first, ...columns], rows, page: 1000, called: "run", current: (row) => row.number === chosen, long: rows.length > 12 });
  return [make("p", { class: "note pick-hint" }, "Choose a run to see it below."), shown.node];
}

function together(run) {
  const { gap, labels } = run;
  if (!gap) return note("Not known of this run: each site would have to be mined alone, which --no-compare leaves out, and which the server of a real federation cannot do.");
  if (!gap.total) return note("Nothing: whatever the reference has, some site also finds alone.");
  const names = run.sites.map((site) => site.name);
  const rows = gap.items.map((items, k) => ({ items, usage: gap.usage[k], at: gap.supports[k], found: gap.found[k], most: Math.max(0, ...gap.supports[k]) }));
  const digits = String(Math.max(0, ...rows.map((row) => row.most))).length;
  const search = searcher(labels);
  let found = search("");
  const columns = [
    { title: "items", main: true, wide: true, value: (row) => row.items.length, show: (row) => chips(labels, row.items, found.hit) },
    { title: "usage", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    { title: "most at one site", number: true, value: (row) => row.most, show: (row) => whole(row.most), up: true },
    { title: "support at each site", label: "", whole: true, show: (row) => cells(row.at, names, digits) },
    { title: "found", label: "", value: (row) => Number(row.found), show: (row) => make("span", { class: row.found ? "badge yes" : "badge no" }, row.found ? "✓ found" : "✗ missed"), up: true },
  ];
  const shown = grid({ columns, rows, sort: 1, page: 10, narrow: 5, called: "itemset" });
  const text = make("input", { type: "search", autocomplete: "off", spellcheck: "false", oninput: () => filter() });
  const which = make("select", { onchange: () => filter() }, ["all", "found", "missed"].map((name) => make("option", {}, name)));
  function filter() {
    found = search(text.value);
    shown.update(rows.filter((row) => found.fits(row.items) && (which.value === "all" || row.found === (which.value === "found"))));
  }
  const cut = rows.length < gap.total ? ` The first ${whole(rows.length)} are here.` : "";
  const reference = run.agreements.length ? run.agreements[0].reference : "the reference";
  return [
    note(`Of the itemsets in the table of ${reference}, ${whole(gap.total)} are found at no site by itself. Mining together found ${whole(gap.recovered)} of them.${cut}`),
    make("div", { class: "tools" }, make("label", { class: "grow" }, "Search items", text), make("label", {}, "Show", which)),
    note(`Support at ${names.length > 12 ? `${names.length} sites, ${names[0]} to ${names.at(-1)}` : names.join(", ")}; the stronger the colour, the more.`),
    shown.node,
  ];
}

function codeTable(run) {
  const { table, labels } = run;
  const first = run.agreements[0];
  const names = run.sites.map((site) => site.name);
  const rows = table.items.map((items, k) => ({ k, items, usage: table.usage[k], support: table.support[k], length: table.code_length[k], saved: table.bits_saved[k] }));
  const search = searcher(labels);
  let found = search("");
  const digits = table.sites ? String(Math.max(0, ...table.sites.flat())).length : 1;
  const there = (row) => (first ? first.usages[row.k] : null);
  const columns = [
    { title: "itemset", label: "", main: true, wide: true, value: (row) => row.items.map((item) => labels[item]).join(", "), show: (row) => itemset(row), up: true },
    { title: "bits saved", number: true, value: (row) => row.saved, show: (row) => whole(Math.round(row.saved)) },
    { title: "usage", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    { title: "support", number: true, value: (row) => row.support, show: (row) => whole(row.support) },
    { title: "code bits", number: true, value: (row) => row.length, show: (row) => fixed(row.length, 2), up: true },
    { title: "items", number: true, value: (row) => row.items.length, show: (row) => whole(row.items.length) },
  ];
  if (first) columns.splice(4, 0, { title: "usage there", number: true, value: there, show: (row) => (there(row) === null ? "extra" : whole(there(row))) });
  function itemset(row) {
    const badge = table.alone && table.alone[row.k] ? "◆ by no site alone" : null;
    return make("div", {}, chips(labels, row.items, found.hit, badge), table.sites ? cells(table.sites[row.k], names, digits) : null);
  }
  const shown = grid({ columns, rows, sort: 1, page: 25, narrow: 8, called: "itemset" });

  const text = make("input", { type: "search", id: "search", autocomplete: "off", spellcheck: "false", placeholder: "such as: fever cough", oninput: filter });
  const bound = (id, label, hint) => make("input", { type: "number", min: 0, inputmode: "numeric", id, "aria-label": label, placeholder: hint, oninput: filter });
  const lengths = rows.map((row) => row.items.length);
  const [short, long] = [bound("shortest", "at least so many items", Math.min(...lengths, 9e9)), bound("longest", "at most so many items", Math.max(0, ...lengths))];
  const [least, most] = [bound("least", "used at least so often", Math.min(...table.usage, 9e9)), bound("most", "used at most so often", Math.max(0, ...table.usage))];
  const choices = ["all", ...(table.alone ? ["found by no site alone"] : []), ...(first ? ["matched", "extra"] : [])];
  const which = make("select", { id: "which", onchange: filter }, choices.map((name) => make("option", {}, name)));
  const clear = make("button", { type: "button", class: "plain", onclick: () => refilter("all") }, "Clear");
  const number = (input, otherwise) => (input.value === "" || Number.isNaN(input.valueAsNumber) ? otherwise : input.valueAsNumber);
  const kinds = {
    all: () => true,
    "found by no site alone": (row) => table.alone[row.k],
    matched: (row) => there(row) !== null,
    extra: (row) => there(row) === null,
  };
  function filter() {
    found = search(text.value);
    const [a, b, c, d] = [number(short, 0), number(long, Infinity), number(least, 0), number(most, Infinity)];
    const kind = kinds[which.value];
    shown.update(
      rows.filter((row) => row.items.length >= a && row.items.length <= b && row.usage >= c && row.usage <= d && kind(row) && found.fits(row.items)),
    );
  }
  refilter = (kind) => {
    for (const input of [text, short, long, least, most]) input.value = "";
    which.value = kind;
    filter();
  };
  const cut = rows.length < table.total ? ` The ${whole(rows.length)} of ${whole(table.total)} that save most are here.` : "";
  const spread = table.sites ? ` The cells below an itemset are its usages at ${names.length > 12 ? "each site" : names.join(", ")}.` : "";
  const range = (name, low, high) => make("fieldset", { class: "pairs" }, make("legend", {}, name), make("div", { class: "pair" }, low, "–", high));
  return [
    note(`Usage is how often an itemset serves to cover the data, support how often it occurs. Bits saved are those of its occurrences, against spelling them out, less what the row itself costs.${first ? ` Usage there is that with ${first.reference}.` : ""}${spread}${cut}`),
    make("div", { class: "tools" }, make("label", { class: "grow" }, "Search items", text), range("Items", short, long), range("Usage", least, most), make("label", {}, "Show", which), clear),
    shown.node,
    make("p", { class: "note print-only" }, "Printed are the rows that the page showed; the file itself has all."),
  ];
}

function compression(run) {
  const group = view.runs.map((each, number) => ({ each, number })).filter(({ each }) => each.data === run.data);
  const byVariant = new Set(group.map(({ each }) => each.variant)).size === group.length;
  const order = ["x", "sa", "so"];
  const prefix = `${run.data} · `;
  const series = group.map(({ each, number }, k) => {
    const style = order.indexOf(each.variant);
    return {
      name: each.name.startsWith(prefix) ? each.name.slice(prefix.length) : each.name,
      ys: each.curve.percent,
      itemsets: each.curve.itemsets,
      colour: `c${byVariant ? style : k % 7}`,
      dash: byVariant ? style : (style + 3 * Math.floor(k / 7)) % DASHES.length,
      mark: style,
      chosen: number === chosen && group.length > 1,
      curve: each.curve,
    };
  });
  const on = (name) => series.map((s) => ({ ...s, xs: s.curve[name] }));
  const rows = series.flatMap((s) => {
    const n = s.curve.rounds.length;
    const places = [...new Set(Array.from({ length: Math.min(n, 9) }, (_, k) => Math.round((k * (n - 1)) / Math.max(1, Math.min(n, 9) - 1))))];
    return places.map((k) => ({ name: s.name, round: s.curve.rounds[k], bytes: s.curve.bytes[k], itemsets: s.curve.itemsets[k], percent: s.curve.percent[k] }));
  });
  const columns = [
    { title: "run", main: true, value: (row) => row.name },
    { title: "round", number: true, value: (row) => row.round, show: (row) => whole(row.round) },
    { title: "sent", number: true, value: (row) => row.bytes, show: (row) => size(row.bytes) },
    { title: "itemsets", number: true, value: (row) => row.itemsets, show: (row) => whole(row.itemsets) },
    { title: "L%", number: true, value: (row) => row.percent, show: (row) => fixed(row.percent, 2) },
  ];
  return [
    note("L%: the bits that table and data take together, in percent of what they take item by item. Lower is better."),
    make(
      "div",
      { class: "charts" },
      lineChart("Over rounds", "How often the server asked.", on("rounds"), { format: whole, unit: "rounds" }),
      lineChart("Over bytes", "What was sent, both ways; a logarithmic scale.", on("bytes"), { format: size, tick: shortSize, unit: "sent", log: true }),
    ),
    make("details", {}, make("summary", {}, "Some of these figures as a table"), grid({ columns, rows, page: 200, called: "step" }).node),
  ];
}

function agreement(run) {
  if (!run.agreements.length) return note("This run was compared with nothing.");
  return run.agreements.map((each) => {
    const parts = [["missed", each.missed, "only there"], ["matched", each.matched, "in both"], ["extra", each.extra, "only here"]];
    const all = each.missed + each.matched + each.extra || 1;
    const said = parts.map(([name, n]) => `${n} ${name}`).join(", ");
    const stack = make("div", { class: "stack", role: "img", "aria-label": said }, parts.filter(([, n]) => n).map(([name, n]) => {
      const part = make("div", { class: name });
      part.style.flexGrow = n / all;
      return part;
    }));
    const keys = make("ul", { class: "keys" }, parts.map(([name, n, where]) => make("li", { class: name }, make("i", {}), `${whole(n)} ${name}, ${where}`)));
    const points = each.usages.map((there, k) => [there, run.table.usage[k]]).filter(([there]) => there !== null);
    const rows = each.missed_items.map((items, k) => ({ items, usage: each.missed_usage[k] }));
    const columns = [
      { title: "missed", main: true, wide: true, value: (row) => row.items.length, show: (row) => chips(run.labels, row.items) },
      { title: "usage there", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    ];
    const off = points.filter(([there, here]) => there !== here).length;
    const usual = off ? `${whole(off)} of ${plural(points.length, "matched itemset")} are used more often here, or less.` : "Every matched itemset is used equally often in both.";
    const extra = each.extra && each === run.agreements[0] ? make("p", {}, make("button", { type: "button", class: "pick pick-hint", onclick: () => { refilter("extra"); document.getElementById("table").scrollIntoView(); } }, `Show the ${whole(each.extra)} extra in the code table`)) : null;
    return make(
      "div",
      { class: "agreement" },
      make("h3", {}, `With ${each.reference}`),
      stack,
      keys,
      make(
        "div",
        { class: "beside" },
        points.length ? dotChart("Usage here and there", usual, points) : null,
        make("div", {}, factList(each.figures, "figures small"), rows.length ? grid({ columns, rows, sort: 1, page: 8, called: "missed itemset" }).node : make("p", {}, "Nothing was missed."), extra),
      ),
    );
  });
}

function communication(run) {
  const rows = run.traffic;
  if (!rows.length) return note("This record does not have the messages by kind.");
  const sum = (way, name) => rows.filter((row) => row.direction === way).reduce((total, row) => total + row[name], 0);
  const most = Math.max(1, ...rows.map((row) => row.bytes));
  const columns = [
    { title: "message", main: true, value: (row) => row.kind, show: (row) => make("div", {}, make("strong", {}, row.kind), " ", make("small", {}, row.meaning)), up: true },
    { title: "way", cls: "tight", value: (row) => row.direction, show: (row) => (row.direction === "up" ? "↑ up" : "↓ down"), up: true },
    { title: "messages", number: true, value: (row) => row.messages, show: (row) => whole(row.messages) },
    { title: "sent", number: true, value: (row) => row.bytes, show: (row) => size(row.bytes) },
    { title: "before compression", number: true, value: (row) => row.bytes_uncompressed, show: (row) => size(row.bytes_uncompressed) },
    { title: "share", label: "", cls: "bars", show: (row) => bar(row.bytes / most, row.direction) },
  ];
  const total = (way) => `${size(sum(way, "bytes"))} in ${plural(sum(way, "messages"), "message")}`;
  return [
    note(`${total("up")} went up, to the server; ${total("down")} went down, to the sites. Frames and compression are counted.`),
    grid({ columns, rows, sort: 3, page: 50, called: "kind" }).node,
  ];
}

function sites(run) {
  const rows = run.sites;
  const largest = Math.max(1, ...rows.map((row) => row.transactions || 0));
  const known = (name) => rows.some((row) => row[name] !== null);
  const columns = [{ title: "site", main: true, value: (row) => row.name, show: (row) => row.name, up: true }];
  const add = (name, title, show) => known(name) && columns.push({ title, number: true, value: (row) => row[name], show: (row) => show(row[name]) });
  add("transactions", "transactions", whole);
  add("itemsets", "finds alone", whole);
  add("percent", "L% alone", (value) => fixed(value, 2));
  add("used", "itemsets used", whole);
  add("codes", "times in all", whole);
  if (known("transactions")) columns.push({ title: "size", label: "", cls: "bars", show: (row) => bar((row.transactions || 0) / largest) });
  const alone = rows.map((row) => row.itemsets).filter((value) => value !== null);
  const range = alone.length ? `Alone a site finds ${whole(Math.min(...alone))} to ${plural(Math.max(...alone), "itemset")}; together they found ${whole(run.table.total)}. ` : "";
  const sizes = known("transactions") ? "" : "The server of this run was not told how much data each site has. ";
  return [note(range, sizes, run.usages_note), grid({ columns, rows, sort: 0, page: 25, called: "site" }).node];
}

function reproduce(run) {
  const facts = run.configuration.flatMap((f) => [make("dt", {}, f.name), make("dd", {}, f.value, f.note ? make("small", {}, ` ${f.note}`) : null)]);
  return [note("The same command gives the same table, and the same bytes on the line."), make("pre", {}, run.command), make("dl", { class: "settings" }, facts)];
}

// -- which run -------------------------------------------------------------------------------------------------------

function choice() {
  if (view.runs.length < 2) return null;
  if (view.runs.length <= 4) {
    const pick = (run, k) =>
      make("label", { class: "segment" }, make("input", { type: "radio", name: "run", value: k, checked: k === chosen, onchange: () => choose(k) }), make("span", {}, run.name));
    return make("fieldset", { class: "choice" }, make("legend", {}, "Run"), view.runs.map(pick));
  }
  const select = make("select", { id: "run", onchange: () => choose(Number(select.value)) });
  view.runs.forEach((run, k) => select.append(make("option", { value: k }, run.name)));
  return make("div", { class: "choice" }, make("label", { class: "name", for: "run" }, "Run"), select);
}

function choose(number, from) {
  chosen = number;
  for (const radio of document.querySelectorAll("input[name=run]")) radio.checked = Number(radio.value) === number;
  const select = document.getElementById("run");
  if (select) select.value = String(number);
  render();
  if (from) document.querySelector(`#${from} tr[aria-current=true] .pick`)?.focus({ preventScroll: true });
}

function render() {
  const run = view.runs[chosen];
  const drawn = SECTIONS.map(([id, short, title, section]) => [id, short, title, section(run)]).filter(([, , , content]) => content);
  const links = drawn.map(([id, short]) => make("a", { href: `#${id}` }, short));
  main.replaceChildren(
    make("nav", { "aria-label": "Sections" }, links),
    make("p", { class: "lead", id: "lead" }, run.lead),
    factList(run.headline, "figures"),
    ...drawn.map(([id, , title, content]) => make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...[content].flat())),
  );
}

// On paper everything is open.
let closed = [];
matchMedia("print").addEventListener("change", (event) => {
  if (event.matches) {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const each of closed) each.open = true;
  } else for (const each of closed) each.open = false;
});

document.getElementById("choice").append(choice() ?? "");
render();
