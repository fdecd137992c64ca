// The rule bench: type a rule, see at once what it would change, press Enter for the verdict.
import { make, figure } from "./player.js";
import { complain, debounced, saying } from "./api.js";

const OPERATORS = [["<", "less than"], ["<=", "at most"], [">", "more than"], [">=", "at least"], ["=", "equal to"], ["&", "and"]];
const MOST_OPTIONS = 40;
const PAUSE = 120; // milliseconds after the last key
const TRY = "Try it (Enter)";
const STAGES = { bench: "Playing fresh seeds", racing: "Playing", try: "Playing", futures: "Playing futures" };

// Completion of the word at the cursor: actions in the head of a rule, features and operators in its body.
export class Completion {
  // With `bare`, conditions may stand alone.
  constructor(input, list, words, bare = false) {
    Object.assign(this, { input, list, words, bare, at: -1, options: [] });
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("click", () => { if (!input.value.trim()) this.suggest(); });
  }

  // The line up to the cursor, and the words that are to be completed: of an action, all since the line began ("avoid
  // north"); of a feature, all since its condition began ("ghost length").
  place() {
    const end = this.input.selectionStart, before = this.input.value.slice(0, end);
    const line = before.slice(before.lastIndexOf("\n") + 1), name = /[A-Za-z_][\w.\-:[\]']*$/.exec(line)?.[0] ?? "";
    const phrase = /(?:^|<-|←|&|,)\s*(?:not\s+)?([A-Za-z][\w.:[\]' -]*)$/.exec(line)?.[1] ?? "";
    const word = this.isKnown(phrase.trim()) ? name : phrase || name;
    return { line, word, start: end - word.length, end };
  }

  isKnown(name) { return this.words.features.some((one) => one.name === name); }

  suggest() {
    const { line, word } = this.place(), part = line.slice(0, line.length - word.length); // what is there already
    const isHead = (!this.bare || /^\s*[+\-−]/.test(line)) && !/<-|←/.test(line);
    const found = isHead ? this.forHead(line, part, word) : this.forBody(line, part, word);
    // Names that begin with the word come first, then those that hold all parts of it, then those whose words do.
    const lower = word.trim().toLowerCase(), parts = lower.split(/\s+/), has = (text) => parts.every((some) => text.toLowerCase().includes(some));
    const rank = (one) => (one.name.toLowerCase().startsWith(lower) ? 0 : has(one.name) ? 1 : has(`${one.name} ${one.words}`) ? 2 : 3);
    const ranked = [0, 1, 2].flatMap((wanted) => found.filter((one) => rank(one) === wanted));
    this.open(ranked.filter((one) => one.name !== word).slice(0, MOST_OPTIONS));
  }

  // Actions, with a sign before them; then the arrow.
  forHead(line, part, word) {
    if (/^\s*[+\-−]\s*$/.test(part)) return this.words.actions;
    if (!this.bare && !part.trim()) return this.words.actions.flatMap((one) =>
      [{ name: `+${one.name}`, words: `do: ${one.words}` }, { name: `-${one.name}`, words: `avoid: ${one.words}` }]);
    return !word && /^\s*[+\-−]\s*\S+\s+$/.test(line) ? [{ name: "<-", words: "when" }] : [];
  }

  // Features; after a feature an operator; after a number "and".
  forBody(line, part, word) {
    if (word || /(<-|←|&|,|not)\s*$/.test(part)) return this.words.features;
    if (!/[\w\]']\s+$/.test(line)) return [];
    const isDone = /[<>=]\s*[-\d.]+\s+$/.test(line);
    return (isDone ? OPERATORS.slice(-1) : OPERATORS).map(([name, words]) => ({ name, words }));
  }

  open(options) {
    this.options = options;
    this.at = -1;
    this.list.replaceChildren(...options.map((one, i) => make("li", {
      role: "option", id: `${this.list.id}-${i}`, "aria-selected": "false",
      onmousedown: (event) => { event.preventDefault(); this.take(i); },
    }, make("b", {}, one.name), " ", make("span", { class: "soft" }, one.words === one.name ? "" : one.words))));
    this.list.hidden = !options.length;
    this.input.setAttribute("aria-expanded", String(options.length > 0));
  }

  close() { this.open([]); this.input.removeAttribute("aria-activedescendant"); }

  move(way) {
    this.at = (this.at + way + this.options.length) % this.options.length;
    [...this.list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === this.at)));
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `${this.list.id}-${this.at}`);
  }

  take(i) {
    const { start, end } = this.place();
    this.input.setRangeText(`${this.options[i].name} `, start, end, "end");
    this.close();
    this.input.dispatchEvent(new Event("input"));
  }

  key(event) {
    if (!this.options.length) {
      if (event.key === "ArrowDown" && !this.input.value.trim()) this.suggest();
      return;
    }
    const acts = { ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1), Escape: () => this.close(),
      Tab: () => this.take(Math.max(0, this.at)) };
    if (event.key === "Enter" && this.at >= 0 && !event.shiftKey) acts.Enter = () => this.take(this.at);
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

export class Bench {
  constructor(root, shared) {
    Object.assign(this, { root, shared, running: null, asked: 0 });
    this.input = make("textarea", {
      id: "rule", rows: "2", spellcheck: "false", autocapitalize: "off", autocomplete: "off", maxlength: "2000", role: "combobox",
      "aria-label": "rule", "aria-expanded": "false", "aria-controls": "completions", "aria-autocomplete": "list",
      placeholder: "+Action <- feature < 3 & other.feature",
    });
    const list = make("ul", { id: "completions", role: "listbox", class: "completions", hidden: "" });
    this.completion = new Completion(this.input, list, shared.about);
    this.input.addEventListener("input", () => { this.completion.suggest(); this.typed(); });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.defaultPrevented) { event.preventDefault(); this.try(); }
    });
    this.input.addEventListener("blur", () => this.typed());
    this.typed = debounced(() => this.read(), PAUSE);
    this.problem = make("p", { class: "error", role: "alert", hidden: "" });
    this.words = make("p", { class: "reading", "aria-live": "polite" });
    this.work = make("div", { class: "work" });
    this.sliders = make("div", { class: "sliders" });
    this.tryButton = make("button", { class: "main", id: "try", onclick: () => (this.running ? this.running.abort() : this.try()) }, TRY);
    this.related = make("input", { type: "checkbox", checked: "", id: "related" });
    this.forms = make("span", { id: "forms", class: "soft" });
    this.old = make("p", { id: "old", class: "error", role: "status", hidden: "" },
      "This verdict is for an earlier rule: the box has changed since. Press Enter for a new one.");
    this.result = make("div", { id: "result", "aria-live": "polite" });
    this.claims = make("div", { id: "claims" });
    root.replaceChildren(
      make("h1", {}, "Does a rule help this policy?"),
      make("p", { class: "soft" }, "Type a rule: + makes the policy take an action, - makes it avoid one, wherever the conditions hold. "
        + `Then press Enter: episodes are played with and without it. ${shared.about.name} returns ${shared.about.mean} points on average. Examples: `,
        ...this.examples().flatMap((text, i) => [i ? ", " : "", make("button", { class: "link", onclick: () => this.put(text) }, text)]), "."),
      this.names(),
      make("div", { class: "entry" }, this.input, list),
      this.problem, this.words, this.work, this.sliders,
      make("div", { class: "controls" }, this.tryButton,
        make("label", { title: "also plays the rule together with its related forms: in a maze, for example, the same rule for the other directions" },
          this.related, " also with related forms (symmetry)"), this.forms),
      this.old, this.result, this.composition(), this.claims);
    this.listClaims();
  }

  examples() {
    const { actions, example } = this.shared.about;
    return [`+${actions[0].name} <- ${example}`, `-${actions[0].name} <- ${example}`];
  }

  names() {
    const { actions, features } = this.shared.about;
    return make("details", { class: "more" }, make("summary", {}, `Names: ${actions.length} actions, ${features.length} features`),
      make("p", {}, "Actions: ", ...actions.flatMap((one) => [this.name(one, (name) => `+${name} <- `), " "])),
      make("p", { class: "names" }, "Features: ", ...features.flatMap((one) => [this.name(one, (name) => this.added(name)), " "])));
  }

  name(one, text) {
    return make("button", { class: "chip", title: one.words, onclick: () => this.put(text(one.name)) }, one.name);
  }

  added(name) {
    const text = this.input.value.trimEnd();
    if (!/<-|←/.test(text)) return `+${this.shared.about.actions[0].name} <- ${name} `;
    return /(<-|←|&)$/.test(text) ? `${text} ${name} ` : `${text} & ${name} `;
  }

  put(text) {
    this.input.value = text;
    this.input.focus();
    this.read();
  }

  show(options) {
    if (options.rule !== undefined && options.rule !== this.input.value) this.put(options.rule);
    else this.input.focus({ preventScroll: true });
  }

  body() { return this.chosen ? { chosen: this.chosen } : { rule: this.input.value }; }

  async read() {
    this.chosen = null;
    this.shared.rule = this.input.value;
    this.markOld();
    const asked = ++this.asked;
    if (!this.input.value.trim()) {
      this.shared.good = "";
      this.input.classList.remove("wrong");
      for (const box of [this.words, this.work, this.sliders, this.forms]) box.replaceChildren();
      this.problem.hidden = true;
      return;
    }
    const found = await saying(this.problem, () => this.shared.api.ask("read", { rule: this.input.value }));
    if (asked !== this.asked) return;
    const good = found && !found.problem;
    this.input.classList.toggle("wrong", !good);
    if (!good) for (const box of [this.words, this.work]) box.replaceChildren();
    const begun = this.input.value.trim().split("\n").pop();
    if (found && found.problem && this.completion.options.length) this.input.classList.remove("wrong"); // a word of it is still being chosen
    else if (found && found.problem && !/<-|←/.test(begun)) { // the rule has only begun
      this.input.classList.remove("wrong");
      this.words.textContent = /^\s*[+\-−]\s*\S/.test(begun) ? "Now type <- and the conditions under which the rule holds." : "Choose an action: + does it, - avoids it.";
    } else if (found && found.problem) complain(this.problem, found.problem);
    if (!good) return;
    this.shared.good = this.input.value;
    this.words.textContent = found.words.map((words) => `${words}.`).join(" ");
    this.drawWork(found);
    this.related.disabled = !found.related.any;
    this.forms.textContent = `(${found.related.words})`;
    if (!this.sliding) this.drawSliders(found.thresholds);
  }

  // Grey the verdict while the box holds another rule.
  markOld() {
    const isOld = this.tried !== undefined && this.input.value.trim() !== this.tried;
    this.result.classList.toggle("old", isOld);
    this.old.hidden = !isOld;
  }

  drawWork(found) {
    const work = found.work, lines = [make("b", {}, work.sentence)];
    if (work.replaced) lines.push(` ${work.replaced} `);
    if (work.first.length) {
      const [episode, step] = work.first[0];
      lines.push(" ", make("button", { class: "link", onclick: () => this.shared.go("episodes", { episode, step, rule: 1 }) }, "Watch where it fires"));
    }
    this.work.replaceChildren(make("p", { "data-ms": found.milliseconds }, ...lines));
  }

  drawSliders(thresholds) {
    this.thresholds = thresholds;
    this.sliders.replaceChildren(...thresholds.map((one, i) => {
      const range = one.high > one.low ? one.high - one.low : 1, step = one.whole ? 1 : 10 ** Math.floor(Math.log10(range / 100));
      const value = make("b", {}, figure(one.value)), most = Math.max(...one.counts, 1);
      const slider = make("input", { type: "range", min: one.low, max: one.high, step: "any", value: one.value, "aria-label": `threshold of ${one.name}` });
      slider.addEventListener("input", () => {
        const rounded = Math.round(Number(slider.value) / step) * step, text = String(Number(rounded.toPrecision(6)));
        value.textContent = figure(Number(text));
        this.replace(i, text);
      });
      slider.addEventListener("change", () => { this.sliding = false; this.read(); });
      const canvas = make("canvas", { role: "img", "aria-label": `distribution of ${one.words}` });
      const box = make("div", { class: "slider" }, make("label", {}, `${one.words} `, value), canvas, slider,
        make("small", { class: "ends" }, make("span", {}, figure(Number(one.low.toPrecision(3)))), make("span", {}, figure(Number(one.high.toPrecision(3))))));
      requestAnimationFrame(() => drawBars(canvas, one.counts.map((count) => count / most), (one.value - one.low) / range));
      return box;
    }));
  }

  replace(i, text) {
    const one = this.thresholds[i], shift = text.length - (one.end - one.start);
    this.input.setRangeText(text, one.start, one.end);
    one.end += shift;
    for (const other of this.thresholds.slice(i + 1)) { other.start += shift; other.end += shift; }
    this.sliding = true;
    this.typed();
  }

  composition() {
    const rules = this.shared.about.composition;
    if (!rules.length) return make("div");
    const boxes = rules.map((rule) => make("input", { type: "checkbox", checked: "", "aria-label": rule }));
    const go = () => {
      this.chosen = boxes.flatMap((box, i) => (box.checked ? [i] : []));
      if (!this.chosen.length) { complain(this.problem, "Switch on at least one rule."); return; }
      this.problem.hidden = true;
      this.try(true);
    };
    return make("details", { class: "more", id: "composition" }, make("summary", {}, `Rules of the composition (${rules.length}): switch them on and off`),
      ...rules.map((rule, i) => make("label", { class: "switch" }, boxes[i], " ", make("code", {}, rule))),
      make("div", { class: "controls" }, make("button", { onclick: go }, "Try those that are on")));
  }

  // Play the rule that was typed, or those of the composition that are chosen, until the verdict or until it is stopped.
  async try(isChosen = false) {
    this.completion.close();
    if (!isChosen) this.chosen = null;
    if (!isChosen && !this.input.value.trim()) return;
    if (this.running) this.running.abort();
    const running = new AbortController(), started = performance.now();
    this.running = running;
    this.tryButton.textContent = "Stop";
    this.result.replaceChildren(make("p", { class: "soft busy" }, "Playing …"));
    this.result.dataset.kind = "";
    const body = { ...this.body(), related: this.related.checked && !this.related.disabled };
    this.tried = isChosen ? undefined : this.input.value.trim();
    this.markOld();
    await saying(this.problem, () => this.shared.api.stream("try", body, (message) => {
      if (message.kind === "progress") this.progress(message);
      else this.drawResult(message, body, (performance.now() - started) / 1000);
    }, running.signal));
    if (this.running !== running) return; // another rule is being played already
    this.running = null;
    this.tryButton.textContent = TRY;
    const busy = this.result.querySelector(".busy");
    if (busy) busy.textContent = running.signal.aborted ? "Stopped. An interval that is shown holds all the same." : "";
  }

  progress({ stage, done, of }) {
    const busy = this.result.querySelector(".busy");
    if (busy && stage === "waiting") busy.textContent = "Waiting until another play has ended …";
    else if (busy) busy.textContent = `${STAGES[stage] || stage}: ${figure(done)} of ${figure(of)} episodes …`;
  }

  drawResult(message, body, seconds) {
    const isFinal = message.kind === "verdict";
    const [how, exploring] = message.notes || [];
    const cards = message.rules.map((one) => this.card(one, isFinal ? body : null, message.rules.length > 1, exploring));
    const rule = make("code", { class: "tried" }, message.rules[0].rule);
    const parts = [make("h2", {}, isFinal ? "Verdict" : "So far"), make("p", {}, "Rule: ", rule), ...cards];
    if (!isFinal) parts.unshift(make("p", { class: "soft busy" }, "Playing …"));
    else parts.push(make("p", { class: "soft" }, how, " ", make("span", { id: "seconds", "data-seconds": seconds }, `Played in ${seconds.toFixed(1)} s.`)));
    this.result.replaceChildren(...parts);
    // The first figures come into view, if they are below the screen.
    if (!this.result.dataset.kind && this.result.getBoundingClientRect().top > innerHeight - 250) this.result.scrollIntoView();
    this.result.dataset.kind = message.kind;
  }

  // Return the result of one form of a rule, named if there are several; a final one (with the `body` of its question)
  // can be confirmed and kept. `exploring` says what its seeds are good for until it is confirmed.
  card(one, body, isNamed, exploring) {
    const card = make("div", { class: `card verdict ${one.verdict.replaceAll(" ", "-")}` });
    const name = one.form === "alone" ? "This rule alone" : `${one.count === 2 ? "Both" : `All ${one.count}`} related forms (symmetry)`;
    const badge = make("span", { class: "badge found" }, "exploring");
    card.append(make("p", { class: "form" }, isNamed ? `${name} ` : "", badge));
    card.append(make("p", { class: "sentence" }, one.sentence));
    if (one.changed) card.append(effectLine(one), make("p", { class: "soft" }, `It changes the action in ${one.overrides} of the steps.`));
    if (!body) return card;
    if (one.examples.length && one.form === "alone")
      card.append(make("details", { class: "more" }, make("summary", {}, "Where it changes the action"),
        make("ul", { class: "plain soft" }, ...one.examples.map((text) => make("li", {}, text)))));
    const asked = { ...body, form: one.form };
    if (["helps", "harms", "undecided"].includes(one.verdict)) {
      const note = make("p", { class: "soft" }, exploring), box = make("p", { class: "kept", role: "status" });
      const problem = make("p", { class: "error", role: "alert", hidden: "" });
      const settle = (claim, isEarlier) => { // the result of a confirmation takes the place of its button
        button.hidden = true;
        badge.textContent = claim.is_confirmed ? "confirmed" : "not confirmed";
        badge.className = `badge ${claim.is_confirmed ? "confirmed" : ""}`;
        note.textContent = "The figures above are from exploring; the confirmation was played on seeds of its own.";
        box.textContent = isEarlier ? `Tested before on fresh seeds, which is done once for each rule. ${claim.sentence}` : claim.sentence;
        box.dataset.confirmed = claim.is_confirmed;
      };
      const button = make("button", { class: "confirm", onclick: () => this.confirm(asked, button, box, problem, settle) },
        `Confirm on fresh seeds that it ${one.effect > 0 ? "helps" : "harms"}`);
      card.append(note, make("div", { class: "controls" }, button), box, problem);
      if (one.claim) settle(one.claim, true);
    }
    card.append(this.next(asked));
    return card;
  }

  // Return the buttons that keep one form of a rule. A study tests a saved rule in both forms, so only one card saves it.
  next(body) {
    const box = make("p", { class: "kept", role: "status" }), problem = make("p", { class: "error", role: "alert", hidden: "" });
    const keep = (what) => async () => {
      const found = await saying(problem, () => this.shared.api.ask("keep", { ...body, what }));
      if (found) box.replaceChildren(found.words, ...(found.text ? [make("pre", {}, found.text)] : []));
    };
    const isAlone = body.form === "alone", all = isAlone ? "" : " all forms";
    const buttons = [make("button", { class: "export", title: "lines for 'legible verify', which tests every new checkpoint", onclick: keep("check") }, `Export${all} as check`)];
    const { is_study: isStudy, folder } = this.shared.about;
    if (isStudy) buttons.unshift(make("button", { class: "veto", title: "the study's composition will never use it", onclick: keep("veto") }, `Veto${all} in study`));
    if (isStudy && isAlone) buttons.unshift(make("button", {
      class: "save", title: "the next 'legible run' tests it with the study's rules, alone and with its related forms", onclick: keep("rule") }, "Save to study"));
    const before = isStudy ? make("p", { class: "soft" },
      `${isAlone ? "Save and Veto change" : "Veto changes"} the study: afterwards its results are out of date until you run 'legible run ${folder}'.`) : "";
    return make("div", {}, make("div", { class: "controls" }, ...buttons), before, box, problem);
  }

  async confirm(body, button, box, problem, settle) {
    button.disabled = true;
    await saying(problem, () => this.shared.api.stream("confirm", body, (message) => {
      if (message.kind === "note") box.textContent = message.words;
      if (message.kind === "progress") box.textContent = `${STAGES[message.stage] || message.stage}: ${figure(message.done)} of ${figure(message.of)} episodes …`;
      if (message.kind === "claim") settle(message, message.is_earlier);
    }));
    button.disabled = false;
    this.listClaims();
  }

  async listClaims() {
    const found = await saying(make("p"), () => this.shared.api.ask("claims"));
    if (!found) return;
    const rows = found.claims.toReversed().map((claim) => make("li", {},
      make("span", { class: `badge ${claim.is_confirmed ? "confirmed" : ""}` }, claim.is_confirmed ? "confirmed" : "not confirmed"),
      " ", make("code", {}, claim.rules.join("; ")), " ", claim.sentence));
    const list = rows.length ? make("ul", { class: "found" }, ...rows) : make("p", { class: "soft" }, "None yet.");
    const forgotten = found.kept ? "" : " They are forgotten when the workbench stops: this policy is code.";
    this.claims.replaceChildren(make("h2", {}, "Confirmations"), list,
      make("p", { class: "soft" }, "Each is played once, on seeds that nothing else uses. Of the confirmed ones at most 5 % are expected to be false (LORD++); "
        + `the next one is tested at the level ${found.level}.${forgotten}`));
  }
}

