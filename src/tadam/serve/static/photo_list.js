/** The photos of a query, fetched in pages as the grid comes to show them. */

/** @typedef {import("./types.js").Photo} Photo */
/** @typedef {import("./types.js").Query} Query */

import { get, projectPath } from "./api.js";

/** Photos in one request. */
const PAGE = 200;

/** @param {Query} query @returns {URLSearchParams} */
function parameters(query) {
  const asked = new URLSearchParams({ sort: query.sort });
  if (query.show === "ids") asked.set("ids", (query.ids ?? []).join(","));
  else if (query.show === "cell") {
    asked.set("truth", String(query.truth));
    asked.set("answer", String(query.answer));
  } else asked.set("show", query.show);
  if (query.show === "class") asked.set("class_id", String(query.class_id));
  return asked;
}

export class PhotoList {
  /**
   * @param {string | number} project
   * @param {() => void} changed called when there is something new to draw
   * @param {(error: unknown) => void} failed
   */
  constructor(project, changed, failed) {
    this.project = project;
    this.changed = changed;
    this.failed = failed;
    /** @type {Query} */
    this.query = { show: "all", sort: "newest" };
    /** null until the first page is here */
    this.total = /** @type {number | null} */ (null);
    /** @type {Map<number, Photo[]>} page -> photos; may be from before the last change */
    this.pages = new Map();
    /** @type {Map<number, Promise<void>>} pages that are fresh or on their way */
    this.asked = new Map();
    this.round = 0;
  }

  /** Shows other photos from now on. @param {Query} query */
  ask(query) {
    this.query = query;
    this.total = null;
    this.pages.clear();
    this.refresh();
    this.need(0, 1);
  }

  /** Something changed: what is drawn stays until the fresh pages come. */
  refresh() {
    this.round += 1;
    this.asked.clear();
    this.changed();
  }

  /** @param {number} index @returns {Photo | undefined} */
  at(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Fetches what is missing from `from` to below `to`. @param {number} from @param {number} to */
  async need(from, to) {
    const waiting = [];
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) {
      let request = this.asked.get(page);
      if (!request) {
        request = this.#fetch(page);
        this.asked.set(page, request);
      }
      waiting.push(request);
    }
    await Promise.all(waiting);
  }

  /** @param {number} page */
  async #fetch(page) {
    const round = this.round;
    const asked = parameters(this.query);
    asked.set("offset", String(page * PAGE));
    asked.set("limit", String(PAGE));
    try {
      const answer = await get(`${projectPath(this.project)}/images?${asked}`);
      if (round !== this.round) return;
      this.total = answer.total;
      this.pages.set(page, answer.items);
      for (const old of [...this.pages.keys()]) {
        if (old * PAGE >= answer.total) this.pages.delete(old);
      }
      this.changed();
    } catch (error) {
      if (round === this.round) this.asked.delete(page);
      this.failed(error);
    }
  }

  /** The ids from index `from` to below `to`. @param {number} from @param {number} to */
  async ids(from, to) {
    await this.need(from, to);
    const found = [];
    for (let index = from; index < to; index += 1) {
      const photo = this.at(index);
      if (photo) found.push(photo.id);
    }
    return found;
  }
}
