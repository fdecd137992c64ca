"use strict";
// What players show below their timelines: lanes of wanted and done actions, stretches in which rules hold, and a link.

const ACTION_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7a5195", "#8c6d31", "#777777"];

const COLOUR_OF = new Map(); // an action has the same colour in all players of a page

function colourOf(word) {
  if (!COLOUR_OF.has(word)) COLOUR_OF.set(word, ACTION_COLOURS[COLOUR_OF.size % ACTION_COLOURS.length]);
  return COLOUR_OF.get(word);
}

function wantedActions(side) {
  // The policy's own choice in every step: at a mark of a rule, and where a random action replaced it.
  return side.actions.map((done, t) => (side.at.has(t) ? side.at.get(t)[1] : side.preferred.has(t) ? side.preferred.get(t) : done));
}

function usedActions(player, wanted) {
  const counts = new Map();
  player.replay.sides.forEach((side, i) => [...side.actions, ...wanted[i]].forEach((a) => counts.set(a, (counts.get(a) || 0) + 1)));
  return [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
}

function paintLane(canvas, player, side, wanted, colours) {
  const ratio = Math.min(2, window.devicePixelRatio || 1), width = Math.max(60, canvas.clientWidth) * ratio;
  if (canvas.width === Math.round(width) && canvas.dataset.painted) return;
  canvas.width = Math.round(width);
  canvas.height = 14 * ratio;
  canvas.dataset.painted = "yes";
  const g = canvas.getContext("2d"), x = (step) => step / Math.max(1, player.last) * canvas.width;
  side.actions.forEach((done, t) => {
    for (const [action, top] of [[wanted[t], 0], [done, 0.5]]) {
      g.fillStyle = colours.get(action);
      g.fillRect(x(t), top * canvas.height, Math.max(1, x(t + 1) - x(t)), canvas.height / 2);
    }
  });
}

function addLane(player, after, node, name) {
  const head = make("span", { class: "at" }), track = make("div", { class: "track lane" }, node, head);
  track.addEventListener("click", (event) => player.seek(event, track, { marks: [] }));
  player.heads.push(head);
  after.after(make("span", {}, name), track);
  return track;
}

function addActionLanes(player) {
  const { replay } = player, wanted = replay.sides.map(wantedActions), used = usedActions(player, wanted);
  if (used.length < 2 || used.length > ACTION_COLOURS.length) return; // continuous actions are traces
  if (replay.actions.length <= ACTION_COLOURS.length) replay.actions.forEach(colourOf); // also those that are not used here
  const colours = new Map(used.map((action) => [action, colourOf(replay.actions[action])]));
  const tracks = [...player.root.querySelectorAll(".line > .track")];
  const differs = replay.sides.some((side, i) => wanted[i].some((action, t) => action !== side.actions[t]));
  const painters = replay.sides.map((side, i) => {
    const differ = wanted[i].filter((action, t) => action !== side.actions[t]).length;
    const canvas = make("canvas", { role: "img", "aria-label": `Actions: wanted (upper half) and done (lower half); they differ in ${differ} of ${side.actions.length} steps` });
    const track = addLane(player, tracks[i], canvas, "actions");
    track.addEventListener("mousemove", (event) => {
      const box = track.getBoundingClientRect(), t = Math.floor((event.clientX - box.left) / box.width * player.last);
      if (t < 0 || t >= side.actions.length) { track.title = ""; return; }
      const [done, own] = [side.actions[t], wanted[i][t]].map((action) => replay.actions[action]);
      track.title = `step ${player.first + t}: ${done}${done === own ? "" : `; the policy wanted: ${own}`}`;
    });
    return () => paintLane(canvas, player, side, wanted[i], colours);
  });
  player.root.addEventListener("step", () => painters.forEach((paint) => paint()));
  const chips = used.map((action) => make("span", {}, make("i", { style: `background:${colours.get(action)}` }), replay.actions[action]));
  player.root.querySelector(".line").after(make("div", { class: "legend actions" }, ...chips,
    ...(differs ? [make("span", {}, "upper half: wanted by the policy, lower half: done")] : [])));
}

function addBands(player) {
  for (const { name, spans } of player.replay.bands || []) {
    const tracks = player.root.querySelectorAll(".line > .track"), life = make("span", {});
    const track = addLane(player, tracks[tracks.length - 1], life, name);
    for (const [from, to] of spans)
      track.append(make("span", { class: "m", style: `left:${100 * from / player.last}%;width:${100 * (to - from) / player.last}%` }));
  }
}

function addLink(player) {
  const button = make("button", { type: "button", title: "copy a link to this seed and step" }, "Link");
  button.addEventListener("click", () => {
    const hash = `#seed=${player.replay.seed}&step=${player.first + player.step}`;
    history.replaceState(null, "", hash);
    const says = (text) => { button.textContent = text; setTimeout(() => { button.textContent = "Link"; }, 1500); };
    if (!navigator.clipboard) { says("In the address"); return; }
    navigator.clipboard.writeText(location.href).then(() => says("Copied"), () => says("In the address"));
  });
  player.root.querySelector(".controls").append(button);
}

PLAYER_EXTRAS.push(addBands, addActionLanes, addLink);
