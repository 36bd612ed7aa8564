/** What is wrong with a configuration, and where: errors and warnings that name file, line and key. */

import { type ErrorEntry, nameOfType, nearestName, SaltbridgeError, unknownName } from '#runtime';

/** Where an option was found. */
export interface OptionOrigin {
  /** Path of the file; `options` for values that a program passed. */
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
  /** As written there, for instance `publish_port` or `saltbridge:limits:burst`; '' for the file. */
  readonly key: string;
  /** What is meant of it, if it is a list: `[1]`, `[1]:user`. 0 is the first. */
  readonly entry?: string | undefined;
}

/** What else a {@link ConfigError} may hold. */
interface ConfigErrorOptions extends ErrorOptions {
  /** The line of the file with a mark below it, without values. */
  readonly excerpt?: string;
  /** All mistakes, this one first, where there are several. */
  readonly all?: readonly ConfigError[];
  /** The part of a value that is wrong, where the message calls its place otherwise. */
  readonly part?: OptionOrigin;
}

/**
 * A configuration that cannot be used. The message names the place and what was expected; of values
 * it has numbers alone. Where there are several mistakes, it has each on a line of its own.
 */
export class ConfigError extends SaltbridgeError<ConfigErrorCode> {
  /** Of the first mistake, as `line`, `key`, `entry` and `problem`. */
  readonly file: string;
  readonly line: number;
  readonly key: string;
  readonly entry: string | undefined;
  /** The message without the place. */
  readonly problem: string;
  /** Every mistake by itself. */
  declare readonly problems: readonly ConfigError[];
  /** @internal What can be left out, so that the rest can be looked at. */
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
    // A log would show them twice.
    Object.defineProperty(this, 'problems', { value: all ?? [this], enumerable: false });
    Object.defineProperty(this, 'part', { value: part, enumerable: false });
  }

  /** @internal The same, of a part whose place the message calls otherwise. */
  ofPart(part: OptionOrigin): ConfigError {
    const { code, problem, cause } = this;
    return new ConfigError(code, this, problem, { cause, part });
  }

  /** Mistakes as one error, with the code and the place of the first; `undefined`: there are none. */
  static of([first, ...others]: readonly ConfigError[]): ConfigError | undefined {
    if (first === undefined || others.length === 0) return first;
    const { code, problem, cause } = first;
    return new ConfigError(code, first, problem, { cause, all: [first, ...others] });
  }
}

/** The catalogue of {@link ConfigErrorCode}. */
export const configErrors = {
  ERR_CONFIG_READ: {
    meaning: 'A configuration file or directory cannot be read, or a file includes itself.',
    action: 'Correct the path, or give the service user the right to read the file.',
    retry: true,
  },
  ERR_CONFIG_SYNTAX: {
    meaning: 'A file is not YAML, names a key twice, uses a tag, or is not a map of options.',
    action: 'Correct the line named; the YAML is version 1.1, as in Salt.',
  },
  ERR_OPTION_CONFLICT: {
    meaning: 'Options that are right by themselves contradict each other.',
    action: 'Change one of the two that the message names.',
  },
  ERR_OPTION_RENAMED: {
    meaning: 'A program uses an option under its name in files.',
    action: 'Use the name in the message.',
  },
  ERR_OPTION_TYPE: {
    meaning: 'The value of an option is of another type or outside of its range.',
    action: 'Write what the message says was expected.',
  },
  ERR_OPTION_UNKNOWN: {
    meaning: 'An option under saltbridge:, or one that a program passed, does not exist.',
    action: 'Use the name that the message proposes, or remove the option.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Why a configuration was refused; what each means is in {@link configErrors}. */
export type ConfigErrorCode = keyof typeof configErrors;

function describe({ key, entry = '', ...place }: OptionOrigin, problem: string): string {
  return [placeOf(place), ...(key === '' ? [] : [`${key}${entry}`]), problem].join(': ');
}

/**
 * The refusal of a name that nobody has, with the one that was probably meant.
 * @param code - in a section, whose value is wrong then: ERR_OPTION_TYPE
 */
export function unknownOption(
  origin: OptionOrigin,
  known: readonly string[],
  code: ConfigErrorCode = 'ERR_OPTION_UNKNOWN',
): ConfigError {
  const name = (origin.entry ?? origin.key).split(':').at(-1) ?? '';
  return new ConfigError(code, origin, `there is no such option; ${unknownName(name, known)}`);
}

/** A question for the known name that a misspelt one resembles; `undefined`: it resembles none. */
export function proposeName(name: string, known: readonly string[]): string | undefined {
  const nearest = nearestName(name, known);
  return nearest === undefined ? undefined : `did you mean ${nearest}?`;
}

/** The refusal of a value, which it describes by its type alone. */
export function typeError(origin: OptionOrigin, found: unknown, expected: string): ConfigError {
  return new ConfigError(
    'ERR_OPTION_TYPE',
    origin,
    `found ${nameOfType(found)}, expected ${expected}`,
  );
}

/** Something in the configuration that has no effect, or another than in Salt, and that the operator should know of. */
export interface ConfigWarning extends OptionOrigin {
  readonly kind: /** The main file does not exist. */
    | 'missing-file'
    /** An `include:` that finds no file. */
    | 'nothing-included'
    /** An option that Salt has and this master does not serve; the message says what to do. */
    | 'not-served'
    /** Expressions and targets that permit less than in Salt. */
    | 'narrowed'
    /** Rights of users that are wider than they seem, mean less than in Salt, or cannot be read. */
    | 'rights'
    /** An entry of `external_auth` by which nobody can log in. */
    | 'no-login'
    /** The reactor listens for tags that no rule lets anybody emit. */
    | 'unheard'
    /** A value that another option does not let have its effect. */
    | 'bounded'
    /** A directory that an option names and that is not there. */
    | 'missing-directory'
    /** A file that an option names and that is not there. */
    | 'missing-named-file'
    /** A value that has no effect, and that another one was probably meant by. */
    | 'unusable'
    /** One that nothing is lost without. */
    | 'not-needed'
    /** An option that neither has. */
    | 'unknown-option';
  /** One line that names the place. */
  readonly message: string;
}

/** `file:line`, or the file alone. */
export function placeOf({ file, line }: Pick<OptionOrigin, 'file' | 'line'>): string {
  return line === 0 ? file : `${file}:${line}`;
}

/** The message of a problem or a warning without the place in front, where that is told beside it. */
export function withoutPlace(it: OptionOrigin & { readonly message: string }): string {
  const place = `${placeOf(it)}: `;
  const [line = ''] = it.message.split('\n');
  return line.startsWith(place) ? line.slice(place.length) : line;
}
