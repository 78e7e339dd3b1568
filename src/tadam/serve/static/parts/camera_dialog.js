/** Filling a class from the camera: hold to record, or hands-free after a countdown. */

import { html, useEffect, useRef, useState } from "../html.js";
import { photoFile, takePhoto } from "../camera.js";
import { t } from "../strings.js";
import { newGroup } from "../upload.js";
import { CameraView } from "./camera_view.js";
import { Dialog } from "./dialog.js";

const MILLISECONDS_A_PHOTO = 220;
const HANDS_FREE = { seconds: 3, photos: 20 };

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

/**
 * Takes photos while it is switched on and sends them as they come; one undo takes all of them.
 * @param {import("../session.js").Session} session
 * @param {any} classId
 */
function useRecorder(session, classId) {
  const video = useRef(/** @type {HTMLVideoElement | null} */ (null));
  const on = useRef(false);
  const [taken, setTaken] = useState(0);
  const sending = useRef(Promise.resolve());
  const record = async (most = Infinity) => {
    if (on.current) return;
    on.current = true;
    const group = newGroup();
    for (let n = 0; on.current && n < most; n += 1) {
      const blob = video.current && (await takePhoto(video.current));
      if (blob) {
        const photo = photoFile(blob, n);
        setTaken((before) => before + 1);
        sending.current = sending.current
          .then(() => session.add([photo], { classId, group, quiet: true })).then(() => undefined);
      }
      await pause(MILLISECONDS_A_PHOTO);
    }
    on.current = false;
  };
  const stop = () => { on.current = false; };
  useEffect(() => stop, []);
  return { video, taken, record, stop };
}

/**
 * @param {{session: import("../session.js").Session, box: import("../types.js").ClassInfo,
 *   onClose: () => void}} props
 */
export function CameraDialog({ session, box, onClose }) {
  const { video, taken, record, stop } = useRecorder(session, box.id);
  const [ready, setReady] = useState(false);
  const [left, setLeft] = useState(0);
  const [holding, setHolding] = useState(false);
  const hold = (/** @type {Event} */ event) => {
    if (event instanceof KeyboardEvent && (event.repeat || event.key !== " ")) return;
    event.preventDefault();
    setHolding(true);
    record();
  };
  const release = () => {
    setHolding(false);
    stop();
  };
  const handsFree = async () => {
    for (let n = HANDS_FREE.seconds; n > 0; n -= 1) {
      setLeft(n);
      await pause(1000);
    }
    setLeft(0);
    await record(HANDS_FREE.photos);
  };
  return html`<${Dialog} title=${t.cameraTitle(box.name)} notices=${session.notices}
    onClose=${onClose} kind="camera-dialog">
    <${CameraView} video=${video} onReady=${setReady} overlay=${left ? t.cameraIn(left) : ""} />
    <p class="soft" id="hold-lead">${t.cameraHoldLead}</p>
    <div class="buttons">
      <button type="button" class=${`button main hold ${holding ? "on" : ""}`} disabled=${!ready}
        aria-describedby="hold-lead" onPointerDown=${hold} onPointerUp=${release}
        onPointerLeave=${release} onKeyDown=${hold} onKeyUp=${release}>${t.cameraHold}</button>
      <button type="button" class="button" disabled=${!ready || left > 0} onClick=${handsFree}>
        ${t.cameraCountdown}</button>
      <span class="number soft" role="status">${t.cameraTaken(taken)}</span>
    </div>
  <//>`;
}
