/** The row of an option: everything about it that is not its use. */

import type { Static, TSchema } from 'typebox';

/** Extensions of the master that own options; without one, the core reads the option. */
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

/** What a row may say beside name, schema, default and documentation. */
export interface OptionDetails {
  /** When a running master applies a new value. Absent: after a restart. */
  readonly reload?: string;
  /**
   * What a relative path is relative to. Paths below `root_dir` are joined to it as in Salt; those
   * of `configuration` stand as they are written.
   */
  readonly base?: 'root_dir' | 'sock_dir' | 'configuration';
  /** The extension that reads the option: without it, the option does not exist. */
  readonly extension?: OptionExtension;
  /** Name in `createMaster`, or what a program does instead. Default: the member itself. */
  readonly program?: string | { readonly instead: string };
  /** Whether no client may read the value. Default false. */
  readonly isSecret?: boolean;
  /** Whether `pillar_opts` passes the value to minions. Default false. */
  readonly isForMinions?: boolean;
  /** Whether processes that share a master may differ in it. Default false. */
  readonly isPerProcess?: boolean;
  /** What changes for a site that comes from a salt-master. Default: nothing. */
  readonly migration?: string;
  /** Default in words, where it depends on the host. */
  readonly defaultText?: string;
}

/** What every row says. */
export interface NamedRow<T> {
  /** Name in files, within the section that it stands in. */
  readonly name: string;
  readonly schema: TSchema;
  readonly default: T;
  /** Documentation, in one or two sentences. */
  readonly doc: string;
}

/** An option. */
export type OptionRow<T = unknown> = NamedRow<T> & OptionDetails;

/** Options of one section of a file, by the members of the configuration. */
export type OptionTable = Readonly<Record<string, OptionRow>>;

/** The values of a table. */
export type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends NamedRow<infer T> ? T : never;
};

/** The members of a table that a running master takes over. */
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
