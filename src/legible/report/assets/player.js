"use strict";
// Replay player: one seed, unguided and guided, step by step. Frames are plain data and drawn here.
// A module of the workbench; the report holds it as a plain script, without the word "export".

const GHOSTS = ["#ed1c24", "#ffa0c8", "#00d6de", "#ffa528"];
const DIRECTIONS = [[0, -1], [0, 1], [1, 0], [-1, 0]]; // north, south, east, west on a canvas, whose y points down
const FRIGHT_ENDS = 10;

function sizeCanvas(canvas, width, height) {
  // Match the pixels of the screen to avoid blur; both sides get the same size, also if a column is a pixel wider.
  const sides = canvas.closest(".sides"), both = sides ? [...sides.querySelectorAll("canvas")] : [canvas];
  const least = Math.min(...both.map((one) => one.clientWidth || 300));
  const shown = Math.max(60, least) * Math.min(2, window.devicePixelRatio || 1);
  const w = Math.round(shown), h = Math.round(shown * height / width);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
}

class PacmanDrawer {
  constructor(layout, frames) { this.layout = layout; this.frames = frames; this.last = frames.places.length - 1; }

  fit(canvas) { sizeCanvas(canvas, this.layout.width, this.layout.height); }

  draw(canvas, step) {
    this.fit(canvas);
    const g = canvas.getContext("2d"), cell = canvas.width / this.layout.width, height = this.layout.height;
    const t = Math.min(step, this.last);
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.fillStyle = "#000";
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.setTransform(cell, 0, 0, cell, 0.5 * cell, (height - 0.5) * cell); // centres of cells, y still down
    this.walls(g);
    g.fillStyle = "#ffc8aa";
    for (const [list, radius] of [[this.frames.food, 0.1], [this.frames.capsules, 0.27]])
      for (const [x, y, gone] of list)
        if (gone < 0 || gone > t) this.disc(g, x, -y, radius);
    const row = this.frames.places[t];
    this.pacman(g, row[0], -row[1], row[2], t);
    for (let i = 3, k = 0; i < row.length; i += 4, k++)
      this.ghost(g, row[i] / 2, -row[i + 1] / 2, row[i + 2], row[i + 3], GHOSTS[k % GHOSTS.length], k);
  }

  walls(g) {
    const rows = this.layout.walls, at = (x, y) => (rows[y] || "")[x] === "%";
    g.lineCap = g.lineJoin = "round";
    for (const [colour, width] of [["#2e5cff", 0.6], ["#060c30", 0.46]]) {
      g.strokeStyle = g.fillStyle = colour;
      g.lineWidth = width;
      g.beginPath();
      for (let y = 0; y < rows.length; y++)
        for (let x = 0; x < this.layout.width; x++) {
          if (!at(x, y)) continue;
          g.moveTo(x, -y);
          g.lineTo(x + (at(x + 1, y) ? 1 : 0), -y);
          if (at(x, y + 1)) { g.moveTo(x, -y); g.lineTo(x, -y - 1); }
          if (at(x + 1, y) && at(x, y + 1) && at(x + 1, y + 1)) g.fillRect(x, -y - 1, 1, 1);
        }
      g.stroke();
    }
  }

  disc(g, x, y, radius) { g.beginPath(); g.arc(x, y, radius, 0, 2 * Math.PI); g.fill(); }

  pacman(g, x, y, facing, t) {
    const turn = [-Math.PI / 2, Math.PI / 2, 0, Math.PI][facing] || 0, open = t % 2 && facing < 4 ? 0.25 : 0.65;
    g.fillStyle = "#ffdd00";
    g.beginPath();
    g.moveTo(x, y);
    g.arc(x, y, 0.43, turn + open, turn + 2 * Math.PI - open);
    g.fill();
  }

