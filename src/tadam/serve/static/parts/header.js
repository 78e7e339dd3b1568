/** The bar at the top: which project, how good it is, undo and redo, settings. */

import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { percent, t } from "../strings.js";
import { switchTheme } from "../theme.js";
import { IconButton } from "./icons.js";
import { SettingsDialog } from "./settings_dialog.js";

/** @param {{session: import("../session.js").Session, onHelp: () => void}} props */
export function Header({ session, onHelp }) {
  const state = useStore(session.store, (value) => value.state);
  const [settings, setSettings] = useState(false);
  if (!state) return html`<header class="top"></header>`;
  const { undo, redo } = state.undo;
  const writable = !state.project.read_only;
  return html`<header class="top">
    <a class="brand" href="#/" title=${t.allProjects} aria-label=${`${t.studio}: ${t.allProjects}`}>
      <img src="/static/icon.svg" alt="" /><span class="brand-name">${t.studio}</span></a>
    <h1 class="project-name" title=${state.project.name}>${state.project.name}</h1>
    ${state.accuracy !== null && html`<button type="button" class="accuracy" title=${t.rightLead}
      onClick=${() => session.store.set({ view: "quality" })}>${percent(state.accuracy)}<span
        class="wide-only"> ${t.right}</span></button>`}
    <span class="spring"></span>
    ${writable && html`
      <${IconButton} icon="undo" label=${t.undoWhat(undo)} disabled=${!undo}
        onClick=${() => session.undo()} />
      <${IconButton} icon="redo" label=${t.redoWhat(redo)} disabled=${!redo}
        onClick=${() => session.redo()} />`}
    <${IconButton} icon="keys" kind="wide-only" label=${t.keys} onClick=${onHelp} />
    <${IconButton} icon="theme" label=${t.theme} onClick=${switchTheme} />
    <${IconButton} icon="gear" label=${t.settings} onClick=${() => setSettings(true)} />
    ${settings && html`<${SettingsDialog} session=${session} onClose=${() => setSettings(false)} />`}
  </header>`;
}
