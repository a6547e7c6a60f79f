/** What is open and chosen. Every module reads it; drawing is asked for here, and happens once a frame. */

export const state = {
  panes: [], // in the order in which they stand
  active: null, // the pane that has the keyboard
  kept: null, // the target that was clicked
  pointed: null, // the target under the mouse or the cursor
  hits: null, // what the search found
  metric: "flops", // the figure that rows show
  maths: false, // names as mathematics
  embedded: false,
};

const drawers = [];
let waiting = false;

export function onDraw(draw) {
  drawers.push(draw);
}

function drawNow() {
  for (const draw of drawers) draw();
}

export function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawNow();
  });
}

export const element = (id) => document.getElementById(id);

/** Scrolls a box as little as it must, so that what it holds is in view. Not `scrollIntoView`: where this page stands in a
 * frame, that scrolls the documents around it as well. */
export function scrollInside(box, held) {
  const view = box.getBoundingClientRect();
  const { left, right, top, bottom } = held.getBoundingClientRect();
  const least = (before, behind) => (before < 0 ? before : Math.max(0, Math.min(before, behind)));
  box.scrollLeft += least(left - view.left, right - view.right);
  box.scrollTop += least(top - view.top, bottom - view.bottom);
}

/** Said to those who hear the page. */
export function announce(text) {
  element("said").textContent = text;
}
