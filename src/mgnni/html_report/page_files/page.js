"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement; // of class "printed" while the page is being printed
  const paper = 640; // width of a figure that fits on paper
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16) / 255);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);

  // Black or white, whichever contrasts more with a cell of this share of the colour scale.
  const onCell = (share) => {
    const [low, high] = ["--low", "--high"].map((name) => channels(colour(name)));
    const [r, g, b] = low.map((from, i) => linear(from + share * (high[i] - from)));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
  };

  // The counts in the cells of a matrix whose colours are percentages.
  const counts = (matrix) => matrix.text.flatMap((row, y) => row.map((count, x) => ({
    x, y, text: String(count), showarrow: false, font: { color: onCell(matrix.z[y][x] / 100) },
  })));

  // "@name" stands for the colour --name of the current scheme.
  const resolved = (value) => {
    if (typeof value === "string") {
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

  // A long label of a row, in two lines.
  const broken = (label) => {
    const middle = label.length / 2;
    const spaces = [...label.matchAll(/ /g)].map((found) => found.index);
    if (label.length < 18 || !spaces.length) return label;
    const at = spaces.reduce((a, b) => (Math.abs(b - middle) < Math.abs(a - middle) ? b : a));
    return label.slice(0, at) + "<br>" + label.slice(at + 1);
  };

  const draw = (box) => {
    const spec = resolved(JSON.parse(box.nextElementSibling.textContent));
    const rows = spec.layout.yaxis.ticktext;
    const printed = root.classList.contains("printed");
    if (rows && box.clientWidth < 500) {
      Object.assign(spec.layout.yaxis, { ticktext: rows.map(broken), tickfont: { size: 11 } });
    }
    const layout = {
      margin: { l: 12, r: 28, t: 36, b: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--text"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
      hoverlabel: { bgcolor: colour("--surface"), font: { color: colour("--text") } },
      hovermode: "closest",
      annotations: spec.data.filter((one) => one.meta === "counts").flatMap(counts),
      autosize: !printed, ...(printed && { width: Math.min(box.clientWidth, paper) }),
      ...spec.layout,
      xaxis: axis(spec.layout.xaxis), yaxis: axis(spec.layout.yaxis),
    };
    box.dataset.drawn = "yes";
    Plotly.react(box, spec.data, layout, { responsive: true, displayModeBar: false });
  };

  // plotly.js is in the page as gzip in base64, which is less than half of its size.
  const load = async () => {
    const packed = document.getElementById("plotly");
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(plain).text();
    packed.replaceWith(script); // and runs at once
    if (!window.Plotly) throw new Error("plotly.js did not run");
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
  const ready = load();
  ready.then(() => plots.forEach((box) => seen.observe(box))).catch(() => {
    document.getElementById("no-figures").hidden = false;
  });
  dark.addEventListener("change", () => plots.filter((box) => box.dataset.drawn).forEach(draw));
  // Printed figures have light colours and fit on paper; those in closed parts are not printed.
  const printing = (now) => () => {
    root.classList.toggle("printed", now);
    ready.then(() => plots.filter((box) => !box.closest("details:not([open])")).forEach(draw), () => {});
  };
  addEventListener("beforeprint", printing(true));
  addEventListener("afterprint", printing(false));

  // A link to something in closed parts opens them.
  const reveal = (hash) => {
    const target = document.getElementById(hash.slice(1));
    for (let part = target; part; part = part.parentElement) {
      if (part.matches("details")) part.open = true;
    }
    if (target) target.scrollIntoView();
  };
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) reveal(link.hash);
  });
  addEventListener("hashchange", () => reveal(location.hash));
  if (location.hash) reveal(location.hash);
})();
