// The state explorer: a filter that is a rule, the states that fit as a table and as a map, and play from any of them.
import { make, figure } from "./player.js";
import { Completion } from "./bench.js";
import { complain, debounced, saying } from "./api.js";

export class States {
  constructor(root, shared) {
    Object.assign(this, { root, shared, asked: 0, x: null, y: null });
    const { actions, features } = shared.about;
    this.input = make("input", { type: "text", id: "filter", "aria-label": "filter", maxlength: "2000", spellcheck: "false", autocomplete: "off",
      placeholder: `${features[0].name} > 0, or +${actions[0].name} <- ${features[0].name} > 0` });
    const search = debounced(() => this.find(), 150);
    const list = make("ul", { id: "filter-completions", role: "listbox", class: "completions", hidden: "" });
    const completion = new Completion(this.input, list, shared.about, true);
    this.input.addEventListener("input", () => { completion.suggest(); search(); });
    this.problem = make("p", { class: "error", role: "alert", hidden: "" });
    this.sentence = make("p", { "aria-live": "polite", class: "reading" });
    this.table = make("div", { class: "scroll tall" });
    this.map = make("canvas", { class: "map", role: "img", "aria-label": "map of recorded states" });
    this.axes = ["x", "y"].map((axis) => make("select", { "aria-label": `${axis} axis`, onchange: (event) => { this[axis] = Number(event.target.value); this.find(); } },
      ...features.map((one, i) => make("option", { value: i }, one.name))));
    root.replaceChildren(make("h1", {}, "In which states does it do what?"),
      make("p", { class: "soft" }, `Conditions find the recorded states in which they hold. “+${actions[0].name} <- …” finds those of them `
        + `in which the policy takes that action, “-${actions[0].name} <- …” those in which it does not.`),
      make("div", { class: "entry" }, this.input, list), this.problem, this.sentence,
      make("div", { class: "pair" }, this.table, make("div", {}, this.map,
        make("p", { class: "controls" }, make("label", {}, "across ", this.axes[0]), make("label", {}, "up ", this.axes[1])),
        make("p", { class: "soft" }, "Grey: all recorded states. Orange: those that fit."))));
  }

  show(options) {
    if (options.filter !== undefined) this.input.value = options.filter;
    this.find();
  }

  async find() {
    const asked = ++this.asked, body = { filter: this.input.value };
    if (this.x !== null) body.x = this.x;
    if (this.y !== null) body.y = this.y;
    const found = await saying(this.problem, () => this.shared.api.ask("states", body));
    if (!found || asked !== this.asked) return;
    this.input.classList.toggle("wrong", Boolean(found.problem));
    if (found.problem) { complain(this.problem, found.problem); this.sentence.textContent = ""; return; }
    this.sentence.textContent = found.sentence;
    const heads = ["", "episode", "step", "action", ...found.columns].map((name) => make("th", {}, name));
    const rows = found.states.map((state) => make("tr", {},
      make("td", {}, make("button", { class: "link", onclick: () => this.shared.go("episodes", { episode: state.episode, step: state.step }) }, "Play from here")),
      ...[state.episode, state.step, state.action, ...state.values.map((value) => (value === null ? "–" : figure(value)))]
        .map((text) => make("td", {}, String(text)))));
    this.table.replaceChildren(make("table", { class: "whole-words" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
    this.axes[0].value = String(found.x);
    this.axes[1].value = String(found.y);
    this.draw(found.map);
  }

  draw(map) {
    const canvas = this.map, size = Math.max(120, canvas.clientWidth) * Math.min(2, devicePixelRatio || 1), style = getComputedStyle(canvas);
    canvas.width = canvas.height = size;
    const g = canvas.getContext("2d"), n = map.all.length, cell = size / n, most = Math.max(1, ...map.all.flat());
    map.all.forEach((column, i) => column.forEach((count, j) => {
      if (!count) return;
      const place = [i * cell, size - (j + 1) * cell, cell + 0.5, cell + 0.5];
      g.globalAlpha = 0.12 + 0.6 * Math.log1p(count) / Math.log1p(most);
      g.fillStyle = style.getPropertyValue("--alone");
      g.fillRect(...place);
      if (!map.fit[i][j]) return;
      g.globalAlpha = 0.25 + 0.75 * map.fit[i][j] / count;
      g.fillStyle = style.getPropertyValue("--mark");
      g.fillRect(...place);
    }));
    g.globalAlpha = 1;
  }
}
