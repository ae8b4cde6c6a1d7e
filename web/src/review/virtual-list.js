// A virtual list: only visible rows are in the page. Heights are estimated, and measured once a row is drawn.

import { h } from "../dom.js";

const OVERSCAN = 400; // px above and below the visible part that are drawn, too

export class VirtualList {
  /**
   * `draw(item)` creates a row's element; `dress(el, item)` sets attributes that change without a redraw. `props` are the list's
   * attributes.
   */
  constructor({ draw, dress = () => {}, props = {} }) {
    Object.assign(this, { draw, dress });
    this.items = [];
    this.tops = [0];
    this.heights = new Map(); // by key, measured
    this.drawn = new Map(); // key → {item, el}
    this.list = h("div", { class: "windowed-list", ...props });
    this.el = h("div", { class: "windowed", onscroll: () => this.render() }, this.list);
    this.sizes = new ResizeObserver(() => this.render());
    this.sizes.observe(this.el);
  }

  /** Set the rows: [{key, stamp, height}] in order; a row is redrawn when its stamp changes. */
  set(items) {
    this.items = items;
    this.#place();
    this.render();
  }

  #place() {
    let top = 0;
    this.tops = [0];
    for (const item of this.items) this.tops.push((top += this.heights.get(item.key) ?? item.height));
    this.list.style.height = `${top}px`;
  }

  /** The index of the row at a height. */
  #at(y) {
    let [low, high] = [0, this.items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] > y) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Draw the visible rows, and the focused row wherever it is. */
  render() {
    if (this.el.clientHeight === 0) return; // not visible
    for (let tries = 0; tries < 3; tries += 1) {
      const from = this.#at(this.el.scrollTop - OVERSCAN);
      const to = Math.min(this.items.length, this.#at(this.el.scrollTop + this.el.clientHeight + OVERSCAN) + 1);
      this.#draw(from, to);
      if (!this.#measure(from, to)) break;
    }
  }

  #draw(from, to) {
    const wanted = new Map(this.items.slice(from, to).map((item, place) => [item.key, { item, place: from + place }]));
    const focused = [...this.drawn].find(([, { el }]) => el.contains(document.activeElement))?.[0];
    const place = focused === undefined || wanted.has(focused) ? -1 : this.items.findIndex(({ key }) => key === focused);
    if (place >= 0) wanted.set(focused, { item: this.items[place], place });
    for (const [key, { el }] of this.drawn) {
      if (wanted.has(key)) continue;
      el.remove();
      this.drawn.delete(key);
    }
    let before = null;
    for (const { item, place: at } of [...wanted.values()].sort((one, other) => one.place - other.place)) {
      const el = this.#element(item);
      el.style.top = `${this.tops[at]}px`;
      const next = before ? before.nextSibling : this.list.firstChild;
      if (next !== el) this.list.insertBefore(el, next);
      before = el;
    }
  }

  #element(item) {
    const known = this.drawn.get(item.key);
    const isSame = known?.item.stamp === item.stamp;
    const el = isSame ? known.el : this.draw(item);
    this.dress(el, item); // first: without its tabindex a row takes no focus
    if (isSame) return el;
    el.classList.add("windowed-row");
    this.drawn.set(item.key, { item, el }); // before the focus, which may render again
    if (known) {
      const hadFocus = known.el.contains(document.activeElement);
      known.el.replaceWith(el);
      if (hadFocus) (el.hasAttribute("tabindex") ? el : el.querySelector("button"))?.focus();
    }
    return el;
  }

  /** Measure the rows; returns whether a height differed. Visible rows keep their position. */
  #measure(from, to) {
    const first = this.#at(this.el.scrollTop);
    const above = this.el.scrollTop - (this.tops[first] ?? 0);
    let isOther = false;
    for (const { key } of this.items.slice(from, to)) {
      const height = this.drawn.get(key).el.offsetHeight;
      if (height === 0 || this.heights.get(key) === height) continue;
      this.heights.set(key, height);
      isOther = true;
    }
    if (!isOther) return false;
    this.#place();
    const top = (this.tops[first] ?? 0) + above;
    if (Math.abs(top - this.el.scrollTop) >= 1) this.el.scrollTop = top;
    return true;
  }

  /** Scroll to a row; returns its element. */
  reveal(key) {
    const place = this.items.findIndex((item) => item.key === key);
    if (place < 0) return null;
    const [top, bottom] = [this.tops[place], this.tops[place + 1]];
    const { scrollTop, clientHeight } = this.el;
    if (top < scrollTop || bottom - top > clientHeight) this.el.scrollTop = top;
    else if (bottom > scrollTop + clientHeight) this.el.scrollTop = bottom - clientHeight;
    this.render();
    return this.drawn.get(key)?.el ?? null;
  }

  destroy() {
    this.sizes.disconnect();
  }
}
