// Niceties alone: every page works without them.
(() => {
  const slider = document.querySelector("input[type=range]");
  if (slider) {
    const shown = document.querySelector("output[for=field-slider]");
    const exact = document.querySelector("#field-epsilon");
    let turn = 0;
    // Stored as its button does, and what it means is shown in place, so that it can be moved on.
    const show = async (mine) => {
      const body = new URLSearchParams({ do: "slider", slider: slider.value });
      let answer = await fetch("/price", { method: "POST", body }).catch(() => null);
      while (answer && answer.ok && mine === turn) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (mine !== turn) return;
        document.querySelector("#outlook").replaceWith(page.querySelector("#outlook"));
        exact.value = page.querySelector("#field-epsilon").value;
        if (!document.querySelector("#outlook [data-computing]")) return;
        await new Promise((done) => { setTimeout(done, 500); });
        answer = await fetch("/price").catch(() => null);
      }
    };
    slider.addEventListener("input", () => {
      shown.value = slider.value;
      const mine = ++turn;
      setTimeout(() => { if (mine === turn) show(mine); }, 200);
    });
  }
  // Of the ways to declare a column's values the chosen one is open.
  const way = document.getElementById("field-form");
  const parts = document.querySelectorAll("[data-ways]");
  const fit = () => {
    for (const part of parts) {
      const chosen = part.dataset.ways.split(" ").includes(way.value);
      if (part.tagName === "DETAILS") part.open = chosen || part.querySelector("[aria-invalid]") !== null;
      else part.hidden = !chosen;
    }
  };
  if (way && parts.length) {
    fit();
    way.addEventListener("change", fit);
  }
  const run = document.querySelector("[data-running]");
  const computing = document.querySelector("[data-computing]");
  // Loaded again once it is there, and not while somebody types: focus and what is typed stay until then.
  let typed = false;
  document.addEventListener("input", () => { typed = true; });
  // Nor while it is being left: loading it again would break off the way to the next page.
  let left = 0;
  window.addEventListener("beforeunload", () => { left = Date.now(); });
  const again = (retry) => {
    if (Date.now() - left < 10000) setTimeout(retry, 700);
    else location.reload();
  };
  const wait = async () => {
    const answer = await fetch(location.href).catch(() => null);
    const computed = answer && !(await answer.text()).includes("data-computing");
    if (typed) return;
    if (computed) again(wait);
    else setTimeout(wait, 700);
  };
  if (computing) setTimeout(wait, 700);
  if (!run) return;
  const look = async () => {
    const answer = await fetch("/run/state").catch(() => null);
    const state = answer && answer.ok ? await answer.json() : null;
    if (state && (!state.running || state.stage !== run.dataset.running)) again(look);
    else setTimeout(look, 700);
  };
  setTimeout(look, 700);
})();
