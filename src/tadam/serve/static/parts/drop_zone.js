/** An area that takes photos from outside the page, and from the grid. */

import { useRef, useState } from "../html.js";
import { carriesFiles, filesOf } from "../dropped_files.js";

/** The kind of a drag that starts in the grid. */
export const PHOTOS = "application/x-tadam-photos";

/** @param {DragEvent} event */
const carriesPhotos = (event) => [...(event.dataTransfer?.types ?? [])].includes(PHOTOS);

/**
 * Handlers for an element, and whether something hovers over it.
 * @param {(files: import("../dropped_files.js").Found[]) => void} onFiles
 * @param {() => void} [onPhotos] photos of the grid were dropped
 */
export function useDrop(onFiles, onPhotos) {
  const [over, setOver] = useState(false);
  const depth = useRef(0); // entering a child comes before leaving its parent
  const takes = (/** @type {DragEvent} */ event) =>
    carriesFiles(event) || (onPhotos !== undefined && carriesPhotos(event));
  const handlers = {
    onDragEnter: (/** @type {DragEvent} */ event) => {
      if (!takes(event)) return;
      event.preventDefault();
      depth.current += 1;
      setOver(true);
    },
    onDragOver: (/** @type {DragEvent} */ event) => {
      if (!takes(event)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    onDragLeave: (/** @type {DragEvent} */ event) => {
      if (!takes(event)) return;
      depth.current = Math.max(0, depth.current - 1);
      if (!depth.current) setOver(false);
    },
    onDrop: async (/** @type {DragEvent} */ event) => {
      if (!takes(event)) return;
      event.preventDefault();
      event.stopPropagation();
      depth.current = 0;
      setOver(false);
      if (carriesPhotos(event)) onPhotos?.();
      else if (event.dataTransfer) onFiles(await filesOf(event.dataTransfer));
    },
  };
  return { over, handlers };
}
