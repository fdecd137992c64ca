// The workbench: one page with four views, which share the policy that is chosen.
import { make } from "./player.js";
import { Api, saying } from "./api.js";
import { Overview } from "./overview.js";
import { Bench } from "./bench.js";
import { Viewer } from "./viewer.js";
import { States } from "./states.js";

const api = new Api();
const status = document.getElementById("status"), chooser = document.getElementById("subject");
const shared = { api, about: null, rule: "", go, keys: document };
const VIEWS = { overview: Overview, bench: Bench, episodes: Viewer, states: States };
let shown = {};

// Addresses such as "#episodes?episode=3&step=12" name a view and what it shows.
function go(view, options = {}) {
  const words = new URLSearchParams(options).toString();
  location.hash = words ? `${view}?${words}` : view;
}

async function route() {
  const [name, words] = location.hash.slice(1).split("?"), view = VIEWS[name] ? name : "overview";
  const options = Object.fromEntries(new URLSearchParams(words || ""));
  for (const link of document.querySelectorAll("nav a"))
    link.toggleAttribute("aria-current", link.hash === `#${view}`);
  if (document.getElementById(`view-${view}`).hidden) scrollTo(0, 0);
  for (const key of Object.keys(VIEWS)) document.getElementById(`view-${key}`).hidden = key !== view;
  if (view !== "overview" && !(await opened())) return;
  const root = document.getElementById(`view-${view}`);
  if (!shown[view]) shown[view] = new VIEWS[view](root, shared);
  shown[view].show(options);
}

let opening = null;
function opened() {
  if (shared.about) return true;
  opening = opening || open();
  return opening;
}

async function open() {
  status.classList.remove("error");
  status.textContent = "Opening the policy and its environment …";
  status.hidden = false;
  const box = make("span");
  shared.about = await saying(box, () => api.ask("about"));
  opening = null;
  if (!shared.about) {
    status.textContent = box.textContent;
    status.classList.add("error");
    return false;
  }
  status.hidden = true;
  document.title = `${shared.about.name} – legible`;
  return true;
}

// Another policy: everything but the overview begins anew.
export function choose(number) {
  api.subject = number;
  shared.about = null;
  shared.rule = shared.good = "";
  chooser.value = String(number);
  for (const key of Object.keys(shown)) if (key !== "overview") {
    document.getElementById(`view-${key}`).replaceChildren();
    delete shown[key];
  }
}

shared.choose = choose;
shared.subjects = (list) => {
  chooser.hidden = list.length < 2;
  if (chooser.options.length !== list.length)
    chooser.replaceChildren(...list.map((one, i) => make("option", { value: i }, one.name)));
  chooser.value = String(api.subject);
};
chooser.addEventListener("change", () => { choose(Number(chooser.value)); route(); });
addEventListener("hashchange", route);
saying(status, async () => {
  const found = await api.ask("studies");
  shared.subjects(found.subjects);
  const has_studies = found.subjects.some((one) => one.is_study);
  if (!has_studies) document.querySelector('nav a[href="#overview"]').hidden = true;
  status.hidden = true;
  if (!location.hash && !has_studies) location.hash = "bench"; else route();
});
