/** Parts of user-data. */

import { stringify } from 'yaml';
import type { MinionConfig } from './enrolment.ts';

/** Input from which user-data is generated. */
export interface UserDataInput {
  /** Directory of the minion's configuration. */
  readonly configDir: string;
  readonly config: MinionConfig;
  /** Grains to set on the minion. */
  readonly grains: MinionConfig;
  /** Whether the machine must claim the key that it generates. */
  readonly claims: boolean;
  /** Key pair for the machine, in PEM. Absent if the machine generates one. */
  readonly keys?: { readonly publicPem: string; readonly privatePem: string };
  readonly report: ClaimTarget;
}

/** Destination of the machine's claim and reports of failure. */
interface ClaimTarget {
  /** Address of the bridge. Absent if the machine uses the metadata agent of its network. */
  readonly bridge: ClaimServer | undefined;
  readonly ticket: string;
  /** Whether the claim must name the instance. */
  readonly statesInstance: boolean;
}

/** Bridge as machines reach it directly. */
export interface ClaimServer {
  /** URL of the enrolment routes: `https://…/bridge/v1/enroll`. */
  readonly url: string;
  /** SHA-256 of the bridge's public key (SubjectPublicKeyInfo), base64. */
  readonly publicKeyPin: string;
  /** SHA-256 of the bridge's certificate, in upper-case hex. */
  readonly certificatePin: string;
}

/** One part of user-data. */
export interface UserDataPart {
  readonly type: 'text/cloud-config' | 'text/x-shellscript' | 'text/plain';
  readonly name: string;
  readonly content: string;
}

/** Directory of the minion's configuration in packages of Linux distributions. */
export const defaultConfigDir = '/etc/salt';

/** Returns the minion's key directory, its option `pki_dir`. */
export function pkiDirOf(configDir: string): string {
  return `${configDir}/pki/minion`;
}

/** Masters of a minion. */
export interface MasterAddress {
  /** Addresses, in the order in which the minion tries them. The masters share one key pair. */
  readonly masters: readonly string[];
  /** Port of requests, `ret_port`. */
  readonly requestPort: number;
  /** Fingerprint of the masters' key by `hashType`: hex pairs joined by `:`. */
  readonly fingerprint: string;
  readonly hashType: string;
  /** `zeromq`, `tcp` or `ws`. */
  readonly transport: string;
}

/** Defaults of a Salt minion [salt/config/__init__.py DEFAULT_MINION_OPTS]. */
const minionDefaults = { requestPort: 4506, hashType: 'sha256', transport: 'zeromq' } as const;

/**
 * Returns the configuration of a minion that trusts only these masters.
 * @param more - further options; they cannot change the id and the masters
 */
export function buildMinionConfig(
  id: string,
  { masters, requestPort, fingerprint, hashType, transport }: MasterAddress,
  more: MinionConfig = {},
): MinionConfig {
  const [first = '', ...others] = masters;
  return {
    ...(requestPort === minionDefaults.requestPort ? {} : { master_port: requestPort }),
    ...(transport === minionDefaults.transport ? {} : { transport }),
    ...(others.length === 0 ? {} : { master_type: 'failover' }),
    ...more,
    ...(hashType === minionDefaults.hashType ? {} : { hash_type: hashType }),
    id,
    master: others.length === 0 ? first : [first, ...others],
    master_finger: fingerprint,
  };
}

/**
 * Returns YAML 1.1, which cloud-init and Salt read. Every string is quoted, so that none is read
 * as another type.
 */
export function toQuotedYaml(value: unknown): string {
  return stringify(value, {
    version: '1.1',
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
}
