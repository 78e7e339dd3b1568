/** The messages at the foot of the page, or of the window that is open over it. */

import { html } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { Icon, IconButton } from "./icons.js";

/** @param {{notices: import("../notices.js").Notices, inDialog?: boolean}} props */
export function NoticesList({ notices, inDialog = false }) {
  const { all, inDialog: there } = useStore(notices.store, (value) => value);
  if (inDialog !== there) return null;
  return html`<div class="notices" role="status" aria-live="polite">
    ${all.map((one) => html`<div key=${one.id} class=${`notice ${one.bad ? "bad" : ""}`}>
      ${one.bad && html`<${Icon} name="warning" />`}
      <span>${one.text}</span>
      ${one.action && html`<button type="button" class="notice-action" onClick=${() => {
        notices.close(one.id);
        one.action?.act();
      }}>${one.action.label}</button>`}
      <${IconButton} icon="close" label=${t.close} onClick=${() => notices.close(one.id)} />
    </div>`)}
  </div>`;
}
