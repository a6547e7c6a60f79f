/** The line above the details, which can be dragged: a long rule, or many values, want more room. */

import { element, later } from "./state.js";

const LEAST = 60; // pixels
const KEPT = 220; // for the panes
const STEP = 24;

function setHeight(height) {
  const clamped = Math.max(LEAST, Math.min(innerHeight - KEPT, height));
  element("details").style.height = `${clamped}px`;
  element("divider").setAttribute("aria-valuenow", Math.round(clamped));
  later();
}

export function followDivider() {
  const divider = element("divider");
  const details = element("details");
  divider.setAttribute("aria-valuenow", details.clientHeight);
  let grip = null; // how far above the details the pointer holds the line
  divider.addEventListener("pointerdown", (event) => {
    divider.setPointerCapture(event.pointerId);
    grip = details.getBoundingClientRect().top - event.clientY;
  });
  divider.addEventListener("pointermove", (event) => {
    if (grip !== null) setHeight(details.getBoundingClientRect().bottom - event.clientY - grip);
  });
  for (const end of ["pointerup", "pointercancel"]) divider.addEventListener(end, () => (grip = null));
  divider.addEventListener("dblclick", () => {
    details.style.height = "";
    later();
  });
  divider.addEventListener("keydown", (event) => {
    const step = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
    if (step === undefined) return;
    setHeight(details.clientHeight + step);
    event.preventDefault();
    event.stopPropagation(); // the arrows move no cursor here
  });
}
