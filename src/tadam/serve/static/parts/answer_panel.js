/** The classifier's answer on the right: for a photo, or live for what the camera sees. */

import { html, useEffect, useRef, useState } from "../html.js";
import { call } from "../api.js";
import { takePhoto } from "../camera.js";
import { listenToPaste } from "../paste.js";
import { t } from "../strings.js";
import { AnswerDetails } from "./answer_details.js";
import { CameraView } from "./camera_view.js";
import { useDrop } from "./drop_zone.js";
import { FileButton } from "./file_button.js";
import { Icon } from "./icons.js";
import { Preview } from "./preview.js";

/** Milliseconds between the answers to two frames of the camera. */
const PAUSE = 120;

/**
 * Answers to a photo, anew whenever the classifier has learnt something.
 * @param {string} path where to ask
 * @param {Blob | null} photo
 * @param {number} revision
 */
function useAnswer(path, photo, revision) {
  const [result, setResult] = useState(/** @type {{answer: any, problem: string}} */ (
    { answer: null, problem: "" }));
  const waiting = useRef(false);
  useEffect(() => {
    if (!photo) return undefined;
    const stop = new AbortController();
    waiting.current = true;
    call("POST", path, photo, stop.signal).then((said) => {
      const problem = said.answers.length ? "" : said.problems[0]?.detail ?? "";
      setResult({ answer: said.answers[0] ?? null, problem });
    }).catch((error) => {
      if (error.name !== "AbortError") setResult({ answer: null, problem: error.message });
    }).finally(() => {
      if (!stop.signal.aborted) waiting.current = false;
    });
    return () => {
      stop.abort();
      waiting.current = false;
    };
  }, [path, photo, revision]);
  return { waiting, ...(photo ? result : { answer: null, problem: "" }) };
}

/**
 * The newest frame of the camera, one after the other.
 * @param {boolean} on @param {{current: HTMLVideoElement | null}} video
 * @param {{current: boolean}} waiting whether the last one is still unanswered
 * @param {(photo: Blob) => void} onPhoto
 */
function useFrames(on, video, waiting, onPhoto) {
  useEffect(() => {
    if (!on) return undefined;
    let running = true;
    const look = async () => {
      while (running) {
        if (video.current && !waiting.current) {
          const photo = await takePhoto(video.current);
          if (photo && running) onPhoto(photo);
        }
        await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
      }
    };
    look();
    return () => { running = false; };
  }, [on]);
}

/**
 * @param {{path: string, revision: number, able: boolean,
 *   session: import("../session.js").Session | null,
 *   classes: import("../types.js").ClassInfo[]}} props `session` is null for a served file
 */
export function AnswerPanel({ path, revision, able, session, classes }) {
  const [photo, setPhoto] = useState(/** @type {Blob | null} */ (null));
  const [camera, setCamera] = useState(false);
  const video = useRef(/** @type {HTMLVideoElement | null} */ (null));
  const [ready, setReady] = useState(false);
  const { answer, problem, waiting } = useAnswer(
    `${path}/predict`, able ? photo : null, revision,
  );
  useFrames(camera && ready && able, video, waiting, setPhoto);
  const take = (/** @type {import("../dropped_files.js").Found[]} */ files) => {
    if (!files.length) return;
    setCamera(false);
    setPhoto(files[0].file);
  };
  const { over, handlers } = useDrop(take);
  // In a project, a pasted picture is a new photo.
  useEffect(() => (session ? undefined : listenToPaste(take)), [session]);
  const switchCamera = () => {
    setCamera(!camera);
    setPhoto(null);
  };
  return html`<section class=${`answer ${over ? "over" : ""}`} aria-labelledby="answer-title"
    ...${handlers}>
    <h2 id="answer-title">${t.answerTitle}</h2>
    ${camera ? html`<${CameraView} video=${video} onReady=${setReady} />`
      : html`<div class="stage">${photo ? html`<${Preview} photo=${photo} />`
        : html`<div class="stage-empty"><${Icon} name="ask" /><strong>${t.answerDrop}</strong>
          <span class="soft">${able ? t.answerLead : t.answerNotYet}</span></div>`}</div>`}
    <div class="buttons">
      <${FileButton} label=${t.answerChoose} icon="photos" multiple=${false}
        disabled=${!able} onFiles=${take} />
      <button type="button" class="button" disabled=${!able} onClick=${switchCamera}>
        <${Icon} name="camera" />${camera ? t.answerStop : t.answerCamera}</button>
    </div>
    ${problem && html`<p class="problem" role="alert"><${Icon} name="warning" />${problem}</p>`}
    ${photo && !answer && !problem && html`<p class="soft">${t.answerThinking}</p>`}
    ${answer && html`<${AnswerDetails} answer=${answer} session=${session} classes=${classes}
      photo=${photo} live=${camera} />`}
  </section>`;
}
