"use strict";
// Everything here is a convenience: the page says the same without it.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Sort a table by a column, inside each of its bodies; a group's own row stays first, and what has no value last.
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
    const number = parseFloat(text.replace("−", "-").replace(/[,~+]/g, ""));
    return Number.isNaN(number) || /^[a-z]/i.test(text) ? text : number;
  };
  const sort = (table, heading) => {
    const bodies = [...table.tBodies].map((body) => [body, [...body.rows].filter((row) => !row.classList.contains("group"))]);
    const column = heading.cellIndex;
    // Numbers begin with the largest, words with the first of the alphabet.
    const words = bodies.some(([, rows]) => rows.some((row) => typeof value(row, column) === "string" && value(row, column) !== ""));
    const before = heading.getAttribute("aria-sort");
    const down = before ? before === "ascending" : !words;
    for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const [body, rows] of bodies) {
      rows.sort((first, second) => {
        const a = value(first, column), b = value(second, column);
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return down ? -order : order;
      });
      body.append(...rows);
    }
  };
  const makeSortable = (table) => {
    for (const heading of all("thead th:not([data-plain])", table)) {
      const button = document.createElement("button"), arrow = document.createElement("span");
      button.type = "button";
      arrow.className = "arrow";
      arrow.setAttribute("aria-hidden", "true");
      const scale = heading.querySelector(".scale");
      button.append(...[...heading.childNodes].filter((node) => node !== scale), arrow, ...(scale ? [scale] : []));
      heading.append(button);
      heading.classList.add("sorts");
      heading.addEventListener("click", () => sort(table, heading));
    }
  };
  all("table.sortable").forEach(makeSortable);
  // The viewer puts new tables into pages of runs that go on.
  document.addEventListener("new-table", (event) => makeSortable(event.target));

  // Controls below a video instead of on it. Without scripts it has the browser's own.
  const svg = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const PLAY = "M2 1l9 5-9 5z", PAUSE = "M2 1h3v10H2zM7 1h3v10H7z";
  for (const video of all("video[controls]")) {
    const bar = document.createElement("div"), button = document.createElement("button");
    const place = document.createElement("input"), time = document.createElement("span");
    const icon = svg("svg"), shape = svg("path");
    for (const [name, size] of [["width", 12], ["height", 12], ["aria-hidden", "true"]]) icon.setAttribute(name, size);
    icon.append(shape);
    button.append(icon);
    button.type = "button";
    bar.className = "video-controls";
    Object.assign(place, { type: "range", min: 0, max: 1000, value: 0 });
    place.setAttribute("aria-label", "place in the video");
    bar.append(button, place, time);
    video.removeAttribute("controls");
    video.after(bar);
    const told = () => {
      const going = !video.paused && !video.ended;
      shape.setAttribute("d", going ? PAUSE : PLAY);
      button.setAttribute("aria-label", going ? "pause" : "play");
      const known = video.duration > 0;
      if (known && document.activeElement !== place) place.value = Math.round(1000 * video.currentTime / video.duration);
      time.textContent = known ? `${video.currentTime.toFixed(1)} / ${video.duration.toFixed(1)} s` : "";
    };
    const turn = () => { video.paused || video.ended ? video.play().catch(() => {}) : video.pause(); };
    button.addEventListener("click", turn);
    video.addEventListener("click", turn);
    place.addEventListener("input", () => whenItsLengthIsKnown(video, () => {
      video.currentTime = Math.min(place.value / 1000 * video.duration, video.duration - 0.001);
    }));
    for (const event of ["play", "pause", "ended", "timeupdate", "seeked", "loadedmetadata", "emptied"]) video.addEventListener(event, told);
    told();
  }

  // Videos: nothing is fetched before it is seen, and then the last frame is shown, where a failure shows.
  const whenItsLengthIsKnown = (video, act) => {
    if (video.readyState >= 1) { act(); return; }
    video.addEventListener("loadedmetadata", act, { once: true });
    video.preload = "metadata";
    if (video.paused) video.load(); // one that is to play loads already, and would be paused by this
  };
  const seekEnd = (video) => { video.currentTime = Math.max(0, video.duration - 0.001); };
  // Asked for by its reader, it stops for it. As a poster it is only for who has not pressed play, by then either.
  const toEnd = (video) => whenItsLengthIsKnown(video, () => { video.pause(); seekEnd(video); });
  const showEnd = (video) => { if (video.paused) whenItsLengthIsKnown(video, () => { if (video.paused) seekEnd(video); }); };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      if (entry.target.preload === "none") showEnd(entry.target);
    }
  }, { rootMargin: "200px" });
  for (const video of all(".gallery video, .film video")) {
    seen.observe(video);
    // Who presses play at the end, or on the way there, wants to see it from the start. Where the end came before
    // this event, the browser has paused the video again by now.
    video.addEventListener("play", () => {
      if (!(video.ended || video.duration - video.currentTime < 0.05)) return;
      video.currentTime = 0;
      if (video.paused) video.play().catch(() => {});
    });
  }
  for (const button of all(".to-end")) {
    button.hidden = false;
    button.addEventListener("click", () => toEnd(button.closest("figure").querySelector("video")));
  }
  for (const group of all(".filters")) {
    group.hidden = false;
    const search = group.querySelector("input");
    search.addEventListener("input", () => {
      const wanted = search.value.trim().toLowerCase();
      for (const card of all(".gallery > li")) card.hidden = !card.dataset.task.toLowerCase().includes(wanted);
    });
    all(".end-all", group)[0]?.addEventListener("click", () => {
      for (const video of all(".gallery > li:not([hidden]) video")) toEnd(video);
    });
  }

  // An episode's numbers and its video: where the video is, and where it goes at a click.
  for (const episode of all(".episode.filmed")) {
    const video = episode.querySelector("video"), trace = episode.querySelector(".trace");
    const cursor = trace?.querySelector(".cursor");
    if (!cursor) continue;
    const follow = () => {
      if (!(video.duration > 0)) return;
      trace.classList.add("played");
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, `${100 * video.currentTime / video.duration}%`);
      if (!video.paused) requestAnimationFrame(follow);
    };
    for (const event of ["play", "seeked", "timeupdate"]) video.addEventListener(event, follow);
    trace.addEventListener("click", (event) => {
      const box = trace.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      whenItsLengthIsKnown(video, () => { video.currentTime = Math.min(share * video.duration, video.duration - 0.001); });
    });
  }

  // Titles of marks in figures, also for fingers; a mouse gets them at once.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const show = (event) => {
    const title = event.target.closest?.("svg.figure *")?.querySelector?.(":scope > title");
    tip.hidden = !title;
    if (!title) return;
    tip.textContent = title.textContent;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 12, document.documentElement.clientWidth - box.width - 8);
    tip.style.left = `${Math.max(8, left) + scrollX}px`;
    tip.style.top = `${event.clientY + 16 + scrollY}px`;
  };
  document.addEventListener("pointermove", show, { passive: true });
  document.addEventListener("pointerdown", show, { passive: true });

  for (const button of all(".copy")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "copied";
    });
  }

  // On paper nothing can be unfolded.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
