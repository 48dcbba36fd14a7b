// search over headings and text, marks in the table of contents, and a button that copies a block
const up = document.currentScript.dataset.up;
const box = document.getElementById("search"), found = document.getElementById("found");

function escaped(text) {
  return text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}

function marked(text, words) {
  const pattern = new RegExp("(" + words.map((w) => w.replace(/[^\w]/g, "\\$&")).join("|") + ")", "gi");
  return text.split(pattern).map((part, i) => (i % 2 ? `<b>${escaped(part)}</b>` : escaped(part))).join("");
}

function score(entry, words) {
  const [, title, , heading, text] = entry.map((part) => part.toLowerCase());
  let total = 0;
  for (const word of words) {
    const at = heading.indexOf(word);
    const points = (at >= 0 ? 30 + (heading === word ? 40 : 0) + (at === 0 ? 10 : 0) : 0) + (title.includes(word) ? 12 : 0)
      + Math.min(text.split(word).length - 1, 5);
    if (!points) return 0;
    total += points;
  }
  return total - heading.length / 40;
}

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = !words.length;
  if (!words.length) return;
  const best = SEARCH_INDEX.map((entry) => [score(entry, words), entry]).filter(([points]) => points > 0)
    .sort((a, b) => b[0] - a[0]).slice(0, 12);
  found.innerHTML = best.map(([, [address, title, anchor, heading, text]]) => {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 50);
    const short = (at ? "..." : "") + text.slice(at, at + 150);
    return `<a href="${up}${address}#${anchor}">${marked(heading, words)} <small>${escaped(title)}</small>${marked(short, words)}</a>`;
  }).join("") || "<p>Nothing found.</p>";
}

box.addEventListener("input", search);
box.addEventListener("keydown", (event) => {
  const links = [...found.querySelectorAll("a")], now = links.findIndex((link) => link.classList.contains("chosen"));
  if (event.key === "Escape") { box.value = ""; search(); box.blur(); }
  if (event.key === "Enter" && links.length) location.href = links[Math.max(now, 0)].href;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = (now + (event.key === "ArrowDown" ? 1 : -1) + links.length) % links.length;
    links.forEach((link, i) => link.classList.toggle("chosen", i === next));
    links[next]?.scrollIntoView({ block: "nearest" });
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
});
document.addEventListener("click", (event) => { if (!event.target.closest("header")) found.hidden = true; });
found.addEventListener("click", () => { found.hidden = true; });
document.getElementById("menu").addEventListener("click", () => document.querySelector(".menu").classList.toggle("open"));

for (const block of document.querySelectorAll("pre.source")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  block.append(button);
}

const links = new Map([...document.querySelectorAll("aside a")].map((link) => [link.getAttribute("href").slice(1), link]));
const headings = [...document.querySelectorAll("main h2[id], main h3[id]")].filter((heading) => links.has(heading.id));
function follow() {
  const current = headings.filter((heading) => heading.getBoundingClientRect().top < 120).pop();
  links.forEach((link, id) => link.classList.toggle("here", current?.id === id));
}
document.addEventListener("scroll", follow, { passive: true });
follow();
document.querySelector(".menu .here")?.scrollIntoView({ block: "center" });
scrollTo(0, location.hash ? scrollY : 0);
