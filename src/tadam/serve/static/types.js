/**
 * What the server says, as types for the editor; nothing of this runs.
 *
 * @typedef {string | number} Id
 *
 * @typedef {object} ClassInfo
 * @property {Id} id
 * @property {string} name
 * @property {number} count photos with this label
 * @property {number | null} accuracy leave-one-out, 0 to 1
 * @property {Id[]} [covers] some of its newest photos
 *
 * @typedef {object} Photo
 * @property {Id} id
 * @property {string} name
 * @property {Id | null} class_id its label
 * @property {Id | null} guess the class that the classifier would give it, were it not labelled
 * @property {number | null} confidence of the guess, 0 to 1
 * @property {boolean} unknown it looks like none of the classes
 * @property {boolean} suspected its label looks wrong
 *
 * @typedef {object} Progress
 * @property {string} what
 * @property {number} done
 * @property {number} total 0 if nobody knows
 *
 * @typedef {object} ProjectState
 * @property {{id: Id, name: string, model: string, read_only: boolean}} project
 * @property {number} revision grows with every change
 * @property {ClassInfo[]} classes
 * @property {{all: number, unlabelled: number, uncertain: number, suspected: number,
 *   unknown: number}} counts
 * @property {number | null} accuracy
 * @property {{images: number, accuracy: number}[]} accuracy_history
 * @property {{undo: string | null, redo: string | null}} undo
 * @property {Progress | null} busy
 *
 * @typedef {object} Query which photos the grid shows
 * @property {string} show all, unlabelled, uncertain, suspected, unknown or class; or ids or cell
 * @property {Id} [class_id]
 * @property {Id} [truth]
 * @property {Id} [answer]
 * @property {Id[]} [ids]
 * @property {string} sort newest, uncertain, class or name
 *
 * @typedef {object} Answer
 * @property {string | null} label
 * @property {Id | null} class_id
 * @property {number} confidence
 * @property {boolean} unknown
 * @property {{class_id: Id, label: string, probability: number}[]} probabilities
 * @property {{id: Id | null, label: string, similarity: number}[]} nearest
 *
 * @typedef {object} Quality
 * @property {number | null} accuracy
 * @property {ClassInfo[]} classes
 * @property {number[][]} confusion rows: labels; columns: answers
 * @property {Id[]} suggestions
 * @property {{id: Id, class_id: Id, guess: Id, why: string}[]} suspected
 * @property {Id[][]} duplicates
 * @property {string[]} advice
 */

export {};
