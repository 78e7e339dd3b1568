/** The list of projects, and the ways to start one. */

import { html, useEffect, useState } from "../html.js";
import { get, post } from "../api.js";
import { t } from "../strings.js";
import { FileButton } from "./file_button.js";
import { Icon, IconButton } from "./icons.js";
import { ModelChoice } from "./model_choice.js";
import { switchTheme } from "../theme.js";

/** @param {any} id */
const goTo = (id) => { location.hash = `#/p/${encodeURIComponent(id)}`; };

/** @param {{notices: import("../notices.js").Notices}} props */
export function ProjectsPage({ notices }) {
  const [projects, setProjects] = useState(/** @type {any[] | null} */ (null));
  const [busy, setBusy] = useState("");
  useEffect(() => {
    document.title = t.studio;
    get("/projects").then(setProjects).catch((error) => notices.bad(error.message));
  }, []);
  const start = async (/** @type {string} */ path, /** @type {any} */ body) => {
    setBusy(t.opening);
    try {
      const made = await post(path, body);
      goTo(made.project?.id ?? made.id);
    } catch (error) {
      notices.bad(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy("");
    }
  };
  const openFile = (/** @type {any} */ _, /** @type {File[]} */ [file]) => {
    if (!file) return;
    const form = new FormData();
    form.append("files", file, file.name);
    start("/projects/import", form);
  };
  return html`<header class="top"><span class="brand"><img src="/static/icon.svg" alt="" />
      ${t.studio}</span><span class="spring"></span>
      <${IconButton} icon="theme" label=${t.theme} onClick=${switchTheme} /></header>
    <main class="home">
      <h1>${t.projects}</h1><p class="lead">${t.projectsLead}</p>
      ${busy && html`<div class="progress"><span>${busy}</span><progress aria-label=${busy}></progress></div>`}
      ${projects?.length === 0 && html`<p class="soft">${t.noProjects}</p>`}
      ${projects && projects.length > 0 && html`<ul class="projects">${projects.map((one) => html`
        <li key=${one.id}><a class="card" href=${`#/p/${encodeURIComponent(one.id)}`}>
          <strong>${one.name}</strong>
          <span class="soft">${t.classes(one.classes)} · ${t.photos(one.images)}</span>
          <span class="soft small">${one.problem ?? one.model}</span></a></li>`)}</ul>`}
      <div class="cards">
        <${NewProject} onStart=${start} />
        <div class="card"><h2>${t.openFile}</h2><p class="soft">${t.openFileLead}</p>
          <${FileButton} label=${t.chooseFile} icon="up" accept=".zip,.tadam" multiple=${false}
            onFiles=${openFile} /></div>
        <${OpenFolder} onStart=${start} />
      </div>
    </main>`;
}

/** @param {{onStart: (path: string, body: any) => void}} props */
function NewProject({ onStart }) {
  const [name, setName] = useState("");
  const [model, setModel] = useState("");
  const create = (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = name.trim();
    if (wanted) onStart("/projects", model ? { name: wanted, model } : { name: wanted });
  };
  return html`<form class="card" onSubmit=${create}><h2>${t.newProject}</h2>
    <label for="project-name">${t.projectName}</label>
    <input id="project-name" type="text" required maxlength="100" autocomplete="off" value=${name}
      placeholder=${t.projectNameExample}
      onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
    <${ModelChoice} value=${model} onModel=${setModel} />
    <button type="submit" class="button main"><${Icon} name="plus" />
      ${t.create}</button>
  </form>`;
}

/** @param {{onStart: (path: string, body: any) => void}} props */
function OpenFolder({ onStart }) {
  const [folder, setFolder] = useState("");
  const open = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (folder.trim()) onStart("/projects/open", { folder: folder.trim() });
  };
  return html`<form class="card" onSubmit=${open}><h2>${t.openFolder}</h2>
    <p class="soft">${t.openFolderLead}</p>
    <label for="folder-path">${t.folderPath}</label>
    <input id="folder-path" type="text" required autocomplete="off" spellcheck=${false}
      value=${folder} placeholder=${t.folderExample}
      onInput=${(/** @type {any} */ event) => setFolder(event.target.value)} />
    <button type="submit" class="button">${t.open}</button>
  </form>`;
}
