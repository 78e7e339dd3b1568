/** A few lines of code to copy. */

import { html, useState } from "../html.js";
import { t } from "../strings.js";
import { Icon } from "./icons.js";

/** @param {{title: string, code: string}} props */
export function CodeLines({ title, code }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(code).catch(() => undefined); // the lines can be selected
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<div class="card code wide-card"><div class="code-head"><h3>${title}</h3>
    <button type="button" class="button small quiet" onClick=${copy}
      aria-label=${`${t.copy}: ${title}`}><${Icon} name="copy" />
      <span role="status">${copied ? t.copied : t.copy}</span></button></div>
    <pre tabindex="0" aria-label=${title}>${code}</pre></div>`;
}
