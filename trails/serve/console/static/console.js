"use strict";
// What every page of the console does: "/" goes to the search, times are shown in the reader's own zone, errors of htmx are told.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = document.querySelector("[data-slash]") ?? document.getElementById("find");
  event.preventDefault();
  field.focus();
  field.select();
});

const notice = (words) => {
  const place = document.getElementById("notice");
  place.textContent = words;
  place.classList.toggle("shown", words !== "");
};
addEventListener("htmx:responseError", (event) => notice(`The server answered ${event.detail.xhr.status}.`));
addEventListener("htmx:sendError", () => notice("The server cannot be reached."));
addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) notice(""); });

// What is live asks for news while the page is looked at; rows that changed are shown as such for a moment.
setInterval(() => {
  if (document.visibilityState !== "visible") return;
  for (const each of document.querySelectorAll("[data-live]")) if (!each.contains(document.activeElement)) htmx.trigger(each, "refresh");
}, 3000);
const states = new Map();
const remember = () => { for (const row of document.querySelectorAll("tr[data-state]")) states.set(row.id, row.dataset.state); };
addEventListener("DOMContentLoaded", remember);
addEventListener("htmx:beforeSwap", remember);
addEventListener("htmx:afterSwap", (event) => {
  if (!event.detail.requestConfig?.elt?.matches?.("[data-live]")) return;
  for (const row of document.querySelectorAll("[data-live] tr[data-state]"))
    if (states.get(row.id) !== row.dataset.state) row.classList.add("row-new");
});

// What a form could not do is told beside it.
addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.xhr.status >= 400 && event.detail.target.matches(".outcome")) event.detail.shouldSwap = true;
});

// Sessions that are chosen stay so when the list is narrowed or its rows are refreshed.
const chosen = new Set();
const picks = () => document.querySelectorAll('input[name="of"][form="choose"]');
addEventListener("change", (event) => {
  if (!event.target.matches('input[name="of"][form="choose"]')) return;
  if (event.target.checked) chosen.add(event.target.value); else chosen.delete(event.target.value);
  document.getElementById("chosen").textContent = `${chosen.size} chosen; two to eight can be compared.`;
});
addEventListener("htmx:afterSwap", () => { for (const pick of picks()) pick.checked = chosen.has(pick.value); });
addEventListener("formdata", (event) => {
  if (event.target.id !== "choose") return;
  event.formData.delete("of");
  for (const id of chosen) event.formData.append("of", id);
});
