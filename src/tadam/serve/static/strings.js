/**
 * The page's own words, in English. To translate the page, translate this file.
 *
 * Sentences of the server are shown as it writes them: what it refuses and why, advice, why a label
 * looks wrong, what can be undone.
 */

const numbers = new Intl.NumberFormat("en");

/** @param {number} n */
export const count = (n) => numbers.format(n);

/** @param {number} share 0 to 1 @returns {string} without decimals, and never a false 100 or 0 */
export function percent(share) {
  if (share > 0 && share < 0.01) return "<1 %";
  if (share < 1 && share > 0.99) return ">99 %";
  return `${Math.round(100 * share)} %`;
}

/** @param {number} n */
const photos = (n) => `${count(n)} ${n === 1 ? "photo" : "photos"}`;
/** @param {number} n */
const classes = (n) => `${count(n)} ${n === 1 ? "class" : "classes"}`;

export const t = {
  studio: "tadam studio",
  photos, classes,

  // the server
  noAnswer: "The server does not answer. Is it still running?",
  failed: (/** @type {number} */ status) => `The server refused this (status ${status}).`,
  away: "The server does not answer. Start it again with “tadam serve”: nothing is lost, and this page goes on by itself.",

  // projects
  projects: "Your projects",
  projectsLead: "Show it a few photos of each thing, and it tells the rest apart. Everything stays on this machine.",
  noProjects: "No project yet. Give your first one a name.",
  newProject: "New project",
  projectName: "Name",
  projectNameExample: "Garden flowers",
  model: "Network",
  modelDefault: "(recommended)",
  modelMissing: "(not installed)",
  /** Of the networks that come with it, in place of what the server says. */
  models: /** @type {Record<string, string>} */ ({
    imagenet: "The best start for photos.",
    "imagenet-large": "A little better with fine differences, and half as fast.",
    fc100: "For tiny pictures of 32 pixels. Weak on photos.",
  }),
  busy: /** @type {Record<string, string>} */ ({
    adding: "Adding photos",
    learning: "Learning",
    guessing: "Guessing",
    embedding: "Looking at all photos again",
  }),
  create: "Create",
  openFile: "Open a file",
  openFileLead: "A zip of class folders becomes a project. A .tadam file answers, but learns nothing new.",
  chooseFile: "Choose a .zip or .tadam file",
  openFolder: "Open a folder",
  openFolderLead: "A folder on this machine with a sub-folder of photos for each class. Its photos are copied, never changed.",
  folderPath: "Path of the folder",
  folderExample: "/home/you/flowers",
  open: "Open",
  opening: "Opening",
  allProjects: "all projects",
  settings: "Project settings",
  save: "Save",
  deleteProject: "Delete project",
  deleteProjectLead: "The project's folder moves to the trash folder beside your projects. Nothing is erased.",
  deleteProjectSure: (/** @type {string} */ name, /** @type {number} */ n) =>
    `Delete ${name} with its ${photos(n)}?`,
  deleteProjectDo: "Yes, delete it",
  deleteProjectNot: "Keep it",
  modelChange: "With another network, all photos are looked at again. You can go on working meanwhile.",

  // views
  views: "Parts of the page",
  viewClasses: "Classes",
  viewPhotos: "Photos",
  viewAnswer: "Try it",
  viewQuality: "How good is it?",
  viewQualityShort: "Quality",
  viewTake: "Take it with you",
  viewTakeShort: "Take",
  skip: "Skip to the photos",

  // header
  undo: "Undo",
  redo: "Redo",
  undoWhat: (/** @type {string | null} */ what) => (what ? `Undo: ${what}` : "Nothing to undo"),
  redoWhat: (/** @type {string | null} */ what) => (what ? `Redo: ${what}` : "Nothing to redo"),
  undone: (/** @type {string} */ what) => `Undone: ${what}.`,
  redone: (/** @type {string} */ what) => `Done again: ${what}.`,
  theme: "Light or dark",
  keys: "Keyboard",
  right: "right",
  rightLead: "Leave-one-out accuracy: how often it is right about a photo it has not learnt from.",
  close: "Close",

  // classes
  classesTitle: "Classes",
  newClass: "New class",
  newClassName: "Name of the new class",
  newClassExample: "e.g. Daisy",
  addClass: "Add",
  classesLead: "Make a class for each thing, then drop a few photos of it into its box.",
  classPhotos: (/** @type {string} */ name, /** @type {number} */ n) => `${name}: ${photos(n)}. Show them`,
  classKey: (/** @type {number} */ n) => `Key ${n} assigns selected photos to this class`,
  emptyClass: "Drop photos here",
  addPhotos: "Photos",
  addPhotosTo: (/** @type {string} */ name) => `Add photos to ${name}`,
  cameraTo: (/** @type {string} */ name) => `Record ${name} with the camera`,
  classMenu: (/** @type {string} */ name) => `Rename, merge or delete ${name}`,
  rename: "Rename",
  merge: "Merge into another class",
  mergeDo: "Merge",
  merged: (/** @type {string} */ a, /** @type {string} */ b) => `Merged ${a} into ${b}.`,
  deleteClassTitle: (/** @type {string} */ name) => `Delete ${name}?`,
  deleteKeep: "Keep its photos, without a label",
  deleteAll: "Delete its photos too",
  classDeleted: (/** @type {string} */ name) => `Deleted the class ${name}.`,

  // adding
  adding: "Adding photos",
  added: (/** @type {number} */ n) => `Added ${photos(n)}.`,
  duplicates: (/** @type {number} */ n) => `${photos(n)} ${n === 1 ? "was" : "were"} there already.`,
  problems: (/** @type {{name: string, detail: string}[]} */ all) =>
    (all.length === 1 ? all[0].detail : `${count(all.length)} files were left out. The first: ${all[0].detail}`),
  noPhotos: "There are no photos in that. JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC and zips of them work.",
  dropHere: "Drop photos, folders or a zip",
  dropHereLead: "A folder's name becomes the class of its photos.",

  // camera
  cameraTitle: (/** @type {string} */ name) => `Record ${name}`,
  cameraHold: "Hold to record",
  cameraHoldLead: "Hold the button, or the space bar. Move the thing about: different sides and distances teach most.",
  cameraCountdown: "Hands-free: 3 seconds, then 20 photos",
  cameraIn: (/** @type {number} */ n) => `In ${n} …`,
  cameraTaken: (/** @type {number} */ n) => `${photos(n)} taken`,
  cameraRefused: "The browser does not let this page use the camera. Allow it in the browser's address bar, then try again.",
  cameraMissing: "No camera was found. Plug one in, then try again.",
  cameraInsecure: "Browsers allow the camera only at localhost or over HTTPS. Add photos as files instead.",
  cameraView: "What the camera sees",
  tryAgain: "Try again",

  // grid
  photosTitle: "Photos",
  filters: "Which photos",
  filterAll: "All",
  filterUnlabelled: "No label",
  filterUncertain: "Uncertain",
  filterSuspected: "Mislabelled?",
  filterUnknown: "None of these",
  filterIds: "These photos",
  filterCell: (/** @type {string} */ truth, /** @type {string} */ answer) => `${truth}, taken for ${answer}`,
  filterOff: "Show all photos",
  sort: "Sort",
  sortNewest: "Newest first",
  sortUncertain: "Uncertain first",
  sortClass: "By class",
  sortName: "By name",
  size: "Size of the photos",
  addHere: "Add photos",
  gridLabel: (/** @type {number} */ n) => `${photos(n)}. Arrow keys move, space selects, number keys assign a class.`,
  gridEmptyTitle: "Nothing here yet",
  gridEmpty: "Drop photos, a folder of classes or a zip here, paste a picture, or choose files.",
  gridNone: "No photos match.",
  unlabelledTile: "no label",
  spokenGuess: "a guess",
  spokenOther: (/** @type {string} */ name) => `it would say ${name}`,
  tileUnknown: "none of these",
  tileSuspected: (/** @type {string} */ name) => `looks like ${name}`,
  loading: "Loading",

  // selection
  selection: "What to do with the selected photos",
  selected: (/** @type {number} */ n) => `${count(n)} selected`,
  selectAll: "Select all",
  moveTo: "Move to",
  moveToClass: "Move to a class …",
  accept: "Accept guess",
  acceptMany: "Accept guesses",
  removeLabel: "Remove label",
  delete: "Delete",
  clear: "Clear selection",
  view: "View large",
  assigned: (/** @type {number} */ n, /** @type {string} */ name) => `Put ${photos(n)} into ${name}.`,
  unlabelled: (/** @type {number} */ n) => `Removed the label of ${photos(n)}.`,
  accepted: (/** @type {number} */ n) => `Accepted the guess for ${photos(n)}.`,
  photosDeleted: (/** @type {number} */ n) => `Deleted ${photos(n)}.`,
  previous: "Previous photo",
  next: "Next photo",

  // answer
  answerTitle: "Try it",
  answerLead: "Drop or choose a photo it has not seen, or point the camera at something.",
  answerDrop: "Drop a photo here",
  answerChoose: "Choose a photo",
  answerCamera: "Camera",
  answerStop: "Stop",
  answerPhoto: "The photo in question",
  answerNotYet: "It answers as soon as two classes have photos.",
  answerThinking: "Looking …",
  noneOfThese: "None of these",
  noneLead: "It looks unlike all your classes.",
  ifForced: "If it had to choose",
  closest: (/** @type {string} */ name) => `The closest is ${name}.`,
  probabilities: "Probabilities",
  nearest: "Because it resembles",
  nearestPhoto: (/** @type {string} */ label) => `A photo of ${label}`,
  teach: "Teach it: this is",
  taught: (/** @type {string} */ name) => `Learnt: ${name}.`,

  // quality
  qualityTitle: "How good is it?",
  qualityNotYet: "There is nothing to measure yet. Two classes with two photos each are enough.",
  accuracyWords: "of your labelled photos are recognised when each in turn is left out of the lesson.",
  growthTitle: "As it grew",
  growth: (/** @type {number} */ a, /** @type {number} */ b) => `Accuracy from ${photos(a)} to ${photos(b)}`,
  growthMore: "Add photos, and this becomes a curve.",
  byClass: "By class",
  confusionTitle: "What it takes for what",
  confusionLead: "Rows are your labels, columns its answers. Choose a number to see the photos.",
  confusionCell: (/** @type {number} */ n, /** @type {string} */ truth, /** @type {string} */ answer) =>
    (truth === answer ? `${photos(n)} of ${truth}, recognised` : `${photos(n)} of ${truth}, taken for ${answer}`),
  labelNext: "Label these next",
  labelNextLead: "Photos without a label that would teach it most.",
  labelNextDo: "Label them",
  labelNextNone: "There are no photos without a label. Add some, and it says which are worth your time.",
  suspectedTitle: "These look mislabelled",
  suspectedLead: "Photos that it would put elsewhere, even though you labelled them.",
  suspectedNone: "No label looks wrong.",
  suspectedMove: (/** @type {string} */ name) => `Move to ${name}`,
  suspectedShow: "Show them all",
  duplicatesTitle: "Nearly the same",
  duplicatesLead: "Copies teach nothing, and make the accuracy look better than it is.",
  duplicatesShow: (/** @type {number} */ n) => `Show ${photos(n)}`,
  advice: "Advice",
  classHeader: "Class",
  photosHeader: "Photos",
  accuracyHeader: "Right",
  measuring: "Measuring …",

  // take it with you
  takeTitle: "Take it with you",
  takeLead: "All of it is yours. Nothing here needs this page again.",
  takeNotYet: "Two classes with photos are needed first.",
  takeTadam: "Classifier",
  takeTadamLead: "One .tadam file for tadam predict and Python.",
  takeOnnx: "ONNX",
  takeOnnxLead: "For other programs and languages, without tadam.",
  takeZip: "Photos",
  takeZipLead: "A zip with a folder for each class. It can be added to any project again.",
  takeZipPacking: (/** @type {number} */ n) =>
    `Packing ${photos(n)}. The browser saves the zip when it is complete.`,
  takeCsv: "Answers",
  takeCsvLead: "A CSV table with the answer for every photo.",
  download: "Download",
  preparing: "Preparing …",
  usePython: "In Python",
  useCurl: "Over HTTP, while this server runs",
  copy: "Copy",
  copied: "Copied",
  bringIn: "Bring photos in",
  bringInLead: "Adds a zip of class folders to this project.",
  bringInDo: "Choose a zip",

  // keyboard help
  keysTitle: "Keyboard",
  keysList: [
    ["← ↑ → ↓", "Move among the photos"],
    ["Shift + arrows", "Select as you move"],
    ["Space", "Select or deselect"],
    ["Ctrl + A", "Select all photos shown"],
    ["1 … 9", "Put the selected photos into a class"],
    ["0", "Remove their label"],
    ["A", "Accept the guess"],
    ["Enter", "View large"],
    ["Delete", "Delete the selected photos"],
    ["Esc", "Clear the selection"],
    ["Ctrl + Z", "Undo"],
    ["Ctrl + Shift + Z", "Redo"],
    ["Ctrl + V", "Paste a picture as a photo without a label"],
    ["?", "This list"],
  ],
};
