/** A server for one .tadam file: only the answers. */

import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { curlLine } from "../code.js";
import { t } from "../strings.js";
import { switchTheme } from "../theme.js";
import { AnswerPanel } from "./answer_panel.js";
import { CodeLines } from "./code_lines.js";
import { IconButton } from "./icons.js";

/** @param {{notices: import("../notices.js").Notices}} props */
export function ServedFile({ notices }) {
  const [info, setInfo] = useState(/** @type {any} */ (null));
  useEffect(() => {
    get("/info").then(setInfo).catch((error) => notices.bad(error.message));
  }, []);
  const names = info?.classes ?? [];
  const classes = names.map((/** @type {any} */ one, /** @type {number} */ i) => ({
    id: one.id ?? i, name: one.name ?? String(one), count: one.count ?? 0, accuracy: null,
  }));
  return html`<header class="top"><span class="brand"><img src="/static/icon.svg" alt="" />
      ${t.studio}</span><h1 class="project-name">${info?.name ?? ""}</h1><span class="spring"></span>
      <${IconButton} icon="theme" label=${t.theme} onClick=${switchTheme} /></header>
    <main class="home alone">
      <${AnswerPanel} path="" revision=${0} able=${info !== null} session=${null}
        classes=${classes} />
      <${CodeLines} title=${t.useCurl} code=${curlLine("")} />
    </main>`;
}
