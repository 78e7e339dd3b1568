/** What to do with the selected photos. */

import { html } from "../html.js";
import { colourOf } from "../colours.js";
import { selectAll, selectNone } from "../selection.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { Icon, IconButton } from "./icons.js";

/** With more classes than this, they are a list to choose from. */
const MOST_BUTTONS = 5;

/** @param {{classes: import("../types.js").ClassInfo[], onClass: (id: any) => void}} props */
export function ClassChooser({ classes, onClass }) {
  if (classes.length <= MOST_BUTTONS) {
    return classes.map((one, index) => html`<button type="button" key=${one.id}
      class="button small" style=${{ "--class": colourOf(index) }}
      onClick=${() => onClass(one.id)}><span class="dot"></span>
      <span class="chip-words">${one.name}</span></button>`);
  }
  const changed = (/** @type {any} */ event) => {
    const one = classes.find(({ id }) => String(id) === event.target.value);
    event.target.value = "";
    if (one) onClass(one.id);
  };
  return html`<select class="small" aria-label=${t.moveToClass} onChange=${changed}>
    <option value="">${t.moveToClass}</option>
    ${classes.map((one) => html`<option key=${one.id} value=${String(one.id)}>${one.name}</option>`)}
  </select>`;
}

/** @param {{session: import("../session.js").Session, onView: (index: number) => void}} props */
export function SelectionBar({ session, onView }) {
  const selected = useStore(session.store, (value) => value.selected);
  const classes = useStore(session.store, (value) => value.state?.classes) ?? [];
  if (!selected.size) return null;
  const ids = [...selected];
  const total = session.photos.total ?? 0;
  return html`<div class="selection" role="region" aria-label=${t.selection}>
    <strong class="number" role="status">${t.selected(selected.size)}</strong>
    <div class="move"><span class="soft">${t.moveTo}</span>
      <${ClassChooser} classes=${classes} onClass=${(/** @type {any} */ id) =>
        session.assign(ids, id)} /></div>
    <div class="acts">
      <button type="button" class="button small" onClick=${() => session.accept(ids)}>
        <${Icon} name="check" />${ids.length > 1 ? t.acceptMany : t.accept}</button>
      <button type="button" class="button small" onClick=${() => session.assign(ids, null)}>
        <${Icon} name="untag" />${t.removeLabel}</button>
      <button type="button" class="button small danger" onClick=${() => session.remove(ids)}>
        <${Icon} name="bin" />${t.delete}</button>
      ${ids.length === 1 && html`<${IconButton} icon="look" label=${t.view} kind="small"
        onClick=${() => onView(session.store.value.cursor)} />`}
      ${ids.length < total && html`<button type="button" class="button small quiet"
        onClick=${() => selectAll(session)}>${t.selectAll}</button>`}
      <${IconButton} icon="close" label=${t.clear} kind="small"
        onClick=${() => selectNone(session)} />
    </div>
  </div>`;
}
