/** Configuration of a master: the values of all options. */

import type { WireMap } from '#minion-protocol';
import type { AuditOptions } from './audit-options.ts';
import { loginOptions } from './login-options.ts';
import type { OptionTable, ValuesOf } from './option.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';
import type { SdbProfile } from './sdb-profiles.ts';

/** Limits on the requests of a single minion or address. */
export interface Limits extends ValuesOf<typeof limitOptions> {}

/** Options of the policy. */
export interface AclOptions extends ValuesOf<typeof aclOptions> {}

/** Options of log-ins and tokens. */
export interface EauthOptions extends ValuesOf<typeof loginOptions> {}

/** Salt's options, except for the options of log-ins and rights. */
export type SaltOptions = ValuesOf<typeof saltOptions>;

type TopOptions = SaltOptions & ValuesOf<typeof rightsOptions> & ValuesOf<typeof ownOptions>;

/**
 * Complete, validated configuration. Its paths are absolute. docs/configuration.md describes every
 * option.
 */
export interface MasterConfig extends TopOptions {
  /** Options of log-ins and tokens. */
  readonly eauth: EauthOptions;
  /** Options under `saltbridge:limits`. */
  readonly limits: Limits;
  /** Options under `saltbridge:acl`. */
  readonly acl: AclOptions;
  /**
   * Options that SaltGUI reads with the wheel function `config.values`, as written: `saltgui_*`,
   * and a few of Salt's options, for example `state_output`.
   */
  readonly saltgui: WireMap;
  /**
   * Profiles of `sdb://` by name. In a file, a profile is a top-level option. Its value is a map
   * with `driver`.
   */
  readonly sdb: Readonly<Record<string, SdbProfile>>;
}

/** Options that a program may pass. Omitted options get their defaults. */
export interface MasterOptions extends Omit<MasterConfig, 'limits' | 'acl' | 'audit' | 'eauth'> {
  readonly audit: Partial<AuditOptions>;
  readonly eauth: Partial<EauthOptions>;
  readonly limits: Partial<Limits>;
  readonly acl: Partial<AclOptions>;
}

/** Option table, with the path of keys that leads to its section in files. */
export interface OptionSection {
  readonly above: readonly string[];
  readonly options: OptionTable;
}

/** All option tables, in the order in which reports list them. */
export const optionSections: readonly OptionSection[] = [
  { above: [], options: saltOptions },
  { above: [], options: rightsOptions },
  { above: [], options: loginOptions },
  { above: ['saltbridge'], options: ownOptions },
  { above: ['saltbridge', 'limits'], options: limitOptions },
  { above: ['saltbridge', 'acl'], options: aclOptions },
];

/** Names of the options that may differ between the processes of a shared master. */
export const perProcessOptions: ReadonlySet<string> = new Set(
  optionSections.flatMap(({ options }) =>
    Object.keys(options).filter((name) => options[name]?.isPerProcess === true),
  ),
);

/** Returns the names that the options of a table have in files. */
export function namesIn(table: OptionTable): string[] {
  return Object.values(table).map(({ name }) => name);
}

/** Returns the directory of the store within `state_dir`. */
export function storeDirectory(stateDir: string): string {
  return `${stateDir}/store`;
}

/** Name of the hash function for key fingerprints and files. */
export type HashType = SaltOptions['hashType'];
