/** What to label next, what looks mislabelled, what is there twice: photos one can act on. */

import { html, useEffect, useState } from "../html.js";
import { get, thumbnail } from "../api.js";
import { t } from "../strings.js";
import { spoken } from "./photo_tile.js";

/** @typedef {{session: import("../session.js").Session, quality: import("../types.js").Quality}} Props */
/** @typedef {Map<any, import("../types.js").Photo>} Photos by id */

const MOST = 12;

/**
 * What is known of some photos, once it is here: the server's lists have only their ids.
 * @param {Props} props @param {any[]} ids
 * @returns {Photos}
 */
function usePhotos({ session, quality }, ids) {
  const [photos, setPhotos] = useState(/** @type {Photos} */ (new Map()));
  useEffect(() => {
    if (!ids.length) return undefined;
    const stop = new AbortController();
    get(`${session.path}/images?ids=${ids.join(",")}`, stop.signal)
      .then(({ items }) => setPhotos(new Map(items.map((/** @type {any} */ one) => [one.id, one]))))
      .catch((error) => session.fail(error));
    return () => stop.abort();
  }, [session, quality]);
  return photos;
}

/** @param {{session: import("../session.js").Session, id: any, photos: Photos}} props */
function Picture({ session, id, photos }) {
  const photo = photos.get(id);
  return html`<img src=${thumbnail(session.id, id)} loading="lazy"
    alt=${photo ? spoken(photo, session.store.value.state?.classes ?? []) : ""} />`;
}

/** @param {Props} props */
export function Suggestions({ session, quality }) {
  const ids = quality.suggestions;
  const few = ids.slice(0, MOST);
  const photos = usePhotos({ session, quality }, few);
  return html`<div class="card wide-card"><h3>${t.labelNext}</h3>
    ${ids.length === 0 ? html`<p class="soft">${t.labelNextNone}</p>` : html`
      <p class="soft">${t.labelNextLead}</p>
      <div class="row-of-photos">${few.map((id) => html`
        <${Picture} key=${id} session=${session} id=${id} photos=${photos} />`)}</div>
      <button type="button" class="button main"
        onClick=${() => session.show({ show: "ids", ids })}>${t.labelNextDo}</button>`}
  </div>`;
}

/** @param {Props} props */
export function Suspects({ session, quality }) {
  const all = quality.suspected;
  const few = all.slice(0, MOST);
  const photos = usePhotos({ session, quality }, few.map(({ id }) => id));
  return html`<div class="card wide-card"><h3>${t.suspectedTitle}</h3>
    ${all.length === 0 ? html`<p class="soft">${t.suspectedNone}</p>` : html`
      <p class="soft">${t.suspectedLead}</p>
      <ul class="suspects">${few.map(({ id, guess, why }) => html`<li key=${id}>
        <${Picture} session=${session} id=${id} photos=${photos} />
        <div><p id=${`why-${id}`}><strong>${photos.get(id)?.name}</strong> ${why}</p>
          <button type="button" class="button small" aria-describedby=${`why-${id}`}
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
  const few = quality.duplicates.slice(0, MOST).map((alike) => alike.slice(0, MOST));
  const photos = usePhotos({ session, quality }, few.flat());
  if (!ids.length) return null;
  return html`<div class="card wide-card"><h3>${t.duplicatesTitle}</h3>
    <p class="soft">${t.duplicatesLead}</p>
    <ul class="copies">${few.map((alike) => html`<li key=${alike[0]}>${alike.map((id) => html`
      <${Picture} key=${id} session=${session} id=${id} photos=${photos} />`)}</li>`)}</ul>
    <button type="button" class="button" onClick=${() => session.show({ show: "ids", ids })}>
      ${t.duplicatesShow(ids.length)}</button>
  </div>`;
}
