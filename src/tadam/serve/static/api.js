/** Requests to the server this page came from: JSON in and out, its token, its one sentence on failure. */

import { t } from "./strings.js";

const ROOT = "/api/v1";

/** @param {string} name @param {Document} page @returns {string} */
function meta(name, page = document) {
  return page.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

let token = meta("tadam-token");

/** "projects", "project" for a server of only one, or "classifier" for a .tadam file. */
export const mode = meta("tadam-mode");

/** What the server refused, in its own sentence. `status` is 0 if it did not answer. */
export class Refusal extends Error {
  /** @param {string} sentence @param {number} status */
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** Reads the token anew: a restarted server has another one. */
export async function renewToken() {
  const answer = await fetch("/", { cache: "no-store" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  token = meta("tadam-token", page) || token;
}

/** @param {Response} answer @returns {Promise<Refusal>} */
async function refusal(answer) {
  let sentence = t.failed(answer.status);
  try {
    const problem = await answer.json();
    if (typeof problem.detail === "string") sentence = problem.detail;
  } catch {
    // not JSON: the status has to do
  }
  return new Refusal(sentence, answer.status);
}

/**
 * @param {string} method
 * @param {string} path below /api/v1
 * @param {BodyInit | object | null} body FormData and Blobs are sent as they are, the rest as JSON
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>} the answer's JSON; null if it has none
 */
export async function call(method, path, body = null, signal = undefined) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Tadam-Token"] = token;
  let content = body;
  if (body instanceof Blob) {
    headers["Content-Type"] = body.type || "application/octet-stream";
  } else if (body !== null && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    content = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(ROOT + path, { method, headers, body: content, signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refusal(t.noAnswer, 0);
  }
  if (!answer.ok) throw await refusal(answer);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => call("GET", path, null, signal);
/** @param {string} path @param {any} body */
export const post = (path, body = {}) => call("POST", path, body);

/** The path of a project, below /api/v1. @param {string | number} project */
export const projectPath = (project) => `/projects/${encodeURIComponent(project)}`;

/** Where a picture of a photo is. @param {string | number} project @param {string | number} photo */
export const thumbnail = (project, photo) =>
  `${ROOT}${projectPath(project)}/images/${encodeURIComponent(photo)}/thumbnail`;
/** @param {string | number} project @param {string | number} photo */
export const original = (project, photo) =>
  `${ROOT}${projectPath(project)}/images/${encodeURIComponent(photo)}/original`;

/** The server's stream of news about a project. @param {string | number} project */
export const events = (project) => new EventSource(`${ROOT}${projectPath(project)}/events`);

/**
 * Downloads a file; a refusal is thrown rather than shown by the browser.
 * @param {string} path below /api/v1
 */
export async function download(path) {
  let answer;
  try {
    answer = await fetch(ROOT + path);
  } catch {
    throw new Refusal(t.noAnswer, 0);
  }
  if (!answer.ok) throw await refusal(answer);
  const named = /filename\*?=(?:UTF-8'')?"?([^";]+)"?/i.exec(
    answer.headers.get("Content-Disposition") ?? "",
  );
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = named ? decodeURIComponent(named[1]) : path.split("/").pop() ?? "download";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
