/** The classes on the left: a box for each, and a line to add one. */

import { html, useState } from "../html.js";
import { useStore } from "../store.js";
import { t } from "../strings.js";
import { CameraDialog } from "./camera_dialog.js";
import { ClassBox } from "./class_box.js";
import { ClassDialog } from "./class_dialog.js";
import { Icon } from "./icons.js";

/** @param {{session: import("../session.js").Session}} props */
export function ClassesPanel({ session }) {
  const classes = useStore(session.store, (value) => value.state?.classes) ?? [];
  useStore(session.store, (value) => value.drawing); // the box of the class shown stands out
  const query = session.photos.query;
  const [dialog, setDialog] = useState(
    /** @type {{what: "menu" | "camera", id: any} | null} */ (null),
  );
  const one = dialog && classes.find(({ id }) => id === dialog.id);
  const close = () => setDialog(null);
  return html`<section class="classes" aria-labelledby="classes-title">
    <h2 id="classes-title">${t.classesTitle}</h2>
    ${classes.length === 0 && html`<p class="soft">${t.classesLead}</p>`}
    <ul class="boxes">
      ${classes.map((box, index) => html`<${ClassBox} key=${box.id} session=${session} box=${box}
        index=${index} shown=${query.show === "class" && query.class_id === box.id}
        onMenu=${() => setDialog({ what: "menu", id: box.id })}
        onCamera=${() => setDialog({ what: "camera", id: box.id })} />`)}
    </ul>
    <${NewClass} session=${session} first=${classes.length === 0} />
    ${one && dialog.what === "menu" && html`<${ClassDialog} session=${session} box=${one}
      others=${classes.filter(({ id }) => id !== one.id)} onClose=${close} />`}
    ${one && dialog.what === "camera" && html`<${CameraDialog} session=${session} box=${one}
      onClose=${close} />`}
  </section>`;
}

/** @param {{session: import("../session.js").Session, first: boolean}} props */
function NewClass({ session, first }) {
  const [name, setName] = useState("");
  const add = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (name.trim() && (await session.addClass(name.trim()))) setName("");
  };
  return html`<form class="new-class" onSubmit=${add}>
    <label class="hidden" for="new-class">${t.newClassName}</label>
    <input id="new-class" type="text" autocomplete="off" maxlength="100" value=${name}
      placeholder=${first ? t.newClassExample : t.newClass}
      onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
    <button type="submit" class=${`button ${first ? "main" : ""}`}><${Icon} name="plus" />
      ${t.addClass}</button>
  </form>`;
}
