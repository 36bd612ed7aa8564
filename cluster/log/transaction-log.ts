/** What the store needs of a replicated log. JetStream is one; tests have one in memory. */

/** An entry of a log. */
export interface LogEntry {
  /** Grows by one from entry to entry; a position is never given out again. */
  readonly position: number;
  readonly bytes: Uint8Array;
}

/** The state of a log. */
export interface LogHealth {
  /** Position of the oldest entry that is kept; one more than `last` if there is none. */
  readonly first: number;
  /** Position of the newest entry; 0 for a log that never had one. */
  readonly last: number;
  /** Copies of the log, the leader's among them; `undefined` if the log does not tell. */
  readonly replicas: number | undefined;
  /** How many of them are up to date and reachable. */
  readonly currentReplicas: number | undefined;
  /** Program and version, for instance `nats-server 2.12.1`. */
  readonly server: string | undefined;
  /** What this member's user may do at the servers, and no member needs. Default: nothing. */
  readonly excessRights?: readonly string[];
}

/** The first nats-server that can be told when to write to disk. */
const firstWithSyncInterval = [2, 10];
const recommended = [2, 12];

/** What an operator should know of the servers of a log; nothing where all is as recommended. */
export function logWarnings({
  replicas,
  currentReplicas,
  server = '',
  excessRights = [],
}: LogHealth): string[] {
  const warnings: string[] = [];
  if (replicas !== undefined && replicas < 3) {
    warnings.push(`the log has ${replicas} copies: with fewer than 3 no server may be lost`);
  }
  if (replicas !== undefined && currentReplicas !== undefined && currentReplicas < replicas) {
    warnings.push(`${currentReplicas} of ${replicas} copies of the log are up to date`);
  }
  if (excessRights.length > 0) {
    const rights = excessRights.join(', and to ');
    warnings.push(`the NATS user of this member has the right to ${rights}: no member needs it`);
  }
  const version = versionOf(server);
  if (version === undefined) return warnings;
  if (isBefore(version, firstWithSyncInterval)) {
    warnings.push(
      `${server} writes to disk once a minute: after a power failure of all servers the end of the log is missing`,
    );
  } else {
    warnings.push(`${server}: see that sync_interval is "always"; no client can ask for it`);
  }
  if (!isRecommended(server)) warnings.push(`${server} is older than 2.12`);
  return warnings;
}

/** @param server - see {@link LogHealth.server} */
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
  /** Longer entries are refused. */
  readonly maxEntryBytes: number;
  /**
   * Appends an entry; resolves with its position once it is replicated. With an id that it has
   * already it appends nothing, and gives the position of the first one.
   * @throws LogUnavailableError whether it was appended or not
   */
  append(id: string, bytes: Uint8Array): Promise<number>;
  /**
   * Entries from a position on, in order, and those that come later, until the signal. Begins with
   * the oldest one where `from` was trimmed.
   */
  read(from: number, signal: AbortSignal): AsyncIterable<LogEntry>;
  /**
   * The entry at a position; `undefined` if there is none.
   * @throws LogUnavailableError
   */
  entry(position: number): Promise<LogEntry | undefined>;
  /** Forgets all entries up to and including `to`. @throws LogUnavailableError */
  trim(to: number): Promise<void>;
  /** @throws LogUnavailableError */
  health(): Promise<LogHealth>;
  /** Sends a message to all members that are connected; it may be lost. */
  announce(bytes: Uint8Array): void;
  /** Messages that members announce, one's own among them, until the signal. */
  onAnnouncement(listener: (bytes: Uint8Array) => void, signal: AbortSignal): void;
  close(): Promise<void>;
}

/** The log did not answer, has no leader, or cannot be reached. The same call may succeed later. */
export class LogUnavailableError extends Error {
  override readonly name = 'LogUnavailableError';
}
