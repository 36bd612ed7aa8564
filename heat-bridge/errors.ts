/** Errors of the bridge, by code. */

import { type ErrorEntry, SaltbridgeError, type ValuePath } from '#runtime';

/** An error of the bridge, for the person who meets it and for clients over HTTP. */
interface BridgeErrorEntry extends ErrorEntry {
  /** Status of the HTTP answer. */
  readonly status: number;
}

/** Errors of the bridge by code. A code never changes its meaning; docs/errors.md lists them. */
export const bridgeErrors = {
  ERR_BRIDGE_NOT_OPEN: {
    meaning: 'The bridge is not open: its master has not been started, or is being closed.',
    action: 'Give the bridge to createMaster as one of its extensions, and start that master.',
    status: 503,
  },
  ERR_BRIDGE_OPTIONS: {
    meaning:
      'A value under `saltbridge: bridge:`, or given to createBridge, is not what it can be.',
    action: 'Correct the key that the message names; docs/bridge.md lists them.',
    status: 500,
  },
  ERR_CATALOG: {
    meaning:
      'A command or plan of the catalog cannot be used: its form, its function, a schema or a step.',
    action: 'Correct what the message names; `saltbridge bridge lint` finds all such places.',
    status: 500,
  },
  ERR_CFN_INIT: {
    meaning: 'Metadata of `AWS::CloudFormation::Init` cannot be applied as it is given.',
    action: 'Correct the place that the message names; docs/cfn-init.md says what each key may be.',
    status: 400,
  },
  ERR_COMMAND_BUSY: {
    meaning: 'As many runs are active, or followed, as the command or its caller may have.',
    action:
      'Wait for some to end; or raise `concurrency` in the catalog, `bridge: runs:` or `streams_per_token`.',
    retry: true,
    status: 429,
  },
  ERR_COMMAND_DENIED: {
    meaning:
      'No rule permits the caller this command with these parameters on the minions that the target means.',
    action:
      'Ask the operator for a rule of the action `command`; `saltbridge acl explain` says which are near.',
    status: 403,
  },
  ERR_COMMAND_KEY: {
    meaning: 'An idempotency key was used before, for other parameters or another target.',
    action: 'Use a new key for another request, and the same parameters for the same key.',
    status: 409,
  },
  ERR_COMMAND_PARAMETERS: {
    meaning:
      'The parameters of a command or plan do not fit its schema, or a text in them is refused.',
    action:
      'Correct the parameter that the message names; `saltbridge bridge show` describes them.',
    status: 400,
  },
  ERR_COMMAND_TARGET: {
    meaning: 'The target of a command means no accepted minion for certain.',
    action:
      'Name minions whose keys are accepted; `saltbridge salt --dry-run` lists the minions of a target.',
    status: 404,
  },
  ERR_COMMAND_UNKNOWN: {
    meaning: 'No command of this name is in the catalog.',
    action: 'Use one of those that `saltbridge bridge list` shows; names are exact.',
    status: 404,
  },
  ERR_PLAN_GROUPS: {
    meaning: 'The minions given to a plan are not as its groups need them.',
    action:
      'Give each group that the message names its accepted minions, each minion in one group; `saltbridge bridge show` describes them.',
    status: 400,
  },
  ERR_PLAN_UNKNOWN: {
    meaning: 'No plan of this name is in the catalog.',
    action: 'Use one of those that `saltbridge bridge list` shows; names are exact.',
    status: 404,
  },
  ERR_PROJECT: {
    meaning: 'A request names another project than that of its Keystone token.',
    action: 'Leave `project` out, or use a token of that project.',
    status: 403,
  },
  ERR_RUN_UNKNOWN: {
    meaning: 'No run of this id is kept for the caller.',
    action: "Use the id that the caller's own run was answered with; runs are kept for a day.",
    status: 404,
  },
  ERR_ENROLL_ARGS: {
    meaning: 'What was asked of enrolment has a value that it cannot have.',
    action: 'Correct what the message names.',
    status: 400,
  },
  ERR_ENROLL_FAILED: {
    meaning: 'A machine did not become a minion; the message says why.',
    action: 'Mend the cause on the machine or in its image, and begin another enrolment.',
    status: 409,
  },
  ERR_ENROLL_FULL: {
    meaning: 'As many enrolments as may wait for their machine do (`enroll: max_open`).',
    action: 'Wait for some to end, or raise max_open.',
    retry: true,
    status: 503,
  },
  ERR_ENROLL_OFF: {
    meaning: 'Enrolment by ticket, or this way of it, is not switched on.',
    action: 'Set what the message names under saltbridge: bridge: enroll; see docs/enrolment.md.',
    status: 409,
  },
  ERR_ENROLL_TAKEN: {
    meaning: 'The id has a key, or another enrolment has it.',
    action: 'Retire the machine that had it (saltbridge enroll retire), or use another id.',
    status: 409,
  },
  ERR_ENROLL_UNKNOWN: {
    meaning: 'There is no such enrolment.',
    action: 'saltbridge enroll list shows those that there are.',
    status: 404,
  },
  ERR_TICKET: {
    meaning: 'This is no ticket that the bridge made, or not one that it still knows.',
    action: 'Begin another enrolment, and give the machine its ticket unchanged.',
    status: 403,
  },
  ERR_TICKET_BOUND: {
    meaning: 'The ticket was made for another id, instance or address.',
    action: 'Show it for the machine that it was made for, or begin another enrolment.',
    status: 403,
  },
  ERR_TICKET_EXPIRED: {
    meaning: 'The time of the ticket is over.',
    action: 'Begin another enrolment; enroll: ticket_lifetime says how long tickets are good for.',
    status: 403,
  },
  ERR_TICKET_KEY: {
    meaning: 'The file of the key that signs tickets holds none.',
    action: 'Restore enroll/ticket.key, or remove it: tickets that are under way end then.',
    status: 500,
  },
  ERR_TICKET_SPENT: {
    meaning: 'The ticket has had its effect, or was given up; it is good once.',
    action: 'Begin another enrolment; if nobody of yours used it, retire the minion.',
    status: 403,
  },
  ERR_DATA_ALTERED: {
    meaning: 'Something else than this master wrote the value in etcd or ZooKeeper.',
    action:
      'Find out who may write below the prefix; remove the key there, and have its role write it again.',
    status: 409,
  },
  ERR_DATA_BUSY: {
    meaning: 'As many reads of the data space wait as may, of this guest or in all.',
    action: 'Wait for some to end, or read fewer values at a time.',
    retry: true,
    status: 429,
  },
  ERR_DATA_DENIED: {
    meaning: 'The guest may not read or write this value of the data space.',
    action:
      'Declare it in the roles of the stack, and permit the runners `saltbridge_data.*` by a rule.',
    status: 403,
  },
  ERR_DATA_EXISTS: {
    meaning: 'This owner has a data space of this name, or another space has one of the minions.',
    action: 'Choose another name, remove the space that is there, or replace it with --replace.',
    status: 409,
  },
  ERR_DATA_FORM: {
    meaning: 'A data space cannot be registered as it is given, or a template cannot be compiled.',
    action: 'Correct the role, value or field that the message names; docs/guests.md has the form.',
    status: 400,
  },
  ERR_DATA_LIMIT: {
    meaning: 'As many data spaces, or as large ones, as may be are registered.',
    action: 'Remove the spaces of stacks that are no more.',
    retry: true,
    status: 503,
  },
  ERR_DATA_QUOTA: {
    meaning: 'The values of a stack use the bytes that they may, or there are too many of them.',
    action: 'Write less, or raise bytes_per_stack or keys_per_stack under `guests: data:`.',
    status: 413,
  },
  ERR_DATA_TIMEOUT: {
    meaning: 'A value was not written in the time that its reader waits.',
    action: 'Look at the minion that the message names: it is the one that writes the value.',
    retry: true,
    status: 504,
  },
  ERR_DATA_UNAVAILABLE: {
    meaning: 'The etcd or ZooKeeper that keeps the values of data spaces cannot be asked now.',
    action: 'Try again; `saltbridge doctor` and the log of the master say what it lacks.',
    retry: true,
    status: 503,
  },
  ERR_DATA_UNKNOWN: {
    meaning: 'There is no data space of this name, or the guest is in none.',
    action: 'Use a name that `saltbridge bridge data list` prints; register the minion in a role.',
    status: 404,
  },
  ERR_DATA_VALUE: {
    meaning: 'A value of the data space is too long, no text, or text that Salt would interpret.',
    action:
      'Write text of at most 64 KiB in UTF-8; encode what Salt would interpret, such as slots, as base64.',
    status: 400,
  },
  ERR_DATA_WRITTEN: {
    meaning: 'The value was written before, and is declared to be written once.',
    action: 'Declare it `versioned: true` if it changes.',
    status: 409,
  },
  ERR_HANDLE_AMBIGUOUS: {
    meaning: 'Several owners have a handle of this alias, and none of them is named.',
    action: 'Name the owner with --owner; saltbridge bridge handle list shows the owners.',
    status: 409,
  },
  ERR_HANDLE_EXISTS: {
    meaning: 'This owner, or one of these minions, has a handle of this alias already.',
    action: 'Choose another alias, remove the handle, or replace it with --replace.',
    status: 409,
  },
  ERR_HANDLE_FORM: {
    meaning: 'A handle cannot be registered as it is given, or where its signals go is unreadable.',
    action:
      'Correct what the message names; docs/signals.md has every form in which Heat gives one.',
    status: 400,
  },
  ERR_HANDLE_LIMIT: {
    meaning: 'The handles of this owner, or all of them, use as many bytes as they may.',
    action:
      'Remove handles that are no longer used (those that have ended go after a day), or raise handle_bytes_per_owner or handle_bytes.',
    retry: true,
    status: 503,
  },
  ERR_HANDLE_UNKNOWN: {
    meaning: 'No handle of this alias is registered, or not the one that a signal was for.',
    action: 'saltbridge bridge handle list shows those there are.',
    status: 404,
  },
  ERR_SIGNAL_QUOTA: {
    meaning: 'The outbox is full, in all or for this minion or stack.',
    action: 'Wait until signals are delivered, drop some, or raise the quota that is named.',
    retry: true,
    status: 503,
  },
  ERR_SIGNAL_UNKNOWN: {
    meaning: 'The outbox has no such signal, or not in the state that this needs.',
    action: 'saltbridge bridge outbox list shows those there are.',
    status: 404,
  },
  ERR_STACK_EXISTS: {
    meaning: 'This owner has registered a stack under this name already.',
    action: 'Choose another name, remove the stack, or replace it with --replace.',
    status: 409,
  },
  ERR_STACK_FORM: {
    meaning: 'A stack cannot be registered as it is given.',
    action: 'Correct the field that the message names; docs/deployments.md lists them.',
    status: 400,
  },
  ERR_STACK_LIMIT: {
    meaning: 'As many stacks as may be are registered, or a registration is too large.',
    action: 'Remove stacks that are no longer used, or register fewer servers at a time.',
    retry: true,
    status: 503,
  },
  ERR_STACK_UNKNOWN: {
    meaning: 'No stack is registered under this name, or several owners have one.',
    action: 'Use a name that `saltbridge bridge stack list` prints, and name the owner.',
    status: 404,
  },
} as const satisfies Readonly<Record<string, BridgeErrorEntry>>;

