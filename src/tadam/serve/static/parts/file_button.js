/** A button that opens the file dialog. */

import { html, useRef } from "../html.js";
import { filesOfDialog } from "../dropped_files.js";
import { Icon } from "./icons.js";

const IMAGES = "image/*,.heic,.heif,.tif,.tiff,.zip";

/**
 * @param {{label: string, title?: string, icon?: any, kind?: string, accept?: string,
 *   multiple?: boolean, disabled?: boolean,
 *   onFiles: (files: import("../dropped_files.js").Found[], all: File[]) => void}} props
 */
export function FileButton({
  label, title = label, icon = "plus", kind = "", accept = IMAGES, multiple = true,
  disabled = false, onFiles,
}) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const chosen = () => {
    const files = input.current?.files ?? null;
    onFiles(filesOfDialog(files), [...(files ?? [])]);
    if (input.current) input.current.value = ""; // the same file may be chosen again
  };
  return html`<button type="button" class=${`button ${kind}`} disabled=${disabled}
      aria-label=${title} onClick=${() => input.current?.click()}>
      <${Icon} name=${icon} />${label}
    </button>
    <input ref=${input} type="file" class="hidden" tabindex="-1" aria-hidden="true"
      aria-label=${title} accept=${accept} multiple=${multiple} onChange=${chosen} />`;
}