  ghost(g, x, y, heading, timer, colour, number) {
    const flashing = timer > 0 && timer <= FRIGHT_ENDS && timer % 2 === 1;
    g.fillStyle = timer === 0 ? colour : flashing ? "#ebebf5" : "#283ce6";
    g.beginPath();
    g.arc(x, y - 0.03, 0.4, Math.PI, 0);
    for (let i = 0; i <= 6; i++) g.lineTo(x + 0.4 - i * 0.8 / 6, y + (i % 2 ? 0.28 : 0.4));
    g.closePath();
    g.fill();
    const [dx, dy] = DIRECTIONS[heading] || [0, 0];
    for (const side of [-0.16, 0.16]) {
      if (timer) { g.fillStyle = flashing ? "#283ce6" : "#ffc8aa"; this.disc(g, x + side, y - 0.1, 0.06); continue; }
      g.fillStyle = "#fff"; this.disc(g, x + side, y - 0.1, 0.12);
      g.fillStyle = "#141e78"; this.disc(g, x + side + 0.05 * dx, y - 0.1 + 0.05 * dy, 0.07);
    }
    label(g, x, y + 0.2, number, 0.4, flashing ? "#283ce6" : "#fff"); // as rules call it
  }
}

function label(g, x, y, text, size, colour) {
  // In pixels, not in the drawing's units: letters smaller than a pixel are not drawn well.
  const t = g.getTransform(), point = new DOMPoint(x, y).matrixTransform(t);
  g.save();
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.font = `bold ${Math.max(9, size * t.a)}px system-ui, sans-serif`;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillStyle = colour;
  g.fillText(text, point.x, point.y);
  g.restore();
}

class RoadDrawer {
  constructor(layout, frames) { this.layout = layout; this.frames = frames; }

  draw(canvas, step) {
    const layout = this.layout, row = this.frames.moments[Math.min(step, this.frames.moments.length - 1)];
    const closer = layout.straight && canvas.clientWidth < 500 ? 2 : 1; // on a phone, half the road
    sizeCanvas(canvas, layout.width / closer, layout.height);
    const g = canvas.getContext("2d"), metre = canvas.width * closer / layout.width, camera = row[0] / 10;
    const left = layout.straight ? layout.view.behind / closer : layout.view.around;
    const top = layout.straight ? layout.view.top : -layout.view.around;
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.fillStyle = "#cdd8c4";
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.setTransform(metre, 0, 0, metre, left * metre, -top * metre); // metres from the camera, y down
    this.lanes(g, camera);
    g.fillStyle = "#e69628";
    for (const [x, y] of layout.obstacles)
      g.fillRect(x - camera - layout.obstacle[0] / 2, y - layout.obstacle[1] / 2, ...layout.obstacle);
    for (let i = row.length - 5; i > 0; i -= 5) // ego, the first, on top
      this.vehicle(g, row[i] / 10, row[i + 1] / 10, row[i + 2] / 100, row[i + 3], i === 1);
    for (let i = row.length - 5; i > 1; i -= 5) // the numbers that rules use for them
      if (row[i + 4]) label(g, row[i] / 10, row[i + 1] / 10, row[i + 4], layout.vehicle[1] * 1.1, "#fff");
  }

  lanes(g, camera) {
    const shapes = this.layout.lanes.map((lane) => ({ ...lane, points: this.inView(lane.points, camera) }))
      .filter((lane) => lane.points.length);
    for (const [colour, wider] of [["#f0f0eb", 0.6], ["#62666c", 0.1]]) { // a little wider than the lane, to hide seams
      g.strokeStyle = colour;
      for (const lane of shapes) { g.lineWidth = lane.width + wider; this.path(g, lane.points, 0, camera); g.stroke(); }
    }
    g.strokeStyle = "#f0f0eb";
    g.lineWidth = 0.3;
    g.setLineDash([3, 6]);
    for (const lane of shapes) if (lane.striped) {
      g.lineDashOffset = lane.points.length === 2 ? (lane.points[0][0] % 9 + 9) % 9 : 0;
      this.path(g, lane.points, lane.width / 2, camera);
      g.stroke();
    }
    g.setLineDash([]);
  }

  inView(points, camera) {
    // Cut long straight lanes to the view: dashes along ten kilometres are slow to draw.
    if (points.length !== 2 || points[0][1] !== points[1][1] || !this.layout.straight) return points;
    const from = Math.max(points[0][0], camera - this.layout.view.behind - 9);
    const to = Math.min(points[1][0], camera + this.layout.view.ahead + 9);
    return from < to ? [[from, points[0][1]], [to, points[1][1]]] : [];
  }

