"use strict";
// Charts, drawn by Observable Plot from the data in the script element "charts"; each offers its data as CSV.

const SHADES = { gains: "var(--guided)", loses: "var(--harm)", "same return": "var(--soft)" };
const share = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text); // tips and tables hold it whole

const axisOf = (range, whole) => ({ tickFormat: figure, ...(range ? { domain: range } : { domain: whole, nice: true }) });

// A chart is drawn from its data, for a width in pixels; `view` holds the ranges of the axes while it is zoomed.
const ZOOMABLE = new Set(["seeds", "states", "returns"]);
const CHARTS = {
  forest({ rows, axis }, width) {
    const data = rows.map((row, i) => ({ ...row, place: String(i), tip: `${row.name}: ${row.words}\n${row.figures}` }));
    const narrow = width < 500, left = narrow ? 96 : 330;
    const tone = (row) => (row.low > 0 ? "var(--guided)" : row.high < 0 ? "var(--harm)" : "var(--alone)");
    return Plot.plot({
      width, height: 66 + 22 * rows.length, marginLeft: left, marginTop: 8, marginBottom: 44,
      x: { label: axis, grid: true, nice: true, tickFormat: figure },
      y: { domain: data.map((row) => row.place), label: null, tickSize: 0, tickFormat: (place) => (narrow ? rows[place].name : shorten(`${rows[place].name}: ${rows[place].words}`, 50)) },
      marks: [
        Plot.ruleX([0], { stroke: "var(--soft)" }),
        Plot.ruleY(data, { x1: "low", x2: "high", y: "place", stroke: tone, strokeWidth: 2 }),
        Plot.dot(data, { x: "effect", y: "place", r: 4.5, fill: (row) => (row.confirmed ? tone(row) : "var(--card)"), stroke: tone, strokeWidth: 1.5, href: (row) => row.href || null, ariaLabel: "tip" }),
        Plot.tip(data, Plot.pointerY({ x: "effect", y: "place", title: "tip", lineWidth: 34 })),
      ],
    });
  },

  seeds({ rows }, width, view) {
    const size = Math.min(width, 460), ends = rows.flatMap((row) => [row.unguided, row.guided]);
    const domain = [Math.min(...ends), Math.max(...ends)];
    const data = rows.map((row) => ({ ...row, tip: `seed ${row.seed}: ${row.unguided} → ${row.guided}${row.href ? "\nclick to watch" : ""}` }));
    return Plot.plot({
      width: size, height: size, marginLeft: 52, marginBottom: 46, labelOffset: 38, grid: true, clip: Boolean(view),
      x: { ...axisOf(view?.x, domain), label: "return unguided" }, y: { ...axisOf(view?.y, domain), label: "return guided" },
      marks: [
        Plot.link([0], { x1: domain[0], y1: domain[0], x2: domain[1], y2: domain[1], stroke: "var(--soft)", strokeDasharray: "4 3" }),
        Plot.dot(data.filter((row) => !row.href), { x: "unguided", y: "guided", r: 3, fill: (row) => SHADES[row.result], fillOpacity: 0.55 }),
        Plot.dot(data.filter((row) => row.href), { x: "unguided", y: "guided", r: 6.5, fill: (row) => SHADES[row.result], stroke: "var(--ink)", strokeWidth: 2, href: "href", ariaLabel: "tip" }),
        Plot.tip(data, Plot.pointer({ x: "unguided", y: "guided", title: "tip" })),
      ],
    });
  },

  states({ rows, axes, is_place: isPlace, has_rule: hasRule }, width, view) {
    const size = Math.min(width, 560), most = Math.log1p(Math.max(...rows.map((row) => row.states)));
    const reach = (low, high) => Math.max(...rows.map((row) => row[high])) - Math.min(...rows.map((row) => row[low]));
    const shape = isPlace ? Math.min(1, Math.max(0.25, reach("y1", "y2") / reach("x1", "x2"))) : 0.62;
    const cell = { x1: "x1", x2: "x2", y1: "y1", y2: "y2", inset: 0.25 };
    const data = rows.map((row) => ({ ...row, x: (row.x1 + row.x2) / 2, y: (row.y1 + row.y2) / 2,
      tip: `${row.states} states\nshortly before a failure: ${share(row.before_failure)}\nthe rules hold: ${share(row.rules_hold)}` }));
    return Plot.plot({
      width: size, height: Math.round((size - 72) * shape) + 66, marginLeft: 52, marginBottom: 46, clip: Boolean(view),
      x: { ...(view && { domain: view.x }), label: axes[0], tickFormat: figure }, y: { ...(view && { domain: view.y }), label: axes[1], tickFormat: figure },
      marks: [
        Plot.rect(data, { ...cell, fill: "var(--alone)", fillOpacity: (row) => 0.12 + 0.88 * Math.log1p(row.states) / most }),
        Plot.rect(data.filter((row) => row.before_failure > 0.02), { ...cell, fill: "var(--harm)", fillOpacity: (row) => Math.min(1, 0.15 + row.before_failure) }),
        Plot.rect(data.filter((row) => hasRule && row.rules_hold >= 0.5), { ...cell, inset: 1, stroke: "var(--mark)", strokeWidth: 1.5 }),
        Plot.tip(data, Plot.pointer({ x: "x", y: "y", title: "tip" })),
      ],
    });
  },

  returns({ rows, policies, means, baselines }, width, view) {
    const ends = rows.flatMap((row) => [row.low, row.high]), domain = view?.x || [Math.min(...ends), Math.max(...ends)];
    const near = baselines.filter((one) => one.mean >= domain[0] && one.mean <= domain[1]);
    const tone = (name) => (name === policies[0] ? "var(--alone)" : "var(--guided)");
    const data = rows.map((row) => ({ ...row, tip: `${row.low} to ${row.high}: ${row.episodes} of the episodes` }));
    return Plot.plot({
      width, height: 78 + 95 * policies.length, marginLeft: 52, marginRight: 74, marginBottom: 46, clip: Boolean(view),
      x: { domain, label: "return", tickFormat: figure }, y: { percent: true, label: "episodes (%)", grid: true, ticks: 3 },
      fy: { domain: policies, label: null },
      marks: [
        Plot.rectY(data, { x1: "low", x2: "high", y: "share", fy: "policy", fill: (row) => tone(row.policy), fillOpacity: 0.75, inset: 0.25 }),
        Plot.ruleX(means, { x: "mean", fy: "policy", stroke: "var(--ink)", strokeDasharray: "4 3", strokeWidth: 1.5 }),
        Plot.ruleX(near, { x: "mean", stroke: "var(--reference)", strokeWidth: 2, title: (one) => `${one.policy}: ${one.text}` }),
        Plot.ruleY([0], { stroke: "var(--line)" }),
        Plot.tip(data, Plot.pointerX({ x: (row) => (row.low + row.high) / 2, y: "share", fy: "policy", title: "tip" })),
      ],
    });
  },

  ledger({ rows }, width) {
    const splits = [...new Set(rows.map((row) => row.split))], narrow = width < 500, most = Math.floor(width / (narrow ? 6.8 : 7.4));
    const data = rows.map((row, i) => ({ ...row, place: String(i), tip: `${row.part}: ${row.figures}\non ${share(row.share_of_seeds)} of the seeds` }));
    const low = Math.min(0, ...rows.map((row) => row.low)), high = Math.max(0, ...rows.map((row) => row.high));
    const charts = splits.map((split) => {
      const part = data.filter((row) => row.split === split);
      const box = make("div", {}, make("b", {}, split));
      box.append(Plot.plot({
        width, height: 34 + (narrow ? 54 : 40) * part.length, marginLeft: 20, marginRight: 20, marginTop: 6, marginBottom: 28,
        x: { domain: [low, high], nice: true, label: null, grid: true, ticks: 6, tickFormat: figure },
        y: { domain: part.map((row) => row.place), axis: null, paddingInner: narrow ? 0.66 : 0.55, paddingOuter: narrow ? 0.6 : 0.45 },
        marks: [
          Plot.barX(part, { x: "gain", y: "place", fill: (row) => (row.gain < 0 ? "var(--harm)" : "var(--guided)"), fillOpacity: 0.75 }),
          Plot.ruleX([0], { stroke: "var(--soft)" }),
          Plot.ruleY(part, { x1: "low", x2: "high", y: "place", stroke: "var(--ink)", strokeWidth: 1.5 }),
          Plot.text(part, { y: "place", frameAnchor: "left", textAnchor: "start", lineAnchor: "bottom", dy: -11, text: (row) => shorten(row.part, most - (narrow ? 0 : row.figures.length + 2)).concat(narrow ? "\n" : "  ", row.figures), fill: "var(--ink)", fontSize: 12 }),
          Plot.tip(part, Plot.pointerY({ x: "gain", y: "place", title: "tip", lineWidth: 34 })),
        ],
      }));
      return box;
    });
    return make("div", { class: "parts" }, ...charts);
  },
};

