import type { OptionOrigin } from './errors.ts';

/** Something in the configuration that has no effect, or another than in Salt, and that the operator should know of. */
export interface ConfigWarning extends OptionOrigin {
  readonly kind: /** The main file does not exist. */
    | 'missing-file'
    /** An `include:` that finds no file. */
    | 'nothing-included'
    /** An option that Salt has and this master does not serve; the message says what to do. */
    | 'not-served'
    /** Expressions that permit less than in Salt. */
    | 'narrowed'
    /** Rights of users that are wider than they seem, mean less than in Salt, or cannot be read. */
    | 'rights'
    /** The reactor listens for tags that no rule lets anybody emit. */
    | 'unheard'
    /** A value that another option does not let have its effect. */
    | 'bounded'
    /** One that nothing is lost without. */
    | 'not-needed'
    /** An option that neither has. */
    | 'unknown-option';
  /** One line that names the place. */
  readonly message: string;
}
