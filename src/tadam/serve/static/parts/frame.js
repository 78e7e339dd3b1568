/** Dragging a frame over the photos selects those it touches. */

import { useRef, useState } from "../html.js";
import { touched } from "../grid_layout.js";

/** Pixels before a press becomes a frame. */
const SLACK = 5;

/**
 * @param {{current: HTMLElement | null}} box the grid, which scrolls
 * @param {import("../session.js").Session} session
 * @param {import("../grid_layout.js").Layout} layout
 * @param {number} total
 * @param {number} padding of the grid
 */
export function useFrame(box, session, layout, total, padding) {
  const start = useRef(/** @type {{x: number, y: number, before: any[]} | null} */ (null));
  const ended = useRef(false);
  const [shape, setShape] = useState(/** @type {any} */ (null));

  /** Where the pointer is on the sheet of photos. */
  const spot = (/** @type {PointerEvent} */ event) => {
    const bounds = /** @type {HTMLElement} */ (box.current).getBoundingClientRect();
    const scrolled = /** @type {HTMLElement} */ (box.current).scrollTop;
    return {
      x: event.clientX - bounds.left - padding, y: event.clientY - bounds.top - padding + scrolled,
    };
  };
  const down = (/** @type {PointerEvent} */ event) => {
    ended.current = false;
    const element = /** @type {HTMLElement} */ (box.current);
    const onBar = event.clientX > element.getBoundingClientRect().left + element.clientWidth;
    const onSelected = event.target instanceof Element
      && event.target.closest("[aria-selected=true]");
    if (event.button !== 0 || event.pointerType === "touch" || onBar || onSelected) return;
    const add = event.shiftKey || event.ctrlKey || event.metaKey;
    start.current = { ...spot(event), before: add ? [...session.store.value.selected] : [] };
  };
  const move = (/** @type {PointerEvent} */ event) => {
    const from = start.current;
    if (!from) return;
    const { x, y } = spot(event);
    if (!shape && Math.hypot(x - from.x, y - from.y) < SLACK) return;
    const element = /** @type {HTMLElement} */ (box.current);
    element.setPointerCapture(event.pointerId);
    const bounds = element.getBoundingClientRect();
    if (event.clientY > bounds.bottom - 24) element.scrollTop += 18;
    if (event.clientY < bounds.top + 24) element.scrollTop -= 18;
    const frame = {
      left: Math.min(x, from.x), right: Math.max(x, from.x),
      top: Math.min(y, from.y), bottom: Math.max(y, from.y),
    };
    setShape({
      transform: `translate(${frame.left}px, ${frame.top}px)`,
      width: `${frame.right - frame.left}px`, height: `${frame.bottom - frame.top}px`,
    });
    const photos = touched(layout, total, frame).map((index) => session.photos.at(index));
    const ids = photos.flatMap((photo) => (photo ? [photo.id] : []));
    session.store.set({ selected: new Set([...from.before, ...ids]) });
  };
  const up = () => {
    ended.current = shape !== null;
    start.current = null;
    setShape(null);
  };
  return {
    shape,
    /** Whether the click that follows belongs to a frame. */
    justEnded: () => ended.current,
    handlers: { onPointerDown: down, onPointerMove: move, onPointerUp: up, onPointerCancel: up },
  };
}
