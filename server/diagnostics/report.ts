import type { CheckedConfig } from '#config';
import type { KeyInfo, MasterStatus, MinionInfo } from '#master';
import { formatNames } from '#runtime';
import type { KeySurvey } from './key-survey.ts';

/** Codes of all findings. The meaning of a released code never changes. */
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
  'cluster-stale',
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

/** Code that names the kind of a finding, for example `clock-behind`. */
export type DoctorCode = (typeof doctorCodes)[number];

/** Problem that a check has found, with its remedy. */
export interface DoctorFinding {
  readonly code: DoctorCode;
  /**
   * Severity. `error`: the master cannot start, or its security or access to it is at risk.
   * `warning`: everything else.
   */
  readonly severity: 'error' | 'warning';
  /** File, port, key or option that the finding is about. */
  readonly subject: string;
  /** Problem, in one sentence. */
  readonly problem: string;
  /** Remedy, in one sentence. */
  readonly remedy: string;
}

/** Report of {@link runDoctor}: the findings of all checks. */
export interface DoctorReport {
  /** Findings, errors first. */
  readonly findings: readonly DoctorFinding[];
  /** Whether a master answered on the local socket. */
  readonly isRunning: boolean;
  /** Versions of the master's components, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Functions and values through which the checks examine the machine. Tests can replace them. */
export interface SystemInfo {
  /** Returns the current time in milliseconds since 1970. */
  readonly now: () => number;
  /** Directory with process information. Default: `/proc`. */
  readonly procDirectory: string;
  /**
   * User id that should own the master's directories. If `undefined`, any user may own them, but
   * all must have the same owner.
   */
  readonly uid: number | undefined;
  /** Returns the free space of the disk that contains a path. */
  readonly diskOf: (path: string) => Promise<DiskRoom>;
  /** Version of Node.js, without the `v`. */
  readonly nodeVersion: string;
  /** Returns whether SHA-1 signatures can be created. All minions require such signatures. */
  readonly canSignSha1: () => boolean;
}

/** Disk space that is available to users other than root. */
export interface DiskRoom {
  readonly freeBytes: number;
  readonly totalBytes: number;
  readonly freeInodes: number;
  /** Total number of inodes. 0 for file systems that create inodes on demand. */
  readonly totalInodes: number;
}

/** A master that answers on its local socket. */
export interface RunningMaster {
  readonly status: MasterStatus;
  readonly keys: readonly KeyInfo[];
  readonly minions: readonly MinionInfo[];
}

/** Content of the store, read while the master is not running. */
export interface StoreContent {
  /** Highest protocol version that each minion id has used to sign in. */
  readonly pins: ReadonlyMap<string, number>;
  /** Time of the latest stored job, in milliseconds since 1970, or `undefined` if there is none. */
  readonly latestJobAt: number | undefined;
}

/** Input of the checks. It is collected before the first check runs. */
export interface DiagnosticsInput {
  readonly config: CheckedConfig;
  readonly running: RunningMaster | undefined;
  readonly keys: KeySurvey;
  readonly store: StoreContent | undefined;
  readonly world: SystemInfo;
}

/** Function that checks one area and returns its findings. */
export type Check = (patient: DiagnosticsInput) => Promise<readonly DoctorFinding[]>;

const named = 10;

/** Returns at most ten names of a list as one line of text, with the number of the others. */
export function formatList(names: readonly string[]): string {
  return formatNames(names, named);
}
