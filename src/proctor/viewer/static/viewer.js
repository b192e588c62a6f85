"use strict";
// What the viewer adds to the report's page.js. Without it lists, filters and comparison still work, by loading pages.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // The list: filter, choose, keep it new.
  const runs = one("#runs tbody");
  if (runs) {
    const filter = one("#filter"), button = one("#compare"), hint = one("#hint");
    const chosen = [];
    const show = () => {
      if (!filter) return;
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of runs.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      one("#none").hidden = shown > 0;
      const count = runs.rows.length;
      one("#how-many").textContent = `${words.length ? `${shown} of ` : ""}${count} run${count === 1 ? "" : "s"}`;
    };
    const most = Number(hint?.textContent.match(/to (\d+)/)[1]);
    const choose = () => {
      button.disabled = chosen.length < 2 || chosen.length > most;
      hint.textContent = chosen.length === 0 ? `Choose 2 to ${most} runs.`
        : chosen.length === 1 ? "Chosen as baseline. Choose what to compare with it."
        : chosen.length <= most ? `${chosen.length} chosen; the first is the baseline.` : `${chosen.length} chosen, ${most} at most.`;
    };
    if (filter) {
      filter.closest("label").hidden = false;
      filter.addEventListener("input", show);
      filter.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
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
        // In the order of the clicks.
        location.href = `/compare/?${new URLSearchParams(chosen.map((run) => ["run", run]))}`;
      });
      choose();
      show();
    }
    const renew = async () => {
      if (!document.hidden) {
        try {
          const answer = await fetch("/rows");
          if (answer.ok) {
            const fresh = new DOMParser().parseFromString(`<table>${await answer.text()}</table>`, "text/html");
            const known = new Map([...runs.rows].map((row) => [row.dataset.run, row]));
            if (!filter && fresh.querySelector("tr")) return location.reload();
            for (const row of all("tr", fresh)) {
              const old = known.get(row.dataset.run);
              known.delete(row.dataset.run);
              if (!old) runs.prepend(document.importNode(row, true));
              else if (old.innerHTML !== row.innerHTML && !old.contains(document.activeElement)) {
                const box = one("input", old)?.checked;
                old.replaceChildren(...document.importNode(row, true).childNodes);
                old.className = row.className;
                if (box && one("input", old)) one("input", old).checked = true;
              }
            }
            for (const row of known.values()) row.remove();
            show();
          }
        } catch { /* the viewer has ended; what is shown stays */ }
      }
      setTimeout(renew, one("tr.running", runs) ? 2000 : 10000);
    };
    setTimeout(renew, 2000);
  }

  // A run that goes on.
  const live = one("#live");
  if (live) {
    const began = one("#all-episodes") !== null;
    const look = async () => {
      try {
        const answer = await fetch(live.dataset.live);
        if (answer.ok) {
          const now = await answer.json();
          const bar = one("progress", live);
          bar.max = now.planned || 1;
          bar.value = now.ended;
          for (const [name, words] of Object.entries(now.words)) {
            const place = one(`[data-word=${name}]`, live);
            if (place && place.textContent !== words) place.textContent = words;
          }
          const video = one("#player video");
          if (now.state !== "running" || (!began && now.planned)) {
            if (!video || video.paused) return location.reload();
            one("#live-h").textContent = "It has ended: reload to see all";
            return;
          }
        }
      } catch { one("#live-note").textContent = "The viewer does not answer. What is shown is the last that it said."; }
      setTimeout(look, 1000);
    };
    setTimeout(look, 1000);
    // The headline below is made anew, too; a page takes time to make, of which the run is to lose a twentieth at most.
    const headline = one("#result");
    const renew = async () => {
      const start = performance.now();
      try {
        const answer = document.hidden ? null : await fetch(location.pathname);
        if (answer?.ok) {
          const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#result");
          if (fresh) headline.replaceChildren(...document.importNode(fresh, true).childNodes);
        }
      } catch { return; }
      setTimeout(renew, Math.max(5000, 20 * (performance.now() - start)));
    };
    if (headline) setTimeout(renew, 3000);
  }

  // An episode's page: keys go from failure to failure.
  const keys = one(".keys");
  if (keys) {
    keys.hidden = false;
    document.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
      if (event.target.closest("video, input, select, textarea, pre")) return; // they have a use for the keys
      const link = one(`.neighbours [data-key="${event.key}"]`);
      if (link) location.href = link.href;
    });
  }

  // An episode without a video: the viewer films it, and the page is made anew when it has.
  const wanted = one(".film-request");
  if (wanted) {
    const button = one("button", wanted), status = one("[role=status]", wanted);
    const say = (words) => { if (status.textContent !== words) status.textContent = words; };
    let began = 0;
    const ask = async (options) => {
      try {
        const answer = await fetch(wanted.dataset.film, options);
        if (!answer.ok) {
          const text = await answer.text();
          throw new Error(answer.headers.get("content-type").startsWith("text/plain") ? text.trim() : `The viewer answers ${answer.status}.`);
        }
        const now = await answer.json();
        if (now.state === "done") return location.reload();
        button.hidden = button.disabled = now.state === "waiting" || now.state === "filming";
        if (now.state === "none") return;
        say(now.state === "filming" ? `filming: ${Math.round((performance.now() - began) / 1000)} s` : now.words);
        if (now.state !== "failed") setTimeout(ask, 1000);
      } catch (error) {
        button.hidden = button.disabled = false;
        say(error instanceof TypeError ? "The viewer does not answer." : error.message);
      }
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      began = performance.now();
      button.disabled = true;
      say("asking");
      ask({ method: "POST", headers: { "X-Proctor-Token": wanted.dataset.token } });
    });
    // Somebody may have asked for it before.
    began = performance.now();
    fetch(wanted.dataset.film).then((answer) => answer.json()).then((now) => {
      if (now.state === "waiting" || now.state === "filming") ask();
    }).catch(() => {});
  }

  // Episodes: filter while typing, watch beside the table.
  const table = one("#episode-rows");
  if (table) {
    const form = one(".episode-filters"), rows = () => [...table.tBodies[0].rows];
    if (table.dataset.cut === "0" && !location.search) {
      one("button", form).hidden = true;
      form.addEventListener("submit", (event) => event.preventDefault());
      const show = () => {
        const task = form.task.value.trim().toLowerCase(), kind = form.outcome.value;
        let shown = 0;
        for (const row of rows()) {
          row.hidden = !row.cells[0].textContent.toLowerCase().includes(task) || (kind !== "" && row.dataset.outcome !== kind);
          shown += !row.hidden;
        }
        one("#matching").textContent = `${shown} episode${shown === 1 ? "" : "s"}`;
      };
      form.addEventListener("input", show);
      show();
    }
    const player = one("#player"), video = one("video", player);
    let current = null;
    const watch = (row) => {
      current?.removeAttribute("aria-current");
      current = row;
      row.setAttribute("aria-current", "true");
      const [task, episode, outcome, , seed, steps] = [...row.cells].map((cell) => cell.textContent);
      one(".card-title", player).textContent = task;
      one(".outcome", player).textContent = outcome;
      one(".outcome", player).className = `outcome ${outcome}`;
      one(".card-facts", player).textContent = `episode ${episode} · seed ${seed} · ${steps} steps`;
      video.setAttribute("aria-label", `${task}, episode ${episode}: ${outcome}`);
      player.hidden = false;
      video.src = one(".watch", row).href;
      video.play().catch(() => {}); // who has forbidden that presses play
    };
    const step = (way) => {
      const seen = rows().filter((row) => !row.hidden && one(".watch", row));
      const next = seen[seen.indexOf(current) + way];
      if (next) watch(next);
    };
    table.addEventListener("click", (event) => {
      const link = event.target.closest(".watch");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      watch(link.closest("tr"));
    });
    one("#before", player).addEventListener("click", () => step(-1));
    one("#next", player).addEventListener("click", () => step(1));
    one("#close", player).addEventListener("click", () => {
      video.pause();
      player.hidden = true;
      current?.removeAttribute("aria-current");
      one(".watch", current)?.focus();
    });
    video.addEventListener("play", () => { if (video.duration - video.currentTime < 0.05) video.currentTime = 0; });
  }
})();