function asCsv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !["href", "figures"].includes(name));
  const cell = (value) => (value === null || value === undefined ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  return [names.join(","), ...rows.map((row) => names.map((name) => cell(row[name])).join(","))].join("\n");
}

function rangeOf(scale, first, last) {
  // The range of an axis between two positions in pixels, at most the axis itself.
  const [low, high] = [...scale.range].sort((a, b) => a - b), within = (pixel) => scale.invert(Math.min(high, Math.max(low, pixel)));
  return [within(first), within(last)].sort((a, b) => a - b);
}

function viewBetween(plot, from, to) {
  // The part of a plot between two corners in pixels.
  const [x, y] = ["x", "y"].map((name) => plot.scale(name));
  return { x: rangeOf(x, from.x, to.x), y: rangeOf(y, from.y, to.y) };
}

function followDrag(box, onDrag) {
  // Call `onDrag` with the corners of every rectangle that is drawn with the mouse; touching scrolls the page, as everywhere.
  const LEAST = 8;
  let from = null, frame = null;
  const corner = (event) => { const area = box.getBoundingClientRect(); return { x: event.clientX - area.left, y: event.clientY - area.top }; };
  const stop = () => { if (frame) frame.remove(); from = frame = null; };
  box.addEventListener("dragstart", (event) => event.preventDefault());
  // In the capture phase, because Plot stops the event where it shows a tip.
  box.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse" && event.button === 0) from = corner(event); }, true);
  box.addEventListener("pointermove", (event) => {
    if (!from) return;
    if (!event.buttons) { stop(); return; } // the button was let go outside
    const to = corner(event), [width, height] = [Math.abs(to.x - from.x), Math.abs(to.y - from.y)];
    if (!frame && Math.max(width, height) < LEAST) return;
    if (!frame) { frame = make("div", { class: "zoom-frame" }); box.append(frame); getSelection().removeAllRanges(); }
    Object.assign(frame.style, { left: `${Math.min(from.x, to.x)}px`, top: `${Math.min(from.y, to.y)}px`, width: `${width}px`, height: `${height}px` });
  });
  box.addEventListener("pointerup", (event) => {
    const first = from, last = corner(event), drawn = frame !== null;
    stop();
    if (drawn && Math.abs(last.x - first.x) >= LEAST && Math.abs(last.y - first.y) >= LEAST) onDrag(first, last);
  });
}

