// Rows are shown by the words that are typed; "/" goes to the field, Escape empties it.
"use strict";
for (const field of document.querySelectorAll("input[data-filters]")) {
  const rows = [...document.querySelectorAll(`#${field.dataset.filters} tbody tr`)];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  let waiting = 0;
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row, i) => { row.hidden = !words.every((word) => texts[i].includes(word)); });
  };
  field.addEventListener("input", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(filter); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && document.activeElement === field) {
      field.value = "";
      filter();
    }
  });
}
for (const words of document.querySelectorAll("textarea")) {
  words.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) words.form.requestSubmit();
  });
}
