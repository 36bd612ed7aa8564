/**
 * Effect that a part of a salt-master's configuration has in saltbridge.
 *
 * - `honoured`: it works as in Salt.
 * - `ignored`: it has no effect, and neither minions nor jobs need it.
 * - `refused`: it prevents the start of saltbridge, or the site needs it but saltbridge does not
 *   support it.
 */
export type MigrationOutcome = 'honoured' | 'ignored' | 'refused';

/** A finding about one option, part, key or file. */
export interface MigrationFinding {
  readonly outcome: MigrationOutcome;
  /**
   * Kind of the subject: an option; a part such as a renderer or a directory; keys; an unusable
   * file.
   */
  readonly kind: 'option' | 'part' | 'keys' | 'file';
  /** Name of the option, part or file. An option has the name that the file uses. */
  readonly name: string;
  /**
   * File or directory that the finding is about: the configuration file that sets the option, or a
   * module or template in use.
   */
  readonly file: string;
  /** Line number, starting at 1, or 0 if unknown. */
  readonly line: number;
  /** Meaning of the finding, in one sentence. */
  readonly meaning: string;
  /** Action for the operator, in one sentence. Empty if nothing needs to be done. */
  readonly remedy: string;
}
