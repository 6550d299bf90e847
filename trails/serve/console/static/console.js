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