  path(g, points, toTheLeft, camera) {
    g.beginPath();
    points.forEach(([x, y], i) => {
      const [a, b] = [points[Math.max(0, i - 1)], points[Math.min(points.length - 1, i + 1)]];
      const dx = b[0] - a[0], dy = b[1] - a[1], length = Math.hypot(dx, dy) || 1;
      g.lineTo(x - camera + toTheLeft * dy / length, y - toTheLeft * dx / length);
    });
  }

  vehicle(g, x, y, heading, crashed, isEgo) {
    const [length, width] = this.layout.vehicle;
    g.save();
    g.translate(x, y);
    g.rotate(heading);
    g.fillStyle = crashed ? "#d63e34" : isEgo ? "#18a058" : "#5691d6";
    g.fillRect(-length / 2, -width / 2, length, width);
    g.fillStyle = "#242c36";
    g.fillRect(length * 0.12, -width * 0.4, length * 0.16, width * 0.8);
    g.restore();
  }
}

class PictureDrawer {
  constructor(layout, frames) {
    this.layout = layout; this.frames = frames;
    this.images = frames.pictures.map((data) => Object.assign(new Image(), { src: data }));
  }

  draw(canvas, step) {
    sizeCanvas(canvas, this.layout.width, this.layout.height);
    let k = 0; // the last picture that was taken by this step
    while (k + 1 < this.frames.steps.length && this.frames.steps[k + 1] <= step) k++;
    const image = this.images[this.frames.numbers[k]];
    canvas.dataset.picture = k;
    const paint = () => {
      if (canvas.dataset.picture === String(k))
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    };
    if (image.complete) paint(); else image.addEventListener("load", paint, { once: true });
  }
}

class FeatureDrawer {
  constructor(layout, frames) { this.layout = layout; this.frames = frames; }

  draw(box, step) {
    const row = this.frames.rows[Math.min(step, this.frames.rows.length - 1)];
    box.replaceChildren(...this.layout.features.flatMap((name, i) => [make("span", {}, name), make("b", {}, String(row[i]))]));
  }
}

export const DRAWERS = { pacman: PacmanDrawer, road: RoadDrawer, pictures: PictureDrawer, features: FeatureDrawer };
const ENDS = { success: "won", failure: "lost", "cut off": "cut off", end: "over", "shown so far": "shown so far" };

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") node.style.cssText = value; // the attribute is refused where the page has a strict policy
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

export function figure(value) {
  const text = Number.isInteger(value) ? String(Math.abs(value)) : Math.abs(value).toPrecision(4).replace(/\.?0+$/, "");
  return (value < 0 ? "−" : "") + text;
}

const PLAYER_EXTRAS = []; // functions that add something to every player
const LONG = 200; // steps; in longer episodes single steps are too narrow to see

export class Player {
  constructor(root, replay) {
    this.root = root; this.replay = replay; this.step = 0; this.timer = null;
    this.last = Math.max(...replay.sides.map((side) => side.actions.length));
    this.names = replay.names || ["Unguided", "Guided"];
    this.first = replay.first || 0; // the step of the episode that is shown first
    this.single = replay.sides.length === 1;
    this.stops = [...new Set(replay.sides[replay.sides.length - 1].marks.map((mark) => mark[0]))];
    replay.sides.forEach((side) => {
      side.preferred = new Map(side.drawn);
      side.at = new Map(side.marks.map((mark) => [mark[0], mark]));
      side.sums = [side.earned || 0]; // the return before the first step shown
      side.rewards.forEach((reward) => side.sums.push(side.sums[side.sums.length - 1] + reward));
    });
    this.build();
    PLAYER_EXTRAS.forEach((add) => add(this));
    this.show(Math.min(replay.branches_at, this.last));
    new ResizeObserver(() => this.show(this.step)).observe(root);
  }

