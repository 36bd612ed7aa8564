/** Parts of the user-data with which a machine enrols. */

import { stringify } from 'yaml';
import type { MinionConfig } from './enrolment.ts';

/** Input from which the parts of user-data are generated. */
export interface UserDataInput {
  /** Directory of the minion's configuration. */
  readonly configDir: string;
  readonly config: MinionConfig;
  /** Grains to set on the minion. */
  readonly grains: MinionConfig;
  /** Whether the machine generates its key pair, and must claim its ticket. */
  readonly claims: boolean;
  /** Key pair for the machine, in PEM. Absent if the machine generates its own. */
  readonly keys?: { readonly publicPem: string; readonly privatePem: string };
  readonly report: ClaimTarget;
}

/** Address to which the machine sends its claim and its reports of failure. */
interface ClaimTarget {
  /**
   * Bridge that the machine calls directly. Absent if it calls the metadata agent of its network.
   */
  readonly bridge: ClaimServer | undefined;
  readonly ticket: string;
  /** Whether the machine must send the name of its instance when it claims its ticket. */
  readonly statesInstance: boolean;
}

/** Address and fingerprints of the bridge, for machines that call the bridge directly. */
export interface ClaimServer {
  /** URL of the enrolment routes: `https://…/bridge/v1/enroll`. */
  readonly url: string;
  /** SHA-256 of the bridge's public key (SubjectPublicKeyInfo), base64. */
  readonly publicKeyPin: string;
  /** SHA-256 of the bridge's certificate, in upper-case hex. */
  readonly certificatePin: string;
}

/** Part of user-data, with its MIME type and file name. */
export interface UserDataPart {
  readonly type: 'text/cloud-config' | 'text/x-shellscript' | 'text/plain';
  readonly name: string;
  readonly content: string;
}

/** Directory of the minion's configuration in packages of Linux distributions. */
export const defaultConfigDir = '/etc/salt';

/** Returns the directory of the minion's keys (its option `pki_dir`). */
export function pkiDirOf(configDir: string): string {
  return `${configDir}/pki/minion`;
}

/** Masters to which a minion connects. */
export interface MasterAddress {
  /** Addresses, in the order in which the minion tries them. The masters share one key pair. */
  readonly masters: readonly string[];
  /** Port to which the minion sends requests: `ret_port` of the masters. */
  readonly requestPort: number;
  /** Fingerprint of the masters' key, computed with `hashType`: hex pairs joined by `:`. */
  readonly fingerprint: string;
  readonly hashType: string;
  /** Transport: `zeromq`, `tcp` or `ws`. */
  readonly transport: string;
}

/**
 * Defaults of Salt's minion [salt/config/__init__.py DEFAULT_MINION_OPTS]. Options with these
 * values are omitted.
 */
const minionDefaults = { requestPort: 4506, hashType: 'sha256', transport: 'zeromq' } as const;

/**
 * Returns the configuration of a minion that trusts only these masters.
 * @param more - further options of the minion. They cannot replace the id and the masters.
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
 * Formats a value as YAML 1.1, for cloud-init and Salt. Every string is quoted, so that none is
 * parsed as another type.
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
