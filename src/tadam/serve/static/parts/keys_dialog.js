/** The list of keys. */

import { html } from "../html.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";

/** @param {{onClose: () => void}} props */
export function KeysDialog({ onClose }) {
  return html`<${Dialog} title=${t.keysTitle} onClose=${onClose}>
    <dl class="keys">${t.keysList.map(([key, words]) => html`<div key=${key}>
      <dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
  <//>`;
}
