/**
 * An exception of Python or jinja2 inside the interpreter. It has no position. At the boundary of
 * the interpreter it is converted to a `TemplateError`.
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

/** A limit was exceeded. Templates cannot catch this. */
export class LimitExceeded extends Error {
  static {
    LimitExceeded.prototype.name = LimitExceeded.name;
  }

  /** Exception class of Python for this limit, if it has one. */
  readonly kind: string;

  constructor(limit: string, value: number) {
    super(`the limit of ${value} ${limit} is exceeded`);
    this.kind = limitExceptionKinds.get(limit) ?? 'LimitExceeded';
  }
}

/** A template uses a feature of Jinja or Salt that is intentionally not supported. */
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
