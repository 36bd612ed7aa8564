/**
 * An exception of Python or jinja2 on its way through the interpreter. It knows no place; where it
 * leaves the interpreter it becomes a `TemplateError`.
 */
export class PythonException extends Error {
  static {
    PythonException.prototype.name = PythonException.name;
  }

  /** The class's name, e.g. `TypeError`. */
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

/** A limit that was passed; nothing inside of a template can catch it. */
export class LimitExceeded extends Error {
  static {
    LimitExceeded.prototype.name = LimitExceeded.name;
  }

  /** What Python would say, where it has such a limit. */
  readonly kind: string;

  constructor(limit: string, value: number) {
    super(`the limit of ${value} ${limit} is exceeded`);
    this.kind = limitExceptionKinds.get(limit) ?? 'LimitExceeded';
  }
}

/** A part of Jinja or Salt that is left out on purpose. */
export class UnsupportedFeature extends Error {
  static {
    UnsupportedFeature.prototype.name = UnsupportedFeature.name;
  }
}

/** Python's `TypeError`. */
export function typeError(message: string): PythonException {
  return new PythonException('TypeError', message);
}

/** Python's `ValueError`. */
export function valueError(message: string): PythonException {
  return new PythonException('ValueError', message);
}
