// What every page uses: its data, elements that hold text and never markup, numbers in words, light and dark.

const readData = (id) => JSON.parse(document.getElementById(id).textContent);

const byId = (id) => document.getElementById(id);

// Return a new element. A function among the attributes listens to the event of that name; children are elements or
// texts, and a text is never markup.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svgElement(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// An error of the page's own code is shown, so that a page that stops is not taken for the whole.
addEventListener("error", (event) => {
  if (event.message.startsWith("ResizeObserver loop")) return; // a warning: sizes settle in the next frame
  document.body.prepend(element("p", { class: "failure", role: "alert" }, `This page has an error: ${event.message}`));
});

const _whole = new Intl.NumberFormat("en");
const wholeNumber = (value) => _whole.format(value);

// 1234567 as "1.23 M".
function shortNumber(value) {
  const units = ["", " K", " M", " G", " T", " P"];
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return unit === 0 ? String(+rest.toFixed(2)) : `${rest.toPrecision(3)}${units[unit]}`;
}

// 1536 as "1.5 KiB"; a negative number stands for a size that data decides.
function bytesText(bytes) {
  if (bytes < 0) return "depends on the data";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let rest = bytes;
  while (rest >= 1023.5 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? rest : +rest.toPrecision(3)} ${units[unit]}`;
}

function countText(count, one, several = `${one}s`) {
  return `${wholeNumber(count)} ${count === 1 ? one : several}`;
}

// Tell a screen reader, in the element with the id "live".
function announce(text) {
  byId("live").textContent = text;
}

// Save a file that the page made, as a download of the browser.
function saveFile(name, blob) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const _themes = ["system", "light", "dark"];

// Make a button that changes between the colours of the system, light and dark. A sandboxed frame has no storage.
function themeButton(button) {
  const stored = () => {
    try {
      return localStorage.getItem("wyrm-theme");
    } catch {
      return null;
    }
  };
  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = { system: "◐", light: "☀", dark: "☾" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
    button.title = `Colours: ${theme}. Press for ${_themes[(_themes.indexOf(theme) + 1) % 3]}.`;
  };
  let theme = _themes.includes(stored()) ? stored() : "system";
  show(theme);
  button.addEventListener("click", () => {
    theme = _themes[(_themes.indexOf(theme) + 1) % 3];
    show(theme);
    announce(`Colours: ${theme}`);
    try {
      localStorage.setItem("wyrm-theme", theme);
    } catch {
      // The choice lasts as long as the page.
    }
  });
}
