// The studio's page. One picture is asked for at a time; while it is on its way only the newest wish is kept.
const token = new URLSearchParams(location.search).get("token") ?? "";
const byId = (id) => document.getElementById(id);
const handles = byId("handles");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const SVG = "http://www.w3.org/2000/svg";

const plain = () => ({ id: null, share: 0, seed: null });
const state = {
  model: null,
  images: new Map(), // id -> what the server said of it
  current: null, // id of the image that is edited
  points: [], // where the landmarks are now
  base: [], // where they were before the sliders moved them
  chosen: new Set(),
  past: [],
  future: [],
  look: plain(), // whose appearance: another image's, or one made from a seed
  playing: 0,
};

// Talking to the server

async function ask(path, options = {}) {
  const headers = { ...(token ? { "x-token": token } : {}), ...(options.headers ?? {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The studio does not answer; is it still running?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new Error(told.error ?? `The studio answered with status ${response.status}.`);
  }
  return response;
}

function say(words, bad = false) {
  const line = byId("status");
  line.textContent = words;
  line.classList.toggle("bad", bad);
}

const pictures = new Map(); // URL of a picture by image and kind
async function pictureUrl(id, kind) {
  const key = `${id}/${kind}`;
  if (!pictures.has(key)) {
    const response = await ask(`api/images/${encodeURIComponent(id)}/${kind}`);
    pictures.set(key, URL.createObjectURL(await response.blob()));
  }
  return pictures.get(key);
}

// Rendering: newest wish wins, no queue builds up

let busy = false;
let wish = null;
let drawn = 0; // pictures drawn so far, for whoever watches
const kindNow = () => document.querySelector("input[name=kind]:checked").value;
const view = (kind) => (document.querySelector(`input[name=kind][value=${kind}]`).checked = true);

function look() {
  if (state.look.seed !== null) return { seed: state.look.seed };
  return state.look.id ? { appearance: state.look.id, share: state.look.share } : {};
}

function request() {
  const kind = kindNow();
  return {
    id: state.current,
    kind: kind === "original" ? "decoded" : kind,
    landmarks: kind === "original" ? state.images.get(state.current).landmarks : state.points,
    ...(kind === "original" ? {} : look()),
  };
}

function render() {
  if (!state.current) return;
  wish = request();
  if (!busy) void drain();
}

async function drain() {
  busy = true;
  while (wish) {
    const now = wish;
    wish = null;
    const started = performance.now();
    try {
      const response = await ask("api/render", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(now),
      });
      const image = byId("result");
      const next = image.cloneNode();
      next.src = URL.createObjectURL(await response.blob());
      await next.decode(); // the page never shows, or saves, a picture that is half there
      image.replaceWith(next);
      if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
      const took = performance.now() - started;
      drawn += 1;
      document.documentElement.dataset.drawn = String(drawn);
      document.documentElement.dataset.milliseconds = took.toFixed(1);
      const server = Number(response.headers.get("x-milliseconds") ?? 0);
      const made = now.seed !== undefined && now.kind === "decoded" ? "A new appearance, made" : words[now.kind];
      say(`${made} in ${took.toFixed(0)} ms (model ${server.toFixed(0)} ms)`);
    } catch (error) {
      say(error.message, true);
    }
  }
  busy = false;
}

const words = {
  decoded: "Drawn from the landmarks",
  warped: "The photo's own pixels, moved,",
  blended: "The photo moved, with the decoder's changes,",
  maps: "Detection maps",
};

// Handles

function draw() {
  const shape = state.current ? state.images.get(state.current).landmarks : [];
  const lines = [...handles.querySelectorAll("line")];
  const dots = [...handles.querySelectorAll("circle")];
  state.points.forEach(([x, y], k) => {
    lines[k].setAttribute("x1", shape[k][0]);
    lines[k].setAttribute("y1", shape[k][1]);
    lines[k].setAttribute("x2", x);
    lines[k].setAttribute("y2", y);
    dots[k].setAttribute("cx", x);
    dots[k].setAttribute("cy", y);
    dots[k].classList.toggle("chosen", state.chosen.has(k));
    dots[k].setAttribute("aria-label", `landmark ${state.model.names[k]} at ${x.toFixed(2)}, ${y.toFixed(2)}`);
  });
  const names = [...state.chosen].sort((a, b) => a - b).map((k) => state.model.names[k]);
  byId("chosen").textContent = names.length ? names.join(", ") : "none";
  byId("undo").disabled = !state.past.length;
  byId("redo").disabled = !state.future.length;
  for (const id of ["reset", "copy", "save-png", "save-gif", "save-mp4", "all", "none"]) byId(id).disabled = !state.current;
  byId("invent").disabled = !state.current;
  byId("own").disabled = state.look.seed === null;
  for (const id of ["smaller", "larger", "turn-left", "turn-right"]) byId(id).disabled = state.chosen.size < 2;
}

function makeHandles() {
  handles.replaceChildren();
  for (let k = 0; k < state.model.landmarks; k += 1) handles.append(document.createElementNS(SVG, "line"));
  for (let k = 0; k < state.model.landmarks; k += 1) {
    const dot = document.createElementNS(SVG, "circle");
    dot.setAttribute("r", ".019");
    dot.setAttribute("fill", state.model.colours[k]);
    dot.setAttribute("tabindex", "0");
    dot.setAttribute("role", "button");
    dot.dataset.k = String(k);
    dot.addEventListener("focus", () => {
      if (!state.chosen.has(k) && !dragging) choose([k]);
    });
    handles.append(dot);
  }
}

function choose(numbers, add = false) {
  state.chosen = new Set(add ? [...state.chosen, ...numbers] : numbers);
  draw();
}

const copyOf = (points) => points.map((point) => [...point]);

function remember(kind = null) {
  // The kind of picture is kept where a step changes it.
  stop();
  state.past.push({ points: copyOf(state.points), look: { ...state.look }, kind });
  if (state.past.length > 200) state.past.shift();
  state.future = [];
}

function restore(from, to) {
  if (!from.length) return;
  stop();
  const kept = from.pop();
  to.push({ points: copyOf(state.points), look: { ...state.look }, kind: kept.kind && kindNow() });
  if (kept.kind) view(kept.kind);
  state.points = kept.points;
  state.base = copyOf(kept.points);
  state.look = kept.look;
  sliders(0, Math.round(100 * (state.look.id ? state.look.share : 0)));
  draw();
  render();
}

const held = (value) => Math.min(1.5, Math.max(-0.5, value));

function moveChosen(change) {
  for (const k of state.chosen) state.points[k] = change(state.points[k]).map(held);
  settled();
}

function settled() {
  state.base = copyOf(state.points);
  sliders(0, null);
  draw();
  render();
}

function aboutCentre(turn, scale) {
  const chosen = [...state.chosen].map((k) => state.points[k]);
  if (chosen.length < 2) return;
  remember();
  const centre = [0, 1].map((axis) => chosen.reduce((sum, point) => sum + point[axis], 0) / chosen.length);
  const [cos, sin] = [Math.cos(turn) * scale, Math.sin(turn) * scale];
  moveChosen(([x, y]) => [
    centre[0] + cos * (x - centre[0]) - sin * (y - centre[1]),
    centre[1] + sin * (x - centre[0]) + cos * (y - centre[1]),
  ]);
}

// Dragging, by mouse, pen or finger

let dragging = null;

function place(event) {
  const box = handles.getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
}

handles.addEventListener("pointerdown", (event) => {
  if (!state.current || event.button > 0) return;
  stop();
  const at = place(event);
  let k = event.target.dataset?.k;
  if (k === undefined && event.pointerType === "touch") {
    // Fingers are thick: the nearest landmark within reach is meant.
    const gaps = state.points.map(([x, y]) => Math.hypot(x - at[0], y - at[1]));
    const best = gaps.indexOf(Math.min(...gaps));
    if (gaps[best] < 0.06) k = String(best);
  }
  handles.setPointerCapture(event.pointerId);
  if (k !== undefined) {
    const number = Number(k);
    if (event.shiftKey) choose([number], true);
    else if (!state.chosen.has(number)) choose([number]);
    dragging = { kind: "move", from: at, points: copyOf(state.points), moved: false };
  } else {
    if (!event.shiftKey) choose([]);
    const path = document.createElementNS(SVG, "path");
    handles.append(path);
    dragging = { kind: "lasso", outline: [at], path, add: event.shiftKey };
  }
});

handles.addEventListener("pointermove", (event) => {
  if (!dragging) return;
  const at = place(event);
  if (dragging.kind === "move") {
    const [dx, dy] = [at[0] - dragging.from[0], at[1] - dragging.from[1]];
    if (!dragging.moved) {
      if (Math.hypot(dx, dy) < 0.002) return;
      remember();
      dragging.moved = true;
    }
    for (const k of state.chosen) {
      const [x, y] = dragging.points[k];
      state.points[k] = [held(x + dx), held(y + dy)];
    }
    settled();
  } else {
    dragging.outline.push(at);
    dragging.path.setAttribute("d", `M${dragging.outline.map((point) => point.join(",")).join("L")}Z`);
  }
});

function letGo() {
  if (dragging?.kind === "lasso") {
    const inside = state.points.flatMap((point, k) => (within(point, dragging.outline) ? [k] : []));
    dragging.path.remove();
    choose(inside, dragging.add);
  }
  dragging = null;
}
handles.addEventListener("pointerup", letGo);
handles.addEventListener("pointercancel", letGo);

function within([x, y], outline) {
  let inside = false;
  outline.forEach(([x1, y1], i) => {
    const [x2, y2] = outline[(i + 1) % outline.length];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  });
  return inside;
}

// Keyboard

document.addEventListener("keydown", (event) => {
  const command = event.ctrlKey || event.metaKey;
  if (!command && event.target.matches("select, input[type=range], input[type=radio]")) return;
  const key = event.key.toLowerCase();
  if (command && key === "z") restore(...(event.shiftKey ? [state.future, state.past] : [state.past, state.future]));
  else if (command && key === "y") restore(state.future, state.past);
  else if (command && key === "a" && state.current) choose(state.points.keys());
  else if (command || event.altKey) return;
  else if (key === "escape") choose([]);
  else if (key.startsWith("arrow") && state.chosen.size) {
    const step = event.shiftKey ? 0.03 : 0.006;
    const [dx, dy] = { arrowleft: [-step, 0], arrowright: [step, 0], arrowup: [0, -step], arrowdown: [0, step] }[key];
    if (!event.repeat) remember();
    moveChosen(([x, y]) => [x + dx, y + dy]);
  } else if (key === "+" || key === "=") aboutCentre(0, 1.06);
  else if (key === "-") aboutCentre(0, 1 / 1.06);
  else if (key === "[") aboutCentre(-0.06, 1);
  else if (key === "]") aboutCentre(0.06, 1);
  else return;
  event.preventDefault();
});

// Images

async function add(file) {
  say(`Opening ${file.name ?? "the pasted image"} ...`);
  try {
    const name = encodeURIComponent([...(file.name ?? "pasted")].slice(0, 80).join(""));
    const response = await ask("api/images", { method: "POST", headers: { "x-name": name }, body: file });
    const image = await response.json();
    await admit(image);
    await show(image.id);
  } catch (error) {
    say(error.message, true);
  }
}

async function admit(image) {
  state.images.set(image.id, image);
  const button = document.createElement("button");
  button.className = "thumb";
  button.dataset.id = image.id;
  button.title = image.name;
  button.setAttribute("aria-label", `edit ${image.name}`);
  const picture = document.createElement("img");
  picture.alt = "";
  picture.src = await pictureUrl(image.id, "square");
  button.append(picture);
  button.addEventListener("click", () => void show(image.id));
  const item = document.createElement("li");
  item.append(button);
  byId("images").append(item);
  const option = document.createElement("option");
  option.value = image.id;
  option.textContent = image.name;
  byId("goal").append(option);
}

async function show(id) {
  stop();
  const image = state.images.get(id);
  state.current = id;
  state.points = copyOf(image.landmarks);
  state.base = copyOf(image.landmarks);
  state.past = [];
  state.future = [];
  state.look = plain();
  state.chosen = new Set();
  byId("square").src = await pictureUrl(id, "square");
  byId("empty").hidden = true;
  for (const thumb of document.querySelectorAll(".thumb")) thumb.setAttribute("aria-pressed", String(thumb.dataset.id === id));
  byId("goal").value = "";
  goalChanged();
  draw();
  render();
}

byId("file").addEventListener("change", async (event) => {
  for (const file of event.target.files) await add(file);
  event.target.value = "";
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    byId("left").classList.toggle("over", kind === "dragover");
    if (kind === "drop") void (async () => { for (const file of event.dataTransfer.files) await add(file); })();
  });
}
document.addEventListener("paste", (event) => {
  for (const file of event.clipboardData.files) void add(file);
});

