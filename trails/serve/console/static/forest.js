"use strict";
// The forest: lanes in columns (trails/serve/console/forest_page.py), of which only those in view are drawn.
(async () => {
  const box = document.getElementById("forest");
  const svg = box.querySelector("svg");
  const told = document.getElementById("forest-told");
  const answer = await fetch(box.dataset.lanes);
  if (!answer.ok) { told.textContent = `The forest cannot be read: the server answered ${answer.status}.`; return; }
  const lanes = await answer.json();
  const total = lanes.id.length;
  if (!total) { told.textContent = "There are no sessions yet."; box.hidden = true; return; }

  const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  document.getElementById("forest-size").textContent = `${counted(lanes.origin.filter((origin) => origin < 0).length, "tree")}, ${counted(total, "session")}`;

  const HEAD = 26, LEFT = 18, NAMES = 210, FULL = 24, READABLE = 13;
  const view = { row: FULL, across: 1, top: 0, left: 0 };
  let chosen = lanes.chosen === null ? -1 : lanes.id.indexOf(lanes.chosen);
  let width = 0, height = 0, waiting = false;

  const lowest = () => Math.min(FULL, (height - HEAD - 8) / total);
  const plain = () => Math.max(60, width - LEFT - Math.min(NAMES, width / 2.4)) / lanes.length;
  const x = (position) => LEFT + position * plain() * view.across - view.left;
  const y = (row) => HEAD + (row + 0.5) * view.row - view.top;
  const name = (lane) => lanes.label[lane] ?? lanes.id[lane];
  const link = (lane) => `/session?id=${encodeURIComponent(lanes.id[lane])}`;

  const node = (kind, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const bend = (lane) => {  // the way from the origin's line to the own line, and along it
    const [from, to, at] = [x(lanes.x0[lane]), x(lanes.x1[lane]), y(lane)];
    if (lanes.origin[lane] < 0) return `M${from.toFixed(1)} ${at.toFixed(1)}H${to.toFixed(1)}`;
    const round = Math.min(8, view.row / 2);
    const above = Math.max(-20, y(lanes.origin[lane]));
    return `M${from.toFixed(1)} ${above.toFixed(1)}V${(at - round).toFixed(1)}q0 ${round} ${round} ${round}H${Math.max(to, from + round).toFixed(1)}`;
  };

  const draw = () => {
    waiting = false;
    const first = Math.max(0, Math.floor(view.top / view.row) - 1);
    const last = Math.min(total, Math.ceil((view.top + height - HEAD) / view.row) + 1);
    const drawn = [];
    for (const [turns, position] of lanes.ticks) {
      const at = x(position).toFixed(1);
      drawn.push(node("path", { class: "tick", d: `M${at} ${HEAD}V${height}` }));
    }
    const ways = { root: "", fork: "", spawned: "", deleted: "", missing: "" };
    const passing = new Set();
    for (let lane = last; lane < total; lane++) {  // edges that pass through: their own lines are below
      const origin = lanes.origin[lane];
      if (origin < 0 || origin >= last) continue;
      const at = x(lanes.x0[lane]).toFixed(0);
      if (passing.has(`${origin} ${at}`)) continue;
      passing.add(`${origin} ${at}`);
      ways[lanes.kind[lane]] += `M${at} ${Math.max(-20, y(origin)).toFixed(1)}V${height}`;
    }
    for (let lane = first; lane < last; lane++) ways[lanes.kind[lane]] += bend(lane);
    for (const [kind, way] of Object.entries(ways)) if (way) drawn.push(node("path", { class: `way ${kind}`, d: way }));
    if (chosen >= first && chosen < last) drawn.push(node("path", { class: "way chosen", d: bend(chosen) }));
    if (view.row >= READABLE) {
      for (let lane = first; lane < last; lane++) {
        const at = y(lane), end = x(lanes.x1[lane]);
        const linked = node("a", { href: link(lane), tabindex: "-1", class: lane === chosen ? "chosen" : "" });
        linked.append(node("title", {}, `${lanes.id[lane]}: turns ${lanes.start[lane]} to ${lanes.end[lane]}, ${lanes.kind[lane]}`));
        linked.append(node("circle", { cx: end.toFixed(1), cy: at.toFixed(1), r: 3.5, class: lanes.kind[lane] }));
        linked.append(node("text", { x: (Math.max(end, LEFT) + 9).toFixed(1), y: (at + 4).toFixed(1) }, name(lane).slice(0, 60)));
        linked.lastChild.append(node("tspan", { class: "turns", dx: 7 }, lanes.end[lane]));
        drawn.push(linked);
      }
    }
    drawn.push(node("rect", { class: "axis", width, height: HEAD }));
    for (const [turns, position] of lanes.ticks)
      drawn.push(node("text", { class: "turns", x: x(position).toFixed(1), y: 17, "text-anchor": "middle" }, turns.toLocaleString("en")));
    svg.replaceChildren(...drawn);
    box.dataset.drawn = String(last - first);
  };
  const redraw = () => {
    view.row = Math.min(60, Math.max(lowest(), view.row));
    view.across = Math.min(200, Math.max(1, view.across));
    view.top = Math.max(0, Math.min(view.top, total * view.row - (height - HEAD) + 12));
    view.left = Math.max(0, Math.min(view.left, lanes.length * plain() * (view.across - 1)));
    if (!waiting) { waiting = true; requestAnimationFrame(draw); }
  };
  const measure = () => {
    width = box.clientWidth; height = box.clientHeight;
    svg.setAttribute("width", width); svg.setAttribute("height", height);
    redraw();
  };
  const zoom = (factor, atX = width / 2, atY = height / 2) => {
    const row = (atY - HEAD + view.top) / view.row, along = (atX - LEFT + view.left) / view.across;
    const before = view.row;
    view.row = Math.min(60, Math.max(lowest(), view.row * factor));
    if (view.row === before || view.row > FULL) view.across = Math.min(200, Math.max(1, view.across * factor));
    view.top = row * view.row - (atY - HEAD);
    view.left = along * view.across - (atX - LEFT);
    redraw();
  };
  const show = (lane) => {
    chosen = lane;
    if (view.row < READABLE) view.row = FULL;
    const at = lane * view.row;
    if (at < view.top || at + view.row > view.top + height - HEAD) view.top = at - (height - HEAD) / 2;
    told.textContent = `${name(lane)}: ${lanes.end[lane]} turns, ${lanes.kind[lane]}` + (lanes.origin[lane] < 0 ? "" : ` at ${lanes.start[lane]} of ${name(lanes.origin[lane])}`);
    redraw();
  };

  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    const place = box.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.clientX - place.left, event.clientY - place.top);
    else { view.top += event.shiftKey ? 0 : event.deltaY; view.left += event.shiftKey ? event.deltaY : event.deltaX; redraw(); }
  }, { passive: false });
  let held = null;
  const fingers = new Map();
  box.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
    held = { x: event.clientX, y: event.clientY, moved: 0 };
  });
  box.addEventListener("pointermove", (event) => {
    if (!held || !fingers.has(event.pointerId)) return;
    if (fingers.size === 2) {
      const [one, other] = [...fingers.values()];
      const before = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      fingers.set(event.pointerId, event);
      const [a, b] = [...fingers.values()];
      const place = box.getBoundingClientRect();
      zoom(Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) / (before || 1), (a.clientX + b.clientX) / 2 - place.left, (a.clientY + b.clientY) / 2 - place.top);
      held.moved = 99;
      return;
    }
    fingers.set(event.pointerId, event);
    held.moved += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
    view.left -= event.clientX - held.x; view.top -= event.clientY - held.y;
    held.x = event.clientX; held.y = event.clientY;
    if (held.moved > 4 && !box.hasPointerCapture(event.pointerId)) box.setPointerCapture(event.pointerId);
    redraw();
  });
  const release = (event) => {
    fingers.delete(event.pointerId);
    if (event.type === "pointerup" && held && held.moved <= 4 && view.row < READABLE) {
      const lane = Math.floor((event.clientY - box.getBoundingClientRect().top - HEAD + view.top) / view.row);
      if (lane >= 0 && lane < total) { show(lane); view.top = lane * view.row - (height - HEAD) / 2; redraw(); }
    }
    if (!fingers.size) setTimeout(() => { held = null; });
  };
  for (const kind of ["pointerup", "pointercancel"]) box.addEventListener(kind, release);
  box.addEventListener("click", (event) => { if (held && held.moved > 4) event.preventDefault(); }, true);
  box.addEventListener("dragstart", (event) => event.preventDefault());

  const page = () => Math.max(1, Math.floor((height - HEAD) / view.row) - 1);
  const steps = { ArrowDown: () => 1, ArrowUp: () => -1, PageDown: page, PageUp: () => -page(), Home: () => -total, End: () => total };
  box.addEventListener("keydown", (event) => {
    if (event.key in steps) show(Math.max(0, Math.min(total - 1, chosen + steps[event.key]())));
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") { view.left += event.key === "ArrowRight" ? 60 : -60; redraw(); }
    else if (event.key === "Enter" && chosen >= 0) location.href = link(chosen);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else return;
    event.preventDefault();
  });
  document.getElementById("forest-in").addEventListener("click", () => zoom(1.6));
  document.getElementById("forest-out").addEventListener("click", () => zoom(1 / 1.6));
  document.getElementById("forest-fit").addEventListener("click", () => { Object.assign(view, { row: 0, across: 1, top: 0, left: 0 }); redraw(); });
  const field = document.getElementById("forest-find");
  const find = (after) => {
    const wanted = field.value.trim().toLowerCase();
    if (!wanted) return;
    for (let step = 0; step < total; step++) {
      const lane = (after + step + total) % total;
      if (lanes.id[lane].toLowerCase().includes(wanted) || lanes.label[lane]?.toLowerCase().includes(wanted)) { show(lane); return; }
    }
    told.textContent = "No session is called so.";
  };
  field.addEventListener("input", () => find(0));
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); find(chosen + 1); } });
  new ResizeObserver(measure).observe(box);
  measure();
  if (chosen >= 0) show(chosen);
})();
