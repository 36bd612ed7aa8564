/** Errors of the bridge: their codes, HTTP statuses, meanings and remedies. */

import { type ErrorEntry, SaltbridgeError, type ValuePath } from '#runtime';

/** Description of an error code, for documentation and for HTTP responses. */
interface BridgeErrorEntry extends ErrorEntry {
  /** HTTP status of the response. */
  readonly status: number;
}

/**
 * Descriptions of all error codes. The meaning of a code never changes. docs/errors.md lists them.
 */
export const bridgeErrors = {
  ERR_BRIDGE_NOT_OPEN: {
    meaning: 'The bridge is not open: its master has not started, or is closing.',
    action: 'Pass the bridge to createMaster in `extensions`, and start that master.',
    status: 503,
  },
  ERR_BRIDGE_OPTIONS: {
    meaning: 'A value under `saltbridge: bridge:`, or an option of createBridge, is invalid.',
    action:
      'Correct the option that the message names; docs/README.md lists the page of each section.',
    status: 500,
  },
  ERR_CATALOG: {
    meaning:
      'A command or plan of the catalog is invalid: its form, its function, a schema or a step.',
    action: 'Correct the field that the message names; `saltbridge bridge lint` finds all errors.',
    status: 500,
  },
  ERR_CFN_INIT: {
    meaning: 'Metadata of `AWS::CloudFormation::Init` is invalid.',
    action: 'Correct the field that the message names; docs/cfn-init.md describes each key.',
    status: 400,
  },
  ERR_COMMAND_BUSY: {
    meaning:
      'Too many runs of the command or its caller are active, or too many runs are being watched.',
    action:
      'Wait until some runs end, or raise `concurrency` in the catalog, `bridge: runs:` or `streams_per_token`.',
    retry: true,
    status: 429,
  },
  ERR_COMMAND_DENIED: {
    meaning:
      'No rule permits the caller to run this command with these parameters on all minions of the target.',
    action:
      'Ask the operator for a rule of the action `command`; `saltbridge acl explain` shows similar rules.',
    status: 403,
  },
  ERR_COMMAND_KEY: {
    meaning: 'The idempotency key was used before with other parameters or another target.',
    action: 'Use a new key for a new request, and repeat a key only with the same parameters.',
    status: 409,
  },
  ERR_COMMAND_PARAMETERS: {
    meaning:
      'The parameters of a command or plan do not match its schema, or contain text that Salt would interpret.',
    action:
      'Correct the parameter that the message names; `saltbridge bridge show` describes them.',
    status: 400,
  },
  ERR_COMMAND_TARGET: {
    meaning:
      'The target of a command matches no minion with an accepted key, or only minions whose facts are unknown, or it lists too many names that do not receive the command.',
    action:
      'Name minions with accepted keys; `saltbridge salt --dry-run` lists the minions of a target.',
    status: 404,
  },
  ERR_COMMAND_UNKNOWN: {
    meaning: 'The catalog has no command with this name.',
    action: 'Use a name that `saltbridge bridge list` shows; names must match exactly.',
    status: 404,
  },
  ERR_PLAN_GROUPS: {
    meaning: 'The minions given to a plan do not match its groups.',
    action:
      'For each group in the message, name minions with accepted keys; no minion may be in two groups; `saltbridge bridge show` describes the groups.',
    status: 400,
  },
  ERR_PLAN_UNKNOWN: {
    meaning: 'The catalog has no plan with this name that the caller may run.',
    action: 'Use a name that `saltbridge bridge list` shows; names must match exactly.',
    status: 404,
  },
  ERR_PROJECT: {
    meaning: 'The project of the request does not match the project of its Keystone token.',
    action: 'Omit `project`, or use a token of that project.',
    status: 403,
  },
  ERR_RUN_UNKNOWN: {
    meaning: 'The caller has no run with this id.',
    action: 'Use the id of a run that the same caller started; runs are stored for a day.',
    status: 404,
  },
  ERR_ENROLL_ARGS: {
    meaning: 'A request for enrolment has an invalid value.',
    action: 'Correct the field that the message names.',
    status: 400,
  },
  ERR_ENROLL_FAILED: {
    meaning: 'A machine did not become a minion. The message contains the reason.',
    action: 'Fix the cause on the machine or in its image, and create a new enrolment.',
    status: 409,
  },
  ERR_ENROLL_FULL: {
    meaning: 'Too many enrolments wait for a claim by their machine (`enroll: max_open`).',
    action: 'Wait until some enrolments end, or raise `max_open`.',
    retry: true,
    status: 503,
  },
  ERR_ENROLL_OFF: {
    meaning: 'Enrolment by ticket, or this method of it, is disabled.',
    action:
      'Set the option that the message names under saltbridge: bridge: enroll; see docs/enrolment.md.',
    status: 409,
  },
  ERR_ENROLL_TAKEN: {
    meaning: 'The id already has a key or another enrolment.',
    action: 'Retire the machine that has the id (saltbridge enroll retire), or use another id.',
    status: 409,
  },
  ERR_ENROLL_UNKNOWN: {
    meaning: 'The enrolment does not exist.',
    action: 'Use an enrolment that `saltbridge enroll list` shows.',
    status: 404,
  },
  ERR_TICKET: {
    meaning: 'The bridge did not issue the ticket, or has deleted its enrolment.',
    action: 'Create a new enrolment, and pass its ticket to the machine unchanged.',
    status: 403,
  },
  ERR_TICKET_BOUND: {
    meaning: 'The ticket was issued for another id, project, instance or address.',
    action: 'Use the ticket on the machine for which it was issued, or create a new enrolment.',
    status: 403,
  },
  ERR_TICKET_EXPIRED: {
    meaning: 'The ticket has expired.',
    action: 'Create a new enrolment; `enroll: ticket_lifetime` sets the validity of tickets.',
    status: 403,
  },
  ERR_TICKET_KEY: {
    meaning: 'The file of the key that signs tickets is invalid.',
    action: 'Restore enroll/ticket.key, or remove it, which invalidates all open tickets.',
    status: 500,
  },
  ERR_TICKET_SPENT: {
    meaning: 'The ticket was already used, or its enrolment has ended; a ticket is valid once.',
    action: 'Create a new enrolment; if you did not use the ticket, retire the minion.',
    status: 403,
  },
  ERR_DATA_ALTERED: {
    meaning: 'A program other than this bridge wrote the value in etcd or ZooKeeper.',
    action:
      'Find out which programs can write to etcd or ZooKeeper below `prefix`. Delete the key there, and let its role write the value again.',
    status: 409,
  },
  ERR_DATA_BUSY: {
    meaning: 'Too many reads of the data space are waiting, for this guest or in total.',
    action: 'Wait until some reads end, or read fewer values at a time.',
    retry: true,
    status: 429,
  },
  ERR_DATA_DENIED: {
    meaning: 'The guest may not read or write this value of the data space.',
    action:
      'Declare the value in the roles of the stack, and add a rule that permits the runners `saltbridge_data.*`.',
    status: 403,
  },
  ERR_DATA_EXISTS: {
    meaning:
      'The owner already has a data space with this name, or one of the minions belongs to another data space.',
    action: 'Choose another name, remove the existing space, or replace it with --replace.',
    status: 409,
  },
  ERR_DATA_FORM: {
    meaning: 'The registration of a data space is invalid, or a template cannot be compiled.',
    action:
      'Correct the role, value or field that the message names; docs/data-space-reference.md describes the form.',
    status: 400,
  },
  ERR_DATA_LIMIT: {
    meaning: 'The number or the size of the registered data spaces reaches its limit.',
    action: 'Remove the data spaces of deleted stacks.',
    retry: true,
    status: 503,
  },
  ERR_DATA_QUOTA: {
    meaning: 'The number or the size of the values of a stack reaches its limit.',
    action:
      'Write fewer or smaller values, or raise `bytes_per_stack` or `keys_per_stack` under `guests: data:`.',
    status: 413,
  },
  ERR_DATA_TIMEOUT: {
    meaning: 'A reader waited for a value, but no minion wrote it in time.',
    action: 'Check the minion that the message names. It should have written the value.',
    retry: true,
    status: 504,
  },
  ERR_DATA_UNAVAILABLE: {
    meaning: 'The etcd or ZooKeeper that stores the values of data spaces is unavailable.',
    action: 'Retry; `saltbridge doctor` and the log of the master show the cause.',
    retry: true,
    status: 503,
  },
  ERR_DATA_UNKNOWN: {
    meaning: 'No data space has this name, or the guest has no role in a data space.',
    action: 'Use a name that `saltbridge bridge data list` prints; register the minion in a role.',
    status: 404,
  },
  ERR_DATA_VALUE: {
    meaning:
      'A value of the data space is too long, is not text, or is text that Salt would interpret.',
    action:
      'Write at most 64 KiB of UTF-8 text; encode text that Salt would interpret, such as slots, as base64.',
    status: 400,
  },
  ERR_DATA_WRITTEN: {
    meaning: 'The value was already written, and its declaration permits only one write.',
    action: 'If the value changes, declare it with `versioned: true`.',
    status: 409,
  },
  ERR_HANDLE_AMBIGUOUS: {
    meaning:
      'Several owners or stacks have a handle with this alias, and the request does not name one of them.',
    action:
      'Name the owner with `--owner` or the stack with `--stack`; `saltbridge bridge handle list` shows both.',
    status: 409,
  },
  ERR_HANDLE_EXISTS: {
    meaning: 'The owner, or one of the minions, already has a handle with this alias.',
    action: 'Choose another alias, remove the handle, or replace it with --replace.',
    status: 409,
  },
  ERR_HANDLE_FORM: {
    meaning:
      'The registration of a handle is invalid, or the destination of its signals cannot be parsed.',
    action:
      "Correct the field that the message names; docs/signals-reference.md lists all forms of Heat's handles.",
    status: 400,
  },
  ERR_HANDLE_LIMIT: {
    meaning: 'The size of the handles of the owner, or of all handles, reaches its limit.',
    action:
      'Remove unused handles (expired ones are removed after a day), or raise handle_bytes_per_owner or handle_bytes.',
    retry: true,
    status: 503,
  },
  ERR_HANDLE_UNKNOWN: {
    meaning: 'No handle with this alias is registered, or the handle of a signal was removed.',
    action: 'Use a handle that `saltbridge bridge handle list` shows.',
    status: 404,
  },
  ERR_SIGNAL_QUOTA: {
    meaning: 'The outbox is full, in total or for this minion, owner or stack.',
    action:
      'Wait until signals are delivered, drop some, or raise the quota that the message names.',
    retry: true,
    status: 503,
  },
  ERR_SIGNAL_UNKNOWN: {
    meaning:
      'The outbox has no signal with this id, or the operation does not apply to the state of the signal.',
    action: 'Use a signal that `saltbridge bridge outbox list` shows.',
    status: 404,
  },
  ERR_STACK_EXISTS: {
    meaning: 'The owner already has a stack with this name.',
    action: 'Choose another name, remove the stack, or replace it with --replace.',
    status: 409,
  },
  ERR_STACK_FORM: {
    meaning: 'The registration of a stack is invalid.',
    action: 'Correct the field that the message names; docs/deployments-reference.md lists them.',
    status: 400,
  },
  ERR_STACK_LIMIT: {
    meaning: 'The number of registered stacks reaches its limit, or a registration is too large.',
    action: 'Remove unused stacks, or register fewer servers at a time.',
    retry: true,
    status: 503,
  },
  ERR_STACK_UNKNOWN: {
    meaning: 'No stack has this name, or several owners have a stack with this name.',
    action: 'Use a name that `saltbridge bridge stack list` prints, and name the owner.',
    status: 404,
  },
} as const satisfies Readonly<Record<string, BridgeErrorEntry>>;