// Towards another image

const goal = () => state.images.get(byId("goal").value);

function sliders(share, look) {
  if (share !== null) byId("share").value = share;
  if (look !== null) byId("look").value = look;
  byId("share-value").textContent = `${byId("share").value} %`;
  byId("look-value").textContent = `${byId("look").value} %`;
}

function goalChanged() {
  stop();
  state.base = copyOf(state.points);
  const without = !goal();
  for (const id of ["share", "look", "swap", "play"]) byId(id).disabled = without;
  byId("look").disabled = without || !state.model.descriptors;
  byId("swap").disabled = without || !state.model.descriptors;
  sliders(0, 0);
}
byId("goal").addEventListener("change", goalChanged);

function goTo(share) {
  state.points = state.base.map(([x, y], k) => {
    if (state.chosen.size && !state.chosen.has(k)) return [x, y];
    const [u, v] = goal().landmarks[k];
    return [x + share * (u - x), y + share * (v - y)];
  });
  sliders(Math.round(100 * share), null);
  draw();
  render();
}

function slider(id, change) {
  let sliding = false; // one step back undoes the whole slide, by hand or by key
  byId(id).addEventListener("input", (event) => {
    if (!sliding) remember();
    sliding = true;
    change(event.target.value / 100);
  });
  byId(id).addEventListener("change", () => {
    sliding = false;
  });
}
slider("share", goTo);
slider("look", (share) => {
  state.look = { ...plain(), id: goal().id, share };
  sliders(null, null);
  draw();
  render();
});
byId("swap").addEventListener("click", () => {
  remember();
  const on = !(state.look.id === goal().id && state.look.share === 1);
  state.look = { ...plain(), id: on ? goal().id : null, share: on ? 1 : 0 };
  sliders(null, on ? 100 : 0);
  draw();
  render();
});

