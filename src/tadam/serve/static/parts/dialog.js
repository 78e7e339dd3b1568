/** A window over the page: the browser's own <dialog>, which keeps the focus inside. */

import { html, useEffect, useRef } from "../html.js";
import { t } from "../strings.js";
import { IconButton } from "./icons.js";

/**
 * @param {{title: string, onClose: () => void, children?: any, kind?: string}} props
 */
export function Dialog({ title, onClose, children, kind = "" }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const clicked = (/** @type {MouseEvent} */ event) => {
    if (event.target === box.current) onClose(); // beside the window
  };
  return html`<dialog ref=${box} class=${`dialog ${kind}`} aria-labelledby="dialog-title"
    onClose=${onClose} onClick=${clicked}>
    <div class="dialog-body">
      <div class="dialog-head">
        <h2 id="dialog-title">${title}</h2>
        <${IconButton} icon="close" label=${t.close} onClick=${onClose} />
      </div>
      ${children}
    </div>
  </dialog>`;
}
