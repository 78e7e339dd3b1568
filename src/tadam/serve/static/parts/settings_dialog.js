/** A project's name, its network, and deleting it. */

import { html, useState } from "../html.js";
import { call } from "../api.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";
import { ModelChoice } from "./model_choice.js";

/** @param {{session: import("../session.js").Session, onClose: () => void}} props */
export function SettingsDialog({ session, onClose }) {
  const project = session.store.value.state?.project;
  const [name, setName] = useState(project?.name ?? "");
  const [model, setModel] = useState(project?.model ?? "");
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
    <div class="buttons"><button type="button" class="button danger" onClick=${remove}>
      ${t.deleteProject}</button></div>
  <//>`;
}
