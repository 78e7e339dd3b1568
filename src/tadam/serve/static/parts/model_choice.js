/** Which network looks at the photos. */

import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { t } from "../strings.js";

/** @param {{value: string, onModel: (name: string) => void}} props an empty value is the default */
export function ModelChoice({ value, onModel }) {
  const [models, setModels] = useState(/** @type {any[]} */ ([]));
  useEffect(() => { get("/models").then(setModels).catch(() => undefined); }, []);
  const usual = models.find((one) => one.is_default)?.name ?? "";
  const chosen = models.find((one) => one.name === (value || usual));
  return html`<label for="model">${t.model}</label>
    <select id="model" value=${value || usual}
      onChange=${(/** @type {any} */ event) => onModel(event.target.value)}>
      ${!chosen && html`<option value=${value}>${value}</option>`}
      ${models.map((one) => html`<option key=${one.name} value=${one.name}
        disabled=${!one.installed}>${one.name} ${one.is_default ? t.modelDefault : ""}
        ${one.installed ? "" : t.modelMissing}</option>`)}
    </select>
    ${chosen && html`<p class="soft small">${t.models[chosen.name] ?? chosen.description}</p>`}`;
}
