// A long list that is shown in part, with a button for more.

import { h, setText } from "../dom.js";
import { pluralize } from "../format.js";

/**
 * Append the `first` elements to `place`, and `step` more with each press of the button; `render(item, index)` creates one.
 * Returns [place, button], without the button if that is all.
 */
export function pagedList(place, items, { first, step = first, noun, render }) {
  const more = h("button", { type: "button", class: "quiet", onclick: () => draw(step) });
  let drawn = 0;
  function draw(count) {
    const next = items.slice(drawn, drawn + count).map((item, index) => render(item, drawn + index));
    place.append(...next);
    drawn += next.length;
    const left = items.length - drawn;
    if (left > 0) return setText(more, `Show more (${pluralize(left, noun)} left)`);
    if (more === document.activeElement) goTo(next[0]);
    more.remove();
  }
  draw(first);
  return drawn < items.length ? [place, more] : [place];
}

/** Focus an element that takes none by itself: the keys go on from there. */
function goTo(element) {
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}
