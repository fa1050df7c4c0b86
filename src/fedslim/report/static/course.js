// The sections on the run: compression, agreement, communication, members and configuration.

function compression(run) {
  const mined = run.kind === "mined";
  if (!run.curve.rounds.length && run.kind !== "simulation" && run.kind !== "server") return null;
  const group = view.runs.map((each, number) => ({ each, number })).filter(({ each }) => each.data === run.data);
  const crowded = group.length > 7; // colour by variant, and name only the chosen run
  const byVariant = crowded || new Set(group.map(({ each }) => each.variant)).size === group.length;
  const order = ["x", "sa", "so"];
  const prefix = `${run.data} · `;
  const series = group.map(({ each, number }, k) => {
    const style = Math.max(0, order.indexOf(each.variant));
    return {
      name: each.name.startsWith(prefix) ? each.name.slice(prefix.length) : each.name,
      ys: each.curve.percent,
      itemsets: each.curve.itemsets,
      colour: `c${byVariant ? style : k}`,
      dash: style,
      mark: style,
      chosen: number === chosen && group.length > 1,
      faint: crowded && number !== chosen,
      kind: crowded ? each.variant : null,
      curve: each.curve,
    };
  });
  series.sort((a, b) => b.faint - a.faint); // the last one is drawn on top
  const on = (name) => series.map((s) => ({ ...s, xs: s.curve[name] }));
  const rows = series
    .filter((s) => !s.faint)
    .flatMap((s) => {
      const n = s.curve.rounds.length;
      const places = [
        ...new Set(
          Array.from({ length: Math.min(n, 9) }, (_, k) => Math.round((k * (n - 1)) / Math.max(1, Math.min(n, 9) - 1))),
        ),
      ];
      return places.map((k) => ({
        name: s.name,
        round: s.curve.rounds[k],
        bytes: s.curve.bytes[k],
        seconds: s.curve.seconds[k],
        itemsets: s.curve.itemsets[k],
        percent: s.curve.percent[k],
      }));
    });
  const columns = [
    { title: "run", main: true, value: (row) => row.name },
    { title: mined ? "candidates" : "round", number: true, value: (row) => row.round, show: (row) => whole(row.round) },
    mined
      ? { title: "time", number: true, value: (row) => row.seconds, show: (row) => seconds(row.seconds) }
      : { title: "sent", number: true, value: (row) => row.bytes, show: (row) => size(row.bytes) },
    { title: "itemsets", number: true, value: (row) => row.itemsets, show: (row) => whole(row.itemsets) },
    { title: "L%", number: true, value: (row) => row.percent, show: (row) => precise(row.percent) },
  ];
  const rough = run.kind === "server" && run.curve.percent.every(Number.isInteger);
  return [
    note(
      "L%: the bits of code table and data, in percent of those with single items only. Lower is better.",
      rough ? " The curve is rounded and includes itemsets that are too rare to publish, as exact values would reveal small counts." : "",
    ),
    make(
      "div",
      { class: "charts" },
      ...(mined
        ? [
            lineChart("By candidates", "Candidates that were tried.", on("rounds"), {
              format: whole,
              unit: "candidates",
            }),
            lineChart("By time", "Seconds of searching.", on("seconds"), { format: seconds, tick: shortSeconds, unit: "", fine: true }),
          ]
        : byRounds()),
    ),
    ...folded("steps", "Show selected values as a table", grid({ columns, rows, page: 200, called: "step" }).node),
  ];
  function byRounds() {
    return [
      lineChart("By rounds", "Questions of the server.", on("rounds"), { format: whole, unit: "rounds" }),
      lineChart("By bytes", "Bytes sent in both directions, on a logarithmic scale.", on("bytes"), {
        format: size,
        tick: shortSize,
        unit: "sent",
        log: true,
      }),
    ];
  }
}

// A part that a button opens and closes. Not <details>, because the part must be open in print, and only a style sheet
// can do that in time.
function folded(id, title, content) {
  const part = make("div", { class: "folded", id }, content);
  const open = make(
    "button",
    {
      type: "button",
      class: "fold",
      "aria-expanded": "false",
      "aria-controls": id,
      onclick: () => open.setAttribute("aria-expanded", String(!part.classList.toggle("folded"))),
    },
    title,
  );
  return [open, part];
}

