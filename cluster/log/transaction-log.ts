/**
 * Interface of the replicated log on which a cluster's store is based. JetStream implements it.
 * Tests use an implementation in memory.
 */

/** An entry of a log. */
export interface LogEntry {
  /** Position: one more than the position of the previous entry. Positions are never reused. */
  readonly position: number;
  readonly bytes: Uint8Array;
}

/** State of a log. */
export interface LogHealth {
  /** Position of the oldest entry in the log. If the log is empty, `last` plus one. */
  readonly first: number;
  /** Position of the newest entry. 0 if the log never had an entry. */
  readonly last: number;
  /** Number of replicas of the log, including the leader. `undefined` if it is not known. */
  readonly replicas: number | undefined;
  /** Number of replicas that are reachable and up to date. */
  readonly currentReplicas: number | undefined;
  /** Program and version of the server, for example `nats-server 2.12.1`. */
  readonly server: string | undefined;
  /**
   * Rights that this member's user has at the log server, although no member needs them. Default:
   * none.
   */
  readonly excessRights?: readonly string[];
}

/**
 * First version of nats-server in which `sync_interval` can be configured: how often the server
 * forces its writes to disk.
 */
const firstWithSyncInterval = [2, 10];
const recommended = [2, 12];

/**
 * Returns warnings for the operator about the servers of a log. Empty if they are set up as
 * recommended.
 */
export function logWarnings({
  replicas,
  currentReplicas,
  server = '',
  excessRights = [],
}: LogHealth): string[] {
  const warnings: string[] = [];
  if (replicas !== undefined && replicas < 3) {
    warnings.push(
      `the log has ${replicas} replicas; with fewer than 3, it does not survive the loss of a server`,
    );
  }
  if (replicas !== undefined && currentReplicas !== undefined && currentReplicas < replicas) {
    warnings.push(`only ${currentReplicas} of ${replicas} replicas of the log are up to date`);
  }
  if (excessRights.length > 0) {
    const rights = excessRights.join(', and to ');
    warnings.push(
      `the NATS user of this member has the right to ${rights}, which no member needs; remove it`,
    );
  }
  const version = versionOf(server);
  if (version === undefined) return warnings;
  if (isBefore(version, firstWithSyncInterval)) {
    warnings.push(
      `${server} synchronises its disk once a minute: if all NATS servers lose power, the last entries of the log are lost`,
    );
  } else {
    warnings.push(
      `${server}: check that its configuration sets sync_interval to "always"; saltbridge cannot query this setting`,
    );
  }
  if (!isRecommended(server)) warnings.push(`${server} is older than the recommended version 2.12`);
  return warnings;
}

/**
 * Whether the server has at least the recommended version.
 * @param server - program and version, for example `nats-server 2.12.1`
 */
export function isRecommended(server: string): boolean {
  const version = versionOf(server);
  return version !== undefined && !isBefore(version, recommended);
}

function versionOf(server: string): number[] | undefined {
  const [, major, minor] = /^nats-server (\d+)\.(\d+)/.exec(server) ?? [];
  return major === undefined ? undefined : [Number(major), Number(minor)];
}

function isBefore(
  [major = 0, minor = 0]: number[],
  [other = 0, otherMinor = 0]: number[],
): boolean {
  return major < other || (major === other && minor < otherMinor);
}

/** An ordered log that several members append to and read. */
export interface TransactionLog {
  /** Maximum size of an entry, in bytes. Longer entries are rejected. */
  readonly maxEntryBytes: number;
  /**
   * Appends an entry. The promise resolves with its position when the entry is replicated. If the
   * log already contains an entry with this id, nothing is appended and the position of that entry
   * is returned.
   * @throws LogUnavailableError; the entry may or may not have been appended
   */
  append(id: string, bytes: Uint8Array): Promise<number>;
  /**
   * Reads entries in order from a position on, and then new entries as they arrive, until the
   * signal is aborted. If entries at `from` were already trimmed, begins with the oldest entry.
   */
  read(from: number, signal: AbortSignal): AsyncIterable<LogEntry>;
  /**
   * Returns the entry at a position, or `undefined` if the log does not contain it.
   * @throws LogUnavailableError
   */
  entry(position: number): Promise<LogEntry | undefined>;
  /**
   * Deletes all entries up to and including `to`.
   * @throws LogUnavailableError
   */
  trim(to: number): Promise<void>;
  /**
   * Returns the state of the log.
   * @throws LogUnavailableError
   */
  health(): Promise<LogHealth>;
  /** Sends a message to all connected members. The message may be lost. */
  announce(bytes: Uint8Array): void;
  /**
   * Registers a listener for the announcements of all members, including this one. The listener is
   * removed when the signal is aborted.
   */
  onAnnouncement(listener: (bytes: Uint8Array) => void, signal: AbortSignal): void;
  close(): Promise<void>;
}

/**
 * Error for a log that did not respond, has no leader, or is unreachable. The same call may succeed
 * later.
 */
export class LogUnavailableError extends Error {
  override readonly name = 'LogUnavailableError';
}
