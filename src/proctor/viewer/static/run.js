"use strict";
// A run's page: made new while the run goes on; episodes filtered while typing, and watched beside the table.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const live = one("#live"), table = one("#episode-rows");

  const filter = () => {
    const form = one(".episode-filters"), table = one("#episode-rows");
    // Of rows that are only some of them, and of those of a choice, the viewer makes the next choice.
    if (!form || table.dataset.cut === "1" || location.search) return;
    one("button", form).hidden = true;
    const task = form.task.value.trim().toLowerCase(), kind = form.outcome.value;
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(task) || (kind !== "" && row.dataset.outcome !== kind);
      shown += !row.hidden;
    }
    one("#matching").textContent = `${shown} episode${shown === 1 ? "" : "s"}`;
  };
  if (table) {
    const form = one(".episode-filters");
    form.addEventListener("submit", (event) => { if (one("button", form).hidden) event.preventDefault(); });
    form.addEventListener("input", filter);
    filter();
    watchBeside();
  }
  if (live) goOn();

  function goOn() {
    const began = table !== null, player = one("#player"), note = one("#live-note");
    // What changes, in the order of the page. The rest of it says of when it is.
    const CHANGING = ["result", "all-episodes", "tasks", "steps", "time"];
    let ended = null, shown = null, shownAt = 0, cost = 0, asking = false;

    const setParts = (fresh) => {
      let before = null;
      for (const ident of CHANGING) {
        const now = one(`main > #${ident}`, fresh), old = one(`main > #${ident}`);
        if (now && old) proctor.morph(old, now);
        else if (now && before) {
          before.after(document.importNode(now, true));
          const link = one(`nav a[href="#${ident}"]`, fresh)?.closest("li");
          if (link) one(`nav a[href="#${before.id}"]`)?.closest("li").after(document.importNode(link, true));
        }
        before = one(`main > #${ident}`) ?? before;
      }
      // Errors are listed at the end of a section that has the videos, which stay as they are.
      const errors = one("#errors-0", fresh), listed = one("#errors-0");
      if (errors && listed) proctor.morph(listed, errors);
      else if (errors) one("#episodes")?.append(document.importNode(errors, true));
      filter();
    };

    // Making the parts takes time, of which the run is to lose a twentieth at most.
    const renew = async () => {
      if (asking || document.hidden || performance.now() < shownAt + Math.max(2000, 20 * cost)) return;
      if (ended === shown && performance.now() < shownAt + 10000) return;
      asking = true;
      const start = performance.now(), of = ended;
      try {
        const answer = await fetch(live.dataset.parts + location.search);
        if (answer.ok) {
          setParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
          shown = of;
        }
      } finally {
        shownAt = performance.now();
        cost = shownAt - start;
        asking = false;
      }
    };

    // The page of a run that has ended is another one. Who is watching an episode sees it to its end first.
    const finish = () => {
      const video = one("video", player ?? document), form = one(".episode-filters");
      const wanted = new URLSearchParams(form ? [...new FormData(form)].filter(([, value]) => value) : []).toString();
      const load = () => { if (wanted && !location.search) location.search = wanted; else location.reload(); };
      if (!player || player.hidden || video.paused) return load();
      note.textContent = "The run has ended. This page becomes the final one when the video ends or is closed.";
      for (const event of ["pause", "emptied"]) video.addEventListener(event, load, { once: true });
    };

    const look = async () => {
      try {
        const answer = await fetch(live.dataset.live);
        if (answer.ok) {
          const now = await answer.json();
          const bar = one("progress", live);
          bar.max = now.planned || 1;
          bar.value = ended = now.ended;
          for (const [name, words] of Object.entries(now.words)) {
            const place = one(`[data-word=${name}]`, live);
            if (place && place.textContent !== words) place.textContent = words;
          }
          one("[data-word=errors]", live).classList.toggle("errors", now.errors > 0);
          if (now.state !== "running" || (!began && now.planned)) return finish();
          note.classList.remove("lost");
          if (began) await renew();
        }
      } catch {
        note.classList.add("lost");
        note.textContent = "The viewer does not answer. What is shown is the last that it said.";
      }
      setTimeout(look, 1000);
    };
    setTimeout(look, 1000);
  }

  function watchBeside() {
    const section = one("#all-episodes"), player = one("#player"), video = one("video", player);
    const rows = () => [...one("#episode-rows").tBodies[0].rows];
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
    section.addEventListener("click", (event) => {
      const link = event.target.closest("#episode-rows .watch");
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
