import { type ErrorEntry, SaltbridgeError } from '#runtime';

export type CommandErrorCode =
  | 'ERR_ARGS'
  | 'ERR_COMPOUND'
  | 'ERR_EAUTH'
  | 'ERR_FILE_EXISTS'
  | 'ERR_KEY_NO_MATCH'
  | 'ERR_MASTER_NOT_READY'
  | 'ERR_NOT_CONFIRMED'
  | 'ERR_TENANTS';

/** Error of a command, with a message for the user of the command. */
export class CommandError extends SaltbridgeError {
  declare readonly code: CommandErrorCode;

  constructor(code: CommandErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** Meaning of each error code, and what to do. */
export const commandErrors: Readonly<
  Record<Exclude<CommandErrorCode, 'ERR_ARGS' | 'ERR_EAUTH'>, ErrorEntry>
> = {
  ERR_COMPOUND: {
    meaning: 'The number of argument lists does not match the number of functions.',
    action: 'Put one comma between the arguments of one function and the arguments of the next.',
  },
  ERR_FILE_EXISTS: {
    meaning: 'A key file with this name already exists.',
    action: 'Choose another name or directory; existing files are not replaced.',
  },
  ERR_KEY_NO_MATCH: {
    meaning: 'No key in the searched states matches.',
    action: 'Check the list of keys, and the options that include other states.',
    retry: true,
  },
  ERR_MASTER_NOT_READY: {
    meaning: 'A master that was started in the background did not become ready.',
    action: 'Read its log file, or start it in the foreground.',
  },
  ERR_NOT_CONFIRMED: {
    meaning: 'The change of a key was not confirmed.',
    action: 'Answer yes, or add -y.',
    retry: true,
  },
  ERR_TENANTS: {
    meaning: 'The configuration has several tenants, but the command needs a single master.',
    action: "Pass a tenant's own directory, which the message lists, with -c.",
  },
};

/**
 * Hints for the command line, by error code. They are added to messages that all interfaces share.
 */
export const commandHints: ReadonlyMap<string, string> = new Map([
  ['ERR_COMMAND_PARAMETERS', 'saltbridge bridge show describes them'],
  ['ERR_COMMAND_UNKNOWN', 'saltbridge bridge list shows the existing ones'],
  ['ERR_PLAN_UNKNOWN', 'saltbridge bridge list shows the existing ones'],
]);

/**
 * Returns the code of an error of the system or of saltbridge. Returns `undefined` if the error has
 * no code.
 */
export function errorCodeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;
}

/** Exit codes of the commands, by name. */
export const exitCodes = {
  ok: 0,
  /** The command succeeded, but the operation that it ran has failed. */
  failure: 1,
  /** The target of `salt` matched no minion, or no minion returned. */
  noReturn: 2,
  /** `salt` was called without a target or without a function. */
  incomplete: 42,
  usage: 64,
  noUser: 67,
  unavailable: 69,
  /** A bug in saltbridge. */
  software: 70,
  cannotCreate: 73,
  tryAgain: 75,
  notPermitted: 77,
  /** The configuration cannot be used. */
  configuration: 78,
  interrupted: 130,
} as const;

const byCode: ReadonlyMap<string, number> = new Map([
  ['EACCES', exitCodes.notPermitted],
  ['EDQUOT', exitCodes.cannotCreate],
  ['ENOSPC', exitCodes.cannotCreate],
  ['EPERM', exitCodes.notPermitted],
  ['EROFS', exitCodes.cannotCreate],
  ['ERR_ARGS', exitCodes.usage],
  ['ERR_BAD_TGT', exitCodes.usage],
  ['ERR_BRIDGE_NOT_OPEN', exitCodes.unavailable],
  ['ERR_BRIDGE_OPTIONS', exitCodes.configuration],
  ['ERR_BUNDLE_CENTRE', exitCodes.notPermitted],
  ['ERR_BUNDLE_CHECK', exitCodes.configuration],
  ['ERR_BUNDLE_CONTENT', exitCodes.tryAgain],
  ['ERR_BUNDLE_EXPIRED', exitCodes.tryAgain],
  ['ERR_BUNDLE_KEYS', exitCodes.usage],
  ['ERR_BUNDLE_OLD', exitCodes.failure],
  ['ERR_BUNDLE_PATH', exitCodes.configuration],
  ['ERR_BUNDLE_SIGNATURE', exitCodes.notPermitted],
  ['ERR_BUNDLE_VERSION', exitCodes.unavailable],
  ['ERR_CATALOG', exitCodes.configuration],
  ['ERR_CFN_INIT', exitCodes.usage],
  ['ERR_CLOSED', exitCodes.notPermitted],
  ['ERR_COMMAND_BUSY', exitCodes.tryAgain],
  ['ERR_COMMAND_DENIED', exitCodes.notPermitted],
  ['ERR_COMMAND_KEY', exitCodes.usage],
  ['ERR_COMMAND_PARAMETERS', exitCodes.usage],
  ['ERR_COMMAND_TARGET', exitCodes.usage],
  ['ERR_COMMAND_UNKNOWN', exitCodes.usage],
  ['ERR_COMPOUND', exitCodes.incomplete],
  ['ERR_DATA_ALTERED', exitCodes.failure],
  ['ERR_DATA_BUSY', exitCodes.tryAgain],
  ['ERR_DATA_DENIED', exitCodes.notPermitted],
  ['ERR_DATA_EXISTS', exitCodes.failure],
  ['ERR_DATA_FORM', exitCodes.usage],
  ['ERR_DATA_LIMIT', exitCodes.tryAgain],
  ['ERR_DATA_QUOTA', exitCodes.usage],
  ['ERR_DATA_UNAVAILABLE', exitCodes.tryAgain],
  ['ERR_DATA_UNKNOWN', exitCodes.failure],
  ['ERR_DATA_VALUE', exitCodes.usage],
  ['ERR_DATA_WRITTEN', exitCodes.failure],
  ['ERR_DENIED', exitCodes.notPermitted],
  ['ERR_EAUTH', exitCodes.notPermitted],
  ['ERR_EAUTH_LIMIT', exitCodes.tryAgain],
  ['ERR_EAUTH_TOKEN', exitCodes.notPermitted],
  ['ERR_EAUTH_UNAVAILABLE', exitCodes.unavailable],
  ['ERR_ENROLL_ARGS', exitCodes.usage],
  ['ERR_ENROLL_FULL', exitCodes.tryAgain],
  ['ERR_ENROLL_OFF', exitCodes.unavailable],
  ['ERR_EVENT_EXPORT', exitCodes.unavailable],
  ['ERR_EXTENSION_CONFLICT', exitCodes.configuration],
  ['ERR_EXTENSION_CYCLE', exitCodes.configuration],
  ['ERR_EXTENSION_MISSING', exitCodes.configuration],
  ['ERR_FILE_EXISTS', exitCodes.cannotCreate],
  ['ERR_FILE_SYSTEM', exitCodes.cannotCreate],
  ['ERR_GIT', exitCodes.unavailable],
  ['ERR_HANDLE_AMBIGUOUS', exitCodes.usage],
  ['ERR_HANDLE_EXISTS', exitCodes.failure],
  ['ERR_HANDLE_FORM', exitCodes.usage],
  ['ERR_HANDLE_LIMIT', exitCodes.tryAgain],
  ['ERR_HANDLE_UNKNOWN', exitCodes.failure],
  ['ERR_HOLDER_HUNG', exitCodes.unavailable],
  ['ERR_JOB_LIMIT', exitCodes.tryAgain],
  ['ERR_JOB_UNKNOWN', exitCodes.failure],
  ['ERR_LIMIT', exitCodes.tryAgain],
  ['ERR_MASTER_NOT_READY', exitCodes.unavailable],
  ['ERR_MASTER_STOPPED', exitCodes.unavailable],
  ['ERR_NODEGROUP_LOOP', exitCodes.noReturn],
  ['ERR_NODEGROUP_UNKNOWN', exitCodes.usage],
  ['ERR_NOT_CONFIRMED', exitCodes.failure],
  ['ERR_NOT_RELOADABLE', exitCodes.usage],
  ['ERR_NOT_SERVED', exitCodes.usage],
  ['ERR_NO_HOLDER', exitCodes.tryAgain],
  ['ERR_OPTIONS_DIFFER', exitCodes.configuration],
  ['ERR_ORCHESTRATION', exitCodes.failure],
  ['ERR_ORDER_DENIED', exitCodes.notPermitted],
  ['ERR_ORDER_INVALID', exitCodes.usage],
  ['ERR_ORDER_UNKNOWN', exitCodes.usage],
  ['ERR_OUTCOME_UNKNOWN', exitCodes.tryAgain],
  ['ERR_OWN_KEY', exitCodes.unavailable],
  ['ERR_PACKAGE_MISSING', exitCodes.unavailable],
  ['ERR_PILLAR_FILE', exitCodes.failure],
  ['ERR_PILLAR_SOURCE', exitCodes.unavailable],
  ['ERR_PLAN_GROUPS', exitCodes.usage],
  ['ERR_PLAN_UNKNOWN', exitCodes.usage],
  ['ERR_PROJECT', exitCodes.notPermitted],
  ['ERR_REACTION_UNKNOWN', exitCodes.usage],
  ['ERR_READER_DROPPED', exitCodes.tryAgain],
  ['ERR_REHOME_CENTRE', exitCodes.usage],
  ['ERR_REHOME_EXPIRED', exitCodes.failure],
  ['ERR_REHOME_KEYS', exitCodes.notPermitted],
  ['ERR_REHOME_OLD', exitCodes.failure],
  ['ERR_REHOME_SITE', exitCodes.usage],
  ['ERR_REHOME_STATEMENT', exitCodes.usage],
  ['ERR_RELEASE', exitCodes.usage],
  ['ERR_RENDERER', exitCodes.failure],
  ['ERR_RENDER_GIVEN_UP', exitCodes.tryAgain],
  ['ERR_REVISION', exitCodes.tryAgain],
  ['ERR_RPC_UNKNOWN_METHOD', exitCodes.unavailable],
  ['ERR_RSA_OVERLOAD', exitCodes.tryAgain],
  ['ERR_RUN_UNKNOWN', exitCodes.failure],
  ['ERR_SEAL', exitCodes.unavailable],
  ['ERR_SIGNAL_QUOTA', exitCodes.tryAgain],
  ['ERR_SIGNAL_UNKNOWN', exitCodes.failure],
  ['ERR_SITE_CLOCK', exitCodes.tryAgain],
  ['ERR_SITE_LINK', exitCodes.tryAgain],
  ['ERR_SITE_MESSAGE', exitCodes.failure],
  ['ERR_SITE_NOT_JOINED', exitCodes.configuration],
  ['ERR_SITE_REFUSED', exitCodes.notPermitted],
  ['ERR_SITE_STATE', exitCodes.configuration],
  ['ERR_SITE_SECRETS', exitCodes.configuration],
  ['ERR_SITE_TICKET', exitCodes.notPermitted],
  ['ERR_SITE_UNKNOWN', exitCodes.usage],
  ['ERR_SOCKET', exitCodes.unavailable],
  ['ERR_STACK_FORM', exitCodes.usage],
  ['ERR_STACK_LIMIT', exitCodes.tryAgain],
  ['ERR_TENANT', exitCodes.unavailable],
  ['ERR_TENANTS', exitCodes.usage],
  ['ERR_TLS', exitCodes.configuration],
  ['ERR_UNKNOWN_FUN', exitCodes.usage],
  ['ERR_USER', exitCodes.noUser],
  ['ERR_WAITING_CALLS', exitCodes.tryAgain],
  ['ERR_WATCH_OVERRUN', exitCodes.tryAgain],
  ['ERR_WORK_LIMIT', exitCodes.usage],
  ['ERR_YAML', exitCodes.failure],
]);

const byForm: readonly (readonly [RegExp, number])[] = [
  [/^ERR_(ENROLL|KEY|STACK|TEMPLATE)_|^ERR_KEY$/, exitCodes.failure],
  [/^ERR_HTTP_/, exitCodes.unavailable],
  // Another program violates Salt's protocol.
  [
    /^ERR_(BAD|MASTER)_|^ERR_(ALGORITHM|DECRYPT|EXPIRED|NONCE|PAYLOAD_LIMIT|TOKEN)$/,
    exitCodes.unavailable,
  ],
  [/^ERR_TICKET/, exitCodes.unavailable],
  [/^ERR_(CONFIG|OPTION|POLICY)_/, exitCodes.configuration],
  [/^ERR_(CONNECT|LISTEN|PKI_DIR)$/, exitCodes.unavailable],
  [/^ERR_(STORE|CLUSTER)_/, exitCodes.unavailable],
  [/_TIMEOUT$/, exitCodes.tryAgain],
];

/** Returns the exit code for an error code, or `undefined` if the error is unexpected. */
export function exitCodeOf(errorCode: string): number | undefined {
  return byCode.get(errorCode) ?? byForm.find(([form]) => form.test(errorCode))?.[1];
}
