/** Short messages at the foot of the page: what was done, with a way back, and what went wrong. */

import { Store } from "./store.js";

/** @typedef {{id: number, text: string, bad: boolean,
 *    action?: {label: string, act: () => void}}} Notice */

const SECONDS = { good: 7, bad: 14 };

export class Notices {
  constructor() {
    this.store = new Store({
      all: /** @type {Notice[]} */ ([]),
      /** whether a window is open: nothing outside it can be reached or is read out */
      inDialog: false,
    });
    this.next = 1;
  }

  /** @param {string} text @param {Notice["action"]} [action] */
  good(text, action) {
    this.#add({ text, bad: false, action }, SECONDS.good);
  }

  /** @param {string} text */
  bad(text) {
    this.#add({ text, bad: true }, SECONDS.bad);
  }

  /** Shows them in a window from now on. @returns {() => void} a function that ends it */
  enterDialog() {
    this.store.set({ inDialog: true });
    return () => this.store.set({ inDialog: false });
  }

  /** @param {number} id */
  close(id) {
    this.store.set({ all: this.store.value.all.filter((one) => one.id !== id) });
  }

  /** @param {Omit<Notice, "id">} notice @param {number} seconds */
  #add(notice, seconds) {
    const id = this.next++;
    // One good one at a time, so that "Undo" always means the last action; the same text once.
    const kept = this.store.value.all.filter((one) => one.bad && one.text !== notice.text);
    this.store.set({ all: [...kept, { ...notice, id }].slice(-3) });
    setTimeout(() => this.close(id), seconds * 1000);
  }
}
