/** The whole page: the list of projects, one open project, or a served file that only answers. */

import { html, useEffect, useMemo, useState } from "../html.js";
import { get, mode } from "../api.js";
import { Notices } from "../notices.js";
import { NoticesList } from "./notices_list.js";
import { Project } from "./project.js";
import { ProjectsPage } from "./projects_page.js";
import { ServedFile } from "./served_file.js";

/** The project that the address names: #/p/ID. */
function projectOfAddress() {
  const found = /^#\/p\/(.+)$/.exec(location.hash);
  return found ? decodeURIComponent(found[1]) : null;
}

export function App() {
  const notices = useMemo(() => new Notices(), []);
  const [project, setProject] = useState(projectOfAddress());
  useEffect(() => {
    const follow = () => setProject(projectOfAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    if (mode !== "project" || project !== null) return;
    get("/projects").then(([only]) => location.replace(`#/p/${encodeURIComponent(only.id)}`))
      .catch((error) => notices.bad(error.message));
  }, []);
  let page;
  if (mode === "classifier") page = html`<${ServedFile} notices=${notices} />`;
  else if (project === null) page = html`<${ProjectsPage} notices=${notices} />`;
  else page = html`<${Project} key=${project} id=${project} notices=${notices} />`;
  return html`${page}<${NoticesList} notices=${notices} />`;
}
