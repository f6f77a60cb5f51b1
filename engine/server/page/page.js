// Rows are shown by the words that are typed; "/" goes to the field, Escape empties it. The log is shown as it grows.
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
  table.addEventListener("grown", filter);
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
for (const table of document.querySelectorAll("table[data-follows]")) {
  const most = 10000;
  let events = null;
  let isAsking = false;
  let isMore = false;
  const ended = document.createElement("p");
  Object.assign(ended, {hidden: true, className: "error", role: "alert"});
  ended.textContent = "What is committed from now on is not shown here: load the page again.";
  table.before(ended);
  const last = () => Number(table.tBodies[0].rows[0]?.cells[0].textContent ?? 0);
  const ask = async () => {
    const answer = await fetch(`?after=${last()}`);
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const came = [...page.getElementById(table.id).tBodies].flatMap((body) => [...body.rows]);
    if (!came.length) return;
    table.tBodies[0].prepend(...came);
    for (let more = table.rows.length - table.tHead.rows.length - most; more > 0; more -= 1) table.deleteRow(-1);
    table.dispatchEvent(new Event("grown"));
  };
  const askInTurn = async () => {
    isMore = true;
    if (isAsking) return;
    isAsking = true;
    try {
      while (isMore) {
        isMore = false;
        await ask();
      }
    } catch {
      isMore = true;
    } finally {
      isAsking = false;
    }
  };
  // Pages out of sight let go of their connection: a browser has few to one server.
  const follow = () => {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events) {
      events = new EventSource(`${table.dataset.follows}?after=${last()}`);
      events.addEventListener("message", askInTurn);
      // What the server ended over comes once it is there again.
      events.addEventListener("open", () => { ended.hidden = true; if (isMore) askInTurn(); });
      // It tries again by itself, but for an answer that is none, as where a token ended.
      events.addEventListener("error", (event) => { ended.hidden = event.target.readyState !== EventSource.CLOSED; });
    }
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
