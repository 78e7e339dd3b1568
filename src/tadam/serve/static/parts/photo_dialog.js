/** One photo, large, with its label and guess; arrow keys go on to the next. */

import { html, useEffect } from "../html.js";
import { original, thumbnail } from "../api.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";
import { IconButton } from "./icons.js";
import { spoken } from "./photo_tile.js";
import { ClassChooser } from "./selection_bar.js";

/**
 * @param {{session: import("../session.js").Session, index: number,
 *   onIndex: (index: number) => void, onClose: () => void}} props
 */
export function PhotoDialog({ session, index, onIndex, onClose }) {
  const classes = useStore(session.store, (value) => value.state?.classes) ?? [];
  useStore(session.store, (value) => value.drawing);
  const photo = session.photos.at(index);
  const total = session.photos.total ?? 0;
  const go = (/** @type {number} */ step) => {
    const next = Math.max(0, Math.min(total - 1, index + step));
    session.photos.need(next, next + 1);
    session.store.set({ cursor: next });
    onIndex(next);
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target instanceof Element && event.target.closest("select")) return;
    if (event.key === "ArrowLeft") go(-1);
    if (event.key === "ArrowRight") go(1);
    const one = classes[Number(event.key) - 1];
    if (one && photo) session.assign([photo.id], one.id);
  };
  useEffect(() => { if (total === 0) onClose(); }, [total]);
  if (!photo) return null;
  const small = (/** @type {any} */ event) => { // a kind that browsers cannot show
    const picture = thumbnail(session.id, photo.id);
    if (!event.target.src.endsWith(picture)) event.target.src = picture;
  };
  return html`<${Dialog} title=${photo.name} notices=${session.notices} onClose=${onClose}
    onKeyDown=${pressed} kind="photo-dialog">
    <div class="large">
      <${IconButton} icon="left" label=${t.previous} spent=${index === 0}
        onClick=${() => go(-1)} />
      <img key=${photo.id} src=${original(session.id, photo.id)} alt=${spoken(photo, classes)}
        onError=${small} />
      <${IconButton} icon="right" label=${t.next} spent=${index + 1 >= total}
        onClick=${() => go(1)} />
    </div>
    <p class="soft" aria-live="polite">${spoken(photo, classes)}</p>
    <div class="buttons"><${ClassChooser} classes=${classes}
      onClass=${(/** @type {any} */ id) => session.assign([photo.id], id)} />
      <button type="button" class="button small" onClick=${() => session.accept([photo.id])}>
        ${t.accept}</button>
      <button type="button" class="button small danger"
        onClick=${() => session.remove([photo.id])}>${t.delete}</button></div>
  <//>`;
}
