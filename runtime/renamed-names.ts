/** Names that were used before the first release, with the names that replaced them. */

/** Where a name is used. Files have `snake_case`, programs `camelCase`. */
export type RenameScope =
  /** The configuration: `saltbridge: bridge: handles:`. */
  | 'bridge:handles'
  /** The configuration: a reaction in `saltbridge: reactions:`. */
  | 'reaction'
  /** A program: the options of `reaction`. */
  | 'reaction options'
  /** A program: a command or a plan. */
  | 'definition options'
  /** A method's parameters: of the interface, or of an extension. */
  | 'method parameters'
  /** A catalog file: `concurrency` of a command. */
  | 'concurrency'
  /** A catalog file: a command or a plan. */
  | 'definition'
  /** A catalog file: a step of a plan. */
  | 'step'
  /** A program: a step of a plan. */
  | 'step options'
  /** A catalog file or a program: a keyword in the JSON Schema of parameters. */
  | 'schema'
  /** The command line: subcommands with their flags. */
  | 'salt'
  | 'enroll create';

const renamedNames: Readonly<Record<RenameScope, Readonly<Record<string, string>>>> = {
  'bridge:handles': {
    life: 'handle_ttl',
    retry_first: 'retry_initial_delay',
    retry_most: 'retry_max_delay',
    keep_dead: 'dead_letter_ttl',
  },
  reaction: { at_once: 'max_concurrent', once_per: 'throttle', once_by: 'throttle_key' },
  'reaction options': {
    atOnce: 'maxConcurrent',
    oncePer: 'throttleSeconds',
    onceBy: 'throttleKey',
    timeout: 'timeoutSeconds',
  },
  'definition options': { timeout: 'timeoutSeconds' },
  'method parameters': {
    timeout: 'timeoutSeconds',
    gatherJobTimeout: 'gatherJobTimeoutSeconds',
    tokenExpire: 'tokenExpireSeconds',
    lifetime: 'lifetimeSeconds',
  },
  concurrency: { perTarget: 'per_target' },
  definition: {},
  step: { atATime: 'batch_size', tolerate: 'max_failures', onFailure: 'on_failure' },
  'step options': { atATime: 'batchSize', tolerate: 'maxFailures' },
  schema: {
    'x-dash': 'x-allow-leading-dash',
    'x-lines': 'x-allow-newlines',
    'x-quoted': 'x-quoted-by-template',
  },
  salt: { '--plan': '--dry-run' },
  'enroll create': { '--beside': '--merge-user-data' },
};

/** The name that replaced `name`; `undefined` if it was not renamed. */
export function newNameOf(scope: string, name: string): string | undefined {
  const names = isScope(scope) ? renamedNames[scope] : {};
  return Object.hasOwn(names, name) ? names[name] : undefined;
}

/** What an error says of `name`; `undefined` if it was not renamed. */
export function renameProblem(scope: string, name: string): string | undefined {
  const newName = newNameOf(scope, name);
  return newName === undefined ? undefined : `this was renamed: write ${newName}`;
}

function isScope(scope: string): scope is RenameScope {
  return Object.hasOwn(renamedNames, scope);
}
