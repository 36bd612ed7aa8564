/**
 * What becomes of something that a salt-master's configuration uses.
 *
 * - `honoured`: it works here as it does there.
 * - `ignored`: it has no effect here, and no minion or job misses it.
 * - `refused`: somebody relies on it and would miss it, or the master does not start with it.
 */
export type MigrationOutcome = 'honoured' | 'ignored' | 'refused';

/** One thing in use. */
export interface MigrationFinding {
  readonly outcome: MigrationOutcome;
  /** An option; a part such as a renderer or a directory; keys; or a file that cannot be used. */
  readonly kind: 'option' | 'part' | 'keys' | 'file';
  /** Its name: of an option as in the file. */
  readonly name: string;
  /** Where it was found. */
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
  /** What it means here, in one sentence. */
  readonly meaning: string;
  /** What to do; '' where nothing is to be done. */
  readonly remedy: string;
}
