/** An answer in full: the verdict, a bar for each class, the photos it rests on, and teaching it. */

import { html } from "../html.js";
import { thumbnail } from "../api.js";
import { colourOf } from "../colours.js";
import { percent, t } from "../strings.js";
import { ClassChooser } from "./selection_bar.js";

/** @typedef {import("../types.js").Answer} Answer */
/** @typedef {import("../types.js").ClassInfo} ClassInfo */

/** Most bars; the rest are hardly probable. */
const MOST_BARS = 8;

/** @param {Answer} answer */
function best(answer) {
  return [...answer.probabilities].sort((a, b) => b.probability - a.probability);
}

/** @param {{answer: Answer}} props */
function Verdict({ answer }) {
  if (answer.unknown) {
    return html`<div class="verdict unknown"><strong>${t.noneOfThese}</strong>
      <span class="soft">${t.noneLead} ${t.closest(best(answer)[0]?.label ?? "")}</span></div>`;
  }
  return html`<div class="verdict"><strong>${answer.label}</strong>
    <span class="number">${percent(answer.confidence)}</span></div>`;
}

/** @param {{answer: Answer, classes: ClassInfo[]}} props */
function Bars({ answer, classes }) {
  return html`<ol class="bars" aria-label=${t.probabilities}>
    ${best(answer).slice(0, MOST_BARS).map(({ class_id: id, label, probability }) => html`
      <li key=${id} style=${{ "--class": colourOf(classes.findIndex((one) => one.id === id)) }}>
        <span class="bar-name">${label}</span>
        <span class="number">${percent(probability)}</span>
        <span class="bar"><i style=${{ width: `${100 * probability}%` }}></i></span>
      </li>`)}
  </ol>`;
}

/**
 * @param {{answer: Answer, photo: Blob | null, live: boolean, classes: ClassInfo[],
 *   session: import("../session.js").Session | null}} props
 */
export function AnswerDetails({ answer, photo, live, classes, session }) {
  const nearest = answer.nearest.filter(({ id }) => id !== null && session !== null);
  const teach = async (/** @type {any} */ classId) => {
    if (!photo || !session) return;
    const name = photo instanceof File ? photo.name : "camera.jpg";
    const file = new File([photo], name, { type: photo.type });
    const result = await session.add([{ file, path: name }], { classId, quiet: true });
    if (!result) return;
    if (result.problems.length) session.notices.bad(t.problems(result.problems));
    else if (result.added || result.moved) session.said(t.taught(session.className(classId)));
    else session.notices.good(t.taught(session.className(classId))); // it knew: nothing to undo
  };
  return html`<div class="details">
    <div aria-live=${live ? "off" : "polite"}><${Verdict} answer=${answer} /></div>
    ${answer.unknown && html`<h3>${t.ifForced}</h3>`}
    <${Bars} answer=${answer} classes=${classes} />
    ${session && photo && html`<h3 id="teach">${t.teach}</h3>
      <div class="buttons" role="group" aria-labelledby="teach">
        <${ClassChooser} classes=${classes} onClass=${teach} /></div>`}
    ${nearest.length > 0 && html`<h3>${t.nearest}</h3>
      <ul class="nearest">${nearest.slice(0, 6).map(({ id, label }) => html`<li key=${id}>
        <img src=${thumbnail(session?.id ?? "", id ?? "")} alt=${t.nearestPhoto(label)} />
        <span>${label}</span></li>`)}</ul>`}
  </div>`;
}
