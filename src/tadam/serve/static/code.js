/** What the lines of code to copy depend on: this server's address and its names of files. */

/** On this machine, a question needs no token. */
const LOCAL = /^(localhost|127\..*|\[::1\])$/;

/** The line that asks this server about a photo. @param {string} path below /api/v1 */
export function curlLine(path) {
  const key = LOCAL.test(location.hostname) ? "" : '-H "Authorization: Bearer $TOKEN" ';
  return `curl ${key}-F files=@photo.jpg \\\n  ${location.origin}/api/v1${path}/predict`;
}

/** What the server calls a project's files, as `slug` in naming.py. @param {string} name */
export function fileName(name) {
  const plain = name.normalize("NFKD").replace(/[^\0-\x7f]/g, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40) || "project";
}