function agreement(run) {
  if (!run.agreements.length && run.kind !== "simulation") return null;
  if (!run.agreements.length) return note("This run was not compared with a reference.");
  return run.agreements.map((each) => {
    const parts = [
      ["missed", each.missed, "only in the reference"],
      ["matched", each.matched, "in both"],
      ["extra", each.extra, "only in this table"],
    ];
    const all = each.missed + each.matched + each.extra || 1;
    const description = parts.map(([name, n]) => `${n} ${name}`).join(", ");
    const stack = make(
      "div",
      { class: "stack", role: "img", "aria-label": description },
      parts
        .filter(([, n]) => n)
        .map(([name, n]) => {
          const part = make("div", { class: name });
          part.style.flexGrow = n / all;
          return part;
        }),
    );
    const keys = make(
      "ul",
      { class: "keys" },
      parts.map(([name, n, where]) => make("li", { class: name }, make("i", {}), `${whole(n)} ${name}, ${where}`)),
    );
    const points = each.usages.map((there, k) => [there, run.table.usage[k]]).filter(([there]) => there !== null);
    const rows = each.missed_items.map((items, k) => ({ items, usage: each.missed_usage[k] }));
    const columns = [
      {
        title: "missed",
        main: true,
        wide: true,
        value: (row) => row.items.length,
        show: (row) => chips(run, row.items),
      },
      { title: "reference usage", number: true, value: (row) => row.usage, show: (row) => whole(row.usage) },
    ];
    const off = each.differing;
    const usual = off
      ? `The usages of ${whole(off)} of ${plural(each.matched, "matched itemset")} differ.`
      : "Every matched itemset has the same usage in both.";
    const cut = points.length < each.matched ? ` Plotted: the ${whole(points.length)} listed in the table above.` : "";
    const extra =
      each.extra && each === run.agreements[0]
        ? make(
            "p",
            {},
            make(
              "button",
              {
                type: "button",
                class: "pick pick-hint",
                onclick: () => {
                  refilter("extra");
                  document.getElementById("table").scrollIntoView();
                },
              },
              `Show the ${plural(each.usages.filter((there) => there === null).length, "extra itemset")} in the code table`,
            ),
          )
        : null;
    return make(
      "div",
      { class: "agreement" },
      make("h3", {}, `Compared with ${each.reference}`),
      stack,
      keys,
      make(
        "div",
        { class: "beside" },
        points.length ? dotChart("Usages compared", usual + cut, points) : null,
        make(
          "div",
          {},
          factList(each.figures, "figures small"),
          rows.length
            ? grid({ columns, rows, sort: 1, page: 8, called: "missed itemset" }).node
            : make("p", {}, "Nothing was missed."),
          extra,
        ),
      ),
    );
  });
}

// At a member: what left it, by the audit log.
function left(run) {
  const sent = Object.entries(run.own.sent).map(([kind, amount]) => ({ kind, ...amount }));
  const sum = (name) => sent.reduce((total, row) => total + row[name], 0);
  const columns = [
    {
      title: "message",
      main: true,
      value: (row) => row.kind,
      show: (row) => make("div", {}, make("strong", {}, row.kind), " ", make("small", {}, KINDS[row.kind] ?? "")),
      up: true,
    },
    counted("messages", (row) => row.messages),
    { title: "sent", number: true, value: (row) => row.bytes, show: (row) => size(row.bytes) },
    counted("statistics, masked", (row) => row.statistics_masked),
    counted("statistics, unmasked", (row) => row.statistics - row.statistics_masked),
    counted("labels", (row) => row.labels),
    { title: "labels, sealed", number: true, value: (row) => row.sealed, show: (row) => (row.sealed ? size(row.sealed) : "0") },
  ];
  const open = sum("statistics") - sum("statistics_masked");
  return [
    note(
      `By the audit log, ${plural(sum("messages"), "message")} with ${size(sum("bytes"))} left ${run.own.member}: ${whole(sum("statistics_masked"))} masked statistics, which mean something only in the sum over all members, ${whole(open)} unmasked ones, ${plural(sum("labels"), "label")} that the server can read, and ${size(sum("sealed"))} of labels that only the other members can read. No transaction left it, and nothing of this report.`,
    ),
    grid({ columns, rows: sent, sort: 2, page: 50, called: "kind", file: "left" }).node,
  ];
}