function stop() {
  if (state.playing) cancelAnimationFrame(state.playing);
  state.playing = 0;
  byId("play").setAttribute("aria-pressed", "false");
  byId("play").textContent = "Play";
}
byId("play").addEventListener("click", () => {
  if (state.playing) {
    stop();
    return;
  }
  remember();
  if (calm.matches) {
    goTo(1); // no movement for those who do not want any: straight to the goal
    return;
  }
  byId("play").setAttribute("aria-pressed", "true");
  byId("play").textContent = "Stop";
  const started = performance.now();
  const frame = (now) => {
    goTo(0.5 - 0.5 * Math.cos((now - started) / 900));
    state.playing = requestAnimationFrame(frame);
  };
  state.playing = requestAnimationFrame(frame);
});

// A new appearance, where the model comes with a generator

byId("invent").addEventListener("click", () => {
  remember(kindNow());
  state.look = { ...plain(), seed: Math.floor(Math.random() * 2 ** 31) };
  view("decoded");
  sliders(null, 0);
  draw();
  render();
});
byId("own").addEventListener("click", () => {
  remember();
  state.look = plain();
  byId("invent").focus(); // a button that is switched off loses the focus
  draw();
  render();
});

// Buttons

byId("undo").addEventListener("click", () => restore(state.past, state.future));
byId("redo").addEventListener("click", () => restore(state.future, state.past));
byId("reset").addEventListener("click", () => {
  remember();
  state.points = copyOf(state.images.get(state.current).landmarks);
  state.look = plain();
  sliders(0, 0);
  settled();
});
byId("all").addEventListener("click", () => choose(state.points.keys()));
byId("none").addEventListener("click", () => choose([]));
byId("smaller").addEventListener("click", () => aboutCentre(0, 1 / 1.06));
byId("larger").addEventListener("click", () => aboutCentre(0, 1.06));
byId("turn-left").addEventListener("click", () => aboutCentre(-0.06, 1));
byId("turn-right").addEventListener("click", () => aboutCentre(0.06, 1));
for (const radio of document.querySelectorAll("input[name=kind]")) radio.addEventListener("change", render);

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const stem = () => state.images.get(state.current).name.replace(/\.[^.]*$/, "");
const shown = () => (kindNow() === "decoded" && state.look.seed !== null ? `new-${state.look.seed}` : kindNow());

