/**
 * Effect in saltbridge of something that a salt-master's configuration uses.
 *
 * - `honoured`: it works as in Salt.
 * - `ignored`: it has no effect, and no minion or job needs it.
 * - `refused`: the site relies on it and loses it, or the master does not start with it.
 */
export type MigrationOutcome = 'honoured' | 'ignored' | 'refused';

/** A finding about one option, part, key or file. */
export interface MigrationFinding {
  readonly outcome: MigrationOutcome;
  /** Kind: an option; a part such as a renderer or a directory; keys; or an unusable file. */
  readonly kind: 'option' | 'part' | 'keys' | 'file';
  /** Name of the option, part or file. An option has the name that the file uses. */
  readonly name: string;
  /** File that contains it. */
  readonly file: string;
  /** Line number, starting at 1, or 0 if unknown. */
  readonly line: number;
  /** Meaning for saltbridge, in one sentence. */
  readonly meaning: string;
  /** Remedy, or '' if nothing needs to be done. */
  readonly remedy: string;
}
