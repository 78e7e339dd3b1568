/** How good is it? Accuracy by class and as it grew, what is taken for what, what to do next. */

import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { colourOf } from "../colours.js";
import { useStore } from "../store.js";
import { count, percent, t } from "../strings.js";
import { ConfusionMatrix } from "./confusion_matrix.js";
import { GrowthChart } from "./growth_chart.js";
import { Duplicates, Suggestions, Suspects } from "./next_steps.js";

/** @typedef {import("../types.js").Quality} Quality */

/** @param {import("../session.js").Session} session @param {number} revision */
function useQuality(session, revision) {
  const [quality, setQuality] = useState(/** @type {Quality | null} */ (null));
  useEffect(() => {
    const stop = new AbortController();
    get(`${session.path}/quality`, stop.signal).then(setQuality)
      .catch((error) => session.fail(error));
    return () => stop.abort();
  }, [session, revision]);
  return quality;
}

/** @param {{session: import("../session.js").Session, classes: import("../types.js").ClassInfo[]}} props */
function ByClass({ session, classes }) {
  return html`<table class="by-class">
    <thead><tr><th scope="col">${t.classHeader}</th><th scope="col">${t.photosHeader}</th>
      <th scope="col" colspan="2">${t.accuracyHeader}</th></tr></thead>
    <tbody>${classes.map((one) => html`<tr key=${one.id}
      style=${{ "--class": colourOf(session.classIndex(one.id)) }}>
      <th scope="row"><span class="dot"></span><span class="chip-words">${one.name}</span></th>
      <td class="number">${count(one.count)}</td>
      <td class="number">${one.accuracy === null ? "–" : percent(one.accuracy)}</td>
      <td class="wide"><span class="bar"><i style=${{
        width: `${100 * (one.accuracy ?? 0)}%` }}></i></span></td>
    </tr>`)}</tbody>
  </table>`;
}

/** @param {{session: import("../session.js").Session}} props */
export function QualityPanel({ session }) {
  const state = useStore(session.store, (value) => value.state);
  const quality = useQuality(session, state?.revision ?? 0);
  const title = html`<h2>${t.qualityTitle}</h2>`;
  if (!quality) return html`<section class="page">${title}<p class="soft">${t.measuring}</p></section>`;
  if (quality.accuracy === null) {
    return html`<section class="page">${title}<p class="soft">${t.qualityNotYet}</p>
      <${Suggestions} session=${session} quality=${quality} /></section>`;
  }
  return html`<section class="page" aria-label=${t.qualityTitle}>${title}
    <div class="cards">
      <div class="card">
        <p class="score"><strong>${percent(quality.accuracy)}</strong>
          <span class="soft">${t.accuracyWords}</span></p>
        <h3>${t.growthTitle}</h3>
        <${GrowthChart} history=${state?.accuracy_history ?? []} />
      </div>
      <div class="card"><h3>${t.byClass}</h3><${ByClass} session=${session} classes=${quality.classes} /></div>
      ${quality.advice.length > 0 && html`<div class="card wide-card"><h3>${t.advice}</h3>
        <ul class="advice">${quality.advice.map((words, i) => html`<li key=${i}>${words}</li>`)}</ul>
      </div>`}
      <div class="card wide-card"><h3>${t.confusionTitle}</h3>
        <p class="soft">${t.confusionLead}</p>
        <${ConfusionMatrix} session=${session} quality=${quality} /></div>
      <${Suggestions} session=${session} quality=${quality} />
      <${Suspects} session=${session} quality=${quality} />
      <${Duplicates} session=${session} quality=${quality} />
    </div>
  </section>`;
}
