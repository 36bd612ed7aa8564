/** Code of an error in a template or YAML text. {@link templateErrors} explains each code. */
export type TemplateErrorCode =
  | 'ERR_TEMPLATE_SYNTAX'
  | 'ERR_TEMPLATE_UNDEFINED'
  | 'ERR_TEMPLATE_NOT_FOUND'
  | 'ERR_TEMPLATE_RUNTIME'
  | 'ERR_TEMPLATE_FUNCTION'
  | 'ERR_TEMPLATE_LIMIT'
  | 'ERR_TEMPLATE_UNSUPPORTED'
  | 'ERR_YAML';

/** Position in a source text. */
export interface SourcePosition {
  /** Name of the text, for example `web/init.sls`. */
  readonly file: string;
  /** Line number, from 1. */
  readonly line: number;
}

/** Details of an error, in addition to its code. */
export interface TemplateErrorDetails {
  readonly place: SourcePosition;
  /**
   * Exception class of the original implementation (jinja2, Python or PyYAML), for example
   * `UndefinedError`.
   */
  readonly kind: string;
  /** Message of the original implementation, for example `'x' is undefined`. */
  readonly detail: string;
  readonly cause?: unknown;
}

/** Words that Salt puts before the message of jinja2. */
const messagePrefixes: Readonly<Record<TemplateErrorCode, string>> = {
  ERR_TEMPLATE_SYNTAX: 'Jinja syntax error: ',
  ERR_TEMPLATE_UNDEFINED: 'Jinja variable ',
  ERR_TEMPLATE_NOT_FOUND: 'Jinja error: ',
  ERR_TEMPLATE_RUNTIME: 'Jinja error: ',
  ERR_TEMPLATE_FUNCTION: 'Problem running salt function in Jinja template: ',
  ERR_TEMPLATE_LIMIT: 'Jinja error: ',
  ERR_TEMPLATE_UNSUPPORTED: 'Jinja error: ',
  ERR_YAML: '',
};

/**
 * Error in a template or a YAML text. The message is Salt's message for the same error, with file
 * and line.
 */
export class TemplateError extends Error {
  static {
    TemplateError.prototype.name = TemplateError.name;
  }

  readonly code: TemplateErrorCode;
  readonly place: SourcePosition;
  /** Exception class of the original implementation: jinja2, Python or PyYAML. */
  readonly kind: string;
  /** Message of the original implementation: jinja2, Python or PyYAML. */
  readonly detail: string;

  constructor(code: TemplateErrorCode, { place, kind, detail, cause }: TemplateErrorDetails) {
    const preamble = isSyntaxInSalt(kind)
      ? messagePrefixes.ERR_TEMPLATE_SYNTAX
      : messagePrefixes[code];
    super(`${preamble}${detail}; file ${place.file}, line ${place.line}`, { cause });
    this.code = code;
    this.place = place;
    this.kind = kind;
    this.detail = detail;
  }
}

/** Whether Salt reports exceptions of this class as syntax errors [salt/utils/templates.py]. */
function isSyntaxInSalt(kind: string): boolean {
  return (
    kind === 'TemplateRuntimeError' || kind === 'FilterArgumentError' || kind === 'SecurityError'
  );
}

/**
 * Exception that ends a rendering. Template functions and loaders that the caller supplies can
 * throw it. Templates cannot catch it, and the renderer rethrows it unchanged.
 */
export class Interruption extends Error {}

/** Explanation of an error code. */
export interface TemplateErrorEntry {
  readonly meaning: string;
  readonly action: string;
  /** Whether the same request may succeed later. Default: false. */
  readonly retry?: boolean;
}

/** All codes with their meaning and remedy. */
export const templateErrors: Readonly<Record<TemplateErrorCode, TemplateErrorEntry>> = {
  ERR_TEMPLATE_SYNTAX: {
    meaning: 'A template has invalid Jinja syntax, or uses an unknown tag, filter or test.',
    action: 'Correct the template at the file and line in the message.',
  },
  ERR_TEMPLATE_UNDEFINED: {
    meaning: 'A template uses a variable, attribute or key that does not exist.',
    action:
      'Define the variable, attribute or key, or give it a default with the filter `default`.',
  },
  ERR_TEMPLATE_NOT_FOUND: {
    meaning: 'A template includes, imports or extends a file that does not exist.',
    action: 'Check the name, and that the file is in a root of the environment.',
  },
  ERR_TEMPLATE_RUNTIME: {
    meaning:
      'An expression of a template failed with a Python error, such as a wrong type, value or key.',
    action: 'Correct the template or the data at the file and line in the message.',
  },
  ERR_TEMPLATE_FUNCTION: {
    meaning: 'A function that a template called through `salt` failed or rejected its arguments.',
    action: 'Correct the call in the template; the message contains the error of the function.',
  },
  ERR_TEMPLATE_LIMIT: {
    meaning:
      'A template or YAML text exceeds a limit, such as the maximum number of steps, depth or size.',
    action: 'Look for an endless loop or repetition. If the work is legitimate, raise the limit.',
  },
  ERR_TEMPLATE_UNSUPPORTED: {
    meaning: 'A template uses a feature of Jinja or Salt that is intentionally not supported.',
    action: 'Replace the feature that the message names.',
  },
  ERR_YAML: {
    meaning:
      'A text is not valid YAML: its syntax is wrong, it has an unknown tag, or a map has a key twice.',
    action: 'Correct the text at the file and line in the message.',
  },
};
