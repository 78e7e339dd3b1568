/** How far something is that takes a while. */

import { html } from "../html.js";
import { count, t } from "../strings.js";

/** @param {{progress: import("../types.js").Progress | null}} props */
export function ProgressBar({ progress }) {
  if (!progress) return null;
  const { done, total } = progress;
  const what = t.busy[progress.what] ?? progress.what;
  return html`<section class="progress" aria-label=${what}>
    <span class="progress-words">${what}</span>
    ${total > 0 ? html`<progress aria-label=${what} value=${done} max=${total}></progress>
      <span class="number">${count(done)} / ${count(total)}</span>`
      : html`<progress aria-label=${what}></progress>`}
  </section>`;
}
