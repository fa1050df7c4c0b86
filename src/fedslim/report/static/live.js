// A run while it goes on. Each event has all that the page shows, so a page that reconnects misses nothing.
const main = document.getElementById("main");
const doing = document.getElementById("doing");
const stop = document.getElementById("stop");
const sections = new Map();
let feed = null;

// A section is made when there is something to show in it, and filled again only if that has changed.
function show(id, title, value, content) {
  if (value === null || value === undefined || value.length === 0) return;
  if (!sections.has(id)) {
    const body = make("div", {});
    const head = title && make("h2", { id: `${id}-title` }, title);
    const node = make(title ? "section" : "div", { id, "aria-labelledby": title && `${id}-title` }, head || null, body);
    sections.set(id, { body, node, shown: "" });
    const order = ["facts", "warnings", "compression", "members", "latest", "sent"];
    const after = order.slice(order.indexOf(id) + 1).map((next) => sections.get(next)?.node);
    main.insertBefore(node, after.find((next) => next) ?? null);
  }
  const section = sections.get(id);
  const shown = JSON.stringify(value);
  if (shown === section.shown || section.body.querySelector("svg:hover, svg:focus")) return; // someone reads a value
  section.shown = shown;
  section.body.replaceChildren(...[content(value)].flat());
}

const ago = (value) => (value === null ? "–" : value < 2 ? "now" : value < 100 ? `${whole(Math.round(value))} s ago` : `${whole(Math.round(value / 60))} min ago`);

function table(titles, rows) {
  const cell = (tag, k, content) =>
    make(tag, { class: `${titles[k][1]}${tag === "th" ? " unsorted" : ""}`, "data-label": titles[k][0] }, content);
  return make(
    "div",
    { class: "frame" },
    make(
      "table",
      { class: "cards" },
      make("thead", {}, make("tr", {}, titles.map(([title], k) => cell("th", k, title)))),
      make("tbody", {}, rows.map((row) => make("tr", {}, row.map((content, k) => cell("td", k, content))))),
    ),
  );
}

function facts(found) {
  const one = (f) =>
    make("div", {}, make("dt", {}, f.name), make("dd", { class: "value" }, f.value), f.note && make("dd", { class: "about" }, f.note));
  return make("dl", { class: "figures" }, found.map(one));
}

const compression = (curves) => {
  const series = curves.map((curve, k) => ({ ...curve, xs: curve.seconds, ys: curve.percent, colour: `c${k}`, dash: k, mark: k }));
  return lineChart("L% over time", "Bits of code table and data, in percent of those with single items only.", series, {
    format: seconds,
    tick: shortSeconds,
    unit: "",
    fine: true,
  });
};

const latest = (found) =>
  table(
    [["itemset", "main"], ["usage", "number"]],
    found.map(([items, usage]) => [make("ul", { class: "chips" }, items.map((item) => make("li", {}, item))), whole(usage)]),
  );

const members = ([found, more]) => [
  found[0].here === null // a simulation
    ? table([["member", "main"], ["", "number"]], found.map((each) => [each.name, each.state]))
    : table(
        [["member", "main"], ["connection", ""], ["state", ""], ["last message", "number"]],
        found.map((each) => [
          each.name,
          make("span", { class: `badge ${each.here ? "yes" : each.state === "finished" ? "" : "no"}` }, each.here ? "connected" : "not connected"),
          each.state,
          ago(each.contact),
        ]),
      ),
  more ? make("p", { class: "note" }, `and ${whole(more)} more`) : "",
];

const sent = (found) => [
  make("p", { class: "note" }, "From the audit log of this member, which is written before a message is sent."),
  table(
    [["message", "main"], ["messages", "number"], ["bytes", "number"], ["statistics", "number"], ["masked", "number"]],
    found.map(([kind, n]) => [[kind, make("small", {}, ` ${KINDS[kind] ?? ""}`)], whole(n.messages), size(n.bytes), whole(n.statistics), whole(n.statistics_masked)]),
  ),
];

const warnings = (found) => make("ul", { class: "list" }, found.map((text) => make("li", { class: "remark" }, text)));

function update(view) {
  const begun = !view.doing ? "Starting" : /^(x|sa|so) /.test(view.doing) ? view.doing : view.doing.replace(/^./u, (first) => first.toUpperCase());
  doing.textContent = view.stopping ? "Stopping with the best so far …" : view.ended || `${begun} …`;
  stop.hidden = !view.stoppable;
  show("facts", "", view.facts, facts);
  show("warnings", "Warnings", view.warnings, warnings);
  show("compression", "Compression", view.curves.filter((curve) => curve.seconds.length), compression);
  show("members", "Members", view.members && [view.members, view.more_members], members);
  show("latest", "Latest itemsets", view.latest, latest);
  show("sent", "What is leaving this member", view.sent, sent);
  if (!view.ended) return;
  feed.close();
  if (view.ended === "report") location.reload(); // the same address now has the report
}

function connect() {
  feed = new EventSource("events");
  feed.onmessage = (event) => update(JSON.parse(event.data));
  feed.onerror = () => {
    doing.textContent = "The connection to the run is lost; trying again …";
    stop.hidden = true;
  };
}
stop.addEventListener("click", () => {
  stop.hidden = true;
  fetch("stop", { method: "POST" });
});
connect();
