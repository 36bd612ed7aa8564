/** Declaration of one option: its name, schema, default and documentation. */

import type { Static, TSchema } from 'typebox';

/** Extension of the master that owns an option. Without one, the core reads the option. */
type OptionExtension =
  | 'bridge'
  | 'cluster'
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

/** Optional properties of a row, besides name, schema, default and documentation. */
export interface OptionDetails {
  /** Time at which a running master applies a new value. Absent: after a restart. */
  readonly reload?: string;
  /**
   * Directory that a relative path is relative to. Paths relative to `root_dir` are joined to it as
   * in Salt. Paths relative to `configuration` remain as written.
   */
  readonly base?: 'root_dir' | 'sock_dir' | 'configuration';
  /** Extension that reads the option. If it is not loaded, the option does not exist. */
  readonly extension?: OptionExtension;
  /** Name in `createMaster`, or the alternative for programs. Default: the name of the member. */
  readonly program?: string | { readonly instead: string };
  /** Whether clients may not read the value. Default: false. */
  readonly isSecret?: boolean;
  /** Whether `pillar_opts` passes the value to minions. Default: false. */
  readonly isForMinions?: boolean;
  /** Whether processes that share a master may have different values. Default: false. */
  readonly isPerProcess?: boolean;
  /** Difference for a site that migrates from a salt-master. Default: none. */
  readonly migration?: string;
  /** Description of the default, if it depends on the host. */
  readonly defaultText?: string;
}

/** Required properties of every row. */
export interface NamedRow<T> {
  /** Name in files, within its section. */
  readonly name: string;
  readonly schema: TSchema;
  readonly default: T;
  /** Documentation in one or two sentences. */
  readonly doc: string;
}

/** Declaration of one option. */
export type OptionRow<T = unknown> = NamedRow<T> & OptionDetails;

/** Options of one section of a file, by the names of the configuration's members. */
export type OptionTable = Readonly<Record<string, OptionRow>>;

/** Values of a table. */
export type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends NamedRow<infer T> ? T : never;
};

/** Members of a table that a reload changes. */
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
