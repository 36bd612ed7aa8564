/**
 * An exception of Python or jinja2 inside the interpreter, without a position. It is converted to a
 * `TemplateError` when it leaves the interpreter.
 */
export class PythonException extends Error {
  static {
    PythonException.prototype.name = PythonException.name;
  }

  /** Name of the exception class, for example `TypeError`. */
  readonly kind: string;

  constructor(kind: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}

const limitExceptionKinds: ReadonlyMap<string, string> = new Map([
  ['depth', 'RecursionError'],
  ['milliseconds', 'TimeoutError'],
]);

/** Error for an exceeded limit. Templates cannot catch it. */
export class LimitExceeded extends Error {
  static {
    LimitExceeded.prototype.name = LimitExceeded.name;
  }

  /**
   * Name of the exception that Python would raise for this limit, for example `RecursionError`.
   * `LimitExceeded` for limits that Python does not have.
   */
  readonly kind: string;

  constructor(limit: string, value: number) {
    super(`the limit of ${limit} is exceeded: the maximum is ${value}`);
    this.kind = limitExceptionKinds.get(limit) ?? 'LimitExceeded';
  }
}

/** Error for a feature of Jinja or Salt that is intentionally not supported. */
export class UnsupportedFeature extends Error {
  static {
    UnsupportedFeature.prototype.name = UnsupportedFeature.name;
  }
}

/** Creates Python's `TypeError`. */
export function typeError(message: string): PythonException {
  return new PythonException('TypeError', message);
}

/** Creates Python's `ValueError`. */
export function valueError(message: string): PythonException {
  return new PythonException('ValueError', message);
}
