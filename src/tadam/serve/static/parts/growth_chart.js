/** The accuracy as it grew with the photos: a line without a library. */

import { html } from "../html.js";
import { count, percent, t } from "../strings.js";

const WIDTH = 420;
const HEIGHT = 150;
const EDGE = { left: 44, right: 12, top: 10, bottom: 26 };

/** @param {{history: {images: number, accuracy: number}[]}} props */
export function GrowthChart({ history }) {
  if (history.length < 2) return html`<p class="soft">${t.growthMore}</p>`;
  const first = history[0].images;
  const last = Math.max(...history.map(({ images }) => images), first + 1);
  const x = (/** @type {number} */ images) =>
    EDGE.left + ((images - first) / (last - first)) * (WIDTH - EDGE.left - EDGE.right);
  const y = (/** @type {number} */ share) =>
    HEIGHT - EDGE.bottom - share * (HEIGHT - EDGE.top - EDGE.bottom);
  const line = history.map((at, i) => `${i ? "L" : "M"}${x(at.images)} ${y(at.accuracy)}`).join("");
  const end = history[history.length - 1];
  return html`<svg class="growth" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img"
    aria-label=${`${t.growth(first, last)}: ${percent(history[0].accuracy)}, ${percent(end.accuracy)}`}>
    ${[0, 0.5, 1].map((share) => html`<g key=${share}>
      <line x1=${EDGE.left} x2=${WIDTH - EDGE.right} y1=${y(share)} y2=${y(share)} />
      <text x=${EDGE.left - 8} y=${y(share) + 4} text-anchor="end">${percent(share)}</text></g>`)}
    <path d=${line} />
    <circle cx=${x(end.images)} cy=${y(end.accuracy)} r="4" />
    <text x=${EDGE.left} y=${HEIGHT - 6}>${t.photos(first)}</text>
    <text x=${WIDTH - EDGE.right} y=${HEIGHT - 6} text-anchor="end">${count(last)}</text>
  </svg>`;
}
