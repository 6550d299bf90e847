"use strict";
// The SPARQL editor: Yasqe over the text area, answers of /sparql as tables. All that a store holds is shown as text.
const form = document.getElementById("ask");
const area = document.getElementById("query");
const place = document.getElementById("answer");
const stop = document.getElementById("stop");
const MOST = 1000;
let editor = null;
let running = null;

const element = (name, attributes = {}, ...content) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
};
const text = () => (editor ? editor.getValue() : area.value);
const seconds = (from) => `${((performance.now() - from) / 1000).toFixed(2)} s`;

// --- the editor

const edit = () => {
  if (!window.Yasqe) return;
  const terms = JSON.parse(area.dataset.terms);
  Yasqe.registerAutocompleter({
    name: "trails",
    bulk: false,
    isValidCompletionPosition: (yasqe) => /^[a-z]*:?\w*$/.test(yasqe.getCompleteToken().string),
    get: (yasqe, token) => terms.filter((term) => term.startsWith(token.string.trim())),
  });
  Yasqe.defaults.autocompleters = ["trails", "variables"]; // others ask servers elsewhere
  const host = document.getElementById("editor");
  host.hidden = false;
  editor = new Yasqe(host, {
    value: area.value, persistenceId: null, showQueryButton: false, resizeable: true,
    createShareableLink: undefined, pluginButtons: undefined, consumeShareLink: undefined, prefixCcApi: "",
    editorHeight: "22rem", lineWrapping: true, requestConfig: { endpoint: "/sparql" },
  });
  editor.setValue(area.value);
  editor.addKeyMap({ "Ctrl-Enter": () => form.requestSubmit(), "Cmd-Enter": () => form.requestSubmit() });
  editor.getInputField().setAttribute("aria-label", "Query");
  area.hidden = true;
  document.querySelector(".keys").hidden = false;
};

// --- asking

const ask = async () => {
  running?.abort();
  running = new AbortController();
  const mine = running;
  const started = performance.now();
  const format = form.elements.format.value;
  stop.hidden = false;
  place.replaceChildren(element("p", { class: "faint" }, "Asking…"));
  const accept = { json: "application/sparql-results+json, text/turtle;q=0.9", csv: "text/csv", tsv: "text/tab-separated-values",
    xml: "application/sparql-results+xml, application/rdf+xml;q=0.9", turtle: "text/turtle" }[format];
  history.replaceState(null, "", text().length < 4000 ? `?query=${encodeURIComponent(text())}` : location.pathname);
  try {
    const answer = await fetch("/sparql", { method: "POST", body: new URLSearchParams({ query: text() }), headers: { accept }, signal: mine.signal });
    const body = await answer.text();
    const kind = answer.headers.get("content-type") ?? "";
    place.replaceChildren(...shown(answer.ok, kind, body, seconds(started), format));
  } catch (error) {
    if (mine === running) place.replaceChildren(element("p", { class: "bad" }, mine.signal.aborted ? "Stopped." : "The server cannot be reached."));
  }
  if (mine === running) stop.hidden = true;
};

const shown = (ok, kind, body, took, format) => {
  if (!ok) return [problem(kind, body)];
  if (format === "json" && kind.startsWith("application/sparql-results+json")) {
    const found = JSON.parse(body);
    return "boolean" in found ? [summary(`${found.boolean ? "Yes" : "No"}, in ${took}`, body, "json")] : table(found, took, body);
  }
  const ending = kind.includes("csv") ? "csv" : kind.includes("tab-") ? "tsv" : kind.includes("xml") ? "xml" : "ttl";
  return [summary(`${body.length.toLocaleString("en")} characters, in ${took}`, body, ending), element("pre", { class: "raw", tabindex: "0" }, body.slice(0, 200000))];
};

const problem = (kind, body) => {
  let words = body.slice(0, 2000);
  try { const told = JSON.parse(body); words = told.detail || told.title || words; } catch { /* it is no problem document */ }
  return element("p", { class: "bad problem", role: "alert" }, words);
};

const summary = (words, body, ending) => {
  const link = element("a", { class: "button", download: `answer.${ending}`, href: "#" }, `Save as ${ending}`);
  link.addEventListener("click", () => {
    link.href = URL.createObjectURL(new Blob([body]));
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  return element("p", { class: "tools" }, element("strong", {}, words), link);
};

const table = (found, took, body) => {
  const names = found.head.vars;
  const rows = found.results.bindings;
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
  const lines = rows.slice(0, MOST).map((row) => element("tr", {}, ...names.map((name) => cell(row[name]))));
  const more = rows.length > MOST ? [element("p", { class: "faint" }, `The first ${MOST.toLocaleString("en")} are shown.`)] : [];
  const box = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Rows" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)));
  return [summary(`${rows.length.toLocaleString("en")} ${rows.length === 1 ? "row" : "rows"}, in ${took}`, body, "json"), box, ...more];
};

const TURN = /^urn:trails:session:([^/]+)(?:\/(\d{1,12})-[0-9a-f]{16}.*)?$/;
const cell = (term) => {
  if (!term) return element("td");
  const value = term.value.length > 2000 ? `${term.value.slice(0, 2000)}…` : term.value;
  const number = /#(integer|decimal|double|int|long|float)$/.test(term.datatype ?? "");
  if (term.type !== "uri") return element("td", number ? { class: "right" } : { dir: "auto" }, value);
  const turn = TURN.exec(term.value);
  if (!turn) return element("td", { class: "iri" }, value);
  const id = encodeURIComponent(decodeURIComponent(turn[1]));
  const at = turn[2] === undefined ? "" : `&turn=${turn[2]}#turn-${turn[2]}`;
  return element("td", { class: "iri" }, element("a", { href: `/session?id=${id}${at}` }, value));
};

form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
stop.addEventListener("click", () => running?.abort());
document.getElementById("catalogue").addEventListener("change", (event) => event.target.form.requestSubmit());
edit();
