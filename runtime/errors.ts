/** What an error code means; `docs/errors.md` lists the same texts. */
export interface ErrorEntry {
  readonly meaning: string;
  readonly action: string;
  /** Whether the same call may succeed later without any change. Defaults to false. */
  readonly retry?: boolean;
}

/**
 * An error of saltbridge. Its `code` never changes its meaning, and docs/errors.md lists what to do
 * about each; the message is for people and may change.
 */
export class SaltbridgeError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    // Not among the members that JSON or a log shows.
    Object.defineProperty(this, 'name', { value: new.target.name, configurable: true });
    this.code = code;
  }
}
