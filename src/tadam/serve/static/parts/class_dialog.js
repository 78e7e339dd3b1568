/** Renaming, merging and deleting a class. */

import { html, useState } from "../html.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";

/**
 * @param {{session: import("../session.js").Session, box: import("../types.js").ClassInfo,
 *   others: import("../types.js").ClassInfo[], onClose: () => void}} props
 */
export function ClassDialog({ session, box, others, onClose }) {
  const [name, setName] = useState(box.name);
  const [into, setInto] = useState(others[0]?.id);
  const rename = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = name.trim();
    if (!wanted || wanted === box.name || (await session.renameClass(box.id, wanted))) onClose();
  };
  const merge = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
    session.mergeClass(box.id, into);
  };
  const remove = (/** @type {"unlabel" | "delete"} */ photos) => {
    onClose();
    session.deleteClass(box.id, photos);
  };
  const choose = (/** @type {any} */ event) =>
    setInto(others.find(({ id }) => String(id) === event.target.value)?.id);
  return html`<${Dialog} title=${box.name} notices=${session.notices} onClose=${onClose}>
    <form class="row" onSubmit=${rename}>
      <label for="rename">${t.rename}</label>
      <input id="rename" type="text" maxlength="100" value=${name}
        onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
      <button type="submit" class="button main">${t.rename}</button>
    </form>
    ${others.length > 0 && html`<form class="row" onSubmit=${merge}>
      <label for="merge">${t.merge}</label>
      <select id="merge" value=${String(into)} onChange=${choose}>
        ${others.map((other) => html`<option key=${other.id} value=${String(other.id)}>
          ${other.name}</option>`)}
      </select>
      <button type="submit" class="button">${t.mergeDo}</button>
    </form>`}
    <h3>${t.deleteClassTitle(box.name)}</h3>
    <div class="buttons">
      <button type="button" class="button" onClick=${() => remove("unlabel")}>${t.deleteKeep}
      </button>
      ${box.count > 0 && html`<button type="button" class="button danger"
        onClick=${() => remove("delete")}>${t.deleteAll}</button>`}
    </div>
  <//>`;
}
