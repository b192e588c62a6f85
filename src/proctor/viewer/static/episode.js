"use strict";
// An episode's page: its film on request.
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const keys = one(".keys");
  if (keys) keys.hidden = false;

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
})();