function setUpChart(figure, data) {
  const name = figure.dataset.chart, box = make("div", { class: "drawn" }), tools = make("div", { class: "chart-tools" });
  const link = make("a", { class: "csv", download: `${name}.csv`, href: `data:text/csv;charset=utf-8,${encodeURIComponent(asCsv(data.rows))}` }, "CSV");
  figure.setAttribute("role", "group");
  figure.setAttribute("aria-label", data.label);
  figure.prepend(box);
  figure.append(tools);
  let drawn = 0, view = null, plot = null;
  const draw = () => { plot = CHARTS[data.kind](data, drawn, view); box.replaceChildren(plot); };
  if (ZOOMABLE.has(data.kind)) {
    const whole = make("button", { type: "button", class: "zoom", hidden: "" }, "Whole chart");
    const closer = make("button", { type: "button", class: "zoom", title: "Zoom in on the middle. With a mouse: draw a rectangle." }, "Zoom in");
    const zoom = (next) => { view = next; whole.hidden = !view; draw(); };
    const middle = (scale) => { const [low, high] = scale.range; return [low + (high - low) / 4, high - (high - low) / 4]; };
    closer.addEventListener("click", () => {
      const [x, y] = ["x", "y"].map((axis) => middle(plot.scale(axis)));
      zoom(viewBetween(plot, { x: x[0], y: y[0] }, { x: x[1], y: y[1] }));
    });
    whole.addEventListener("click", () => { zoom(null); closer.focus(); });
    box.addEventListener("dblclick", () => zoom(null));
    followDrag(box, (from, to) => zoom(viewBetween(plot, from, to)));
    tools.append(closer, whole);
  }
  tools.append(link);
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width && Math.abs(width - drawn) > 1) { drawn = width; draw(); }
  }).observe(box);
}

function setUpCharts() {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  for (const figure of document.querySelectorAll("figure[data-chart]")) setUpChart(figure, charts[figure.dataset.chart]);
}
