/** Declares an option in an option table: its name, schema, default and documentation. */

import type { Static, TSchema } from 'typebox';

/**
 * Extension of the master that owns an option. Options without an extension belong to the core of
 * the master.
 */
type OptionExtension =
  | 'bridge'
  | 'cluster'
  | 'edge'
  | 'export'
  | 'files'
  | 'mine'
  | 'orchestration'
  | 'peers'
  | 'pillar'
  | 'reactor'
  | 'runners'
  | 'salt-api'
  | 'schedule';

/**
 * Properties that a row of an option table may have, besides name, schema, default and
 * documentation.
 */
export interface OptionDetails {
  /**
   * Text that states when a running master applies a new value, for example `the next request`.
   * Absent if the option requires a restart.
   */
  readonly reload?: string;
  /**
   * Base directory of a relative path. As in Salt, paths with the base `root_dir` are joined to
   * that directory. Paths with the base `configuration` are stored as written.
   */
  readonly base?: 'root_dir' | 'sock_dir' | 'configuration';
  /** Extension that reads the option. If the extension is not loaded, the option is unknown. */
  readonly extension?: OptionExtension;
  /**
   * Name under which programs pass the option to `createMaster`. Default: the option's key in its
   * table. If programs cannot pass the option, `instead` contains advice for them.
   */
  readonly program?: string | { readonly instead: string };
  /** Whether clients may not read the value. Default: false. */
  readonly isSecret?: boolean;
  /** Whether `pillar_opts` passes the value to minions. Default: false. */
  readonly isForMinions?: boolean;
  /** Whether the processes of a shared master may have different values. Default: false. */
  readonly isPerProcess?: boolean;
  /** Note for operators who migrate from a salt-master. Default: none. */
  readonly migration?: string;
  /** Description of the default, for defaults that depend on the host. */
  readonly defaultText?: string;
}

/** Properties that every row of an option table has. */
export interface NamedRow<T> {
  /** Name of the option in files, within its section. */
  readonly name: string;
  readonly schema: TSchema;
  readonly default: T;
  /** Documentation in one or two sentences. */
  readonly doc: string;
}

/** Row of an option table: the declaration of one option. */
export type OptionRow<T = unknown> = NamedRow<T> & OptionDetails;

/**
 * Table of the options in one section of a file. Its keys are the names of members of the
 * configuration.
 */
export type OptionTable = Readonly<Record<string, OptionRow>>;

/** Values of the options in a table. */
export type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends NamedRow<infer T> ? T : never;
};

/** Names of those options in a table whose values a reload of the configuration can change. */
export type ReloadableOf<Table> = {
  [Name in keyof Table]: Table[Name] extends { readonly reload: string } ? Name : never;
}[keyof Table];

/** Declares an option. */
export function option<S extends TSchema, const D extends OptionDetails = Record<never, never>>(
  name: string,
  schema: S,
  defaultValue: NoInfer<Static<S>>,
  doc: string,
  details?: D,
): NamedRow<Static<S>> & D;
export function option<S extends TSchema, const D extends OptionDetails = Record<never, never>>(
  name: string,
  schema: S,
  defaultValue: null,
  doc: string,
  details?: D,
): NamedRow<Static<S> | null> & D;
export function option(
  name: string,
  schema: TSchema,
  defaultValue: unknown,
  doc: string,
  details: OptionDetails = {},
): OptionRow {
  return { name, schema, default: defaultValue, doc, ...details };
}
