/** Meaning and remedy of an error code. `docs/errors.md` contains the same texts. */
export interface ErrorEntry {
  readonly meaning: string;
  readonly action: string;
  /** Whether the same call may succeed later without any change. Default: `false`. */
  readonly retry?: boolean;
}

/**
 * An error of saltbridge. The meaning of its `code` never changes, and docs/errors.md lists the
 * remedy for each code. The message may change.
 */
export class SaltbridgeError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    // `name` is made non-enumerable, so that JSON and logs omit it.
    Object.defineProperty(this, 'name', { value: new.target.name, configurable: true });
    this.code = code;
  }
}

/**
 * Returns the message of an error. If the thrown value is not an `Error`, returns the value
 * converted to text.
 */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