/** Code of an error of the bridge. */
export type BridgeErrorCode = keyof typeof bridgeErrors;

/** Error of the bridge. Its message contains the cause and what to do, but no secrets. */
export class BridgeError extends SaltbridgeError<BridgeErrorCode> {}

/** Mistake in a definition of the catalog. */
export interface DefinitionMistake {
  /**
   * Path to the mistake in the definition: names of fields and indexes of lists. Empty for the
   * whole definition.
   */
  readonly path: ValuePath;
  readonly problem: string;
  /** Most similar known name, if the mistake is an unknown name. */
  readonly meant?: string | undefined;
}

/** Error for invalid definitions of the catalog, with the code ERR_CATALOG. */
export class CatalogError extends BridgeError {
  declare readonly mistakes: readonly DefinitionMistake[];

  constructor(name: string, mistakes: readonly DefinitionMistake[], options?: ErrorOptions) {
    super('ERR_CATALOG', mistakes.map((it) => describeMistake(name, it)).join('\n'), options);
    // Not enumerable: otherwise a log line would contain the mistakes twice.
    Object.defineProperty(this, 'mistakes', { value: mistakes, enumerable: false });
  }
}

/** Returns the message for a mistake, with the name of the definition and the path of the field. */
export function describeMistake(name: string, { path, problem }: DefinitionMistake): string {
  return [name, ...(path.length === 0 ? [] : [path.join('.')]), problem].join(': ');
}
