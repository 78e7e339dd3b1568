/** Where each photo of the grid stands: sums only, so that ten thousand need not be drawn. */

/** Pixels between photos, and below one for its words. */
const GAP = 10;
const CAPTION = 44;
/** Rows drawn above and below those one sees. */
const SPARE = 2;

/** @typedef {{columns: number, side: number, row: number, rows: number, height: number}} Layout */

/**
 * @param {number} width of the grid
 * @param {number} total photos
 * @param {number} wanted about how wide a photo should be
 * @returns {Layout}
 */
export function layoutOf(width, total, wanted) {
  const columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
  const side = Math.max(40, Math.floor((width - GAP * (columns - 1)) / columns));
  const row = side + CAPTION + GAP;
  const rows = Math.ceil(total / columns);
  return { columns, side, row, rows, height: Math.max(0, rows * row - GAP) };
}

/** Left and top of a photo. @param {Layout} layout @param {number} index */
export function placeOf({ columns, side, row }, index) {
  return { x: (index % columns) * (side + GAP), y: Math.floor(index / columns) * row };
}

/**
 * Which photos to draw: from the first to below the last.
 * @param {Layout} layout @param {number} total @param {number} top @param {number} height
 */
export function visible({ columns, row }, total, top, height) {
  const first = Math.max(0, Math.floor(top / row) - SPARE);
  const last = Math.ceil((top + height) / row) + SPARE;
  return { from: Math.min(total, first * columns), to: Math.min(total, last * columns) };
}

/**
 * The photos that a frame touches.
 * @param {Layout} layout @param {number} total
 * @param {{left: number, top: number, right: number, bottom: number}} frame
 * @returns {number[]}
 */
export function touched(layout, total, frame) {
  const { columns, side, row } = layout;
  const found = [];
  const last = Math.min(layout.rows - 1, Math.floor(frame.bottom / row));
  for (let line = Math.max(0, Math.floor(frame.top / row)); line <= last; line += 1) {
    if (frame.top > line * row + side + CAPTION) continue; // only the gap below it
    for (let column = 0; column < columns; column += 1) {
      const x = column * (side + GAP);
      const index = line * columns + column;
      if (index < total && frame.left <= x + side && frame.right >= x) found.push(index);
    }
  }
  return found;
}
