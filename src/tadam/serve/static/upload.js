/** Sends photos to a project in small batches, two at a time. */

import { post } from "./api.js";

/** Photos and bytes in one request, so that the bar moves and no request grows large. */
const MOST_FILES = 16;
const MOST_BYTES = 24 * 2 ** 20;
const AT_ONCE = 2;

/** @typedef {import("./dropped_files.js").Found} Found */
/** @typedef {{added: number, ids: any[], duplicates: number, known: any[],
 *    problems: {name: string, detail: string}[]}} Uploaded */

/** A name that no other group has. */
export const newGroup = () => crypto.randomUUID?.() ?? String(Math.random());

/** @param {Found[]} files @returns {Found[][]} */
export function batches(files) {
  /** @type {Found[][]} */
  const all = [];
  let bytes = 0;
  for (const found of files) {
    const last = all[all.length - 1];
    if (!last || last.length >= MOST_FILES || bytes + found.file.size > MOST_BYTES) {
      all.push([found]);
      bytes = found.file.size;
    } else {
      last.push(found);
      bytes += found.file.size;
    }
  }
  return all;
}

/**
 * @param {string} path the project's, below /api/v1
 * @param {Found[]} files
 * @param {{classId: any, byFolder: boolean, group?: string}} options those sent one after the
 *   other with the same `group` are undone together
 * @param {(done: number) => void} progress files sent so far
 * @returns {Promise<Uploaded>}
 */
export async function upload(
  path, files, { classId, byFolder, group = newGroup() }, progress,
) {
  const waiting = batches(files);
  /** @type {Uploaded} */
  const result = { added: 0, ids: [], duplicates: 0, known: [], problems: [] };
  let done = 0;
  const work = async () => {
    for (let batch = waiting.shift(); batch; batch = waiting.shift()) {
      const form = new FormData();
      form.append("undo_group", group);
      if (classId !== null) form.append("class_id", String(classId));
      if (byFolder) form.append("by_folder", "true");
      for (const { file, path: name } of batch) form.append("files", file, name);
      const answer = await post(`${path}/images`, form);
      result.added += answer.added.length;
      result.ids.push(...answer.added.map((/** @type {any} */ one) => one.id));
      result.duplicates += answer.duplicates.length;
      result.known.push(...answer.duplicates.map((/** @type {any} */ one) => one.id));
      result.problems.push(...answer.problems);
      done += batch.length;
      progress(done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return result;
}
