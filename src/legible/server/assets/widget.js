// The rule bench and the episode viewer in a notebook: questions are messages of the widget's model.
import { make } from "./player.js";
import { Refused, saying } from "./api.js";
import { Bench } from "./bench.js";
import { Viewer } from "./viewer.js";

/* global STYLE: the styles of the page */
// The questions of `Api`. Every view of a widget gets all messages, so numbers of questions begin with a random word.
class ModelApi {
  constructor(model) {
    Object.assign(this, { model, view: Math.random().toString(36).slice(2), asked: 0, open: new Map() });
    this.receive = (message) => this.open.get(message.number)?.(message.message);
    model.on("msg:custom", this.receive);
  }

  close() { this.model.off("msg:custom", this.receive); }

  async ask(name, body = {}, signal = undefined) {
    let found;
    await this.stream(name, body, (message) => { found = message; }, signal);
    return found;
  }

  stream(name, body, onMessage, signal = undefined) {
    const number = `${this.view}-${++this.asked}`;
    return new Promise((resolve, reject) => {
      const end = (act, value) => { this.open.delete(number); act(value); };
      this.open.set(number, (message) => {
        if (message === null) end(resolve);
        else if (message.kind === "error") end(reject, new Refused(message.error));
        else onMessage(message);
      });
      signal?.addEventListener("abort", () => {
        this.model.send({ number, stop: true });
        end(reject, new DOMException("stopped", "AbortError"));
      });
      this.model.send({ number, name, body });
    });
  }
}

// Styles do not follow the system but the notebook: it is dark where its text is light.
function follow(host, style) {
  let night = null;
  const look = () => {
    if (!host.isConnected) return; // some notebooks attach it later
    night = night || [...style.sheet.cssRules].find((rule) => rule.media?.mediaText.includes("prefers-color-scheme"));
    const g = make("canvas").getContext("2d");
    g.fillStyle = getComputedStyle(host.parentElement).color;
    g.fillRect(0, 0, 1, 1);
    const [red, green, blue] = g.getImageData(0, 0, 1, 1).data, isDark = red + green + blue > 384;
    night.media.mediaText = isDark ? "all" : "not all";
    host.style.colorScheme = isDark ? "dark" : "light";
  };
  new ResizeObserver(look).observe(host);
}

async function render({ model, el }) {
  const host = make("div", { "data-lm-suppress-shortcuts": "true" }), api = new ModelApi(model);
  const style = make("style", {}, STYLE), status = make("p", { class: "soft", role: "status" }, "Opening the policy …");
  const tabs = make("div", { class: "tabs", role: "tablist" }), page = make("div", { class: "page" }, tabs, status);
  el.append(host);
  host.attachShadow({ mode: "open" }).append(style, page);
  follow(host, style);
  const shared = {
    api, keys: page, go,
    get rule() { return model.get("rule"); },
    set rule(text) { if (text !== model.get("rule")) { model.set("rule", text); model.save_changes(); } },
  };
  shared.about = await saying(status, () => api.ask("about"));
  if (!shared.about) return () => api.close();
  status.hidden = true;
  const views = {}, roots = { bench: make("section"), episodes: make("section", { hidden: "" }) };
  const buttons = Object.entries({ bench: "Rule bench", episodes: "Episodes" }).map(([view, words]) =>
    make("button", { role: "tab", "aria-selected": "false", "data-view": view, onclick: () => go(view) }, words));
  tabs.append(...buttons);
  page.append(...Object.values(roots));

  function go(view, options = {}) {
    for (const [name, root] of Object.entries(roots)) root.hidden = name !== view;
    for (const button of buttons) button.setAttribute("aria-selected", String(button.dataset.view === view));
    views[view] = views[view] || new { bench: Bench, episodes: Viewer }[view](roots[view], shared);
    views[view].show(options);
  }

  const put = () => { if (model.get("rule") !== views.bench.input.value) views.bench.put(model.get("rule")); };
  go("bench");
  put();
  model.on("change:rule", put);
  return () => { model.off("change:rule", put); api.close(); };
}

export default { render };
