/** Selecting photos, as file managers do: click, ctrl, shift, all. */

/** @typedef {import("./session.js").Session} Session */

/**
 * @param {Session} session
 * @param {number} index
 * @param {{toggle?: boolean, range?: boolean}} how
 */
export async function select(session, index, { toggle = false, range = false } = {}) {
  const { anchor, selected } = session.store.value;
  if (range) {
    const [from, to] = [Math.min(anchor, index), Math.max(anchor, index)];
    session.store.set({ cursor: index });
    const ids = await session.photos.ids(from, to + 1);
    session.store.set({ selected: new Set(toggle ? [...selected, ...ids] : ids) });
    return;
  }
  const photo = session.photos.at(index);
  if (!photo) return;
  const next = new Set(toggle ? selected : []);
  if (toggle && selected.has(photo.id)) next.delete(photo.id);
  else next.add(photo.id);
  session.store.set({ selected: next, cursor: index, anchor: index });
}

/** @param {Session} session */
export async function selectAll(session) {
  await session.photos.need(0, 1); // the number of photos may just have changed
  const ids = await session.photos.ids(0, session.photos.total ?? 0);
  session.store.set({ selected: new Set(ids) });
}

/** @param {Session} session */
export const selectNone = (session) => session.store.set({ selected: new Set() });

/** What an action is about: the selected photos, else the one at the cursor. @param {Session} session */
export function chosen(session) {
  const { selected, cursor } = session.store.value;
  if (selected.size) return [...selected];
  const photo = session.photos.at(cursor);
  return photo ? [photo.id] : [];
}
