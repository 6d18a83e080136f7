// Put into a page, this tells the page around it what a reader sees: numbers, widths, what sticks out.
addEventListener("load", () => {
  const all = (where, what = node => node) => [...document.querySelectorAll(where)].map(what);
  const edges = node => {
    const {left, top, right, bottom} = node.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const seen = node => node.checkVisibility() && node.getClientRects().length > 0;
  const text = node => [{...node.dataset}, seen(node) ? node.innerText.trim() : null];
  const scrolls = node => node.closest(".scroll, .hidden, thead") !== null;
  const begin = node => node.outerHTML.slice(0, 120);
  parent.postMessage(JSON.stringify({
    frame: window.name,
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    ground: getComputedStyle(document.body).backgroundColor,
    heading: document.querySelector("h1").innerText,
    verdict: document.querySelector("#verdict").innerText,
    cells: all("[data-column]", text),
    gates: all("[data-gate]", text),
    sites: all("[data-site]", node => [...text(node), node.querySelectorAll(".mass").length]),
    labels: all(".label", edges),
    card: edges(document.querySelector("#latency .card")),
    cut: all("p, li, dd, th, td, h1, h2, h3, h4, summary")
      .filter(node => !scrolls(node) && node.clientWidth && node.scrollWidth > node.clientWidth + 1).map(begin),
    beyond: all(".number, .value, .small, .name, .unit, text")
      .filter(node => !scrolls(node) && seen(node) && edges(node)[2] > innerWidth).map(begin),
  }), "*");
});
