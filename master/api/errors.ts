/** Meaning and remedy of the master's own error codes. The meaning of a code never changes. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

export const masterErrors = {
  ERR_ARGS: {
    meaning: 'An argument of the call is missing or has the wrong type.',
    action: 'Correct the argument that the message names.',
  },
  ERR_BAD_TGT: {
    meaning: 'The target is invalid, takes too long, or matches grains where secrets are sent.',
    action: 'Correct what the message names; --dry-run lists the minions of a target.',
  },
  ERR_EVENT_EXPORT: {
    meaning: 'A receiver of exported events did not accept them; the master sends them again.',
    action: 'Check that the address or file in saltbridge: event_export accepts events.',
    retry: true,
  },
  ERR_EXTENSION_CONFLICT: {
    meaning: 'Two extensions of a master define the same name, which the message states.',
    action: 'Remove one of the two extensions, or rename the part that it adds.',
  },
  ERR_EXTENSION_CYCLE: {
    meaning: 'Extensions of a master depend on each other in a cycle.',
    action: 'Remove one of the names in requires or after that the message lists.',
  },
  ERR_EXTENSION_MISSING: {
    meaning: 'An extension of a master requires another extension or service that is missing.',
    action: 'Add the extension that the message names, or remove the one that requires it.',
  },
  ERR_FILE_SYSTEM: {
    meaning: 'A file or directory that the master needs cannot be created, read or written.',
    action: 'Fix the cause in the message: disk space, a read-only mount, permissions, the path.',
    retry: true,
  },
  ERR_GIT: {
    meaning: 'A git repository could not be fetched or exceeds a limit; its last state is served.',
    action: 'Fix the cause in the message: address, credentials, host key, limit, or missing git.',
    retry: true,
  },
  ERR_JOB_LIMIT: {
    meaning: 'The maximum number of concurrent jobs is running.',
    action: 'Wait until jobs end, or publish to more minions in one job.',
    retry: true,
  },
  ERR_JOB_UNKNOWN: {
    meaning: 'No job with this jid is stored.',
    action: 'List the jobs; they are stored for keep_jobs_seconds if job_cache is enabled.',
  },
  ERR_NODEGROUP_LOOP: {
    meaning: 'The target names a nodegroup that contains itself, and matches no minion.',
    action: 'In nodegroups, remove one of the N@ references that the message lists.',
    retry: false,
  },
  ERR_NODEGROUP_UNKNOWN: {
    meaning: 'The target names a nodegroup that nodegroups does not define.',
    action: 'Define it in the master configuration, or correct its name.',
  },
  ERR_NOT_SERVED: {
    meaning: 'Salt has a runner or wheel function of this name, but this master does not serve it.',
    action: 'Use the alternative in the message; salt-run -d lists the available functions.',
  },
  ERR_NOT_RELOADABLE: {
    meaning: 'The master has no files to reload: the program supplied its configuration.',
    action: 'Call reload with a new configuration in that program.',
  },
  ERR_ORCHESTRATION: {
    meaning: 'An orchestration exceeds a limit: states, SLS files, concurrent runs or time.',
    action: 'Check its SLS files; the limits are options under saltbridge: limits.',
  },
  ERR_OWN_KEY: {
    meaning: "The master's own key in pki_dir cannot be read, or does not match its public key.",
    action: 'Restore master.pem and master.pub from a backup; minions trust only that pair.',
  },
  ERR_PILLAR_FILE: {
    meaning: 'A pillar file is not UTF-8, is too large, or includes too many others.',
    action: 'Correct the file that the message names.',
  },
  ERR_PILLAR_SOURCE: {
    meaning: 'A service that supplies pillar data failed or sent an invalid response.',
    action: 'Check that service; minions repeat the request.',
    retry: true,
  },
  ERR_RENDERER: {
    meaning: 'A file requests an unsupported renderer, such as `#!py` or `#!gpg`.',
    action: 'Write it in Jinja, or supply its data from a program; see docs/pillar.md.',
  },
  ERR_RENDER_GIVEN_UP: {
    meaning: 'Rendering a file exceeded its time or memory limit, or too many requests waited.',
    action: 'Look for an endless loop or repetition in the file; minions repeat the request.',
    retry: true,
  },
  ERR_MASTER_DRAINING: {
    meaning: 'This member of the cluster is draining before a restart; the call had no effect.',
    action: 'Call another member, or run saltbridge cluster resume on this one.',
    retry: true,
  },
  ERR_MASTER_STOPPED: {
    meaning: 'The master is not running: it has not started, or is closing.',
    action: 'Call start() first, or run the command against a running master.',
  },
  ERR_REACTION_UNKNOWN: {
    meaning: 'No reaction of this name is configured.',
    action: 'List the configured ones with saltbridge reactions list.',
  },
  ERR_READER_DROPPED: {
    meaning: 'An event subscriber was too slow; its pending events were dropped.',
    action: 'Subscribe again; read faster, or subscribe to fewer tags.',
    retry: true,
  },
  ERR_RPC_UNKNOWN_METHOD: {
    meaning: 'The local socket has no method of this name.',
    action: 'Use a command of the same version as the running master.',
  },
  ERR_RSA_OVERLOAD: {
    meaning: 'The queue of RSA operations is full.',
    action:
      'No action is necessary: minions retry. If the error persists, find the address that sends many sign-ins.',
    retry: true,
  },
  ERR_SEAL: {
    meaning: 'A sealed record in the store cannot be decrypted with the seal key.',
    action: 'Restore seal.key, or remove the store; every minion then signs in again.',
  },
  ERR_SOCKET: {
    meaning: 'The local socket cannot be reached or bound.',
    action: 'Check that a master runs with this configuration and that you are its user.',
    retry: true,
  },
  ERR_UNKNOWN_FUN: {
    meaning: 'No runner or wheel function of this name exists, in Salt or in this master.',
    action: 'salt-run -d lists the available functions.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

/** Codes of {@link MasterError}. docs/errors.md has the causes and remedies. */
export type MasterErrorCode = keyof typeof masterErrors;

/** Error of the master that the library and the command line report to their users. */
export class MasterError extends SaltbridgeError<MasterErrorCode> {}
