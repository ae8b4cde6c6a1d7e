// A long list that is shown in part, with a button for more.

import { h, setText } from "../dom.js";
import { pluralize } from "../format.js";

/**
 * Append the `first` elements to `place`, and `step` more with each press of the button; `render(item, index)` creates one.
 * Returns [place, button].
 */
export function pagedList(place, items, { first, step = first, noun, render }) {
  const more = h("button", { type: "button", class: "quiet", onclick: () => draw(step) });
  let drawn = 0;
  function draw(count) {
    const next = items.slice(drawn, drawn + count);
    place.append(...next.map((item, index) => render(item, drawn + index)));
    drawn += next.length;
    more.hidden = drawn >= items.length;
    setText(more, `Show more (${pluralize(items.length - drawn, noun)} left)`);
  }
  draw(first);
  return [place, more];
}
