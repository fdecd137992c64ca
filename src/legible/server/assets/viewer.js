// The episode viewer: any recorded episode step by step; at any step, what another action would have led to.
import { DRAWERS, Player, figure, make } from "./player.js";
import { drawBars, effectLine } from "./bench.js";
import { saying } from "./api.js";

const PLAY_MS = 160, BARS = 24;
// Orders of the list of episodes: words, and how two episodes compare.
const ORDERS = {
  episode: ["in order", (a, b) => a.episode - b.episode],
  worst: ["lowest return first", (a, b) => a.return - b.return],
  best: ["highest return first", (a, b) => b.return - a.return],
  lost: ["by ending", (a, b) => a.ending.localeCompare(b.ending)],
  changes: ["most changed by the rule first", (a, b) => b.changes - a.changes],
  mistakes: ["most mistakes first", (a, b) => b.mistakes - a.mistakes],
};
const SOURCES = { experiences: "recorded", mistakes: "searched for mistakes" };

export class Viewer {
  constructor(root, shared) {
    Object.assign(this, { root, shared, source: "experiences", step: 0, timer: null, gains: null });
    const { sources } = shared.about; // numbers of episodes, by the stage that recorded them
    this.sources = make("select", { id: "source", onchange: () => this.change(this.sources.value) },
      ...Object.keys(sources).map((name) => make("option", { value: name }, `${SOURCES[name]} (${sources[name]} episodes)`)));
    this.order = make("select", { id: "order", onchange: () => this.drawList() },
      ...Object.entries(ORDERS).map(([value, [words]]) => make("option", { value }, words)));
    this.order.value = "worst";
    this.problem = make("p", { class: "error", role: "alert", hidden: "" });
    this.ledger = make("div", { class: "scroll ledger" });
    this.box = make("div", { id: "episode" });
    root.replaceChildren(
      make("h1", {}, "Which decision cost an episode?"),
      make("p", { class: "soft" }, "Choose an episode. “Find the costliest decision” tries what else the policy could have done; "
        + "or scrub to a step and choose another action there."),
      make("div", { class: "controls" }, make("label", {}, "Episodes ", this.sources), make("label", {}, "Order ", this.order)),
      this.ledger, this.problem, this.box);
    shared.keys.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.data && this.draw()).observe(root);
    this.listed = this.list();
  }

  // The arrow keys go one step back and on, unless something else has the focus that uses them.
  key(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!way || !this.data || this.root.hidden || !this.box.isConnected) return;
    if (event.target.matches("input, select, textarea") || event.target.closest(".player")) return;
    this.pause();
    this.go(this.step + way);
    event.preventDefault();
  }

  // The rule on the bench that makes sense, which is shown at work in recorded episodes.
  get rule() { return this.shared.good || ""; }

  body() { return { source: this.source, ...(this.rule && this.source === "experiences" ? { rule: this.rule } : {}) }; }

  async show(options) {
    await this.listed;
    if (this.rule !== this.listedRule) this.listed = this.list();
    if (options.source && options.source !== this.source) {
      this.source = this.sources.value = options.source;
      await this.list();
    }
    if (options.episode !== undefined) this.open(Number(options.episode), options.step === undefined ? undefined : Number(options.step));
    else if (!this.data && this.rows.length) this.open(this.rows[0].episode);
    else if (this.data && this.rule !== this.shownRule) this.open(this.data.episode, this.step);
  }

  // Show the episodes of another stage, and the first one in the list.
  async change(source) {
    this.source = source;
    this.order.value = source === "mistakes" ? "mistakes" : "worst";
    await this.list();
    if (this.rows.length) this.open(this.rows[0].episode);
  }

  async list() {
    this.listedRule = this.rule;
    const found = await saying(this.problem, () => this.shared.api.ask("episodes", this.body()));
    if (!found) return;
    this.episodes = found.episodes;
    this.drawList();
  }

  drawList() {
    this.rows = [...this.episodes].sort(ORDERS[this.order.value][1]);
    const columns = [["return", (one) => figure(one.return)], ["steps", (one) => one.steps], ["ending", (one) => one.ending || "–"]];
    if (this.source === "mistakes") columns.push(["mistakes", (one) => one.mistakes]);
    if (this.listedRule && this.source === "experiences") columns.push(["rule changes", (one) => one.changes]);
    const rows = this.rows.map((one) => make("tr", { "data-episode": one.episode },
      make("td", {}, make("button", { class: "link", onclick: () => this.shared.go("episodes", { episode: one.episode, source: this.source }) },
        `episode ${one.episode}`)),
      ...columns.map(([, textOf]) => make("td", {}, String(textOf(one))))));
    const heads = ["episode", ...columns.map(([name]) => name)].map((name) => make("th", {}, name));
    this.ledger.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
    this.markShown();
  }

  markShown() {
    const shown = this.data && this.data.source === this.source ? String(this.data.episode) : "";
    for (const row of this.ledger.querySelectorAll("tr")) row.classList.toggle("chosen", Boolean(shown) && row.dataset.episode === shown);
  }

  // Show an episode at a step, by default where it matters.
  async open(episode, step = undefined) {
    const data = this.data;
    if (data && data.episode === episode && data.source === this.source && this.shownRule === this.rule) {
      this.go(step ?? data.start);
      return;
    }
    this.pause();
    const found = await saying(this.problem, () => this.shared.api.ask("episode", { ...this.body(), episode }));
    if (!found) return;
    this.shownRule = this.rule;
    this.data = found;
    this.gains = null; // of other actions, once they have been tried
    this.use(found);
    this.build();
    this.go(step ?? found.start);
    this.markShown();
  }

  use(frames) {
    this.window = frames;
    this.drawer = new DRAWERS[frames.kind](frames.layout, frames.frames);
  }

  build() {
    const data = this.data, last = data.steps;
    this.legendBox = null;
    this.title = make("h2", {});
    this.says = make("p", { id: "says", "aria-live": "polite" });
    this.prefs = make("div", { class: "prefs" });
    this.values = make("div", { class: "values-box scroll" });
    this.futures = make("div", { id: "futures" });
    this.scanned = make("p", { id: "scanned", role: "status" });

    // The picture of a step, no higher than half of the window, so that the controls stay in view.
    const { width, height } = data.layout;
    this.screen = data.kind === "features" ? make("div", { class: "values" })
      : make("canvas", { role: "img", style: `max-width:${Math.round(50 * width / height)}vh` });
    this.strip = make("canvas", { class: "strip", role: "img", "aria-label": "timeline: rule firings, mistakes and gains of other actions",
      onclick: (event) => {
        const box = this.strip.getBoundingClientRect();
        this.pause();
        this.go(Math.round((event.clientX - box.left) / box.width * last));
      } });
    this.scrub = make("input", { type: "range", class: "scrub", min: 0, max: last, step: 1, id: "scrub", "aria-label": "step",
      oninput: () => { this.pause(); this.go(Number(this.scrub.value)); } });

    // Buttons, and the steps that they go to.
    const button = (words, title, act, attributes = {}) =>
      make("button", { title, onclick: () => { this.pause(); act(); }, ...attributes }, words);
    this.scanButton = button("Find the costliest decision", "tries every other action at the last 40 decisions, up to the step that you chose or to the end",
      () => this.scan(), { id: "scan", class: "main" });
    this.playButton = make("button", { onclick: () => (this.timer ? this.pause() : this.play()) }, "▶ Play");
    const buttons = [this.scanButton, this.playButton,
      button("◀", "one step back", () => this.go(this.step - 1)),
      button("▶", "one step on", () => this.go(this.step + 1)),
      button("End", "the ending", () => this.go(last))];
    const stops = [["rule", "step that the rule changes", data.changes || []], ["mistake", "proven mistake", data.mistakes.map((one) => one.step)]];
    for (const [word, words, steps] of stops) if (steps.length)
      buttons.push(button(`« ${word}`, `previous ${words}`, () => this.jump(steps, -1)), button(`${word} »`, `next ${words}`, () => this.jump(steps, 1)));
    if (data.scores.length && data.choices[0].length === 1)
      buttons.push(button("Least certain step", "the step in which the policy's two best actions are closest", () => this.go(this.closest())));

    this.box.replaceChildren(this.title,
      make("div", { class: "stage" },
        make("div", { class: "screen" }, this.screen, this.scrub, this.strip, this.legend(), make("div", { class: "controls" }, ...buttons),
          this.scanned, this.says),
        make("div", {}, make("h3", {}, "What the policy prefers here"),
          make("p", { class: "soft" }, "Choose another action to see what it would have led to."), this.prefs,
          make("h3", {}, "Features"), this.values)),
      this.futures);
  }

  // Return what the colours of the strip mean, as far as they appear in it.
  legend() {
    const data = this.data, colours = [
      [(data.fires || []).length, "--soft", "the rule holds"],
      [(data.changes || []).length, "--mark", "the rule changes the action"],
      [data.mistakes.length, "--harm", "proven mistake"],
      [this.gains, "--harm", "another action would have returned more"],
    ];
    const box = make("div", { class: "legend" }, ...colours.filter(([appears]) => appears).map(([, colour, words]) =>
      make("span", {}, make("i", { style: `background:var(${colour})` }), words)));
    if (this.legendBox) this.legendBox.replaceWith(box);
    this.legendBox = box;
    return box;
  }

  jump(steps, way) {
    const ahead = way > 0 ? steps.filter((s) => s > this.step) : steps.filter((s) => s < this.step).reverse();
    if (ahead.length) this.go(ahead[0]);
  }

  closest() {
    const margins = this.data.scores.map((row) => {
      const best = row.filter((score) => score !== null).sort((a, b) => b - a);
      return best.length > 1 ? best[0] - best[1] : Infinity;
    });
    return margins.indexOf(Math.min(...margins));
  }

  play() {
    if (this.step >= this.data.steps) this.go(0);
    this.playButton.textContent = "❚❚ Pause";
    this.timer = setInterval(() => { if (this.step >= this.data.steps) this.pause(); else this.go(this.step + 1); }, PLAY_MS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.playButton) this.playButton.textContent = "▶ Play";
  }

  async go(step) {
    const data = this.data;
    this.step = Math.max(0, Math.min(data.steps, step));
    if (data.kind === "pictures" && (this.step < this.window.first || this.step > this.window.until) && !this.loading) {
      this.loading = true;
      const found = await saying(this.problem, () => this.shared.api.ask("frames", { source: data.source, episode: data.episode, first: Math.max(0, this.step - 10) }));
      this.loading = false;
      if (found && this.data === data) {
        this.use(found);
        if (found.rewards.length > data.rewards.length) data.rewards = found.rewards;
      }
    }
    this.draw();
  }

  draw() {
    const data = this.data, t = this.step, over = t >= data.steps;
    this.title.textContent = `Episode ${data.episode} of ${data.of}: ${data.ending || "over"}, return ${figure(data.return)} in ${data.steps} steps`;
    this.drawer.draw(this.screen, Math.max(0, t - (data.kind === "pictures" ? this.window.first : 0)));
    this.scrub.value = t;
    this.root.dataset.step = t;
    const earned = data.rewards.slice(0, t).reduce((a, b) => a + b, 0), parts = [`Step ${t} of ${data.steps}, return so far ${figure(Number(earned.toPrecision(6)))}. `];
    if (over) parts.push(make("b", {}, `${data.ending || "The episode is over"}.`));
    else {
      parts.push(make("b", {}, `Action: ${data.words[data.actions[t]] ?? "?"}. `));
      if ((data.fires || []).includes(t)) parts.push((data.changes || []).includes(t) ? "The rule on the bench changes it. " : "The rule on the bench holds, and agrees. ");
      for (const one of data.mistakes.filter((found) => found.step === t)) parts.push(make("b", { class: "error" }, `A proven mistake: ${one.words}. `));
    }
    this.says.replaceChildren(...parts);
    this.drawPreferences(over);
    this.drawValues(Math.min(t, data.values.length - 1));
    this.drawStrip();
  }

  // A button for each action, with the policy's preference as a bar: it asks what the action would have led to.
  drawPreferences(over) {
    if (over) { this.prefs.replaceChildren(make("p", { class: "soft" }, "The episode is over.")); return; }
    const data = this.data, t = this.step, { actions } = this.shared.about;
    const scores = data.scores[t] || [], known = scores.filter((score) => score !== null);
    const low = Math.min(...known, 0), high = Math.max(...known, low + 1e-9);
    const isShare = this.shared.about.scores === "log-probabilities";
    const at = (data.changes || []).indexOf(t); // the place of this step among those that the rule changes
    this.prefs.replaceChildren(...actions.map((action, choice) => {
      const score = scores[choice]; // null: not allowed here; undefined: this policy has no preferences
      const taken = data.choices[t].includes(choice), byRule = at >= 0 && data.instead[at].includes(choice) && !taken;
      let words = "", width = 0;
      if (score === null) words = "not allowed";
      else if (score !== undefined) {
        words = isShare ? `${(100 * score).toFixed(1)} %` : figure(score);
        width = 100 * (isShare ? score : (score - low) / (high - low));
      }
      return make("button", {
        class: `${taken ? "taken" : ""} ${byRule ? "guided-choice" : ""}`, "data-choice": choice, ...(taken || score === null ? { disabled: "" } : {}),
        title: taken ? "the action that was taken" : `what if: ${action.words}`, onclick: () => this.branch(choice),
      }, make("i", { style: `width:${width}%` }), make("span", {}, `${action.name}${taken ? " (taken)" : ""}${byRule ? " (the rule)" : ""}`),
      make("span", {}, words));
    }));
  }

  drawValues(t) {
    const { features } = this.shared.about, used = this.data.used || [], row = this.data.values[t] || [];
    const order = [...used, ...features.keys()].filter((i, place, all) => all.indexOf(i) === place);
    const scroll = this.values.scrollTop;
    this.values.replaceChildren(make("table", { class: "values-now" }, make("tbody", {}, ...order.map((i) =>
      make("tr", used.includes(i) ? { class: "used" } : {}, make("td", { title: features[i].words }, features[i].name), make("td", { class: "n" }, row[i] === undefined ? "" : figure(row[i])))))));
    this.values.scrollTop = scroll;
  }

  drawStrip() {
    const canvas = this.strip, ratio = Math.min(2, devicePixelRatio || 1), style = getComputedStyle(canvas), data = this.data;
    canvas.width = Math.max(60, canvas.clientWidth) * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const g = canvas.getContext("2d"), x = (step) => step / Math.max(1, data.steps) * canvas.width, wide = Math.max(2, x(1) - 1), h = canvas.height;
    const bars = (steps, colour, top, height) => { g.fillStyle = style.getPropertyValue(colour); for (const step of steps) g.fillRect(x(step), top * h, wide, height * h); };
    bars(data.fires || [], "--soft", 0.75, 0.25);
    bars(data.changes || [], "--mark", 0.5, 0.5);
    bars(data.mistakes.map((one) => one.step), "--harm", 0, 0.5);
    const most = Math.max(1e-9, ...(this.gains || []).map((one) => one.gain));
    for (const one of this.gains || []) if (one.gain > 0) bars([one.step], "--harm", 0.7 * (1 - one.gain / most), 0.7 * one.gain / most);
    g.fillStyle = style.getPropertyValue("--ink");
    g.fillRect(x(this.step) - ratio / 2, 0, ratio, h);
  }

  where(choice) { return { source: this.data.source, episode: this.data.episode, step: this.step, choice }; }

  // Play both futures of another action, and scroll to them or to a sentence about them.
  async branch(choice, shown = this.futures) {
    this.pause();
    const where = this.where(choice), problem = make("p", { class: "error", role: "alert", hidden: "" });
    for (const one of this.prefs.children) one.classList.toggle("picked", one.dataset.choice === String(choice));
    this.futures.replaceChildren(make("p", { class: "soft" }, "Playing both futures …"));
    const found = await saying(problem, () => this.shared.api.ask("branch", where));
    if (!found) { this.futures.replaceChildren(problem); return; }
    const root = make("div", { class: "player" }), spread = make("div", { class: "futures" });
    const repeat = make("button", { id: "repeat", class: "main", onclick: () => this.repeat(where, spread, repeat, problem) }, "Repeat 32 times");
    const { actions } = this.shared.about;
    this.futures.replaceChildren(make("h2", {}, `Step ${where.step}: what if “${actions[choice].name}”?`), make("p", { id: "branch" }, found.sentence),
      make("div", { class: "controls" }, repeat, make("button", { onclick: () => player.show(found.largest + 1) }, "Largest difference")), problem, spread, root);
    const player = new Player(root, found.replay);
    shown.scrollIntoView({ block: "nearest" });
  }

  // Play new futures with both actions, and draw how the differences between them are distributed.
  async repeat(where, spread, button, problem) {
    button.disabled = true;
    spread.replaceChildren(make("p", { class: "soft" }, "Playing futures with both actions …"));
    this.again = (this.again ?? -1) + 1; // each repetition plays other futures
    await saying(problem, () => this.shared.api.stream("repeat", { ...where, again: this.again % 1000 }, (message) => {
      if (message.kind === "distribution") this.drawDistribution(message, spread);
    }));
    if (problem.hidden === false) spread.replaceChildren();
    button.disabled = false;
  }

  drawDistribution({ sentence, differences, mean, low, high }, spread) {
    spread.replaceChildren(make("p", { id: "repeated" }, make("b", {}, sentence)));
    if (differences.length === 1) return;
    const least = Math.min(...differences, 0), most = Math.max(...differences, least + 1e-9), counts = new Array(BARS).fill(0);
    for (const difference of differences) counts[Math.min(BARS - 1, Math.floor(BARS * (difference - least) / (most - least)))] += 1;
    const canvas = make("canvas", { role: "img", "aria-label": "distribution of the differences" });
    const ends = [least, most].map((end) => figure(Number(end.toPrecision(3))));
    spread.append(canvas,
      make("small", { class: "soft" }, `Differences of ${differences.length} futures from ${ends[0]} to ${ends[1]} points; the mark is zero.`),
      effectLine({ effect: mean, interval: [low, high], error: null }));
    drawBars(canvas, counts.map((count) => count / Math.max(...counts)), (0 - least) / (most - least));
  }

  async scan() {
    const data = this.data, until = this.step === data.start || this.step === 0 ? data.steps : this.step;
    this.scanButton.disabled = true;
    this.scanned.textContent = `Trying every other action at the decisions before step ${until} …`;
    await saying(this.problem, () => this.shared.api.stream("scan", { source: data.source, episode: data.episode, until }, (message) => {
      if (this.data !== data) return;
      if (message.kind === "progress") this.scanned.textContent = `Trying every other action: ${message.done} of ${message.of} decisions …`;
      if (message.kind === "gains") { this.gains = message.gains; this.legend(); this.drawStrip(); }
      if (message.kind === "done") {
        this.scanned.replaceChildren(make("b", {}, message.sentence));
        if (message.step !== undefined) { this.go(message.step); this.branch(message.choice, this.scanned); }
      }
    }));
    if (this.problem.hidden === false) this.scanned.textContent = "";
    this.scanButton.disabled = false;
  }
}
