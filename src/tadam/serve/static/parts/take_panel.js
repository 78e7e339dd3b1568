/** Take it with you: downloads, the lines that use them, and photos back in. */

import { html, useState } from "../html.js";
import { download } from "../api.js";
import { curlLine, fileName } from "../code.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { CodeLines } from "./code_lines.js";
import { FileButton } from "./file_button.js";
import { Icon } from "./icons.js";

/** @param {{session: import("../session.js").Session, kind: string, title: string, lead: string,
 *   disabled: boolean}} props */
function Download({ session, kind, title, lead, disabled }) {
  const [busy, setBusy] = useState(false);
  const path = `${session.path}/export/${kind}`;
  const start = async () => {
    setBusy(true);
    try {
      await download(path);
    } catch (error) {
      session.fail(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<div class="card"><h3>${title}</h3><p class="soft">${lead}</p>
    <button type="button" class="button main" disabled=${disabled || busy} onClick=${start}
      aria-label=${`${t.download}: ${title}`}>
      <${Icon} name="down" />${busy ? t.preparing : t.download}</button></div>`;
}

/** @param {{session: import("../session.js").Session}} props */
export function TakePanel({ session }) {
  const state = useStore(session.store, (value) => value.state);
  const [packing, setPacking] = useState(false);
  const taught = (state?.classes ?? []).filter(({ count }) => count > 0);
  const able = taught.length >= 2;
  const file = `${fileName(state?.project.name ?? "")}.tadam`;
  const python = `import tadam\nclassifier = tadam.FewShotClassifier.load("${file}")\nprint(classifier.predict(["photo.jpg"]))`;
  return html`<section class="page" aria-label=${t.takeTitle}><h2>${t.takeTitle}</h2>
    <p class="soft">${able ? t.takeLead : t.takeNotYet}</p>
    <div class="cards four">
      <${Download} session=${session} kind="tadam" title=${t.takeTadam} lead=${t.takeTadamLead}
        disabled=${!able} />
      <${Download} session=${session} kind="onnx" title=${t.takeOnnx} lead=${t.takeOnnxLead}
        disabled=${!able} />
      <div class="card"><h3>${t.takeZip}</h3><p class="soft" role="status">${packing
        ? t.takeZipPacking(state?.counts.all ?? 0) : t.takeZipLead}</p>
        ${taught.length ? html`<a class="button main" download onClick=${() => setPacking(true)}
          aria-label=${`${t.download}: ${t.takeZip}`} href=${`/api/v1${session.path}/export/zip`}>
          <${Icon} name="down" />${t.download}</a>`
          : html`<button type="button" class="button main" disabled
            aria-label=${`${t.download}: ${t.takeZip}`}><${Icon} name="down" />${t.download}
          </button>`}</div>
      <${Download} session=${session} kind="csv" title=${t.takeCsv} lead=${t.takeCsvLead}
        disabled=${!able} />
    </div>
    <div class="cards">
      <${CodeLines} title=${t.usePython} code=${python} />
      <${CodeLines} title=${t.useCurl} code=${curlLine(session.path)} />
      <div class="card"><h3>${t.bringIn}</h3><p class="soft">${t.bringInLead}</p>
        <${FileButton} label=${t.bringInDo} icon="up" accept=".zip" multiple=${false}
          onFiles=${(/** @type {any} */ files) => session.add(files, { byFolder: true })} /></div>
    </div>
  </section>`;
}
