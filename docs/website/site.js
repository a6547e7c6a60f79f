// The theme, the search box, the contents on small screens, and a button that copies code. Pages are whole without it.
"use strict";
const root = document.currentScript.dataset.root;
const page = document.documentElement;

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; } // files may have no storage
}
if (stored("theme")) page.dataset.theme = stored("theme");

// Explorer panes are pages of their own, which take the theme from their address. It is in the query as well: a browser would not
// load a page anew for another fragment.
function tellFrames() {
  if (!page.dataset.theme) return;
  for (const frame of document.querySelectorAll(".pane iframe")) {
    const [address, said] = frame.getAttribute("src").split("#");
    const asked = new URLSearchParams(said || "");
    asked.set("theme", page.dataset.theme);
    frame.src = `${address.split("?")[0]}?embed=${page.dataset.theme}#${asked.toString().replaceAll("%2C", ",")}`;
  }
}

function isDark() {
  return (page.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

function switchTheme() {
  page.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("theme", page.dataset.theme); } catch { /* then it is for this page */ }
  tellFrames();
}

// ---- search: the index is a script, since files may not fetch; it is loaded when the box is first used ----

let indexReady = null;
function loadIndex() {
  indexReady ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = root + "website/search-index.js";
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return indexReady;
}

// How well a heading answers a query, 0 for not at all: every word must begin a word of its title, its heading or its text.
function score(words, title, heading, text) {
  let total = 0;
  for (const word of words) {
    if (heading === word) total += 100;
    else if (heading.split(/[\s._]+/).some((part) => part === word)) total += 40;
    else if (heading.startsWith(word)) total += 30;
    else if ((" " + heading.replace(/[._(`]/g, " ")).includes(" " + word)) total += 15;
    else if ((" " + title.replace(/[._]/g, " ")).includes(" " + word)) total += 6;
    else if ((" " + text).includes(" " + word)) total += 2;
    else return 0;
  }
  return total;
}

function find(query) {
  const words = query.toLowerCase().replace(/^(pb|pnp|pullback)\./, "").split(/[\s.()]+/).filter(Boolean);
  const found = [];
  if (!words.length) return found;
  for (const [place, title, section, entries] of window.searchIndex) {
    entries.forEach(([anchor, heading, text], i) => {
      let points = score(words, title.toLowerCase(), heading.toLowerCase(), text);
      if (!points) return;
      if (i === 0) points += 8;
      if (place === "reference/pullback.html" || place === "reference/pullback.numpy.html") points += 5;
      if (place.includes("compat.nabla")) points -= 20;
      found.push({ points, order: found.length, address: root + place + (anchor ? "#" + anchor : ""), heading, title, section });
    });
  }
  return found.sort((a, b) => b.points - a.points || a.order - b.order).slice(0, 30);
}

function show(query, results) {
  results.replaceChildren();
  const found = find(query);
  for (const one of found) {
    const link = document.createElement("a");
    link.href = one.address;
    link.textContent = one.heading;
    const where = document.createElement("small");
    where.textContent = [one.section, one.title].filter((text) => text && text !== one.heading).join(" \u203a ");
    link.append(where);
    results.append(link);
  }
  if (!found.length) {
    const none = document.createElement("p");
    none.textContent = "Nothing has all of these words.";
    results.append(none);
  }
  results.hidden = !query.trim();
}

function choose(results, step) {
  const links = [...results.querySelectorAll("a")];
  const at = links.findIndex((link) => link.classList.contains("chosen"));
  links[at]?.classList.remove("chosen");
  const next = links[(at + step + links.length) % links.length];
  next?.classList.add("chosen");
  next?.scrollIntoView({ block: "nearest" });
}

function setUpSearch() {
  const box = document.querySelector(".search input");
  const results = document.querySelector(".results");
  const search = () => loadIndex().then(() => show(box.value, results));
  box.addEventListener("focus", loadIndex);
  box.addEventListener("input", search);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(results, 1);
    else if (event.key === "ArrowUp") choose(results, results.querySelector(".chosen") ? -1 : 0);
    else if (event.key === "Enter") (results.querySelector(".chosen") || results.querySelector("a"))?.click();
    else if (event.key === "Escape") { results.hidden = true; box.blur(); }
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(input|textarea|select)$/i.test(document.activeElement.tagName)) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) results.hidden = true;
  });
  const asked = new URLSearchParams(location.search).get("q");
  if (asked) {
    box.value = asked;
    search();
  }
}

// ---- the rest ----

function addCopyButtons() {
  for (const block of document.querySelectorAll("pre.code")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }
}

function markOutline() {
  const links = new Map([...document.querySelectorAll(".outline a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const headings = [...document.querySelectorAll("article [id]")].filter((heading) => links.has(heading.id));
  const mark = () => {
    let last = headings[0];
    for (const heading of headings) if (heading.getBoundingClientRect().top < 90) last = heading;
    for (const link of links.values()) link.classList.toggle("here", last !== undefined && link === links.get(last.id));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

document.addEventListener("DOMContentLoaded", () => {
  const contents = document.querySelector("#contents");
  document.querySelector(".theme").addEventListener("click", switchTheme);
  document.querySelector(".menu").addEventListener("click", (event) => {
    event.currentTarget.setAttribute("aria-expanded", contents.classList.toggle("shown"));
  });
  contents.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  tellFrames();
  setUpSearch();
  addCopyButtons();
  markOutline();
});
