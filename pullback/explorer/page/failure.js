/** What went wrong, in the page itself: a blank page would say nothing. */

import { DataError } from "./data.js";

export function showFailure(error) {
  const box = document.createElement("main");
  box.className = "failure";
  box.setAttribute("role", "alert");
  const known = error instanceof DataError;
  const say = (tag, text) => (box.appendChild(document.createElement(tag)).textContent = text);
  say("h1", known ? error.message : "This page failed to open.");
  const particulars = known ? error.particulars : [String(error && error.stack ? error.stack : error)];
  for (const particular of particulars) say(known ? "p" : "pre", particular);
  document.body.replaceChildren(box);
  document.body.classList.add("failed");
}
