/** A colour for each class: ten that can be told apart, on light and on dark. */

const HUES = [
  "#2f7fb8", "#c9622b", "#3a9a5b", "#a2559c", "#b08a1e",
  "#c94a63", "#2f9c9c", "#7d6bd0", "#8a7a5c", "#5c8a2f",
];

/** @param {number} index the class's place in the list */
export const colourOf = (index) => (index < 0 ? "var(--soft)" : HUES[index % HUES.length]);
