/** What a minion has to know of its master before it has met it. */
import { stringify } from 'yaml';

/** A value of a minion's configuration. */
export type ConfigValue =
  | string
  | number
  | boolean
  | null
  | readonly ConfigValue[]
  | { readonly [name: string]: ConfigValue };

/** Options of a minion by their names in Salt. */
export type MinionConfig = Readonly<Record<string, ConfigValue>>;

/** The masters of a minion. */
export interface MasterAddress {
  /** Addresses, in the order in which they are tried; they share one key pair. */
  readonly masters: readonly string[];
  /** `ret_port`. */
  readonly requestPort: number;
  /** Fingerprint of the masters' key by `hashType`: hex pairs joined by `:`. */
  readonly fingerprint: string;
  readonly hashType: string;
  /** `zeromq`, `tcp` or `ws`. */
  readonly transport: string;
}

/** Salt's own defaults on the minion's side [salt/config/__init__.py DEFAULT_MINION_OPTS]. */
const defaults = { requestPort: 4506, hashType: 'sha256', transport: 'zeromq' } as const;

/**
 * The configuration of a minion that trusts no other master than these.
 * @param more options that win, but for the id and what pins the master
 */
export function minionConfig(
  id: string,
  { masters, requestPort, fingerprint, hashType, transport }: MasterAddress,
  more: MinionConfig = {},
): MinionConfig {
  const [first = '', ...others] = masters;
  return {
    ...(requestPort === defaults.requestPort ? {} : { master_port: requestPort }),
    ...(transport === defaults.transport ? {} : { transport }),
    ...(others.length === 0 ? {} : { master_type: 'failover' }),
    ...more,
    ...(hashType === defaults.hashType ? {} : { hash_type: hashType }),
    id,
    master: others.length === 0 ? first : [first, ...others],
    master_finger: fingerprint,
  };
}

/** As YAML 1.1, which cloud-init and Salt read: every text is quoted, so that none means another. */
export function yamlText(value: unknown): string {
  return stringify(value, {
    version: '1.1',
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
}
