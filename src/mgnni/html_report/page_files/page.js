"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16) / 255);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

  // Black or white, whichever contrasts more with a cell of this share of the colour scale.
  const onCell = (share) => {
    const [low, high] = ["--low", "--high"].map((name) => channels(colour(name)));
    const [r, g, b] = low.map((from, i) => linear(from + share * (high[i] - from)));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  };

  // "@name" stands for the colour --name of the current scheme, "@on SHARE" for text on a cell.
  const resolved = (value) => {
    if (typeof value === "string") {
      if (value.startsWith("@on ")) return onCell(Number(value.slice(4)));
      return (value.startsWith("@") && colour("--" + value.slice(1))) || value;
    }
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
    Plotly.react(box, spec.data, layout, { responsive: true, displayModeBar: false });
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
