import { type Command, Option } from 'commander';
import { literalGlob } from '#acl';
import type { KeyInfo, KeyState, MasterApi } from '#master';
import { compileGlob } from '#template/python/fnmatch.ts';
import type { CommandContext } from '../context.ts';
import { CommandError, exitCodes } from '../errors.ts';
import {
  configOption,
  jsonOption,
  logLevelOption,
  parseCount,
  withCommonOptions,
} from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';
import { generateKeyFiles } from './key-files.ts';
import { fingerprintKeys, listKeys, printKeys } from './key-show.ts';

type KeyChange = Awaited<ReturnType<MasterApi['keys']['accept']>>[number];

/** Operation that changes keys. */
export type KeyOperation = 'accept' | 'reject' | 'delete';

/** Options of a command that changes keys, with commander's names. */
export interface KeyChangeOptions {
  readonly fingerprint?: string;
  readonly yes?: boolean;
  readonly state?: KeyState;
  readonly json?: boolean;
  readonly includeAccepted?: boolean;
  readonly includeDenied?: boolean;
  readonly includeRejected?: boolean;
}

const ownStates: Readonly<Record<KeyOperation, readonly KeyState[]>> = {
  accept: ['pending'],
  reject: ['pending'],
  delete: ['accepted', 'denied', 'pending', 'rejected'],
};

const participles: Readonly<Record<KeyOperation, string>> = {
  accept: 'accepted',
  reject: 'rejected',
  delete: 'deleted',
};

/** Changes the matching keys. Asks for confirmation before, unless `-y` is given. */
async function changeKeys(
  operation: KeyOperation,
  api: MasterApi['keys'],
  glob: string,
  options: KeyChangeOptions,
  context: CommandContext,
): Promise<void> {
  const include = includedStates(options);
  const changes = options.yes
    ? await api[operation]({
        match: glob,
        include,
        ...stateSelection(options),
        ...fingerprintSelection(options),
      })
    : await changeConfirmed(operation, api, glob, options, context);
  if (changes === undefined) {
    await printLine(context.stderr, 'Nothing was changed.');
    context.setExitCode(exitCodes.failure);
    return;
  }
  if (operation === 'accept') await reportInvalidKeys(api, glob, options, context);
  if (changes.length === 0) throw noMatchError(statesOf(operation, options), glob);
  if (options.json) await printJson(context.stdout, changes);
  else {
    for (const { id } of changes) {
      await printLine(
        context.stdout,
        `Key for minion ${escapeName(id)} ${participles[operation]}.`,
      );
    }
  }
}

/** Prints a message about each matching key that cannot be accepted. */
async function reportInvalidKeys(
  api: MasterApi['keys'],
  glob: string,
  options: KeyChangeOptions,
  { stderr, setExitCode }: CommandContext,
): Promise<void> {
  const matches = compileGlob(glob);
  const states = statesOf('accept', options);
  for (const { id, state, isInvalid } of await api.list()) {
    if (!isInvalid || !states.includes(state) || !matches(id)) continue;
    await printLine(stderr, `saltbridge: ${invalidKeyText(id)}`);
    setExitCode(exitCodes.failure);
  }
}

/** Returns Salt's message about a key that cannot be accepted. */
export function invalidKeyText(id: string): string {
  return `Unable to accept invalid key for ${escapeName(id)}.`;
}

/**
 * Shows the keys and asks for confirmation. Then changes each key by its id and fingerprint, so
 * that a key that arrives after the question stays unchanged. Returns `undefined` if the user does
 * not confirm.
 */
async function changeConfirmed(
  operation: KeyOperation,
  api: MasterApi['keys'],
  glob: string,
  options: KeyChangeOptions,
  context: CommandContext,
): Promise<KeyChange[] | undefined> {
  const { ask, stderr } = context;
  if (ask === undefined) {
    throw new CommandError(
      'ERR_NOT_CONFIRMED',
      'cannot ask for confirmation without a terminal; add -y',
    );
  }
  const matches = compileGlob(glob);
  const states = statesOf(operation, options);
  const keys = (await api.list()).filter(({ id, state }) => states.includes(state) && matches(id));
  if (keys.length === 0) throw noMatchError(states, glob);
  await printLine(stderr, `The following keys are going to be ${participles[operation]}:`);
  for (const { id, state, fingerprint } of keys) {
    await printLine(stderr, `  ${escapeName(id)}  ${state}  ${fingerprint}`);
  }
  if (!/^y(es)?$/i.test((await ask('Proceed? [y/N] ')).trim())) return undefined;
  const changes: KeyChange[] = [];
  for (const key of keys) {
    if (operation === 'accept' && key.isInvalid) continue;
    const changed = await changeKey(operation, api, key, options);
    if (changed.length === 0) await warnKeyChanged(key, context);
    changes.push(...changed);
  }
  return changes;
}

/**
 * Prints a warning about a key that changed while the command waited for the answer of the user.
 */
async function warnKeyChanged({ id }: KeyInfo, context: CommandContext): Promise<void> {
  const message = `saltbridge: the key of ${escapeName(id)} has changed in the meantime and was not modified`;
  await printLine(context.stderr, message);
  context.setExitCode(exitCodes.failure);
}

