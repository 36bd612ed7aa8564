/** Options as a program passes them to `createMaster`: their names are in camelCase, with units. */

import { ConfigError } from './config-error.ts';
import type { LogLevel } from './log-level.ts';
import type { OptionRow } from './option.ts';
import type { AclOptions, EauthOptions, Limits, MasterConfig, MasterOptions } from './options.ts';
import { ownOptions } from './own-options.ts';
import { checkOptions } from './resolve.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';

const tables = { ...saltOptions, ...rightsOptions, ...ownOptions };

type Rows = typeof tables;

/** Name that an option from a file has in {@link PlainOptions}. `never` if it has none. */
type ProgramName<Name extends keyof Rows> = Rows[Name] extends { readonly program: infer Program }
  ? Program extends string
    ? Program
    : never
  : Name;

/**
 * Options that {@link PlainOptions} declares itself, because their form in programs differs from
 * their form in files.
 */
type GroupName = 'acl' | 'audit' | 'eauth' | 'git' | 'limits' | 'logLevel';

type RowOptions = {
  readonly [Name in Exclude<keyof Rows, GroupName> as ProgramName<Name>]?:
    | Exclude<Rows[Name]['default'], null>
    | undefined;
};

/**
 * Options that a program may pass. `undefined` selects the default. docs/configuration.md describes
 * every option.
 */
export interface PlainOptions extends RowOptions {
  /**
   * Options of the policy. By default, the policy permits minions to report their own lifecycle,
   * and nothing else.
   */
  readonly acl?: Partial<AclOptions> | undefined;
  /** Options of the audit log. */
  readonly audit?: Partial<MasterConfig['audit']> | undefined;
  /** Permitted uses of git and limits on repositories. */
  readonly git?: Partial<MasterConfig['git']> | undefined;
  /** Options of log-ins and tokens. */
  readonly eauth?: Partial<EauthOptions> | undefined;
  /** Limits on the requests of a single minion or address. */
  readonly limits?: Partial<Limits> | undefined;
  /**
   * Lowest level that is logged. With `logger`: the new level of that logger; by default, its level
   * does not change. Without `logger`: the master writes JSON lines of this level and above to
   * standard error; by default, it logs nothing.
   */
  readonly logLevel?: LogLevel | undefined;
  /**
   * Options that SaltGUI reads with the wheel function `config.values`, as written: `saltgui_*`,
   * and a few of Salt's options, for example `state_output`.
   */
  readonly saltgui?: MasterConfig['saltgui'] | undefined;
  /** Profiles of `sdb://` by name. */
  readonly sdb?: MasterConfig['sdb'] | undefined;
}

const rows: ReadonlyMap<string, OptionRow> = new Map(Object.entries(tables));

const configNames: ReadonlyMap<string, string> = new Map(
  [...rows].flatMap(([name, { program }]) =>
    typeof program === 'string' ? [[program, name] as const] : [],
  ),
);

/**
 * Returns a complete configuration from the options of a program.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT, ERR_OPTION_UNKNOWN, and
 * ERR_OPTION_RENAMED for Salt's spelling of a name; `key` is the name that the program used
 */
export function resolvePlainOptions(options: PlainOptions): MasterConfig {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const former = given.flatMap(([name]) => formerName(name));
  const current = given.filter(([name]) => formerName(name).length === 0);
  const renamed: Partial<MasterOptions> = Object.fromEntries(
    current.map(([name, value]) => [configNames.get(name) ?? name, value]),
  );
  const { config, problems } = checkOptions(renamed);
  const mistake = ConfigError.of([...former, ...problems.map(withPlainName)]);
  if (mistake !== undefined) throw mistake;
  return config;
}

/**
 * Returns an error if a program uses a name that is valid only in configuration files. Otherwise
 * returns an empty list.
 */
function formerName(name: string): readonly ConfigError[] {
  const origin = { file: 'options', line: 0, key: name };
  const refuse = (problem: string): readonly ConfigError[] => [
    new ConfigError('ERR_OPTION_RENAMED', origin, problem),
  ];
  const program = rows.get(name)?.program;
  if (program === undefined) return [];
  return typeof program === 'string'
    ? refuse(`is called ${program} in programs`)
    : refuse(`is not available in programs: ${program.instead}`);
}

/** Renames the option in an error: from its name in configuration files to its name in programs. */
function withPlainName(error: ConfigError): ConfigError {
  const program = rows.get(error.key)?.program;
  if (typeof program !== 'string') return error;
  const { code, file, line, entry, problem, cause } = error;
  return new ConfigError(code, { file, line, key: program, entry }, problem, { cause });
}
