// The sections of a report, redrawn for the chosen run.
// Bidirectional marks in a label would reorder the text around it; control characters are invisible.
const HARMFUL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const harmless = (_, value) => (typeof value === "string" ? value.replace(HARMFUL, "\ufffd") : value);
const view = JSON.parse(document.getElementById("view").textContent, harmless);
for (const run of view.runs) run.unnamed = new Set(run.unnamed);
const main = document.getElementById("main");
let chosen = inAddress();
let refilter = null; // set by codeTable(), so that other sections can set its filters

const here = (atMember, otherwise) => (run) => (run.own ? atMember : otherwise);
const SECTIONS = [
  ["runs", "All runs", "All runs", overview],
  ["paper", "Paper", "Beside the paper's figures", () => (view.figures.length ? paper() : null)],
  ["knowledge", "What it knows", "What this server knows", knowledge],
  [
    "together",
    here("Not found alone", "Found together"),
    here("Not found here alone", "Found together, but by no member alone"),
    together,
  ],
  ["different", "Different here", "Different here", different],
  ["table", "Code table", "Code table", codeTable],
  ["pairs", "Pairs", "Items that are used together", pairs],
  ["rows", "Unusual rows", "The most unusual rows", unusual],
  ["items", "Items", "Items", items],
  ["compression", "Compression", "Compression", compression],
  ["agreement", "Agreement", "Agreement", agreement],
  ["communication", here("What left", "Communication"), here("What left this member", "Communication"), communication],
  ["members", "Members", "Members", members],
  ["reproduce", "Configuration", "Configuration and command", reproduce],
];

const note = (...text) => make("p", { class: "note" }, ...text);
const factList = (facts, cls) =>
  make(
    "dl",
    { class: cls },
    facts.map((f) =>
      make(
        "div",
        {},
        make("dt", {}, f.name),
        make("dd", { class: "value" }, f.value),
        f.note && make("dd", { class: "about" }, f.note),
      ),
    ),
  );

// -- choosing a run --------------------------------------------------------------------------------------------------

function choice() {
  if (view.runs.length < 2) return null;
  if (view.runs.length <= 4) {
    const pick = (run, k) =>
      make(
        "label",
        { class: "segment" },
        make("input", { type: "radio", name: "run", value: k, checked: k === chosen, onchange: () => choose(k) }),
        make("span", {}, run.name),
      );
    return make("fieldset", { class: "choice" }, make("legend", {}, "Run"), view.runs.map(pick));
  }
  const select = make("select", { id: "run", onchange: () => choose(Number(select.value)) });
  view.runs.forEach((run, k) => select.append(make("option", { value: k }, run.name)));
  return make("div", { class: "choice" }, make("label", { class: "name", for: "run" }, "Run"), select);
}

// The run that the address names, or the first one.
function inAddress() {
  return Math.max(
    0,
    view.runs.findIndex((run) => run.name === address.get("run")),
  );
}

function choose(number, from) {
  chosen = number;
  remember({ run: number ? view.runs[number].name : "" });
  for (const radio of document.querySelectorAll("input[name=run]")) radio.checked = Number(radio.value) === number;
  const select = document.getElementById("run");
  if (select) select.value = String(number);
  render();
  const row = document.querySelector("#runs tr[aria-current=true]");
  if (row) row.closest(".frame").scrollTop = row.offsetTop - 80;
  if (from) row.querySelector(".pick").focus({ preventScroll: true });
}

function render() {
  const run = view.runs[chosen];
  const text = (each) => (typeof each === "string" ? each : each(run));
  const drawn = SECTIONS.map(([id, short, title, section]) => [id, text(short), text(title), section(run)]).filter(
    ([, , , content]) => content,
  );
  const go = (event, id) => {
    event.preventDefault();
    remember({ at: id });
    document.getElementById(id).scrollIntoView();
  };
  const links = drawn.map(([id, short]) => make("a", { href: `#${id}`, onclick: (event) => go(event, id) }, short));
  main.replaceChildren(
    make("nav", { "aria-label": "Sections" }, links),
    make("p", { class: "lead", id: "lead" }, run.lead),
    factList(run.headline, "figures"),
    ...drawn.map(([id, , title, content]) =>
      make(
        "section",
        { id, "aria-labelledby": `${id}-title` },
        make("h2", { id: `${id}-title` }, title),
        ...[content].flat(),
      ),
    ),
  );
}

document.getElementById("choice").append(choice() ?? "");
if (document.getElementById("run")) document.getElementById("run").value = String(chosen);
render();
document.getElementById(address.get("at") ?? location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
addEventListener("hashchange", () => location.hash.includes("=") && location.reload()); // a link to another view of it
