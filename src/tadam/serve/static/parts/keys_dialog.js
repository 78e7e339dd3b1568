/** The list of keys. */

import { html } from "../html.js";
import { t } from "../strings.js";
import { Dialog } from "./dialog.js";

/** @param {{notices: import("../notices.js").Notices, onClose: () => void}} props */
export function KeysDialog({ notices, onClose }) {
  return html`<${Dialog} title=${t.keysTitle} notices=${notices} onClose=${onClose}>
    <dl class="keys">${t.keysList.map(([key, words]) => html`<div key=${key}>
      <dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl>
  <//>`;
}
