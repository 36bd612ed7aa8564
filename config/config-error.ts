/** Errors and warnings about a configuration. Each names the file, line and key. */

import { type ErrorEntry, nameOfType, nearestName, SaltbridgeError, unknownName } from '#runtime';

/** Location of an option in the configuration. */
export interface OptionOrigin {
  /** Path of the file, or `options` for values that a program passed. */
  readonly file: string;
  /** Line number, starting at 1, or 0 if unknown. */
  readonly line: number;
  /**
   * Key as written in the file, for example `publish_port` or `saltbridge:limits:burst`. Empty for
   * the whole file.
   */
  readonly key: string;
  /**
   * Location within the value, if the value is a list: `[1]`, or `[1]:user`. Indexes start at 0.
   */
  readonly entry?: string | undefined;
}

/** Additional details of a {@link ConfigError}. */
interface ConfigErrorOptions extends ErrorOptions {
  /** Line of the file with a mark below the mistake. Values in it are hidden. */
  readonly excerpt?: string;
  /** All mistakes, beginning with this one. Absent if there is only one. */
  readonly all?: readonly ConfigError[];
  /** Location of the invalid part of the value, if it differs from the location in the message. */
  readonly part?: OptionOrigin;
}

/**
 * Error for an unusable configuration. The message gives the location and the expected value. It
 * quotes numbers, but no other values. If there are several mistakes, the message has one line for
 * each mistake.
 */
export class ConfigError extends SaltbridgeError<ConfigErrorCode> {
  /** File of the first mistake. `line`, `key`, `entry` and `problem` describe this mistake too. */
  readonly file: string;
  readonly line: number;
  readonly key: string;
  readonly entry: string | undefined;
  /** Message without the location. */
  readonly problem: string;
  /** All mistakes, each as a separate error. */
  declare readonly problems: readonly ConfigError[];
  /**
   * @internal Location of the invalid part. The part is omitted when the rest of the configuration
   * is checked.
   */
  declare readonly part: OptionOrigin;

  constructor(
    code: ConfigErrorCode,
    origin: OptionOrigin,
    problem: string,
    { excerpt, all, part = origin, ...options }: ConfigErrorOptions = {},
  ) {
    const own = [describe(origin, problem), ...(excerpt === undefined ? [] : [excerpt])];
    super(code, (all?.map(({ message }) => message) ?? own).join('\n'), options);
    this.file = origin.file;
    this.line = origin.line;
    this.key = origin.key;
    this.entry = origin.entry;
    this.problem = problem;
    // Hide these properties from logs, which already contain the message with all mistakes.
    Object.defineProperty(this, 'problems', { value: all ?? [this], enumerable: false });
    Object.defineProperty(this, 'part', { value: part, enumerable: false });
  }

  /**
   * @internal Returns a copy of the error with another value of {@link ConfigError.part}. The
   * message and its location do not change.
   */
  ofPart(part: OptionOrigin): ConfigError {
    const { code, problem, cause } = this;
    return new ConfigError(code, this, problem, { cause, part });
  }

  /**
   * Combines mistakes into one error, which has the code and location of the first. Returns
   * `undefined` if there are no mistakes.
   */
  static of([first, ...others]: readonly ConfigError[]): ConfigError | undefined {
    if (first === undefined || others.length === 0) return first;
    const { code, problem, cause } = first;
    return new ConfigError(code, first, problem, { cause, all: [first, ...others] });
  }
}

