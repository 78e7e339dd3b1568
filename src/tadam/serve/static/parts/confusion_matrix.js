/** Labels against answers: a table whose numbers lead to the photos behind them. */

import { html } from "../html.js";
import { colourOf } from "../colours.js";
import { count, t } from "../strings.js";

/**
 * @param {{session: import("../session.js").Session,
 *   quality: import("../types.js").Quality}} props
 */
export function ConfusionMatrix({ session, quality }) {
  const { classes, confusion } = quality;
  const cell = (/** @type {number} */ row, /** @type {number} */ column) => {
    const n = confusion[row][column];
    const sum = confusion[row].reduce((a, b) => a + b, 0);
    if (!n) return html`<td key=${column} class="cell zero">·</td>`;
    const [truth, answer] = [classes[row], classes[column]];
    const share = Math.round((100 * n) / sum);
    return html`<td key=${column} class=${`cell ${row === column ? "right" : "wrong"}`}>
      <button type="button" aria-label=${t.confusionCell(n, truth.name, answer.name)}
        title=${t.confusionCell(n, truth.name, answer.name)} style=${{ "--share": `${share}%` }}
        onClick=${() => session.show({ show: "cell", truth: truth.id, answer: answer.id })}>
        ${count(n)}</button></td>`;
  };
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label=${t.confusionTitle}>
    <table class="confusion">
      <thead><tr><td></td>${classes.map((one) => html`<th key=${one.id} scope="col"
        style=${{ "--class": colourOf(session.classIndex(one.id)) }}><span class="dot"></span>
        <span class="chip-words">${one.name}</span></th>`)}</tr></thead>
      <tbody>${classes.map((one, row) => html`<tr key=${one.id}>
        <th scope="row" style=${{ "--class": colourOf(session.classIndex(one.id)) }}><span class="dot"></span>
          <span class="chip-words">${one.name}</span></th>
        ${classes.map((_, column) => cell(row, column))}</tr>`)}</tbody>
    </table>
  </div>`;
}
