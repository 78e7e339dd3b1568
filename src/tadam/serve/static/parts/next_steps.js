/** What to label next, what looks mislabelled, what is there twice: photos one can act on. */

import { html } from "../html.js";
import { thumbnail } from "../api.js";
import { t } from "../strings.js";

/** @typedef {{session: import("../session.js").Session, quality: import("../types.js").Quality}} Props */

const MOST = 12;

/** @param {{session: import("../session.js").Session, ids: any[]}} props */
function Row({ session, ids }) {
  return html`<div class="row-of-photos">${ids.slice(0, MOST).map((id) => html`<img key=${id}
    src=${thumbnail(session.id, id)} alt="" loading="lazy" />`)}</div>`;
}

/** @param {Props} props */
export function Suggestions({ session, quality }) {
  const ids = quality.suggestions;
  return html`<div class="card wide-card"><h3>${t.labelNext}</h3>
    ${ids.length === 0 ? html`<p class="soft">${t.labelNextNone}</p>` : html`
      <p class="soft">${t.labelNextLead}</p>
      <${Row} session=${session} ids=${ids} />
      <button type="button" class="button main"
        onClick=${() => session.show({ show: "ids", ids })}>${t.labelNextDo}</button>`}
  </div>`;
}

/** @param {Props} props */
export function Suspects({ session, quality }) {
  const all = quality.suspected;
  return html`<div class="card wide-card"><h3>${t.suspectedTitle}</h3>
    ${all.length === 0 ? html`<p class="soft">${t.suspectedNone}</p>` : html`
      <p class="soft">${t.suspectedLead}</p>
      <ul class="suspects">${all.slice(0, MOST).map(({ id, guess, why }) => html`<li key=${id}>
        <img src=${thumbnail(session.id, id)} alt="" loading="lazy" />
        <div><p>${why}</p><button type="button" class="button small"
          onClick=${() => session.assign([id], guess)}>
          ${t.suspectedMove(session.className(guess))}</button></div>
      </li>`)}</ul>
      <button type="button" class="button"
        onClick=${() => session.show({ show: "suspected" })}>${t.suspectedShow}</button>`}
  </div>`;
}

/** @param {Props} props */
export function Duplicates({ session, quality }) {
  const ids = quality.duplicates.flat();
  if (!ids.length) return null;
  return html`<div class="card wide-card"><h3>${t.duplicatesTitle}</h3>
    <p class="soft">${t.duplicatesLead}</p>
    <${Row} session=${session} ids=${ids} />
    <button type="button" class="button" onClick=${() => session.show({ show: "ids", ids })}>
      ${t.duplicatesShow(ids.length)}</button>
  </div>`;
}
