// Niceties alone: every page works without them.
(() => {
  const slider = document.querySelector("input[type=range]");
  if (slider) {
    const shown = document.querySelector("output[for=field-slider]");
    slider.addEventListener("input", () => { shown.value = slider.value; });
    slider.addEventListener("change", () => slider.form.requestSubmit(slider.form.querySelector("button")));
  }
  const run = document.querySelector("[data-running]");
  const computing = document.querySelector("[data-computing]");
  // Loaded again once it is there, and not while somebody types: focus and what is typed stay until then.
  let typed = false;
  document.addEventListener("input", () => { typed = true; });
  const wait = async () => {
    const answer = await fetch(location.href).catch(() => null);
    if (typed) return;
    if (answer && !(await answer.text()).includes("data-computing")) location.reload();
    else setTimeout(wait, 700);
  };
  if (computing) setTimeout(wait, 700);
  if (!run) return;
  const look = async () => {
    const answer = await fetch("/run/state").catch(() => null);
    const state = answer && answer.ok ? await answer.json() : null;
    if (state && (!state.running || state.stage !== run.dataset.running)) location.reload();
    else setTimeout(look, 700);
  };
  setTimeout(look, 700);
})();