/** Changes one key, if it is still the key that was shown. */
export function changeKey(
  operation: KeyOperation,
  api: MasterApi['keys'],
  { id, state, fingerprint }: Pick<KeyInfo, 'id' | 'state' | 'fingerprint'>,
  options: Pick<KeyChangeOptions, 'fingerprint'>,
): Promise<readonly KeyChange[]> {
  return api[operation]({
    match: literalGlob(id),
    state,
    fingerprint,
    ...fingerprintSelection(options),
  });
}

function fingerprintSelection({ fingerprint }: KeyChangeOptions): {
  readonly fingerprint?: string;
} {
  return fingerprint === undefined ? {} : { fingerprint };
}

function stateSelection({ state }: KeyChangeOptions): { readonly state?: KeyState } {
  return state === undefined ? {} : { state };
}

function statesOf(operation: KeyOperation, options: KeyChangeOptions): readonly KeyState[] {
  const { state } = options;
  return state === undefined ? [...ownStates[operation], ...includedStates(options)] : [state];
}

function includedStates(options: KeyChangeOptions): KeyState[] {
  const states: KeyState[] = [];
  if (options.includeAccepted) states.push('accepted');
  if (options.includeDenied) states.push('denied');
  if (options.includeRejected) states.push('rejected');
  return states;
}

function noMatchError(states: readonly KeyState[], glob: string): CommandError {
  const names = states.join(', ');
  return new CommandError('ERR_KEY_NO_MATCH', `no key matches ${glob} (looked in: ${names})`);
}

interface ConfigOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

interface GenerateOptions {
  readonly dir: string;
  readonly name: string;
  readonly bits: number;
  readonly json?: boolean;
}

/**
 * Subcommands that change keys, with their help texts. A subcommand changes keys in a state of
 * `include` only if the user gives the option `--include-<state>`.
 */
const operations: readonly {
  readonly operation: KeyOperation;
  readonly description: string;
  readonly include: readonly KeyState[];
}[] = [
  {
    operation: 'accept',
    description: 'accept keys of pending minions, so that they can sign in',
    include: ['rejected', 'denied'],
  },
  {
    operation: 'reject',
    description: 'reject keys of pending minions',
    include: ['accepted', 'denied'],
  },
  { operation: 'delete', description: 'delete keys, whatever their state is', include: [] },
];

/** Defines `saltbridge key`, which corresponds to `salt-key`. */
export function defineKey(command: Command, context: CommandContext): void {
  addShowCommands(command, context);
  for (const { operation, description, include } of operations) {
    const changed = command
      .command(operation)
      .description(description)
      .argument('<glob>', 'ids of minions, as a glob')
      .addOption(configOption())
      .option('--fingerprint <fingerprint>', 'change only the key with this fingerprint')
      .option('-y, --yes', 'do not ask for confirmation');
    for (const state of include)
      changed.option(`--include-${state}`, `include keys in the state ${state}`);
    if (operation === 'delete') {
      const state = new Option('--state <state>', 'delete only keys in this state');
      changed.addOption(state.choices(['accepted', 'denied', 'pending', 'rejected']));
    }
    changed
      .addOption(jsonOption())
      .addOption(logLevelOption())
      .action(async (glob: string, options: KeyChangeOptions & ConfigOptions) => {
        await withKeys(options.configDir, context, (keys) =>
          changeKeys(operation, keys, glob, options, context),
        );
      });
  }
  command
    .command('unpin')
    .description('permit a minion to sign in with a lower protocol version than before')
    .argument('<id>', 'id of the minion, not a glob')
    .addOption(configOption())
    .addOption(logLevelOption())
    .action(async (id: string, { configDir }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) => keys.unpin(id));
    });
  addGenerateCommand(command, context);
}

function addShowCommands(key: Command, context: CommandContext): void {
  withCommonOptions(key.command('list').description('list all keys, grouped by state')).action(
    async ({ configDir, json }: ConfigOptions) => {
      await withKeys(configDir, context, (keys) =>
        listKeys(keys, { isJson: json === true }, context),
      );
    },
  );
  withCommonOptions(
    key
      .command('finger')
      .description('show fingerprints')
      .argument('[glob]', "ids of minions, as a glob (default: all ids, and the master's key)"),
  ).action(async (glob: string | undefined, { configDir, json }: ConfigOptions) => {
    await withKeys(configDir, context, (keys) =>
      fingerprintKeys(keys, glob, { isJson: json === true }, context),
    );
  });
  withCommonOptions(
    key
      .command('print')
      .description('show public keys')
      .argument('<glob>', 'ids of minions, as a glob'),
  ).action(async (glob: string, { configDir, json }: ConfigOptions) => {
    await withKeys(configDir, context, (keys) =>
      printKeys(keys, glob, { isJson: json === true }, context),
    );
  });
}

function addGenerateCommand(key: Command, context: CommandContext): void {
  key
    .command('gen')
    .description('create a key pair for a minion')
    .option('--dir <dir>', 'directory for <name>.pem and <name>.pub', '.')
    .requiredOption('--name <name>', 'base name of both files')
    .option('--bits <n>', 'key size in bits', parseCount, 2048)
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ json, ...options }: GenerateOptions) => {
      await generateKeyFiles(options, { isJson: json === true }, context);
    });
}

/**
 * Calls a function with the keys of the running master. If no master is running, uses the keys in
 * its PKI directory.
 */
async function withKeys(
  configDir: string,
  context: CommandContext,
  use: (keys: MasterApi['keys']) => Promise<void>,
): Promise<void> {
  const { keys, close } = await context.openKeys(configDir);
  try {
    await use(keys);
  } finally {
    await close();
  }
}
