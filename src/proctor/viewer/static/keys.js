"use strict";
// The keyboard: rows of a page's table, its filter, and what is done with a row. The keys are listed in the dialog.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const dialog = one("#keys");

  const help = () => { if (!dialog.open) dialog.showModal(); };
  for (const button of all(".show-keys")) {
    button.hidden = false;
    button.addEventListener("click", help);
  }
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  const table = () => one("#runs") ?? one("#episode-rows") ?? one("#points");
  const rows = () => (table() ? all("tbody tr:not([hidden])", table()).filter((row) => one("a.open", row)) : []);
  const here = () => document.activeElement?.closest?.("tbody tr") ?? null;
  const step = (way) => {
    const there = rows(), place = there.indexOf(here());
    const next = there[place < 0 ? (way > 0 ? 0 : there.length - 1) : Math.min(there.length - 1, Math.max(0, place + way))];
    one("a.open", next ?? document)?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const go = (selector) => {
    const link = one(selector);
    if (link) location.href = link.href;
  };

  const KEYS = {
    "?": help,
    "/": () => { const field = one("[data-filter]"); field?.focus(); field?.select(); },
    j: () => step(1),
    k: () => step(-1),
    u: () => go("[data-up]"),
    t: () => go(".links a[href^='/chart/']"),
    x: () => one("input[type=checkbox]", here() ?? document.createElement("tr"))?.click(),
    c: () => one("#compare:not(:disabled)")?.click(),
    w: () => one(".watch", here() ?? document.createElement("tr"))?.click(),
    Escape: () => { if (one("#player:not([hidden])")) one("#close").click(); },
    ArrowLeft: () => go('.neighbours [data-key="ArrowLeft"]'),
    ArrowRight: () => go('.neighbours [data-key="ArrowRight"]'),
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented || dialog.open) return;
    const field = event.target.closest("input:not([type=checkbox]), select, textarea, video, pre");
    if (field) { // they have a use for the keys
      if (!field.matches("[data-filter]")) return;
      if (event.key === "Escape") field.blur();
      if (event.key !== "ArrowDown") return;
    }
    // Arrows go through rows for who is in them, or comes from the filter; for others they move the page.
    const arrow = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const act = arrow ? (field || here()) && (() => step(arrow)) : KEYS[event.key];
    if (!act) return;
    if (event.key !== "Escape") event.preventDefault();
    act();
  });

  // A choice is shown at once.
  for (const form of all("form.choices")) {
    one("button", form).hidden = true;
    form.addEventListener("change", () => form.requestSubmit());
  }
})();
