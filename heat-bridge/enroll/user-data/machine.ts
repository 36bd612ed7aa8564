import type { MinionConfig } from './minion-config.ts';

/** What user-data is to bring about on a machine. */
export interface MachinePlan {
  /** Folder of the minion's configuration. */
  readonly configDir: string;
  readonly config: MinionConfig;
  /** Grains of the minion's own. */
  readonly grains: MinionConfig;
  /** Whether the machine is to claim for the key that it makes. */
  readonly claims: boolean;
  /** The key pair that the machine is to have, PEM. Absent: it makes one. */
  readonly keys?: { readonly publicPem: string; readonly privatePem: string };
  readonly report: ClaimPlan;
}

/** Where the machine claims, or says why it cannot be a minion. */
interface ClaimPlan {
  /** Of the enrolment routes: `https://…/bridge/v1/enroll`. */
  readonly url: string;
  /** SHA-256 of the bridge's public key (SubjectPublicKeyInfo), base64. */
  readonly publicKeyPin: string;
  /** SHA-256 of the bridge's certificate, hex in capitals. */
  readonly certificatePin: string;
  readonly ticket: string;
  /** Whether the claim has to state the instance. */
  readonly statesInstance: boolean;
}

/** One part of user-data. */
export interface UserDataPart {
  readonly type: 'text/cloud-config' | 'text/x-shellscript' | 'text/plain';
  readonly name: string;
  readonly content: string;
}

/** Where the packages of Linux distributions keep the minion's configuration. */
export const usualConfigDir = '/etc/salt';

/** Where it keeps its keys then; its option `pki_dir` says the same. */
export function pkiDirOf(configDir: string): string {
  return `${configDir}/pki/minion`;
}
