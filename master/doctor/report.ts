/** What a doctor finds. A code, once released, is never given another meaning. */

/** Everything that can be wrong. */
export const doctorCodes = [
  'auto-accept',
  'check-failed',
  'clock-behind',
  'config-problem',
  'config-warning',
  'directory-owner',
  'directory-writable',
  'disk-full',
  'file-limit',
  'inodes-full',
  'leftover-file',
  'master-unreachable',
  'minion-key-denied',
  'minion-key-duplicate',
  'minion-key-pending',
  'minion-key-small',
  'minion-key-unusable',
  'minion-needs-restart',
  'node-version',
  'open-mode',
  'own-key-mismatch',
  'own-key-missing',
  'own-key-signature',
  'own-key-small',
  'own-key-unreadable',
  'port-in-use',
  'port-unavailable',
  'protocol-low',
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
