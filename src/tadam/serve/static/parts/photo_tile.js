/** One photo of the grid: picture, label or guess, confidence. */

import { html } from "../html.js";
import { thumbnail } from "../api.js";
import { colourOf } from "../colours.js";
import { percent, t } from "../strings.js";
import { Icon } from "./icons.js";

/** @typedef {import("../types.js").Photo} Photo */
/** @typedef {import("../types.js").ClassInfo} ClassInfo */

/** @param {Photo} photo @param {ClassInfo[]} classes */
function wordsOf(photo, classes) {
  const label = classes.findIndex(({ id }) => id === photo.class_id);
  const guess = classes.findIndex(({ id }) => id === photo.guess);
  return { label, guess, labelName: classes[label]?.name, guessName: classes[guess]?.name };
}

/**
 * What is written below a photo.
 * @param {Photo} photo @param {ClassInfo[]} classes
 */
function captionOf(photo, classes) {
  const { label, labelName, guessName } = wordsOf(photo, classes);
  const strange = photo.unknown && label < 0;
  const name = labelName ?? (strange ? t.tileUnknown : guessName ?? t.unlabelledTile);
  const doubt = photo.suspected && guessName ? t.tileSuspected(guessName) : "";
  const sure = photo.confidence === null || doubt || strange ? "" : percent(photo.confidence);
  return { name, doubt, sure, strange };
}

/**
 * What is not written below a photo, for those who cannot see it.
 * @param {Photo} photo @param {ClassInfo[]} classes
 */
function unwritten(photo, classes) {
  const { label, guess, guessName } = wordsOf(photo, classes);
  const { doubt, strange } = captionOf(photo, classes);
  let kind = label < 0 && guess >= 0 && !strange ? t.spokenGuess : "";
  if (label >= 0 && guess >= 0 && guess !== label && !doubt) kind = t.spokenOther(guessName ?? "");
  return [kind, photo.name].filter(Boolean).join(", ");
}

/** A photo in words. @param {Photo} photo @param {ClassInfo[]} classes */
export function spoken(photo, classes) {
  const { name, doubt, sure } = captionOf(photo, classes);
  return `${[name, sure || doubt].filter(Boolean).join(" ")}, ${unwritten(photo, classes)}`;
}

/**
 * The words below a photo.
 * @param {{photo: Photo, classes: ClassInfo[]}} props
 */
function Caption({ photo, classes }) {
  const { label, guess } = wordsOf(photo, classes);
  const { name, doubt, sure, strange } = captionOf(photo, classes);
  const colour = strange ? "var(--soft)" : colourOf(label >= 0 ? label : guess);
  return html`<span class="caption" style=${{ "--class": colour }}>
    <span class=${label >= 0 ? "dot" : "dot open"}></span>
    <span class=${`caption-name ${label >= 0 ? "" : "guessed"}`}>${name}</span>
    ${sure && html`<span class="number soft">${sure}</span>`}
  </span>
  <span class="under">${doubt ? html`<span class="doubt">${doubt}</span>`
    : sure && html`<span class="sure" style=${{ "--class": colour }}><i style=${{
      width: `${100 * (photo.confidence ?? 0)}%` }}></i></span>`}</span>`;
}

/**
 * @param {{project: any, photo: Photo | undefined, classes: ClassInfo[], index: number,
 *   total: number, place: {x: number, y: number}, side: number, selected: boolean,
 *   cursor: boolean, movable: boolean}} props
 */
export function PhotoTile({
  project, photo, classes, index, total, place, side, selected, cursor, movable,
}) {
  const style = { transform: `translate(${place.x}px, ${place.y}px)`, width: `${side}px` };
  if (!photo) {
    return html`<div class="tile waiting" role="option" aria-selected="false" style=${style}
      aria-label=${t.loading}><div class="picture" style=${{ height: `${side}px` }}></div></div>`;
  }
  return html`<div id=${`photo-${photo.id}`} role="option" aria-selected=${selected}
    aria-posinset=${index + 1} aria-setsize=${total}
    class=${`tile ${selected ? "selected" : ""} ${cursor ? "cursor" : ""}`} style=${style}
    data-index=${index} draggable=${movable && selected}>
    <div class="picture" style=${{ height: `${side}px` }}>
      <img src=${thumbnail(project, photo.id)} alt="" draggable=${false} decoding="async" />
      <span class="tick"><${Icon} name="check" /></span>
      ${photo.suspected && html`<span class="flag"><${Icon} name="warning" /></span>`}
    </div>
    <${Caption} photo=${photo} classes=${classes} />
    <span class="hidden">${unwritten(photo, classes)}</span>
  </div>`;
}
