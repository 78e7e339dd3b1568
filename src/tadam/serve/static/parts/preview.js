/** A photo that is still only in the browser, drawn on a canvas. */

import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../strings.js";
import { Icon } from "./icons.js";

const SIDE = 640;

/** @param {{photo: Blob}} props */
export function Preview({ photo }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [shown, setShown] = useState(true);
  useEffect(() => {
    let gone = false;
    setShown(true);
    createImageBitmap(photo).then((picture) => {
      const sheet = canvas.current;
      if (gone || !sheet) return;
      const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
      sheet.width = Math.max(1, Math.round(picture.width * scale));
      sheet.height = Math.max(1, Math.round(picture.height * scale));
      sheet.getContext("2d")?.drawImage(picture, 0, 0, sheet.width, sheet.height);
    }).catch(() => { if (!gone) setShown(false); }); // HEIC, say: the server can read it
    return () => { gone = true; };
  }, [photo]);
  if (!shown) {
    return html`<div class="stage-empty"><${Icon} name="photos" />
      <span>${photo instanceof File ? photo.name : t.answerPhoto}</span></div>`;
  }
  return html`<canvas ref=${canvas} role="img" aria-label=${t.answerPhoto}></canvas>`;
}
