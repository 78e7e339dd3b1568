/** Pasting pictures from the clipboard. */

import { filesOf } from "./dropped_files.js";

/**
 * @param {(files: import("./dropped_files.js").Found[]) => void} take
 * @returns {() => void} a function that stops it
 */
export function listenToPaste(take) {
  const pasted = async (/** @type {ClipboardEvent} */ event) => {
    if (!event.clipboardData?.files.length) return; // text, meant for a field
    event.preventDefault();
    const files = await filesOf(event.clipboardData);
    const stamp = Date.now().toString(36);
    take(files.map(({ file }, n) => ({ file, path: `pasted-${stamp}-${n}-${file.name}` })));
  };
  document.addEventListener("paste", pasted);
  return () => document.removeEventListener("paste", pasted);
}
