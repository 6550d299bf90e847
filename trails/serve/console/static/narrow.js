"use strict";
// Narrows the list of questions to those that hold what is typed.
const narrow = document.querySelector(".narrow");
narrow.hidden = false;
narrow.querySelector("input").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const theme of document.querySelectorAll(".theme")) {
    for (const question of theme.querySelectorAll(".question")) {
      const text = question.textContent.toLowerCase();
      question.hidden = !words.every((word) => text.includes(word));
    }
    theme.hidden = !theme.querySelector(".question:not([hidden])");
  }
});
