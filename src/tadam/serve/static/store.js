/** A value that components watch: one small store, no library. */

import { useEffect, useRef, useState } from "./html.js";

/**
 * @template {object} T
 */
export class Store {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
  }

  /** Replaces some fields and tells everyone. @param {Partial<T>} change */
  set(change) {
    this.value = { ...this.value, ...change };
    for (const watcher of [...this.watchers]) watcher();
  }

  /** @param {() => void} watcher @returns {() => void} a function that stops it */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

/**
 * The part of a store that a component draws; it draws again when that part is another one.
 * @template {object} T
 * @template P
 * @param {Store<T>} store
 * @param {(value: T) => P} pick
 * @returns {P}
 */
export function useStore(store, pick) {
  const part = pick(store.value);
  const latest = useRef({ pick, part });
  latest.current = { pick, part };
  const [, redraw] = useState({});
  useEffect(() => {
    const check = () => {
      const drawn = latest.current;
      if (!Object.is(drawn.pick(store.value), drawn.part)) redraw({});
    };
    check(); // it may have changed between drawing and now
    return store.watch(check);
  }, [store]);
  return part;
}
