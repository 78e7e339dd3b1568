/** The page's icons: strokes on a grid of 24, in the colour of the text around them. */

import { html } from "../html.js";

const PATHS = {
  undo: "M8 8l-4 4 4 4M4 12h10.5a4.5 4.5 0 0 1 0 9H12",
  redo: "M16 8l4 4-4 4M20 12H9.5a4.5 4.5 0 0 0 0 9H12",
  plus: "M12 5v14M5 12h14",
  camera: "M4 8h4l2-3h4l2 3h4v11H4zM12 16.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6 6 18",
  check: "M5 12.5l4.5 4.5L19 7.5",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  tag: "M4 4h8l8 8-8 8-8-8zM8 8h.01",
  untag: "M4 4h8l8 8-8 8-8-8zM8 8h.01M3 21 21 3",
  look: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  keys: "M3 7h18v11H3zM7 11h.01M11 11h.01M15 11h.01M17.5 11h.01M8 14.5h8",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM9 19.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  down: "M12 4v11M7 11l5 5 5-5M5 20h14",
  up: "M12 20V9M7 13l5-5 5 5M5 4h14",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  photos: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  boxes: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  ask: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.3 9.5a2.7 2.7 0 1 1 4 2.4c-.9.5-1.3 1-1.3 2M12 17h.01",
  chart: "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
  warning: "M12 4 3 19h18zM12 10v4M12 16.8h.01",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
};

/** @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}

/**
 * A button with only an icon to see, and a name to hear.
 * @param {{icon: keyof typeof PATHS, label: string, onClick: (event: Event) => void,
 *   disabled?: boolean, spent?: boolean, kind?: string}} props `spent` looks disabled, but keeps
 *   the focus, so that the keys that follow are still heard
 */
export function IconButton({ icon, label, onClick, disabled = false, spent = false, kind = "" }) {
  return html`<button type="button" class=${`icon-button ${kind}`} aria-label=${label}
    title=${label} disabled=${disabled} aria-disabled=${spent || undefined}
    onClick=${onClick}><${Icon} name=${icon} /></button>`;
}
