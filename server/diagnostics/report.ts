import type { CheckedConfig } from '#config';
import type { KeyInfo, KeySurvey, MasterStatus, MinionInfo } from '#master';

/** Everything that can be wrong. A released code never changes its meaning. */
export const doctorCodes = [
  'auto-accept',
  'check-failed',
  'clock-behind',
  'cluster-alone',
  'cluster-certificate',
  'cluster-clock',
  'cluster-log',
  'cluster-log-failing',
  'cluster-member-away',
  'config-problem',
  'config-warning',
  'coordinator-away',
  'directory-owner',
  'directory-writable',
  'disk-full',
  'file-limit',
  'inodes-full',
  'leftover-file',
  'localclient-enabled',
  'master-unreachable',
  'minion-id-alike',
  'minion-id-unusual',
  'minion-key-denied',
  'minion-key-duplicate',
  'minion-key-pending',
  'minion-key-small',
  'minion-key-unusable',
  'minion-needs-restart',
  'node-version',
  'open-mode',
  'outbox-dead',
  'outbox-slow',
  'own-key-mismatch',
  'own-key-missing',
  'own-key-signature',
  'own-key-small',
  'own-key-unreadable',
  'port-in-use',
  'port-unavailable',
  'protocol-low',
  'reaction-powerless',
  'secret-readable',
  'sha1-refused',
  'socket-path',
  'store-corrupt',
  'store-locked',
  'store-unreadable',
  'store-version',
  'version-differs',
] as const;

/** What is wrong. */
export type DoctorCode = (typeof doctorCodes)[number];

/** One fault. */
export interface DoctorFinding {
  readonly code: DoctorCode;
  /** `error`: the master does not start, or somebody is at risk or locked out. */
  readonly severity: 'error' | 'warning';
  /** The file, port, key or option. */
  readonly subject: string;
  /** What is wrong with it, in one sentence. */
  readonly problem: string;
  /** What to do, in one sentence. */
  readonly remedy: string;
}

/** The whole report. */
export interface DoctorReport {
  /** Errors first. */
  readonly findings: readonly DoctorFinding[];
  /** Whether a master answered on the local socket. */
  readonly isRunning: boolean;
  /** Versions of what the master is made of, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

/** The machine as the checks see it; each member has a default. */
export interface SystemInfo {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Where the kernel tells of processes: `/proc`. */
  readonly procDirectory: string;
  /** The user whom files should belong to; `undefined`: any single one. */
  readonly uid: number | undefined;
  /** Room on the disk that holds a path. */
  readonly diskOf: (path: string) => Promise<DiskRoom>;
  /** Of Node, without the `v`. */
  readonly nodeVersion: string;
  /** Whether signatures over SHA-1 can be made, as all minions expect them. */
  readonly canSignSha1: () => boolean;
}

/** Room on a disk for users other than root. */
export interface DiskRoom {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeInodes: number;
  /** 0 on file systems that make them as needed. */
  readonly totalInodes: number;
}

/** A master that answers on its local socket. */
export interface RunningMaster {
  readonly status: MasterStatus;
  readonly keys: readonly KeyInfo[];
  readonly minions: readonly MinionInfo[];
}

/** What the store of a master that does not run says. */
export interface StoreContent {
  /** Highest protocol version proved, by id. */
  readonly pins: ReadonlyMap<string, number>;
  /** When the latest job was made, in milliseconds since 1970; `undefined`: there is none. */
  readonly latestJobAt: number | undefined;
}

/** What is examined: gathered once, before any check. */
export interface DiagnosticsInput {
  readonly config: CheckedConfig;
  readonly running: RunningMaster | undefined;
  readonly keys: KeySurvey;
  readonly store: StoreContent | undefined;
  readonly world: SystemInfo;
}

/** A check of one thing. */
export type Check = (patient: DiagnosticsInput) => Promise<readonly DoctorFinding[]>;

const named = 10;

/** Some names of many, for one line. */
export function formatList(names: readonly string[]): string {
  const more = names.length > named ? ` and ${names.length - named} more` : '';
  return names.slice(0, named).join(', ') + more;
}
