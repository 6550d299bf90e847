"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const make = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const sections = [...document.querySelectorAll("main > section[data-n]")];
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const named = (section) => section.dataset.n;
  const MOST_FOUND = 200, MOST_CELLS = 4e6, MOST_WORD_CELLS = 1e6, AT_ONCE = 20, MOST_MS = 12;

  // A branch is its own section and, of its ancestors' sections, the turns below where it leaves them.
  const chain = (section) => {
    const parts = [];
    let end = Infinity;
    for (let at = section; at; at = get(at.dataset.p || "")) {
      const start = Number(at.dataset.at || 0);
      if (start < end || at === section) parts.unshift([at, end]);
      end = Math.min(end, start);
    }
    return parts;
  };
  const articles = (section) => [...section.querySelectorAll(":scope > ol > li")];
  const index = (article) => Number(article.id.slice(article.id.indexOf("-") + 1));
  const transcript = (section) =>
    chain(section).flatMap(([part, end]) => articles(part).filter((article) => index(article) < end));
  const head = (article) => article.firstElementChild.textContent;
  const role = (article) => head(article).slice(head(article).indexOf(" ") + 1);
  const texts = (article) => [...article.querySelectorAll(":scope > p, :scope > .M, :scope > details > p, :scope > details > .M")];
  const said = (article) => texts(article).map((text) => text.textContent).join("\n");

  // --- one branch, or all

  const all = () => {
    for (const section of sections) section.hidden = false;
    for (const article of document.querySelectorAll("li.x")) article.classList.remove("x");
    for (const link of links.values()) link.removeAttribute("aria-current");
    get("all").hidden = true;
  };
  const only = (section) => {
    all();
    const parts = new Map(chain(section));
    for (const each of sections) {
      each.hidden = !parts.has(each);
      if (parts.has(each)) for (const article of articles(each)) article.classList.toggle("x", index(article) >= parts.get(each));
    }
    links.get(section.id)?.setAttribute("aria-current", "true");
    get("all").hidden = false;
  };
  const follow = () => {
    const target = get(location.hash.slice(1));
    if (target && target.matches("section[data-n]")) only(target);
    else if (target && target.matches("li")) {
      if (target.classList.contains("x") || target.closest("section").hidden) all();
    } else return;
    target.scrollIntoView();
  };

  // --- search

  const find = () => {
    const wanted = get("find").value.toLowerCase();
    const list = get("found").querySelector("ol");
    list.replaceChildren();
    get("found").hidden = !wanted;
    if (!wanted) { get("count").textContent = ""; return; }
    let count = 0;
    for (const section of sections) for (const article of articles(section)) {
      const text = said(article), place = text.toLowerCase().indexOf(wanted);
      if (place < 0) continue;
      count += 1;
      if (count > MOST_FOUND) continue;
      const item = make("li"), link = make("a", `${named(section)}, ${head(article)}`);
      link.href = `#${article.id}`;
      const line = make("div", text.slice(Math.max(0, place - 60), place));
      line.dir = "auto";
      line.append(make("mark", text.slice(place, place + wanted.length)), text.slice(place + wanted.length, place + wanted.length + 100));
      item.append(link, line);
      list.append(item);
    }
    const more = count > MOST_FOUND ? `, the first ${MOST_FOUND} are shown` : "";
    get("count").textContent = `${count} ${count === 1 ? "turn" : "turns"}${more}`;
  };

  // --- diff

  // Pairs of places at which two lists agree by what stands once in each, in order: as many as can be of these.
  const byOnces = (left, right, start, a, b) => {
    const onces = (list, end) => {
      const places = new Map();
      for (let at = start; at < end; at += 1) places.set(list[at], places.has(list[at]) ? -1 : at);
      return places;
    };
    const ours = onces(left, a), theirs = onces(right, b), ends = [], before = new Map();
    for (const [key, at] of ours) {
      const other = theirs.get(key) ?? -1;
      if (at < 0 || other < 0) continue;
      let low = 0, high = ends.length;
      while (low < high) { const middle = (low + high) >> 1; if (ends[middle][1] < other) low = middle + 1; else high = middle; }
      const pair = [at, other];
      before.set(pair, ends[low - 1]);
      ends[low] = pair;
    }
    const pairs = [];
    for (let pair = ends.at(-1); pair; pair = before.get(pair)) pairs.push(pair);
    return pairs.reverse();
  };
  // Pairs of places at which two lists agree, in order: as many as can be, or where they are long by what stands once in each.
  const agreeing = (one, other, most) => {
    const numbers = new Map(), pairs = [], ends = [];  // numbers are compared quicker than texts
    const [left, right] = [one, other].map((list) => list.map((each) => {
      if (!numbers.has(each)) numbers.set(each, numbers.size);
      return numbers.get(each);
    }));
    let start = 0, a = left.length, b = right.length;
    while (start < a && start < b && left[start] === right[start]) { pairs.push([start, start]); start += 1; }
    while (a > start && b > start && left[a - 1] === right[b - 1]) { a -= 1; b -= 1; ends.push([a, b]); }
    ends.reverse();
    const rows = a - start, columns = b - start;
    if (rows && columns && rows * columns <= most) {
      const width = columns + 1, best = new Uint32Array((rows + 1) * width);
      for (let i = rows - 1; i >= 0; i -= 1) for (let j = columns - 1; j >= 0; j -= 1)
        best[i * width + j] = left[start + i] === right[start + j] ? best[(i + 1) * width + j + 1] + 1
          : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
      for (let i = 0, j = 0; i < rows && j < columns;) {
        if (left[start + i] === right[start + j]) pairs.push([start + i++, start + j++]);
        else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i += 1;
        else j += 1;
      }
    }
    else if (rows && columns) pairs.push(...byOnces(left, right, start, a, b));
    return pairs.concat(ends);
  };
  const words = (one, other) => {
    const left = one.match(/\s+|[^\s]+/g) || [], right = other.match(/\s+|[^\s]+/g) || [];
    const cells = [make("div"), make("div")];
    let i = 0, j = 0;
    for (const [a, b] of [...agreeing(left, right, MOST_WORD_CELLS), [left.length, right.length]]) {
      if (a > i) cells[0].append(make("del", left.slice(i, a).join("")));
      if (b > j) cells[1].append(make("ins", right.slice(j, b).join("")));
      if (a < left.length) { cells[0].append(left[a]); cells[1].append(right[b]); }
      i = a + 1; j = b + 1;
    }
    return cells;
  };
  const row = (kind, left, right) => {
    const made = make("div", undefined, `d ${kind}`);
    made.dataset.kind = kind;
    const cells = kind === "changed" ? words(said(left), said(right))
      : [left, right].map((article) => make("div", article ? said(article) : ""));
    [left, right].forEach((article, side) => {
      if (!article) return;
      const heading = make("b"), link = make("a", String(index(article)));
      link.href = `#${article.id}`;
      heading.append(link, ` ${role(article)}\n`);
      cells[side].prepend(heading);
      cells[side].dir = "auto";
    });
    made.append(...cells);
    return made;
  };
  const gap = (left, right, rows) => {
    let j = 0;
    const places = new Map();  // the places of each role, the last one first
    for (let at = right.length - 1; at >= 0; at -= 1) {
      const same = places.get(role(right[at]));
      if (same) same.push(at); else places.set(role(right[at]), [at]);
    }
    for (const article of left) {
      const same = places.get(role(article)) || [];
      while (same.length && same.at(-1) < j) same.pop();
      if (!same.length) { rows.push(() => row("left", article, null)); continue; }
      for (const end = same.pop(); j < end; j += 1) { const only = right[j]; rows.push(() => row("right", null, only)); }
      const other = right[j];
      rows.push(() => row("changed", article, other));
      j += 1;
    }
    for (; j < right.length; j += 1) { const only = right[j]; rows.push(() => row("right", null, only)); }
  };
  // Rows are made while there is time for them, so that the page answers in between; another comparison ends this one.
  let comparison = 0;
  const fill = (box, rows) => {
    const mine = comparison += 1;
    const some = (start, most) => {
      if (mine !== comparison) return;
      const until = performance.now() + MOST_MS, made = [];
      let at = start;
      while (at < rows.length && at < start + most && performance.now() < until) made.push(rows[at++]());
      box.append(...made);
      box.setAttribute("aria-busy", String(at < rows.length));
      if (at < rows.length) setTimeout(some, 0, at, Infinity);
    };
    box.replaceChildren();
    some(0, AT_ONCE);
  };
  const diff = () => {
    const ends = [get("left"), get("right")].map((select) => get(select.value));
    const [left, right] = ends.map(transcript);
    let shared = 0;
    while (shared < left.length && left[shared] === right[shared]) shared += 1;
    const tails = [left.slice(shared), right.slice(shared)];
    const keys = tails.map((tail) => tail.map((article) => `${role(article)}\n${texts(article).map((text) => text.innerHTML).join("\n")}`));
    const rows = [];
    let i = 0, j = 0, equal = 0;
    const told = () => { if (equal) { const said = `${equal} equal`; rows.push(() => make("p", said, "e")); } equal = 0; };
    for (const [a, b] of [...agreeing(keys[0], keys[1], MOST_CELLS), [tails[0].length, tails[1].length]]) {
      if (a > i || b > j) { told(); gap(tails[0].slice(i, a), tails[1].slice(j, b), rows); }
      if (a < tails[0].length) equal += 1;
      i = a + 1; j = b + 1;
    }
    told();
    const box = get("diff");
    box.hidden = false;
    box.querySelector("h2").textContent = `${named(ends[0])} and ${named(ends[1])}`;
    box.querySelector("p").textContent = `${shared} ${shared === 1 ? "turn" : "turns"} in common, then:`;
    fill(box.querySelector("div"), rows.length ? rows : [() => make("p", "no difference", "e")]);
    box.scrollIntoView();
    box.focus();
  };

  // --- keys

  let current = null;
  const step = (forward) => {
    const shown = sections.filter((section) => !section.hidden).flatMap(articles).filter((article) => !article.classList.contains("x"));
    const next = shown[current && shown.includes(current) ? shown.indexOf(current) + (forward ? 1 : -1) : forward ? 0 : shown.length - 1];
    if (!next) return;
    current?.classList.remove("on");
    current = next;
    current.classList.add("on");
    current.scrollIntoView({ block: "nearest" });
  };
  const turn = (forward) => {
    const at = sections.findIndex((section) => links.get(section.id)?.hasAttribute("aria-current"));
    const next = sections[at + (forward ? 1 : at < 0 ? 0 : -1)];
    if (!next) return;
    history.pushState(null, "", `#${next.id}`);
    follow();
  };
  const keys = {
    "/": () => get("find").focus(), j: () => step(true), k: () => step(false), n: () => turn(true), p: () => turn(false),
    d: () => get("left").focus(), a: () => all(), "?": () => get("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target === get("find")) { get("find").value = ""; find(); get("find").blur(); }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea, dialog *")) return;
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });

  for (const select of [get("left"), get("right")]) for (const section of sections) {
    const option = make("option", named(section));
    option.value = section.id;
    select.append(option);
  }
  get("right").selectedIndex = Math.min(1, sections.length - 1);
  get("compared").hidden = sections.length < 2;
  get("find").addEventListener("input", find);
  get("compare").addEventListener("click", diff);
  get("all").addEventListener("click", () => { history.replaceState(null, "", "#"); all(); });
  get("keys").addEventListener("click", () => get("help").showModal());
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("main li details")) each.open = true; });
  get("tools").hidden = false;
  follow();
})();