/** Meaning and remedy of every {@link ConfigErrorCode}. */
export const configErrors = {
  ERR_CONFIG_READ: {
    meaning: 'A configuration file or directory cannot be read, or a file includes itself.',
    action: 'Correct the path, or give the service user the right to read the file.',
    retry: true,
  },
  ERR_CONFIG_SYNTAX: {
    meaning: 'A file is not valid YAML, repeats a key, uses a tag, or is not a map of options.',
    action: 'Correct the line in the message; the YAML version is 1.1, as in Salt.',
  },
  ERR_OPTION_CONFLICT: {
    meaning: 'Two options are valid separately but contradict each other.',
    action: 'Change one of the two options in the message.',
  },
  ERR_OPTION_RENAMED: {
    meaning: 'A program passed an option under the name that the option has in files.',
    action: 'Use the name in the message.',
  },
  ERR_OPTION_TYPE: {
    meaning: 'The value of an option has the wrong type or is out of range.',
    action: 'Use a value that the message describes.',
  },
  ERR_OPTION_UNKNOWN: {
    meaning: 'An option under saltbridge:, or one that a program passed, does not exist.',
    action: 'Use the name that the message proposes, or remove the option.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Codes of configuration errors; {@link configErrors} describes each. */
export type ConfigErrorCode = keyof typeof configErrors;

function describe({ key, entry = '', ...place }: OptionOrigin, problem: string): string {
  return [placeOf(place), ...(key === '' ? [] : [`${key}${entry}`]), problem].join(': ');
}

/**
 * Returns the error for an unknown option name. The message proposes the most similar known name.
 * @param code - error code. Use ERR_OPTION_TYPE for an unknown key in a section, because such a key
 * makes the whole value of the section invalid
 */
export function unknownOption(
  origin: OptionOrigin,
  known: readonly string[],
  code: ConfigErrorCode = 'ERR_OPTION_UNKNOWN',
): ConfigError {
  const name = (origin.entry ?? origin.key).split(':').at(-1) ?? '';
  return new ConfigError(code, origin, `unknown option; ${unknownName(name, known)}`);
}

/**
 * Returns a question such as `did you mean publish_port?` for a misspelt name. Returns `undefined`
 * if no known name is similar.
 */
export function proposeName(name: string, known: readonly string[]): string | undefined {
  const nearest = nearestName(name, known);
  return nearest === undefined ? undefined : `did you mean ${nearest}?`;
}

/** Returns the error for an invalid value. The message names only the type of the value. */
export function typeError(origin: OptionOrigin, found: unknown, expected: string): ConfigError {
  return new ConfigError(
    'ERR_OPTION_TYPE',
    origin,
    `found ${nameOfType(found)}, expected ${expected}`,
  );
}

/** Warning for the operator about an option that has no effect, or another effect than in Salt. */
export interface ConfigWarning extends OptionOrigin {
  readonly kind: /** The main file does not exist. */
    | 'missing-file'
    /** An `include:` pattern that matches no file. */
    | 'nothing-included'
    /** An option of Salt that this master does not support. The message names an alternative. */
    | 'not-served'
    /** Expressions and targets that permit less than in Salt. */
    | 'narrowed'
    /**
     * User rights that permit more than they seem to, that permit less than in Salt, or that cannot
     * be read.
     */
    | 'rights'
    /** An entry of `external_auth` that no user can log in with. */
    | 'no-login'
    /** Tags under `reactor:` that no rule permits minions to emit. */
    | 'unheard'
    /** A value whose effect is limited by another option. */
    | 'bounded'
    /** An option names a directory that does not exist. */
    | 'missing-directory'
    /** An option names a file that does not exist. */
    | 'missing-named-file'
    /** A value that has no effect, for example an invalid nodegroup or an unsupported renderer. */
    | 'unusable'
    /** An option that can be removed without any loss. */
    | 'not-needed'
    /** An option that neither Salt nor this master has. */
    | 'unknown-option';
  /** Message of one line, with the location. */
  readonly message: string;
}

/** Returns `file:line`, or only the file if the line is unknown. */
export function placeOf({ file, line }: Pick<OptionOrigin, 'file' | 'line'>): string {
  return line === 0 ? file : `${file}:${line}`;
}

/**
 * Returns the message of a problem or warning without its location, for output that shows the
 * location separately.
 */
export function withoutPlace(it: OptionOrigin & { readonly message: string }): string {
  const place = `${placeOf(it)}: `;
  const [line = ''] = it.message.split('\n');
  return line.startsWith(place) ? line.slice(place.length) : line;
}