/** Code of an error of the bridge. */
export type BridgeErrorCode = keyof typeof bridgeErrors;

/** The bridge cannot do what it was asked for. The message says what to do, and no secret. */
export class BridgeError extends SaltbridgeError<BridgeErrorCode> {}

/** What is wrong with a part of a definition of the catalog. */
export interface DefinitionMistake {
  /** Names of fields and places in lists, from the definition on; empty: the whole of it. */
  readonly path: ValuePath;
  readonly problem: string;
  /** The name that an unknown one probably stands for. */
  readonly meant?: string | undefined;
}

/** Definitions of the catalog that cannot be used: ERR_CATALOG. */
export class CatalogError extends BridgeError {
  declare readonly mistakes: readonly DefinitionMistake[];

  constructor(name: string, mistakes: readonly DefinitionMistake[], options?: ErrorOptions) {
    super('ERR_CATALOG', mistakes.map((it) => describeMistake(name, it)).join('\n'), options);
    // A log would show them twice.
    Object.defineProperty(this, 'mistakes', { value: mistakes, enumerable: false });
  }
}

/** With the name of the definition and the field. */
export function describeMistake(name: string, { path, problem }: DefinitionMistake): string {
  return [name, ...(path.length === 0 ? [] : [path.join('.')]), problem].join(': ');
}
