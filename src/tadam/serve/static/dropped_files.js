/** Photos out of what was dropped, chosen or pasted: files, whole folders, zips. */

/** @typedef {{file: File, path: string}} Found a file and its path within what was dropped */

const EXTENSIONS = /\.(jpe?g|png|webp|gif|bmp|tiff?|heic|heif|zip)$/i;

/** Whether to send a file at all; the server looks at what is in it. @param {File} file */
function wanted(file) {
  if (file.name.startsWith(".")) return false;
  return file.type.startsWith("image/") || EXTENSIONS.test(file.name);
}

/** @param {any} directory @returns {Promise<any[]>} all entries; a reader gives 100 at a time */
async function entriesOf(directory) {
  const reader = directory.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return all;
    all.push(...some);
  }
}

/** @param {any} entry a FileSystemEntry @param {Found[]} found */
async function walk(entry, found) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    if (wanted(file)) found.push({ file, path: entry.fullPath.replace(/^\//, "") });
  } else if (entry.isDirectory && !entry.name.startsWith(".")) {
    for (const inside of await entriesOf(entry)) await walk(inside, found);
  }
}

/**
 * The files of a drop or paste. Must be called before the event is over.
 * @param {DataTransfer} transfer
 * @returns {Promise<Found[]>}
 */
export async function filesOf(transfer) {
  // Entries die with the event: take them all before the first await.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const plain = [...transfer.files];
  /** @type {Found[]} */
  const found = [];
  if (entries.some(Boolean)) {
    for (const entry of entries) if (entry) await walk(entry, found);
  } else {
    for (const file of plain) if (wanted(file)) found.push({ file, path: file.name });
  }
  return found;
}

/** @param {Found} found */
export const isZip = ({ path }) => /\.zip$/i.test(path);

/** The files of a file dialog. @param {FileList | null} list @returns {Found[]} */
export function filesOfDialog(list) {
  return [...(list ?? [])].filter(wanted)
    .map((file) => ({ file, path: file.webkitRelativePath || file.name }));
}

/**
 * Makes the first folder of every path the name of its class.
 *
 * One folder that holds only folders is the set itself (flowers/daisy/a.jpg), so it goes away.
 * @param {Found[]} found
 * @returns {{files: Found[], byFolder: boolean}}
 */
export function byClassFolder(found) {
  const parts = found.map(({ path }) => path.split("/"));
  const roots = new Set(parts.map((path) => path[0]));
  const nested = parts.length > 0 && roots.size === 1 && parts.every((path) => path.length > 2);
  const files = found.map(({ file }, i) => ({
    file, path: parts[i].slice(nested ? 1 : 0).join("/"),
  }));
  return { files, byFolder: files.some(isZip) || files.some(({ path }) => path.includes("/")) };
}

/** Whether something from outside the page is dragged. @param {DragEvent} event */
export const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
