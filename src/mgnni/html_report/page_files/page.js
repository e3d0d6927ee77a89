"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A string "@name" stands for the colour --name of the current scheme.
  const resolved = (value) => {
    if (typeof value === "string") return value.startsWith("@") ? colour("--" + value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(resolved);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, resolved(one)]));
    }
    return value;
  };

  const axis = (given) => ({
    gridcolor: colour("--line"), linecolor: colour("--line"), tickcolor: colour("--line"),
    fixedrange: true, ...given,
  });

  const draw = (box) => {
    const spec = resolved(JSON.parse(box.nextElementSibling.textContent));
    const layout = {
      margin: { l: 12, r: 12, t: 36, b: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
      hoverlabel: { bgcolor: colour("--surface"), font: { color: colour("--text") } },
      hovermode: "closest",
      ...spec.layout,
      xaxis: axis(spec.layout.xaxis), yaxis: axis(spec.layout.yaxis),
    };
    box.dataset.drawn = "yes";
    return Plotly.react(box, spec.data, layout, { responsive: true, displayModeBar: false });
  };

  const plots = [...document.querySelectorAll(".plot")];
  // Figures are drawn when they come near, so that a page with hundreds of them opens at once.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px" });
  plots.forEach((box) => seen.observe(box));
  dark.addEventListener("change", () => plots.filter((box) => box.dataset.drawn).forEach(draw));
  addEventListener("beforeprint", () => plots.filter((box) => !box.dataset.drawn).forEach(draw));
})();