byId("save-png").addEventListener("click", async () => {
  const response = await fetch(byId("result").src);
  const blob = await response.blob();
  download(blob, `${stem()}-${shown()}.${blob.type === "image/jpeg" ? "jpg" : "png"}`);
  say("Saved the picture.");
});
for (const format of ["gif", "mp4"]) {
  byId(`save-${format}`).addEventListener("click", async () => {
    say(`Making the ${format.toUpperCase()} ...`);
    try {
      const wanted = { id: state.current, landmarks: state.points, ...look(), format };
      const headers = { "content-type": "application/json" };
      const response = await ask("api/morph", { method: "POST", headers, body: JSON.stringify(wanted) });
      download(await response.blob(), `${stem()}-morph.${format}`);
      say(`Saved the ${format.toUpperCase()}.`);
    } catch (error) {
      say(error.message, true);
    }
  });
}
byId("copy").addEventListener("click", async () => {
  const image = state.images.get(state.current);
  const [left, top, width, height] = image.box;
  const rows = state.points.map(([x, y], k) => ({
    landmark: state.model.names[k],
    x: Number((left + x * width).toFixed(2)),
    y: Number((top + y * height).toFixed(2)),
  }));
  const text = JSON.stringify({ image: image.name, width: image.width, height: image.height, landmarks: rows }, null, 1);
  document.documentElement.dataset.copied = text;
  try {
    await navigator.clipboard.writeText(text);
    say("Copied the landmarks as JSON.");
  } catch {
    download(new Blob([text], { type: "application/json" }), `${stem()}-landmarks.json`);
    say("The clipboard is closed to this page; saved the landmarks as a file.");
  }
});

// Beginning

try {
  state.model = await (await ask("api/model")).json();
  byId("new").hidden = !state.model.generator;
  makeHandles();
  goalChanged();
  draw();
  for (const image of state.model.images) await admit(image);
  if (state.model.images.length) await show(state.model.images[0].id);
  else say(`Ready: a model of ${state.model.landmarks} landmarks. Open an image.`);
  document.documentElement.dataset.ready = "true";
} catch (error) {
  say(error.message, true);
}
