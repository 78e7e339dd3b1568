/** Keys that work all over the page, unless one is typing. */

import { chosen, selectAll, selectNone } from "./selection.js";

/** @typedef {import("./session.js").Session} Session */

/** Keys that do something to photos. */
const ACTS = /^(\d|a|delete|backspace)$/i;

/** @param {EventTarget | null} target */
const typing = (target) => target instanceof Element
  && target.closest("input:not([type=range]), textarea, select, dialog") !== null;

/** Whether the keyboard is among the photos. @param {EventTarget | null} target */
const inGrid = (target) => target instanceof Element && target.closest("[role=listbox]") !== null;

/** @param {Session} session @param {KeyboardEvent} event @returns {boolean} whether it was ours */
function withControl(session, event) {
  const key = event.key.toLowerCase();
  if (key === "z") {
    if (event.shiftKey) session.redo();
    else session.undo();
  } else if (key === "y") session.redo();
  else if (key === "a" && session.store.value.view === "photos") {
    session.selecting = selectAll(session).finally(() => { session.selecting = null; });
  } else return false;
  return true;
}

/** @param {Session} session @param {KeyboardEvent} event @returns {boolean} whether it was ours */
function onPhotos(session, event) {
  if (session.selecting && ACTS.test(event.key)) { // means all photos, once they are selected
    session.selecting.then(() => onPhotos(session, event));
    return true;
  }
  const { selected, state } = session.store.value;
  const ids = selected.size || inGrid(event.target) ? chosen(session) : [];
  if (event.key === "Escape" && selected.size) {
    selectNone(session);
    return true;
  }
  if (!ids.length) return false;
  if (event.key >= "1" && event.key <= "9") {
    const one = state?.classes[Number(event.key) - 1];
    if (one) session.assign(ids, one.id);
    return one !== undefined;
  }
  if (event.key === "0") session.assign(ids, null);
  else if (event.key.toLowerCase() === "a") session.accept(ids);
  else if (event.key === "Delete" || event.key === "Backspace") session.remove(ids);
  else return false;
  return true;
}

/**
 * @param {Session} session
 * @param {() => void} help
 * @returns {() => void} a function that takes the keys away again
 */
export function listenToKeys(session, help) {
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (typing(event.target) || event.altKey) return;
    let ours;
    if (event.ctrlKey || event.metaKey) ours = withControl(session, event);
    else if (event.key === "?") {
      help();
      ours = true;
    } else ours = onPhotos(session, event);
    if (ours) event.preventDefault();
  };
  document.addEventListener("keydown", pressed);
  return () => document.removeEventListener("keydown", pressed);
}
