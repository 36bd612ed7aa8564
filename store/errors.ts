import { describeSystemError, type ErrorEntry, SaltbridgeError } from '#runtime';

/** What the store could not do. Recognise it by {@link StoreError.code}, never by its text. */
export class StoreError extends SaltbridgeError<StoreErrorCode> {}

/** The catalogue of {@link StoreErrorCode}. */
export const storeErrors = {
  ERR_CLUSTER_ALONE: {
    meaning: 'Fewer members of the cluster are alive than must keep a write; nothing was written.',
    action: 'Start the other members, or let this one go on alone (whenAlone: local).',
    retry: true,
  },
  ERR_CLUSTER_BEHIND: {
    meaning: 'The log no longer has the entries that this store lacks, or began with more than it.',
    action: 'Restore a backup of another member into the directory, and start again.',
  },
  ERR_CLUSTER_FOUNDED: {
    meaning: 'A log is to be founded where there is one.',
    action: 'Join it, or found it anew from the most advanced member, which forgets what it holds.',
  },
  ERR_CLUSTER_LOG: {
    meaning: 'There is no log yet, or it is not what a log of this version is.',
    action: 'Found the log with the first member; see the message.',
  },
  ERR_CLUSTER_OUTCOME: {
    meaning: 'The log or the other members did not confirm a write in time: it may take effect.',
    action: 'Read what was to be written, and decide again.',
    retry: true,
  },
  ERR_CLUSTER_RIGHTS: {
    meaning:
      'The NATS servers do not let this member in, its user may not do what a member does, or others can read its credentials.',
    action: 'Give the user the rights that docs/cluster.md lists, and the files to their owner.',
  },
  ERR_CLUSTER_SECRET: {
    meaning: 'The log does not open with the secret and the name of the cluster that were given.',
    action: 'Use the secret and the name that the other members have.',
  },
  ERR_CLUSTER_TICKET: {
    meaning:
      'A ticket to join a cluster is unknown, used, too old, of another cluster, or no ticket.',
    action: 'Make a new one with saltbridge cluster ticket; nothing was changed here.',
  },
  ERR_KEY: {
    meaning: 'A key, prefix or name is empty, too long or not well-formed text.',
    action: 'Correct the caller; the limits are in the documentation of Key.',
  },
  ERR_REVISION: {
    meaning:
      'An entry had another revision than the write was conditional on; nothing was written.',
    action: 'Read the entry again, decide again, write again.',
    retry: true,
  },
  ERR_STORE_BACKUP: {
    meaning: 'A backup cannot be written there or read from there, or the name is taken.',
    action: 'Choose another file, in a folder that the user of the running master may write to.',
  },
  ERR_STORE_CLOSED: {
    meaning: 'The store was used after it had been closed.',
    action: 'Open it again, or stop using it before closing it.',
  },
  ERR_STORE_CORRUPT: {
    meaning:
      'The files of the store, or a row that the message names, are not what this store writes.',
    action: 'Restore the directory from a backup, or move it away to begin with an empty store.',
  },
  ERR_STORE_DIGEST: {
    meaning: 'A store that was exported, imported or copied has another content than the original.',
    action: 'Nothing was kept of it. Run saltbridge store check on the original, and try again.',
  },
  ERR_STORE_DIVERGED: {
    meaning:
      'The store and the log, or two members, do not have the same history; nothing was kept.',
    action: 'Stop this member. Restore a backup of a member that is right, or found the log anew.',
  },
  ERR_STORE_FENCED: {
    meaning: 'Another process has taken the store over from this one; nothing was kept.',
    action: 'Stop this process. Nobody may remove the holder-* files of a running master.',
  },
  ERR_STORE_FULL: {
    meaning: 'The disk of the store is full, or a quota is used up; nothing was kept.',
    action: 'Make room on that disk. The master notices by itself, within seconds.',
    retry: true,
  },
  ERR_STORE_LOCKED: {
    meaning: 'Another process, or another store of this process, has the directory open.',
    action: 'Stop the other process, or go through its local socket; the lock ends with it.',
    retry: true,
  },
  ERR_STORE_PERMISSIONS: {
    meaning: 'Others could write to the directory of the store or to a directory above it.',
    action: 'Give the directory to the service user and take the write permission from the others.',
  },
  ERR_STORE_TOO_LARGE: {
    meaning: 'A write is larger than an entry of the log may be; nothing was written.',
    action: 'Split the write, or raise max_payload of the NATS servers.',
  },
  ERR_STORE_UNAVAILABLE: {
    meaning: 'The engine failed, for instance because the disk did; nothing was acknowledged.',
    action: 'Look at the cause, free the resource it names, try again.',
    retry: true,
  },
  ERR_STORE_VERSION: {
    meaning:
      'The directory, or a row in it, was written by a version of this package with another layout.',
    action: 'Run the version that wrote it, or a later one that can convert it.',
  },
  ERR_WATCH_OVERRUN: {
    meaning: 'A watcher did not read fast enough and changes were dropped for it.',
    action: 'Watch again, then list what was being watched.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Why a store call failed; what each means is in {@link storeErrors}. */
export type StoreErrorCode = keyof typeof storeErrors;

/** The engine or the disk failed; the operating system's reason is said. */
export function storeUnavailable(what: string, cause: unknown): StoreError {
  const reason =
    describeSystemError(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new StoreError('ERR_STORE_UNAVAILABLE', `${what}: ${reason}`, { cause });
}

/** The words for a write that found no room. */
export const diskFullMessage = 'the disk of the store is full: nothing was kept';
