/** The page starts here. */

import { html, render } from "./html.js";
import { App } from "./parts/app.js";
import { restoreTheme } from "./theme.js";

restoreTheme();
// A file that misses its box must not replace the page.
for (const kind of ["dragover", "drop"]) {
  document.addEventListener(kind, (event) => event.preventDefault());
}
const root = document.getElementById("studio");
if (root) render(html`<${App} />`, root);
