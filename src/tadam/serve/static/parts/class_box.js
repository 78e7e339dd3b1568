/** The box of one class: its name, some of its photos, and the ways to add more. */

import { html } from "../html.js";
import { thumbnail } from "../api.js";
import { colourOf } from "../colours.js";
import { count, percent, t } from "../strings.js";
import { useDrop } from "./drop_zone.js";
import { FileButton } from "./file_button.js";
import { IconButton } from "./icons.js";

/**
 * @param {{session: import("../session.js").Session, box: import("../types.js").ClassInfo,
 *   index: number, shown: boolean, onMenu: () => void, onCamera: () => void}} props
 */
export function ClassBox({ session, box, index, shown, onMenu, onCamera }) {
  const add = (/** @type {import("../dropped_files.js").Found[]} */ files) =>
    session.add(files, { classId: box.id });
  const { over, handlers } = useDrop(add, () =>
    session.assign([...session.store.value.selected], box.id));
  const show = () => session.show(shown ? { show: "all" } : { show: "class", class_id: box.id });
  return html`<li class=${`box ${over ? "over" : ""} ${shown ? "shown" : ""}`} ...${handlers}
    style=${{ "--class": colourOf(index) }}>
    <div class="box-head">
      <button type="button" class="box-name" aria-pressed=${shown} onClick=${show}
        aria-label=${t.classPhotos(box.name, box.count)}>
        <span class="dot"></span><span class="box-title">${box.name}</span>
      </button>
      ${index < 9 && html`<kbd title=${t.classKey(index + 1)}>${index + 1}</kbd>`}
      <${IconButton} icon="more" kind="small" label=${t.classMenu(box.name)} onClick=${onMenu} />
    </div>
    <${Covers} session=${session} box=${box} />
    <div class="box-foot">
      <span class="number soft">${count(box.count)}${box.accuracy !== null && box.count > 0
        && html`<span title=${t.rightLead}> · ${percent(box.accuracy)}</span>`}</span>
      <${FileButton} label=${t.addPhotos} title=${t.addPhotosTo(box.name)} kind="small quiet"
        onFiles=${add} />
      <${IconButton} icon="camera" kind="small" label=${t.cameraTo(box.name)}
        onClick=${onCamera} />
    </div>
  </li>`;
}

/** @param {{session: import("../session.js").Session, box: import("../types.js").ClassInfo}} props */
function Covers({ session, box }) {
  if (!box.count) return html`<p class="box-empty">${t.emptyClass}</p>`;
  if (!box.covers?.length) return null;
  return html`<div class="covers" aria-hidden="true">${box.covers.slice(0, 4).map((id) => html`
    <img key=${id} src=${thumbnail(session.id, id)} alt="" loading="lazy" />`)}</div>`;
}
