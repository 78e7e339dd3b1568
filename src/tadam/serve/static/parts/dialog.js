/** A window over the page: the browser's own <dialog>, which keeps the focus inside. */

import { html, useLayoutEffect, useRef } from "../html.js";
import { t } from "../strings.js";
import { IconButton } from "./icons.js";
import { NoticesList } from "./notices_list.js";

/**
 * @param {{title: string, notices: import("../notices.js").Notices, onClose: () => void,
 *   onKeyDown?: (event: KeyboardEvent) => void, children?: any, kind?: string}} props
 */
export function Dialog({ title, notices, onClose, onKeyDown, children, kind = "" }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    const leave = notices.enterDialog();
    return () => {
      leave();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const clicked = (/** @type {MouseEvent} */ event) => {
    if (event.target === box.current) onClose(); // beside the window
  };
  return html`<dialog ref=${box} class=${`dialog ${kind}`} aria-labelledby="dialog-title"
    onClose=${onClose} onClick=${clicked} onKeyDown=${onKeyDown}>
    <div class="dialog-body">
      <div class="dialog-head">
        <h2 id="dialog-title">${title}</h2>
        <${IconButton} icon="close" label=${t.close} onClick=${onClose} />
      </div>
      ${children}
    </div>
    <${NoticesList} notices=${notices} inDialog />
  </dialog>`;
}
