/** A project's name, its network, and deleting it. */

import { html, useEffect, useRef, useState } from "../html.js";
import { call } from "../api.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";
import { ModelChoice } from "./model_choice.js";

/** @param {{session: import("../session.js").Session, onClose: () => void}} props */
export function SettingsDialog({ session, onClose }) {
  const project = session.store.value.state?.project;
  const [name, setName] = useState(project?.name ?? "");
  const [model, setModel] = useState(project?.model ?? "");
  const [sure, setSure] = useState(false);
  const photos = session.store.value.state?.counts.all ?? 0;
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {Record<string, string>} */
    const change = {};
    if (name.trim() && name.trim() !== project?.name) change.name = name.trim();
    if (model !== project?.model) change.model = model;
    if (!Object.keys(change).length
      || (await session.do(() => call("PATCH", session.path, change))) !== undefined) onClose();
  };
  const remove = async () => {
    try {
      await session.deleteProject();
      location.hash = "#/";
    } catch (error) {
      session.fail(error);
    }
  };
  return html`<${Dialog} title=${t.settings} notices=${session.notices} onClose=${onClose}>
    <form class="stack" onSubmit=${save}>
      <label for="setting-name">${t.projectName}</label>
      <input id="setting-name" type="text" required maxlength="100" value=${name}
        onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
      ${!project?.read_only && html`<${ModelChoice} value=${model} onModel=${setModel} />
        <p class="soft small">${t.modelChange}</p>`}
      <div class="buttons"><button type="submit" class="button main">${t.save}</button></div>
    </form>
    <h3>${t.deleteProject}</h3>
    <p class="soft small">${t.deleteProjectLead}</p>
    ${sure ? html`<${Question} words=${t.deleteProjectSure(project?.name ?? "", photos)}
        onYes=${remove} onNo=${() => setSure(false)} />`
      : html`<div class="buttons"><button type="button" class="button danger"
        onClick=${() => setSure(true)}>${t.deleteProject}</button></div>`}
  <//>`;
}

/**
 * Asks before it is done; the focus waits on the way back.
 * @param {{words: string, onYes: () => void, onNo: () => void}} props
 */
function Question({ words, onYes, onNo }) {
  const no = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => no.current?.focus(), []);
  return html`<div class="stack" role="group" aria-labelledby="question">
    <strong id="question">${words}</strong>
    <div class="buttons">
      <button ref=${no} type="button" class="button" onClick=${onNo}>${t.deleteProjectNot}</button>
      <button type="button" class="button danger" onClick=${onYes}>${t.deleteProjectDo}</button>
    </div></div>`;
}
