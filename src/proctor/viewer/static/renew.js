"use strict";
// Puts what is new of a page into the one that is open. Nodes stay where they can, and with them focus, selection,
// what was unfolded and how a table was sorted.
const proctor = (() => {
  // What scripts and readers set, and a fresh page knows nothing of.
  const OWN = new Set(["open", "hidden", "aria-sort", "aria-current", "disabled", "checked"]);

  const setAttributes = (old, fresh) => {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (!OWN.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  };

  const columns = (table) => table.tHead?.rows[0]?.cells.length ?? 0;

  const setRows = (old, fresh) => {
    const known = new Map([...old.rows].map((row) => [row.dataset.key, row]));
    const sorted = old.closest("table").querySelector("thead [aria-sort]") !== null;
    let at = old.rows[0] ?? null;
    for (const row of [...fresh.rows]) {
      const here = known.get(row.dataset.key);
      known.delete(row.dataset.key);
      if (!here) old.insertBefore(document.importNode(row, true), at);
      else {
        morph(here, row);
        if (here === at) at = at.nextElementSibling;
        else if (!sorted) old.insertBefore(here, at);
      }
    }
    for (const row of known.values()) {
      if (row === at) at = at.nextElementSibling;
      row.remove();
    }
  };

  const sortAgain = (table) => {
    const button = table.querySelector("thead [aria-sort] button"), focused = document.activeElement;
    if (!button) return;
    button.click(); // each turns the order around
    button.click();
    if (table.contains(focused)) focused.focus({ preventScroll: true });
  };

  const morph = (old, fresh) => {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(document.importNode(fresh, true));
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.isEqualNode(fresh) || old.matches("input, video")) return;
    if (old.nodeName === "SELECT") {
      const chosen = old.value;
      old.replaceChildren(...document.importNode(fresh, true).childNodes);
      old.value = chosen;
      return;
    }
    if (old.nodeName === "svg") return old.replaceWith(document.importNode(fresh, true));
    if (old.nodeName === "THEAD" && old.closest("table.sortable")) return; // its buttons are the page's own
    if (old.nodeName === "TABLE" && columns(old) !== columns(fresh)) {
      const table = document.importNode(fresh, true);
      old.replaceWith(table);
      if (table.classList.contains("sortable")) table.dispatchEvent(new Event("new-table", { bubbles: true }));
      return;
    }
    setAttributes(old, fresh);
    if (old.nodeName === "TBODY" && old.parentElement.matches("[data-keyed]")) setRows(old, fresh);
    else {
      const before = [...old.childNodes], after = [...fresh.childNodes];
      for (const [place, node] of after.entries()) {
        if (before[place]) morph(before[place], node);
        else old.append(document.importNode(node, true));
      }
      for (const node of before.slice(after.length)) node.remove();
    }
    if (old.nodeName === "TABLE" && old.classList.contains("sortable")) sortAgain(old);
  };

  // A page with little of its own is made new as a whole, for as long as somebody looks at it.
  const whole = document.querySelector("main[data-renew]");
  if (whole) {
    const renew = async () => {
      try {
        const answer = document.hidden ? null : await fetch(location.href);
        const fresh = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main") : null;
        if (fresh && !whole.contains(document.activeElement)) morph(whole, fresh);
      } catch { /* the viewer has ended; what is shown stays */ }
      setTimeout(renew, 1000 * whole.dataset.renew);
    };
    setTimeout(renew, 1000 * whole.dataset.renew);
  }

  return { morph, sortAgain };
})();
