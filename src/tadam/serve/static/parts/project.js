/** One open project: classes, photos, answer; one at a time on a small screen. */

import { html, useEffect, useMemo, useState } from "../html.js";
import { listenToPaste } from "../paste.js";
import { Session } from "../session.js";
import { listenToKeys } from "../shortcuts.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { AnswerPanel } from "./answer_panel.js";
import { ClassesPanel } from "./classes_panel.js";
import { Header } from "./header.js";
import { Icon } from "./icons.js";
import { KeysDialog } from "./keys_dialog.js";
import { PhotosPanel } from "./photos_panel.js";
import { ProgressBar } from "./progress_bar.js";
import { QualityPanel } from "./quality_panel.js";
import { TakePanel } from "./take_panel.js";

const VIEWS = /** @type {const} */ ([
  ["classes", t.viewClasses, t.viewClasses, "boxes"],
  ["photos", t.viewPhotos, t.viewPhotos, "photos"],
  ["answer", t.viewAnswer, t.viewAnswer, "ask"],
  ["quality", t.viewQuality, t.viewQualityShort, "chart"],
  ["take", t.viewTake, t.viewTakeShort, "down"],
]);

/** @param {{session: import("../session.js").Session, view: string}} props */
function Views({ session, view }) {
  return html`<nav class="views" aria-label=${t.views}>
    ${VIEWS.map(([name, words, short, icon]) => html`<button key=${name} type="button"
      class=${`view-${name}`} aria-current=${view === name ? "page" : undefined}
      onClick=${() => session.store.set({ view: name })}>
      <${Icon} name=${icon} /><span class="long">${words}</span><span class="short">${short}</span>
    </button>`)}
  </nav>`;
}

/** @param {{id: string, notices: import("../notices.js").Notices}} props */
export function Project({ id, notices }) {
  const session = useMemo(() => new Session(id, notices), [id]);
  const [help, setHelp] = useState(false);
  useEffect(() => {
    session.open().catch((error) => {
      notices.bad(error.message);
      if (error.status === 404) location.hash = "#/";
    });
    const deaf = listenToKeys(session, () => setHelp(true));
    const stop = listenToPaste((files) => session.add(files));
    return () => {
      session.close();
      deaf();
      stop();
    };
  }, [session]);
  const { state, view, upload, busy, connected } = useStore(session.store, (value) => value);
  useEffect(() => {
    if (state) document.title = `${state.project.name} · ${t.studio}`;
  }, [state?.project.name]);
  if (!state) {
    return html`<${Header} session=${session} onHelp=${() => {}} />
      <main class="home"><p class="soft">${t.loading} …</p></main>`;
  }
  const able = state.project.read_only || state.classes.filter(({ count }) => count > 0).length > 1;
  const answer = html`<${AnswerPanel} path=${session.path} revision=${state.revision}
    able=${able} session=${state.project.read_only ? null : session} classes=${state.classes} />`;
  const away = !connected && html`<div class="away" role="alert"><${Icon} name="warning" />
    ${t.away}</div>`;
  if (state.project.read_only) {
    return html`<${Header} session=${session} onHelp=${() => setHelp(true)} />${away}
      <main class="home alone">${answer}</main>`;
  }
  return html`<a class="skip" href="#middle" onClick=${(/** @type {Event} */ event) => {
    event.preventDefault(); // the address names the project
    (document.getElementById("photo-grid") ?? document.getElementById("middle"))?.focus();
  }}>${t.skip}</a>
  <${Header} session=${session} onHelp=${() => setHelp(true)} />${away}
  <div class="bars-row"><${ProgressBar} progress=${upload?.total ? upload : busy ?? upload} /></div>
  <main class="studio" data-view=${view}>
    <${ClassesPanel} session=${session} />
    <div class="middle" id="middle" tabindex="-1">
      <${Views} session=${session} view=${view} />
      ${view === "quality" && html`<${QualityPanel} session=${session} />`}
      ${view === "take" && html`<${TakePanel} session=${session} />`}
      ${view !== "quality" && view !== "take" && html`<${PhotosPanel} session=${session} />`}
    </div>
    ${answer}
  </main>
  ${help && html`<${KeysDialog} notices=${notices} onClose=${() => setHelp(false)} />`}`;
}