export function drawBars(canvas, shares, mark = null) {
  const ratio = Math.min(2, devicePixelRatio || 1), style = getComputedStyle(canvas);
  canvas.width = Math.max(60, canvas.clientWidth) * ratio;
  canvas.height = Math.max(20, canvas.clientHeight) * ratio;
  const g = canvas.getContext("2d"), width = canvas.width / shares.length;
  g.fillStyle = style.getPropertyValue("--alone");
  shares.forEach((share, i) => g.fillRect(i * width + 0.5, canvas.height * (1 - share), Math.max(1, width - 1), canvas.height * share));
  if (mark === null) return;
  g.fillStyle = style.getPropertyValue("--mark");
  g.fillRect(Math.max(0, Math.min(1, mark)) * canvas.width - ratio, 0, 2 * ratio, canvas.height);
}

// A line with zero, the interval, the estimate, and a band of effects that are too small to matter.
export function effectLine({ effect, error, interval, relevant, verdict }) {
  const [low, high] = interval || (error === null ? [null, null] : [effect - 2 * error, effect + 2 * error]);
  if (low === null) return make("div");
  // The scale ends at a number of two digits, beyond everything that is drawn.
  const farthest = 1.1 * Math.max(Math.abs(low), Math.abs(high), Math.abs(effect), 1.2 * (relevant || 0), 1e-9);
  const unit = 10 ** (Math.floor(Math.log10(farthest)) - 1), reach = Math.ceil(farthest / unit) * unit;
  const at = (x) => 50 + 50 * x / reach, end = figure(Number(reach.toPrecision(3)));
  const side = verdict === "no effect" ? "alone" : low > 0 ? "guided" : high < 0 ? "worse" : "alone";
  const line = make("div", { class: `effect ${side}`, role: "img", "aria-label": `effect ${figure(effect)}` });
  if (relevant) line.append(make("i", { class: "band", title: "smaller than the smallest effect of interest",
    style: `left:${at(-relevant)}%;width:${at(relevant) - at(-relevant)}%` }));
  line.append(make("i", { class: "zero" }), make("i", { class: "ci", style: `left:${at(low)}%;width:${at(high) - at(low)}%` }),
    make("i", { class: "dot", style: `left:${at(effect)}%` }));
  return make("div", {}, line, make("small", { class: "ends soft" },
    make("span", {}, `−${end}`), make("span", {}, "change of the return, in points"), make("span", {}, `+${end}`)));
}
