/** The photos in the middle: only those in sight are drawn, however many there are. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { layoutOf, placeOf, visible } from "../grid_layout.js";
import { select } from "../selection.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { PHOTOS } from "./drop_zone.js";
import { useFrame } from "./frame.js";
import { PhotoTile } from "./photo_tile.js";

/** Milliseconds that the scroll bar rests before photos are fetched. */
const REST = 60;

/** Size and scroll position of an element. @param {{current: HTMLElement | null}} box */
function useWindow(box) {
  const [window, setWindow] = useState({ width: 0, height: 0, top: 0 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setWindow({
      width: element.clientWidth, height: element.clientHeight, top: element.scrollTop,
    });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  return window;
}

/** The place of a photo that an event happened on. @param {Event} event */
function indexOf(event) {
  const tile = event.target instanceof Element ? event.target.closest("[data-index]") : null;
  return tile instanceof HTMLElement ? Number(tile.dataset.index) : -1;
}

/** @param {import("../grid_layout.js").Layout} layout @param {string} key @param {number} page */
function stepOf(layout, key, page) {
  const steps = {
    ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.columns, ArrowDown: layout.columns,
    PageUp: -layout.columns * page, PageDown: layout.columns * page,
    Home: -Infinity, End: Infinity,
  };
  return /** @type {Record<string, number>} */ (steps)[key];
}

/**
 * @param {{session: import("../session.js").Session, side: number,
 *   onView: (index: number) => void}} props
 */
export function PhotoGrid({ session, side, onView }) {
  const { state, selected, cursor } = useStore(session.store, (value) => value);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const { width, height, top } = useWindow(box);
  const total = session.photos.total ?? 0;
  const padding = 8;
  const layout = layoutOf(width - 2 * padding, total, side);
  const { from, to } = visible(layout, total, top - padding, height);
  const frame = useFrame(box, session, layout, total, padding);

  useEffect(() => {
    const timer = setTimeout(() => session.photos.need(from, Math.max(to, from + 1)), REST);
    return () => clearTimeout(timer);
  }, [from, to, session.store.value.drawing]);

  const show = (/** @type {number} */ index) => {
    const { y } = placeOf(layout, index);
    const element = box.current;
    if (!element) return;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + layout.row + padding > element.scrollTop + height) {
      element.scrollTop = y + layout.row + padding - height;
    }
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !total) return;
    const step = stepOf(layout, event.key, Math.max(1, Math.floor(height / layout.row)));
    if (step !== undefined) {
      const next = Math.max(0, Math.min(total - 1, cursor + step));
      show(next);
      if (event.shiftKey) select(session, next, { range: true });
      else session.store.set({ cursor: next, anchor: next });
    } else if (event.key === " ") select(session, cursor, { toggle: true });
    else if (event.key === "Enter") onView(cursor);
    else return;
    event.preventDefault();
  };
  const clicked = (/** @type {MouseEvent} */ event) => {
    if (frame.justEnded()) return;
    const index = indexOf(event);
    const onTick = event.target instanceof Element && event.target.closest(".tick");
    const touch = /** @type {PointerEvent} */ (event).pointerType === "touch";
    const toggle = event.ctrlKey || event.metaKey || Boolean(onTick) || touch;
    if (index >= 0) select(session, index, { toggle, range: event.shiftKey });
    else if (!toggle) session.store.set({ selected: new Set() });
  };
  const dragged = (/** @type {DragEvent} */ event) => {
    event.dataTransfer?.setData(PHOTOS, "selected");
    if (event.dataTransfer) event.dataTransfer.effectAllowed = "move";
  };
  const tiles = [];
  for (let index = from; index < to; index += 1) {
    const photo = session.photos.at(index);
    tiles.push(html`<${PhotoTile} key=${photo ? `p${photo.id}` : `i${index}`} project=${session.id}
      photo=${photo} classes=${state?.classes ?? []} index=${index} total=${total}
      place=${placeOf(layout, index)} side=${layout.side} cursor=${index === cursor}
      movable=${frame.shape === null}
      selected=${photo !== undefined && selected.has(photo.id)} />`);
  }
  const here = session.photos.at(cursor);
  const drawn = here && cursor >= from && cursor < to;
  return html`<div ref=${box} class="grid" role="listbox" aria-multiselectable="true" tabindex="0"
    id="photo-grid" aria-label=${t.gridLabel(total)} onKeyDown=${pressed} onClick=${clicked}
    aria-activedescendant=${drawn ? `photo-${here.id}` : undefined}
    onDblClick=${(/** @type {MouseEvent} */ event) => { if (indexOf(event) >= 0) onView(indexOf(event)); }}
    onDragStart=${dragged} ...${frame.handlers}>
    <div class="sheet" role="presentation" style=${{ height: `${layout.height}px` }}>
      ${width > 0 && tiles}
      ${frame.shape && html`<div class="frame" role="presentation" style=${frame.shape}></div>`}
    </div>
  </div>`;
}
