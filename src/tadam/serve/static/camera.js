/** The camera: opening it, saying why it cannot be opened, and taking square photos from it. */

import { t } from "./strings.js";

/** Side of a recorded photo: more than any network looks at, and small to send. */
const SIDE = 480;

/** @returns {Promise<MediaStream>} @throws {Error} with a sentence for the user */
export async function openCamera() {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error(t.cameraInsecure);
  try {
    return await navigator.mediaDevices.getUserMedia({
      video: { width: { ideal: 1280 }, height: { ideal: 720 }, facingMode: "environment" },
    });
  } catch (error) {
    const name = error instanceof DOMException ? error.name : "";
    const missing = name === "NotFoundError" || name === "OverconstrainedError";
    throw new Error(missing ? t.cameraMissing : t.cameraRefused);
  }
}

/** @param {MediaStream | null} stream */
export function closeCamera(stream) {
  stream?.getTracks().forEach((track) => track.stop());
}

/**
 * The middle square of what the video shows, as a JPEG.
 * @param {HTMLVideoElement} video
 * @param {HTMLCanvasElement} [canvas] is drawn to; any that is at hand
 * @returns {Promise<Blob | null>} null while there is no picture yet
 */
export async function takePhoto(video, canvas = document.createElement("canvas")) {
  const side = Math.min(video.videoWidth, video.videoHeight);
  if (!side) return null;
  canvas.width = canvas.height = SIDE;
  const left = (video.videoWidth - side) / 2;
  const top = (video.videoHeight - side) / 2;
  canvas.getContext("2d")?.drawImage(video, left, top, side, side, 0, 0, SIDE, SIDE);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.9); });
}

/** @param {Blob} blob @param {number} number @returns {import("./dropped_files.js").Found} */
export function photoFile(blob, number) {
  const time = new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");
  const name = `camera-${time}-${String(number).padStart(3, "0")}.jpg`;
  return { file: new File([blob], name, { type: "image/jpeg" }), path: name };
}
