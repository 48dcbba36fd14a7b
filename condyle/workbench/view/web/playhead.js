// A line in every chart of a section at the time of the section's player; a click in a chart moves the player there.
"use strict";
(() => {
  const charts = (root) => [...root.querySelectorAll("svg[data-begin]")].map((svg) => {
    const [begin, end, left, right] = ["begin", "end", "left", "right"].map((name) => Number(svg.dataset[name]));
    return { svg, line: svg.querySelector(".playhead"), begin, end, left, right };
  });
  const attach = (player) => {
    const section = player.root.closest("section");
    const found = section ? charts(section) : [];
    for (const each of found) {
      each.line.setAttribute("visibility", "visible");
      each.svg.addEventListener("click", (event) => {
        const box = each.svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * each.svg.viewBox.baseVal.width;
        const part = Math.min(1, Math.max(0, (x - each.left) / (each.right - each.left)));
        player.pause();
        player.seek(each.begin + part * (each.end - each.begin));
      });
    }
    let last = -1;
    const follow = () => {
      if (player.time !== last) {
        last = player.time;
        for (const each of found) {
          const part = Math.min(1, Math.max(0, (last - each.begin) / (each.end - each.begin)));
          each.line.setAttribute("transform", `translate(${part * (each.right - each.left)} 0)`);
        }
      }
      requestAnimationFrame(follow);
    };
    if (found.length) follow();
  };
  // players are made when the page is complete
  addEventListener("load", () => (window.condylePlayers || []).forEach(attach));
})();
