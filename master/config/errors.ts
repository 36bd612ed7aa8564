import type { ErrorEntry } from '../errors.ts';

/** Why a configuration was refused; what each means is in {@link configErrors}. */
export type ConfigErrorCode =
  | 'ERR_CONFIG_READ'
  | 'ERR_CONFIG_SYNTAX'
  | 'ERR_OPTION_CONFLICT'
  | 'ERR_OPTION_TYPE'
  | 'ERR_OPTION_UNKNOWN';

/** Where an option was found. */
export interface OptionOrigin {
  /** Path of the file; `options` for values that a program passed. */
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
  /** As written there, for instance `publish_port` or `saltbridge:limits:burst`; '' for the file. */
  readonly key: string;
}

/** A configuration that cannot be used. The message names the place and never a value. */
export class ConfigError extends Error {
  readonly code: ConfigErrorCode;
  readonly file: string;
  readonly line: number;
  readonly key: string;

  constructor(
    code: ConfigErrorCode,
    origin: OptionOrigin,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(describe(origin, problem), options);
    this.name = new.target.name;
    this.code = code;
    this.file = origin.file;
    this.line = origin.line;
    this.key = origin.key;
  }
}

/** The catalogue of {@link ConfigErrorCode}. */
export const configErrors: Readonly<Record<ConfigErrorCode, ErrorEntry>> = {
  ERR_CONFIG_READ: {
    meaning: 'A configuration file exists but could not be read, or includes itself.',
    action: 'Look at the cause; give the service user the right to read the file.',
    retry: true,
  },
  ERR_CONFIG_SYNTAX: {
    meaning: 'A file is not YAML, names a key twice, uses a tag, or is not a map of options.',
    action: 'Correct the line named; the YAML is version 1.1, as in Salt.',
    retry: false,
  },
  ERR_OPTION_CONFLICT: {
    meaning: 'Options that are right by themselves contradict each other.',
    action: 'Change one of the two that the message names.',
    retry: false,
  },
  ERR_OPTION_TYPE: {
    meaning: 'The value of an option is of another type or outside of its range.',
    action: 'Write what the message says was expected.',
    retry: false,
  },
  ERR_OPTION_UNKNOWN: {
    meaning: 'An option under saltbridge:, or one that a program passed, does not exist.',
    action: 'Use the name that the message proposes, or remove the option.',
    retry: false,
  },
};

function describe({ file, line, key }: OptionOrigin, problem: string): string {
  const place = line === 0 ? file : `${file}:${line}`;
  return key === '' ? `${place}: ${problem}` : `${place}: ${key}: ${problem}`;
}
