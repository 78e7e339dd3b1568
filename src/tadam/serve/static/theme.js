/** Light or dark: the system's choice until the user makes one, which is remembered. */

const KEY = "tadam-theme";

/** @returns {"light" | "dark"} */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function restoreTheme() {
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // storage is switched off: the system's choice holds
  }
}

export function switchTheme() {
  const other = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = other;
  try {
    localStorage.setItem(KEY, other);
  } catch {
    // it holds until the page is closed
  }
}
