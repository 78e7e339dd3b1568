/** Above the photos: which of them, in which order, how large, and a button for more. */

import { html } from "../html.js";
import { useStore } from "../store.js";
import { count, t } from "../strings.js";
import { FileButton } from "./file_button.js";
import { Icon } from "./icons.js";

const FILTERS = /** @type {const} */ ([
  ["all", t.filterAll], ["unlabelled", t.filterUnlabelled], ["uncertain", t.filterUncertain],
  ["suspected", t.filterSuspected], ["unknown", t.filterUnknown],
]);
const SORTS = [
  ["newest", t.sortNewest], ["uncertain", t.sortUncertain], ["class", t.sortClass],
  ["name", t.sortName],
];

/** What a filter that is not in the row is called. @param {import("../session.js").Session} session */
function extraFilter(session) {
  const query = session.photos.query;
  if (query.show === "class") return session.className(query.class_id ?? null);
  if (query.show === "ids") return t.filterIds;
  if (query.show === "cell") {
    return t.filterCell(session.className(query.truth ?? null), session.className(query.answer ?? null));
  }
  return "";
}

/**
 * @param {{session: import("../session.js").Session, side: number,
 *   onSide: (side: number) => void,
 *   onFiles: (files: import("../dropped_files.js").Found[]) => void}} props
 */
export function GridToolbar({ session, side, onSide, onFiles }) {
  const counts = useStore(session.store, (value) => value.state?.counts);
  useStore(session.store, (value) => value.drawing);
  const query = session.photos.query;
  const extra = extraFilter(session);
  return html`<div class="toolbar">
    <div class="filters" role="group" aria-label=${t.filters}>
      ${FILTERS.map(([show, words]) => html`<button key=${show} type="button"
        class="chip" aria-pressed=${query.show === show} onClick=${() => session.show({ show })}>
        ${words}<span class="number">${count(counts?.[show] ?? 0)}</span></button>`)}
      ${extra && html`<button type="button" class="chip extra" aria-pressed="true"
        aria-label=${`${extra}. ${t.filterOff}`} onClick=${() => session.show({ show: "all" })}>
        <span class="chip-words">${extra}</span><${Icon} name="close" /></button>`}
    </div>
    <div class="tools">
      <label class="tool"><span class="hidden">${t.sort}</span>
        <select value=${query.sort} onChange=${(/** @type {any} */ event) =>
          session.sortBy(event.target.value)}>
          ${SORTS.map(([sort, words]) => html`<option key=${sort} value=${sort}>${words}</option>`)}
        </select></label>
      <label class="tool size"><span class="hidden">${t.size}</span>
        <input type="range" min="90" max="260" step="10" value=${side}
          onInput=${(/** @type {any} */ event) => onSide(Number(event.target.value))} /></label>
      <${FileButton} label=${t.addHere} kind="main" onFiles=${onFiles} />
    </div>
  </div>`;
}
