/** Preact, its hooks and htm, bound together: every other module imports them from here. */

import { h, render, Fragment } from "./vendor/preact.js";
import {
  useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
} from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

/** Markup as a template literal; values are text, never markup. */
const html = htm.bind(h);

export {
  Fragment, html, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState,
};
