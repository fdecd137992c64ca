// The overview: studies side by side, live while they run, and the first screen of the one that is chosen.
import { make, figure } from "./player.js";
import { saying } from "./api.js";

const LOOK_MS = 2000; // between two looks at the folders of studies
const COLUMNS = [
  ["name", "Study", (s) => s.name],
  ["environment", "Environment", (s) => s.environment || ""],
  ["unguided", "Unguided return", (s) => s.unguided],
  ["guided", "Guided return", (s) => s.guided],
  ["confirmed", "Weaknesses", (s) => s.confirmed],
  ["rules", "Rules", (s) => s.rules],
  ["state", "State", (s) => (s.error ? "cannot be read" : s.is_before_changes ? "out of date: rules changed" : (s.left || []).length ? `running or stopped: ${s.done.length} steps done` : "finished")],
];

export class Overview {
  constructor(root, shared) {
    Object.assign(this, { root, shared, studies: [], sort: ["name", 1], version: "", timer: 0 });
    this.problem = make("p", { class: "error", role: "alert", hidden: "" });
    this.table = make("div", { class: "scroll" });
    this.first = make("div");
    this.head = make("h2", {}, "Studies");
    root.replaceChildren(this.problem, this.first, this.head, this.table);
  }

  show() {
    this.look();
    if (!this.timer) this.timer = setInterval(() => { if (!document.hidden && !this.root.hidden) this.look(); }, LOOK_MS);
  }

  async look() {
    const found = await saying(this.problem, () => this.shared.api.ask("studies", { version: this.version }));
    if (!found || !found.subjects) return;
    this.version = found.version;
    this.studies = found.subjects;
    this.shared.subjects(found.subjects);
    this.draw();
  }

  draw() {
    const [key, way] = this.sort, value = COLUMNS.find((column) => column[0] === key)[2];
    const order = this.studies.map((study, i) => [study, i]).filter(([study]) => study.is_study);
    order.sort(([a], [b]) => {
      const x = value(a), y = value(b);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return way * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
    const heads = COLUMNS.map(([name, words]) => make("th", name === key ? { "aria-sort": way > 0 ? "ascending" : "descending" } : {},
      make("button", { onclick: () => { this.sort = [name, name === key ? -way : 1]; this.draw(); } }, words)));
    const rows = order.map(([study, i]) => make("tr", i === this.shared.api.subject ? { class: "chosen" } : {},
      ...COLUMNS.map(([name, , of]) => {
        const found = of(study), text = typeof found === "number" ? figure(Number(found.toPrecision(4))) : found ?? "–";
        return name === "name"
          ? make("td", {}, make("button", { class: "link", onclick: () => { this.shared.choose(i); this.draw(); } }, text))
          : make("td", {}, String(text));
      })));
    this.table.replaceChildren(make("table", { class: "studies" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
    if (order.length > 1) this.root.prepend(this.problem, this.head, this.table); // choose a study first
    const chosen = this.studies[this.shared.api.subject];
    this.first.replaceChildren(...(chosen && chosen.is_study ? this.screen(chosen) : []));
  }

  screen(study) {
    if (study.error) return [make("p", { class: "error" }, study.error)];
    const parts = [make("p", { class: "what soft" }, `${study.policy} in ${study.environment}`),
      make("h1", {}, study.headline || "This study is not finished yet.")];
    if (study.is_before_changes) parts.push(make("p", { class: "error", id: "before-changes" },
      `These results are from before your changes to the rules: run 'legible run ${study.folder}' to update them.`));
    if ((study.left || []).length) parts.push(make("p", { class: "soft" },
      `Done: ${study.done.join(", ") || "nothing yet"}. To come: ${study.left.join(", ")}. ${study.units} units of episodes are played.`));
    parts.push(make("p", {}, "Next: ", make("button", { class: "link", onclick: () => this.shared.go("bench") }, "try a rule"), ", or ",
      make("button", { class: "link", onclick: () => this.shared.go("episodes") }, "find the decision that lost a game"), "."));
    for (const sentence of (study.sentences || []).slice(0, 6)) parts.push(make("p", {}, sentence));
    if (study.weaknesses.length) parts.push(make("h2", {}, "Weaknesses"), make("ul", { class: "found" },
      ...study.weaknesses.map((one) => make("li", {},
        make("span", { class: `badge ${one.is_confirmed ? "confirmed" : "found"}` }, one.is_confirmed ? "confirmed" : "suspected"), " ",
        make("b", { class: "matters" }, `${one.gain} points`), ` ${one.words} `,
        make("button", { class: "link", onclick: () => this.shared.go("bench", { rule: one.rule.replaceAll("; ", "\n") }) }, "Try it on the bench")))));
    return parts;
  }
}
