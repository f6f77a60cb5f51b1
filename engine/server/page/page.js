// Rows are shown by the words that are typed; "/" goes to the field, Escape empties it.
"use strict";
const texts = new WeakMap();
const textOf = (row) => {
  if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
  return texts.get(row);
};
for (const field of document.querySelectorAll("input[data-filters]")) {
  const table = document.getElementById(field.dataset.filters);
  const told = document.querySelector(`output[for="${field.id}"]`);
  let waiting = 0;
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    table.classList.toggle("is-filtered", words.length > 0);
    for (const row of rows) {
      const isShown = words.every((word) => textOf(row).includes(word));
      if (row.hidden === isShown) row.hidden = !isShown;
      shown += isShown;
    }
    const all = rows.length.toLocaleString("en");
    told.textContent = words.length ? `${shown.toLocaleString("en")} of ${all}` : all;
  };
  field.addEventListener("input", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(filter); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
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
