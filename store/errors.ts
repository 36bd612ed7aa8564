import { describeSystemError, type ErrorEntry, errorMessage, SaltbridgeError } from '#runtime';

/** Error of the store. Identify it by {@link StoreError.code}, because the message may change. */
export class StoreError extends SaltbridgeError<StoreErrorCode> {}

/** Meaning and remedy of every {@link StoreErrorCode}. */
export const storeErrors = {
  ERR_CLUSTER_ALONE: {
    meaning: 'Fewer members of the cluster are running than a write requires. Nothing was written.',
    action: 'Start the other members, or permit this member to continue alone (when_alone: local).',
    retry: true,
  },
  ERR_CLUSTER_BEHIND: {
    meaning:
      'The log of the cluster lacks entries that this store still needs: they were deleted, or the log was created from existing data.',
    action: 'Restore a backup of another member into the directory and restart.',
  },
  ERR_CLUSTER_FOUNDED: {
    meaning: 'The cluster, or its log, already exists and cannot be created again.',
    action:
      'Join the cluster. Or create the log again from the most advanced member, which discards its content.',
  },
  ERR_CLUSTER_LOG: {
    meaning: 'The log of the cluster does not exist, or this version cannot read it.',
    action: 'Run saltbridge cluster init on the first member, or follow the message.',
  },
  ERR_CLUSTER_OUTCOME: {
    meaning:
      'The log or the other members did not confirm a write in time. The write may still take effect.',
    action: 'Read the entries again and repeat the write if necessary.',
    retry: true,
  },
  ERR_CLUSTER_RIGHTS: {
    meaning:
      'The NATS servers reject this member, its user lacks rights, or others can read its credentials.',
    action:
      'Grant the user the rights that docs/cluster.md lists, and make the files readable by their owner only.',
  },
  ERR_CLUSTER_SECRET: {
    meaning: 'The log cannot be decrypted with the configured secret and cluster name.',
    action: 'Use the same secret and name as the other members.',
  },
  ERR_CLUSTER_TICKET: {
    meaning:
      'A ticket to join a cluster is invalid, unknown, used, expired, or belongs to another cluster.',
    action: 'Create a new one with saltbridge cluster ticket. Nothing was changed on this host.',
  },
  ERR_KEY: {
    meaning: 'A key, prefix or name is empty, too long, or not well-formed text.',
    action: 'Correct the caller. The documentation of Key lists the limits.',
  },
  ERR_REVISION: {
    meaning:
      'The revision of an entry did not match the condition of the write. Nothing was written.',
    action: 'Read the entry again and repeat the write if it is still necessary.',
    retry: true,
  },
  ERR_STORE_BACKUP: {
    meaning: 'A backup cannot be written or read at this path, or the file already exists.',
    action:
      'Choose a different file in a directory that the user of the running master can write to.',
  },
  ERR_STORE_CLOSED: {
    meaning: 'The store was used after it was closed.',
    action: 'Open it again, or stop using it before you close it.',
  },
  ERR_STORE_CORRUPT: {
    meaning: 'The files of the store, or a row that the message names, are damaged.',
    action: 'Restore the directory from a backup, or move it away to start with an empty store.',
  },
  ERR_STORE_DIGEST: {
    meaning: 'The content of an exported, imported or copied store differs from the original.',
    action: 'The copy was discarded. Run saltbridge store check on the original and try again.',
  },
  ERR_STORE_DIVERGED: {
    meaning:
      'The store has other entries than the log, or than another member. Nothing was written.',
    action: 'Stop this member. Restore a backup of a correct member, or create the log again.',
  },
  ERR_STORE_FENCED: {
    meaning: 'Another process has taken over the store from this one. Nothing was written.',
    action: 'Stop this process. Never remove the holder-* files of a running master.',
  },
  ERR_STORE_FULL: {
    meaning: 'The disk of the store is full, or a quota is exhausted. Nothing was written.',
    action: 'Free space on the disk. The master detects it within seconds.',
    retry: true,
  },
  ERR_STORE_LOCKED: {
    meaning: 'Another process, or another store of this process, has the directory open.',
    action: 'Stop the other process, or use its local socket. The lock ends with the process.',
    retry: true,
  },
  ERR_STORE_PERMISSIONS: {
    meaning: 'Other users can write to the directory of the store or to a directory above it.',
    action:
      'Make the service user the owner of the directory and remove the write permission of others.',
  },
  ERR_STORE_TOO_LARGE: {
    meaning: 'A write exceeds the maximum size of a log entry. Nothing was written.',
    action: 'Split the write, or raise max_payload of the NATS servers.',
  },
  ERR_STORE_UNAVAILABLE: {
    meaning:
      'The storage engine failed, for example because of a disk failure. Nothing was acknowledged.',
    action: 'Remove the cause that the message names and try again.',
    retry: true,
  },
  ERR_STORE_VERSION: {
    meaning:
      'The directory, or a row in it, was written by a version of this package with a different layout.',
    action: 'Run the version that wrote it, or a later one that can convert it.',
  },
  ERR_WATCH_OVERRUN: {
    meaning: 'A watcher did not read fast enough and missed changes.',
    action: 'Watch again, then list the watched keys.',
    retry: true,
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Code of a store error. {@link storeErrors} explains each code. */
export type StoreErrorCode = keyof typeof storeErrors;

/**
 * Returns an ERR_STORE_UNAVAILABLE for a failure of the engine or the disk. Its message contains
 * the operating system's reason.
 */
export function storeUnavailable(what: string, cause: unknown): StoreError {
  const reason = describeSystemError(cause) ?? errorMessage(cause);
  return new StoreError('ERR_STORE_UNAVAILABLE', `${what}: ${reason}`, { cause });
}

/** Error message when a write fails because the disk is full. */
export const diskFullMessage = 'the disk of the store is full: nothing was written';
