// What Material adds to a page while it runs, made usable by keyboard and quiet for screen readers.
"use strict";

(() => {
  /** The bar with the button "copy" in a block of code is no landmark; a wide table can be scrolled. */
  function mend() {
    for (const bar of document.querySelectorAll("nav.md-code__nav:not([role])")) {
      bar.setAttribute("role", "none");
    }
    for (const wide of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
      if (wide.scrollWidth > wide.clientWidth) {
        wide.tabIndex = 0;
        wide.setAttribute("role", "group");
        wide.setAttribute("aria-label", "Wide table");
      }
    }
  }
  const content = document.querySelector(".md-content");
  if (!content) return;
  new MutationObserver(mend).observe(content, { childList: true, subtree: true });
  addEventListener("resize", mend);
  mend();
})();
