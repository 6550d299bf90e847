"use strict";
// A transcript: earlier turns are fetched as one scrolls up; "j" and "k" go to the next and the previous turn.
addEventListener("scroll", () => {
  const edge = document.querySelector("[data-older]");
  if (edge && !edge.dataset.asked && edge.getBoundingClientRect().bottom > -600 && scrollY < edge.offsetTop + 200 && scrollY < last) {
    edge.dataset.asked = "yes";
    htmx.trigger(edge, "wanted");
  }
  last = scrollY;
}, { passive: true });
let last = 0;

addEventListener("keydown", (event) => {
  if (!["j", "k"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const turns = [...document.querySelectorAll(".turn")];
  const at = turns.indexOf(document.activeElement.closest(".turn"));
  const inView = turns.findIndex((turn) => turn.getBoundingClientRect().bottom > 80);
  const next = at < 0 ? inView : at + (event.key === "j" ? 1 : -1);
  turns[next]?.focus();
  turns[next]?.scrollIntoView({ block: "start" });
});
