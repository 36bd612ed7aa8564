/** Parts of user-data. */

import { stringify } from 'yaml';
import type { MinionConfig } from './enrolment.ts';

/** What user-data is to bring about on a machine. */
export interface UserDataInput {
  /** Folder of the minion's configuration. */
  readonly configDir: string;
  readonly config: MinionConfig;
  /** Grains of the minion's own. */
  readonly grains: MinionConfig;
  /** Whether the machine is to claim for the key that it makes. */
  readonly claims: boolean;
  /** The key pair that the machine is to have, PEM. Absent: it makes one. */
  readonly keys?: { readonly publicPem: string; readonly privatePem: string };
  readonly report: ClaimTarget;
}

/** Where the machine claims, or says why it cannot be a minion. */
interface ClaimTarget {
  /** Absent: the metadata agent of its network. */
  readonly bridge: ClaimServer | undefined;
  readonly ticket: string;
  /** Whether the claim has to state the instance. */
  readonly statesInstance: boolean;
}

/** The bridge as machines reach it themselves. */
export interface ClaimServer {
  /** Of the enrolment routes: `https://…/bridge/v1/enroll`. */
  readonly url: string;
  /** SHA-256 of the bridge's public key (SubjectPublicKeyInfo), base64. */
  readonly publicKeyPin: string;
  /** SHA-256 of the bridge's certificate, hex in capitals. */
  readonly certificatePin: string;
}

/** One part of user-data. */
export interface UserDataPart {
  readonly type: 'text/cloud-config' | 'text/x-shellscript' | 'text/plain';
  readonly name: string;
  readonly content: string;
}

/** Where the packages of Linux distributions keep the minion's configuration. */
export const defaultConfigDir = '/etc/salt';

/** Where it keeps its keys then; its option `pki_dir` says the same. */
export function pkiDirOf(configDir: string): string {
  return `${configDir}/pki/minion`;
}

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
const minionDefaults = { requestPort: 4506, hashType: 'sha256', transport: 'zeromq' } as const;

/**
 * The configuration of a minion that trusts no other master than these.
 * @param more options that win, but for the id and what pins the master
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

/** As YAML 1.1, which cloud-init and Salt read: every text is quoted, so that none means another. */
export function toQuotedYaml(value: unknown): string {
  return stringify(value, {
    version: '1.1',
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
}
