"use strict";
// Tables that sort and search, tabs, and players that are built when they come into view.

function cellValue(row, column) {
  const cell = row.cells[column];
  return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim().toLowerCase();
}

function compare(a, b, sign) {
  const missing = (x) => typeof x === "number" && Number.isNaN(x);
  if (missing(a) || missing(b)) return missing(a) - missing(b); // missing values always go last
  return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}

function sortTable(table, column, way) {
  const body = table.tBodies[0], sign = way === "descending" ? -1 : 1;
  const rows = [...body.rows].sort((a, b) => compare(cellValue(a, column), cellValue(b, column), sign));
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i === column) head.setAttribute("aria-sort", way); else head.removeAttribute("aria-sort");
  });
}

function setUpTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const first = head.dataset.first || "ascending", other = first === "ascending" ? "descending" : "ascending";
      sortTable(table, column, head.getAttribute("aria-sort") === first ? other : first);
    });
  });
  const tools = document.querySelector(`.tools[data-for="${table.id}"]`);
  if (!tools) return;
  const search = tools.querySelector("input"), filter = tools.querySelector("select.filter");
  const sort = tools.querySelector("select.sort"), count = tools.querySelector(".count");
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = filter ? filter.value : "";
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (wanted && !row.dataset.kinds.split(" ").includes(wanted));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${table.tBodies[0].rows.length}`;
  };
  search.addEventListener("input", apply);
  if (filter) filter.addEventListener("change", apply);
  if (sort) sort.addEventListener("change", () => {
    const column = Number(sort.value);
    sortTable(table, column, heads[column].dataset.first || "ascending");
  });
  apply();
  addTableCsv(tools, table);
}

function addTableCsv(tools, table) {
  // The rows that are shown, in their order, as a file.
  const link = make("a", { class: "csv", href: "#", download: `${table.id}.csv` }, "CSV");
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const value = (cell) => (cell.dataset.v !== undefined ? cell.dataset.v : (cell.querySelector(".rule-text") || cell).textContent.trim());
  link.addEventListener("click", () => {
    const shown = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const rows = shown.map((row) => Object.fromEntries([...row.cells].map((cell, i) => [names[i], value(cell)])));
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(asCsv(rows))}`;
  });
  tools.append(link);
}

function setUpTabs(tabs) {
  const buttons = [...tabs.querySelectorAll("button")];
  const panels = buttons.map((button) => document.getElementById(button.getAttribute("aria-controls")));
  const choose = (k) => buttons.forEach((button, i) => {
    button.setAttribute("aria-selected", String(i === k));
    panels[i].hidden = i !== k;
  });
  buttons.forEach((button, i) => button.addEventListener("click", () => { choose(i); startPlayers(panels[i]); }));
  choose(0);
}

function setUpChips(chips) {
  // Show the title of a chip on click, for touch screens and keyboards.
  const help = make("p", { class: "chip-help", "aria-live": "polite", hidden: "" });
  chips.after(help);
  for (const chip of chips.querySelectorAll(".chip[title]")) {
    chip.addEventListener("click", () => {
      const text = `${chip.textContent}: ${chip.title}.`;
      help.hidden = !help.hidden && help.textContent === text;
      help.textContent = text;
    });
  }
}

function reveal(target) {
  // Open the sections, cards and tabs around something, and build the players in them.
  for (let node = target; node; node = node.parentElement) {
    if (node.tagName === "DETAILS") node.open = true;
    const tab = node.id && document.querySelector(`[role=tab][aria-controls="${CSS.escape(node.id)}"]`);
    if (tab) tab.click();
  }
  startPlayers(document);
}

function openSeed(seed, step) {
  // "#seed=7&step=120": the first replay of this seed that shows the step.
  const known = JSON.parse(document.getElementById("replays").textContent);
  const roots = [...document.querySelectorAll(".player[data-replay]")].filter((root) => known[root.dataset.replay].seed === seed);
  const shows = (root) => {
    const { first = 0, sides } = known[root.dataset.replay];
    return step >= first && step <= first + Math.max(...sides.map((side) => side.actions.length));
  };
  const root = roots.find(shows) || roots[0], note = document.getElementById("no-replay");
  if (note) note.hidden = Boolean(root);
  if (!root) { if (note) note.querySelector(".seed").textContent = seed; return; }
  reveal(root);
  if (!Number.isNaN(step)) root.player.show(step - root.player.first);
  root.scrollIntoView({ block: "center" });
  root.focus({ preventScroll: true });
}

function openTarget() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (wanted.has("seed")) { openSeed(Number(wanted.get("seed")), wanted.has("step") ? Number(wanted.get("step")) : NaN); return; }
  // A link opens the sections, cards and tabs around its target; "#replay-0:120" also goes to a step.
  const [name, step] = location.hash.slice(1).split(":"), target = name && document.getElementById(name);
  const tab = target && document.querySelector(`[role=tab][aria-controls="${CSS.escape(name)}"]`);
  if (tab) tab.click();
  const player = target && step !== undefined && target.querySelector(".player");
  if (player && player.player) player.player.show(Number(step) - player.player.first);
  if (target) { reveal(target); target.scrollIntoView(); }
}

document.querySelectorAll("table.sortable").forEach(setUpTable);
document.querySelectorAll(".tabs").forEach(setUpTabs);
if (document.getElementById("charts")) setUpCharts();
document.querySelectorAll(".chips").forEach(setUpChips);
document.querySelectorAll("details.weak").forEach((weak) =>
  weak.addEventListener("toggle", () => { if (weak.open) startPlayers(weak); }));
startPlayers(document);
addEventListener("hashchange", openTarget);
openTarget();
