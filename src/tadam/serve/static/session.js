/** An open project: what the page knows of it, and everything one can do to it. */

/** @typedef {import("./types.js").ProjectState} ProjectState */
/** @typedef {import("./types.js").Id} Id */

import { call, events, get, post, projectPath, renewToken } from "./api.js";
import { isZip } from "./dropped_files.js";
import { PhotoList } from "./photo_list.js";
import { Store } from "./store.js";
import { t } from "./strings.js";
import { upload } from "./upload.js";

/** Milliseconds between two looks at a project that changes all the time. */
const PAUSE = 400;
/** Photos that are asked about in one request. */
const AT_ONCE = 1000;

export class Session {
  /** @param {Id} id @param {import("./notices.js").Notices} notices */
  constructor(id, notices) {
    this.id = id;
    this.path = projectPath(id);
    this.notices = notices;
    this.photos = new PhotoList(id, () => this.#drawPhotos(), (error) => this.fail(error));
    this.store = new Store({
      state: /** @type {ProjectState | null} */ (null),
      selected: /** @type {Set<Id>} */ (new Set()),
      /** index of the photo that the keyboard is at */
      cursor: 0,
      /** where a range of selected photos starts */
      anchor: 0,
      /** counts up when the grid has something new to draw */
      drawing: 0,
      view: "photos",
      upload: /** @type {import("./types.js").Progress | null} */ (null),
      busy: /** @type {import("./types.js").Progress | null} */ (null),
      connected: true,
      /** counts uploads and others that are on their way */
      working: 0,
    });
    /** @type {EventSource | null} */
    this.news = null;
    this.timer = 0;
    this.looked = 0;
    /** Is under way while all photos are being selected. */
    this.selecting = /** @type {Promise<void> | null} */ (null);
  }

  /** Loads the project and listens to the server. */
  async open() {
    await this.look();
    this.photos.ask(this.photos.query);
    this.#listen();
  }

  close() {
    this.news?.close();
    clearTimeout(this.timer);
  }

  /** Deletes the project; what the server says of it from then on is of no interest. */
  async deleteProject() {
    this.close();
    try {
      await call("DELETE", this.path);
    } catch (error) {
      this.#listen();
      throw error;
    }
  }

  #listen() {
    this.news = events(this.id);
    this.news.addEventListener("state", () => this.#lookSoon());
    this.news.addEventListener("progress", (event) => {
      const busy = JSON.parse(/** @type {MessageEvent} */ (event).data);
      this.store.set({ busy: busy && busy.done < busy.total ? busy : null });
    });
    this.news.addEventListener("open", () => this.#connected());
    this.news.addEventListener("error", () => this.store.set({ connected: false }));
  }

  async #connected() {
    if (this.store.value.connected) return;
    try {
      await renewToken();
      this.store.set({ connected: true });
      await this.look();
    } catch {
      // the server went away again; the next "open" comes here again
    }
  }

  #lookSoon() {
    clearTimeout(this.timer);
    const wait = Math.max(0, this.looked + PAUSE - performance.now());
    this.timer = setTimeout(() => this.look().catch((error) => this.fail(error)), wait);
  }

  /** Fetches the project's state. */
  async look() {
    this.looked = performance.now();
    this.take(await get(`${this.path}/state`));
  }

  /** @param {ProjectState | null} state what the server answered, if it is a state */
  take(state) {
    if (!state || !state.counts) return;
    const before = this.store.value.state;
    if (before && state.revision < before.revision) return;
    this.store.set({ state, busy: state.busy ?? null });
    if (before && before.revision !== state.revision) {
      const query = this.photos.query;
      if (query.show === "class" && !state.classes.some((one) => one.id === query.class_id)) {
        this.show({ show: "all" });
      } else this.photos.refresh();
    }
  }

