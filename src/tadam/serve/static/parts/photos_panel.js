/** The middle of the page: toolbar, grid, what to do with a selection, and where to drop photos. */

import { html, useState } from "../html.js";
import { byClassFolder } from "../dropped_files.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { useDrop } from "./drop_zone.js";
import { FileButton } from "./file_button.js";
import { GridToolbar } from "./grid_toolbar.js";
import { Icon } from "./icons.js";
import { PhotoDialog } from "./photo_dialog.js";
import { PhotoGrid } from "./photo_grid.js";
import { SelectionBar } from "./selection_bar.js";

/** @param {{session: import("../session.js").Session}} props */
export function PhotosPanel({ session }) {
  const counts = useStore(session.store, (value) => value.state?.counts);
  useStore(session.store, (value) => value.drawing);
  const [side, setSide] = useState(innerWidth < 600 ? 100 : 130);
  const [viewed, setViewed] = useState(/** @type {number | null} */ (null));
  const add = (/** @type {import("../dropped_files.js").Found[]} */ found) => {
    const { files, byFolder } = byClassFolder(found);
    session.add(files, { byFolder });
  };
  const { over, handlers } = useDrop(add);
  return html`<section class=${`photos ${over ? "over" : ""}`} aria-label=${t.photosTitle}
    ...${handlers}>
    ${counts?.all !== 0 && html`<${GridToolbar} session=${session} side=${side} onSide=${setSide}
      onFiles=${add} />`}
    ${counts?.all === 0 ? html`<${NoPhotos} onFiles=${add} />`
      : html`<${PhotoGrid} session=${session} side=${side} onView=${setViewed} />`}
    ${counts?.all !== 0 && session.photos.total === 0
      && html`<p class="none soft">${t.gridNone}</p>`}
    <${SelectionBar} session=${session} onView=${setViewed} />
    ${over && html`<div class="drop-over"><strong>${t.dropHere}</strong>
      <span>${t.dropHereLead}</span></div>`}
    ${viewed !== null && html`<${PhotoDialog} session=${session} index=${viewed}
      onIndex=${setViewed} onClose=${() => setViewed(null)} />`}
  </section>`;
}

/** @param {{onFiles: (files: import("../dropped_files.js").Found[]) => void}} props */
function NoPhotos({ onFiles }) {
  return html`<div class="empty">
    <span class="empty-icon"><${Icon} name="photos" /></span>
    <h2>${t.gridEmptyTitle}</h2>
    <p class="soft">${t.gridEmpty}</p>
    <${FileButton} label=${t.addHere} kind="main" onFiles=${onFiles} />
  </div>`;
}