function communication(run) {
  if (run.own) return left(run);
  if (run.kind === "mined") return null;
  const rows = run.traffic;
  if (!rows.length) return note("This run record has no message counts.");
  const sum = (way, name) => rows.filter((row) => row.direction === way).reduce((total, row) => total + row[name], 0);
  const most = largest(
    rows.map((row) => row.bytes),
    1,
  );
  const columns = [
    {
      title: "message",
      main: true,
      value: (row) => row.kind,
      show: (row) => make("div", {}, make("strong", {}, row.kind), " ", make("small", {}, KINDS[row.kind] ?? "")),
      up: true,
    },
    {
      title: "direction",
      cls: "tight",
      value: (row) => row.direction,
      show: (row) => (row.direction === "up" ? "↑ up" : "↓ down"),
      up: true,
    },
    { title: "messages", number: true, value: (row) => row.messages, show: (row) => whole(row.messages) },
    { title: "sent", number: true, value: (row) => row.bytes, show: (row) => size(row.bytes) },
    {
      title: "before compression",
      number: true,
      value: (row) => row.bytes_uncompressed,
      show: (row) => size(row.bytes_uncompressed),
    },
    { title: "share", label: "", cls: "bars", show: (row) => bar(row.bytes / most, row.direction) },
  ];
  const total = (way) => `${size(sum(way, "bytes"))} in ${plural(sum(way, "messages"), "message")}`;
  return [
    note(
      `Up, to the server: ${total("up")}. Down, to the members: ${total("down")}. Sizes are after compression, with frame headers.`,
    ),
    grid({ columns, rows, sort: 3, page: 50, called: "kind", file: "messages" }).node,
  ];
}

function members(run) {
  if (run.kind === "mined") return null;
  const rows = run.members;
  const widest = largest(
    rows.map((row) => row.transactions || 0),
    1,
  );
  const known = (name) => rows.some((row) => row[name] !== null);
  const columns = [{ title: "member", main: true, value: (row) => row.name, show: (row) => row.name, up: true }];
  const add = (name, title, show) =>
    known(name) && columns.push({ title, number: true, value: (row) => row[name], show: (row) => show(row[name]) });
  add("transactions", "transactions", whole);
  add("itemsets", "itemsets alone", whole);
  add("percent", "L% alone", (value) => fixed(value, 2));
  add("used", "itemsets used", whole);
  add("codes", "total usage", whole);
  if (known("transactions") && !run.own)
    columns.push({ title: "size", label: "", cls: "bars", show: (row) => bar((row.transactions || 0) / widest) });
  const alone = rows.map((row) => row.itemsets).filter((value) => value !== null);
  const range =
    alone.length > 1
      ? `Each member alone finds ${whole(smallest(alone))} to ${plural(largest(alone), "itemset")}; together they found ${whole(run.table.total)}. `
      : "";
  const sizes =
    run.kind !== "server" || known("transactions")
      ? ""
      : "The server does not know how many transactions each member has. ";
  return [note(range, sizes, run.usages_note), grid({ columns, rows, sort: 0, page: 25, called: "member" }).node];
}

function settings(facts) {
  const lines = facts.map((f) => [
    make("dt", {}, f.name),
    make("dd", {}, f.value, f.note ? make("small", {}, ` ${f.note}`) : null),
  ]);
  return make("dl", { class: "settings" }, lines.flat());
}

function reproduce(run) {
  const again =
    run.kind === "simulation" || run.kind === "mined"
      ? "Running this command again gives the same code table."
      : `This command ${run.kind === "server" ? "starts" : "takes part in"} another run, in another folder.`;
  return [...(run.command ? [note(again), make("pre", {}, run.command)] : []), settings(run.configuration)];
}
