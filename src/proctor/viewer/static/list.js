"use strict";
// The list of runs: filter while typing, choose, keep it new. Without this file it all works by loading pages.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const runs = one("#runs tbody");
  if (!runs) return;

  const filter = one("#filter"), button = one("#compare"), hint = one("#hint"), table = runs.parentElement;
  const chosen = [];
  const tag = new URLSearchParams(location.search).get("tag");
  const query = (words) => {
    const wanted = new URLSearchParams(Object.entries({ tag, q: words }).filter(([, value]) => value)).toString();
    return wanted && `?${wanted}`;
  };

  const show = () => {
    if (!filter) return;
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of runs.rows) {
      row.hidden = !words.every((word) => row.dataset.said.includes(word));
      shown += !row.hidden;
    }
    one("#none").hidden = shown > 0;
    const count = runs.rows.length;
    one("#how-many").textContent = `${shown < count ? `${shown} of ` : ""}${count} run${count === 1 ? "" : "s"}`;
    for (const link of all(".with-words")) link.search = query(filter.value.trim());
  };

  const most = Number(hint?.dataset.most);
  const choose = () => {
    button.disabled = chosen.length < 2 || chosen.length > most;
    hint.textContent = chosen.length === 0 ? `Choose 2 to ${most} runs.`
      : chosen.length === 1 ? "Chosen as baseline. Choose what to compare with it."
      : chosen.length <= most ? `${chosen.length} chosen; the first is the baseline.` : `${chosen.length} chosen, ${most} at most.`;
  };

  // What is here are all runs with the tag, so that words that were loaded with the page are only a filter again.
  const loadedWith = new URLSearchParams(location.search).get("q");
  if (filter) {
    one("#show-matching").hidden = true;
    filter.form.addEventListener("submit", (event) => event.preventDefault());
    filter.addEventListener("input", show);
    for (const box of all("input[name=run]:checked", runs)) chosen.push(box.value);
    runs.addEventListener("change", (event) => {
      const { value, checked } = event.target;
      const place = chosen.indexOf(value);
      if (checked && place < 0) chosen.push(value);
      if (!checked && place >= 0) chosen.splice(place, 1);
      choose();
    });
    one("form.list").addEventListener("submit", (event) => {
      event.preventDefault();
      if (button.disabled) return;
      // In the order of the clicks.
      location.href = `/compare/?${new URLSearchParams(chosen.map((run) => ["run", run]))}`;
    });
    choose();
    show();
  }

  const renew = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(`/rows${query("")}`);
        if (answer.ok) {
          const fresh = new DOMParser().parseFromString(`<table data-keyed><tbody>${await answer.text()}</tbody></table>`, "text/html");
          if (!filter && one("tr", fresh)) return location.reload();
          const before = runs.textContent;
          proctor.morph(runs, one("tbody", fresh));
          if (before !== runs.textContent) proctor.sortAgain(table);
          const there = new Set(all("input[name=run]", runs).map((box) => box.value));
          for (const gone of chosen.filter((run) => !there.has(run))) chosen.splice(chosen.indexOf(gone), 1);
          if (filter) { choose(); show(); }
        }
      } catch { /* the viewer has ended; what is shown stays */ }
    }
    setTimeout(renew, one("tr.running", table) ? 2000 : 10000);
  };
  setTimeout(renew, loadedWith ? 0 : 2000);
})();