  build() {
    const replay = this.replay, layout = replay.layout;
    const about = make("p", { class: "about" }, `Seed ${replay.seed}, ${replay.why}. `);
    if (!this.single && replay.branches_at < this.last)
      about.append(replay.branches_at ? `Both are equal up to step ${this.first + replay.branches_at}.` : "They differ from the first step.");
    if (layout.note) about.append(` ${layout.note}`);
    const shape = layout.width / layout.height;
    const sides = make("div", { class: this.single ? "sides wide one" : shape > 4 ? "sides wide long" : shape > 1.6 ? "sides wide" : "sides" });
    this.panels = replay.sides.map((side, i) => this.panel(side, i, sides));
    this.root.replaceChildren(about, sides, this.timeline(), this.traces(), this.controls());
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", this.single ? `Replay of seed ${replay.seed}` : `Replay of seed ${replay.seed}, side by side: ${this.names.join(", ")}`);
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  panel(side, i, sides) {
    const kind = this.replay.kind, drawer = new DRAWERS[kind](this.replay.layout, side.frames);
    const screen = kind === "features" ? make("div", { class: "values" }) : make("canvas", { role: "img" });
    const score = make("span", { class: "figures" }), says = make("div", { class: "says" });
    const head = make("div", { class: "head" }, make("b", {}, this.names[i]), score), lamps = make("div", { class: "lamps" });
    sides.append(make("div", { class: `side ${i ? "guided" : "alone"}` }, head, screen, says, lamps));
    return { side, drawer, screen, score, says, lamps };
  }

  timeline() {
    const line = make("div", { class: "line" });
    this.heads = this.replay.sides.map((side, i) => {
      const track = make("div", { class: `track ${i ? "guided" : "alone would"}`, onclick: (event) => this.seek(event, track, side) });
      track.append(make("span", { class: "life", style: `width:${100 * side.actions.length / this.last}%` }));
      if (!this.single && this.replay.branches_at < this.last)
        track.append(make("span", { class: "part", style: `left:${100 * this.replay.branches_at / this.last}%` }));
      for (const [from, to] of this.stretches(side.marks.map((mark) => mark[0])))
        track.append(make("span", { class: "m", style: `left:${100 * from / this.last}%;width:${100 * (to - from) / this.last}%` }));
      const head = make("span", { class: "at" });
      track.append(head);
      line.append(make("span", {}, this.replay.tracks ? this.replay.tracks[i] : this.replay.names ? (i ? "better" : "as played") : i ? "guided" : "unguided"), track);
      return head;
    });
    this.range = make("input", {
      type: "range", min: 0, max: this.last, step: 1, "aria-label": "step",
      oninput: () => { this.pause(); this.show(Number(this.range.value)); },
    });
    line.append(make("span", {}, "step"), this.range);
    return line;
  }

  traces() {
    const box = make("div", { class: "traces" });
    this.plots = (this.replay.traces || []).map((trace) => {
      const dashed = trace.wanted ? "; dotted: wanted by the policy" : trace.cuts.length ? "; dashed: thresholds" : "";
      const part = this.last > LONG ? ` (${LONG} steps)` : "";
      const label = `${trace.name}${part}${this.single ? "" : `: ${this.names.join(", ").toLowerCase()}`}${dashed}`;
      const canvas = make("canvas", { role: "img", "aria-label": label, title: label });
      canvas.addEventListener("click", (event) => {
        const area = canvas.getBoundingClientRect(), { from, shown } = this.window();
        this.pause();
        this.show(Math.round(from + (event.clientX - area.left) / area.width * shown));
      });
      box.append(make("div", {}, label, canvas));
      const all = [...trace.values.flat(), ...trace.cuts, ...(trace.wanted || [])], low = Math.min(...all), high = Math.max(...all);
      return { trace, canvas, low, high: high > low ? high : low + 1 };
    });
    return box;
  }

  window() {
    // The steps that traces show: in long episodes those around the current one, or fast changes would be a block.
    const shown = Math.min(this.last, LONG);
    return { from: Math.max(0, Math.min(this.last - shown, this.step - shown / 2)), shown };
  }

  trace({ trace, canvas, low, high }) {
    // Draw both episodes, the thresholds, and the current step.
    const ratio = Math.min(2, window.devicePixelRatio || 1), style = getComputedStyle(this.root);
    canvas.width = Math.max(60, canvas.clientWidth) * ratio;
    canvas.height = Math.max(30, canvas.clientHeight) * ratio;
    const { from, shown } = this.window(), g = canvas.getContext("2d"), x = (step) => (step - from) / Math.max(1, shown) * canvas.width;
    const y = (value) => canvas.height * (0.94 - 0.88 * (value - low) / (high - low));
    const line = (colour, points, dash = []) => {
      g.strokeStyle = style.getPropertyValue(colour);
      g.lineWidth = ratio;
      g.setLineDash(dash);
      g.beginPath();
      points.forEach(([a, b]) => g.lineTo(a, b));
      g.stroke();
    };
    for (const cut of trace.cuts) line("--mark", [[0, y(cut)], [canvas.width, y(cut)]], [4 * ratio, 3 * ratio]);
    trace.values.forEach((values, i) => line(i ? "--guided" : "--alone", values.map((value, step) => [x(step), y(value)])));
    if (trace.wanted) line("--mark", trace.wanted.map((value, step) => [x(step), y(value)]), [2 * ratio, 2 * ratio]);
    line("--ink", [[x(this.step), 0], [x(this.step), canvas.height]]);
  }

  stretches(steps) {
    // Return [from, to] of each mark; in long episodes consecutive steps are merged.
    if (this.last <= LONG) return steps.map((step) => [step, step]);
    const found = [];
    for (const step of steps) {
      if (found.length && found[found.length - 1][1] === step) found[found.length - 1][1] = step + 1;
      else found.push([step, step + 1]);
    }
    return found;
  }

  controls() {
    this.playButton = make("button", { type: "button", class: "main", onclick: () => this.toggle() }, "▶ Play");
    this.speed = make("select", { "aria-label": "speed", onchange: () => { if (this.timer) { this.pause(); this.play(); } } },
      ...[[2, "slow"], [6, "normal"], [15, "fast"], [40, "very fast"]].map(([rate, name]) =>
        make("option", rate === 6 ? { value: rate, selected: "" } : { value: rate }, name)));
    this.count = make("span", { class: "step" });
    const button = (label, title, act) =>
      make("button", { type: "button", title, "aria-label": title, onclick: () => { this.pause(); act(); } }, label);
    const controls = make("div", { class: "controls" }, this.playButton,
      button("◀", "one step back", () => this.show(this.step - 1)),
      button("▶", "one step on", () => this.show(this.step + 1)));
    if (this.stops.length) {
      controls.append(
        button("« rule", "previous step in which a rule changes the action", () => this.jump(-1)),
        button("rule »", "next step in which a rule changes the action", () => this.jump(1)));
    }
    controls.append(this.speed, this.count);
    return controls;
  }

  key(event) {
    if (event.target.matches("input, select")) return;
    const acts = { ArrowLeft: () => this.show(this.step - 1), ArrowRight: () => this.show(this.step + 1),
      n: () => this.jump(1), p: () => this.jump(-1) };
    if (acts[event.key]) { this.pause(); acts[event.key](); event.preventDefault(); }
    if (event.key === " " && event.target === this.root) { this.toggle(); event.preventDefault(); }
  }

  seek(event, track, side) {
    const box = track.getBoundingClientRect(), step = (event.clientX - box.left) / box.width * this.last;
    this.pause();
    const near = side.marks.map((mark) => mark[0]).filter((mark) => Math.abs(mark - step) * box.width / this.last < 6);
    near.sort((a, b) => Math.abs(a - step) - Math.abs(b - step));
    this.show(near.length ? near[0] : Math.round(step));
  }

  jump(way) {
    const ahead = way > 0 ? this.stops.filter((s) => s > this.step) : this.stops.filter((s) => s < this.step).reverse();
    if (ahead.length) this.show(ahead[0]);
  }

  toggle() { if (this.timer) this.pause(); else this.play(); }

  play() {
    if (this.step >= this.last) this.show(0);
    this.playButton.textContent = "❚❚ Pause";
    this.timer = setInterval(() => {
      if (this.step >= this.last) this.pause(); else this.show(this.step + 1);
    }, 1000 / Number(this.speed.value));
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = "▶ Play";
  }

  show(step) {
    this.step = Math.max(0, Math.min(this.last, step));
    this.panels.forEach((panel, i) => {
      panel.drawer.draw(panel.screen, Math.min(this.step, panel.side.actions.length));
      this.caption(panel, i);
      this.light(panel);
    });
    this.heads.forEach((head) => { head.style.left = `${100 * this.step / this.last}%`; });
    this.plots.forEach((plot) => this.trace(plot));
    this.range.value = this.step;
    this.count.textContent = `step ${this.first + this.step} of ${this.first + this.last}`;
    this.root.dataset.step = this.step;
    this.root.dispatchEvent(new CustomEvent("step"));
  }

  light({ side, lamps }) {
    // Show the current or next deciding rule, and light up the conditions that hold.
    if (!side.holds || !side.marks.length) return;
    const t = Math.min(this.step, side.actions.length - 1);
    const mark = side.marks.find((entry) => entry[0] >= t) || side.marks[side.marks.length - 1], rule = mark[3][0];
    const { does, when } = this.replay.parts[rule], card = this.replay.weaknesses[rule];
    const where = mark[0] === t ? "The rule" : `The rule of step ${this.first + mark[0]}`;
    lamps.replaceChildren(`${where}: ${does}${when.length ? " when" : ""} `, ...when.flatMap((words, i) => {
      const isOn = holds(side.holds[rule][i], t);
      return [make("span", { class: isOn ? "lamp on" : "lamp" }, `${isOn ? "✓" : "✗"} ${words}`), " "];
    }), ...(card ? [make("a", { href: `#weakness-${card}` }, `weakness ${card}`)] : []));
  }

  caption(panel, guided) {
    const { side, score, says, screen } = panel, t = this.step, n = side.actions.length, words = this.replay.actions;
    score.textContent = `${t < n ? "return so far" : "return"} ${figure(side.sums[Math.min(t, n)])}`;
    const mark = t < n ? side.at.get(t) : undefined;
    says.classList.toggle("marked", Boolean(mark));
    const lines = [], of = side.seats && t < n ? ` of ${side.seats[t]}` : "";
    if (t >= n) {
      lines.push(make("b", {}, `${side.ending || ENDS[side.end]} after ${this.first + n} steps, return ${figure(side.return)}`));
    } else if (!mark) {
      lines.push(side.preferred.has(t)
        ? `random action${of}: ${words[side.actions[t]]}; preferred: ${words[side.preferred.get(t)]}`
        : `action${of}: ${words[side.actions[t]]}`);
    } else {
      const rule = this.replay.rules[mark[3][0]], more = mark[3].length > 1 ? ` (and ${mark[3].length - 1} more rules)` : "";
      const [, first, second, , byChance, spared] = mark, alone = words[first], instead = words[second];
      lines.push(make("b", {}, guided
        ? `A rule changes the action${of}: ${instead} instead of ${byChance ? "a random action, " : ""}${alone}`
          : `Action${of}: ${alone}${byChance ? " (random)" : ""}; a rule would change it: ${instead}`));
      // The lamps below show the conditions of the rule, if there are any.
      if (spared || more || !side.holds) lines.push(make("br"), spared ? "No random actions where a rule holds: " : "", `“${rule}”${more}`);
    }
    says.replaceChildren(...lines);
    if (screen.tagName === "CANVAS") screen.setAttribute("aria-label", `step ${this.first + t}: ${says.textContent}`);
  }
}

function holds(changes, step) {
  // Return whether a condition that starts and stops at these steps holds.
  return changes.filter((change) => change <= step).length % 2 === 1;
}

function startPlayers(scope) {
  const replays = JSON.parse(document.getElementById("replays").textContent);
  for (const root of scope.querySelectorAll(".player[data-replay]")) {
    if (root.player || root.closest("details.weak:not([open])")) continue; // built when it is opened
    root.player = new Player(root, replays[Number(root.dataset.replay)]);
  }
}