  #drawPhotos() {
    this.store.set({ drawing: this.store.value.drawing + 1 });
  }

  /** @param {unknown} error */
  fail(error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    this.notices.bad(error instanceof Error ? error.message : String(error));
  }

  /**
   * Does something on the server and takes the state that follows.
   * @param {() => Promise<any>} request
   * @param {string} [said] what to say when it is done, with a button that undoes it
   * @returns {Promise<any>} the answer, or undefined if it was refused
   */
  async do(request, said = "") {
    this.store.set({ working: this.store.value.working + 1 });
    try {
      const answer = await request();
      if (answer?.counts) this.take(answer);
      else await this.look();
      if (said) this.said(said);
      return answer;
    } catch (error) {
      this.fail(error);
      return undefined;
    } finally {
      this.store.set({ working: this.store.value.working - 1 });
    }
  }

  /** Says what was done, with a button that undoes it. @param {string} text */
  said(text) {
    this.notices.good(text, { label: t.undo, act: () => this.undo() });
  }

  /** Which photos the grid shows. @param {Partial<import("./types.js").Query>} query */
  show(query) {
    const { sort } = this.photos.query;
    this.store.set({ selected: new Set(), cursor: 0, anchor: 0, view: "photos" });
    this.photos.ask({ show: "all", sort, ...query });
  }

  /** @param {string} sort */
  sortBy(sort) {
    this.photos.ask({ ...this.photos.query, sort });
  }

  /** @param {string} name */
  async addClass(name) {
    return this.do(() => post(`${this.path}/classes`, { name }));
  }

  /** @param {Id} id @param {string} name */
  async renameClass(id, name) {
    return this.do(() => call("PATCH", `${this.path}/classes/${id}`, { name }));
  }

  /** @param {Id} id @param {Id} into */
  async mergeClass(id, into) {
    const said = t.merged(this.className(id), this.className(into));
    return this.do(() => post(`${this.path}/classes/${id}/merge`, { into }), said);
  }

  /** @param {Id} id @param {"unlabel" | "delete"} photos what becomes of its photos */
  async deleteClass(id, photos) {
    const said = t.classDeleted(this.className(id));
    return this.do(() => call("DELETE", `${this.path}/classes/${id}?photos=${photos}`), said);
  }

  /** @param {Id | null} id @returns {string} */
  className(id) {
    return this.store.value.state?.classes.find((one) => one.id === id)?.name ?? "";
  }

  /** The class's place in the list, which gives its colour. @param {Id | null} id */
  classIndex(id) {
    return this.store.value.state?.classes.findIndex((one) => one.id === id) ?? -1;
  }

  /** @param {Id[]} ids @param {Id | null} classId null takes the label away */
  async assign(ids, classId) {
    if (!ids.length) return;
    const said = classId === null
      ? t.unlabelled(ids.length) : t.assigned(ids.length, this.className(classId));
    this.store.set({ selected: new Set() });
    await this.do(() => post(`${this.path}/images/assign`, { ids, class_id: classId }), said);
  }

  /** Takes the guesses for labels. @param {Id[]} ids */
  async accept(ids) {
    if (!ids.length) return;
    this.store.set({ selected: new Set() });
    await this.do(() => post(`${this.path}/images/accept`, { ids }), t.accepted(ids.length));
  }

  /** @param {Id[]} ids */
  async remove(ids) {
    if (!ids.length) return;
    this.store.set({ selected: new Set() });
    await this.do(() => post(`${this.path}/images/delete`, { ids }), t.photosDeleted(ids.length));
  }

  async undo() {
    const what = this.store.value.state?.undo.undo;
    if (what && (await this.do(() => post(`${this.path}/undo`)))) {
      this.notices.good(t.undone(what), { label: t.redo, act: () => this.redo() });
    }
  }

  async redo() {
    const what = this.store.value.state?.undo.redo;
    if (what) await this.do(() => post(`${this.path}/redo`), t.redone(what));
  }

  /**
   * Adds photos and says what became of them; with a class, those that are there move to it.
   * @param {import("./dropped_files.js").Found[]} files
   * @param {{classId?: Id | null, byFolder?: boolean, group?: string, quiet?: boolean}} options
   */
  async add(files, { classId = null, byFolder = false, group = undefined, quiet = false } = {}) {
    if (!files.length) {
      if (!quiet) this.notices.bad(t.noPhotos);
      return null;
    }
    const total = files.some(isZip) ? 0 : files.length; // nobody knows how many are in a zip
    const show = quiet ? () => {} : (/** @type {number} */ done) =>
      this.store.set({ upload: { what: t.adding, done, total } });
    show(0);
    try {
      const result = await upload(this.path, files, { classId, byFolder, group }, show);
      const moved = classId === null ? 0 : await this.#move(result.known, classId);
      if (!quiet) {
        await this.look();
        this.#sayAdded(result, moved, classId);
      }
      return { ...result, moved };
    } catch (error) {
      this.fail(error);
      return null;
    } finally {
      if (!quiet) this.store.set({ upload: null });
      this.#lookSoon();
    }
  }

  /**
   * Gives photos another label, which is an action only if one of them had not that one.
   * @param {Id[]} known @param {Id} classId
   * @returns {Promise<number>} how many moved
   */
  async #move(known, classId) {
    const ids = [];
    for (let from = 0; from < known.length; from += AT_ONCE) {
      const some = known.slice(from, from + AT_ONCE).join(",");
      const { items } = await get(`${this.path}/images?ids=${some}&limit=${AT_ONCE}`);
      for (const photo of items) if (photo.class_id !== classId) ids.push(photo.id);
    }
    if (ids.length) await post(`${this.path}/images/assign`, { ids, class_id: classId });
    return ids.length;
  }

  /** @param {import("./upload.js").Uploaded} result @param {number} moved @param {Id | null} classId */
  #sayAdded({ added, duplicates, problems }, moved, classId) {
    const words = added || !moved ? [t.added(added)] : [];
    if (moved) words.push(t.assigned(moved, this.className(classId)));
    if (duplicates > moved) words.push(t.duplicates(duplicates - moved));
    const undo = async () => {
      if (moved) await this.undo();
      if (added) await this.undo();
    };
    if (added || duplicates) {
      this.notices.good(words.join(" "), added || moved ? { label: t.undo, act: undo } : undefined);
    }
    if (problems.length) this.notices.bad(t.problems(problems));
  }
}
