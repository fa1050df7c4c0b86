// Elements and number formats. Labels come from the data and are not trusted: set them as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child);
  }
  return node;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function set(node, name, value) {
  node.style.setProperty(name, String(value)); // the content security policy forbids style attributes
  return node;
}

const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
const fixed = (value, digits) =>
  value === null || value === undefined
    ? "–"
    : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${fixed(value, digits)} ${units[unit]}`;
}

// For axis labels: no trailing zeros.
const shortSize = (bytes) => size(bytes).replace(/\.0+ /, " ");

// Math.max(...values) overflows the stack for very long arrays.
const largest = (values, least = 0) => values.reduce((a, b) => (b > a ? b : a), least);
const smallest = (values, most = Infinity) => values.reduce((a, b) => (b < a ? b : a), most);

// -- what leaves the page: only on a click, and only to the reader's own disk or clipboard ------------------------------

// A cell that starts like a formula would be run by a spreadsheet; labels are not trusted.
const spreadsheet = (value) => {
  const text = Array.isArray(value) ? value.join(", ") : String(value ?? "");
  return typeof value !== "number" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
};
const quoted = (value) => `"${spreadsheet(value).replaceAll('"', '""')}"`;

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "skip" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// -- what is chosen is in the address, so that a link shows the same ---------------------------------------------------

const address = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
let writing = 0;
function remember(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null) address.delete(name);
    else address.set(name, value);
  }
  clearTimeout(writing); // browsers allow only so many changes of the address
  writing = setTimeout(() => history.replaceState(null, "", `#${address}`), 150);
}

// A percentage; a server that withholds small counts keeps whole ones.
const precise = (value) => fixed(value, Number.isInteger(value) ? 0 : 2);
const seconds = (value) => `${fixed(value, value < 10 ? 2 : 0)} s`;
const shortSeconds = (value) => `${whole(value)} s`; // for axis labels
const plural = (count, word) => `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
