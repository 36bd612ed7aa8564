/** What went wrong with a template or a YAML text; each code is explained in {@link templateErrors}. */
export type TemplateErrorCode =
  | 'ERR_TEMPLATE_SYNTAX'
  | 'ERR_TEMPLATE_UNDEFINED'
  | 'ERR_TEMPLATE_NOT_FOUND'
  | 'ERR_TEMPLATE_RUNTIME'
  | 'ERR_TEMPLATE_FUNCTION'
  | 'ERR_TEMPLATE_LIMIT'
  | 'ERR_TEMPLATE_UNSUPPORTED'
  | 'ERR_YAML';

/** Where in the sources something is. */
export interface SourcePosition {
  /** The name that the text was given, e.g. `web/init.sls`. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

/** What is known of an error besides its code. */
export interface TemplateErrorDetails {
  readonly place: SourcePosition;
  /** The class that jinja2, Python or PyYAML would raise, e.g. `UndefinedError`. */
  readonly kind: string;
  /** The words of the original for it, e.g. `'x' is undefined`. */
  readonly detail: string;
  readonly cause?: unknown;
}

/** Salt's words before those of jinja2. */
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
 * A template or a YAML text that gives no data. The message is Salt's for that case, with file and
 * line.
 */
export class TemplateError extends Error {
  static {
    TemplateError.prototype.name = TemplateError.name;
  }

  readonly code: TemplateErrorCode;
  readonly place: SourcePosition;
  /** The class that jinja2, Python or PyYAML would raise. */
  readonly kind: string;
  /** The original's own words. */
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

/** Salt calls these a syntax error, whatever they are [salt/utils/templates.py]. */
function isSyntaxInSalt(kind: string): boolean {
  return (
    kind === 'TemplateRuntimeError' || kind === 'FilterArgumentError' || kind === 'SecurityError'
  );
}

/** Ends a rendering for a reason of the caller's, which catches it. Templates cannot. */
export class Interruption extends Error {}

/** What a code means to whoever reads a log. */
export interface TemplateErrorEntry {
  readonly meaning: string;
  readonly action: string;
  /** Whether the same request may succeed when it is made again. Defaults to false. */
  readonly retry?: boolean;
}

/** Every code, with its meaning and what to do. */
export const templateErrors: Readonly<Record<TemplateErrorCode, TemplateErrorEntry>> = {
  ERR_TEMPLATE_SYNTAX: {
    meaning: 'A template is not Jinja, or uses a tag, filter or test that nobody knows.',
    action: 'Correct the template at the file and line of the message.',
  },
  ERR_TEMPLATE_UNDEFINED: {
    meaning: 'A template uses a variable, attribute or key that does not exist.',
    action: 'Define it, or give it a default with the filter `default`.',
  },
  ERR_TEMPLATE_NOT_FOUND: {
    meaning: 'A template includes, imports or extends a file that is not there.',
    action: 'Check the name, and that the file lies in a root of the environment.',
  },
  ERR_TEMPLATE_RUNTIME: {
    meaning: 'An expression of a template fails as it would in Python: wrong type, value or key.',
    action: 'Correct the template or the data at the file and line of the message.',
  },
  ERR_TEMPLATE_FUNCTION: {
    meaning: 'A function that a template called through `salt` refused or failed.',
    action: 'See the cause; correct the arguments in the template.',
  },
  ERR_TEMPLATE_LIMIT: {
    meaning: 'A template or YAML text takes more steps, depth or room than its limit allows.',
    action: 'Look for a loop or a repetition without end; if the work is genuine, raise the limit.',
  },
  ERR_TEMPLATE_UNSUPPORTED: {
    meaning: 'A template uses a part of Jinja or Salt that is left out here on purpose.',
    action: 'Write it another way; the message names the part.',
  },
  ERR_YAML: {
    meaning: 'A text is not YAML as Salt reads it: form, tag, or a key that is there twice.',
    action: 'Correct the text at the file and line of the message.',
  },
};
