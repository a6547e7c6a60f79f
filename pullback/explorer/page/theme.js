/** Light or dark, and the colours as the canvases need them. */

import { ROLES } from "./model.js";
import { later } from "./state.js";

export const colour = {};

const root = document.documentElement;
const prefersDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

function readColours() {
  const probe = document.body.appendChild(document.createElement("i"));
  for (const name of [...ROLES, "glow", "soft", "find", "ink"]) {
    probe.style.color = `var(--${name})`;
    colour[name] = getComputedStyle(probe).color;
  }
  probe.remove();
}

/** @param theme "light", "dark", or null for what the system prefers */
export function setTheme(theme) {
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  readColours();
  later();
}

export const chosenTheme = () => root.dataset.theme || null;

/** Back to what the system prefers where that is the other one, so that the page follows it again. */
export function otherTheme() {
  const dark = chosenTheme() ? chosenTheme() === "dark" : prefersDark();
  const next = dark ? "light" : "dark";
  setTheme((next === "dark") === prefersDark() ? null : next);
}

export function followSystem() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    later();
  });
}

/** A canvas of the size that it has on the page, ready to be drawn on in CSS pixels. */
export function freshCanvas(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const wide = Math.round(width * ratio);
  const tall = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== tall) {
    canvas.width = wide;
    canvas.height = tall;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.globalAlpha = 1;
  return context;
}
