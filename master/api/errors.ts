/** The errors of the master's own work, each with a code that never changes its meaning. */

import { type ErrorEntry, SaltbridgeError } from '#runtime';

export const masterErrors = {
  ERR_ARGS: {
    meaning: 'The call has an argument of the wrong type, or lacks one.',
    action: 'Correct the argument that the message names.',
  },
  ERR_BAD_TGT: {
    meaning:
      'The target cannot be read, takes too long, or goes by grains where secrets are given.',
    action: 'Correct what the message names; --dry-run lists the minions of a target.',
  },
  ERR_EVENT_EXPORT: {
    meaning: 'A receiver of exported events did not take them; they are sent again.',
    action: 'See that the address or file of saltbridge: event_export takes events.',
    retry: true,
  },
  ERR_EXTENSION_CONFLICT: {
    meaning: 'Two extensions of a master claim the same thing, which the message names.',
    action: 'Leave one of the two extensions out of the program, or rename what it adds.',
  },
  ERR_EXTENSION_CYCLE: {
    meaning: 'Extensions of a master require each other in a circle.',
    action: 'Remove one of the names in requires or after that the message shows.',
  },
  ERR_EXTENSION_MISSING: {
    meaning: 'An extension of a master requires another extension or service that is not there.',
    action: 'Add the extension that the message names, or leave out the one that requires it.',
  },
  ERR_FILE_SYSTEM: {
    meaning: 'A file or directory that the master needs to start cannot be made, read or written.',
    action: 'Mend what the message says: room on the disk, a read-only mount, rights, the path.',
    retry: true,
  },
  ERR_GIT: {
    meaning:
      'A repository of git could not be fetched or is beyond a limit; its last state is served.',
    action: 'Correct what the message says: address, credentials, host key, limit, or install git.',
    retry: true,
  },
  ERR_JOB_LIMIT: {
    meaning: 'As many jobs as the master watches at once are under way.',
    action: 'Wait for jobs to end, or publish to more minions in one job.',
    retry: true,
  },
  ERR_JOB_UNKNOWN: {
    meaning: 'No job of this jid is kept.',
    action: 'Look at the list of jobs; they are kept for keep_jobs_seconds, if job_cache is on.',
  },
  ERR_NODEGROUP_LOOP: {
    meaning: 'The target names a nodegroup that contains itself, and matches no minion.',
    action: 'Remove one of the N@ that the message names from nodegroups.',
    retry: false,
  },
  ERR_NODEGROUP_UNKNOWN: {
    meaning: 'The target names a nodegroup that nodegroups does not define.',
    action: 'Define it in the configuration of the master, or correct its name.',
  },
  ERR_NOT_SERVED: {
    meaning: 'Salt has a runner or wheel function of this name, and this master does not.',
    action: 'salt-run -d lists what there is; docs/compatibility.md says what takes its place.',
  },
  ERR_NOT_RELOADABLE: {
    meaning: 'The master has no files to read again: its program gave it its configuration.',
    action: 'Call reload with another configuration in that program.',
  },
  ERR_ORCHESTRATION: {
    meaning: 'An orchestration is beyond a limit: of states, SLS, others beside it, or time.',
    action: 'Look at its SLS; the limits are options under saltbridge: limits.',
  },
  ERR_OWN_KEY: {
    meaning: "The master's own key in pki_dir cannot be read, or does not fit its public half.",
    action: 'Restore master.pem and master.pub from a backup; minions trust only that pair.',
  },
  ERR_PILLAR_FILE: {
    meaning: 'A file of pillar is not UTF-8, is too big, or leads to too many others.',
    action: 'Correct the file that the message names.',
  },
  ERR_PILLAR_SOURCE: {
    meaning: 'A service that pillar is asked of did not answer as it should.',
    action: 'Look at that service; minions ask again.',
    retry: true,
  },
  ERR_RENDERER: {
    meaning: 'A file asks for a renderer that is not served, as `#!py` and `#!gpg` are not.',
    action: 'Write it in Jinja, or have a program give its data; see docs/pillar.md.',
  },
  ERR_RENDER_GIVEN_UP: {
    meaning: 'A file took more time or memory than rendering may, or too many waited for it.',
    action: 'Look for a loop or a repetition without end in the file; minions ask again.',
    retry: true,
  },
  ERR_MASTER_DRAINING: {
    meaning:
      'This member of the cluster is being drained before it is restarted; nothing was done.',
    action: 'Call another member; saltbridge cluster resume lets this one go on.',
    retry: true,
  },
  ERR_MASTER_STOPPED: {
    meaning: 'The master is not running: it has not been started, or is being closed.',
    action: 'Call start() first, or run the command against a running master.',
  },
  ERR_REACTION_UNKNOWN: {
    meaning: 'No reaction of this name is configured.',
    action: 'saltbridge reactions list shows those that are.',
  },
  ERR_READER_DROPPED: {
    meaning: 'A reader of events was too slow; what waited for it is lost to it.',
    action: 'Subscribe again; read faster, or ask for fewer tags.',
    retry: true,
  },
  ERR_RPC_UNKNOWN_METHOD: {
    meaning: 'The local socket knows no such method.',
    action: 'Use a command of the same version as the running master.',
  },
  ERR_RSA_OVERLOAD: {
    meaning: 'More RSA operations are waiting than the queue holds.',
    action: 'Nothing: peers ask again. If it lasts, look for an address that floods sign-ins.',
    retry: true,
  },
  ERR_SEAL: {
    meaning: 'A sealed record in the store does not open with the seal key.',
    action: 'Restore seal.key, or remove the store: every minion then signs in once more.',
  },
  ERR_SOCKET: {
    meaning: 'The local socket cannot be reached or bound.',
    action: 'See that a master runs with this configuration and that you are its user.',
    retry: true,
  },
  ERR_UNKNOWN_FUN: {
    meaning: 'Neither Salt nor this master has a runner or wheel function of this name.',
    action: 'salt-run -d lists what there is.',
  },
} satisfies Readonly<Record<string, ErrorEntry>>;

export type MasterErrorCode = keyof typeof masterErrors;

/** An error of the master, for a caller of the library or the command line. */
export class MasterError extends SaltbridgeError<MasterErrorCode> {}
