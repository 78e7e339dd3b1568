/** What the camera sees, or the sentence that says why it sees nothing. */

import { html, useEffect, useState } from "../html.js";
import { closeCamera, openCamera } from "../camera.js";
import { t } from "../strings.js";
import { Icon } from "./icons.js";

/**
 * @param {{video: {current: HTMLVideoElement | null}, onReady?: (ready: boolean) => void,
 *   overlay?: string}} props
 */
export function CameraView({ video, onReady, overlay = "" }) {
  const [problem, setProblem] = useState("");
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    /** @type {MediaStream | null} */
    let stream = null;
    let gone = false;
    openCamera().then(async (opened) => {
      stream = opened;
      if (gone || !video.current) return closeCamera(opened);
      video.current.srcObject = opened;
      await video.current.play().catch(() => undefined); // closed while it was starting
      return onReady?.(true);
    }).catch((error) => {
      if (!gone) setProblem(error.message);
    });
    return () => {
      gone = true;
      closeCamera(stream);
      onReady?.(false);
    };
  }, [attempt]);
  const again = () => {
    setProblem("");
    setAttempt(attempt + 1);
  };
  if (problem) {
    return html`<div class="camera-problem" role="alert">
      <${Icon} name="warning" /><p>${problem}</p>
      <button type="button" class="button" onClick=${again}>${t.tryAgain}</button>
    </div>`;
  }
  return html`<div class="camera">
    <video ref=${video} muted playsinline aria-label=${t.cameraView}></video>
    ${overlay && html`<span class="camera-overlay" role="status">${overlay}</span>`}
  </div>`;
}
